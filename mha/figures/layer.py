"""Drawings of what happens inside one attention layer: one cell of the scores, and the whole way of a text."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mha import palette, runtime
from mha.figures.look import LABEL, SMALL, Picture, colour_map, drawable, heading, own_settings, sheet, width

with runtime.quiet("matplotlib"):
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

STAGES = (  # each step in words, as lesson 03 writes it, and the shape that it makes
    ("the tokens", "x", "(B, T, d)"),
    ("one product, cut in three", "qkv(x).chunk(3, dim=-1)", "three times (B, T, d)"),
    ("split into heads", ".view(B, T, h, d_k).transpose(1, 2)", "three times (B, h, T, d_k)"),
    ("weights, a table for each head", "(q @ k.mT / d_k**0.5).softmax(dim=-1)", "(B, h, T, T)"),
    ("values mixed: a context for each head", "weights @ v", "(B, h, T, d_k)"),
    ("merge: the heads side by side", ".transpose(1, 2).reshape(B, T, d)", "(B, T, d)"),
    ("mix with W_O", "proj(…)", "(B, T, d)"),
)
DOWN, TALL, MIDDLE = 1.25, 0.5, 3.0  # from step to step, a box's height, and the middle of the drawing


@own_settings()
def attention_layer(num_heads: int, *, code: bool = False, title: str, alt: str = "") -> Picture:
    """The whole layer from top to bottom: heads beside each other; queries, keys and values in their colours.

    At the right is each step, in words or (`code`) as lesson 03 writes it, and below it the shape that it makes;
    without an `alt` these are its words, too.
    """
    figure = sheet(width(), 7.2)
    axes, step = figure.add_subplot(), 2 * MIDDLE / num_heads
    part = 0.24 * step  # how wide a head's share of q is
    aside = {"q": -1.15 * part, "k": 0, "v": 1.15 * part}  # of the middle of its head
    places = {"q": 1.0, "k": MIDDLE, "v": 2 * MIDDLE - 1.0}
    colours = {"q": palette.QUERY, "k": palette.KEY, "v": palette.VALUE}

    _box(axes, MIDDLE, 0, 1.6, palette.EMBEDDING, "x")
    for name, colour in colours.items():
        _line(axes, (MIDDLE, 0), (places[name], 1), colour)
    for head in range(num_heads):
        middle, shift = step * (head + 0.5), part * (head + 0.5 - num_heads / 2)
        for name, colour in colours.items():
            _box(axes, places[name] + shift, 1, part, colour, name)
            _line(axes, (places[name] + shift, 1), (middle + aside[name], 2), colour)
            _box(axes, middle + aside[name], 2, part, colour, name)
            _line(axes, (middle + aside[name], 2), (middle + aside[name], 4 if name == "v" else 3), colour)
        _table(axes, middle + aside["q"] / 2, 3, 2.15 * part, head)
        _line(axes, (middle + aside["q"] / 2, 3), (middle, 4), palette.INK)
        _box(axes, middle, 4, 3.2 * part, palette.VALUE, f"head {head}")
        _line(axes, (middle, 4), (MIDDLE + 3.2 * shift, 5), palette.VALUE)
        _box(axes, MIDDLE + 3.2 * shift, 5, 3.2 * part, palette.VALUE, f"head {head}")
    _line(axes, (MIDDLE, 5), (MIDDLE, 6), palette.INK)
    _box(axes, MIDDLE, 6, 1.6, palette.OUTPUT, "W_O")
    _line(axes, (MIDDLE, 6), (MIDDLE, 7), palette.INK)

    lines = [line if code else words for words, line, _ in STAGES]
    size = _fitting(max(lines, key=len), 3.6, LABEL)
    look: dict[str, Any] = {"family": "monospace" if code else None, "fontsize": size}
    for number, (line, (_, _, shape)) in enumerate(zip(lines, STAGES, strict=True)):
        axes.text(6.35, DOWN * number, line, va="center", **look)
        _line(axes, (6.5, number), (6.5, number + 1), palette.MUTED)
        grey = {"fontsize": _fitting(shape, 3.3), "color": palette.MUTED}
        axes.text(6.65, DOWN * (number + 0.5), shape, va="center", **grey)
    axes.set(xlim=(0, 10), ylim=(6.8 * DOWN, -0.3))
    axes.set_axis_off()
    heading(figure, title)
    steps = "; ".join(f"{line}, {shape}" for line, (_, _, shape) in zip(lines, STAGES, strict=True))
    return Picture(figure, alt or f"A drawing from top to bottom, with {num_heads} heads side by side: {steps}.")


def _box(axes: Axes, x: float, number: float, wide: float, colour: str, words: str) -> None:
    """A box in the middle of this step, with its name."""
    look = {"facecolor": colour, "edgecolor": palette.PAPER, "linewidth": 0.8, "zorder": 3}
    axes.add_patch(Rectangle((x - wide / 2, DOWN * number - TALL / 2), wide, TALL, **look))
    look = {"color": palette.ink_on(colour), "fontsize": _fitting(words, wide), "zorder": 4}
    axes.text(x, DOWN * number, words, ha="center", va="center", **look)


def _fitting(words: str, wide: float, largest: float = SMALL) -> float:
    """The points at which these words fit into so much of the drawing, which is 10 wide."""
    return min(largest, 72 * wide * width() / 10 / (0.62 * len(words)))


def _line(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """An arrow from the lower edge of a box to the upper edge of another: (x, number of the step) of both."""
    (x, above), (to, below) = start, end
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": 1, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (to, DOWN * below - TALL / 2), (x, DOWN * above + TALL / 2), arrowprops=look)


def _table(axes: Axes, x: float, number: float, wide: float, head: int) -> None:
    """A table of weights, as a sign: each head's tokens look that many places back."""
    tokens = torch.arange(6)
    weights = (-1.2 * (tokens[:, None] - tokens - head).abs()).float().softmax(dim=-1)
    box = (x - wide / 2, x + wide / 2, DOWN * number + TALL / 2, DOWN * number - TALL / 2)
    axes.imshow(weights.numpy(), extent=box, cmap=colour_map(palette.WEIGHTS), vmin=0, vmax=1, aspect="auto", zorder=3)
    look = {"facecolor": "none", "edgecolor": palette.MUTED, "linewidth": 0.8, "zorder": 4}
    axes.add_patch(Rectangle((box[0], box[3]), wide, TALL, **look))


@own_settings()
def one_score(
    q: torch.Tensor, k: torch.Tensor, tokens: Sequence[str], query: int, key: int, *, title: str, alt: str = ""
) -> Picture:
    """One cell of q @ k.T: the row of this query in q meets the column of this key in k.T.  q, k (T, d_k)."""
    q, k, names, (T, d_k) = q.detach().cpu(), k.detach().cpu(), drawable(tokens), q.shape
    gap, at_k, at_scores = 1.8, d_k + 1.8, d_k + T + 3.6
    figure = sheet(width(), 3)
    axes = figure.add_subplot()
    _numbers(axes, q, 0, "q (T, d_k)", palette.QUERY, lambda t, _: t == query, rows=names)
    _numbers(axes, k.T, at_k, "k.T (d_k, T)", palette.KEY, lambda _, s: s == key, columns=names)
    _numbers(axes, q @ k.T, at_scores, "scores (T, T)", palette.LINE, lambda *at: at == (query, key), names, names)
    for x, sign in ((d_k + 0.5, "@"), (at_scores - 1.6, "=")):
        axes.text(x, d_k / 2, sign, ha="center", va="center", fontsize=LABEL)
    axes.set(xlim=(-gap, at_scores + T + 1), ylim=(T + 1, -1.8), aspect="equal")
    axes.set_axis_off()
    heading(figure, title)
    row, column = (
        f"{name}, {values.int().tolist()}," for name, values in ((names[query], q[query]), (names[key], k[key]))
    )
    words = f"q @ k.T = scores. The row of {row} of q times the column of {column} of k.T is one score"
    return Picture(figure, alt or f"{words}, {q[query] @ k[key]:.0f}.")


def _numbers(
    axes: Axes,
    values: torch.Tensor,
    left: float,
    name: str,
    colour: str,
    chosen: Callable[[int, int], bool],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> None:
    """A grid of numbers from this place on; those that are chosen have the colour, the others none."""
    down, across = values.shape
    look: dict[str, Any] = {"fontsize": SMALL, "va": "center"}
    for t, row in enumerate(values.tolist()):
        for s, number in enumerate(row):
            shade = colour if chosen(t, s) else palette.PAPER
            axes.add_patch(Rectangle((left + s, t), 1, 1, facecolor=shade, edgecolor=palette.FAINT, linewidth=0.8))
            ink = palette.ink_on(shade)
            axes.text(left + s + 0.5, t + 0.5, f"{number:.0f}", ha="center", color=ink, **look)
    for t, word in enumerate(rows):
        axes.text(left - 0.2, t + 0.5, word, ha="right", **look)
    for s, word in enumerate(columns):
        axes.text(
            left + s + 0.4, -0.2, word, ha="left", va="bottom", rotation=60, rotation_mode="anchor", fontsize=SMALL
        )
    axes.text(left + across / 2, down + 0.6, name, ha="center", fontsize=LABEL, va="center")
