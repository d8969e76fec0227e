"""A class's answers at a glance: each by its name, and nothing that a submission does reaches beyond it."""

import csv
import io
import json
import os
import re
import socket
import struct
from types import SimpleNamespace

import psutil
import pytest
import torch
from PIL import Image

from mha.exercises.compare import Odd
from mha.exercises.judge import exercises
from tests import grade
from tests.grading import apart, fence, inside, wire
from tests.outputs import NOTEBOOKS

LESSON = ("3.1", "3.2", "3.3", "3.4", "3.5")
NAMED = ("3.1", "3.2", "3.5")  # each of their mistakes is made by somebody of the class


def code(number, mistake=None):
    """A learner's answer: the reference, or one of its known mistakes, under the lesson's name."""
    exercise = exercises()[number]
    text = exercise.edited(mistake.edits) if mistake else exercise.source
    return text.replace(f"def {exercise.title}(", f"def my_{exercise.title}(")


def attacking(number, attack):
    """The right answer, but for what it does first."""
    head, *body = code(number).splitlines()
    return "\n".join([head, *(f"    {line}" for line in attack.splitlines()), *body])


def notebook(answers, above=("import math",), path="03_reshape_into_heads.ipynb"):
    """The lesson as saved with these answers {exercise: code}, and cells of the learner's own at the top."""
    saved = json.loads((NOTEBOOKS / path).read_text("utf-8"))
    for cell in saved["cells"]:
        text = "".join(cell["source"])
        for number, answer in answers.items():
            if cell["cell_type"] == "code" and f'check("{number}"' in text:
                begin, end = text.index("def my_"), text.index("check(")
                cell["source"] = f"{text[:begin]}{answer}\n\n\n{text[end:]}"
    own = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text} for text in above]
    return json.dumps(saved | {"cells": [*own, *saved["cells"]]})


def mistakes(number):
    return [mistake for mistake in exercises()[number].mistakes if mistake.edits]


def table(out):
    with (out / "answers.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["learner"]: {name.partition(" ")[0]: words for name, words in row.items()} for row in rows}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Twenty learners, some of whom solve, some err, some do not try; and what cannot be read."""
    folder, out, wanted = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out"), {}
    for place in range(20):
        answers, wanted[f"learner {place:02}"] = {}, {}
        for number in LESSON:
            made = mistakes(number) if number in NAMED else []
            words = made[place].name if place < len(made) else ("solved", "not tried")[place % 2]
            wanted[f"learner {place:02}"][number] = words
            if words != "not tried":
                answers[number] = code(number, made[place] if place < len(made) else None)
        (folder / f"learner {place:02}.ipynb").write_text(notebook(answers), "utf-8")
    two = folder / "several lessons"
    (two / "more").mkdir(parents=True)
    (two / "01.ipynb").write_text(notebook({"1.2": code("1.2")}, (), "01_single_head.ipynb"), "utf-8")
    (two / "more" / "03.ipynb").write_text(notebook({"3.1": code("3.1")}), "utf-8")
    (folder / "empty.ipynb").touch()
    (folder / "halved.ipynb").write_text(notebook({})[:5000], "utf-8")
    (folder / "deep.ipynb").write_text("[" * 100_000, "utf-8")
    (folder / "no cells.ipynb").write_text('{"nbformat": 4}', "utf-8")
    (folder / "no code.ipynb").write_text('{"cells": []}', "utf-8")
    (folder / "elsewhere.ipynb").write_text('{"cells": [{"cell_type": "code", "source": "1 + 1"}]}', "utf-8")
    (folder / "nothing").mkdir()
    (folder / "archive.zip").write_bytes(b"PK")
    (folder / "=1+1.ipynb").touch()
    grade.main(folder, out)
    return wanted, folder, out


def test_each_answer_has_its_name(room):
    wanted, _, out = room
    found = table(out)
    assert {name: {number: found[name][number] for number in LESSON} for name in wanted} == wanted
    named = {words for row in wanted.values() for words in row.values()}
    assert named > {mistake.name for number in NAMED for mistake in mistakes(number)}


def test_a_folder_holds_several_lessons(room):
    row = table(room[2])["several lessons"]
    assert row["1.2"] == row["3.1"] == "solved" and row["1.1"] == row["3.2"] == "not tried" and not row["note"]
    assert table(room[2])["learner 00"]["1.1"] == "not handed in"


def test_what_cannot_be_read_is_a_row_with_a_reason(room):
    reasons = {
        "empty": "damaged",
        "halved": "damaged",
        "deep": "damaged",
        "no cells": "damaged",
        "no code": "without code",
        "elsewhere": "no exercise of the course",
        "nothing": "no notebook",
        "archive": "no notebook",
        "'=1+1": "damaged",  # and no spreadsheet adds it up
    }
    rows = table(room[2])
    assert len(rows) == 21 + len(reasons)
    for name, reason in reasons.items():
        assert reason in rows[name]["note"] and rows[name]["3.1"] == "not handed in"


def test_the_picture_and_its_words_count_the_room(room):
    wanted, _, out = room
    words = (out / "mistakes_03.txt").read_text("utf-8")
    for number in LESSON:
        said = [row[number] for row in wanted.values()] + ["solved" if number == "3.1" else "not tried"]
        line = re.search(rf"{re.escape(number)} \w+: ([^;]+);", words)[1]
        assert line == f"{said.count('solved')} of 21 solved, {said.count('not tried')} not tried"
    picture = Image.open(io.BytesIO((out / "mistakes_03.png").read_bytes()))
    assert picture.width <= 1000 and (out / "mistakes_01.png").exists()


def test_the_page_stands_alone_and_says_why(room):
    page = (room[2] / "index.html").read_text("utf-8")
    assert page.count('<th scope="row">') == len(table(room[2])) and "<script" not in page and "http" not in page
    assert "heads-are-slices-of-the-text</summary><p>You named the axes in the order you want" in page
    assert (room[2] / "mistakes_03.txt").read_text("utf-8").strip()[:60] in page


def test_the_fence_leaves_the_course_open_and_nothing_of_the_class():
    folders = fence.readable()
    assert str(grade.ROOT / "mha") in folders and str(grade.ROOT) not in folders
    with pytest.raises(SystemExit, match="somewhere else"):
        grade.main(grade.ROOT / "mha" / "exercises")
    with pytest.raises(SystemExit, match="is no folder"):
        grade.main(grade.ROOT / "nobody")


# Attacks.  Each comes before a right answer: where it is refused it raises, where it has no effect the answer is right.

FILES = {
    "3.1": "import shutil; shutil.rmtree({folder!r})",
    "3.2": "stolen = open({other!r}).read()",
    "3.3": "open({out!r} + '/answers.csv', 'w').write('solved')",
    "3.4": "import os; os.chmod({folder!r}, 0)",
    "3.5": "import os; os.listdir({folder!r}); os.symlink({other!r}, 'x')",
}
PROCESSES = {
    "3.1": "import os\nwhile True: os.fork()",
    "3.2": "import subprocess, sys; subprocess.run([sys.executable, '-c', '0'])",
    "3.3": "import os; os.kill(os.getppid(), 9)",
    "3.4": "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    "3.5": "import socket; socket.create_connection(('127.0.0.1', {port})).send(b'hello')",
}
# The same by the C library, around everything that Python sees; -1 is its word for a refusal.
LIBRARY = "import ctypes, os; C = ctypes.CDLL(None); where = {other!r}.encode()\n"
BENEATH = {
    "3.1": LIBRARY + "assert C.open(where, 0) == C.open(where, 1) == C.open(b'new', 65, 438) == C.unlink(where) == -1",
    "3.2": LIBRARY
    + "assert C.chmod(where, 0) == C.truncate(where, 0) == C.rename(where, b'x') == C.mkdir(b'y', 511) == -1",
    "3.3": LIBRARY + "assert C.fork() == C.vfork() == C.execv(b'/bin/true', None) == -1 and C.system(b'true')",
    "3.4": LIBRARY + "assert C.kill(os.getppid(), 9) == C.kill(-1, 9) == C.setpriority(0, os.getppid(), 19) == -1\n"
    "assert C.fcntl(1, 8, os.getppid()) == C.fcntl(1, 10, 9) == -1",
    "3.5": LIBRARY
    + "assert C.socket(2, 1, 0) == C.socket(2, 2, 0) == C.socket(1, 1, 0) == C.shmget(0, 4096, 512) == -1",
}
ENDS = {
    "3.1": "import os; os._exit(0)",
    "3.2": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "3.3": "import torch; hoard = [torch.ones(10_000_000) for _ in range(10_000)]",
    "3.4": "import os; print('x' * 100_000_000); os.write(1, b'x' * 100_000_000); os.write(2, b'x' * 100_000_000)",
    "3.5": "raise KeyboardInterrupt",
}
# These return what is wrong, and claim that it is right.
PATCHES = """import builtins, sys
from mha.exercises import card, compare, judge, sandbox
from tests.grading import apart, wire
right = card.Verdict('3.1', 'split_heads', 'right')
judge.check = judge._judge = sys.modules['mha.exercises'].check = lambda *any, **more: right
compare.equal = judge.equal = judge.same = builtins.all = lambda *any, **more: True
apart.Answer.checked = lambda *any: right
import torch; torch.equal = torch.isclose = torch.allclose = lambda *any, **more: torch.tensor(True)
card.Verdict.status = property(lambda self: 'right')
"""
FORGES = {
    "3.1": PATCHES,
    "3.2": "print('✓ 3.2 merge_heads: right'); import os; os.write(1, b'solved'); os.environ['SOLVED'] = '3.2'",
    "3.3": "import os\nfor door in range(3, 100):\n    try: os.write(door, b'right' * 100)\n    except OSError: pass",
    "3.5": "from tests.grading import wire\nwire.send = lambda file, reply: (file.write({forged!r}), file.flush())",
    "3.4": "import pickle, os\nclass Evil:\n    def __reduce__(self): return os.mkdir, ({other!r} + '.taken',)\n"
    "for door in range(3, 100):\n    try: os.write(door, pickle.dumps(Evil()))\n    except OSError: pass",
}


def wrong(number, attack):
    head, *_ = code(number).splitlines()
    return "\n".join([head, *(f"    {line}" for line in attack.splitlines()), "    return 'right'"])


@pytest.fixture(scope="module", params=["strongest", "Python"])
def attacked(request, tmp_path_factory):
    """A class with attackers, graded within each fence: (its kind, the table, the verdicts, what was there before)."""
    kind = grade.fenced()[0]
    if request.param == "Python":
        if kind == "Python":
            pytest.skip("that is the strongest here")
        request.getfixturevalue("monkeypatch_module").setattr(fence, "strongest", lambda: "Python")
        kind = "Python"
    folder, out = tmp_path_factory.mktemp("attacked"), tmp_path_factory.mktemp("out")
    honest = folder / "honest.ipynb"
    honest.write_text(notebook({number: code(number) for number in LESSON}), "utf-8")
    (out / "answers.csv").write_text("before", "utf-8")
    (out / "index.html").write_text("before", "utf-8")
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    forged = io.BytesIO()
    wire.send(forged, {"value": "right", "status": "right"})
    names = {
        "folder": str(folder),
        "other": str(honest),
        "out": str(out),
        "port": server.getsockname()[1],
        "forged": forged.getvalue(),
    }
    groups = {"files": FILES, "processes": PROCESSES, "forges": FORGES}
    groups |= ({"ends": ENDS} if request.param == "strongest" else {}) | (
        {"beneath": BENEATH} if kind != "Python" else {}
    )
    for name, attacks in groups.items():
        make = wrong if name == "forges" else attacking
        answers = {number: make(number, attack.format(**names)) for number, attack in attacks.items()}
        (folder / f"attacker {name}.ipynb").write_text(notebook(answers), "utf-8")
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in folder.iterdir()}
    rows = {row.learner: row for row in grade.main(folder, out)}
    yield kind, rows, before, out, server
    server.close()


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def results(attacked, learner):
    return {number: attacked[1][learner].results[number] for number in LESSON}


def test_an_attack_leaves_the_others_and_the_table_as_they_are(attacked):
    _, rows, before, out, server = attacked
    for path, (content, mode) in before.items():
        assert (path.read_bytes(), path.stat().st_mode) == (content, mode)
    assert set(next(iter(before)).parent.iterdir()) == set(before)
    assert table(out).keys() == rows.keys() and "before" not in (out / "index.html").read_text("utf-8")
    assert {words for words, _ in results(attacked, "honest").values()} == {"solved"}
    with pytest.raises(BlockingIOError):  # nobody called
        server.accept()
    assert not [one for one in psutil.Process().children(recursive=True) if "inside.py" in " ".join(one.cmdline())]


@pytest.mark.parametrize("group", ["files", "processes"])
def test_files_processes_and_the_network_are_refused(attacked, group):
    for number, (words, message) in results(attacked, f"attacker {group}").items():
        assert words.startswith("error"), number
        assert any(sign in message for sign in ("PermissionError", "OSError", "ModuleNotFound", "has no attribute"))


def test_around_python_nothing_is_reached_either(attacked):
    if attacked[0] == "Python":
        pytest.skip("that fence says that it does not hold there")
    assert {words for words, _ in results(attacked, "attacker beneath").values()} == {"solved"}


def test_time_memory_and_output_end(attacked):
    if "attacker ends" not in attacked[1]:
        pytest.skip("the same in each fence, and it was tried in the strongest")
    words = [result[0] for result in results(attacked, "attacker ends").values()]
    assert words[:3] == ["error: process-ended", "error: runs-too-long", "error: too-much-memory"]
    assert words[3:] == ["solved", "error"]  # what is printed goes nowhere; KeyboardInterrupt stops nobody


def test_no_submission_says_that_it_is_right(attacked):
    found = results(attacked, "attacker forges")
    assert [words for words, _ in found.values()] == [
        "changes-what-is-not-its-own",
        "error" if attacked[0] == "Python" else "wrong-type",  # there the environment is refused as well
        "error: process-ended",
        "error: process-ended",
        "wrong-type",
    ]  # and `test_an_attack_leaves…` sees that nobody has unpickled anything


def test_a_source_that_is_no_python_is_an_error_of_its_own():
    submission = inside.Submission()
    submission.read(
        ["def my_split_heads(x, num_heads):\n    return x.view(", "(" * 50_000 + 'check("3.2", f)', "f = ("]
    )
    assert "SyntaxError" in submission.prepare("3.1", "split_heads")["error"]
    assert "error" in submission.prepare("3.2", "merge_heads")
    assert submission.prepare("3.3", "multi_head_attention") == {"missing": True}


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_and_pipes_are_nobodys_notebook(tmp_path):
    os.symlink(NOTEBOOKS / "01_single_head.ipynb", tmp_path / "link.ipynb")
    os.symlink(NOTEBOOKS, tmp_path / "linked")
    os.mkfifo(tmp_path / "pipe.ipynb")
    for name, paths in grade.handed_in(tmp_path).items():
        made = grade.row(name, paths, "none", [])
        assert not made.results and "no notebook" in made.reasons[0]


# What an answer needs of its notebook.


def made(*sources, number="3.1"):
    found, _ = inside.statements(sources)
    place = inside.find(found, number, exercises()[number].title)
    return place and inside.make(found, *place)


def test_an_answer_gets_what_it_uses_and_no_more():
    used = "import math\nfactor = 2\nexplode = 1 / 0", "def double(x):\n    return factor * math.floor(x)"
    answer, trouble = made(*used, "raise SystemExit", 'def mine(x):\n    return double(x)\n\ncheck("3.1", mine)')
    assert answer(3.5) == 6 and not trouble
    answer, _ = made("n = 1", 'check("3.1", lambda x: n)', "n = 2")
    assert answer(0) == 1  # as it was above
    answer, _ = made("check(3.1, answer=f)\n", "def f(x):\n    return 5")
    assert answer(0) == 5  # made below, and run before
    answer, trouble = made("rows = load()", 'def f(x):\n    return rows\ncheck("3.1", f)')
    assert "NameError: name 'load'" in trouble[0]
    with pytest.raises(NameError):
        answer(0)
    answer, _ = made("%matplotlib inline\n!ls\nk = 7", "def my_split_heads(x, num_heads):\n    return k")
    assert answer(0, 0) == 7  # its check is gone
    assert made('check("3.2", print)') is None


def test_what_leaves_a_submission_is_plain():
    value = (torch.eye(2), [1, 2.5, None, "text", True], ..., Odd("odd"), torch.ones(2, 3, dtype=torch.float16).T, {1})
    file = io.BytesIO()
    wire.send(file, {"value": value})
    file.seek(0)
    back = wire.receive(file)["value"]
    assert torch.equal(back[0], value[0]) and back[1] == value[1] and back[2] is ... and back[4].dtype == torch.float16
    assert isinstance(back[3], Odd) and type(back[5]).__name__ == "set" and not isinstance(back[5], set)
    for bad in (b"x" * 16, struct.pack("QQ", 2, 0) + b"[]", struct.pack("QQ", 1 << 60, 0)):
        with pytest.raises(ValueError, match="message"):
            wire.receive(io.BytesIO(bad))
    with pytest.raises(EOFError):
        wire.receive(io.BytesIO(b""))


@pytest.mark.parametrize(
    "reply",
    [
        {"callable": True, "trouble": torch.ones(2), "error": torch.ones(2)},
        {"callable": True, "error": ["a\0b", "c"]},
        {"callable": True, "changed": ["x" * 100] * 100_000},
        {"value": Odd("x" * 1_000_000)},
        {"error": "x" * 1_000_000},
    ],
)
def test_no_reply_takes_the_grader_down(reply):
    process = SimpleNamespace(ask=lambda *any, seconds: reply, greedy=False, late=lambda: False)
    words, message = grade._result(process, exercises()["3.1"])
    assert words not in ("solved", "not tried") and len(message) <= grade.LONGEST


def test_a_learner_has_only_so_long(monkeypatch, tmp_path):
    monkeypatch.setattr(apart, "PATIENCE", 3)  # less than the 5 s of one answer: it is used up in the first
    answer = attacking("3.1", "import time; time.sleep(60)")
    (tmp_path / "slow.ipynb").write_text(notebook({"3.1": answer, "3.2": answer}), "utf-8")
    found = grade.row("slow", list(tmp_path.iterdir()), *grade.fenced()).results
    assert {words for words, _ in found.values()} == {"error: no-time-left"} and len(found) == 5
