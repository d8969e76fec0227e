"""Small edits of a function, one at a time: a swapped or squeezed axis, a dropped factor, another number.

`make mutants MODULES="mha.heads mha.pruning"` tries them all on a module, with `1/5` among the names one in five.
"""

import ast
import copy
import importlib.machinery
import importlib.util
import inspect
import os
import signal
import sys
import textwrap
from pathlib import Path

import hypothesis  # noqa: F401  these two are loaded once, before any child
import pytest
import torch  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
# Survivors that no test can miss: a draw is never exactly p; the device matters on a GPU alone.
DRAW = "torch.rand(len(x), 1, attention.num_heads, 1, device=x.device)"
EXPLAINED = (
    f"mha.pruning drop_heads {DRAW} >= p → {DRAW} > p",
    f"mha.pruning drop_heads {DRAW} → torch.rand(len(x), 1, attention.num_heads, 1)",
)

OPERATORS = {
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Pow: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS = {
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt, ast.Eq),
    ast.Eq: (ast.NotEq, ast.GtE, ast.LtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.NotEq: (ast.Eq,),
    ast.IsNot: (ast.Is,),
    ast.Is: (ast.IsNot,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.LtE: (ast.Lt, ast.GtE),
}


def edits(node, names):
    """Other nodes that could stand in this one's place."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (
            ast.Constant(value) for value in sorted({node.value + 1, node.value - 1, 0, -node.value} - {node.value})
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BinOp):
        yield node.left
        yield node.right
        if not isinstance(node.op, ast.Mult):  # a · b is b · a
            yield ast.BinOp(node.right, node.op, node.left)
        yield from (ast.BinOp(node.left, op(), node.right) for op in OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.Compare):
        yield from (ast.Compare(node.left, [op()], node.comparators) for op in COMPARISONS.get(type(node.ops[0]), ()))
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            of = node.func.value
            if not isinstance(of, ast.Name | ast.Constant) or getattr(of, "id", None) in names:
                yield of
            if node.func.attr not in ("size", "dim"):
                yield ast.Call(ast.Attribute(node, "squeeze", ast.Load()), [], [])
        for i in range(len(node.args) - 1):
            swapped = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            yield ast.Call(node.func, swapped, node.keywords)
        for i in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield from (ast.Name(other, ast.Load()) for other in names if other != node.id)
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for i in range(len(node.elts) - 1):
            swapped = [*node.elts[:i], node.elts[i + 1], node.elts[i], *node.elts[i + 2 :]]
            yield ast.Tuple(swapped, ast.Load())
    elif isinstance(node, ast.If):
        yield ast.Pass()


def variants(tree, definition):
    """All small edits of a function's body, one at a time: pairs (what was edited, the whole tree as text).

    Annotations and the words of messages stay.
    """
    names = [argument.arg for argument in definition.args.args]
    everything = list(ast.walk(tree))
    at = {id(node): number for number, node in enumerate(everything)}
    seen = {ast.unparse(tree)}
    for node in (node for statement in definition.body for node in code(statement)):
        for number, new in enumerate(edits(node, names)):
            changed = copy.deepcopy(tree)
            old = list(ast.walk(changed))[at[id(node)]]
            put = list(edits(old, names))[number]
            text = ast.unparse(ast.fix_missing_locations(_Replace(old, put).visit(changed)))
            if text not in seen:
                seen.add(text)
                yield f"{node.lineno}: {brief(node)} → {brief(new)}", text


def code(node):
    """This node and those below it, without annotations and without the words of messages."""
    if not isinstance(node, ast.JoinedStr):
        yield node
        for name, field in ast.iter_fields(node):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                    yield from code(child)


def brief(node):
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return text if len(text) < 80 else text[:77] + "…"


def mutants(function):
    """All functions that differ from this one by one small edit: pairs (its text, function)."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for _, text in variants(tree, tree.body[0]):
        scope = dict(function.__globals__)
        exec(compile(text, "<mutant>", "exec"), scope)
        yield text, scope[function.__name__]


class _Replace(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


# `make mutants`: the same for a module of the package, against the module's own tests.


def tests_of(module):
    """The files that test this module."""
    _, room, *_ = module.split(".")
    own = {"checks": "attention heads explore", "addresses": "explore", "views": "explore", "svg": "explore"}
    return [f"tests/test_{name}.py" for name in own.get(room, room).split()]


class Edited(importlib.machinery.SourceFileLoader):
    """Finds and loads this one module with another text."""

    def __init__(self, module, path, text):
        super().__init__(module, str(path))
        self.text = text

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname):
        return compile(self.text, self.path, "exec")


def survives(module, path, text, seconds=120):
    """Whether the module's tests pass with this text in its place, in a child that has loaded nothing of ours."""
    child = os.fork()
    if not child:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        signal.alarm(seconds)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.meta_path.insert(0, Edited(module, path, text))
        try:
            os._exit(pytest.main(["-x", "-q", "-o", "addopts=", "-p", "no:cacheprovider", *tests_of(module)]))
        finally:
            os._exit(99)
    return os.waitpid(child, 0)[1] == 0


def main(modules, part=1):
    """Try every edit, or one in `part`, of these modules, or of all, and print what nobody misses."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.glob("mha/**/*.py"))}
    for module in modules or [name for name in paths if "exercises" not in name and "__init__" not in name]:
        tree = ast.parse(paths[module].read_text("utf-8"))
        if not survives(module, paths[module], ast.unparse(tree)):
            sys.exit(f"{module}: {' '.join(tests_of(module))} fail as they are")
        tried = left = known = 0
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        inner = {id(node) for function in functions for node in ast.walk(function) if node is not function}
        for function in (function for function in functions if id(function) not in inner):
            for number, (edit, text) in enumerate(variants(tree, function)):
                if number % part == 0:
                    tried += 1
                    if survives(module, paths[module], text):
                        where = f"{module} {function.name} {edit.partition(': ')[2]}"
                        known += where in EXPLAINED
                        left += where not in EXPLAINED
                        print(f"  {where}   line {edit.partition(':')[0]}", flush=True)
        print(f"{module}: {tried} edits, {left} nobody misses, {known} more are explained", flush=True)


if __name__ == "__main__":
    part = [word.removeprefix("1/") for word in sys.argv[1:] if word.startswith("1/")]
    main([word for word in sys.argv[1:] if not word.startswith("1/")], int(part[0]) if part else 1)
