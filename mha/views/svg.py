"""Pieces of SVG for the moving views: cells, maps, lines and bars, as text.

Colours are roles of `palette`.  Coordinates are in pixels and rounded; nothing has an id, so that views on one page
cannot get into each other's way.  Each `…_panel` returns its parts and the y at which it ends.
"""

import base64
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape

import numpy as np
from PIL import Image
from torch import Tensor

from mha import addresses, palette, runtime
from mha.labels import short

Drawing = tuple[Iterable[str], float, float, str]  # what `document` takes: parts, width, height, words
Panel = tuple[list[str], float]  # parts, and the y at which they end


@cache
def _ramp(stops: tuple[str, ...]) -> np.ndarray:
    """256 colours (256, 3) through these stops."""
    colours = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops])
    x = np.linspace(0, len(stops) - 1, 256)
    channels = [np.interp(x, range(len(stops)), channel) for channel in colours.T]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def ramp(signed: bool = False) -> np.ndarray:
    """256 colours (256, 3) for values from 0 (signed: −1) to 1."""
    return _ramp(palette.DIFFERENCES if signed else palette.WEIGHTS)


@cache
def _hex(stops: tuple[str, ...]) -> tuple[list[str], list[str]]:
    shades = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in _ramp(stops)]
    return shades, [palette.ink_on(shade) for shade in shades]


def shades(signed: bool = False) -> tuple[list[str], list[str]]:
    """The same 256 colours as text, and for each the ink of words on it."""
    return _hex(palette.DIFFERENCES if signed else palette.WEIGHTS)


def levels(values: np.ndarray, signed: bool = False) -> np.ndarray:
    """Where values from 0 (signed: −1) to 1 stand on the ramp, 0 to 255."""
    return np.clip(255 * ((values + 1) / 2 if signed else values) + 0.5, 0, 255).astype(int)


def document(parts: Iterable[str], width: float, height: float, words: str) -> str:
    """One drawing: a page of this size with these parts, and what it shows in words."""
    page, shown = palette.PAPER, width * runtime.look.scale
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{shown:.0f}" style="max-width:100%;background:{page}"'
        f' role="img" aria-label="{escape(words)}" font-family="sans-serif" fill="{palette.INK}">'
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="{page}"/>{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: str, size: float = 13, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.0f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def frame(x: float, y: float, w: float, h: float, colour: str, width: float = 3) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
    return f'<rect {place} fill="none" stroke="{colour}" stroke-width="{width}"/>'


def cell(
    x: float, y: float, w: float, h: float, fill: str, words: str = "", hover: str = "", ink: str | None = None
) -> str:
    """A box with words in it, in the ink that reads best unless given, and more words on hover."""
    hover = f"<title>{escape(hover)}</title>" if hover else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
    box = f'<rect {place} fill="{fill}" stroke="{palette.FAINT}" stroke-width=".5">{hover}</rect>'
    look = f' fill="{ink or palette.ink_on(fill)}"' if words else ""
    return box + (text(x + w / 2, y + h / 2 + 4, words, 12, "middle", look) if words else "")


def raster(x: float, y: float, w: float, h: float, values: np.ndarray, signed: bool = False, hover: str = "") -> str:
    """A table of numbers as one picture, a pixel to a cell, however many cells."""
    file = io.BytesIO()
    Image.fromarray(ramp(signed)[levels(values, signed)]).save(file, "png", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    place = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" preserveAspectRatio="none"'
    picture = f'<image {place} style="image-rendering:pixelated" href="data:image/png;base64,{data}">'
    return f"{picture}<title>{escape(hover)}</title></image>{frame(x, y, w, h, palette.FAINT, 1)}"


def legend(x: float, y: float, signed: bool = False) -> list[str]:
    """The colour scale, from 0 (signed: −1) to 1."""
    steps = [cell(x + 12 * i, y, 12, 12, shades(signed)[0][round(i * 255 / 10)]) for i in range(11)]
    low = "-1" if signed else "0"
    return [text(x - 6, y + 11, low, 12, "end"), *steps, text(x + 138, y + 11, "1", 12)]


def heads_panel(maps: np.ndarray, chosen: int | None = None, across: int = 12, size: int = 66) -> Panel:
    """All heads, small, in rows of twelve; the chosen one framed and marked."""
    parts = []
    for head, values in enumerate(maps):
        x, y = 10 + head % across * (size + 7), 20 + head // across * (size + 24)
        mark = "▾ " if head == chosen else ""
        parts.append(text(x + size / 2, y - 5, f"{mark}{head}", 12, "middle"))
        parts.append(raster(x, y, size, size, values, hover=f"head {head}"))
        if head == chosen:
            parts.append(frame(x - 2, y - 2, size + 4, size + 4, palette.INK))
    return parts, 6 + math.ceil(len(maps) / across) * (size + 24)


def map_panel(
    x: float,
    y: float,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    chosen: int,
    signed: bool = False,
) -> Panel:
    """One table, tokens on both sides, the chosen row framed; cells carry their numbers where there is room."""
    T, S = values.shape
    size = min(44.0, 400 / max(T, S))
    left, top, font = x + 90, y + 60, 12
    every = math.ceil(12 / size)  # where labels would touch, only every second or third is written
    labelled = range(chosen % every, T, every)
    parts = [text(left - 6, top + size * (t + 0.5) + 4, short(rows[t]), font, "end") for t in labelled]
    single = max(map(len, columns)) == 1  # characters: each has room, upright
    for s in range(0, S, math.ceil((9 if single else 18) / size)):  # turned labels need more room
        middle = left + size * (s + 0.5)
        if size > 40 or single:
            parts.append(text(middle, top - 6, short(columns[s], 6), font, "middle"))
        else:
            turn = f' transform="rotate(-50 {middle + 4:.1f} {top - 6:.1f})"'
            parts.append(text(middle + 4, top - 6, short(columns[s]), font, "start", turn))
    if T * S > 600:
        parts.append(raster(left, top, size * S, size * T, values, signed, "queries down, keys across"))
    else:
        parts += _cells(left, top, size, values, rows, columns, signed)
    parts.append(frame(left, top + size * chosen, size * S, size, palette.CHOSEN))
    return parts, top + size * T


def _cells(
    left: float,
    top: float,
    size: float,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    signed: bool,
) -> Iterator[str]:
    fills, inks = shades(signed)
    for t, line in enumerate(levels(values, signed).tolist()):
        for s, level in enumerate(line):
            number = f"{values[t, s]:.2f}"
            words = number if size > 30 else ""
            hover = f"{rows[t]} → {columns[s]}: {number}"
            yield cell(left + size * s, top + size * t, size, size, fills[level], words, hover, inks[level])


def lines_panel(
    x: float, y: float, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], chosen: int
) -> Panel:
    """One table as lines from queries to keys, as opaque as the weight; the chosen query's are thick."""
    step = min(24.0, 480 / max(values.shape))
    font = min(13, step)
    parts = [text(x + 140, y + 20 + step * t, short(token), font, "end") for t, token in enumerate(rows)]
    parts += [text(x + 360, y + 20 + step * s, short(token), font) for s, token in enumerate(columns)]
    for t, s in zip(*np.nonzero(values > 0.02), strict=True):
        ends = f'x1="{x + 146:.0f}" y1="{y + 16 + step * t:.1f}" x2="{x + 354:.0f}" y2="{y + 16 + step * s:.1f}"'
        colour, width = (palette.CHOSEN, 4) if t == chosen else (palette.LINE, 2)
        style = f'stroke="{colour}" stroke-width="{width}" stroke-opacity="{values[t, s]:.2f}"'
        hover = escape(f"{rows[t]} → {columns[s]}: {values[t, s]:.2f}")
        parts.append(f"<line {ends} {style}><title>{hover}</title></line>")
    return parts, y + 30 + step * max(values.shape)


def bars_panel(
    x: float, y: float, row: np.ndarray, names: Sequence[str], title: str, signed: bool = False, most: int = 20
) -> Panel:
    """A row of weights as bars, each with its name and its number; of a long row the `most` largest, in order."""
    largest = sorted(np.argsort(-np.abs(row), kind="stable")[:most].tolist())
    title = title if len(row) <= most else f"{title}, its {most} largest weights"
    zero, unit, parts = x + (200 if signed else 120), 90 if signed else 170, [text(x, y + 14, title, 15)]
    for line, s in enumerate(largest):
        top, weight = y + 26 + 23 * line, round(float(row[s]), 3) + 0.0
        fill = (palette.LESS if weight < 0 else palette.MORE) if signed else palette.BAR
        number = f"{weight:+.2f}" if signed else f"{weight:.2f}"
        parts.append(text(x + 114, top + 16, short(names[s], 15), 13, "end"))
        left = zero + unit * min(weight, 0)
        parts.append(cell(left, top + 2, abs(unit * weight), 19, fill, "", f"{names[s]} {weight:.3f}"))
        parts.append(text(zero + unit * max(weight, 0) + 6, top + 16, number, 13))
    return parts, y + 26 + 23 * len(largest)


def boxes_panel(x: float, y: float, block: Tensor, d_k: int, name: str = "") -> Panel:
    """A tensor (n, rows, width) of addresses (`mha.addresses`) as n grids side by side, each with its name."""
    parts, left = [], x
    width = min(36, 700 / len(block) / (block.size(2) + 0.5))
    for number, grid in enumerate(block.tolist()):
        for t, line in enumerate(grid):
            for f, address in enumerate(line):
                shade = palette.head(addresses.split(address)[2] // d_k)
                parts.append(cell(left + width * f, y + 30 * t, width, 30, shade, addresses.label(address)))
        if name:
            parts.append(text(left, y + 30 * len(grid) + 18, f"{name} {number}"))
        left += width * (len(grid[0]) + 0.5)
    return parts, y + 30 * block.size(1)
