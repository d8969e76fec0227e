"""Every colour of the course, by what it stands for: `palette.QUERY`, `palette.PAPER`.  No other file names a colour.

Safe for colour-blind readers: lightness alone orders the weights; query, key and value differ in lightness, too; and
no hue is ever the only sign (cells and bars carry their text).  There is a light and a dark look; a role is asked
for when something is drawn, so that `mha.runtime.setup(dark=True)` changes all drawings that follow.
"""

from functools import cache
from typing import Any

from mha import runtime

LIGHT: dict[str, Any] = {
    "PAPER": "#fff",
    "INK": "#222222",  # words and lines
    "FAINT": "#bbbbbb",  # edges and help lines
    "MUTED": "#666666",  # what matters less: axes and frames
    "WEIGHTS": ("#ffffff", "#d6e6f4", "#9dc6e0", "#4a97c9", "#1764ab", "#08306b"),  # from 0 to 1
    "DIFFERENCES": ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b"),  # from −1 to 1
    "HEADS": ("#8ecae6", "#ffd166", "#b7e4c7", "#f4acb7", "#cdb4db", "#f6bd60", "#a3b18a", "#d9d9d9"),  # by number
    "QUERY": "#3d3489",
    "KEY": "#c2500f",
    "VALUE": "#1fa187",
    "OUTPUT": "#b5b5b5",  # the output projection, W_O
    "ATTENTION": "#8fa3bf",
    "FEED_FORWARD": "#c8ad7f",
    "EMBEDDING": "#e6dcc8",
    "NORM": "#e2e2e2",
    "READ_OUT": "#b9b2ab",
    "BAR": "#1764ab",  # bars of one piece
    "LINE": "#1764ab",  # from a query to a key
    "CHOSEN": "#d95f02",  # the row, cell or line that is looked at
    "LESS": "#e08214",  # a negative number
    "MORE": "#8073ac",  # a positive one beside it
    "LINES": ("#1764ab", "#a85a00", "#222222", "#6f62a3"),  # curves, by number
    "RIGHT": "#1764ab",
    "WRONG": "#e08214",
    "IDLE": "#777777",  # an exercise not attempted
    "ALERT": "#bb0000",
}
DARK = LIGHT | {
    "PAPER": "#1b1b1b",
    "INK": "#ececec",
    "FAINT": "#5a5a5a",
    "MUTED": "#a8a8a8",
    "WEIGHTS": ("#1b1b1b", "#17324d", "#1f5a8c", "#3f8fc6", "#8cc4e8", "#eaf5fd"),
    "DIFFERENCES": ("#ffd9a8", "#e08a2e", "#6b4520", "#262626", "#403a5e", "#8a7fc4", "#ddd8ff"),
    "QUERY": "#8a80ec",
    "KEY": "#ff9d66",
    "VALUE": "#4fe3c1",
    "NORM": "#d0d0d0",
    "BAR": "#5aa9dc",
    "LINE": "#5aa9dc",
    "CHOSEN": "#ff9a3d",
    "LESS": "#e08a2e",
    "MORE": "#9b8fd8",
    "LINES": ("#5aa9dc", "#f2934a", "#ececec", "#a99ff0"),
    "RIGHT": "#5aa9dc",
    "IDLE": "#a8a8a8",
    "ALERT": "#ff6b6b",
}
PIECES = {  # pieces of a count that have a colour of their own
    "query": "QUERY",
    "key": "KEY",
    "value": "VALUE",
    "output": "OUTPUT",
    "attention": "ATTENTION",
    "feed-forward": "FEED_FORWARD",
    "norms": "NORM",
    "embedding": "EMBEDDING",
}


def __getattr__(role: str) -> Any:
    """The colour of this role in the look that is on (a tuple of them for a scale)."""
    colours = DARK if runtime.look.dark else LIGHT
    if role not in colours:
        raise AttributeError(f"the palette has no role {role}; it has {', '.join(colours)}")
    return colours[role]


def head(number: int) -> str:
    """The colour of this head; from the ninth on they come again."""
    heads = __getattr__("HEADS")
    return heads[number % len(heads)]


def piece(name: str, number: int) -> str:
    """The colour of a piece of a bar: that of its role, where its name is one, else by number."""
    return __getattr__(PIECES[name]) if name in PIECES else head(number)


def light(colour: str) -> float:
    """How light this colour is, from 0 (black) to 1: WCAG's relative luminance."""
    colour = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """WCAG's contrast of two colours, 1 to 21: words need 4.5, lines 3."""
    darker, lighter = sorted((light(one), light(two)))
    return (lighter + 0.05) / (darker + 0.05)


@cache
def ink_on(colour: str) -> str:
    """The ink for words on this colour: that of the light look or the dark one's, whichever reads better."""
    return max((LIGHT["INK"], LIGHT["PAPER"]), key=lambda ink: contrast(ink, colour))
