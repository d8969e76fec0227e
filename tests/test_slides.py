"""Slides: what a deck holds, and what its speaker reads."""

import re

import nbformat
import pytest

from tests import slides
from tests.outputs import NOTEBOOKS

TEACHING = """## 01 · One attention head

### In 50 minutes

- **4 min** [the five lines](01_single_head.ipynb#cell-id=cell-10). Ask: *what does a row sum to?* A room says:
  *the columns, too*. Because it has seen one.
- **2 min** [one score](01_single_head.ipynb#cell-id=cell-06c). Point at the row.

### In 20 minutes

- **3 min** [the five lines](01_single_head.ipynb#cell-id=cell-10). Read them aloud.
"""


def read(path):
    return nbformat.read(path, as_version=4)


def test_a_speaker_reads_what_both_routes_say_of_a_cell():
    notes = slides.read_teaching(TEACHING, "01_single_head.ipynb")
    assert notes == {
        "cell-10": [
            "**In 50 minutes, 4 min.** Ask: *what does a row sum to?* A room says: *the columns, too*. Because it has "
            "seen one.",
            "**In 20 minutes, 3 min.** Read them aloud.",
        ],
        "cell-06c": ["**In 50 minutes, 2 min.** Point at the row."],
    }
    assert slides.read_teaching(TEACHING, "02_why_several_heads.ipynb") == {}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_step_of_a_route_becomes_a_note(path):
    teaching = slides.TEACHING.read_text("utf-8")
    told = slides.read_teaching(teaching, path.name)
    assert sum(map(len, told.values())) == len(
        re.findall(rf"^- \*\*\d+ min\*\* \[[^]]*\]\({path.name}#", teaching, re.M)
    )
    assert len(told) > 5 and set(told) <= {cell.id for cell in read(path).cells}


def test_a_paragraph_is_cut_between_sentences():
    text = "**Heads add up.** Clark et al. 2019 saw it. Is it so? $W_O$ decides. (So they say.)"
    assert slides.sentences(text)[:2] == ["**Heads add up.**", "Clark et al. 2019 saw it."]


@pytest.mark.skipif(not slides.REVEAL.exists(), reason="NOT CHECKED: reveal.js is not here; `make slides` fetches it")
def test_a_deck_needs_nothing_but_itself_and_shows_each_figure_with_its_words():
    path = NOTEBOOKS / "01_single_head.ipynb"
    page = slides.deck(read(path), path.name, slides.TEACHING.read_text("utf-8"))
    assert "<script src" not in page
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?!data:)', page)
    stored = [
        output.metadata["image/png"]["alt"]
        for cell in read(path).cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert stored and len(re.findall(r"<img ", page)) >= len(stored)
    assert "find_spec" not in page  # the folded cell is for a notebook
    assert page.count("A room says") > 5
