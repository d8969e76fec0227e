"""`make grade FOLDER=…`: a class's answers at a glance, as a page, a CSV file and a picture in dist/grade.

FOLDER holds a notebook a learner, named after the learner, or a folder a learner, with one notebook or several.  Each
answer is judged as `check` judges it in the lesson, whatever the notebook has stored: solved, a mistake by its name,
an error, not tried.  Nothing of a notebook is run but the definitions that its answers need, each notebook's in a
process of its own that cannot do harm: `tests/grading/fence.py` says what it may do, and where that does not hold.

What is judged is what an answer does.  Who calls the course's own functions, or has copied the solution, has solved it,
too: this shows an instructor what a room knows, and is no examination.

There are two well-kept graders.  nbgrader keeps a whole course: it makes assignments of marked cells, hands them out
and collects them on a JupyterHub, runs each notebook's tests, lets people mark the rest, and keeps the marks in a
database; its own FAQ, in the version we read, says that it does not protect against unsafe code.  Otter-Grader
runs an instructor's tests on a folder of notebooks, each in a Docker container, or behind Gradescope and Canvas.
Both need tests written for each question, and say which test failed.  This needs a folder and nothing else, says
which mistake was made, gives no points, and knows no exercises but the course's.  Take nbgrader to hand out, collect
and mark; Otter for exercises of your own, or a service; this to see in a minute what to explain to the room.
"""

import csv
import json
import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import torch

from mha import palette
from mha.exercises.compare import describe
from mha.exercises.judge import exercises
from mha.exercises.sandbox import Stopped
from mha.figures import look
from mha.labels import short
from tests.grading import apart, fence

ROOT = Path(__file__).resolve().parent.parent
LARGEST, MOST = 50 << 20, 20  # bytes of a notebook, and notebooks of a learner, that are read
LONGEST = 2000  # letters of what is said of an answer
RANK = {"solved": 0, "not tried": 2}  # between them: mistakes and errors
COMMONEST = 3  # mistakes of an exercise in the picture


@dataclass
class Row:
    """A learner: by exercise what came of it and what to say about it, and why notebooks could not be read.

    results {id: (words, message)}; words: solved, not tried, error…, or a mistake's name.
    """

    learner: str
    results: dict = field(default_factory=dict)
    reasons: list = field(default_factory=list)


def handed_in(folder):
    """The notebooks of each learner, {name: paths}; a link is nobody's notebook, as it may lead anywhere."""
    found = {}
    for path in sorted(Path(folder).iterdir()):
        if not path.name.startswith("."):
            name = path.name if path.is_dir() else path.stem
            inside = sorted(path.rglob("*.ipynb")) if path.is_dir() and not path.is_symlink() else [path]
            found.setdefault(name, []).extend(one for one in inside if ".ipynb_checkpoints" not in one.parts)
    return found


def cells(path):
    """The text of each code cell; ValueError says what is wrong with the file."""
    if path.is_symlink() or not path.is_file() or path.suffix != ".ipynb":
        raise ValueError("no notebook")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MB")
    try:
        notebook = json.loads(path.read_text("utf-8"))
        found = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        found = ["".join(cell["source"]) for cell in found]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, AttributeError):
        raise ValueError("not readable as a notebook: damaged, or saved by halves") from None
    if not any(text.strip() for text in found):
        raise ValueError("a notebook without code")
    return found


def graded(sources, *how):
    """The results of one notebook: its lesson's exercises, and others that are in it, too; ValueError where none is."""
    text, known = "\n".join(sources), exercises().values()
    checked = set(re.findall(r"""check\(\s*["']?(\d+\.\d+)""", text))
    here = [one for one in known if one.id in checked or re.search(rf"\bmy_{one.title}\b", text)]
    if not here:
        raise ValueError("no exercise of the course in it")
    ((lesson, _),) = Counter(one.id.split(".")[0] for one in here).most_common(1)
    found = [one for one in known if one in here or one.id.split(".")[0] == lesson]
    with apart.Process(sources, *how) as process:
        return {exercise.id: _result(process, exercise) for exercise in found}


def _result(process, exercise):
    """What came of an exercise, and what to say; whatever the submission's process replies, it is one of these."""
    try:
        words, message = _asked(process, exercise)
    except Exception as error:
        words, message = "error", f"What it replies cannot be used: {type(error).__name__}."
    return words, message[:LONGEST]


def _asked(process, exercise):
    made = {}
    try:
        made = process.ask("prepare", exercise.id, exercise.title, seconds=apart.READ)
        if "callable" in made:
            words, message = _judged(exercise, apart.Answer(process).checked(exercise.id))
        elif "missing" in made:
            return "not tried", "Its cell is gone."
        elif "error" in made:
            return "error: cell-fails", f"The lines that the answer needs raised {made['error']}."
        elif made.get("value", ...) is ...:
            return "not tried", ""
        else:
            return "error: not-a-function", f"It hands over {describe(made['value'])}, wanted a function."
    except Stopped as stop:
        words = "error: cell-fails"
        message = f"The lines that the answer needs {'take too long' if stop.code is None else 'ended their process'}."
    if process.greedy:
        return "error: too-much-memory", f"It took more than {apart.MEMORY >> 20} MB of memory."
    if process.late():
        return "error: no-time-left", f"The {apart.PATIENCE} s that a learner's notebooks have were used up."
    trouble = str(made.get("trouble", ""))
    return words, f"{message}\nAbove it: {trouble}" if trouble and words not in RANK else message


def _judged(exercise, verdict):
    known = verdict.mistake in [mistake.name for mistake in exercise.mistakes]
    error = f"error: {verdict.mistake}" if verdict.mistake else "error"
    words = {
        "right": "solved",
        "not attempted": "not tried",
        "wrong": verdict.mistake or "another mistake",
        "error": verdict.mistake if known else error,
    }[verdict.status]
    return words, "" if words in RANK else f"{verdict.message}\n{verdict.lines}".strip()


def row(learner, paths, kind, folders):
    """All that a learner has handed in; of an exercise that stands twice, the better."""
    made, until = Row(learner), time.monotonic() + apart.PATIENCE
    for path in paths[:MOST]:
        try:
            for number, result in graded(cells(path), kind, folders, until).items():
                made.results[number] = min(
                    result, made.results.get(number, result), key=lambda one: RANK.get(one[0], 1)
                )
        except (ValueError, OSError) as error:
            made.reasons.append(f"{path.name}: {error}")
    if not paths:
        made.reasons.append("no notebook in the folder")
    if paths[MOST:]:
        made.reasons.append(f"more than {MOST} notebooks: the others were left out")
    return made


def line(text, most=300):
    """Text of a submission as one line that shows; a spreadsheet that reads it must not calculate."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(text))[:most]
    return f"'{text}" if text[:1] in "=+-@" and text else text


def columns(rows):
    """The exercises of all lessons that somebody handed in."""
    return [exercise for exercise in exercises().values() if any(exercise.id in row.results for row in rows)]


def room(rows, exercise):
    """What the room did: how many have solved it, have not tried it, and each mistake or error, the commonest first."""
    words = Counter(row.results[exercise.id][0] for row in rows if exercise.id in row.results)
    solved, untried = words.pop("solved", 0), words.pop("not tried", 0)
    return solved, untried, sorted(words.items(), key=lambda one: (-one[1], one[0]))


@look.own_settings()
def picture(rows, found):
    """The commonest mistakes of each of these exercises as bars; in words, too."""
    groups = []
    for exercise in found:
        solved, untried, mistakes = room(rows, exercise)
        whole = solved + untried + sum(count for _, count in mistakes)
        head = f"{exercise.id} {exercise.title}: {solved} of {whole} solved" + f", {untried} not tried" * bool(untried)
        groups.append((head, mistakes[:COMMONEST]))
    figure = look.sheet(look.width(), 0.9 + 0.27 * sum(1.5 + len(mistakes) for _, mistakes in groups))
    axes, y, ticks = figure.add_subplot(), 0, {}
    most = max([count for _, mistakes in groups for _, count in mistakes], default=1)
    for head, mistakes in groups:
        axes.text(0, y, head, va="center", fontsize=look.LABEL, fontweight="bold")
        for words, count in mistakes:
            y += 1
            ticks[y] = short(words, 44)
            axes.barh(y, count, color=palette.WRONG, height=0.7)
            axes.text(count + 0.01 * most, y, str(count), va="center", fontsize=look.LABEL)
        y += 1.5
    axes.set_yticks(list(ticks), look.drawable(ticks.values()))
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 1.1 * most), ylim=(y - 0.9, -0.7), xlabel="learners")
    axes.xaxis.get_major_locator().set_params(integer=True)
    look.heading(figure, "What is solved, and the commonest mistakes")
    said = {head: ", ".join(f"{words} {count}" for words, count in mistakes) for head, mistakes in groups}
    return look.Picture(figure, " ".join(f"{head}; {words or 'no mistakes'}." for head, words in said.items()))


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A class's answers</title><style>
body {{ font: 16px/1.4 sans-serif; margin: 1.5em; color: {ink}; background: {paper} }} img {{ max-width: 100% }}
table {{ border-collapse: collapse }} th, td {{ border: 1px solid {faint}; padding: .3em .6em; text-align: left;
vertical-align: top }} td p {{ margin: .4em 0; max-width: 24em; white-space: pre-wrap; overflow-wrap: anywhere }}
</style></head><body><h1>A class's answers</h1><p>{about}</p>
{pictures}
<table><tr><th scope="col">learner</th>{heads}<th scope="col">note</th></tr>
{rows}</table></body></html>
"""


def cell(result):
    """A cell of the page: the words alone, or folded over what there is to say."""
    words, message = (escape(text) for text in result)
    return f"<details><summary>{words}</summary><p>{message}</p></details>" if message else words


def write(rows, out, about):
    """answers.csv; for each lesson mistakes_NN.png, with its words in mistakes_NN.txt; and index.html."""
    out.mkdir(parents=True, exist_ok=True)
    found, pictures = columns(rows), ""
    for lesson in sorted({int(exercise.id.split(".")[0]) for exercise in found}):
        drawn = picture(rows, [exercise for exercise in found if exercise.id.startswith(f"{lesson}.")])
        (out / f"mistakes_{lesson:02}.png").write_bytes(drawn.png)
        (out / f"mistakes_{lesson:02}.txt").write_text(drawn.alt + "\n", "utf-8")
        pictures += f'<p><img src="mistakes_{lesson:02}.png" alt="{escape(drawn.alt)}"></p>'
    names = [f"{exercise.id} {exercise.title}" for exercise in found]
    with (out / "answers.csv").open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.writer(file)
        table.writerow(["learner", *names, "note"])
        for row in rows:
            words = [row.results.get(exercise.id, ("not handed in",))[0] for exercise in found]
            table.writerow([line(text) for text in (row.learner, *words, "; ".join(row.reasons))])
    lines = []
    for row in rows:
        results = "".join(f"<td>{cell(row.results.get(exercise.id, ('not handed in', '')))}" for exercise in found)
        note = escape("; ".join(map(line, row.reasons)))
        lines.append(f'<tr><th scope="row">{escape(line(row.learner))}</th>{results}<td>{note}</tr>')
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    colours = {"ink": palette.INK, "paper": palette.PAPER, "faint": palette.FAINT}
    page = PAGE.format(about=escape(about), pictures=pictures, heads=heads, rows="\n".join(lines), **colours)
    (out / "index.html").write_text(page, "utf-8")


def fenced():
    """The strongest fence that holds on this machine, and the folders that it leaves readable."""
    folders = fence.readable()
    for kind in dict.fromkeys((fence.strongest(), "Python")):
        try:
            with apart.Process([], kind, folders) as process:
                process.start()
                return kind, folders
        except (OSError, Stopped) as error:
            print(f"No {kind} fence here: {error}")
    raise SystemExit("No process could be fenced in here, so nothing was run.")


def main(folder, out=ROOT / "dist" / "grade"):
    if not folder or not Path(folder).is_dir():
        way = "make grade FOLDER=…, with one notebook a learner in it, or a folder a learner"
        raise SystemExit(f"FOLDER={folder} is no folder. Wanted: {way}.")
    folder, out = Path(folder), Path(out)
    torch.set_num_threads(1)
    begin = time.monotonic()
    kind, folders = fenced()
    inside = [one for one in folders if folder.resolve().is_relative_to(one) or out.resolve().is_relative_to(one)]
    if inside:
        raise SystemExit(f"Submissions could read each other in {inside[0]}: put the class's folder somewhere else.")
    print(fence.SAYS[kind])
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        rows = list(pool.map(lambda one: row(*one, kind, folders), handed_in(folder).items()))
    about = (
        f"{len(rows)} learners, {len(columns(rows))} exercises, {time.monotonic() - begin:.0f} s. {fence.SAYS[kind]}"
    )
    write(rows, out, about)
    print(f"{about}\nSee {out / 'index.html'}, answers.csv and the pictures beside it.")
    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
