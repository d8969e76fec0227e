"""What the views of one row of weights share: its bars."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mha import figures
from mha.views import svg
from mha.views.view import View


@dataclass
class Row:
    """One row of weights, a name for each of them, and a title."""

    weights: np.ndarray
    names: list[str]
    title: str


class RowView(View):
    """One row of weights as bars.  The state is a `Row`."""

    def _picture(self, state: Row) -> svg.Drawing:
        parts, end = svg.bars_panel(10, 10, state.weights, state.names, state.title)
        return parts, 560, end + 10, f"{state.title}; {most(state.weights, state.names)}"

    def _table(self, state: Row) -> str:
        rows = zip(state.names, state.weights, strict=True)
        return "\n".join([state.title, *(f"{name:16} {weight:.3f}" for name, weight in rows)])

    def _still(self, state: Row) -> figures.Picture:
        names = state.names
        if len(set(names)) < len(names):
            names = [f"{s} {name}" for s, name in enumerate(names)]  # bars need keys
        shares = dict(zip(names, state.weights.tolist(), strict=True))
        alt = "Bars: " + ", ".join(f"{name} {share:.2f}" for name, share in shares.items()) + "."
        return figures.bars(shares, unit="weight", numbers="{:.2f}", title=state.title, alt=alt)


def most(row: np.ndarray, names: Sequence[str]) -> str:
    """What a row gives to whom."""
    if not row.any():
        return "nothing to anybody, it is zero"
    best = int(np.abs(row).argmax())
    return f"most to {names[best]}, {row[best]:.2f}"
