"""The stills: each a PNG with its words, none left open, none drawn of the wrong shape."""

import functools
import io
import itertools
import os
import subprocess
import sys
from unittest import mock

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox
from PIL import Image

from mha import explore, figures, palette, runtime
from mha.accounting import attention_parameters
from mha.figures import architecture
from mha.figures.layer import STAGES
from mha.figures.look import WIDTH, Picture, colour_map, drawable, own_settings, sheet
from mha.open_models import read_models
from mha.tasks import dates
from mha.transformer import Transformer
from tests.outputs import FRONT, front_picture

WORDS = {"title": "What to see", "alt": "One sentence that says it."}
TABLE = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
ADDRESSES = figures.addresses(3, 4)
DRAWN = {
    "heatmap": lambda: figures.heatmap(TABLE, "ab", "xyz", **WORDS),
    "head_grid": lambda: figures.head_grid(TABLE.expand(5, 2, 3), "ab", "xyz", **WORDS),
    "shape_walk": lambda: figures.shape_walk({"q": ADDRESSES, "heads": ADDRESSES.view(2, 3, 2)}, 2, **WORDS),
    "bars": lambda: figures.bars({"one": {"a": 1, "b": 2}, "two": {"a": 3}}, unit="things", **WORDS),
    "curves": lambda: figures.curves([1, 2, 4], {"up": [1, 2, 3]}, x_label="x", y_label="y", **WORDS),
    "attention_layer": lambda: figures.attention_layer(4, **WORDS),
    "one_score": lambda: figures.one_score(TABLE, TABLE, "ab", 1, 0, **WORDS),
    "differences": lambda: figures.differences([[1e-7, 0.0]], ["row"], ["a", "b"], **WORDS),
}
DRAWN["architecture"] = lambda: architecture.transformer(Transformer(9, 7, 16, 4, 48, layers=1), **WORDS)
LONG = {"title": "A sentence that says what there is to see, and goes on to say it " * 2, "alt": "Words."}
QUERY_TO_OUTPUT = {f"h = {h}": attention_parameters(512, h, bias=True) for h in (1, 8, 512)}
STACKED = ADDRESSES.view(3, 2, 2).transpose(0, 1)
CROWDED = {  # what may not fit: many, long or narrow
    "bars of pieces": lambda: figures.bars(QUERY_TO_OUTPUT, unit="parameters", **LONG),
    "bars of millions": lambda: figures.bars({"x" * 60: 123_456_789_012, "b": 1}, unit="bytes", **LONG),
    "close curves": lambda: figures.curves(
        [1, 2], {name: [1, 2] for name in ("one", "two", "three", "four")}, x_label="x", y_label="y", **LONG
    ),
    "a flat heatmap": lambda: figures.heatmap(
        torch.eye(2), ["yes", "no"], label="whether the two agree", scale=(0, 1), **LONG
    ),
    "long tokens": lambda: figures.heatmap(torch.eye(15), [f"word{i}" * 3 for i in range(15)], **LONG),
    "many heads": lambda: figures.head_grid(torch.eye(15).expand(12, -1, -1), [f"word{i}" for i in range(15)], **LONG),
    "wide differences": lambda: figures.differences(torch.zeros(4, 7), list("abcd"), ["outputs"] * 7, **LONG),
    "large addresses": lambda: figures.shape_walk(
        {"q": figures.addresses(12, 12), "heads": figures.addresses(12, 12).view(12, 3, 4).transpose(0, 1)}, 4, **LONG
    ),
    "the code of a layer": lambda: figures.attention_layer(4, code=True, **LONG),
    "a layer of eight heads": lambda: figures.attention_layer(8, **LONG),
    "two ways": lambda: figures.shape_walk(
        {"q (T, d)": ADDRESSES, "correct: transpose, reshape": STACKED, "wrong: reshape alone": STACKED}, 2, **LONG
    ),
}
STILLS = {  # of the views, with what they show when they are opened
    "heads": lambda: explore.heads(torch.eye(6).expand(3, 6, 6), "Maya fed her cat , twice".split()).still(),
    "softmax_scale": lambda: explore.softmax_scale().still(),
    "mask": lambda: explore.mask().still(),
    "two_peaks": lambda: explore.two_peaks().still(),
    "reshape": lambda: explore.reshape().still(),
    "parameter_budget": lambda: explore.parameter_budget().still(),
    "translate": lambda: explore.translate(dates.model().eval()).still(),
}
no_warning = pytest.mark.filterwarnings("error::UserWarning")
every_still = pytest.mark.parametrize("name", DRAWN)


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))


@every_still
def test_a_still_is_a_picture_with_its_words_and_stays_the_same(name, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append((data, more)))
    picture = DRAWN[name]()
    picture._ipython_display_()
    (data, more) = shown[0]
    assert data["text/plain"] == WORDS["alt"] and more["metadata"]["image/png"]["alt"] == WORDS["alt"]
    assert capsys.readouterr().out == f"In words: {WORDS['alt']}\n"
    assert (pixels(picture) < 200).any() and picture.png == DRAWN[name]().png
    assert not plt.get_fignums()


OTHERS = {  # what a user may have set, by style, in a file or in the notebook
    "ggplot": {"axes.grid": True, "axes.facecolor": "#E5E5E5", "grid.color": "white", "axes.axisbelow": True},
    "upside down": {"image.origin": "lower", "image.interpolation": "bilinear", "image.cmap": "jet"},
    "saving": {"savefig.transparent": True, "savefig.dpi": 30, "savefig.facecolor": "red", "savefig.pad_inches": 2},
    "letters": {"text.usetex": True, "font.size": 30, "font.family": ["serif"], "mathtext.default": "it"},
    "lines": {"lines.linewidth": 9, "axes.prop_cycle": matplotlib.cycler(color="r"), "xtick.labelsize": 20},
}


@pytest.mark.parametrize("other", OTHERS)
@every_still
def test_a_still_is_the_same_whatever_the_users_settings(name, other):
    wanted = DRAWN[name]().png
    with matplotlib.rc_context(OTHERS[other]):
        assert DRAWN[name]().png == wanted
        assert all(matplotlib.rcParams[key] == value for key, value in OTHERS[other].items())  # and they are left alone


@no_warning
@pytest.mark.parametrize("draw", [figures.heatmap, lambda *a, **w: figures.head_grid(a[0][None], a[1], **w)])
def test_tokens_are_drawn_as_they_are(draw):
    def drawn(token):
        return draw(torch.full((3, 3), 1 / 3), [token, "b", "c"], **WORDS).png

    odd = ["$$", "$5$", "5", "$\\frac{", "\n", "\\n", "\t", " ", "😀", "🦊", "猫", "%", "_^", "\ud83d", "x" * 80]
    assert len({drawn(token) for token in odd}) == len(odd)
    assert drawn("\n") == drawn(repr("\n")) and drawn("🦊") == drawn("U+1F98A")


@no_warning
def test_titles_and_bars_may_hold_markup():
    words = WORDS | {"title": "$5$ and $$ and $\\frac{"}
    figures.bars({"$$": 1.0, "$5$": 2.0}, unit="$x$", **words)
    figures.curves([1, 2], {"$a_": [1, 2]}, x_label="$", y_label="$$", **words)
    figures.shape_walk({"$$": ADDRESSES}, 2, **words)


def test_words_are_wrapped_between_words(capsys, monkeypatch):
    monkeypatch.setattr("IPython.display.display", lambda data, **more: None)
    alt = "A sentence of many well-known words, " * 12 + "w" * 120 + " and its end."
    figures.bars({"a": 1.0}, unit="", title="", alt=alt)._ipython_display_()
    said = capsys.readouterr().out
    assert said.split() == f"In words: {alt}".split()
    assert all(len(line) <= 90 for line in said.splitlines() if "www" not in line)


@pytest.mark.parametrize(("heads", "tokens"), [(1, 6), (4, 16), (5, 2), (12, 15), (12, 40)])
def test_a_grid_of_heads_fits_a_page(heads, tokens):
    names = [f"token{i}" for i in range(tokens)]
    picture = figures.head_grid(torch.eye(tokens).expand(heads, -1, -1), names, **WORDS)
    height, width, _ = pixels(picture).shape
    assert width <= 864 and height < 2400  # 9 inches of 96 pixels: shown whole, letters of 9 points at 120 dots an inch


def test_where_no_folder_can_be_written_nothing_is_said_of_it():
    gone = {"HOME": "/proc/nowhere", "XDG_CONFIG_HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    kept = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    done = subprocess.run(
        [sys.executable, "-c", "from mha import explore; explore.mask().still(); print('drawn')"],
        env=kept | gone,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("drawn\n", "")


def test_a_larger_weight_is_darker_whatever_its_hue():
    ramp = colour_map(palette.WEIGHTS)(np.linspace(0, 1, 50))[:, :3]
    lightness = ramp @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) < 0).all() and lightness[0] > 0.99 and lightness[-1] < 0.2


def test_a_heatmap_is_drawn_of_its_values():
    dark = [(pixels(figures.heatmap(torch.full((2, 2), value), "ab", **WORDS)) < 60).sum() for value in (0.0, 1.0)]
    assert dark[1] > 2 * dark[0]


def test_without_a_label_there_is_no_bar_of_colours():
    with_bar, without = (pixels(figures.heatmap(TABLE * 0, "ab", "xyz", label=label, **WORDS)) for label in ("w", ""))
    blue, none = (((drawn[..., 0] < 60) & (drawn[..., 2] > 90)).sum() for drawn in (with_bar, without))
    assert blue > 100 and none == 0  # the bar's dark end; the table is all white


def test_bars_of_nothing_are_drawn_without_a_warning(recwarn):
    assert figures.bars({"hidden": 0.0}, unit="weight", **WORDS).png and not recwarn.list


def test_addresses_say_token_and_feature():
    assert figures.addresses(3, 4)[2, 1] == 201


def test_the_arrow_leads_to_a_step_but_not_to_a_wrong_one():
    right, wrong = (figures.shape_walk({"q": ADDRESSES, name: ADDRESSES}, 2, **WORDS) for name in ("correct", "wrong"))
    assert (pixels(right) < 60).sum() > (pixels(wrong) < 60).sum() + 50


def test_a_box_has_the_colour_of_the_head_that_its_feature_belongs_to():
    colours = [tuple(int(shade[i : i + 2], 16) for i in (1, 3, 5)) for shade in palette.HEADS[:2]]
    for head in (0, 1):
        drawn = pixels(figures.shape_walk({"q": ADDRESSES[:, 2 * head : 2 * head + 2]}, 2, **WORDS))
        seen = [(drawn == colour).all(axis=-1).sum() > 1000 for colour in colours]
        assert seen == [head == 0, head == 1]


def test_weights_of_more_than_one_text_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"choose one text, weights\[0\]"):
        figures.head_grid(torch.zeros(2, 3, 4, 4), "abcd", **WORDS)
    with pytest.raises(ValueError, match=r"choose one, weights\[0, 0\]"):
        figures.heatmap(torch.zeros(3, 4, 4), "abcd", **WORDS)


def words_of(figure):
    """The texts of a figure that are seen, each with its box in dots."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text().strip()]
    seen = [text for text in texts if not isinstance(text.axes, matplotlib.axes.Axes) or text.axes.get_visible()]
    return [(text, text.get_window_extent()) for text in seen if text not in _hidden_ticks(figure)]


def _hidden_ticks(figure):
    """Labels that are made and not drawn: those outside an axis, or switched off on one of its sides."""
    hidden = []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                drawn = axes.axison and axes.get_visible() and low <= tick.get_loc() <= high
                hidden += [label for label in (tick.label1, tick.label2) if not (drawn and label.get_visible())]
    return hidden


ALL_STILLS = DRAWN | CROWDED | STILLS


@pytest.mark.parametrize("scale", [1.0, runtime.PROJECTOR], ids=["page", "projector"])
@pytest.mark.parametrize("name", ALL_STILLS)
def test_no_words_run_over(name, scale, monkeypatch):
    """All words are inside the picture, none touches another, and a number stays inside its cell."""
    kept = []
    monkeypatch.setattr(runtime.look, "scale", scale)
    monkeypatch.setattr(Picture, "__init__", lambda self, figure, alt: kept.append(figure))
    ALL_STILLS[name]()
    (figure,) = kept
    with own_settings():
        found = words_of(figure)
        for number, (text, box) in enumerate(found):
            inside = figure.bbox.padded(0.06 * figure.dpi)  # what `savefig` keeps round a picture
            assert inside.fully_contains(*box.min) and inside.fully_contains(*box.max), text
            for other, its_box in found[:number]:
                turned = text.get_rotation() % 90 or other.get_rotation() % 90  # boxes of slanted words overlap
                # A box holds a line's full height: letters leave a fifth of it free, across where they stand upright.
                tight = (0.8, 0.97) if text.get_rotation() == other.get_rotation() == 90 else (0.97, 0.8)
                assert turned or not box.shrunk(*tight).overlaps(its_box.shrunk(*tight)), (text, other)
            assert text.get_fontsize() * scale >= 7 or name in ("long tokens", "large addresses", "many heads"), text
        wide = figure.get_figwidth()
        assert wide <= WIDTH / scale + 1e-6 or name == "architecture"
    assert len(found) > 3


@every_still
def test_for_a_projector_type_is_larger_by_one_factor_and_the_page_as_wide(name, monkeypatch):
    before = pixels(DRAWN[name]())
    monkeypatch.setattr(runtime.look, "scale", runtime.PROJECTOR)
    after = pixels(DRAWN[name]())
    assert after.shape[0] > before.shape[0] and after.shape[1] >= 0.97 * before.shape[1]
    assert after.shape[1] <= 1.03 * max(840, before.shape[1] * runtime.PROJECTOR)


def test_without_words_of_its_own_a_still_says_its_numbers():
    table = torch.tensor([[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    said = figures.heatmap(table, "abc", "xy", title="What to see").alt
    assert said == "3 by 2, the largest of each row: a → x 0.70; b → all 0.50; c → y 0.80."
    said = figures.heatmap(torch.tensor([[2.0, 2.0, 1.0]]), "a", "xyz", numbers="{:.0f}", title="What to see").alt
    assert said == "1 by 3, the largest of each row: a → x and y 2."
    said = figures.bars({"one": {"a": 1, "b": 2}, "two": 3}, unit="things", title="What to see").alt
    assert said == "Bars of things: one: 3 (a 1, b 2); two: 3."
    said = figures.curves([1, 2], {"up": [0.5, 1]}, x_label="size", y_label="share", title="What to see").alt
    assert said == "Lines of the share. up 0.5, 1. These are at 1, 2 (size)."
    said = figures.one_score(TABLE, 2 * TABLE, "ab", 1, 0, title="What to see").alt
    assert "row of a" not in said and "row of b" in said and "column of a" in said and said.endswith("is one score, 1.")
    said = figures.attention_layer(4, title="What to see").alt
    assert said.count(";") == 6 and "three times (B, h, T, d_k)" in said


@every_still
def test_in_the_dark_look_a_still_is_light_on_dark(name, monkeypatch):
    monkeypatch.setattr(runtime.look, "dark", True)
    drawn = pixels(DRAWN[name]())
    paper = [int(palette.DARK["PAPER"][i : i + 2], 16) for i in (1, 3, 5)]
    assert (drawn[0, 0] == paper).all() and (drawn > 180).all(axis=-1).any()


def test_parts_of_attention_have_their_own_colours_in_bars():
    drawn = pixels(figures.bars(QUERY_TO_OUTPUT, unit="parameters", **WORDS))
    for role in ("QUERY", "KEY", "VALUE"):
        colour = [int(palette.LIGHT[role][i : i + 2], 16) for i in (1, 3, 5)]
        assert (abs(drawn.astype(int) - colour).max(axis=-1) < 4).sum() > 1000, role


def test_the_readmes_picture_is_what_its_maker_draws():
    stored = np.asarray(Image.open(FRONT).convert("RGB")).astype(int)
    drawn = pixels(front_picture()).astype(int)
    assert abs(np.subtract(stored.shape, drawn.shape)).max() <= 4  # type may be set a dot wider elsewhere
    tall, wide = np.minimum(stored.shape, drawn.shape)[:2]
    assert abs(stored[:tall, :wide] - drawn[:tall, :wide]).mean() < 4


@functools.cache
def drawn(make):
    """The figure of a still as matplotlib has it."""
    kept = []
    with mock.patch.object(Picture, "__init__", lambda self, figure, alt: kept.append(figure)):
        make()
    return kept[-1]


def laid_out(make):
    """The same, with each thing where it will stand."""
    figure = drawn(make)
    with own_settings():
        figure.draw_without_rendering()
    return figure


def box_of(patch):
    """(left, bottom, right, top) of a box in the numbers of its axes."""
    return patch.get_path().get_extents(patch.get_patch_transform()).extents


def boxes_of(axes):
    """The coloured boxes of a drawing: [(left, bottom, right, top, colour)]."""
    return [(*box_of(patch), to_hex(patch.get_facecolor())) for patch in axes.patches if patch.get_facecolor()[3]]


def held(axes):
    """The words that stand in a box: [(words, x, y, the smallest box that has their middle)]."""
    found, boxes = [], boxes_of(axes)
    for text in axes.texts:
        x, y = text.get_position()
        around = [box for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3]]
        if text.get_text() and around:
            found.append((text.get_text(), x, y, min(around, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))))
    return found


def within(one, two):
    return all(one[i] >= two[i] - 1e-6 and one[i + 2] <= two[i + 2] + 1e-6 for i in (0, 1))


DRAWINGS = ("architecture", "attention_layer", "a layer of eight heads", "one_score", "shape_walk", "two ways")


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_box_lies_across_another_and_each_has_its_words_in_the_middle(name):
    figure = laid_out(ALL_STILLS[name])
    (axes,) = figure.axes
    boxes = boxes_of(axes)
    for one, two in itertools.combinations(boxes, 2):
        apart = any(min(one[i + 2], two[i + 2]) - max(one[i], two[i]) < 1e-6 for i in (0, 1))
        assert apart or within(one, two) or within(two, one), (one, two)
    for words, x, y, box in held(axes):
        assert x == pytest.approx((box[0] + box[2]) / 2), words
        parts = [one for one in boxes if one != box and within(one, box)]
        assert parts or y == pytest.approx((box[1] + box[3]) / 2), words
    low, high = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    assert all(within(box, (low[0], high[0], low[1], high[1])) for box in map(box_of, axes.patches))
    seen = [thing for thing in (*axes.patches, *axes.lines, *axes.images, *axes.texts) if thing.get_visible()]
    union = Bbox.union([one.get_window_extent() for one in seen if getattr(one, "get_text", lambda: " ")()])
    beside = np.abs(union.extents - axes.get_window_extent().extents) / figure.dpi
    assert (beside < 0.75).all()  # inches that are left free, or that words lean out


@pytest.mark.parametrize("name", DRAWINGS[:3])
def test_each_arrow_leads_from_one_thing_to_another(name):
    figure = laid_out(ALL_STILLS[name])
    (axes,) = figure.axes
    words = [text for text in axes.texts if text.get_text()]
    ends = [end for text in axes.texts if isinstance(text, Annotation) for end in (text.xyann, text.xy)]

    boxes = [*map(box_of, axes.patches)]

    def touched(end):
        x, y = end
        if abs(y - axes.get_ylim()[0]) < 1e-6:
            return True  # what leaves the drawing
        for left, bottom, right, top in boxes:
            across, up = left - 1e-6 <= x <= right + 1e-6, bottom - 1e-6 <= y <= top + 1e-6
            if (across and min(abs(y - bottom), abs(y - top)) < 0.02) or (
                up and min(abs(x - left), abs(x - right)) < 0.02
            ):
                return True
        for line in axes.lines:
            for (x0, y0), (x1, y1) in itertools.pairwise(line.get_xydata()):
                if min(x0, x1) - 0.02 <= x <= max(x0, x1) + 0.02 and min(y0, y1) - 0.02 <= y <= max(y0, y1) + 0.02:
                    return True
        place = axes.transData.transform(end)
        return any(text.get_window_extent().padded(0.17 * figure.dpi).contains(*place) for text in words)

    assert len(ends) > 40 and [end for end in ends if not touched(end)] == []


def test_a_layer_is_drawn_alike_at_both_sides_and_arrows_have_the_colour_of_what_they_carry():
    roles = {"q": palette.QUERY, "k": palette.KEY, "v": palette.VALUE}
    for heads in (2, 4):
        (axes,) = drawn(lambda heads=heads: figures.attention_layer(heads, **WORDS)).axes
        rows = {}
        for words, x, y, box in sorted(held(axes), key=lambda one: (one[2], one[1])):
            rows.setdefault(y, []).append((words, x, box))
            if words in roles:
                assert box[4] == roles[words]
        names = [[words for words, *_ in row] for row in rows.values()]
        each = [f"head {head}" for head in range(heads)]
        assert names == [
            ["x"],
            ["q"] * heads + ["k"] * heads + ["v"] * heads,
            ["q", "k", "v"] * heads,
            each,
            each,
            ["W_O"],
        ]
        for row in rows.values():
            middles = np.array([x for _, x, _ in row])
            assert np.allclose(middles + middles[::-1], 2 * middles.mean()) and middles.mean() == pytest.approx(3)
            assert len({round(box[2] - box[0], 6) for *_, box in row}) == 1
        for y, group in zip([*rows][1:3], (heads, 3), strict=True):  # of each group the boxes stand evenly
            x = np.array([x for _, x, _ in rows[y]]).reshape(-1, group)
            assert np.ptp(np.diff(x)) < 1e-6 and np.ptp(np.diff(x[:, 0])) < 1e-6


def test_arrows_of_a_layer_have_the_colour_of_what_they_carry_and_tables_are_rows_of_weights():
    roles = {"q": palette.QUERY, "k": palette.KEY, "v": palette.VALUE}
    (axes,) = drawn(DRAWN["attention_layer"]).axes
    below = {(round(box[0] + box[2], 6), round(box[3], 6)): roles.get(words) for words, _, _, box in held(axes)}
    carried = []
    for arrow in (text for text in axes.texts if isinstance(text, Annotation)):
        role = below.get((round(2 * arrow.xyann[0], 6), round(arrow.xyann[1], 6)))
        if role:
            carried.append(role)
            assert to_hex(arrow.arrow_patch.get_edgecolor()) == role
    assert sorted(carried) == sorted(8 * [*roles.values()])
    for head, image in enumerate(axes.images):
        table = image.get_array()
        assert np.allclose(table.sum(axis=1), 1) and table[5].argmax() == 5 - head and image.get_clim() == (0, 1)


def test_the_steps_of_a_layer_are_read_at_its_right():
    (axes,) = drawn(lambda: figures.attention_layer(4, code=True, **WORDS)).axes
    aside = sorted(
        (text.get_position()[1], text.get_text())
        for text in axes.texts
        if text.get_text() and text.get_position()[0] > 6.2
    )
    assert [words for _, words in aside] == [word for _, line, shape in STAGES for word in (line, shape)]
    assert np.allclose(np.diff([y for y, _ in aside]), 0.625)


def test_a_transformer_is_drawn_from_bottom_to_top_with_the_sizes_of_the_model():
    figure = drawn(lambda: architecture.transformer(Transformer(9, 7, 16, 8, 48, layers=3), **WORDS))
    (axes,) = figure.axes
    feed = "feed-forward\n16 → 48 → 16, each token alone"
    block = ["norm", [str(head) for head in range(8)], "+"]

    def stack(x):
        rows = {}
        for text in axes.texts:
            at, y = text.get_position()
            if text.get_text() and abs(at - x) < 1.45 and text.get_ha() == "center" and not text.get_rotation():
                rows.setdefault(round(y, 6), []).append((at, text.get_text()))
        found = [[words for _, words in sorted(row)] for _, row in sorted(rows.items())]
        return [row[0] if len(row) == 1 else row for row in found]

    def attention(name):
        return [block[0], block[1], name, block[2]]

    assert stack(architecture.LEFT) == [
        "source (B, S): the date as it was written\n3 May 1979", "embedding + position",
        *attention("self-attention, weights (B, h, S, S)"), "norm", feed, "+", "norm", "memory (B, S, 16)",
    ]  # fmt: skip
    assert stack(architecture.RIGHT) == [
        "target so far (B, T): start, then what was written\nstart 1 9 7 9 - 0", "embedding + position",
        *attention("causal self-attention, weights (B, h, T, T)"), *attention("cross-attention, weights (B, h, T, S)"),
        "norm", feed, "+", "norm", "read-out 16 → 7", "scores (B, T, 7) for the next symbol, here 5",
    ]  # fmt: skip
    aside = [text.get_text() for text in axes.texts if text.get_text() and text.get_ha() != "center"]
    assert sorted(aside) == ["(B, S, 16)", "(B, T, 16)", "keys and\nvalues", "queries"]
    turned = [text.get_text() for text in axes.texts if text.get_rotation() == 90]
    assert turned == ["encoder layer × 3", "decoder layer × 3"]
    colours = {words.partition(" ")[0]: box[4] for words, _, _, box in held(axes)}
    roles = {"norm": "NORM", "self-attention,": "ATTENTION", "cross-attention,": "ATTENTION", "read-out": "READ_OUT"}
    roles |= {"embedding": "EMBEDDING", "feed-forward\n16": "FEED_FORWARD", "0": "PAPER"}
    assert {words: colours[words] for words in roles} == {
        words: to_hex(palette.LIGHT[role]) for words, role in roles.items()
    }


def test_the_stacks_of_a_transformer_are_built_alike():
    (axes,) = drawn(DRAWN["architecture"]).axes
    stacks = [[one for one in held(axes) if abs(one[1] - x) < 1e-6] for x in (architecture.LEFT, architecture.RIGHT)]
    for stack in stacks:  # all parts of one width; the same parts as tall as each other
        tall = {}
        for words, _, _, box in stack:
            assert box[2] - box[0] == pytest.approx(architecture.WIDE), words
            tall.setdefault(box[4], set()).add(round(box[3] - box[1], 2))
        assert all(len(one) == 1 for colour, one in tall.items() if colour != to_hex(palette.NORM))
    for (_, _, y, one), (_, _, other_y, other) in zip(*(stack[:3] for stack in stacks), strict=True):
        assert y == other_y and one[1::2] == other[1::2]  # both begin at the same heights
    heads = [box for words, _, _, box in held(axes) if words.startswith("head")]
    assert len(heads) == 12 and len({round(box[2] - box[0], 6) for box in heads}) == 1
    for part in range(3):
        row = heads[4 * part : 4 * part + 4]
        assert np.ptp(np.diff([box[0] for box in row])) < 1e-6
        assert row[0][0] + row[3][2] == pytest.approx(
            2 * (architecture.LEFT if part == 0 else architecture.RIGHT), abs=0.02
        )
    frames = [box_of(patch) for patch in axes.patches if not patch.get_facecolor()[3]]
    for frame, x in zip(frames, (architecture.LEFT, architecture.RIGHT), strict=True):
        assert frame[0] + frame[2] == pytest.approx(2 * x)
        inner = [box for box in boxes_of(axes) if within(box, frame)]
        assert len(inner) == (8 if x == architecture.LEFT else 14)  # the layer's parts and nothing else
    for marks, role in ((axes.lines, ("KEY", "VALUE", "QUERY")),):
        drawn_in = {to_hex(line.get_color()) for line in marks}
        assert {palette.LIGHT[one] for one in role} <= drawn_in


def test_a_score_is_where_its_row_and_its_column_meet():
    q, k = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [2.0, 1.0], [5.0, 2.0]])
    (axes,) = drawn(lambda: figures.one_score(q, k, ["a", "b", "c"], 1, 2, **WORDS)).axes
    grids = {"q": (q, palette.QUERY), "k": (k.T, palette.KEY), "scores": (q @ k.T, palette.LINE)}
    cells = sorted(held(axes), key=lambda one: (one[2], one[1]))
    at = 0
    for (name, (values, colour)), (down, across) in zip(grids.items(), ((3, 2), (2, 3), (3, 3)), strict=True):
        mine = [one for one in held(axes)][at : at + down * across]
        at += down * across
        assert [words for words, *_ in mine] == [f"{number:.0f}" for number in values.flatten().tolist()]
        for number, (_, x, y, box) in enumerate(mine):
            t, s = divmod(number, across)
            assert (x, y) == pytest.approx((mine[0][1] + s, t + 0.5)) and box[2] - box[0] == box[3] - box[1] == 1
            chosen = {"q": t == 1, "k": s == 2, "scores": (t, s) == (1, 2)}[name]
            assert box[4] == to_hex(colour if chosen else palette.PAPER)
    assert len(cells) == at
    outside = [text for text in axes.texts if text.get_text() not in {words for words, *_ in cells}]
    assert [text.get_text() for text in outside] == [
        "a", "b", "c", "q (T, d_k)", "a", "b", "c", "k.T (d_k, T)", *"abcabc", "scores (T, T)", "@", "="
    ]  # fmt: skip
    assert [text.get_position()[1] for text in outside[:3]] == [0.5, 1.5, 2.5]
    names = {text.get_text(): text.get_position()[0] for text in outside if len(text.get_text()) > 3}
    middles = [np.mean([x for _, x, *_ in held(axes)[a:b]]) for a, b in ((0, 6), (6, 12), (12, 21))]
    assert [*names.values()] == pytest.approx(middles)


def test_a_walk_of_shapes_shows_each_address_under_its_name():
    steps = {"q": ADDRESSES, "heads": STACKED}
    (axes,) = drawn(lambda: figures.shape_walk(steps, 2, **WORDS)).axes
    cells = held(axes)
    assert [words for words, *_ in cells] == [f"{t}.{f}" for t in range(3) for f in range(4)] + [
        f"{t}.{2 * head + f}" for head in range(2) for t in range(3) for f in range(2)
    ]
    assert [box[4] for *_, box in cells] == [palette.head(int(words[-1]) // 2) for words, *_ in cells]
    first = np.array([box[:2] for *_, box in cells])
    assert (first[:4, 0] == np.arange(4)).all() and np.ptp(first[:4, 1]) == 0 and (np.diff(first[:12:4, 1]) == 1).all()
    second = first[12:] - first[12]
    wanted = [(f, t + 3.7 * head) for head in range(2) for t in range(3) for f in range(2)]
    assert np.allclose(second, wanted)
    middle = [(boxes[:, 1].min() + boxes[:, 1].max()) / 2 for boxes in (first[:12], first[12:])]
    assert middle[0] == pytest.approx(middle[1])  # both stand at one height
    named = {
        text.get_text(): text
        for text in axes.texts
        if text.get_text() and text.get_text() not in dict.fromkeys(c[0] for c in cells)
    }
    assert [*named] == ["q", "heads"] or [*named] == ["q", "head 0", "head 1", "heads"]
    for name, part in (("q", first[:12]), ("heads", first[12:])):
        x, y = named[name].get_position()
        assert x == pytest.approx((part[:, 0].min() + part[:, 0].max() + 1) / 2) and y < part[:, 1].min()
    for head in (0, 1):
        x, y = named[f"head {head}"].get_position()
        part = first[12 + 6 * head : 18 + 6 * head]
        assert y == pytest.approx(part[:, 1].mean() + 0.5) and part[0, 0] - 1 < x < part[0, 0]
    (arrow,) = (text for text in axes.texts if not text.get_text())
    (start, height), (end, same) = arrow.xyann, arrow.xy
    assert 4 < start < end < first[12, 0] and height == same == pytest.approx(middle[0] + 0.5)


def test_a_table_is_drawn_of_its_values_under_its_tokens():
    figure = drawn(lambda: figures.heatmap(TABLE, "ab", "xyz", **WORDS))
    axes, bar = figure.axes
    assert (axes.images[0].get_array() == TABLE.numpy()).all() and axes.images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("key", "query", "weight")
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert written == {(s, t): f"{TABLE[t, s]:.2f}" for t in range(2) for s in range(3)}
    inks = {text.get_position(): to_hex(text.get_color()) for text in axes.texts}
    assert inks[0, 0] == to_hex(palette.PAPER) and inks[1, 0] == palette.INK  # on dark, on light
    assert axes.get_ylim()[0] > axes.get_ylim()[1] and list(axes.get_xticks()) == [0, 1, 2]
    assert list(axes.get_xticks(minor=True)) == [0.5, 1.5] and list(axes.get_yticks(minor=True)) == [0.5]
    figure = drawn(
        lambda: figures.heatmap(10 * TABLE, "ab", "xyz", scale=(-5, 10), texts=[["u"] * 3, ["w"] * 3], **WORDS)
    )
    assert figure.axes[0].images[0].get_clim() == (-5, 10)
    assert [text.get_text() for text in figure.axes[0].texts] == ["u"] * 3 + ["w"] * 3
    assert not drawn(lambda: figures.heatmap(TABLE, "ab", "xyz", numbers=None, **WORDS)).axes[0].texts
    square = drawn(lambda: figures.heatmap(torch.eye(2), "ab", **WORDS)).axes[0]
    assert [label.get_text() for label in square.get_xticklabels()] == ["a", "b"]


def test_of_a_large_table_only_some_tokens_are_written_and_no_lines_between_its_cells():
    names = [f"t{t}" for t in range(60)]
    axes = drawn(lambda: figures.heatmap(torch.eye(60), names, numbers=None, **WORDS)).axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert labels == names[:: len(names) // len(labels)] or labels == names
        assert [names.index(label) for label in labels] == list(axis.get_ticklocs())
        assert len(axis.get_minorticklocs()) == 0
    twenty = drawn(lambda: figures.heatmap(torch.eye(20), names[:20], numbers=None, **WORDS)).axes[0]
    assert len(twenty.get_xticks(minor=True)) == len(twenty.get_yticks(minor=True)) == 19


def test_each_head_of_a_grid_is_drawn_of_its_own_weights_under_its_name():
    maps = torch.rand(5, 2, 3)
    figure = drawn(lambda: figures.head_grid(maps, "ab", "xyz", names=list("MNOPQ"), row_label="date", **WORDS))
    *grid, spare, bar = figure.axes
    for number, (axes, weights) in enumerate(zip(grid, maps, strict=True)):
        assert torch.equal(torch.tensor(axes.images[0].get_array()), weights) and axes.images[0].get_clim() == (0, 1)
        assert axes.get_title() == "MNOPQ"[number] and axes.get_ylabel() == ("date" if number % 2 == 0 else "")
        shown = [tick.label1.get_visible() for tick in axes.yaxis.get_major_ticks()]
        assert shown == [number % 2 == 0] * 2
        assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]
    assert not spare.axison and bar.get_ylabel() == "weight"
    assert [axes.get_title() for axes in drawn(DRAWN["head_grid"]).axes[:5]] == [f"head {head}" for head in range(5)]
    assert len(drawn(lambda: figures.head_grid(maps[:1], "ab", "xyz", **WORDS)).axes) == 2
    assert len(drawn(lambda: figures.head_grid(maps[:1], "ab", "xyz", label="", **WORDS)).axes) == 1  # no colour bar
    assert (
        drawn(lambda: figures.head_grid(maps[:, :, :2], "ab", **WORDS)).axes[0].get_xticklabels()[1].get_text() == "b"
    )


def test_tiny_differences_are_drawn_on_a_scale_of_powers_of_ten():
    figure = drawn(lambda: figures.differences([[1e-7, 0.0], [3.0, 1e-3]], ["r", "s"], ["a", "b"], **WORDS))
    axes, bar = figure.axes
    assert [text.get_text() for text in axes.texts] == ["1e-07", "1e-09", "3e+00", "1e-03"]
    assert axes.images[0].get_clim() == (1e-9, 1) and axes.images[0].norm(1e-3) == pytest.approx(2 / 3)
    assert "".join(bar.get_ylabel().split()) == "largestdifference"


def bars_of(axes):
    """[(left, right, height of its middle, colour)] of the bars that have a length."""
    patches = [patch for patch in axes.patches if patch.get_width()]
    return [
        (p.get_x(), p.get_x() + p.get_width(), p.get_y() + p.get_height() / 2, to_hex(p.get_facecolor()))
        for p in patches
    ]


def test_bars_are_as_long_as_their_numbers_and_end_with_them():
    rows = {"one": {"query": 30.0, "a": 50.0}, "two": {"query": 20.0, "b": 1.0}}
    figure = drawn(lambda: figures.bars(rows, unit="things", numbers="{:.1f}", **WORDS))
    (axes,) = figure.axes
    shades = palette.QUERY, palette.head(1), palette.QUERY, palette.head(2)
    assert bars_of(axes) == [
        (0, 30, 0, shades[0]),
        (30, 80, 0, shades[1]),
        (0, 20, 1, shades[2]),
        (20, 21, 1, shades[3]),
    ]
    words = {text.get_text(): text.get_position() for text in axes.texts}
    assert set(words) == {"query", "a", "80.0", "21.0"}  # b is too narrow for its name
    assert (
        words["a"] == (55, 0)
        and words["80.0"][0] > 80
        and words["21.0"][0] - 21 == pytest.approx(words["80.0"][0] - 80)
    )
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b"]
    assert to_hex(figure.legends[0].get_patches()[0].get_facecolor()) == palette.head(2)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"] and list(axes.get_yticks()) == [
        0,
        1,
    ]
    assert axes.yaxis_inverted() and axes.get_xlabel() == "things" and axes.get_xlim()[0] == 0
    plain = drawn(lambda: figures.bars({"a": 3, "b": 2}, unit="things", **WORDS))
    assert bars_of(plain.axes[0]) == [(0, 3, 0, palette.BAR), (0, 2, 1, palette.BAR)] and not plain.legends
    alone = drawn(lambda: figures.bars({"a": {"query": 3}}, unit="things", **WORDS))
    assert bars_of(alone.axes[0]) == [(0, 3, 0, palette.QUERY)]


def test_the_longest_bar_and_its_number_fill_the_picture():
    for rows in ({"a": 1.0, "b": 0.5}, {"x" * 60: 123_456_789_012, "b": 1}, {"q": {"query": 1e6, "key": 2e6}}):
        figure = laid_out(lambda rows=rows: figures.bars(rows, unit="things", **WORDS))
        axes = figure.axes[0]
        right = max(text.get_window_extent().x1 for text in axes.texts)
        assert 0 < axes.get_window_extent().x1 - right < 0.6 * figure.dpi
        gaps = np.diff([label.get_window_extent().x0 for label in axes.get_xticklabels()])
        assert 1 < len(gaps) + 1 <= 7 and (gaps > 0).all()


def test_curves_go_through_their_points_each_with_its_own_sign_and_its_name_at_its_end():
    lines = {"up": [1.0, 2.0, 3.0], "down": [3.0, 1.0, 0.5]}
    spread = {"up": ([0.5, 1.5, 2.5], [1.5, 2.5, 3.5]), "down": ([2.0, 0.5, 0.1], [4.0, 2.0, 1.0])}
    words = {"x_label": "heads", "y_label": "share", **WORDS}
    for log, aside in ((True, 0.25), (False, 0.25), (True, 0.0)):
        figure = drawn(
            lambda log=log, aside=aside: figures.curves([1, 2, 4], lines, log=log, spread=spread, apart=aside, **words)
        )
        (axes,) = figure.axes
        for number, (name, y) in enumerate(lines.items()):
            move = aside * (number - 0.5)
            x = np.array([1, 2, 4]) * 2**move if log else np.array([1, 2, 4]) + move
            line = axes.lines[number]
            assert np.allclose(line.get_xydata(), np.stack([x, y], axis=1)) and line.get_marker() == "os"[number]
            assert line.get_color() == palette.LINES[number]
            ends = np.array(axes.collections[number].get_segments())
            assert np.allclose(ends[:, :, 0], x[:, None]) and np.allclose(ends[:, :, 1].T, spread[name])
            assert to_hex(axes.collections[number].get_color()[0]) == palette.LINES[number]
            assert axes.texts[number].get_text() == name and axes.texts[number].xy == (x[-1], y[-1])
            assert to_hex(axes.texts[number].get_color()) == palette.LINES[number] and axes.texts[number].xyann == (
                8,
                0,
            )
        assert axes.get_ylim()[0] == 0 and axes.get_xscale() == ("log" if log else "linear")
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
        assert list(axes.get_xticks()) == [1, 2, 4] and len(axes.get_xticks(minor=True)) == 0
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("heads", "share")
    assert not drawn(lambda: figures.curves([1, 2], {"a": [1, 2]}, **words)).axes[0].collections


def test_names_of_curves_that_would_touch_are_pushed_apart_and_no_further():
    close = {name: [1, y] for name, y in zip(("one", "two", "three"), (2.0, 2.0, 1.0), strict=True)}
    figure = laid_out(lambda: figures.curves([1, 2], close, x_label="x", y_label="y", **WORDS))
    one, two, three = figure.axes[0].texts
    assert three.xyann == one.xyann == (8, 0) and two.xyann[0] == 8
    assert two.get_window_extent().y0 == pytest.approx(one.get_window_extent().y1, abs=0.5)


def test_heads_of_models_stand_in_their_lines():
    models = [one for one in read_models() if one.model in ("LLaMA 7B", "Gemma 7B", "DeepSeek-V2")]
    assert len(models) == 3
    heads, widths, ratios = drawn(lambda: figures.head_counts(models, **WORDS)).axes
    queries, shared = (
        sorted(map(tuple, dots.get_offsets().tolist()), key=lambda dot: dot[1]) for dots in heads.collections
    )
    assert queries == [(one.heads, y) for y, one in enumerate(models)]
    assert shared == [(one.kv_heads, y) for y, one in enumerate(models) if not one.latent]
    colours = [to_hex(dots.get_facecolor()[0]) for dots in heads.collections]
    assert colours == [palette.QUERY, palette.KEY]
    assert [line.get_xydata().tolist() for line in heads.lines] == [
        [[one.kv_heads, y], [one.heads, y]] for y, one in enumerate(models) if not one.latent
    ]
    (latent,) = [y for y, one in enumerate(models) if one.latent]
    assert [(text.get_text(), text.get_position()[1]) for text in heads.texts] == [("one vector", latent)]
    assert widths.collections[0].get_offsets().tolist() == [[one.d_k, y] for y, one in enumerate(models)]
    times = [one.heads * one.d_k / one.d_model for one in models]
    assert [dot.get_offsets()[0].tolist() for dot in ratios.collections] == [[x, y] for y, x in enumerate(times)]
    marked = [to_hex(dot.get_facecolor()[0]) for dot in ratios.collections]
    assert marked == [palette.BAR if x == 1 else palette.CHOSEN for x in times]
    assert [(text.get_text(), text.xy) for text in ratios.texts] == [
        (f"{x:.2g}", (x, y)) for y, x in enumerate(times) if x != 1
    ]
    assert [axes.get_xlabel() for axes in (heads, widths, ratios)] == ["heads", "d_k", "h · d_k / d"]
    assert [text.get_text() for text in heads.get_legend().get_texts()] == ["query heads h", "key and value heads"]
    assert [label.get_text() for label in heads.get_yticklabels()] == [f"{one.model}  {one.date[:4]}" for one in models]
    assert heads.get_ylim()[0] > 2 > 0 > heads.get_ylim()[1]
    for axes in (heads, widths, ratios):
        low, high = axes.get_xlim()
        ticks = axes.get_xticks()
        assert (
            low < ticks[0] and ticks[-1] < high and axes.get_xscale() == "log" and len(axes.get_xticks(minor=True)) == 0
        )
        assert [label.get_text() for label in axes.get_xticklabels()] == [f"{tick:.0f}" for tick in ticks]
        assert all(low < x < high for dots in axes.collections for x, _ in dots.get_offsets())
        assert not axes.spines["left"].get_visible()
    assert list(ratios.lines[0].get_xdata()) == [1, 1]


def test_a_heading_takes_as_many_lines_as_it_needs_and_no_word_is_cut():
    for words in ("short", "What there is to see here. " * 6):
        figure = laid_out(lambda words=words: figures.bars({"a": 1}, unit="", title=words, alt="Words."))
        title = figure._suptitle
        assert title.get_text().split() == words.split() and title.get_ha() == "left"
        assert title.get_window_extent().width <= 0.98 * figure.bbox.width
        lines = title.get_text().splitlines()
        assert len(lines) == (1 if words == "short" else 2) and title.get_position()[0] == 0.01


def test_a_sheet_is_no_wider_than_a_picture_may_be():
    assert sheet(3, 2).get_size_inches().tolist() == [3, 2] and sheet(30, 2).get_size_inches().tolist() == [WIDTH, 2]


def test_letters_that_cannot_be_drawn_are_told_by_their_number():
    assert drawable(["a", "", "🦊", "\n", 5]) == ["a", "", "U+1F98A", "'\\n'", "5"]


def test_a_table_is_aligned_text_and_plain_html():
    rows = {"query": [262144, 0.25, True], "key & value": [torch.tensor(7), 1.0, None]}
    made = figures.table(rows, ["piece", "count", "share", "used"])
    assert repr(made).splitlines() == [
        "piece          count  share  used",
        "query        262,144   0.25  True",
        "key & value        7   1.00  None",
    ]
    html = made._repr_html_()
    assert html.count('<th scope="col">') == 4 and html.count("<tr>") == 3 and "<td>key &amp; value</td>" in html
    assert repr(figures.table([["a", 1 / 3]], numbers="{:.4f}")) == "a  0.3333"
    for rows, header in (([["a"], ["b", 1]], ()), ([["a"]], ["x", "y"]), ([], ())):
        with pytest.raises(ValueError, match="give each as many, and at least one row"):
            figures.table(rows, header)
