"""Small edits of a function, one at a time: a swapped or squeezed axis, a dropped factor, another number."""

import ast
import copy
import inspect
import textwrap

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
    """All small edits of a function's body, one at a time: (line, what was edited, the whole tree, the same as text).

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
            text = ast.unparse(changed := ast.fix_missing_locations(_Replace(old, put).visit(changed)))
            if text not in seen:
                seen.add(text)
                yield node.lineno, f"{brief(node)} → {brief(new)}", changed, text


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
    for _, _, _, text in variants(tree, tree.body[0]):
        scope = dict(function.__globals__)
        exec(compile(text, "<mutant>", "exec"), scope)
        yield text, scope[function.__name__]


class _Replace(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)
