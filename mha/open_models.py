"""Heads, widths and caches of well-known open models, 2017 to 2025, from data/models.  Notebook 10."""

import csv
from dataclasses import dataclass, fields
from typing import Any

from mha.accounting import cache_bytes, latent_cache_bytes
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

    def cache_bytes(self, T: int, B: int = 1, bytes_per_number: int = 2) -> int:
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


def read_models() -> list[OpenModel]:
    """All models, oldest first."""
    with open(data_path("models/models.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = {field.name for field in fields(OpenModel) if field.type is int}
    read: list[dict[str, Any]]
    read = [{key: int(text or 0) if key in whole else text for key, text in row.items()} for row in rows]
    return [OpenModel(**row) for row in read]
