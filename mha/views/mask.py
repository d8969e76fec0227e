"""What a mask leaves of one row."""

from collections.abc import Sequence
from typing import Any

import torch
from ipywidgets import Checkbox, SelectionSlider

from mha.attention import scaled_dot_product_attention
from mha.labels import SENTENCE
from mha.views.row import Row, RowView
from mha.views.view import numbered


class Mask(RowView):
    """One row of attention while you hide keys: what is left stays a distribution; hide all, and it is zero."""

    def __init__(self, q: Any = None, k: Any = None, tokens: Sequence[str] = SENTENCE) -> None:
        draws = torch.Generator().manual_seed(0)
        if (q is None) != (k is None):
            raise ValueError("mask() takes both q and k, or neither: their scores make the row")
        q, k = (torch.randn(len(tokens), 4, generator=draws) if x is None else torch.as_tensor(x).cpu() for x in (q, k))
        if q.shape != k.shape or q.shape[:-1] != (len(tokens),):
            shapes = f"q has shape {tuple(q.shape)} and k {tuple(k.shape)}"
            raise ValueError(f"{shapes}, wanted (T, d_k) with T = {len(tokens)}, one row for each token")
        self.q, self.k, self.tokens = q.detach().float(), k.detach().float(), tokens
        start = min(2, len(tokens) - 1)
        controls = {"query": SelectionSlider(options=numbered(tokens), value=start, description="Query")}
        controls |= {f"hide{s}": Checkbox(description=f"hide {t}", indent=False) for s, t in enumerate(tokens)}
        super().__init__("mask", controls)

    def _state(self, query: int, **hidden: bool) -> Row:
        tokens, seen = self.tokens, ~torch.tensor(list(hidden.values()))
        row = scaled_dot_product_attention(self.q[query : query + 1], self.k, self.k, seen[None])[1][0].numpy()
        names = [token if sees else f"{token} (hidden)" for token, sees in zip(tokens, seen.tolist(), strict=True)]
        sums = f"the row sums to {row.sum():.2f}" if seen.any() else "nothing to see, the row is zero"
        return Row(row, names, f"{tokens[query]} sees {int(seen.sum())} of {len(tokens)} keys: {sums}")
