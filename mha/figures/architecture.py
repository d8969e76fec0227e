"""A drawing of a whole `Transformer`: its parts from bottom to top, the shapes between them, and every head."""

from typing import Any

from mha import palette, runtime
from mha.figures.look import LABEL, Picture, heading, own_settings
from mha.transformer import Transformer

with runtime.quiet("matplotlib"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

LEFT, RIGHT, WIDE = 2.05, 6.6, 2.9  # the middles of the two stacks, and how wide a part is


@own_settings()
def transformer(model: Transformer, *, title: str, alt: str) -> Picture:
    """The encoder at the left, the decoder at the right, data going up; sizes are those of the model.  A `Picture`."""
    layer: Any = model.encoder[0]
    d, inner = model.source.symbols.embedding_dim, layer.feed_forward[0].out_features
    targets, h = model.read_out.out_features, layer.attention.num_heads
    figure = Figure(figsize=(8.6, 7.8), layout="constrained")
    axes = figure.add_subplot()
    feed = f"feed-forward\n{d} → {inner} → {d}, each token alone"

    _words(axes, LEFT, 0.1, "source (B, S): the date as it was written\n3 May 1979")
    _part(axes, LEFT, 0.8, "embedding + position", palette.EMBEDDING, below=0.4)
    y = _block(axes, LEFT, 1.55, "self-attention", h, "weights (B, h, S, S)", shape=f"(B, S, {d})")
    y = _block(axes, LEFT, y, feed)
    _frame(axes, LEFT, 1.52, y - 0.12, f"encoder layer × {len(model.encoder)}")
    _part(axes, LEFT, y + 0.12, "norm", palette.NORM, 0.34, below=y - 0.12)
    memory = y + 0.8
    _words(axes, LEFT, memory, f"memory (B, S, {d})", below=y + 0.46)

    _words(axes, RIGHT, 0.1, "target so far (B, T): start, then what was written\nstart 1 9 7 9 - 0")
    _part(axes, RIGHT, 0.8, "embedding + position", palette.EMBEDDING, below=0.4)
    y = _block(axes, RIGHT, 1.55, "causal self-attention", h, "weights (B, h, T, T)", shape=f"(B, T, {d})")
    cross = y
    y = _block(axes, RIGHT, y, "cross-attention", h, "weights (B, h, T, S)")
    y = _block(axes, RIGHT, y, feed)
    _frame(axes, RIGHT, 1.52, y - 0.12, f"decoder layer × {len(model.decoder)}")
    _part(axes, RIGHT, y + 0.12, "norm", palette.NORM, 0.34, below=y - 0.12)
    _part(axes, RIGHT, y + 0.66, f"read-out {d} → {targets}", palette.READ_OUT, below=y + 0.46)
    _words(axes, RIGHT, y + 1.4, f"scores (B, T, {targets}) for the next symbol, here 5", below=y + 1.06)

    axes.text(RIGHT + 0.1, cross + 0.61, "queries", va="center", fontsize=9)
    # The memory goes across: keys and values of cross-attention.
    middle, into = (LEFT + RIGHT) / 2, cross + 1.04
    for aside, colour in ((0.04, palette.KEY), (-0.04, palette.VALUE)):
        across, up = [LEFT + 1.0, middle - aside, middle - aside], [memory - aside, memory - aside, into - aside]
        axes.plot(across, up, color=colour, linewidth=1.6)
        _arrow(axes, (middle - aside, into - aside), (RIGHT - WIDE / 2, into - aside), colour)
    axes.plot([RIGHT, RIGHT], [cross + 0.53, cross + 0.63], color=palette.QUERY, linewidth=3, zorder=4)
    _arrow(axes, (RIGHT, cross + 0.52), (RIGHT, cross + 0.72), palette.QUERY)
    axes.text(middle - 0.13, (memory + into) / 2, "keys and\nvalues", ha="right", va="center", fontsize=LABEL)

    axes.set(xlim=(0, 8.65), ylim=(-0.15, y + 1.6))
    axes.set_axis_off()
    heading(figure, title)
    return Picture(figure, alt)


def _block(axes: Axes, x: float, y: float, name: str, heads: int = 0, note: str = "", shape: str = "") -> float:
    """A residual block from height y up: norm, the part, and ⊕, round which the stream goes.  Returns its end."""
    tall, start = (0.86 if heads else 0.56), y - 0.05
    _arrow(axes, (x, start - 0.3), (x, y + 0.22))
    if shape:
        axes.text(x + 0.1, y - 0.2, shape, va="center", fontsize=LABEL)
    _part(axes, x, y + 0.22, "norm", palette.NORM, 0.3)
    colour = palette.ATTENTION if heads else palette.FEED_FORWARD
    _part(axes, x, y + 0.72, "" if heads else name, colour, tall, below=y + 0.52)
    if heads:
        look: dict[str, Any] = {"fontsize": LABEL, "color": palette.ink_on(palette.ATTENTION)}
        axes.text(x, y + 0.72 + tall - 0.17, f"{name}, {note}", ha="center", va="center", **look)
        step = (WIDE - 0.14) / heads
        for head in range(heads):
            left = x - WIDE / 2 + 0.1 + step * head
            _box(axes, left, y + 0.8, step - 0.06, 0.4, palette.PAPER)
            label = f"head {head}" if heads <= 4 else str(head)
            axes.text(left + step / 2 - 0.03, y + 1.0, label, ha="center", va="center", fontsize=LABEL)
    plus = y + 0.72 + tall + 0.26
    _arrow(axes, (x, y + 0.72 + tall), (x, plus - 0.11))
    circle = {"boxstyle": "circle,pad=0.1", "facecolor": palette.PAPER, "edgecolor": palette.INK}
    axes.text(x, plus, "+", ha="center", va="center", fontsize=12, bbox=circle)
    side = x + WIDE / 2 + 0.14  # the stream itself, which passes by
    axes.plot([x, side, side], [y + 0.04, y + 0.04, plus], color=palette.INK, linewidth=1.2)
    _arrow(axes, (side, plus), (x + 0.13, plus))
    return plus + 0.3


def _part(
    axes: Axes, x: float, y: float, name: str, colour: str, tall: float = 0.4, below: float | None = None
) -> None:
    """A box with its name in the middle; `below` is the height from which an arrow leads into it."""
    if below is not None:
        _arrow(axes, (x, below), (x, y))
    _box(axes, x - WIDE / 2, y, WIDE, tall, colour)
    axes.text(x, y + tall / 2, name, ha="center", va="center", fontsize=10, color=palette.ink_on(colour))


def _box(axes: Axes, left: float, bottom: float, wide: float, tall: float, colour: str) -> None:
    look = {"facecolor": colour, "edgecolor": palette.INK, "linewidth": 0.9}
    axes.add_patch(FancyBboxPatch((left, bottom), wide, tall, boxstyle="round,pad=0,rounding_size=0.06", **look))


def _words(axes: Axes, x: float, y: float, words: str, below: float | None = None) -> None:
    if below is not None:
        _arrow(axes, (x, below), (x, y - 0.12))
    axes.text(x, y, words, ha="center", va="center", fontsize=10)


def _frame(axes: Axes, x: float, bottom: float, top: float, name: str) -> None:
    """A dashed line round a layer, with its name along the left side."""
    look = {"facecolor": "none", "edgecolor": palette.MUTED, "linestyle": "--", "linewidth": 1}
    wide = WIDE + 0.66
    axes.add_patch(
        FancyBboxPatch((x - wide / 2, bottom), wide, top - bottom, boxstyle="round,pad=0,rounding_size=0.1", **look)
    )
    axes.text(x - wide / 2 + 0.15, bottom + 0.95, name, rotation=90, ha="center", va="center", fontsize=10)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str | None = None) -> None:
    look = {"arrowstyle": "-|>", "color": colour or palette.INK, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look)
