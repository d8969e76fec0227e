"""A small table of words and numbers, for lessons instead of loops of print."""

from collections.abc import Iterable, Sequence
from html import escape


class Table:
    """Rows of text: a notebook shows them as HTML, and everything else as aligned lines."""

    def __init__(self, rows: list[list[str]], header: list[str]) -> None:
        self.rows, self.header = rows, header

    def __repr__(self) -> str:
        rows = [self.header, *self.rows] if self.header else self.rows
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ([f"{cell:>{wide}}" for cell, wide in zip(row, widths, strict=True)] for row in rows)
        return "\n".join("  ".join([row[0].ljust(widths[0]), *line[1:]]) for row, line in zip(rows, lines, strict=True))

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table(rows: Iterable | dict, header: Sequence[str] = (), *, numbers: str = "{:.2f}") -> Table:
    """A table of words and numbers.  rows: lists of cells, or {label: cell, or list of cells}; header: their names.

    `numbers` is the format of floats; whole numbers get commas, all else is written as it is.  0-d tensors count as
    their number.  Raises ValueError for rows of different lengths.
    """
    if isinstance(rows, dict):
        rows = [[label, *(cells if isinstance(cells, (list, tuple)) else [cells])] for label, cells in rows.items()]
    forms = {float: numbers, int: "{:,}"}
    plain = [[cell.item() if hasattr(cell, "item") else cell for cell in row] for row in rows]
    written = [[forms.get(type(cell), "{}").format(cell) for cell in row] for row in plain]
    lengths = {len(row) for row in [*written, *([header] if header else [])]}
    if len(lengths) != 1:
        raise ValueError(f"rows and header have {sorted(lengths)} cells: give each as many, and at least one row")
    return Table(written, list(map(str, header)))
