"""The stills: each a PNG with its words, none left open, none drawn of the wrong shape."""

import io
import os
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

from mha import explore, figures, palette, runtime
from mha.accounting import attention_parameters
from mha.figures import architecture
from mha.figures.look import WIDTH, Picture, colour_map, own_settings
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
