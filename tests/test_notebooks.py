"""The lessons as texts: normal form, claims, links, alternatives, and running them elsewhere.

That each cell prints what is stored is nbval's work: pytest runs it over `notebooks` beside these tests.
"""

import ast
import copy
import json
import re
from html import unescape
from itertools import pairwise

import nbformat
import pytest
import torch

import mha.attention
import mha.production
from tests.outputs import NOTEBOOKS, ignored, normal, run_nbval
from tests.pages import Page

ROOT = NOTEBOOKS.parent
LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
CLAIMS = {  # which lesson settles which claim: each needs a tagged cell
    "01_single_head": "M1 M19 M21 P6",
    "02_why_several_heads": "M2",
    "03_reshape_into_heads": "M3 M4 M5 M7 M8 M17 M19 P2 P3 P4 P5 P7",
    "04_counting_parameters": "M6 P1 P7 P8",
    "05_check_against_pytorch": "M7 M18 P6 P7 P8",
    "06_what_heads_learn": "M10 M11",
    "07_translate_dates": "M9 M12 M20",
    "08_how_many_heads": "M13 M14 M15 M16",
    "09_heads_that_work_together": "",  # beyond the texts
    "10_heads_in_production": "",
}

every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def test_every_claim_of_the_lessons_is_settled_by_a_cell():
    assert set(CLAIMS) == {path.stem for path in LESSONS}
    for path in LESSONS:
        found = {}
        for cell in code_cells(path):
            for tag in cell.metadata.get("tags", []):
                found.setdefault(tag.removeprefix("claim:"), []).append(cell)
        assert sorted(found) == sorted(CLAIMS[path.stem].split()), path.name
        for claim, cells in found.items():
            settled = [cell for cell in cells if not ignored(cell) and ("assert" in cell.source or cell.outputs)]
            assert settled, f"{path.name}: no cell of claim {claim} could fail"


@every_lesson
def test_a_lesson_is_in_normal_form(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert normal(copy.deepcopy(notebook)) == notebook
    assert path.stat().st_size < 1_000_000
    paths = re.findall(r"/(?:home|root|work|tmp|Users)/|site-packages|[A-Z]:\\\\", json.dumps(notebook))
    assert not paths


@every_lesson
def test_a_cell_shows_something_or_only_defines(path):
    definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    for cell in code_cells(path):
        only_defines = all(isinstance(node, definitions) for node in ast.parse(cell.source).body)
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        assert cell.outputs or only_defines or folded, cell.source


@every_lesson
def test_outputs_hold_no_error_and_no_warning(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr", cell.source


@every_lesson
def test_what_is_not_compared_is_followed_by_a_check(path):
    cells = code_cells(path)
    for cell, following in pairwise([*cells, None]):
        if ignored(cell):
            assert following is not None and not ignored(following) and "assert" in following.source, cell.source


@every_lesson
def test_every_figure_has_a_text_alternative(path):
    for cell in code_cells(path):
        for output, following in pairwise([*cell.outputs, None]):
            if "image/png" in output.get("data", {}):
                alt = output.metadata["image/png"]["alt"]
                assert len(alt.split()) > 5 and output.data["text/plain"] == alt
                assert following is not None
                assert " ".join(following.text.split()).startswith(" ".join(f"In words: {alt}".split()))


@every_lesson
def test_without_a_kernel_a_saved_lesson_is_readable(path):
    page, _ = Page().from_filename(path)
    assert "Loading widget" not in page and "interactive(children" not in page and "widget-view" not in page
    told = [unescape(alt) for alt in re.findall(r'<img[^>]* alt="([^"]*)"', page)]
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    stored = [output.metadata["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    assert told == stored and len(stored) >= 2 and page.count("<img") == len(stored)
    assert not any("No description" in alt for alt in told)
    assert page.count("run this cell for a view that you can move") == path.read_text("utf-8").count(
        "run this cell for"
    )


def test_no_link_is_dead():
    for path in [*LESSONS, ROOT / "README.md"]:
        text = path.read_text("utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
        for link in re.findall(r"\]\(([^)]+)\)", text):
            assert link.startswith(("#", "https://")) or (path.parent / link.split("#")[0]).exists(), (
                f"{path.name}: {link}"
            )


def test_the_class_of_lesson_03_is_the_class_of_the_package():
    cells = code_cells(NOTEBOOKS / "03_reshape_into_heads.ipynb")
    source = next(cell.source for cell in cells if cell.source.startswith("class MultiHeadAttention"))
    lesson = {"nn": torch.nn, "scaled_dot_product_attention": mha.attention.scaled_dot_product_attention}
    exec(source, lesson)
    mask = mha.attention.causal_mask(5)
    for d_model, num_heads in ((8, 1), (8, 2), (12, 4), (6, 6)):
        built = lesson["MultiHeadAttention"](d_model, num_heads)
        ours = mha.attention.MultiHeadAttention(d_model, num_heads)
        ours.load_state_dict(built.state_dict())
        x = torch.randn(3, 5, d_model)
        for pair in (zip(built(x), ours(x), strict=True), zip(built(x, mask), ours(x, mask), strict=True)):
            for left, right in pair:
                torch.testing.assert_close(left, right)


@pytest.mark.parametrize(("name", "options"), [("GroupedQueryAttention", (2,)), ("LatentAttention", (16,))])
def test_the_classes_of_lesson_10_are_those_of_the_package(name, options):
    cells = code_cells(NOTEBOOKS / "10_heads_in_production.ipynb")
    source = next(cell.source for cell in cells if f"class {name}" in cell.source)
    lesson = {"nn": torch.nn, "MultiHeadAttention": mha.attention.MultiHeadAttention}
    exec(source, lesson)
    built, ours = (place(48, 6, *options) for place in (lesson[name], getattr(mha.production, name)))
    ours.load_state_dict(built.state_dict())
    x, mask = torch.randn(3, 5, 48), mha.attention.causal_mask(5)
    torch.testing.assert_close(built(x, mask), ours(x, mask))


def test_a_wrong_stored_number_is_found(tmp_path):
    notebook = read(LESSONS[0])
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:4]
    stored = notebook.cells[3].outputs[0]
    stored.text = stored.text.replace("6", "7", 1)
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    done = run_nbval(tmp_path)
    assert done.returncode == 1 and "1 failed, 3 passed" in done.stdout, done.stdout[-3000:]
