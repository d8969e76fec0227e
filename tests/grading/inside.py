"""The submission's side of the fence: run as `python inside.py KIND FOLDER …`, it answers what `apart` asks.

It gets a notebook's cells as text, makes the answer to an exercise from those lines alone that the answer needs, and
calls it.  Whatever the submission's code does to this process, it can say no more than what its answer returned: what
that is worth is decided in another process, which shares no memory with this one and believes nothing but plain values.
"""

import ast
import builtins
import linecache
import os
import pickle
import symtable
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # instead of this folder

from mha.exercises import sandbox
from mha.exercises.compare import Odd
from tests.grading import fence, wire


def statements(sources):
    """The cells' statements in order, each with its own names {made here, used}; and the cells that are no Python."""
    found, broken = [], []
    for number, source in enumerate(sources, 1):
        name = f"code cell {number}"
        try:
            tree = ast.parse(source, name)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            try:
                from IPython.core.inputtransformer2 import TransformerManager

                source = TransformerManager().transform_cell(source)  # %time, !pip and the like
                tree = ast.parse(source, name)
            except Exception as error:
                broken.append((source, error))
                continue
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        found += [(name, statement) for statement in tree.body]
    return found, broken


def names(statement):
    """The global names that a statement binds, and those that it, or a function in it, uses."""
    try:
        table = symtable.symtable(ast.unparse(statement), "a statement", "exec")
    except (SyntaxError, RecursionError):
        return set(), set()
    binds = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    uses, tables = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}, table.get_children()
    while tables:
        inner = tables.pop()
        uses |= {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        tables += inner.get_children()
    return binds, uses


def find(found, number, title):
    """Where the answer is handed to `check` for the last time, and the expression; or its function; or None."""
    for place in reversed(range(len(found))):
        for node in ast.walk(found[place][1]):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None))
            arguments = [*node.args, *(word.value for word in node.keywords)] if called == "check" else []
            if len(arguments) > 1 and str(getattr(arguments[0], "value", None)) == number:
                return place, arguments[1]
    for place in reversed(range(len(found))):
        if getattr(found[place][1], "name", None) == f"my_{title}":
            return place, ast.parse(f"my_{title}", mode="eval").body
    return None


def make(found, place, expression):
    """The answer, from the definitions it needs: those above it, else those below; and what went wrong with them."""
    known = [names(statement) for _, statement in found]
    wanted, chosen = names(ast.Expr(expression))[1], set()
    while wanted:
        name = wanted.pop()
        above = [number for number in range(place + 1) if name in known[number][0]]
        for number in above or [number for number in range(place + 1, len(found)) if name in known[number][0]]:
            if number not in chosen:
                chosen.add(number)
                wanted |= known[number][1]
    scope, trouble = {"__name__": "__main__", "__builtins__": builtins}, []
    for number in sorted(chosen):
        file, statement = found[number]
        try:
            exec(compile(ast.Module([statement], []), file, "exec"), scope)
        except BaseException as error:
            trouble.append(f"{file}, line {statement.lineno}: {type(error).__name__}: {error}"[:300])
    return eval(compile(ast.Expression(expression), "the check", "eval"), scope), trouble


class Submission:
    """One notebook.  Each method answers one kind of question with what JSON and `wire` can carry."""

    def __init__(self):
        self.found, self.broken, self.answer = [], [], ...

    def read(self, sources):
        self.found, self.broken = statements(sources)
        return {}

    def prepare(self, number, title):
        """Make the answer to this exercise: whether it is there, a function, or what else it is."""
        place = find(self.found, number, title)
        if place is None:
            cells = [(text, error) for text, error in self.broken if number in text or f"my_{title}" in text]
            return {"error": f"{type(cells[-1][1]).__name__}: {cells[-1][1]}"[:300]} if cells else {"missing": True}
        try:
            self.answer, trouble = make(self.found, *place)
        except BaseException as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}
        if isinstance(self.answer, type):
            return {"value": Odd(f"the class {self.answer.__name__}")}
        return {"trouble": "; ".join(trouble)} | (
            {"callable": True} if callable(self.answer) else {"value": self.answer}
        )

    def call(self, arguments, names, shaken):
        """What `sandbox.run` finds out about one call, the time aside: that is watched from outside."""
        outcome = sandbox.run(self.answer, arguments, names, float("inf"), shaken)
        error = outcome.error and [type(outcome.error).__name__, str(outcome.error)[:1000]]
        return vars(outcome) | {"error": error, "lines": outcome.lines[:2000]}


def main(kind, *folders):
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    submission = Submission()
    try:
        fence.close(kind, folders)
        wire.send(answers, {"fence": kind})
    except OSError as error:
        wire.send(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    with sandbox._alone():  # one thread; and what patches torch is told
        while True:
            question, *rest = pickle.load(questions)
            try:
                reply = getattr(submission, question)(*rest)
            except BaseException as error:  # KeyboardInterrupt, raised by an answer
                reply = {"error": [type(error).__name__, str(error)[:1000]]}
            try:
                wire.send(answers, reply)
            except OSError:
                return
            except Exception:  # an odd object may raise wherever it is looked at
                wire.send(answers, reply | {"value": Odd("a value that cannot be looked at")})


if __name__ == "__main__":
    main(*sys.argv[1:])
