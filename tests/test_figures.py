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

from mha import figures

WORDS = {"title": "What to see", "alt": "One sentence that says it."}
TABLE = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
ADDRESSES = figures.addresses(3, 4)
DRAWN = {
    "heatmap": lambda: figures.heatmap(TABLE, "ab", "xyz", **WORDS),
    "head_grid": lambda: figures.head_grid(TABLE.expand(5, 2, 3), "ab", "xyz", **WORDS),
    "shape_walk": lambda: figures.shape_walk({"q": ADDRESSES, "heads": ADDRESSES.view(2, 3, 2)}, 2, **WORDS),
    "bars": lambda: figures.bars({"one": {"a": 1, "b": 2}, "two": {"a": 3}}, unit="things", **WORDS),
    "curves": lambda: figures.curves([1, 2, 4], {"up": [1, 2, 3]}, x_label="x", y_label="y", **WORDS),
    "differences": lambda: figures.differences([[1e-7, 0.0]], ["row"], ["a", "b"], **WORDS),
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
    ramp = figures.colour_map(figures.WEIGHTS)(np.linspace(0, 1, 50))[:, :3]
    lightness = ramp @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) < 0).all() and lightness[0] > 0.99 and lightness[-1] < 0.2


def test_a_heatmap_is_drawn_of_its_values():
    dark = [(pixels(figures.heatmap(torch.full((2, 2), value), "ab", **WORDS)) < 60).sum() for value in (0.0, 1.0)]
    assert dark[1] > 2 * dark[0]


def test_without_a_label_there_is_no_bar_of_colours():
    with_bar, without = (pixels(figures.heatmap(TABLE * 0, "ab", "xyz", label=label, **WORDS)) for label in ("w", ""))
    assert (with_bar[..., 0] < 60).sum() > (without[..., 0] < 60).sum() + 500  # of dark blue


def test_bars_of_nothing_are_drawn_without_a_warning(recwarn):
    assert figures.bars({"hidden": 0.0}, unit="weight", **WORDS).png and not recwarn.list


def test_addresses_say_token_and_feature():
    assert figures.addresses(3, 4)[2, 1] == 201


def test_the_arrow_leads_to_a_step_but_not_to_a_wrong_one():
    right, wrong = (figures.shape_walk({"q": ADDRESSES, name: ADDRESSES}, 2, **WORDS) for name in ("correct", "wrong"))
    assert (pixels(right) < 60).sum() > (pixels(wrong) < 60).sum() + 50


def test_a_box_has_the_colour_of_the_head_that_its_feature_belongs_to():
    colours = [tuple(int(shade[i : i + 2], 16) for i in (1, 3, 5)) for shade in figures.HEADS[:2]]
    for head in (0, 1):
        drawn = pixels(figures.shape_walk({"q": ADDRESSES[:, 2 * head : 2 * head + 2]}, 2, **WORDS))
        seen = [(drawn == colour).all(axis=-1).sum() > 1000 for colour in colours]
        assert seen == [head == 0, head == 1]


def test_weights_of_more_than_one_text_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"choose one text, weights\[0\]"):
        figures.head_grid(torch.zeros(2, 3, 4, 4), "abcd", **WORDS)
    with pytest.raises(ValueError, match=r"choose one, weights\[0, 0\]"):
        figures.heatmap(torch.zeros(3, 4, 4), "abcd", **WORDS)
