"""A lesson in Notebook 7, and its exported page without a network."""

import shutil

import pytest

from tests.browser.lab import CHROMIUM, ROOT, WITHOUT, Lesson, browser, server, wait_for_change
from tests.pages import Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
LESSON = ROOT / "notebooks" / "01_single_head.ipynb"


def test_a_lesson_runs_and_a_view_moves_in_notebook_7(tmp_path):
    shutil.copy(LESSON, tmp_path)
    with server(tmp_path, "notebook") as address, browser() as chromium:
        lesson = Lesson(chromium, address, LESSON.name, road="notebooks")
        lesson.run_all()
        assert not lesson.errors()
        (cell, *_) = lesson.cells_with_views()
        view = lesson.view(cell)
        view.scroll_into_view_if_needed()
        before = view.evaluate("view => view.outerHTML")
        handle = lesson.cell(cell).locator(".noUi-handle:visible").first
        box = handle.bounding_box()
        lesson.page.mouse.move(box["x"] + 5, box["y"] + 5)
        lesson.page.mouse.down()
        lesson.page.mouse.move(box["x"] + 60, box["y"] + 5, steps=5)
        lesson.page.mouse.up()
        wait_for_change(lesson, cell, before)


def test_an_exported_page_is_whole_without_a_network(tmp_path):
    page, _ = Page().from_filename(LESSON)
    (tmp_path / "lesson.html").write_text(page, "utf-8")
    with browser() as chromium:
        context = chromium.new_context(offline=True)
        opened = context.new_page()
        opened.goto((tmp_path / "lesson.html").as_uri(), wait_until="domcontentloaded")
        widths = opened.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
        assert len(widths) >= 2 and min(widths) > 300
        text = opened.inner_text("body")
        assert "In words:" in text and "mha from" in text and "run this cell for a view" in text
