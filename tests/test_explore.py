"""The moving views: every state drawn, told in words and guarded.  The browser tests move them for real."""

import base64
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
from PIL import Image

from mha import explore, figures, palette, runtime
from mha.tasks import dates
from mha.views import svg
from mha.views.reshape import PATHS
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
    assert "application/vnd.jupyter.widget-view+json" in shown[-1]
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
    assert view.values() in record.settings(view)


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


def test_for_a_projector_a_view_is_larger_and_in_the_dark_look_it_is_dark(monkeypatch):
    page = ElementTree.fromstring(explore.mask().draw())
    monkeypatch.setattr(runtime.look, "scale", runtime.PROJECTOR)
    monkeypatch.setattr(runtime.look, "dark", True)
    large = ElementTree.fromstring(explore.mask().draw())
    assert large.get("viewBox") == page.get("viewBox")
    assert int(large.get("width")) == pytest.approx(runtime.PROJECTOR * int(page.get("width")), abs=1)
    assert large.get("fill") == palette.DARK["INK"] and palette.LIGHT["PAPER"] not in explore.mask().draw()
