"""Heads, widths and caches of well-known open models, 2017 to 2025, from data/models.  Notebook 10."""

import csv
from dataclasses import dataclass, fields

from matplotlib.figure import Figure

from mha.accounting import cache_bytes, latent_cache_bytes
from mha.figures import DIFFERENCES, FAINT, INK, WEIGHTS, WIDTH, Picture, own_settings
from mha.runtime import data_path


@dataclass(frozen=True)
class OpenModel:
    """One model: a row of data/models/models.csv.  Numbers that do not apply are 0.

    latent: numbers that a layer keeps of a token instead of keys and values; window: how many tokens the
    window_layers look back, the other layers looking back to the start; context: the longest text it was made for.
    """

    model: str
    date: str  # year and month of the source
    kind: str  # encoder, decoder or encoder-decoder
    layers: int
    d_model: int
    heads: int
    d_k: int
    kv_heads: int
    latent: int
    window: int
    window_layers: int
    context: int
    source: str

    def cache_bytes(self, T, B=1, bytes_per_number=2):
        """Bytes that it keeps of T tokens in each of B texts: what its layers still look at, in half precision.

        Raises ValueError for an encoder, which does not write token after token.
        """
        if self.kind == "encoder":
            raise ValueError(f"{self.model} is an encoder: it does not write, and keeps no keys and values")
        sizes = {"B": B, "bytes_per_number": bytes_per_number}
        if self.latent:
            return latent_cache_bytes(self.layers, self.latent, T, **sizes)
        full, short = self.layers - self.window_layers, self.window_layers
        far = cache_bytes(full, self.kv_heads, self.d_k, T, **sizes)
        return far + cache_bytes(short, self.kv_heads, self.d_k, min(T, self.window), **sizes)


def read_models():
    """All models, oldest first."""
    with open(data_path("models/models.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = {field.name for field in fields(OpenModel) if field.type is int}
    return [OpenModel(**{key: int(text or 0) if key in whole else text for key, text in row.items()}) for row in rows]


@own_settings()
def draw(models, *, title, alt):
    """Models from top to bottom, with their heads of queries, and of keys and values; d_k; and h·d_k over d."""
    figure = Figure(figsize=(WIDTH, 1.1 + 0.235 * len(models)), layout="constrained")
    heads, width, ratio = figure.subplots(1, 3, sharey=True, width_ratios=[2, 1.1, 1.1])
    for y, m in enumerate(models):
        heads.plot([m.kv_heads, m.heads], [y, y], color=FAINT, zorder=1)
        if m.latent:
            heads.text(m.heads / 1.25, y, "one vector", ha="right", va="center", fontsize=7, color=INK)
    places, looks = range(len(models)), {"s": 30, "zorder": 2}
    heads.scatter([m.heads for m in models], places, s=60, color=WEIGHTS[3], zorder=2, label="query heads h")
    shared = [(m.kv_heads, y) for y, m in enumerate(models) if not m.latent]
    heads.scatter(*zip(*shared, strict=True), s=16, marker="s", color=INK, zorder=3, label="key and value heads")
    heads.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=7, frameon=False, handletextpad=0.1)
    width.scatter([m.d_k for m in models], places, color=WEIGHTS[4], **looks)
    ratios = [m.heads * m.d_k / m.d_model for m in models]
    ratio.axvline(1, color=FAINT, linewidth=1)
    ratio.scatter(ratios, places, color=[WEIGHTS[4] if r == 1 else DIFFERENCES[1] for r in ratios], **looks)
    for y, r in enumerate(ratios):
        if r != 1:
            ratio.annotate(f"{r:.2g}", (r, y), (6, 0), textcoords="offset points", va="center", fontsize=7)
    ticks = {heads: (1, 2, 4, 8, 16, 32, 64, 128), width: (64, 128, 256), ratio: (1, 2, 4, 8, 16)}
    names = {heads: "heads", width: "d_k", ratio: "h · d_k / d"}
    for axes, marks in ticks.items():
        axes.set_xscale("log", base=2)
        axes.set_xticks(marks, [str(mark) for mark in marks], fontsize=8)
        axes.set_xlim(marks[0] / 1.5, marks[-1] * 1.6)
        axes.minorticks_off()
        axes.set_xlabel(names[axes], fontsize=9)
        axes.grid(axis="y", color="#eeeeee")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    heads.set_ylim(len(models) - 0.4, -0.6)
    heads.set_yticks(places, [f"{m.model}  {m.date[:4]}" for m in models], fontsize=8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return Picture(figure, alt)
