"""Small edits of a function, one at a time: a swapped or squeezed axis, a dropped factor, another number."""

import ast
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
        number = any(isinstance(getattr(side, "value", None), int | float) for side in (node.left, node.right))
        either = isinstance(node.op, ast.Mult | ast.BitAnd) or (number and isinstance(node.op, ast.Add))
        if not either:  # a · b is b · a
            yield ast.BinOp(node.right, node.op, node.left)
        yield from (ast.BinOp(node.left, op(), node.right) for op in OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.Compare):
        comparators, (first, *others) = node.comparators, node.ops
        kinds = COMPARISONS.get(type(first), ())
        if isinstance(getattr(comparators[0], "value", None), str):
            kinds = kinds[:1]  # words are equal or not, and not less or more
        yield from (ast.Compare(node.left, [op(), *others], comparators) for op in kinds)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            of = node.func.value
            if not isinstance(of, ast.Name | ast.Constant) or getattr(of, "id", None) in names:
                yield of
            if node.func.attr not in ("size", "dim"):
                yield ast.Call(ast.Attribute(node, "squeeze", ast.Load()), [], [])
        for i in range(len(node.args) - 1 if getattr(node.func, "attr", "") != "transpose" else 0):  # (1, 2) is (2, 1)
            swapped = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            yield ast.Call(node.func, swapped, node.keywords)
        for i in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    elif isinstance(node, ast.Attribute) and node.attr == "T" and isinstance(node.ctx, ast.Load):
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
    """All small edits of a function's body, one at a time: (line, what was edited); `tree` has it until the next comes.

    Annotations and the words of messages stay.
    """
    names = [argument.arg for argument in definition.args.args]
    seen = {ast.unparse(definition)}
    for parent, place in code(definition, ("args", "decorator_list")):
        old = _at(parent, place)
        for new in edits(old, names):
            ast.fix_missing_locations(ast.copy_location(new, old))
            _put(parent, place, new)
            text = ast.unparse(definition)
            if text not in seen:
                seen.add(text)
                yield old.lineno, f"{brief(old)} → {brief(new)}"
            _put(parent, place, old)


def code(node, left_out=()):
    """Where the nodes below this one are: (parent, (field, number)); no annotations, no words of messages."""
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", *left_out):
            for number, child in enumerate(field if isinstance(field, list) else [field]):
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    if hasattr(child, "lineno"):
                        yield node, (name, number if isinstance(field, list) else None)
                    yield from code(child)


def _at(parent, place):
    field, number = getattr(parent, place[0]), place[1]
    return field if number is None else field[number]


def _put(parent, place, node):
    if place[1] is None:
        setattr(parent, place[0], node)
    else:
        getattr(parent, place[0])[place[1]] = node


def brief(node):
    return " ".join(ast.unparse(node).split())


def mutants(function):
    """All functions that differ from this one by one small edit: pairs (its text, function)."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for _ in variants(tree, tree.body[0]):
        scope = dict(function.__globals__)
        exec(compile(text := ast.unparse(tree), "<mutant>", "exec"), scope)
        yield text, scope[function.__name__]
