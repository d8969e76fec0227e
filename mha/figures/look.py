"""How every still looks: type, lines, colours and width, in this one place; and `Picture`, a still with its words.

Pictures are at most 7 inches wide at 120 dots an inch: a page of 8 inches shows them, and their letters, in full.
In front of a class (`mha.runtime.setup(projector=True)`) there are more dots to an inch and as many fewer inches:
the page is as wide as before, and all type and lines on it are larger by one factor.
"""

import base64
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from PIL import Image

from mha import palette, runtime
from mha.labels import printable

with runtime.quiet("matplotlib"):  # where no folder can be written it tells where it keeps its fonts, on stderr
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import findfont, get_font

WIDTH, DOTS = 7, 120  # inches of the widest picture, and dots an inch
TITLE, LABEL, SMALL = 11.5, 9.5, 8.5  # points


def settings() -> dict:
    """Matplotlib's settings for a still of the course; a $ is a $, no formula."""
    paper, ink, muted, faint = palette.PAPER, palette.INK, palette.MUTED, palette.FAINT
    return {
        "text.parse_math": False,
        "font.size": LABEL,
        "text.color": ink,
        "figure.facecolor": paper,
        "savefig.facecolor": paper,
        "axes.facecolor": paper,
        "axes.edgecolor": muted,
        "axes.labelcolor": muted,
        "axes.labelsize": LABEL,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": faint,
        "grid.linewidth": 0.5,
        "lines.linewidth": 2,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "xtick.labelsize": LABEL,
        "ytick.labelsize": LABEL,
        "legend.frameon": False,
        "legend.fontsize": SMALL,
    }


@contextmanager
def own_settings() -> Iterator[None]:
    """Inside, matplotlib draws as the course does, whatever style the user chose."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings())
        yield


def width() -> float:
    """Inches of the widest picture."""
    return WIDTH / runtime.look.scale


def sheet(wide: float, tall: float) -> Figure:
    """An empty figure of this size in inches, no wider than a picture may be."""
    return Figure(figsize=(min(wide, width()), tall), layout="constrained")


def heading(figure: Figure, words: str) -> None:
    """Write what to see above the whole picture, from its left edge, in as many lines as it needs."""
    title, room = figure.suptitle(words, x=0.01, ha="left", fontsize=TITLE), 0.98 * figure.bbox.width
    letters = len(words)
    while title.get_window_extent().width > room and letters > 10:
        letters = min(letters - 1, int(letters * room / title.get_window_extent().width) + 2)
        title.set_text(textwrap.fill(words, letters))


def colour_map(stops: Sequence[str]) -> LinearSegmentedColormap:
    """A matplotlib colour map through these colours."""
    return LinearSegmentedColormap.from_list("mha", stops)


def drawable(tokens: Iterable[object]) -> list[str]:
    """Tokens as text that shows, with the number of each sign that matplotlib's own letters lack; "" stays bare."""
    known = get_font(findfont("DejaVu Sans")).get_char_index
    shown = [printable([token])[0] if token else "" for token in tokens]
    return ["".join(sign if known(ord(sign)) else f"U+{ord(sign):X}" for sign in token) for token in shown]


class Picture:
    """A finished figure: `png` (bytes) and `alt` (what it shows, beyond its title), shown together."""

    @own_settings()
    def __init__(self, figure: Figure, alt: str) -> None:
        drawn, file = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", dpi=DOTS * runtime.look.scale, bbox_inches="tight")
        colours = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)  # a third of the bytes
        colours.save(file, "png", optimize=True)
        self.png, self.alt = file.getvalue(), alt

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.alt}
        display(data, metadata={"image/png": {"alt": self.alt}}, raw=True)
        # Most viewers drop an image's alt text; these lines they keep, and none needs to be broken inside a word.
        print(textwrap.fill(f"In words: {self.alt}", 90, break_long_words=False, break_on_hyphens=False))

    def __repr__(self) -> str:
        return self.alt
