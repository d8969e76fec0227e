"""`make class-load` itself needs a JupyterHub; here is what it would notice, and what it counts."""

import ast
import asyncio
import builtins
import copy
import dis
import json
import re

import nbformat
import pytest
from nbformat.v4 import new_output

from mha.exercises.judge import exercises
from tests import class_load
from tests.outputs import NOTEBOOKS

LESSON = "01_single_head"


class Kernel:
    """A connection that tells what a kernel tells while it runs a cell, in answer to the request's own number."""

    def __init__(self, *told):
        self.told, self.number = list(told), None

    async def write_message(self, message):
        self.number = json.loads(message)["header"]["msg_id"]

    async def read_message(self):
        if not self.told:
            return None
        kind, content = self.told.pop(0)
        parent = {"msg_id": self.number}
        return json.dumps({"header": {"msg_type": kind}, "parent_header": parent, "content": content, "metadata": {}})


def ran(*told):
    return asyncio.run(class_load.run(Kernel(*told), "1 / 0"))


DONE = ("execute_reply", {"execution_count": 3}), ("status", {"execution_state": "idle"})


@pytest.fixture
def lesson():
    return nbformat.read(NOTEBOOKS / f"{LESSON}.ipynb", 4)


@pytest.fixture
def done(lesson):
    """The lesson as a learner leaves it who has solved everything."""
    for cell in (cell for cell in lesson.cells if "\ncheck(" in cell.source):
        cell.source, _ = class_load.answer(cell.source, "anna")
        cell.outputs = [new_output("execute_result", {"text/plain": "✓ 1.1: right"})]
    return lesson


def stored():
    return nbformat.read(NOTEBOOKS / f"{LESSON}.ipynb", 4)


def test_what_a_kernel_tells_becomes_outputs_and_the_end_is_noticed_in_either_order():
    wrong = "error", {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": []}
    for end in (DONE, DONE[::-1]):
        (output,), number = ran(wrong, *end, ("stream", {"name": "stdout", "text": "later"}))
        assert output.ename == "ZeroDivisionError" and number == 3


@pytest.mark.parametrize("told", [[], [("status", {"execution_state": "restarting"}), *DONE]], ids=["lost", "died"])
def test_a_kernel_that_is_lost_or_dies_has_not_finished(told):
    with pytest.raises(ConnectionError):
        ran(*told)


def test_a_lesson_done_well_has_no_faults(done):
    assert class_load.faults(stored(), done) == []


def test_an_error_another_output_and_a_wrong_answer_are_faults(done):
    shown = [
        cell for cell in done.cells if "print(" in cell.source and "stream" in {o.output_type for o in cell.outputs}
    ]
    (asked, *_) = (cell for cell in done.cells if "\ncheck(" in cell.source)
    failed, changed = shown[-2:]
    failed.outputs = [new_output("error", ename="KeyError", evalue="'x'", traceback=[])]
    changed.outputs = []
    asked.outputs = [new_output("execute_result", {"text/plain": "✗ 1.1: wrong"})]
    found = class_load.faults(stored(), done)
    assert len(found) == 3
    for cell, words in ((failed, "KeyError"), (changed, "shows ''"), (asked, "wrong")):
        assert any(fault.startswith(f"{cell.id} ") and words in fault for fault in found), found


def test_a_lost_letter_is_noticed(done):
    returned = copy.deepcopy(done)
    assert class_load.essence(returned) == class_load.essence(done)
    returned.cells[-1].source = returned.cells[-1].source[:-1]
    assert class_load.essence(returned) != class_load.essence(done)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_exercise_gets_an_answer_of_the_learner(path):
    asking = [cell.source for cell in nbformat.read(path, 4).cells if "\ncheck(" in cell.source]
    assert asking
    for source in asking:
        written, answered = class_load.answer(source, "anna")
        assert answered and ast.parse(written) and "\n# anna\n" in f"\n{written}" and "return ...\n" not in written
    assert class_load.answer("print(1)", "anna") == ("print(1)", False)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_solution_prints_finds_its_names_in_the_lesson(path):
    known = set()
    for cell in (cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"):
        known |= {step.argval for step in dis.get_instructions(cell.source) if step.opname == "STORE_NAME"}
        for number in re.findall(r'^check\("([\d.]+)"', cell.source, re.M):
            steps = dis.get_instructions(exercises()[number].reference)
            needed = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"} - set(dir(builtins))
            assert needed <= known, f"the solution of {number} needs {needed - known}, which the lesson has not yet"


def test_what_stops_one_learner_stops_nobody_else():
    async def step(learner):
        if learner.name == "anna":
            raise TimeoutError("too long")
        learner.started = 1

    anna, ben = (class_load.Learner(name, "", None) for name in ("anna", "ben"))
    asyncio.run(class_load.together([anna, ben], step))
    assert anna.faults == ["TimeoutError: too long"] and ben.started == 1 and ben.faults == []


def test_the_table_ends_in_the_median_and_the_largest():
    took = {name: dict.fromkeys(class_load.COLUMNS, number) for name, number in (("a", 1), ("b", 2), ("c", 9))}
    lines = [line.split() for line in class_load.table(took)]
    assert lines[-2:] == [["median", *["2"] * 5], ["largest", *["9"] * 5]]


def test_something_wrong_ends_with_one(monkeypatch, capsys):
    monkeypatch.setattr(class_load.sys, "platform", "linux")
    for wrong in ([], ["anna did not finish"]):

        async def teach(count, lessons, folder, wrong=wrong):
            assert count == 2 and lessons == [LESSON]
            return wrong

        monkeypatch.setattr(class_load, "teach", teach)
        assert class_load.main("2", "01") == bool(wrong)
        assert ("nothing was lost" in capsys.readouterr().out) == (not wrong)
