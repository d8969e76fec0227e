"""Lessons as lone files, no package and no network, in a real JupyterLab in Chromium: Run All, then move.

Every one in CI; elsewhere three, as each takes twenty seconds.
"""

import io
import os

import numpy as np
import pytest
from PIL import Image

from tests import handouts
from tests.browser.lab import CHROMIUM, ROOT, WITHOUT, Lesson, browser, press, server, wait_for_change
from tests.places import bare, inside

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb" if os.environ.get("CI") else "0[147]*.ipynb"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """(Chromium, the address of a JupyterLab over the lone files, their folder)."""
    place = tmp_path_factory.mktemp("far away") / "très loin"
    handouts.main(place)
    fence = tmp_path_factory.mktemp("fence")  # a home of its own: JupyterLab itself wants one
    with server(place, environment=bare(fence, HOME=str(fence))) as address, browser() as chromium:
        yield chromium, address, place


def pixels(view):
    return np.asarray(Image.open(io.BytesIO(view.screenshot())).convert("L"))


def shown(place):
    """All files of a folder but JupyterLab's own, settings and checkpoints."""
    hidden = {".jupyter", ".ipynb_checkpoints"}
    return {path: data for path, data in inside(place).items() if not hidden & set(path.parts)}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lone_file_runs_to_its_end_and_its_views_move(lab, path):
    chromium, address, place = lab
    before = shown(place)
    lesson = Lesson(chromium, address, path.name)
    lesson.run_all(240)
    assert not lesson.errors()
    views = path.read_text("utf-8").count("run this cell for a view that you can move")
    lesson.page.wait_for_function("n => document.querySelectorAll('svg[role=img]').length >= n", arg=views)
    cells = lesson.cells_with_views()
    assert len(cells) == views > 0
    for cell in cells:
        move(lesson, cell)
    assert shown(place) == before  # nothing was written beside them
    assert not lesson.complaints
    lesson.end()


def move(lesson, cell):
    """Press an arrow key, and see that the picture changed; text that can be typed counts when Enter is pressed."""
    view = lesson.view(cell)
    view.scroll_into_view_if_needed()
    words, before = view.evaluate("view => view.outerHTML"), pixels(view)
    handle = lesson.cell(cell).locator(".noUi-handle:visible").first
    at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
    press(lesson, cell, "ArrowLeft" if at_end else "ArrowRight")
    wait_for_change(lesson, cell, words)
    after = pixels(view)
    assert before.shape != after.shape or (before != after).mean() > 0.0005
    box = lesson.cell(cell).locator("input[type=text]")
    if box.count():
        words = view.evaluate("view => view.outerHTML")
        box.fill("5/3/79")
        box.press("Enter")
        wait_for_change(lesson, cell, words)
        assert "5/3/79 → 1979-05-03" in view.get_attribute("aria-label")
