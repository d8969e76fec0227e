"""A tensor on its way through reshapes, drawn as boxes that say where their number comes from."""

import textwrap
from typing import Any

import torch

from mha import addresses, palette, runtime
from mha.figures.look import LABEL, SMALL, Picture, heading, own_settings, sheet, width

with runtime.quiet("matplotlib"):
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle


@own_settings()
def shape_walk(steps: dict[str, torch.Tensor], d_k: int, *, title: str, alt: str) -> Picture:
    """A tensor on its way through reshapes, drawn as labelled boxes that split and move.

    steps {name: tensor}, each (T, d) or, split, (h, T, d_k), holding addresses made by `addresses`.  A cell's
    text is the token and feature it came from; its colour is the head that this feature belongs to.  An arrow
    leads from step to step, but not to one whose name starts with "wrong", which is shown beside the right one.
    """
    blocks = {name: (step if step.dim() == 3 else step[None]).cpu() for name, step in steps.items()}
    heights = {name: len(block) * (block.size(1) + 0.7) - 0.7 for name, block in blocks.items()}
    gaps = [2 + (len(block) > 1) for block in blocks.values()]
    across = sum(block.size(2) for block in blocks.values()) + sum(gaps[1:]) + 1.2
    cell, tallest, x0 = min(0.36, width() / across), max(heights.values()), 0.0  # a cell in inches; else in cells
    letters = 72 * cell / (0.62 * LABEL)  # in the width of a cell
    names = {name: textwrap.fill(name, int((block.size(2) + 1.5) * letters)) for name, block in blocks.items()}
    above = 0.4 + 1.3 * LABEL / 72 / cell * max(name.count("\n") + 1 for name in names.values())
    figure = sheet(cell * across, cell * (tallest + above) + 0.4)
    axes = figure.add_subplot()
    for (name, block), gap in zip(blocks.items(), gaps, strict=True):
        if x0 and not name.startswith("wrong"):
            look = {"arrowstyle": "->", "color": palette.INK}
            axes.annotate("", (x0 + 1.6, tallest / 2), (x0 + 0.4, tallest / 2), arrowprops=look)
        x0 += gap if x0 else 0
        y0 = (tallest - heights[name]) / 2
        _draw_boxes(axes, block, d_k, x0, y0, 72 * cell)
        axes.text(x0 + block.size(2) / 2, y0 - 0.3, names[name], ha="center", va="bottom", fontsize=LABEL)
        x0 += block.size(2)
    axes.set(xlim=(-1, x0 + 0.2), ylim=(tallest + 0.1, -above), aspect="equal")
    axes.set_axis_off()
    heading(figure, title)
    return Picture(figure, alt)


def _draw_boxes(axes: Axes, block: torch.Tensor, d_k: int, x0: float, y0: float, cell: float) -> None:
    """One tensor (h, T, width) of addresses as stacked grids of labelled cells, from (x0, y0) down; cell in points."""
    for head, grid in enumerate(block.tolist()):
        top = y0 + head * (len(grid) + 0.7)
        if len(block) > 1:
            look: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": SMALL}
            axes.text(x0 - 0.2, top + len(grid) / 2, f"head {head}", **look)
        for y, row in enumerate(grid):
            for x, address in enumerate(row):
                words, (_, _, feature) = addresses.label(address), addresses.split(address)
                shade = palette.head(feature // d_k)
                axes.add_patch(Rectangle((x0 + x, top + y), 1, 1, facecolor=shade, edgecolor=palette.PAPER))
                look = {"color": palette.ink_on(shade), "fontsize": min(SMALL, cell / (0.62 * len(words) + 0.5))}
                axes.text(x0 + x + 0.5, top + y + 0.5, words, ha="center", va="center", **look)
