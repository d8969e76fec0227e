"""Still pictures, each with its text alternative.  Rows are queries, columns are keys, in every one.

Every function returns a `Picture`, which a notebook shows as an image and, below it, its text in words.
A title says what to see; `alt` says it to somebody who cannot.  No pyplot: no figure stays open.
Pictures are at most 7 inches wide at 120 dots an inch: a page of 8 inches shows them, and their letters, in full.
"""

import base64
import io
import math
import textwrap
from contextlib import contextmanager

import torch
from PIL import Image

from mha.runtime import quiet

with quiet("matplotlib"):  # where no folder can be written it tells where it keeps its fonts, on stderr
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
    from matplotlib.figure import Figure
    from matplotlib.font_manager import findfont, get_font
    from matplotlib.patches import Rectangle

# One palette for stills and moving views, safe for colour-blind readers: lightness alone orders the weights,
# and the hues of heads are never the only sign (cells and bars carry their text).
WEIGHTS = ("#ffffff", "#d6e6f4", "#9dc6e0", "#4a97c9", "#1764ab", "#08306b")
DIFFERENCES = ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b")
HEADS = ("#8ecae6", "#ffd166", "#b7e4c7", "#f4acb7", "#cdb4db", "#f6bd60", "#a3b18a", "#d9d9d9")
INK, FAINT = "#222222", "#bbbbbb"
WIDTH = 7  # inches, the widest picture


@contextmanager
def own_settings():
    """Inside, matplotlib draws as it does by default, whatever style the user chose, and a $ is a $: no formulas."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["text.parse_math"] = False
        yield


def printable(tokens):
    """Tokens as text that shows: blank ones and line breaks as Python writes them."""
    return [token if token.isprintable() and token.strip() else repr(token) for token in map(str, tokens)]


def short(token, most=12):
    """A token as a label, cut with a sign that it was."""
    return token if len(token) <= most else token[: most - 1] + "…"


def colour_map(stops):
    """A matplotlib colour map through these colours."""
    return LinearSegmentedColormap.from_list("mha", stops)


class Picture:
    """A finished figure: `png` (bytes) and `alt` (what it shows, beyond its title), shown together."""

    @own_settings()
    def __init__(self, figure, alt):
        drawn, file = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", dpi=120, bbox_inches="tight")
        colours = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)  # a third of the bytes
        colours.save(file, "png", optimize=True)
        self.png, self.alt = file.getvalue(), alt

    def _ipython_display_(self):
        from IPython.display import display

        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.alt}
        display(data, metadata={"image/png": {"alt": self.alt}}, raw=True)
        # Most viewers drop an image's alt text; these lines they keep, and none needs to be broken inside a word.
        print(textwrap.fill(f"In words: {self.alt}", 90, break_long_words=False, break_on_hyphens=False))

    def __repr__(self):
        return self.alt


@own_settings()
def heatmap(
    values,
    rows,
    columns=None,
    *,
    title,
    alt,
    numbers="{:.2f}",
    scale=(0, 1),
    label="weight",
    row_label="query",
    column_label="key",
    texts=None,
):
    """One table of numbers as colours, the numbers written in.  values (T, S); columns = rows unless given.

    `numbers` is the format of a cell, or None to leave cells bare; `texts` are words to write instead, a list for
    each row; `scale` the values of the two end colours; without a `label` there is no bar of colours.
    """
    values, columns = _table(values), list(rows if columns is None else columns)
    T, S = values.shape
    size = min(0.62 * S, WIDTH - 1.8), (0.45 if numbers or texts else 0.3) * T  # inches of the table, across and down
    figure = Figure(figsize=(min(1.6 + 0.62 * S, WIDTH), 0.9 + size[1]), layout="constrained")
    axes = figure.add_subplot()
    colours = colour_map(WEIGHTS)
    image = _draw_table(axes, values, list(rows), columns, Normalize(*scale), colours, numbers, size, texts=texts)
    axes.set_ylabel(row_label)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(column_label)
    axes.set_title(title, loc="left", fontsize=11)
    if label:
        figure.colorbar(image, ax=axes, label=label, shrink=0.9)
    return Picture(figure, alt)


@own_settings()
def head_grid(weights, rows, columns=None, *, title, alt, names=None, numbers=None, row_label="query"):
    """One small heatmap per head, all on one scale from 0 to 1.  weights (h, T, S)."""
    if weights.dim() != 3:
        raise ValueError(f"weights have shape {tuple(weights.shape)}, wanted (h, T, S): choose one text, weights[0]")
    weights, columns = weights.detach().float().cpu(), list(rows if columns is None else columns)
    h, T, S = weights.shape
    across = min(h, 2)
    down = -(-h // across)
    size = min(0.3 + 0.35 * S, (WIDTH - 1.3) / across), min(0.15 + 0.25 * T, 2.3)  # inches of one head, across and down
    figure = Figure(figsize=(1.3 + across * size[0], 0.7 + down * (size[1] + 0.7)), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for head, axes in enumerate(grid.flat):
        if head >= h:
            axes.set_axis_off()
            continue
        tokens = [short(token) for token in rows], [short(token) for token in columns]
        image = _draw_table(axes, weights[head], *tokens, Normalize(0, 1), colour_map(WEIGHTS), numbers, size)
        axes.set_title(names[head] if names else f"head {head}", fontsize=9)
        axes.tick_params(labelleft=head % across == 0, labeltop=True)
        axes.set_ylabel("" if head % across else row_label, fontsize=8)
    figure.colorbar(image, ax=grid, label="weight", shrink=min(1, 2 / down), fraction=0.05, aspect=30)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return Picture(figure, alt)


@own_settings()
def shape_walk(steps, d_k, *, title, alt):
    """A tensor on its way through reshapes, drawn as labelled boxes that split and move.

    steps {name: tensor}, each (T, d) or, split, (h, T, d_k), holding addresses made by `addresses`.  A cell's
    text is the token and feature it came from; its colour is the head that this feature belongs to.  An arrow
    leads from step to step, but not to one whose name starts with "wrong", which is shown beside the right one.
    """
    blocks = {name: (step if step.dim() == 3 else step[None]).cpu() for name, step in steps.items()}
    heights = {name: len(block) * (block.size(1) + 0.7) - 0.7 for name, block in blocks.items()}
    tallest, x0 = max(heights.values()), 0.0
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    for name, block in blocks.items():
        if x0 and not name.startswith("wrong"):
            axes.annotate("", (x0 + 1.6, tallest / 2), (x0 + 0.4, tallest / 2), arrowprops={"arrowstyle": "->"})
        x0 += 2 + (len(block) > 1) if x0 else 0
        y0 = (tallest - heights[name]) / 2
        _draw_boxes(axes, block, d_k, x0, y0)
        axes.text(x0 + block.size(2) / 2, y0 - 0.3, name, ha="center", va="bottom", fontsize=8)
        x0 += block.size(2)
    axes.set(xlim=(-1, x0 + 0.2), ylim=(tallest + 0.1, -1.2), aspect="equal")
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize=11)
    cell = min(0.36, WIDTH / (x0 + 1.2))  # inches
    figure.set_size_inches(cell * (x0 + 1.2), cell * (tallest + 2.4))
    return Picture(figure, alt)


def addresses(T, d):
    """Values that say where they come from: (T, d), token t and feature f as 100·t + f."""
    return 100.0 * torch.arange(T)[:, None] + torch.arange(d)


@own_settings()
def bars(rows, *, title, alt, unit, numbers="{:,.0f}"):
    """Horizontal bars.  rows {label: number}, or {label: {piece: number}} for bars made of pieces."""
    rows = {label: value if isinstance(value, dict) else {"": value} for label, value in rows.items()}
    pieces = list(dict.fromkeys(piece for row in rows.values() for piece in row))
    figure = Figure(figsize=(WIDTH, 0.9 + 0.38 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    longest = max(sum(row.values()) for row in rows.values()) or 1
    for y, row in enumerate(rows.values()):
        left = 0
        for piece, value in row.items():
            shade = WEIGHTS[4] if len(pieces) == 1 else HEADS[pieces.index(piece) % len(HEADS)]
            axes.barh(y, value, left=left, color=shade, edgecolor=INK, linewidth=0.6, height=0.7)
            if piece and value > 0.07 * longest:
                axes.text(left + value / 2, y, piece, ha="center", va="center", fontsize=8, color=INK)
            left += value
        axes.text(left + 0.01 * longest, y, numbers.format(left), va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), _drawable(short(label, 40) for label in rows))
    axes.set(xlim=(0, 1.15 * longest), xlabel=unit)
    axes.xaxis.set_major_formatter("{x:,.12g}")
    axes.locator_params(axis="x", nbins=5)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    return Picture(figure, alt)


@own_settings()
def curves(x, lines, *, title, alt, x_label, y_label, log=True, spread=None, apart=0):
    """Lines over common x, each with its own marker and its name at its end.  lines {name: numbers}.

    spread {name: (lowest, highest)}: two lists of numbers, drawn as a bar through each point.  Lines that
    would hide each other stand `apart` on x: on a log axis a share of the way from one power of two to the next.
    """
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    axes = figure.add_subplot()
    shades = (WEIGHTS[4], DIFFERENCES[1], INK, DIFFERENCES[5])
    for number, ((name, y), marker, shade) in enumerate(zip(lines.items(), "os^D", shades, strict=False)):
        aside = apart * (number - (len(lines) - 1) / 2)
        at = [value * 2**aside if log else value + aside for value in x]
        axes.plot(at, y, marker=marker, color=shade, label=name)
        if spread:
            axes.vlines(at, *spread[name], color=shade, linewidth=1.5)
        axes.annotate(name, (at[-1], y[-1]), (8, 0), textcoords="offset points", va="center", fontsize=9, color=shade)
    axes.set_ylim(bottom=0)
    if log:
        axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    return Picture(figure, alt)


@own_settings()
def differences(values, rows, columns, *, title, alt):
    """Tiny numbers as colours on a logarithmic scale from 1e-9 (or less) to 1: values (rows, columns)."""
    values = _table(values).clamp(min=1e-9)
    figure = Figure(figsize=(2.2 + 0.85 * len(columns), 0.9 + 0.36 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    size = 0.85 * len(columns), 0.36 * len(rows)
    image = _draw_table(axes, values, rows, columns, LogNorm(1e-9, 1), colour_map(WEIGHTS), "{:.0e}", size)
    axes.set_title(title, loc="left", fontsize=11)
    figure.colorbar(image, ax=axes, label="largest difference", shrink=0.9, format="%.0e")
    return Picture(figure, alt)


def _table(values):
    values = torch.as_tensor(values).detach().float().cpu()
    if values.dim() != 2:
        raise ValueError(
            f"a heatmap draws one table (T, S), got shape {tuple(values.shape)}: choose one, weights[0, 0]"
        )
    return values


def _draw_table(axes, values, rows, columns, norm, colours, numbers, size, font=9, texts=None):
    """One table on the axes, `size` inches across and down: tokens on both sides, a cell's number white on dark."""
    image = axes.imshow(values.numpy(), cmap=colours, norm=norm, aspect="auto")
    rows = _drawable(short(token, 24) for token in rows)
    columns = _drawable(short(token, 16) for token in columns)
    across, down = (72 * inches / font / n for inches, n in zip(size, (len(columns), len(rows)), strict=True))  # ems
    upright = 0.62 * max(map(len, columns)) + 0.3 < max(across, 0.93)
    for ticks, names, room in ((axes.set_xticks, columns, across), (axes.set_yticks, rows, down)):
        every = math.ceil(0.93 / room)  # where labels would touch, only some are written
        ticks(range(0, len(names), every), names[::every], fontsize=font)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    if not upright and across > 1.5:  # slanted, each word begins above its column
        for label in axes.get_xticklabels():
            label.set(rotation=60, rotation_mode="anchor", ha="left")
    elif not upright:
        axes.tick_params(axis="x", rotation=90)
    if len(rows) * len(columns) <= 400:
        axes.set_xticks([s - 0.5 for s in range(1, len(columns))], minor=True)
        axes.set_yticks([t - 0.5 for t in range(1, len(rows))], minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.tick_params(which="minor", length=0)
    if numbers or texts:
        words = texts or [[numbers.format(value) for value in row] for row in values.tolist()]
        longest = max(len(line) for row in words for cell in row for line in cell.split("\n"))
        font = min(font - 1, font * across / (0.6 * longest + 0.1))
        for t, row in enumerate(values.tolist()):
            for s, value in enumerate(row):
                ink = "white" if norm(value) > 0.6 else INK
                axes.text(s, t, words[t][s], ha="center", va="center", fontsize=font, color=ink)
    return image


def _drawable(tokens):
    """Tokens as text that shows, with the number of each sign that matplotlib's own letters lack; "" stays bare."""
    known = get_font(findfont("DejaVu Sans")).get_char_index
    shown = [printable([token])[0] if token else "" for token in tokens]
    return ["".join(sign if known(ord(sign)) else f"U+{ord(sign):X}" for sign in token) for token in shown]


def _draw_boxes(axes, block, d_k, x0, y0):
    """One tensor (h, T, width) of addresses as h stacked grids of labelled cells, from (x0, y0) down."""
    for head, grid in enumerate(block.long().tolist()):
        top = y0 + head * (len(grid) + 0.7)
        if len(block) > 1:
            axes.text(x0 - 0.2, top + len(grid) / 2, f"head {head}", rotation=90, ha="right", va="center", fontsize=8)
        for y, row in enumerate(grid):
            for x, address in enumerate(row):
                token, feature = divmod(address, 100)
                shade = HEADS[feature // d_k % len(HEADS)]
                axes.add_patch(Rectangle((x0 + x, top + y), 1, 1, facecolor=shade, edgecolor="white"))
                text = f"{token}.{feature}"
                axes.text(x0 + x + 0.5, top + y + 0.5, text, ha="center", va="center", fontsize=7, color=INK)
