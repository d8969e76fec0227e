"""How d_k sharpens a row, and √d_k keeps it even."""

from dataclasses import dataclass

import numpy as np
import torch
from ipywidgets import Checkbox, SelectionSlider

from mha import figures
from mha.views.row import Row, RowView

WAYS = ("not divided", "divided by √d_k")


@dataclass
class Scaled(Row):
    """The row that is chosen, and both to compare: (2, 8), not divided and divided."""

    d_k: int
    both: np.ndarray


class SoftmaxScale(RowView):
    """One query and eight keys of random numbers.  Its still shows both rows: the tick is what there is to see."""

    def __init__(self) -> None:
        draws = torch.Generator().manual_seed(2)
        self.q, self.k = torch.randn(512, generator=draws), torch.randn(8, 512, generator=draws)
        controls = {
            "d_k": SelectionSlider(options=[4, 8, 16, 32, 64, 128, 256, 512], value=64, description="d_k"),
            "scaled": Checkbox(description="Divide by √d_k", indent=False),
        }
        super().__init__("softmax_scale", controls)

    def _state(self, d_k: int, scaled: bool) -> Scaled:
        scores = self.k[:, :d_k] @ self.q[:d_k]
        both = torch.stack([scores, scores / d_k**0.5]).softmax(dim=-1).numpy()
        row = both[int(scaled)]
        title = f"d_k = {d_k}, {WAYS[int(scaled)]}: the largest weight is {row.max():.2f}"
        return Scaled(row, [f"key {s}" for s in range(8)], title, d_k, both)

    def _still(self, state: Scaled) -> figures.Picture:  # type: ignore[override]  # its states are all Scaled
        plain, divided = state.both.max(axis=1)
        shares = (", ".join(f"{share:.2f}" for share in row) for row in state.both)
        told = "; ".join(f"{way} {row}" for way, row in zip(WAYS, shares, strict=True))
        return figures.heatmap(
            torch.tensor(state.both),
            WAYS,
            state.names,
            row_label="",
            column_label="",
            title=f"d_k = {state.d_k}: not divided, one key takes {plain:.2f}; divided by √d_k, {divided:.2f}",
            alt=f"Two rows of weights on keys 0 to 7: {told}.",
        )
