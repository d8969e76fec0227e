"""Tables of numbers as colours: rows are queries, columns are keys."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import torch

from mha import palette, runtime
from mha.figures.look import (
    LABEL,
    SMALL,
    Picture,
    colour_map,
    drawable,
    heading,
    own_settings,
    sheet,
    width,
)
from mha.labels import short

with runtime.quiet("matplotlib"):
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, LogNorm, Normalize, to_hex
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


@own_settings()
def heatmap(
    values: torch.Tensor,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    title: str,
    alt: str = "",
    numbers: str | None = "{:.2f}",
    scale: tuple[float, float] = (0, 1),
    label: str = "weight",
    row_label: str = "query",
    column_label: str = "key",
    texts: list[list[str]] | None = None,
) -> Picture:
    """One table of numbers as colours, the numbers written in.  values (T, S); columns = rows unless given.

    `numbers` is the format of a cell, or None to leave cells bare; `texts` are words to write instead, a list for
    each row; `scale` the values of the two end colours; without a `label` there
    is no bar of colours.  Without an `alt` its words are the largest cell of each row.
    """
    values, columns = _table(values), list(rows if columns is None else columns)
    T, S = values.shape
    labels = 1 + _inches(rows) + 0.5 * _inches(columns)  # inches beside the table; slanted labels lean out of it
    size = min(0.62 * S, width() - max(1.8, labels)), (0.45 if numbers or texts else 0.3) * T
    figure = sheet(1.6 + 0.62 * S, 0.9 + size[1])
    axes = figure.add_subplot()
    colours = colour_map(palette.WEIGHTS)
    image = _draw_table(axes, values, list(rows), columns, Normalize(*scale), colours, numbers, size, texts=texts)
    axes.set_ylabel(row_label)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(column_label)
    if label:
        _scale(figure, image, axes, label, 0.9 * size[1], shrink=0.9)
    heading(figure, title)
    return Picture(figure, alt or f"{T} by {S}, the largest of each row: {_largest(values, rows, columns, numbers)}.")


@own_settings()
def head_grid(
    weights: torch.Tensor,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    title: str,
    alt: str,
    names: Sequence[str] | None = None,
    numbers: str | None = None,
    label: str = "weight",
    row_label: str = "query",
) -> Picture:
    """One small heatmap per head, all on one scale from 0 to 1.  weights (h, T, S); no colour bar without `label`."""
    if weights.dim() != 3:
        raise ValueError(f"weights have shape {tuple(weights.shape)}, wanted (h, T, S): choose one text, weights[0]")
    weights, columns = weights.detach().float().cpu(), list(rows if columns is None else columns)
    h, T, S = weights.shape
    across = min(h, 2)
    down = -(-h // across)
    # Inches of one head, across and down.
    size = min(0.3 + 0.35 * S, (width() - max(1.3, 0.9 + _inches(rows))) / across), min(0.15 + 0.25 * T, 2.3)
    figure = sheet(1.3 + across * size[0], 0.7 + down * (size[1] + 0.7))
    colours = colour_map(palette.WEIGHTS)
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for head, axes in enumerate(grid.flat):
        if head >= h:
            axes.set_axis_off()
            continue
        tokens = [short(token) for token in rows], [short(token) for token in columns]
        image = _draw_table(axes, weights[head], *tokens, Normalize(0, 1), colours, numbers, size)
        axes.set_title(names[head] if names else f"head {head}", fontsize=LABEL)
        axes.tick_params(labelleft=head % across == 0, labeltop=True)
        axes.set_ylabel("" if head % across else row_label, fontsize=SMALL)
    if label:
        _scale(figure, image, grid, label, size[1], shrink=min(1, 2 / down), fraction=0.05, aspect=30)
    heading(figure, title)
    return Picture(figure, alt)


@own_settings()
def differences(values: torch.Tensor, rows: Sequence[str], columns: Sequence[str], *, title: str, alt: str) -> Picture:
    """Tiny numbers as colours on a logarithmic scale from 1e-9 (or less) to 1: values (rows, columns)."""
    values = _table(values).clamp(min=1e-9)
    figure = sheet(2.2 + 0.85 * len(columns), 0.9 + 0.36 * len(rows))
    axes = figure.add_subplot()
    size = min(0.85 * len(columns), width() - 2.2), 0.36 * len(rows)
    image = _draw_table(axes, values, rows, columns, LogNorm(1e-9, 1), colour_map(palette.WEIGHTS), "{:.0e}", size)
    _scale(figure, image, axes, "largest difference", 0.9 * size[1], shrink=0.9, format="%.0e")
    heading(figure, title)
    return Picture(figure, alt)


def _largest(values: torch.Tensor, rows: Sequence[str], columns: Sequence[str], numbers: str | None) -> str:
    """The largest number of each row in words, with all the columns that have it."""
    found = []
    for row, line in zip(rows, values, strict=True):
        where = [column for column, number in zip(columns, line, strict=True) if number > line.max() - 1e-6]
        names = " and ".join(where) if len(where) < len(columns) else "all"
        found.append(f"{row} → {names} {(numbers or '{:.2f}').format(line.max())}")
    return "; ".join(found)


def _inches(rows: Sequence[str], font: float = LABEL) -> float:
    """How wide the labels of the rows are."""
    return 0.62 * font / 72 * max(len(short(token, 24)) for token in rows)


def _table(values: torch.Tensor) -> torch.Tensor:
    values = torch.as_tensor(values).detach().float().cpu()
    if values.dim() != 2:
        raise ValueError(
            f"a heatmap draws one table (T, S), got shape {tuple(values.shape)}: choose one, weights[0, 0]"
        )
    return values


def _draw_table(
    axes: Axes,
    values: torch.Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    norm: Normalize,
    colours: Colormap,
    numbers: str | None,
    size: tuple[float, float],
    font: float = LABEL,
    texts: list[list[str]] | None = None,
) -> AxesImage:
    """One table on the axes, `size` inches across and down: tokens on both sides, a cell's number white on dark."""
    image = axes.imshow(values.numpy(), cmap=colours, norm=norm, aspect="auto")
    rows = drawable(short(token, 24) for token in rows)
    columns = drawable(short(token, 16) for token in columns)
    across, down = (72 * inches / font / n for inches, n in zip(size, (len(columns), len(rows)), strict=True))  # ems
    upright = 0.62 * max(map(len, columns)) + 0.3 < max(across, 0.93)
    for ticks, names, room in ((axes.set_xticks, columns, across), (axes.set_yticks, rows, down)):
        every = math.ceil(0.93 / room)  # where labels would touch, only some are written
        ticks(range(0, len(names), every), names[::every], fontsize=font)
    axes.spines[:].set(visible=True, color=palette.FAINT)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    if not upright and across > 1.5:  # slanted, each word begins above its column
        for label in axes.get_xticklabels():
            label.set(rotation=60, rotation_mode="anchor", ha="left")
    elif not upright:
        axes.tick_params(axis="x", rotation=90)
    if len(rows) * len(columns) <= 400:
        axes.set_xticks([s - 0.5 for s in range(1, len(columns))], minor=True)
        axes.set_yticks([t - 0.5 for t in range(1, len(rows))], minor=True)
        axes.grid(which="minor", color=palette.PAPER, linewidth=1)
        axes.tick_params(which="minor", length=0)
    words = texts or ([[numbers.format(value) for value in row] for row in values.tolist()] if numbers else [])
    if words:
        longest = max(len(line) for row in words for cell in row for line in cell.split("\n"))
        font = min(font - 1, font * across / (0.6 * longest + 0.1))
        for t, row in enumerate(values.tolist()):
            for s, value in enumerate(row):
                ink = palette.ink_on(to_hex(colours(norm(value))))
                axes.text(s, t, words[t][s], ha="center", va="center", fontsize=font, color=ink)
    return image


def _scale(figure: Figure, image: AxesImage, axes: Any, label: str, tall: float, **look: Any) -> None:
    """The colour scale with its label, broken where the bar, `tall` inches high, is too short for it."""
    letters = max(8, int(72 * tall / (0.6 * LABEL)))
    bar = figure.colorbar(image, ax=axes, label=textwrap.fill(label, letters), **look)
    bar.outline.set_edgecolor(palette.FAINT)
