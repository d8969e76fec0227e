"""The stills: each a PNG with its words, none left open, none drawn of the wrong shape."""

import io

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


def test_a_larger_weight_is_darker_whatever_its_hue():
    ramp = figures.colour_map(figures.WEIGHTS)(np.linspace(0, 1, 50))[:, :3]
    lightness = ramp @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) < 0).all() and lightness[0] > 0.99 and lightness[-1] < 0.2


def test_a_heatmap_is_drawn_of_its_values():
    dark = [(pixels(figures.heatmap(torch.full((2, 2), value), "ab", **WORDS)) < 60).sum() for value in (0.0, 1.0)]
    assert dark[1] > 2 * dark[0]


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
