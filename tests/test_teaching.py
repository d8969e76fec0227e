"""`notebooks/teaching.md`, for instructors: cells are there and in order, minutes add up, mistakes exist."""

import inspect
import re

import nbformat
import pytest

from mha.exercises.judge import exercises
from mha.runtime import setup
from tests.outputs import NOTEBOOKS

PAGE = (NOTEBOOKS / "teaching.md").read_text("utf-8")
LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
ROUTES = {"In 50 minutes": 50, "In 20 minutes": 20}
STEP = re.compile(r"- \*\*(\d+) min\*\* \[[^\]]+\]\(([^)#]+)#cell-id=([^)]+)\)\. (.+)")
SILENT, ALOUD, COMMIT = 200, 130, 0.5  # words a minute, words a minute, minutes for a room to write an answer down

every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def sections(text, mark):
    """{heading: text below it} of the headings that begin with this mark."""
    parts = re.split(rf"^{mark} (.+)$", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def cells(path):
    return nbformat.read(path, as_version=4).cells


def lesson(path):
    """The page's section on this lesson; its title is the lesson's own."""
    title = cells(path)[0].source.splitlines()[0].removeprefix("# ")
    return sections(PAGE, "##")[title]


def steps(path, route):
    """(minutes, file, cell, words) of each step of a route; whatever else begins a line of its list is an error."""
    lines = [line for line in sections(lesson(path), "###")[route].splitlines() if line.startswith(("-", "*"))]
    found = [STEP.fullmatch(line) for line in lines]
    assert all(found), [line[:80] for line, step in zip(lines, found, strict=True) if not step]
    return [(int(minutes), file, place, words) for minutes, file, place, words in (step.groups() for step in found)]


def words(text):
    """How many words there are, answers that are folded away not counted."""
    return len(re.sub(r"<details>.*?</details>", "", text, flags=re.S).split())


def test_every_lesson_has_its_section_and_no_other_has():
    titles = [title for title in sections(PAGE, "##") if title[0].isdigit()]
    assert titles == [cells(path)[0].source.splitlines()[0].removeprefix("# ") for path in LESSONS]


def test_every_link_leads_to_a_cell_or_a_file():
    ids = {path.name: {cell.id for cell in cells(path)} for path in LESSONS}
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(links) > 100
    for link in links:
        file, _, place = link.partition("#cell-id=")
        assert link.startswith(("#", "https://")) or (NOTEBOOKS / file).exists(), link
        assert not place or place in ids[file], link


@every_lesson
@pytest.mark.parametrize("route", ROUTES)
def test_a_route_goes_forward_and_fits_its_time(path, route):
    """Forward: whoever presses Shift + Enter from step to step runs each cell once, so none lacks what it needs."""
    order = [cell.id for cell in cells(path)]
    found = steps(path, route)
    assert {file for _, file, _, _ in found} == {path.name}
    at = [order.index(place) for _, _, place, _ in found]
    assert at == sorted(set(at))
    total = sum(minutes for minutes, *_ in found)
    assert 0.8 * ROUTES[route] <= total <= ROUTES[route], total


@every_lesson
@pytest.mark.parametrize("route", ROUTES)
def test_a_step_has_time_for_what_it_does(path, route):
    """To read what stands there, to say what stands here, to answer, and to do the exercise."""
    page = cells(path)
    by_id = {cell.id: number for number, cell in enumerate(page)}
    for minutes, _, place, said in steps(path, route):
        cell, above = page[by_id[place]], page[by_id[place] - 1]
        text = [one.source for one in (cell, above) if one.cell_type == "markdown"][:1]
        needed = sum(map(words, text)) / SILENT + words(said) / ALOUD + COMMIT * said.count("Ask:")
        needed += sum(exercises()[number].minutes for number in re.findall(r'check\("([\d.]+)"', cell.source))
        assert needed < minutes + 0.5, (place, round(needed, 1))


@every_lesson
@pytest.mark.parametrize("route", ROUTES)
def test_what_is_asked_is_answered_by_a_cell_not_yet_run(path, route):
    by_id = {cell.id: cell for cell in cells(path)}
    asked = [(place, said) for _, _, place, said in steps(path, route) if "Ask:" in said]
    assert len(asked) >= 3
    for place, said in asked:
        assert re.search(r"Ask: \*.+?\*", said) and "A room says:" in said, place
        assert by_id[place].cell_type == "code" and by_id[place].outputs, place


def test_the_mistakes_that_are_named_are_those_that_the_checks_name():
    named = 0
    for line in PAGE.splitlines():
        number = None
        for token in re.findall(r"\*\*(\d+\.\d)\*\*|`([a-z][\w-]*-[\w-]+)`", line):
            if token[0]:
                number = token[0]
                continue
            found = [one.id for one in exercises().values() if token[1] in {known.name for known in one.mistakes}]
            assert number in found if number else found, f"{token[1]} is no mistake of {number or 'any exercise'}"
            named += 1
    assert named > 30


def test_the_projector_is_switched_on_as_the_page_says():
    (call,) = set(re.findall(r"setup\(([^)]+)\)", PAGE))
    assert {part.split("=")[0].strip() for part in call.split(",")} <= set(inspect.signature(setup).parameters)
