"""Bars and curves."""

from mha import palette, runtime
from mha.figures.look import LABEL, SMALL, Picture, drawable, heading, own_settings, sheet, width
from mha.labels import short

with runtime.quiet("matplotlib"):
    from matplotlib.text import Annotation


@own_settings()
def bars(rows: dict, *, title: str, alt: str = "", unit: str, numbers: str = "{:,.0f}") -> Picture:
    """Horizontal bars.  rows {label: number}, or {label: {piece: number}} for bars made of pieces.

    A piece has the colour of its role where its name is one (`palette.PIECES`); too narrow for its name, it is
    named below.  Without an `alt` its words are the bars' numbers.
    """
    rows = {label: value if isinstance(value, dict) else {"": value} for label, value in rows.items()}
    pieces = list(dict.fromkeys(piece for row in rows.values() for piece in row))
    letters = min(40, int(0.45 * 72 * width() / (0.62 * LABEL)))  # labels leave room for the bars
    labels = drawable(short(label, letters) for label in rows)
    ends = {label: numbers.format(sum(row.values())) for label, row in rows.items()}
    # In points: what the axes have beside the labels, and what is left of it for the longest bar beside its number.
    room = 72 * width() - 0.62 * LABEL * max(map(len, labels)) - 30
    longest = max(sum(row.values()) for row in rows.values()) or 1
    point = longest / (room - 0.66 * SMALL * max(map(len, ends.values())) - 14)
    figure = sheet(width(), 0.9 + 0.36 * len(rows))
    axes = figure.add_subplot()
    written = {""}
    for y, (label, row) in enumerate(rows.items()):
        left = 0
        for piece, value in row.items():
            plain = len(pieces) == 1 and piece not in palette.PIECES
            shade = palette.BAR if plain else palette.piece(piece, pieces.index(piece))
            axes.barh(y, value, left=left, color=shade, edgecolor=palette.PAPER, linewidth=0.8, height=0.7)
            if piece and value > point * 0.66 * SMALL * (len(piece) + 1):
                ink = palette.ink_on(shade)
                axes.text(left + value / 2, y, piece, ha="center", va="center", fontsize=SMALL, color=ink)
                written.add(piece)
            left += value
        axes.text(left + 5 * point, y, ends[label], va="center", fontsize=SMALL)
    for piece in (piece for piece in pieces if piece not in written):
        axes.barh(0, 0, color=palette.piece(piece, pieces.index(piece)), label=piece)
    if not written.issuperset(pieces):
        figure.legend(loc="outside lower left", ncols=6)
    axes.set_yticks(range(len(rows)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, room * point), xlabel=unit)
    axes.xaxis.set_major_formatter("{x:,.12g}")
    axes.locator_params(axis="x", nbins=max(1, min(5, int(room / (0.66 * LABEL * len(f"{longest:,.12g}") + 12)))))
    axes.invert_yaxis()
    heading(figure, title)
    return Picture(figure, alt or f"Bars of {unit}: {'; '.join(_bar_in_words(*bar, numbers) for bar in rows.items())}.")


def _bar_in_words(label: str, row: dict[str, float], numbers: str) -> str:
    pieces = ", ".join(f"{piece} {numbers.format(value)}" for piece, value in row.items())
    return f"{label}: {numbers.format(sum(row.values()))}" + (f" ({pieces})" if len(row) > 1 else "")


@own_settings()
def curves(
    x: list,
    lines: dict,
    *,
    title: str,
    alt: str = "",
    x_label: str,
    y_label: str,
    log: bool = True,
    spread: dict | None = None,
    apart: float = 0,
) -> Picture:
    """Lines over common x, each with its own marker and its name at its end.  lines {name: numbers}.

    spread {name: (lowest, highest)}: two lists of numbers, drawn as a bar through each point.  Lines that
    would hide each other stand `apart` on x: on a log axis a share of the way from one power of two to the next.
    Without an `alt` its words are all these numbers.
    """
    figure = sheet(6.5, 3.4)
    axes = figure.add_subplot()
    names = []
    for number, ((name, y), marker, shade) in enumerate(zip(lines.items(), "os^D", palette.LINES, strict=False)):
        aside = apart * (number - (len(lines) - 1) / 2)
        at = [value * 2**aside if log else value + aside for value in x]
        axes.plot(at, y, marker=marker, color=shade, label=name)
        if spread:
            axes.vlines(at, *spread[name], color=shade, linewidth=1.5)
        look = {"textcoords": "offset points", "va": "center", "fontsize": LABEL, "color": shade}
        names.append(axes.annotate(name, (at[-1], y[-1]), (8, 0), **look))
    axes.set_ylim(bottom=0)
    if log:
        axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.set(xlabel=x_label, ylabel=y_label)
    heading(figure, title)
    figure.draw_without_rendering()  # where the names stand
    _part(names, figure.dpi / 72)
    numbers = "; ".join(f"{name} {', '.join(f'{value:.2g}' for value in y)}" for name, y in lines.items())
    where = ", ".join(f"{value:g}" for value in x)
    return Picture(figure, alt or f"Lines of the {y_label}. {numbers}. These are at {where} ({x_label}).")


def _part(names: list[Annotation], dots: float) -> None:
    """Push names apart that would touch, upwards from the lowest; dots to a point."""
    below = float("-inf")
    for name in sorted(names, key=lambda name: name.get_window_extent().y0):
        box = name.get_window_extent()
        up = max(0.0, below - box.y0)
        name.xyann = (8, up / dots)
        below = box.y1 + up
