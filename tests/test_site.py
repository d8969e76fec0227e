"""The site's pages: links lead somewhere, nothing comes from outside, weights, states, formulas, exercises."""

import functools
import gzip
import itertools
import json
import re
from html import unescape
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import unquote

import nbformat
import pytest
import yaml
from nbformat.v4 import new_output

from mha import explore, runtime
from mha.exercises.judge import exercises
from mha.views import svg
from tests.outputs import NOTEBOOKS
from tests.site import VIEW, lesson, record
from tests.site.__main__ import HERE, ROOT, build, table

LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))


@functools.cache
def with_views():
    """Lesson 01 as it is stored, with its two views recorded beside their stills."""
    notebook = nbformat.read(LESSONS[0], as_version=4)
    with_views.views = {"softmax_scale": {}}
    for cell in notebook.cells:
        for name in ("softmax_scale", "mask"):
            if f"explore.{name}(" in cell.source and cell.cell_type == "code":
                view = getattr(explore, name)()
                place = next(n for n, output in enumerate(cell.outputs) if "image/png" in output.get("data", {}))
                cell.outputs[place + 1 :] = [new_output("display_data", {VIEW: record.recorded(view)})]
                if name == "softmax_scale":
                    for setting in record.settings(view):
                        words = re.search(r'aria-label="([^"]*)"', view.draw(**setting))[1]
                        with_views.views[name][setting["d_k"], setting["scaled"]] = unescape(words)
    return notebook


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All lessons as pages, from what they have stored; the first with views."""
    folder = tmp_path_factory.mktemp("site")
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in LESSONS}
    build(notebooks | {LESSONS[0].stem: with_views()}, folder, with_handouts=False)
    return folder


class Page(HTMLParser):
    """What a page links to, loads, and has as anchors; its images."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids, self.images = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        if tag == "a":
            self.links.append(given["href"])
        elif tag == "img":
            self.images.append(given)
        if tag in ("img", "script", "source", "link", "iframe", "form"):
            loaded = (given.get(name) for name in ("src", "srcset", "href", "action"))
            self.loads += [one for one in loaded if one]


@pytest.fixture(scope="module")
def pages(site):
    return {path.name: Page(path.read_text("utf-8")) for path in site.glob("*.html")}


def test_every_link_leads_to_a_page_and_a_place_and_nothing_is_loaded_from_outside(site, pages):
    assert len(pages) == len(LESSONS) + 2
    for name, page in pages.items():
        assert len(set(page.ids)) == len(page.ids), [one for one in page.ids if page.ids.count(one) > 1]
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            assert (target or name) in pages, (name, link)
            assert not anchor or anchor in pages[target or name].ids, (name, link)
        for load in page.loads:
            assert load == "data:," or (site / load).is_file(), (name, load)
    for own in ("site.css", "site.js"):
        assert "http" not in (site / own).read_text("utf-8") and "@import" not in (site / own).read_text("utf-8")


def test_lessons_lead_to_each_other_and_the_front_page_to_all(pages):
    stems = [path.stem for path in LESSONS]
    assert [stem for _, stem, _ in table()] == stems
    assert {f"{stem}.html" for stem in stems} <= set(pages["index.html"].links)
    for before, after in itertools.pairwise(stems):
        assert f"{after}.html" in pages[f"{before}.html"].links and f"{before}.html" in pages[f"{after}.html"].links


def test_every_picture_has_its_words_and_the_notes_of_a_notebook_are_gone_where_a_view_is(site, pages):
    for path in LESSONS:
        stored = [
            output.metadata["image/png"]["alt"]
            for cell in nbformat.read(path, as_version=4).cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        assert [image["alt"] for image in pages[f"{path.stem}.html"].images] == stored
        assert all(
            (site / image["src"]).read_bytes().startswith(b"\x89PNG") for image in pages[f"{path.stem}.html"].images
        )
    assert "run this cell for a view" not in (site / f"{LESSONS[0].stem}.html").read_text("utf-8")


def test_a_page_is_light_and_the_script_small(site):
    assert (HERE / "site.js").stat().st_size <= 5000
    for path in LESSONS:
        page = gzip.compress((site / f"{path.stem}.html").read_bytes())
        pictures = sum(picture.stat().st_size for picture in (site / "img" / path.stem).glob("*-light.png"))
        views = len(re.findall(r"explore\.\w+\(", path.read_text("utf-8")))  # each as heavy as it may be
        assert len(page) + pictures + views * record.BYTES < 1_000_000, path.stem
    assert len(gzip.compress((site / "passages.js").read_bytes())) < 200_000


def test_hints_and_solutions_stand_at_their_exercises(site):
    text = {path.stem[:2]: (site / f"{path.stem}.html").read_text("utf-8") for path in LESSONS}
    for number, exercise in exercises().items():
        page = text[f"{int(number.split('.')[0]):02}"]
        for place in range(1, len(exercise.hints) + 1):
            assert f"Exercise {number}: hint {place} of {len(exercise.hints)}" in page
        assert f"Exercise {number}: one right answer" in page
        assert f">{exercise.title}</span>" in page  # the solution's own name
    assert not any("not attempted</b>" in page for page in text.values())


def test_formulas_are_mathml_and_dollars_in_code_stay():
    html = lesson.words("The share $h_{kv}$ and `$x$`.\n\n$$\\sum_i W_O^i$$")
    assert html.count("<math") == 2 and 'display="block"' in html and "<code>$x$</code>" in html and "xmlns" not in html
    for path in LESSONS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                html = lesson.words(cell.source)
                left = re.sub(r"<code>.*?</code>|<pre.*?</pre>", "", html, flags=re.S)
                assert "$" not in left and "\\text" not in left and ".ipynb" not in left, cell.source


def unpacked(data, place):
    """One drawing out of the tables of a recorded view."""
    return "".join(data["parts"][part] for run in data["states"][data["at"][place]] for part in data["runs"][run])


def looked_at(drawing, dark):
    """A drawing for both looks as one of them shows it."""
    return re.sub(r"light-dark\((.*?),(.*?)\)", r"\2" if dark else r"\1", drawing)


@pytest.mark.parametrize("name", ["softmax_scale", "mask", "two_peaks", "reshape"])
def test_a_recorded_view_holds_every_drawing_in_both_looks(name):
    view = getattr(explore, name)()
    data, settings = record.recorded(view), list(record.settings(view))
    assert len(data["at"]) == len(settings) and not data["stay"] and not data["buttons"]
    for place, setting in enumerate(settings):
        for dark, drawn in enumerate(record.looks(lambda s=setting: svg.document(*view._picture(view.state(**s))))):
            assert looked_at(unpacked(data, place), dark) == drawn + view.table(**setting)
    assert not runtime.look.dark


def test_a_page_shows_the_numbers_of_a_view_as_a_table_and_names_the_buttons_that_it_lacks(monkeypatch):
    view = explore.mask(tokens=["<a>", "b"])
    view.box.children = [*view.box.children, record.Button(description="Undo")]
    template = lesson.templates.get_template("pieces.html.j2").module.view
    data = lesson.view(record.recorded(view), "x")
    page = template(data)
    assert data["numbers"] == view.table() and "&lt;a&gt;" in page
    assert f">{view.table().splitlines()[0]}\n" in unescape(page) and data["drawing"].endswith("</svg>")
    assert "Undo: buttons only where the lesson runs" in page
    assert page.count("<button") == 2 == page.count("data-step=")  # none that does nothing
    whole = len(gzip.compress(json.dumps(record.recorded(view)).encode()))
    monkeypatch.setattr(record, "BYTES", whole - 1)  # without room for tables, all of it moves still
    smaller = lesson.view(record.recorded(view), "x")
    assert not smaller["numbers"] and len(smaller["at"]) == len(data["at"]) and "as a table" not in template(smaller)


def test_values_that_do_not_go_together_have_no_drawing_and_what_a_control_does_to_others_is_kept():
    budget, at = explore.parameter_budget(), []
    for setting in record.settings(budget, ["d_model", "heads"]):
        at.append(setting and (setting["d_model"], setting["heads"]))
    assert at.count(None) > 10 and (768, 48) in at and (32, 64) not in at
    cache = explore.conversation_cache()
    found = {one["model"]: one for one in record.settings(cache, ["model"])}
    assert found["DeepSeek-V3"]["layers"] == 61 and cache.values()["model"] == "LLaMA 7B"


def test_with_too_many_states_the_first_controls_move_and_the_others_are_named(monkeypatch):
    monkeypatch.setattr(record, "MOST", 100)
    data = record.recorded(explore.mask())
    assert [control["label"] for control in data["controls"]] == [
        "Query",
        "hide Maya",
        "hide fed",
        "hide her",
        "hide cat",
    ]
    assert data["stay"] == ["hide ,", "hide twice"] and len(data["states"]) == 96
    monkeypatch.setattr(record, "BYTES", 3000)
    assert len(record.recorded(explore.mask())["controls"]) < 5
    page = lesson.templates.get_template("pieces.html.j2").module.view(lesson.view(data, "x"))
    assert "hide ,, hide twice: to be moved by hand only where the lesson runs" in page


def test_pixels_are_kept_in_grey_and_the_filters_are_the_ramps():
    for signed, name in ((False, "weights"), (True, "differences")):
        values = (svg.np.arange(256).reshape(16, 16) / 255) * (2 if signed else 1) - signed
        element = record.in_grey(svg.raster(0, 0, 16, 16, values, signed).split("<rect")[0])
        assert f'class="{name}"' in element
        pixels = record.np.array(
            record.Image.open(record.io.BytesIO(record.base64.b64decode(record.PIXELS.search(element)[1])))
        )
        assert (svg.ramp(signed)[pixels] == svg.ramp(signed)[svg.levels(values, signed)]).all()
        (ramp,) = [ramp for ramp in lesson.ramps() if ramp["id"] == f"{name}-light"]
        stops = [list(map(float, channel.split())) for _, channel in ramp["channels"]]
        places = record.np.linspace(0, len(stops[0]) - 1, 256)
        shown = [record.np.interp(places, range(len(stop)), stop) * 255 for stop in stops]
        assert abs(record.np.stack(shown, 1) - svg.ramp(signed)).max() < 1


def test_the_workflow_makes_what_make_makes_and_only_when_asked():
    text = (ROOT / ".github" / "workflows" / "pages.yml").read_text("utf-8")
    flow = yaml.safe_load(text)
    assert flow[True] == {"workflow_dispatch": None}  # YAML reads `on` as yes
    steps = flow["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if "run" in step][-1] == "make model smollm site"
    uploaded = next(step for step in steps if "upload-pages-artifact" in step.get("uses", ""))
    assert uploaded["with"]["path"] == "dist/site" and flow["jobs"]["deploy"]["needs"] == "build"
    assert flow["permissions"] == {"contents": "read"}
    assert flow["jobs"]["deploy"]["permissions"] == {"pages": "write", "id-token": "write"}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "-m tests.site\n" in makefile


def test_an_iterators_second_look_is_the_first():
    drawn = record.in_both_looks(lambda words: SimpleNamespace(png=str(runtime.look.dark), alt=" ".join(words)))
    assert drawn(["a", "b"]).dark == "True"
    assert drawn(iter(["a", "b"])).dark == "False"


def test_the_tables_of_a_view_are_safe_inside_a_page():
    data = record.recorded(explore.mask(tokens=["</script>", "b"]))
    text = lesson.view(data, "x")["tables"]
    assert "</script" not in text and json.loads(text)["parts"] == data["parts"]
