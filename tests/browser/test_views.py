"""Views in a real JupyterLab in Chromium, moved with the keyboard."""

import base64
import io

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

from tests.browser.lab import CHROMIUM, WITHOUT, Lesson, browser, press, server, wait_for_change
from tests.outputs import METADATA

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
CELLS = [
    "import torch\nfrom mha import explore\n"
    "weights = torch.randn(12, 16, 16, generator=torch.Generator().manual_seed(0)).mul(2).softmax(dim=-1)\n"
    "view = explore.heads(weights, [f't{i}' for i in range(16)])\nview",
    "explore.mask()",
    "import matplotlib.pyplot as plt\nprint('open figures:', len(plt.get_fignums()))\nprint(view.values()['head'])",
    "import time\ntime.sleep(3)",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """(Chromium, the address of a JupyterLab over a page of views)."""
    folder = tmp_path_factory.mktemp("views")
    page = new_notebook(cells=[new_code_cell(source) for source in CELLS], metadata=METADATA)
    nbformat.write(page, folder / "views.ipynb")
    with server(folder) as address, browser() as chromium:
        yield chromium, address


@pytest.fixture
def open_lesson(lab):
    """A function that opens a notebook and runs all of it; what its console says is looked at in the end."""
    opened = []

    def opening(name):
        opened.append(Lesson(*lab, name))
        opened[-1].run_all()
        return opened[-1]

    yield opening
    for lesson in opened:
        lesson.close()
        assert not lesson.complaints


def text(view):
    return view.evaluate("view => view.outerHTML")


def test_nothing_is_blank_between_two_states(open_lesson):
    lesson = open_lesson("views.ipynb")
    view, frames = lesson.view(0), []
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    camera = lesson.page.context.new_cdp_session(lesson.page)

    def keep(event):
        frames.append(event["data"])
        camera.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    camera.on("Page.screencastFrame", keep)
    camera.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
    for move in range(20):
        before = text(view)
        press(lesson, 0, "ArrowRight" if move % 2 == 0 else "ArrowLeft")
        wait_for_change(lesson, 0, before)
    camera.send("Page.stopScreencast")
    assert len(frames) >= 10
    for frame in frames:
        assert ink(frame, box) > 0.02, "a blank frame"
    assert view.bounding_box() == box  # nothing jumped


def ink(frame, box):
    """The share of a frame's pixels inside the box that are not white."""
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(frame))).convert("L"))
    x, y, width, height = (int(box[key]) for key in ("x", "y", "width", "height"))
    return (picture[max(y, 0) : y + height, x : x + width] < 200).mean()


def test_two_views_on_one_page_move_apart(open_lesson):
    lesson = open_lesson("views.ipynb")
    heads, mask = text(lesson.view(0)), text(lesson.view(1))
    press(lesson, 1)
    wait_for_change(lesson, 1, mask)
    assert text(lesson.view(0)) == heads
    mask = text(lesson.view(1))
    press(lesson, 0)
    wait_for_change(lesson, 0, heads)
    assert text(lesson.view(1)) == mask


def test_a_view_run_again_ten_times_is_one_view_and_opens_no_figure(open_lesson):
    lesson = open_lesson("views.ipynb")
    for _ in range(10):
        lesson.run_cell(0)
    assert lesson.cell(0).locator("svg[role=img]").count() == 1
    before = text(lesson.view(0))
    press(lesson, 0)
    wait_for_change(lesson, 0, before)
    lesson.run_cell(2)
    assert lesson.cell(2).locator(".jp-OutputArea-output").inner_text().split("\n")[:2] == ["open figures: 0", "1"]


def test_a_view_moved_during_a_long_cell_catches_up(open_lesson):
    lesson = open_lesson("views.ipynb")
    before = text(lesson.view(0))
    lesson.run_cell(3, wait=False)
    for _ in range(8):
        press(lesson, 0)
    lesson.wait_for_idle()
    wait_for_change(lesson, 0, before)
    lesson.run_cell(2)
    assert lesson.cell(2).locator(".jp-OutputArea-output").inner_text().split("\n")[1] == "8"
    lesson.page.wait_for_function(
        "() => document.querySelectorAll('.jp-Cell')[0].querySelector('svg[role=img]').ariaLabel.startsWith('head 8')"
    )


def test_a_kernel_restarted_under_a_view_leaves_a_usable_page(open_lesson):
    lesson = open_lesson("views.ipynb")
    lesson.restart_kernel()
    assert lesson.view(0).is_visible()  # the last drawing stays
    press(lesson, 0)
    for cell in (0, 1):
        lesson.run_cell(cell)
        before = text(lesson.view(cell))
        press(lesson, cell)
        wait_for_change(lesson, cell, before)


def test_every_control_is_reached_by_tab_and_moved_by_keys(open_lesson):
    lesson = open_lesson("views.ipynb")
    lesson.cell(0).locator(".noUi-handle:visible").first.focus()
    # Notebook 7 keeps the arrow keys for itself, so the others count, too.
    keys = {"noUi-handle": ["ArrowRight", "ArrowLeft", "End", "Home", "PageUp", "PageDown"], "INPUT": ["Space"]}
    moved = []
    for _ in range(12):  # sliders show their number in a field, which is a stop of its own
        kind = lesson.page.evaluate(
            """() => { const now = document.activeElement
                       if (now.closest('.jp-Cell') != document.querySelectorAll('.jp-Cell')[0]) return 'elsewhere'
                       return now.classList.contains('noUi-handle') ? 'noUi-handle' : now.tagName }"""
        )
        disabled = lesson.page.evaluate("!!document.activeElement.closest('[disabled]')")
        for key in keys.get(kind, []) if not disabled else []:
            before = text(lesson.view(0))
            lesson.page.keyboard.press(key)
            wait_for_change(lesson, 0, before)
            moved.append(kind)
        lesson.page.keyboard.press("Tab")
    # head, query and show, there and back; as lines; "minus head" is grey until a difference is shown
    assert moved == ["noUi-handle"] * 18 + ["INPUT"]


def test_without_its_kernel_a_trusted_view_leaves_the_way_out_in_words(lab):
    first = Lesson(*lab, "views.ipynb")
    first.run_all()
    first.save_and_end()
    later = Lesson(*lab, "views.ipynb")
    later.page.wait_for_function("document.querySelector('.jp-Notebook').textContent.includes('model not found')")
    words = later.cell(1).inner_text()
    assert "[mask: run this cell for a view that you can move, if none is below" in words
    assert not later.cells_with_views() and later.cell(1).locator("img").count() == 1
    later.close()
