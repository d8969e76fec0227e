"""Pages of the site in Chromium, the network off: views moved by the keyboard, nothing too wide, axe-core clean."""

from pathlib import Path

import nbformat
import pytest

from tests.browser.lab import CHROMIUM, ROOT, WITHOUT, browser, offline_page
from tests.outputs import NOTEBOOKS
from tests.site.__main__ import build
from tests.test_site import with_views

AXE = ROOT / ".venv" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT),
    pytest.mark.skipif(not AXE.exists(), reason="NOT CHECKED: axe-core is not here; `make .venv/node_modules/ready`"),
]
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
PAGES = ["index", "01_single_head", "05_check_against_pytorch", "06_what_heads_learn", "search"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the pages of three lessons: one with views as they are recorded, two from their stored outputs."""
    folder = tmp_path_factory.mktemp("site")
    stored = {path.stem: nbformat.read(path, as_version=4) for path in sorted(NOTEBOOKS.glob("0[156]_*.ipynb"))}
    build(stored | {"01_single_head": with_views()}, folder, with_handouts=False)
    return folder


@pytest.fixture(scope="module")
def chromium():
    with browser() as chromium:
        yield chromium


@pytest.fixture
def visit(site, chromium):
    """A function that opens a page; what goes out of the folder, or what the console complains of, fails the test."""
    opened, complaints = [], []

    def visiting(name, width=1280, look="light", query=""):
        page = offline_page(chromium, complaints, width, 800, look)
        opened.append(page)
        page.goto(f"{Path(site, name).as_uri()}.html{query}")
        return page

    yield visiting
    for page in opened:
        page.close()
    assert not complaints


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_too_wide(visit, width):
    for name in PAGES:
        page = visit(name, width)
        page.evaluate(OPEN)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize(("width", "look"), [(360, "light"), (1280, "dark")])
@pytest.mark.parametrize("name", ["index", "01_single_head", "search"])
def test_axe_finds_nothing(visit, name, width, look):
    page = visit(name, width, look)
    page.evaluate(OPEN)
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'], preload: false })")["violations"]
    assert not [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]


def test_a_view_moves_by_the_keyboard_alone(visit):
    page = visit("index")
    reached = []
    for _ in range(12):  # the link to the text, home, the search, then the controls
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[0] == "To the text" and "Many Heads" in reached
    slider = page.locator(".view input[type=range]").first
    assert slider.get_attribute("id") in reached
    said = page.locator(".view [role=status]").first
    drawing = page.locator(".view svg").first
    slider.focus()
    seen = {drawing.get_attribute("aria-label")}
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        assert said.text_content() == drawing.get_attribute("aria-label")
        seen.add(said.text_content())
    assert len(seen) == 4 and slider.get_attribute("aria-valuetext") == "5 twice"
    for _ in range(7):
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
    assert "the row is zero" in said.text_content()
    assert page.locator(".view svg rect title").count() == 6  # values on hover are still there


def test_every_state_that_a_page_shows_is_the_one_that_python_draws(visit):
    page, wanted = visit("01_single_head"), with_views.views["softmax_scale"]
    view = page.locator(".view", has=page.locator("label", has_text="Divide by"))
    slider, box = view.locator("input[type=range]"), view.locator("input[type=checkbox]")
    for d_k in range(8):
        slider.evaluate("(it, value) => { it.value = value; it.dispatchEvent(new Event('input')) }", d_k)
        for scaled in (False, True):
            box.set_checked(scaled)
            label = view.locator("svg").get_attribute("aria-label")
            assert label == wanted[2 ** (d_k + 2), scaled]


def test_the_buttons_step_and_stop_at_the_ends(visit):
    page = visit("01_single_head")
    view = page.locator(".view").first
    on, slider = view.get_by_role("button", name="d_k: on"), view.locator("input[type=range]")
    for _ in range(9):
        on.click()
    assert slider.input_value() == "7" and view.locator("output").text_content() == "512"


def test_what_is_wide_can_be_scrolled_by_the_keyboard(visit):
    page = visit("01_single_head", 360)
    wide = page.evaluate(
        """[...document.querySelectorAll('pre, .wide')].filter(one => one.scrollWidth > one.clientWidth + 1)
             .map(one => one.tabIndex)"""
    )
    assert len(wide) > 3 and set(wide) == {0}


def test_the_search_finds_a_section_and_leads_there(visit):
    page = visit("index")
    page.get_by_label("Search all lessons").fill("special tokens stripe")
    page.keyboard.press("Enter")
    page.wait_for_selector("#found a")
    page.locator("#found a").first.click()
    page.wait_for_url("**/06_what_heads_learn.html#*")
    assert page.evaluate("!!document.getElementById(decodeURIComponent(location.hash.slice(1)))")
    nothing = visit("search", query="?q=giraffe")
    assert nothing.locator("#count").text_content() == "0 sections hold “giraffe”."
