"""All heads of a layer at once, one of them large, one row of it as bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ipywidgets import Checkbox, IntSlider, SelectionSlider, Widget

from mha import figures
from mha.checks import check_counts, layer_weights
from mha.heads import SPECIAL
from mha.labels import printable
from mha.views import svg
from mha.views.row import most
from mha.views.view import View, numbered


@dataclass
class Shown:
    """What is shown: all heads (h, T, S), the large table (T, S) with its tokens, and the row of the query in it."""

    maps: np.ndarray
    large: np.ndarray
    rows: list[str]
    columns: list[str]
    row: int
    title: str
    said: str  # of which token the row is, and what is left of it
    head: int | None  # the one that is large, if it is one
    signed: bool
    lines: bool
    layer: str  # "" if there is only one
    hidden: bool  # are special tokens?


class Heads(View):
    """The heads of one layer or several.  `mha.explore.heads` says what it takes."""

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[str],
        key_tokens: Sequence[str] | None = None,
        layer_names: Sequence[str] | None = None,
        batch: int | None = None,
    ) -> None:
        self.layers = [layer_weights(layer, batch) for layer in (weights if _is_per_layer(weights) else [weights])]
        self.tokens = printable(tokens)
        self.keys = self.tokens if key_tokens is None else printable(key_tokens)
        for layer in self.layers:
            check_counts(layer, self.tokens, self.keys)
        count = len(self.layers)
        self.names = [f"layer {number}" for number in range(count)] if layer_names is None else list(layer_names)
        if len(self.names) != count:
            raise ValueError(f"layer_names has {len(self.names)} names for {count} layers: give one for each")
        super().__init__("heads", self._controls())

    def _controls(self) -> dict[str, Widget]:
        last = min(len(layer) for layer in self.layers) - 1
        controls = {
            "layer": SelectionSlider(options=numbered(self.names), description="Layer"),
            "head": IntSlider(min=0, max=last, description="Head"),
            "query": SelectionSlider(options=numbered(self.tokens), description="Query"),
            "show": SelectionSlider(options=["one head", "average", "maximum", "difference"], description="Show"),
            "other": IntSlider(min=0, max=last, value=min(1, last), description="Minus head"),
            "lines": Checkbox(description="As lines", indent=False),
            "hide": Checkbox(description="Hide special tokens", indent=False),
        }
        controls["layer"].layout.display = "none" if len(self.layers) == 1 else ""
        controls["hide"].layout.display = "" if SPECIAL & {*self.tokens, *self.keys} else "none"

        def enable(_change: object = None) -> None:  # a control that would do nothing is grey
            show = controls["show"].value
            controls["head"].disabled = show in ("average", "maximum")
            controls["other"].disabled, controls["lines"].disabled = show != "difference", show == "difference"

        controls["show"].observe(enable, names="value")
        enable()
        return controls

    def _state(self, layer: int, head: int, query: int, show: str, other: int, lines: bool, hide: bool) -> Shown:
        t = [i for i, token in enumerate(self.tokens) if not (hide and token in SPECIAL)]
        s = [i for i, token in enumerate(self.keys) if not (hide and token in SPECIAL)]
        if not t or not s:
            raise ValueError("every token here is special: untick “Hide special tokens”")
        maps = self.layers[layer][:, t][:, :, s]
        row = t.index(query) if query in t else 0
        said = f"row of {self.tokens[t[row]]}" + ("" if query in t else f" ({self.tokens[query]} is hidden)")
        if hide:
            sums = maps.sum(axis=-1, keepdims=True)
            if show == "one head":
                said += f", {sums[head, row, 0]:.2f} of it left"
            maps = np.divide(maps, sums, out=np.zeros_like(maps), where=sums > 0)
        large, title = {
            "one head": lambda: (maps[head], f"head {head}"),
            "average": lambda: (maps.mean(axis=0), "average of all heads"),
            "maximum": lambda: (maps.max(axis=0), "maximum of all heads"),
            "difference": lambda: (maps[head] - maps[other], f"head {head} minus head {other}"),
        }[show]()
        name = self.names[layer] if len(self.layers) > 1 else ""
        title = (f"{name}, " if name else "") + title
        title += ", special tokens hidden and rows renormalised" if hide else ""
        rows, columns, signed = [self.tokens[i] for i in t], [self.keys[i] for i in s], show == "difference"
        chosen = head if show in ("one head", "difference") else None
        return Shown(maps, large, rows, columns, row, title, said, chosen, signed, lines and not signed, name, hide)

    def _picture(self, state: Shown) -> svg.Drawing:
        parts, y = svg.heads_panel(state.maps, state.head)
        what = 10, y + 30, state.large, state.rows, state.columns, state.row
        panel, end = svg.lines_panel(*what) if state.lines else svg.map_panel(*what, state.signed)
        bars, bars_end = svg.bars_panel(560, y + 64, state.large[state.row], state.columns, state.said, state.signed)
        parts += [svg.text(10, y + 20, state.title, 15), *svg.legend(720, y + 9, state.signed), *panel, *bars]
        words = f"{state.title}; {state.said}: {most(state.large[state.row], state.columns)}"
        return parts, 900, max(end, bars_end) + 10, words

    def _table(self, state: Shown) -> str:
        width = max(6, *map(len, state.rows), *map(len, state.columns)) + 1
        lines = [f"{state.title}; rows are queries, columns are keys"]
        lines.append(" " * width + "".join(f"{key:>{width}}" for key in state.columns))
        for token, line in zip(state.rows, state.large, strict=True):
            lines.append(f"{token:<{width}}" + "".join(f"{weight:{width}.2f}" for weight in line))
        return "\n".join(lines)

    def _still(self, state: Shown) -> figures.Picture:
        maps, rows, columns = state.maps, state.rows, state.columns
        hidden = "; special tokens hidden" if state.hidden else ""
        habits = "; ".join(f"head {head} {_habit(weights, rows, columns)}" for head, weights in enumerate(maps))
        alt = f"{len(maps)} heatmaps of {len(rows)} by {len(columns)}{hidden}. Largest mean weight: {habits}."
        place = f"{state.layer}: " if state.layer else ""
        title = f"{place}{'both' if len(maps) == 2 else f'all {len(maps)}'} heads at once".capitalize()
        return figures.head_grid(torch.tensor(maps), rows, columns, title=title, alt=alt)


def _habit(weights: np.ndarray, rows: list[str], columns: list[str]) -> str:
    """Where most of one head's weight lies on average: on one key, or on one place seen from the query."""
    labels = [f"on “{key}”" if columns.count(key) == 1 else f"on “{key}” (key {s})" for s, key in enumerate(columns)]
    shares = dict(zip(labels, weights.mean(axis=0), strict=True))
    if rows == columns:
        places = {"one back": -1, "itself": 0, "one on": 1}
        shares |= {place: np.diagonal(weights, offset).mean() for place, offset in places.items() if len(rows) > 1}
    best = max(shares, key=lambda name: round(float(shares[name]), 2))  # rounded: of equals, the first on any machine
    return f"{best} {shares[best]:.2f}"


def _is_per_layer(weights: Any) -> bool:
    """Whether this is a list of layers, and not one layer written as nested lists."""
    if isinstance(weights, (list, tuple)) and not weights:
        raise ValueError("weights are an empty list, wanted one table (h, T, S) for each layer: was the model run?")
    return isinstance(weights, (list, tuple)) and not isinstance(weights[0], (list, tuple))
