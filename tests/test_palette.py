"""The colours: named in one place, told apart by everybody, and readable in both looks."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from mha import palette, runtime

ROOT = Path(__file__).resolve().parent.parent
LOOKS = {"light": palette.LIGHT, "dark": palette.DARK}
every_look = pytest.mark.parametrize("colours", LOOKS.values(), ids=LOOKS)
# How linear light is seen by the colour-blind: Machado, Oliveira and Fernandes 2009, severity 1.
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, sight="usual"):
    """The colour in CIELAB, as this sight sees it."""
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one, two, sight="usual"):
    return np.linalg.norm(lab(one, sight) - lab(two, sight))


def raw_colours(text):
    """Colours that are written out: hexadecimal, or one of those names in quotes."""
    named = r"""["'](?:white|black|red|green|blue|yellow|gr[ae]y|purple|orange|brown)["']"""
    return re.findall(rf"#[0-9a-fA-F]{{3,8}}\b|\brgba?\(|\bC\d\b|{named}", text)


def test_only_the_palette_names_a_colour():
    assert len(raw_colours('fill="#fff" "white" \'grey\' rgb(1,2,3) C0')) == 5
    for path in (ROOT / "mha").rglob("*.py"):
        if path.name != "palette.py":
            assert not raw_colours(path.read_text("utf-8")), path


@every_look
def test_query_key_and_value_are_told_apart_by_everybody_and_mostly_in_grey(colours):
    for one, two in itertools.combinations(("QUERY", "KEY", "VALUE"), 2):
        assert all(apart(colours[one], colours[two], sight) > 25 for sight in SIGHTS), (one, two)
        assert abs(lab(colours[one])[0] - lab(colours[two])[0]) > 8, (one, two)
    for role in ("QUERY", "KEY", "VALUE"):
        others = [*colours["HEADS"], colours["ATTENTION"], colours["FEED_FORWARD"]]
        assert min(apart(colours[role], other) for other in others) > 15, role
        assert palette.contrast(colours[role], colours["PAPER"]) > 3


@every_look
def test_words_are_readable_on_all_that_carries_them(colours):
    assert palette.contrast(colours["INK"], colours["PAPER"]) > 7
    for role in ("MUTED", "ALERT"):
        assert palette.contrast(colours[role], colours["PAPER"]) > 4.5, role
    for role in ("BAR", "LINE", "CHOSEN", "MORE"):
        assert palette.contrast(colours[role], colours["PAPER"]) > 3, role
    for shade in (*colours["HEADS"], *(colours[role] for role in palette.PIECES.values())):
        assert palette.contrast(palette.ink_on(shade), shade) > 4.5, shade
    assert all(palette.contrast(shade, colours["PAPER"]) > 4.5 for shade in colours["LINES"])


@every_look
def test_lightness_alone_orders_the_weights(colours):
    steps = np.diff([palette.light(stop) for stop in colours["WEIGHTS"]])
    assert (steps < 0).all() or (steps > 0).all()
    assert palette.contrast(colours["WEIGHTS"][0], colours["PAPER"]) == 1  # no weight, no ink


def test_a_role_has_the_colour_of_the_look_that_is_on_and_a_slip_is_told(monkeypatch):
    assert palette.LIGHT["PAPER"] == palette.PAPER
    monkeypatch.setattr(runtime.look, "dark", True)
    assert palette.DARK["PAPER"] == palette.PAPER and set(palette.DARK) == set(palette.LIGHT)
    with pytest.raises(AttributeError, match="no role QUERRY; it has PAPER, INK"):
        _ = palette.QUERRY


def test_pieces_have_their_roles_and_all_else_a_number():
    assert palette.piece("query", 5) == palette.QUERY and palette.piece("others", 1) == palette.HEADS[1]
    assert palette.head(8) == palette.head(0)


@pytest.mark.parametrize(
    ("colour", "wanted"),
    [("#ff0000", 0.2126), ("#0f0", 0.7152), ("#00f", 0.0722), ("#808080", 0.2159), ("#090909", 0.00273), ("#fff", 1)],
)
def test_how_light_a_colour_is_as_wcag_reckons(colour, wanted):
    assert palette.light(colour) == pytest.approx(wanted, rel=1e-3)


def test_contrast_is_that_of_wcag_whichever_is_named_first():
    assert palette.contrast("#000", "#fff") == pytest.approx(21)
    assert palette.contrast("#767676", "#fff") == palette.contrast("#fff", "#767676") == pytest.approx(4.54, abs=0.005)
