"""A deck in Chromium, at 1280 by 720 and without a network."""

import nbformat
import pytest

from tests import slides, slides_check
from tests.browser.lab import CHROMIUM, WITHOUT, browser, offline_page
from tests.outputs import NOTEBOOKS

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT),
    pytest.mark.skipif(
        not slides.REVEAL.exists(), reason="NOT CHECKED: reveal.js is not here; `make slides` fetches it"
    ),
]


LESSON = "04_counting_parameters.ipynb"


def deck():
    return slides.deck(nbformat.read(NOTEBOOKS / LESSON, as_version=4), LESSON)


def test_no_slide_runs_over_and_all_can_be_read(tmp_path, capsys):
    path = tmp_path / "deck.html"
    path.write_text(deck(), "utf-8")
    assert slides_check.complaints([path]) == 0, capsys.readouterr().out


def test_a_slide_that_runs_over_or_is_too_small_is_found(tmp_path):
    path = tmp_path / "deck.html"
    page = deck()
    with browser() as chromium:
        for style, kind in (
            ("p { width: 3000px !important }", "over"),
            (".reveal .slides p { font-size: 9px !important }", "small"),
        ):
            path.write_text(page.replace("</head>", f"<style>{style}</style></head>"), "utf-8")
            opened = offline_page(chromium, [], 1280, 720)
            assert any(measured[kind] for _, _, measured in slides_check.visit(opened, path))
            opened.close()
