"""The moving views: every state drawn, told in words and guarded.  The browser tests move them for real."""

import base64
import functools
import io
import itertools
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import findfont
from PIL import Image, ImageFont

from mha import explore, figures, palette, runtime
from mha.tasks import dates
from mha.views import svg
from mha.views.reshape import PATHS
from mha.views.row import most
from tests.site import record

TOKENS = ["[CLS]", "Maya", "fed", "<her>", "cat", "&", "[SEP]"]


def weights(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).mul(2).softmax(dim=-1)


def views():
    return {
        "heads": explore.heads(weights(3, 7, 7), TOKENS),
        "layers": explore.heads([weights(4, 7, 7), weights(4, 7, 7, seed=1)], TOKENS, layer_names=["first", "second"]),
        "cross": explore.heads(weights(2, 3, 5), list("abc"), key_tokens=list("vwxyz")),
        "long": explore.heads(weights(2, 40, 40), [f"t{i}" for i in range(40)]),
        "softmax_scale": explore.softmax_scale(),
        "mask": explore.mask(),
        "reshape": explore.reshape(),
        "parameter_budget": explore.parameter_budget(),
        "conversation_cache": explore.conversation_cache(),
        "two_peaks": explore.two_peaks(),
        "translate": explore.translate(untrained()),
    }


def untrained():
    torch.manual_seed(0)
    return dates.model().eval()


every_view = pytest.mark.parametrize("name", views())


def choices(control):
    """All values of a control, or seven of them."""
    if hasattr(control, "options"):
        return [option[1] if isinstance(option, tuple) else option for option in control.options][:7]
    if isinstance(control.value, bool):
        return [False, True]
    if isinstance(control.value, str):
        return ["3 May 1979", "", "5/3/79 & <b>", "x" * 50, "Sunday, February 29, 2032"]
    return sorted({control.min, (control.min + control.max) // 2, control.max})


def states(view):
    """Move each control over its whole range, and after that each pair of neighbours together."""
    for one, two in zip(view.controls, [*list(view.controls)[1:], *list(view.controls)[:1]], strict=True):
        for a, b in itertools.product(choices(view.controls[one]), choices(view.controls[two])):
            if a in choices(view.controls[one]):  # a move of the first may change what the second offers
                view.controls[one].value = a
            if b in choices(view.controls[two]):
                view.controls[two].value = b
            yield view.values()


@every_view
def test_every_state_is_drawn_told_and_tabled(name):
    view, drawings = views()[name], set()
    for state in states(view):
        drawing = view.html.value
        assert drawing == view.draw(), state
        page = ElementTree.fromstring(drawing)
        assert page.tag == "svg" and page.get("role") == "img" and len(page.get("aria-label")) > 10
        assert not any(element.get("id") for element in page.iter())
        for forbidden in ("<script", "http", "nan", "url("):
            assert forbidden not in drawing.replace("data:image/png;base64,", ""), state
        assert len(view.table().splitlines()) > 2 or "cannot be translated" in view.table()
        drawings.add(drawing)
    assert len(drawings) > 4
    assert not plt.get_fignums()


@every_view
def test_the_still_says_what_it_shows(name):
    still = views()[name].still()
    assert still.png.startswith(b"\x89PNG") and len(still.alt.split()) > 5


@every_view
def test_every_control_has_its_label_and_nothing_beyond_old_ipywidgets(name):
    for control in views()[name].controls.values():
        assert control.description and control.style.description_width == "initial"
        assert type(control).__name__ in ("SelectionSlider", "IntSlider", "Checkbox", "Text")


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("token", ["$$", "$5$", "$\\frac{", "\n", "😀", "🦊", "<b>", "&amp;", "x" * 500])
def test_tokens_are_no_markup(token):
    tokens = [token, "b", "c"]
    view = explore.heads(torch.ones(2, 3, 3) / 3, tokens)
    page = ElementTree.fromstring(view.html.value)
    assert page.tag == "svg" and svg.short(figures.printable([token])[0]) in [element.text for element in page.iter()]
    assert view.still().png and explore.mask(tokens=tokens).still().png


def test_a_still_that_fails_leaves_the_view_and_one_sentence(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append(data))
    monkeypatch.setattr(figures, "bars", lambda *a, **w: 1 / 0)
    view = explore.mask()
    view._ipython_display_()
    model = {"version_major": 2, "version_minor": 0, "model_id": view.box.model_id}
    assert shown[-1] == {"application/vnd.jupyter.widget-view+json": model, "text/plain": "[mask]"}
    failed, way_out = capsys.readouterr().out.splitlines()
    assert failed == "The still picture failed with ZeroDivisionError: division by zero"
    assert "run this cell for a view that you can move" in way_out


def test_the_still_of_heads_tells_what_each_head_does_most():
    back = torch.eye(4).roll(-1, dims=1)
    back[0], maps = torch.eye(4)[0], [torch.eye(4), torch.full((4, 4), 0.1)]
    maps[1][:, 2] = 0.7
    view = explore.heads(torch.stack([*maps, back]), ["a", "b", "c", "c"])
    told = "head 0 itself 1.00; head 1 on “c” (key 2) 0.70; head 2 one back 1.00."
    assert view.still().alt == f"3 heatmaps of 4 by 4. Largest mean weight: {told}"
    view.controls["query"].value = 2
    assert view.still().alt.endswith(told)


def test_two_views_do_not_share_a_state():
    one, two = explore.mask(), explore.mask()
    before = two.html.value
    one.controls["hide0"].value = True
    assert two.html.value == before != one.html.value and one.box.model_id != two.box.model_id


def test_an_error_is_shown_in_the_view_until_a_state_that_works():
    view = explore.heads(weights(2, 2, 2), ["[CLS]", "[SEP]"])
    good = view.html.value
    view.controls["hide"].value = True
    assert 'role="alert"' in view.html.value and "untick" in view.html.value
    view.controls["hide"].value = False
    assert view.html.value == good


def numbers(view):
    """The numbers of a table, row by row."""
    rows = []
    for line in view.table().splitlines():
        try:
            rows.append([float(word) for word in line.split()[1:]])
        except ValueError:
            continue
    return np.array([row for row in rows if row])


def shares(view):
    """The weights of a table of one row: the last word of each line but the title."""
    return np.array([float(line.split()[-1]) for line in view.table().splitlines()[1:]])


def test_the_table_holds_the_head_the_average_the_maximum_and_the_difference():
    given = weights(3, 7, 7)
    view = explore.heads(given, [f"t{i}" for i in range(7)])
    view.controls["head"].value, view.controls["other"].value = 2, 0
    wanted = {
        "one head": given[2],
        "average": given.mean(0),
        "maximum": given.amax(0),
        "difference": given[2] - given[0],
    }
    for show, values in wanted.items():
        view.controls["show"].value = show
        assert np.allclose(numbers(view), values, atol=0.00501), show


def test_hidden_special_tokens_leave_rows_that_sum_to_one_and_it_is_said():
    given = weights(1, 7, 7)
    view = explore.heads(given, TOKENS)
    view.controls["hide"].value, view.controls["query"].value = True, 1
    kept = given[0, 1:-1, 1:-1]
    assert np.allclose(numbers(view), kept / kept.sum(-1, keepdim=True), atol=0.00501)
    assert "renormalised" in view.html.value and "[CLS]" not in view.html.value and "renormalised" in view.table()


def test_a_line_is_as_opaque_as_its_weight_however_many_heads():
    for heads in (1, 12):
        view = explore.heads(torch.eye(3).expand(heads, 3, 3), list("abc"))
        view.controls["lines"].value = True
        lines = [element for element in ElementTree.fromstring(view.html.value).iter() if element.tag == "line"]
        assert len(lines) == 3 and {line.get("stroke-opacity") for line in lines} == {"1.00"}


def test_dividing_keeps_the_row_even_and_not_dividing_sharpens_it():
    view = explore.softmax_scale()
    largest = {}
    for divided, d_k in itertools.product((False, True), (4, 512)):
        view.controls["scaled"].value, view.controls["d_k"].value = divided, d_k
        largest[divided, d_k] = shares(view).max()
        assert abs(shares(view).sum() - 1) < 0.005
    assert largest[False, 512] > 0.95 > 0.6 > largest[True, 512]


def test_dividing_takes_the_square_root_of_d_k_off_every_odds():
    view, odds = explore.softmax_scale(), {}
    view.controls["d_k"].value = 4
    for divided in (False, True):
        view.controls["scaled"].value = divided
        first, second = np.sort(shares(view))[-2:][::-1]
        odds[divided] = np.log(first / second)
    assert odds[False] / odds[True] == pytest.approx(2, abs=0.1)


def test_the_colour_scale_runs_from_nothing_to_everything():
    assert svg.levels(np.array([0, 0.5, 1])).tolist() == [0, 128, 255]
    assert svg.levels(np.array([-1, 0, 1]), signed=True).tolist() == [0, 128, 255]
    assert svg.shades()[0][0] == palette.WEIGHTS[0] and svg.shades()[0][255] == palette.WEIGHTS[-1]


def test_a_masked_row_stays_a_distribution_and_a_fully_hidden_one_is_zero():
    view = explore.mask()
    for s in range(6):
        assert abs(shares(view).sum() - 1) < 0.005
        view.controls[f"hide{s}"].value = True
    assert shares(view).sum() == 0 and "the row is zero" in view.html.value and "6 keys" in view.html.value


def test_only_the_right_path_brings_every_address_home():
    view = explore.reshape()
    home = None
    for path in PATHS:
        view.controls["path"].value = path
        view.controls["step"].value = 0
        start = view.table().splitlines()[1:-1]
        view.controls["step"].value = 5
        back = view.table().splitlines()[1:-1]
        assert (back == start) == (path == "right path")
        home = home or start
    assert len(home) == 6


@pytest.mark.parametrize(
    ("T", "h", "d_k"), [(2, 4, 3), (4, 4, 2), (1, 3, 4), (5, 1, 4), (3, 2, 1), (21, 3, 1), (2, 2, 15)]
)
def test_a_walk_of_any_size_says_what_is_so(T, h, d_k):
    view = explore.reshape(T, h, d_k)
    x = [[(t, f) for f in range(h * d_k)] for t in range(T)]  # addresses by hand, without a reshape
    flat = [address for row in x for address in row]

    def tokens(addresses):
        return ", ".join(str(t) for t in sorted({t for t, _ in addresses}))

    right = [(t, f) for t in range(T) for f in range(d_k)]  # head 0 after the right split
    wrong = flat[: T * d_k]  # head 0, where the split was view(h, T, d_k)
    merged = [(t, f) for head in range(h) for t in range(T) for f in range(head * d_k, (head + 1) * d_k)]
    split = [flat[head * T * d_k :][:d_k] for head in range(h)]  # token 0 of each head of the wrong split
    said = {
        ("right path", 2): tokens(right),
        ("wrong merge", 2): tokens(right),
        ("wrong split", 2): tokens(wrong),
        ("right path", 5): tokens(x[0]),
        ("wrong merge", 5): tokens(merged[: h * d_k]),
        ("wrong split", 5): tokens(address for part in split for address in part),
    }
    for (path, step), wanted in said.items():
        view.controls["path"].value, view.controls["step"].value = path, step
        sentence = "Head 0 holds tokens" if step == 2 else "Row 0 holds what the heads say of: token"
        assert view.table().splitlines()[-1] == f"{sentence} {wanted}."
    grids = {
        ("right path", 1): T,
        ("right path", 2): h,
        ("right path", 4): T,
        ("wrong split", 1): h,
        ("wrong merge", 4): h,
    }
    for (path, step), number in grids.items():
        view.controls["path"].value, view.controls["step"].value = path, step
        named = [element.text for element in ElementTree.fromstring(view.html.value).iter("text")]
        kind = "token" if (path, step) in (("right path", 1), ("right path", 4)) else "head"
        assert [name for name in named if name.split()[0] in ("token", "head")] == [
            f"{kind} {n}" for n in range(number)
        ]


@pytest.mark.parametrize("sizes", [(2, 4, 32), (0, 2, 4), (6, 2, 0), (40, 2, 4)])
def test_sizes_that_no_page_holds_are_refused(sizes):
    with pytest.raises(ValueError, match=r"T=\d+, h=\d+, d_k=\d+: boxes are drawn for at most"):
        explore.reshape(*sizes)
    with pytest.raises(TypeError, match="T must be a whole number"):
        explore.reshape(T=2.0)


def test_a_conversation_costs_what_the_formula_says_and_a_model_sets_the_sliders():
    view = explore.conversation_cache()
    assert view.state().published == 2**34 and view.state().chosen == 2**32  # LLaMA 7B, and with 8 key heads
    assert "16.00 GiB" in view.draw() and "4.00 GiB" in view.table() and "20 such" in view.table()
    view.controls["model"].value = "DeepSeek-V3"
    assert [view.controls[name].value for name in ("layers", "kv_heads", "d_k")] == [61, 128, 128]
    assert view.state().published == 61 * 576 * 2 * 32_768 and view.state().chosen == 2 * 61 * 128 * 128 * 2 * 32_768
    view.controls["tokens"].value = 1024
    assert view.state().published == 61 * 576 * 2 * 1024


def test_heads_move_the_tables_and_not_the_parameters():
    view = explore.parameter_budget()
    seen = set()
    for h in (1, 8, 64):
        view.controls["heads"].value = h
        parameters, *_, memory = view.table().splitlines()
        seen.add(parameters)
        assert memory.startswith(f"{12 * h * 256 * 256 * 4 / 2**20:,.1f} MiB")
    assert len(seen) == 1
    for d_model, held in ((768, 64), (32, 32)):  # 64 heads divide 768; for 32 they become 32
        view.controls["d_model"].value = d_model
        assert view.values()["heads"] == held


def test_a_large_map_stays_a_small_text():
    view = explore.heads(weights(12, 64, 64), [f"t{i}" for i in range(64)])
    assert len(view.html.value) < 200_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "need_weights=True"),
        (weights(3, 3), "average_attn_weights=False"),
        (weights(2, 2, 3, 3), "batch=0 to 1"),
        (weights(2, 4, 3), "4 × 3 per head, but there are 3 query tokens and 3 key tokens"),
        (weights(2, 3, 3).transpose(1, 2), "columns do: softmax was taken over the queries"),
        (weights(2, 3, 3) * 2, "is dropout on"),
        (torch.full((2, 3, 3), float("nan")), "NaN"),
        (torch.tensor([[[2.0, -1, 0]] * 3]), "below 0"),
        (torch.zeros(0, 3, 3), "wanted (h, T, S)"),
        (weights(1, 1, 1, 2, 3, 3), "wanted (h, T, S)"),
    ],
)
def test_what_is_not_one_texts_weights_per_head_is_refused_with_advice(given, said):
    with pytest.raises((TypeError, ValueError)) as refusal:
        explore.heads(given, ["a", "b", "c"])
    assert said in str(refusal.value)


def test_a_choice_that_is_not_there_is_refused_with_advice():
    with pytest.raises(ValueError, match="choose 0 to 1"):
        explore.heads(weights(2, 2, 3, 3), list("abc"), batch=5)
    with pytest.raises(ValueError, match="were heads averaged"):
        explore.heads(weights(2, 3, 3), list("abc"), batch=1)
    with pytest.raises(ValueError, match="1 names for 2 layers"):
        explore.heads([weights(2, 3, 3)] * 2, list("abc"), layer_names=["only"])


def test_a_control_that_would_do_nothing_is_grey():
    view = explore.heads(weights(3, 3, 3), list("abc"))
    grey = {"one head": {"other"}, "average": {"head", "other"}, "maximum": {"head", "other"}, "difference": {"lines"}}
    for show, names in grey.items():
        view.controls["show"].value = show
        assert {name for name, control in view.controls.items() if control.disabled} == names


def test_a_hidden_query_is_not_passed_off_as_the_row_that_is_shown():
    view = explore.heads(weights(1, 7, 7), TOKENS)
    view.controls["hide"].value = True
    assert "row of Maya ([CLS] is hidden)" in view.html.value and "of it left" in view.html.value


def test_an_odd_token_leaves_the_drawing_readable():
    drawing = explore.heads(weights(1, 3, 3), ["a\x00b", "\n", "an extraordinarily long token"]).draw()
    assert ElementTree.fromstring(drawing) is not None and "…" in drawing


def test_one_move_of_the_width_draws_no_state_between():
    view, drawn = explore.parameter_budget(), []
    view.html.observe(lambda change: drawn.append(view.values()["heads"]), names="value")
    view.controls["d_model"].value = 768
    assert set(drawn) == {8}


def test_mask_keeps_every_bar_of_a_repeated_token_and_refuses_half_its_input():
    assert explore.mask(tokens=("the", "cat", "the", "mat")).still().alt.count("the") == 2
    q = weights(3, 4).numpy()
    assert len(shares(explore.mask(q, q, list("abc")))) == 3
    with pytest.raises(ValueError, match="both q and k"):
        explore.mask(q)
    with pytest.raises(ValueError, match="with T = 2"):
        explore.mask(q, q, ["a", "b"])
    with pytest.raises(ValueError, match="empty list"):
        explore.heads([], ["a"])


def test_the_row_in_the_bars_is_the_query_of_the_head_that_is_chosen():
    given = weights(2, 7, 7)
    view = explore.heads(given, TOKENS)
    view.controls["head"].value, view.controls["query"].value, view.controls["hide"].value = 1, 3, True
    best = given[1, 3, 1:-1].argmax().item() + 1
    share = given[1, 3, best] / given[1, 3, 1:-1].sum()
    words = ElementTree.fromstring(view.html.value).get("aria-label")
    left = given[1, 3, 1:-1].sum()
    assert f"row of <her>, {left:.2f} of it left: most to {TOKENS[best]}, {share:.2f}" in words


def test_rows_a_little_off_are_rounding_and_rows_far_off_are_not():
    explore.heads(weights(2, 7, 7).bfloat16(), TOKENS)
    with pytest.raises(ValueError, match="wanted 1"):
        explore.heads(weights(2, 7, 7) * 1.1, TOKENS)


def rectangles(parts):
    return [element.attrib for element in ElementTree.fromstring(f"<g>{''.join(parts)}</g>").iter("rect")]


def test_a_map_has_its_queries_down_its_keys_across_and_the_chosen_row_framed():
    values = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    parts, _ = svg.map_panel(10, 0, values, list("ab"), list("xyz"), chosen=1)
    *cells, frame = rectangles(parts)
    assert [cell["fill"] for cell in cells] == [svg.shades()[0][level] for level in svg.levels(values).flatten()]
    assert frame["y"] == cells[3]["y"] and frame["stroke"] == palette.CHOSEN
    titles = [t.text for t in ElementTree.fromstring(f"<g>{''.join(parts)}</g>").iter("title")]
    assert titles[2] == "a → z: 0.00" and titles[5] == "b → z: 0.50"


def test_a_raster_is_its_table_a_pixel_to_a_cell():
    values = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    picture = ElementTree.fromstring(f"<g>{svg.raster(0, 0, 9, 6, values)}</g>").find("image").get("href")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))))
    assert (pixels == svg.ramp()[svg.levels(values)]).all()


def test_lines_run_from_queries_to_keys_and_the_chosen_querys_are_thick():
    values = np.array([[0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    parts, _ = svg.lines_panel(0, 0, values, list("ab"), list("xyz"), chosen=1)
    lines = [element.attrib for element in ElementTree.fromstring(f"<g>{''.join(parts)}</g>").iter("line")]
    assert [line["stroke-opacity"] for line in lines] == ["0.10", "0.90", "1.00"]
    assert [line["stroke-width"] for line in lines] == ["2", "2", "4"]
    assert [float(line["x1"]) < float(line["x2"]) for line in lines] == [True] * 3


def test_of_a_long_row_the_largest_weights_are_shown_as_long_as_they_are():
    row = np.zeros(30)
    row[[3, 25]] = 0.25, 0.75
    parts, _ = svg.bars_panel(0, 0, row, [f"t{s}" for s in range(30)], "row", most=2)
    widths = [float(bar["width"]) for bar in rectangles(parts)]
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.01) and "t3<" in "".join(parts) and "t25<" in "".join(parts)


def test_arrays_lists_batches_and_empty_rows_are_taken():
    given = weights(2, 3, 3)
    drawn = explore.heads(given, list("abc")).draw()
    assert explore.heads(given.numpy(), list("abc")).draw() == drawn
    assert explore.heads(given.tolist(), list("abc")).draw() == drawn
    assert explore.heads(torch.stack([weights(2, 3, 3, seed=5), given]), list("abc"), batch=1).draw() == drawn
    given[:, 0] = 0  # a query that may see nothing
    assert "row of a: nothing to anybody" in explore.heads(given, list("abc")).draw()


def test_one_row_cannot_serve_two_outputs():
    view = explore.two_peaks()
    assert "half and half" in view.table()
    for share, swapped, read, wrong in (
        (80, False, ",", 2),
        (20, False, "cat", 1),
        (80, True, "cat", 2),
        (20, True, ",", 1),
    ):
        view.controls["share"].value, view.controls["swapped"].value = share, swapped
        assert f"both outputs say “{read}”: output {wrong} is wrong" in view.table()
        assert shares(view).sum() == pytest.approx(1)


def test_a_typed_date_is_translated_and_what_cannot_be_is_told():
    class Known(type(untrained())):
        def greedy(self, source, start, steps):
            sure = 0.999 if source.size(1) == 10 else 0.9
            iso = "2021-02-31" if source.size(1) == 9 else "1979-05-03"
            return dates.encode_dates([iso] * len(source)), torch.full((len(source), 10), sure)

    model = untrained()
    model.__class__ = Known
    view = explore.translate(model)
    assert "3 may 1979 → 1979-05-03\n✓ One of its 48 formats" in view.table() and "␣" in view.draw()
    assert view.table().count("looked at") == 10 and "✓" in view.still().alt and "%" not in view.still().alt
    view.controls["date"].value = "31.2.2021"
    assert "⚠ A guess: there is no such day as 2021-02-31." in view.table()
    view.controls["date"].value = "3 march"  # 7 characters: sure and wrong
    assert "⚠ A guess" in view.table() and "this has no year" in view.draw()
    assert "Its doubt: 65.1%, more than" in view.table() and "of 1,000 validation dates had." in view.table()
    for typed, words in (("", "got 0"), ("x" * 41, "got 41"), ("§", "never seen “§”")):
        view.controls["date"].value = typed
        assert words in view.table() and words in view.draw() and "alert" not in view.draw()


def test_explore_loads_only_the_view_that_is_asked_for_and_exercises_load_no_model():
    code = """
import sys
from mha import explore
before = {name for name in sys.modules if name.startswith(("mha", "torch", "matplotlib", "ipywidgets"))}
assert before == {"mha", "mha.labels", "mha.explore"}, before
explore.softmax_scale().still()
import mha.exercises
loaded = {name for name in sys.modules if name.startswith("mha")}
assert {name for name in loaded if name.startswith("mha.views.")} == {
    "mha.views.softmax_scale", "mha.views.row", "mha.views.svg", "mha.views.view"
}, loaded
assert not loaded & {"mha.transformer", "mha.tasks", "mha.tasks.dates", "mha.accounting", "mha.heads"}, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=runtime.PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@every_view
def test_a_state_is_a_function_of_its_values_and_moves_nothing(name):
    """Drawn beforehand, each setting is what a learner gets who moves the controls there."""
    view, other = views()[name], views()[name]
    start = view.html.value
    offered = [setting for setting in itertools.islice(record.settings(views()[name]), 0, 400, 57) if setting]
    assert offered and set(offered[0]) == set(view.controls)
    for setting in offered:
        beforehand = view.draw(**setting), view.table(**setting)
        other.paused = True  # no drawing between the moves
        for control, value in setting.items():
            other.controls[control].value = value
        other.paused = False
        assert other.values() == setting and (other.draw(), other.table()) == beforehand
    assert view.html.value == start == view.draw()


@every_view
def test_every_control_tells_its_values_with_labels(name):
    view = views()[name]
    for control, choices in view.choices().items():
        labels, values = zip(*choices, strict=True)
        assert view.controls[control].value in values and len(set(labels)) == len(labels) == len(set(values))
        assert all(isinstance(label, str) for label in labels)
    assert all(view.values() in record.settings(view, [control]) for control in view.choices())


def test_the_settings_are_those_that_go_together():
    assert (
        len(list(record.settings(explore.reshape()))) == 18 and len(list(record.settings(explore.mask()))) == 6 * 2**6
    )
    budget = explore.parameter_budget()
    found = [setting for setting in itertools.islice(record.settings(budget), 5000) if setting]
    assert found and all(setting["d_model"] % setting["heads"] == 0 for setting in found)
    assert {h for _, h in budget.choices()["heads"]} >= {3, 48, 64}
    alone = explore.heads(weights(2, 3, 3), list("abc")).choices()
    assert len(alone["layer"]) == len(alone["hide"]) == 1 and len(alone["head"]) == 2


def test_a_state_is_computed_once(monkeypatch):
    view, computed = explore.softmax_scale(), []
    compute = view._state
    monkeypatch.setattr(view, "_state", lambda **values: computed.append(values) or compute(**values))
    for _ in range(2):
        assert view.draw(d_k=8) and view.table(d_k=8) and view.still(d_k=8)
    assert computed == [{"d_k": 8, "scaled": False}]


def test_the_still_of_softmax_scale_shows_what_the_division_does():
    words = explore.softmax_scale().still().alt
    plain, divided = (
        [float(x.rstrip(".")) for x in row.split(", ")]
        for row in (words.partition("not divided ")[2].partition("; ")[0], words.partition("√d_k ")[2])
    )
    assert len(plain) == len(divided) == 8 and max(plain) > 0.95 > 0.6 > max(divided)


SIZES = st.tuples(st.integers(1, 21), st.integers(1, 21), st.integers(1, 31)).filter(
    lambda sizes: max(sizes[:2]) * (2 * sizes[2] + 1) <= 64
)


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES)
def test_every_walk_that_is_drawn_tells_the_truth(sizes):
    """Head 0 and row 0 after each path, against places counted by hand."""
    T, h, d_k = sizes
    view = explore.reshape(T, h, d_k)
    flat = [(t, f) for t in range(T) for f in range(h * d_k)]
    heads = [[flat[t * h * d_k + head * d_k + f] for t in range(T) for f in range(d_k)] for head in range(h)]
    wanted = {
        ("right path", 2): heads[0],
        ("right path", 5): flat[: h * d_k],
        ("wrong split", 2): flat[: T * d_k],
        ("wrong split", 5): [place for head in range(h) for place in flat[head * T * d_k :][:d_k]],
        ("wrong merge", 2): heads[0],
        ("wrong merge", 5): [place for head in heads for place in head][: h * d_k],
    }
    for (path, step), places in wanted.items():
        rows = view.table(path=path, step=step).splitlines()[1:-1]
        cells = " ".join(rows).split()[: len(places)]
        assert cells == [f"{t}.{f}" for t, f in places]
        tokens = ", ".join(str(t) for t in sorted({t for t, _ in places}))
        assert view.table(path=path, step=step).endswith(f" {tokens}.")


@every_view
def test_for_a_projector_a_view_is_larger_and_in_the_dark_look_it_is_dark(name, monkeypatch):
    page = ElementTree.fromstring(views()[name].draw())
    monkeypatch.setattr(runtime.look, "scale", runtime.PROJECTOR)
    monkeypatch.setattr(runtime.look, "dark", True)
    large = ElementTree.fromstring(views()[name].draw())
    assert large.get("viewBox") == page.get("viewBox")
    assert int(large.get("width")) == pytest.approx(runtime.PROJECTOR * int(page.get("width")), abs=1)
    assert large.get("fill") == palette.DARK["INK"]
    assert not [box for box in large.iter("rect") if box.get("fill") in ("white", palette.LIGHT["PAPER"])]


def elements(drawing, kind):
    return list(ElementTree.fromstring(drawing).iter(kind))


def written(drawing):
    """The words in a drawing, in order; without those on hover."""
    return [element.text for element in elements(drawing, "text")]


def hovers(drawing):
    return [element.text for element in elements(drawing, "title")]


def board(monkeypatch, *shares):
    """The switchboard of a model that is not asked: these shares of 300 dates are right."""
    monkeypatch.setattr(dates, "right", lambda _, examples: torch.tensor(shares) * (len(examples) == 300))
    return explore.switchboard(untrained())


@functools.cache
def letters():
    return ImageFont.truetype(findfont("DejaVu Sans"), 100)  # as wide as any that a page is set in


def placed(drawing):
    """Boxes and words of a drawing: [(element, (left, top, right, bottom))] of both; no turned words."""
    boxes, words = [], []
    for element in ElementTree.fromstring(drawing):
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        if element.tag in ("rect", "image"):
            boxes.append((element, (x, y, x + float(element.get("width")), y + float(element.get("height")))))
        elif element.tag == "text" and not element.get("transform"):
            size = float(element.get("font-size"))
            wide = letters().getlength(element.text) * size / 100
            left = x - {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")] * wide
            words.append((element, (left, y - 0.75 * size, left + wide, y + 0.1 * size)))
    return boxes, words


def meet(one, two):
    return all(min(one[i + 2], two[i + 2]) - max(one[i], two[i]) > 0.15 for i in (0, 1))


def inside(one, two):
    return all(one[i] >= two[i] - 0.15 and one[i + 2] <= two[i + 2] + 0.15 for i in (0, 1))


@pytest.mark.parametrize("name", [*views(), "switchboard"])
def test_nothing_lies_across_anything_else_and_words_are_in_the_middle_of_their_box(name, monkeypatch):
    view = board(monkeypatch, 0.985, 0.99, 1.0, 0.5) if name == "switchboard" else views()[name]
    for setting in filter(None, itertools.islice(record.settings(view), 0, 4000, 397)):
        (_, page), *boxes = (found := placed(view.draw(**setting)))[0]
        words = found[1]
        everything = [place for _, place in boxes + words]
        assert all(inside(place, page) for place in everything), setting
        assert 9 < page[3] - max(place[3] for place in everything) < 15, setting
        assert 5 < min(place[0] for place in everything) < 12 and 5 < min(place[1] for place in everything) < 15, (
            setting
        )
        assert not any(meet(one, two) for (_, one), (_, two) in itertools.combinations(words, 2)), setting
        for (_, one), (_, two) in itertools.combinations(boxes, 2):
            assert not meet(one, two) or inside(one, two) or inside(two, one), setting
        for word, place in words:
            holding = [box for one, box in boxes if one.get("fill") != "none" and meet(place, box)]
            assert all(inside(place, box) for box in holding), (setting, word.text)
            if holding:
                left, top, right, bottom = min(holding, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))
                assert place[0] + place[2] == pytest.approx(left + right, abs=0.3), (setting, word.text)
                assert place[1] + place[3] == pytest.approx(top + bottom, abs=2), (setting, word.text)


def test_a_conversation_is_told_in_bars_as_long_as_its_bytes():
    view = explore.conversation_cache()
    title = "32,768 tokens: 16.00 GiB as published, 4.00 GiB as chosen"
    labels = "LLaMA 7B, as published", "32 layers, 8 key heads of 128"
    fits = "20 such conversations fit into 80 GiB, beside nothing else"
    drawing = view.draw()
    assert written(drawing) == [title, f"{labels[0]}: 16.00 GiB", f"{labels[1]}: 4.00 GiB", f"As chosen, {fits}."]
    _, *bars = elements(drawing, "rect")
    assert [bar.get("width") for bar in bars] == ["700.0", "175.0"]
    assert [bar.get("fill") for bar in bars] == [palette.MUTED, palette.BAR]
    assert hovers(drawing) == [f"{labels[0]} {2**34:,} bytes", f"{labels[1]} {2**32:,} bytes"]
    lines = [f"{label:40} {size:>18,} bytes" for label, size in zip(labels, (2**34, 2**32), strict=True)]
    assert view.table().splitlines() == [title, *lines, fits]
    assert ElementTree.fromstring(drawing).get("aria-label") == f"{title}; {fits}"
    assert view.still().alt == f"Two bars. {title}; {fits}."
    for control in ("layers", "kv_heads", "d_k"):
        offered = [value for _, value in view.choices()[control]]
        assert offered == sorted({getattr(model, control) for model in view.models.values()})
    assert all(model.kind == "decoder" for model in view.models.values())
    assert [value for _, value in view.choices()["tokens"]] == [2**n for n in range(10, 21)]


def test_a_small_cache_is_told_in_mib_and_its_bar_can_be_seen():
    view = explore.conversation_cache()
    assert "0.25 GiB as published" in view.draw(model="Falcon 7B")
    drawing = view.draw(tokens=1024, model="BLOOM 176B", layers=28, kv_heads=1, d_k=64)
    assert "1,024 tokens: 3.83 GiB as published, 7.0 MiB as chosen" in drawing
    assert elements(view.draw(tokens=1024, layers=28, kv_heads=1, d_k=64), "rect")[2].get("width") == "9.6"
    assert elements(drawing, "rect")[2].get("width") == "1.2"


def test_one_move_of_the_model_draws_no_state_between():
    view, drawn = explore.conversation_cache(), []
    view.html.observe(lambda change: drawn.append(view.values()["kv_heads"]), names="value")
    view.controls["model"].value = "Falcon 7B"
    assert drawn[0] == 1 and not view.paused


def test_what_is_read_of_a_view_of_heads():
    given = torch.tensor([[[0.9, 0.1], [0.25, 0.75]], [[0.4, 0.6], [0.0, 1.0]]])
    view = explore.heads([given, given.flip(0)], ["a", "[SEP]"], layer_names=["low", "high"])
    cells = ["0.90", "0.10", "0.25", "0.75"]
    marks = {"one head": ["▾ 0", "1"], "average": ["0", "1"], "maximum": ["0", "1"], "difference": ["▾ 0", "1"]}
    titles = ["head 0", "average of all heads", "maximum of all heads", "head 0 minus head 1"]
    numbers = [
        cells,
        ["0.65", "0.35", "0.12", "0.88"],
        ["0.90", "0.60", "0.25", "1.00"],
        ["0.50", "-0.50", "0.25", "-0.25"],
    ]
    for (show, heads), title, table in zip(marks.items(), titles, numbers, strict=True):
        low, signs = ("-1", [f"{float(cell):+.2f}" for cell in table]) if show == "difference" else ("0", table)
        row = ["row of [SEP]", "a", signs[2], "[SEP]", signs[3]]
        assert written(view.draw(show=show, query=1)) == [
            *heads,
            f"low, {title}",
            low,
            "1",
            "a",
            "[SEP]",
            "a",
            "[SEP]",
            *table,
            *row,
        ]
        assert view.table(show=show).startswith(f"low, {title}; rows are queries, columns are keys\n")
    assert view.table(layer=1, head=1).splitlines() == [
        "high, head 1; rows are queries, columns are keys",
        "             a  [SEP]",
        "a         0.90   0.10",
        "[SEP]     0.25   0.75",
    ]
    drawing = view.draw(hide=True, query=1, layer=1)
    assert written(drawing)[2] == "high, head 0, special tokens hidden and rows renormalised"
    assert "row of a ([SEP] is hidden), 0.40 of it left" in written(drawing)
    assert "of it left" not in view.draw(hide=True, show="average")
    assert view.still(layer=1).alt.startswith(
        "2 heatmaps of 2 by 2. Largest mean weight: head 0 on “[SEP]” 0.80; head 1 itself 0.82."
    )
    assert "; special tokens hidden. Largest mean weight" in view.still(hide=True).alt


def test_the_still_of_heads_is_titled_by_its_layer_and_how_many_they_are(monkeypatch):
    titles = []
    monkeypatch.setattr(figures, "head_grid", lambda *a, title, alt: titles.append(title))
    for heads, names in ((2, None), (3, None), (3, ["low", "high"])):
        layers = [weights(heads, 3, 3)] * len(names or "x")
        explore.heads(layers, list("abc"), layer_names=names).still()
    assert titles == ["Both heads at once", "All 3 heads at once", "Low: all 3 heads at once"]


def test_what_cannot_be_chosen_is_not_shown_and_sliders_end_with_the_heads():
    one = explore.heads(weights(3, 3, 3), ["a", "b", "[SEP]"]).controls
    two = explore.heads([weights(3, 3, 3), weights(2, 3, 3)], list("abc")).controls
    assert [one[name].layout.display for name in ("layer", "hide")] == ["none", ""]
    assert [two[name].layout.display for name in ("layer", "hide")] == ["", "none"]
    assert [label for label, _ in two["layer"].options] == ["0 layer 0", "1 layer 1"]
    for controls, last in ((one, 2), (two, 1)):
        assert [(controls[name].min, controls[name].max) for name in ("head", "other")] == [(0, last)] * 2
        assert (controls["head"].value, controls["other"].value) == (0, 1)
    assert explore.heads(weights(1, 3, 3), list("abc")).controls["other"].value == 0


def test_a_hidden_key_gets_nothing_and_is_named_so():
    view = explore.mask(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [5.0]]), ["a", "b"])
    assert view.controls["query"].value == 1 and explore.mask().controls["query"].value == 2
    odds = 1 / (1 + np.exp(-2))  # softmax of 3 and 5
    assert view.table().splitlines() == [
        "b sees 2 of 2 keys: the row sums to 1.00",
        f"{'a':16} {1 - odds:.3f}",
        f"{'b':16} {odds:.3f}",
    ]
    assert view.table(query=0).splitlines()[1:] == [f"{token:16} 0.500" for token in "ab"]
    assert view.table(hide1=True).splitlines() == [
        "b sees 1 of 2 keys: the row sums to 1.00",
        f"{'a':16} 1.000",
        f"{'b (hidden)':16} 0.000",
    ]
    drawing = view.draw(hide0=True, hide1=True)
    assert "b sees 0 of 2 keys: nothing to see, the row is zero; nothing to anybody, it is zero" in drawing
    assert view.still(hide1=True).alt == "Bars: a 1.00, b (hidden) 0.00."
    for q, k in (
        (torch.ones(2, 1), torch.ones(2, 2)),
        (torch.ones(2, 1, 1), torch.ones(2, 1, 1)),
        (torch.ones(3, 1), torch.ones(3, 1)),
    ):
        with pytest.raises(ValueError, match="one row for each token" if q.dim() == 2 else "wanted"):
            explore.mask(q, k, ["a", "b"])


def test_bars_of_a_row_stand_in_its_order_with_their_numbers():
    view = explore.mask(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [5.0]]), ["a", "a"])
    drawing = view.draw()
    assert written(drawing)[1:] == ["a", "0.12", "a", "0.88"]
    _, *bars = placed(drawing)[0]
    (low, high) = (right - left for _, (left, _, right, _) in bars)
    assert high / low == pytest.approx(np.exp(2), rel=0.02) and {bar.get("fill") for bar, _ in bars} == {palette.BAR}
    assert view.still().alt == "Bars: 0 a 0.12, 1 a 0.88."


def test_what_is_read_of_the_budget():
    view = explore.parameter_budget()
    layer = {"attention": 4 * 64 * 64, "feed-forward": 8 * 64 * 64, "norms": 2 * 64}
    values = {"d_model": 64, "heads": 4, "layers": 1, "tokens": 128}
    drawing = view.draw(**values)
    held = ", ".join(f"{piece} {count:,}" for piece, count in layer.items())
    assert written(drawing) == [
        "49,280 parameters with any h",
        "attention",
        "feed-forward",
        f"{held}. The frame is 100,000.",
        "0.2 MiB of attention weights with h = 4, T = 128",
        "The frame is 4.0 MiB: h = 64. One text, float32.",
    ]
    assert hovers(drawing) == [*(f"{piece} {count:,}" for piece, count in layer.items()), written(drawing)[-2]]
    _, frame, *pieces, outer, inner = placed(drawing)[0]
    left = frame[1][0]
    for (piece, count), (bar, place) in zip(layer.items(), pieces, strict=True):
        assert bar.get("fill") == palette.piece(piece, 0) and place[0] == pytest.approx(left, abs=0.1)
        left += 700 * count / 100_000
        assert place[2] == pytest.approx(left, abs=0.1)
    assert inner[1][2] - inner[1][0] == pytest.approx(700 * 4 / 64, abs=0.1) and outer[1][2] - outer[1][0] == 700
    assert (outer[0].get("fill"), inner[0].get("fill")) == (palette.PAPER, palette.BAR)
    assert view.table(**values).splitlines() == [
        written(drawing)[0],
        *(f"{piece:13} {count:>14,}" for piece, count in layer.items()),
        written(drawing)[-2],
    ]
    told = "49,280 parameters with any h; 0.2 MiB of attention weights with h = 4, T = 128"
    assert view.still(**values).alt == f"Equal bars for h = 1, h = 4, h = 64: {told}."
    assert view.still(**values | {"heads": 64}).alt.startswith("Equal bars for h = 1, h = 64: ")
    assert ElementTree.fromstring(drawing).get("aria-label") == told


def test_heads_that_the_new_width_lacks_become_the_next_fewer():
    view = explore.parameter_budget()
    view.controls["d_model"].value, view.controls["heads"].value = 768, 48
    view.controls["d_model"].value = 64
    assert view.values()["heads"] == 32 and not view.paused
    assert [h for _, h in view.choices()["heads"]] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def test_each_step_of_a_walk_is_named_with_its_call_and_shape():
    view = explore.reshape()
    stay = "Numbers are token.feature; the colour is the head that a feature belongs to."
    heads, each = (
        "Head 0 holds tokens 0, 1, 2, 3, 4, 5.",
        " Here each looks at itself alone, to keep the addresses readable.",
    )
    right = [
        ("project: q = x W_Q → shape (6, 8)", stay),
        ("split: view(T, h, d_k) → shape (6, 2, 4)", stay),
        ("transpose: transpose(0, 1) → shape (2, 6, 4)", heads),
        ("attend: attend → shape (2, 6, 4)", heads + each),
        ("transpose back: transpose(0, 1) → shape (6, 2, 4)", stay),
        ("merge: reshape(T, d) → shape (6, 8)", "Row 0 holds what the heads say of: token 0."),
    ]
    for step, (title, said) in enumerate(right):
        drawing = view.draw(step=step)
        assert written(drawing)[-2:] == [f"right path. Step {step}, {title}", said]
        assert ElementTree.fromstring(drawing).get("aria-label") == f"right path. Step {step}, {title}. {said}"
    assert "Step 2, transpose: forgotten → shape (2, 6, 4)" in view.draw(path="wrong split", step=2)
    assert "Step 4, transpose back: forgotten → shape (2, 6, 4)" in view.draw(path="wrong merge", step=4)
    assert view.still(path="wrong split").alt == (
        "Boxes, wrong split. Head 0 holds tokens 0, 1, 2. Row 0 holds what the heads say of: token 0, 3."
    )


def test_the_still_of_a_walk_shows_three_of_its_steps(monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "shape_walk", lambda stages, d_k, **words: shown.append((stages, d_k, words["title"])))
    view = explore.reshape(3, 2, 2)
    view.still(path="wrong merge")
    ((stages, d_k, title),) = shown
    assert [*stages] == ["q", "in heads", "merged"] and d_k == 2 and title.endswith(": wrong merge")
    for stage, step in zip(stages.values(), (0, 3, 5), strict=True):
        assert (stage == view.state(path="wrong merge", step=step).now).all()


def test_what_is_read_of_the_switchboard(monkeypatch):
    view = board(monkeypatch, 0.985, 0.99, 1.0, 0.5)
    shares = ["98.5%", "99.0%", "100.0%", "50.0%"]
    names = ["dates", "years", "months", "days"]
    drawing = view.draw(decoder1=True, cross3=True, text=1)
    state = view.state(decoder1=True, cross3=True, text=1)
    assert state[0] == [(1, 1), (2, 3)]
    lines = ["10 of 12 heads on: 98.5% of 300 dates right, less than 99 %", f"Sunday, February 29, 2032 → {state[3]}"]
    boards = [
        ["encoder", "0 on", "1 on", "2 on", "3 on"],
        ["decoder", "0 on", "1 off", "2 on", "3 on"],
        ["cross", "0 on", "1 on", "2 on", "3 off"],
    ]
    bars = [word for pair in zip(names, shares, strict=True) for word in pair]
    assert written(drawing) == [*itertools.chain(*boards), *bars, *lines]
    assert "decoder head 1 off" in hovers(drawing) and "months 100.0%" in hovers(drawing)
    off = [element for element in elements(drawing, "rect") if "off" in "".join(element.itertext())]
    assert [element.get("fill") for element in off] == [palette.PAPER] * 2
    widths = [float(element.get("width")) for element in elements(drawing, "rect")[-8:]]
    assert widths == [220, 216.7, 220, 217.8, 220, 220, 220, 110]
    told = [f"{name:7}{share:>7}" for name, share in zip(names, shares, strict=True)]
    assert view.table(decoder1=True, cross3=True, text=1).splitlines() == [*lines, "off: decoder 1, cross 3", *told]
    assert ElementTree.fromstring(drawing).get("aria-label") == ". ".join(lines)
    assert "off: none" in view.table() and "Off: no head. 3 May 1979" in view.still().alt
    assert view.still().alt.startswith(
        "Bars of what is right: dates 98.5%, years 99.0%, months 100.0%, days 50.0%. Off: "
    )
    assert "The smallest known: 10 heads on" in view.draw(best=True)
    assert "99.0% of 300 dates right, enough for 99 %" in board(monkeypatch, 0.99, 1, 1, 1).table()


def test_the_switches_stand_in_a_row_for_each_layer_and_their_moves_are_taken_back(monkeypatch):
    view = board(monkeypatch, 1, 1, 1, 1)
    *rows, last = view.box.children[0].children
    assert [[switch.description for switch in row.children] for row in rows] == [
        [f"{place} head {head} off" for head in range(4)] for place in ("encoder", "decoder", "cross")
    ]
    assert view.box.children[1] is view.html
    text, best, undo, all_on = last.children
    assert (text, best) == (view.controls["text"], view.controls["best"])
    view.controls["encoder1"].value = view.controls["cross0"].value = True
    view.controls["encoder1"].value = False
    undo.click()
    assert view.controls["encoder1"].value and view.controls["cross0"].value
    undo.click()
    assert view.controls["encoder1"].value and not view.controls["cross0"].value
    all_on.click()
    assert not view.state()[0]
    undo.click()
    assert view.state()[0] == [(0, 1)]


def test_what_is_read_of_a_translation():
    view = explore.translate(untrained())
    state = view.state(head=2)
    assert len(state.read) == 10 and len(state.iso) == 10 and state.maps.shape == (4, 10, 10)
    looked = [[state.read[int(state.maps[head, step].argmax())] for step in range(10)] for head in range(4)]
    drawing = view.draw(head=2)
    rows = [f"{sign}  {share:.2f}" for sign, share in zip(state.iso, state.probabilities, strict=True)]
    numbers = [f"{weight:.2f}" for weight in state.maps[2].flatten()]
    heads = itertools.chain(*([f"head {head}", *signs] for head, signs in enumerate(looked)))
    assert written(drawing) == [*state.words, *rows, *state.read, *numbers, "Looked at most, head by head:", *heads]
    assert hovers(drawing)[-40] == f"{state.iso[0]} looked at {looked[0][0]}, {state.maps[0, 0].max():.2f}"
    assert ElementTree.fromstring(drawing).get("aria-label") == f"{' '.join(state.words)} Head 2 is drawn large."
    assert palette.CHOSEN not in drawing
    lines = view.table().splitlines()[3:]
    for step, line in enumerate(lines):
        signs = " ".join(signs[step] for signs in looked)
        assert line == f"{state.iso[step]}  {state.probabilities[step]:.3f}  heads 0 to 3 looked at {signs}"
    assert view.controls["head"].max == 3 and view.controls["date"].continuous_update is False
    assert view.still().alt.endswith("Heatmaps of 4 cross heads, ten outputs down and 10 characters across.")
    with pytest.raises(ValueError, match="cannot be translated"):
        view.still(date="")


def test_a_doubt_is_what_is_left_of_all_signs_being_right():
    view = explore.translate(untrained())
    state = view.state()
    doubt = 1 - np.prod(state.probabilities)
    more = sum(float(usual) < doubt for usual in view.usual)
    assert state.words[2] == f"Its doubt: {doubt:.1%}, more than {more:,} of 1,000 validation dates had."


def test_two_wishes_make_one_row():
    view = explore.two_peaks()
    assert view.controls["share"].min == 0 and (view.controls["share"].max, view.controls["share"].step) == (100, 5)
    assert view.table(share=80).splitlines()[1:] == [
        f"{token:16} {w:.3f}" for token, w in zip(["Maya", "fed", "her", "cat", ","], (0, 0, 0, 0.2, 0.8), strict=True)
    ]
    assert view.table(share=35, swapped=True).splitlines()[1:] == [
        f"{token:16} {w:.3f}"
        for token, w in zip(["Maya", "fed", "her", ",", "cat"], (0, 0, 0, 0.65, 0.35), strict=True)
    ]
    assert "“cat” and “,” are there" in view.table(share=50, swapped=True)


def test_the_scores_of_softmax_scale_are_divided_by_the_square_root(monkeypatch):
    view = explore.softmax_scale()
    for d_k in (4, 512):
        scores = (view.k[:, :d_k] * view.q[:d_k]).sum(dim=1)
        for scaled, way in ((False, "not divided"), (True, "divided by √d_k")):
            row = (scores / d_k**0.5 if scaled else scores).softmax(dim=0)
            title, *lines = view.table(d_k=d_k, scaled=scaled).splitlines()
            assert title == f"d_k = {d_k}, {way}: the largest weight is {row.max():.2f}"
            assert lines == [f"{f'key {s}':16} {weight:.3f}" for s, weight in enumerate(row)]
    shown = []
    monkeypatch.setattr(figures, "heatmap", lambda *given, **words: shown.append((*given, words)))
    view.still(d_k=8)
    ((both, ways, keys, words),) = shown
    assert (
        both.shape == (2, 8) and ways == ("not divided", "divided by √d_k") and keys == [f"key {s}" for s in range(8)]
    )
    assert (
        words["title"]
        == f"d_k = 8: not divided, one key takes {both[0].max():.2f}; divided by √d_k, {both[1].max():.2f}"
    )


def test_most_of_a_row_is_what_differs_most_from_nothing():
    assert most(np.array([0.1, -0.6, 0.5]), "abc") == "most to b, -0.60"
    assert most(np.zeros(2), "ab") == "nothing to anybody, it is zero"


def test_a_scale_of_colours_runs_from_its_lowest_to_its_highest_colour():
    for signed, low, colours in ((False, "0", palette.WEIGHTS), (True, "-1", palette.DIFFERENCES)):
        parts = f"<g>{''.join(svg.legend(50, 20, signed))}</g>"
        assert written(parts) == [low, "1"]
        boxes = [element.attrib for element in elements(parts, "rect")]
        assert len(boxes) == 11 and (boxes[0]["fill"], boxes[-1]["fill"]) == (colours[0], colours[-1])
        assert boxes[5]["fill"] == svg.shades(signed)[0][128]
        assert [float(box["x"]) for box in boxes] == [50 + 12 * i for i in range(11)] and {
            box["width"] for box in boxes
        } == {"12.0"}
        shades, inks = svg.shades(signed)
        assert all(palette.contrast(ink, shade) > 3.9 for ink, shade in zip(inks, shades, strict=True))


def test_all_heads_are_small_maps_in_rows_and_the_chosen_one_is_marked():
    maps = np.random.default_rng(0).random((14, 2, 3))
    parts, end = svg.heads_panel(maps, 12)
    drawing = f"<g>{''.join(parts)}</g>"
    assert written(drawing) == [f"{'▾ ' if head == 12 else ''}{head}" for head in range(14)]
    assert hovers(drawing) == [f"head {head}" for head in range(14)]
    images = [(float(one.get("x")), float(one.get("y"))) for one in elements(drawing, "image")]
    assert len({y for _, y in images[:12]}) == 1 and images[12][0] == images[0][0] and images[12][1] > images[0][1] + 66
    assert end > images[13][1] + 66 and svg.heads_panel(maps[:12])[1] == pytest.approx((end - 6) / 2 + 6)
    thick = [one for one in elements(drawing, "rect") if one.get("stroke") == palette.INK]
    assert len(thick) == 1 and float(thick[0].get("x")) == images[12][0] - 2 and float(thick[0].get("width")) == 70


def test_labels_of_a_large_map_leave_room_and_the_chosen_row_keeps_its_own():
    for tokens, chosen, every in ((40, 25, 2), (26, 3, 1), (64, 41, 2), (110, 7, 4)):
        names = [f"token{t}" for t in range(tokens)]
        parts, end = svg.map_panel(0, 0, np.full((tokens, tokens), 0.5), names, names, chosen)
        drawing = f"<g>{''.join(parts)}</g>"
        rows = [one.text for one in elements(drawing, "text") if one.get("text-anchor") == "end"]
        columns = [one.text for one in elements(drawing, "text") if one.get("transform")]
        assert rows == names[chosen % every :: every] and names[chosen] in rows
        gap = 400 / tokens
        assert columns == names[:: int(np.ceil(18 / gap))] and end == pytest.approx(60 + 400)
        frame = elements(drawing, "rect")[-1]
        assert frame.get("stroke") == palette.CHOSEN and float(frame.get("y")) == pytest.approx(
            60 + gap * chosen, abs=0.1
        )
        assert float(frame.get("width")) == pytest.approx(400, abs=0.1)
        assert len(elements(drawing, "image")) == (tokens > 24)


def test_cells_have_numbers_where_there_is_room_and_always_on_hover():
    for size, numbers, upright in ((9, True, True), (10, True, False), (13, True, False), (14, False, False)):
        names = [f"t{s}" for s in range(size)]
        drawing = f"<g>{''.join(svg.map_panel(0, 0, np.eye(size), names, names, 0)[0])}</g>"
        assert written(drawing).count("1.00") == size * numbers and hovers(drawing).count("t1 → t1: 1.00") == 1
        assert all(bool(one.get("transform")) != upright for one in elements(drawing, "text")[size : 2 * size])
    letters = [chr(97 + s) for s in range(20)]
    drawing = f"<g>{''.join(svg.map_panel(0, 0, np.eye(20), letters, letters, 0)[0])}</g>"
    assert written(drawing) == 2 * letters and "rotate" not in drawing


def test_a_long_row_says_that_only_its_largest_weights_are_shown():
    row = np.linspace(0.1, 0.12, 21)
    for count in (20, 21):
        parts, _ = svg.bars_panel(0, 0, row[:count], [f"t{s}" for s in range(count)], "row of a")
        words = written(f"<g>{''.join(parts)}</g>")
        assert words[0] == "row of a" + (", its 20 largest weights" if count > 20 else "") and len(words) == 41
        assert words[1::2] == [f"t{s}" for s in range(count - 20, count)]


def test_signed_bars_grow_from_one_line_to_both_sides_each_in_its_colour():
    parts, _ = svg.bars_panel(0, 0, np.array([0.5, -0.25, 0.0]), ["much", "less", "none"], "row", signed=True)
    drawing = f"<g>{''.join(parts)}</g>"
    assert written(drawing) == ["row", "much", "+0.50", "less", "-0.25", "none", "+0.00"]
    (more, less, none) = (place for _, place in placed(drawing)[0])
    assert (
        more[0] == less[2] == none[0] and more[2] - more[0] == 45 and less[2] - less[0] == 22.5 and none[2] == none[0]
    )
    assert [bar.get("fill") for bar in elements(drawing, "rect")] == [palette.MORE, palette.LESS, palette.MORE]
    assert hovers(drawing) == ["much 0.500", "less -0.250", "none 0.000"]


def test_boxes_have_the_colour_of_the_head_that_their_feature_belongs_to():
    block = figures.addresses(2, 4).view(2, 2, 2).transpose(0, 1)
    parts, end = svg.boxes_panel(5, 7, block, 2, "head")
    drawing = f"<g>{''.join(parts)}</g>"
    boxes = elements(drawing, "rect")
    assert [box.get("fill") for box in boxes] == [palette.head(0)] * 4 + [palette.head(1)] * 4
    assert written(drawing) == [
        "0.0",
        "0.1",
        "1.0",
        "1.1",
        "head 0",
        "0.2",
        "0.3",
        "1.2",
        "1.3",
        "head 1",
    ]
    assert end == 67 and [(box.get("x"), box.get("y")) for box in boxes[:5:2]] == [
        ("5.0", "7.0"),
        ("5.0", "37.0"),
        ("95.0", "7.0"),
    ]


def test_stills_of_bars_are_drawn_of_what_the_view_says(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "bars", lambda rows, **words: drawn.append((rows, words)))
    cache, budget, switches = (
        explore.conversation_cache(),
        explore.parameter_budget(),
        board(monkeypatch, 0.5, 1, 1, 0.75),
    )
    one_row = explore.mask(torch.tensor([[0.0], [0.0]]), torch.tensor([[3.0], [5.0]]), ["a", "b"])
    for view in (cache, budget, switches, one_row):
        view.still()
    rows, words = zip(*drawn, strict=True)
    assert rows[0] == {"LLaMA 7B, as published": 16.0, "32 layers, 8 key heads of 128": 4.0}
    assert rows[1] == {f"h = {h}": budget.state().pieces for h in (1, 8, 64)}
    assert rows[2] == {"dates": 50.0, "years": 100.0, "months": 100.0, "days": 75.0} and rows[3] == {"a": 0.5, "b": 0.5}
    units = ["GiB of keys and values, one text", "parameters", "of 100 right", "weight"]
    assert [said["unit"] for said in words] == units
    assert [said.get("numbers", "") for said in words] == ["{:,.2f}", "", "{:.1f}", "{:.2f}"]
    titles = [view.table().splitlines()[0] for view in (cache, budget, switches, one_row)]
    titles[1] += "; the tables are another matter"
    assert [said["title"] for said in words] == titles
    cache.still(tokens=1024)
    assert drawn[-1][0]["LLaMA 7B, as published"] == 0.5


def test_the_still_of_a_translation_is_drawn_of_its_heads(monkeypatch):
    drawn, view = [], explore.translate(untrained())
    monkeypatch.setattr(figures, "head_grid", lambda *given, **words: drawn.append((*given, words)))
    view.still()
    ((maps, rows, columns, words),) = drawn
    state = view.state()
    assert (maps.numpy() == state.maps).all() and (rows, columns) == (state.iso, state.read)
    assert words["names"] == [f"head {head}" for head in range(4)] and words["title"] == " ".join(state.words[:2])


def test_a_mask_takes_queries_and_keys_as_a_model_has_them():
    q = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], requires_grad=True)
    k = torch.tensor([[1, 2], [3, 4], [5, 6]])
    wanted = (q @ k.float().T / 2**0.5).softmax(dim=1)
    for pair in (
        (q, k),
        (q.detach().double(), k),
        (q.detach().tolist(), k.tolist()),
        (q.bfloat16(), k.double().requires_grad_()),
    ):
        view = explore.mask(*pair, tokens=list("abc"))
        for query in range(3):
            assert view.state(query=query).weights == pytest.approx(wanted[query].detach().numpy(), abs=1e-5)
    assert [view.controls[f"hide{s}"].description for s in range(3)] == ["hide a", "hide b", "hide c"]
    assert view.controls["query"].options == (("0 a", 0), ("1 b", 1), ("2 c", 2)) and view.controls["query"].value == 2
