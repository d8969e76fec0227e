"""Models with 1 to 32 heads, measured alike: what `data/sweep` holds, how it was measured, and how to read it.

Notebook 08.  A probe is a model with texts: it says how many of them are right, and what the loss is.
"""

import csv
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from mha.attention import MultiHeadAttention
from mha.runtime import data_path
from mha.tasks import dates, lookback
from mha.transformer import Transformer

HEADS = (1, 2, 4, 8, 16, 32)
TASKS = {"lookback": {"d_model": 32, "tokens": 16}, "dates": {"d_model": 64, "tokens": 40}}


def attentions(model: nn.Module) -> list[MultiHeadAttention]:
    """A model's attention layers; of a Transformer with one layer: encoder, decoder, cross-attention."""
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


class DateProbe:
    """A date translator and pairs (string, ISO date).  Each symbol is predicted from the true ones before it.

    A date is right where all ten are: so it is exactly where greedy decoding gets it right, and takes one run.
    """

    def __init__(self, model: Transformer, examples: list[tuple[str, str]]):
        self.model, device = model, next(model.parameters()).device
        self.source = dates.encode([text for text, _ in examples]).to(device)
        self.target = dates.encode_dates([iso for _, iso in examples]).to(device)

    def run(self, need_weights: bool = False) -> tuple[Tensor, Any]:
        """Scores (B, 10, symbols), and the maps of all layers if asked for."""
        return self.model(self.source, dates.inputs(self.target), need_weights=need_weights)

    def losses(self) -> Tensor:
        """Each date's own loss (B,)."""
        return F.cross_entropy(self.run()[0].mT, self.target, reduction="none").mean(dim=1)

    @torch.no_grad()
    def loss(self) -> float:
        return self.losses().mean().item()

    @torch.no_grad()
    def right(self) -> float:
        return (self.run()[0].argmax(dim=-1) == self.target).all(dim=1).float().mean().item()


class LookbackProbe:
    """A `Lookback` and texts (B, T); what counts is a position with all K outputs right."""

    def __init__(self, model: lookback.Lookback, tokens: Tensor):
        self.model, self.tokens = model, tokens.to(next(model.parameters()).device)

    def run(self, need_weights: bool = False) -> tuple[Tensor, Any]:
        """Scores (B, T − K, K, V), and the maps if asked for."""
        return self.model(self.tokens, need_weights=need_weights)

    def losses(self) -> Tensor:
        """Each text's own loss (B,)."""
        answers = lookback.wanted(self.tokens, self.model.K)  # (B, T − K, K)
        losses = F.cross_entropy(self.run()[0].flatten(0, 2), answers.flatten(), reduction="none")
        return losses.view(len(answers), -1).mean(dim=1)

    @torch.no_grad()
    def loss(self) -> float:
        return self.losses().mean().item()

    @torch.no_grad()
    def right(self) -> float:
        return lookback.accuracy(self.model, self.tokens)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of data/sweep/<name>.csv, numbers as numbers: a list of dicts."""
    with open(data_path(f"sweep/{name}.csv"), encoding="utf-8") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> int | float | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


class SenseProbe:
    """The English model and sentences, each with a word that has two senses: do equal senses have like vectors?

    senses: rows of `sweep/senses.csv`.  A triplet is two sentences in which a word has one sense and a third in which
    it has the other; right if the word's vectors (cosine) are more alike in the first two than in first and third.
    """

    def __init__(self, encoder: nn.Module, tokenizer: Callable, senses: list[dict[str, Any]]):
        self.encoder, self.words = encoder, list(dict.fromkeys(row["word"] for row in senses))
        self.ids, self.lengths, pieces = tokenizer([row["text"] for row in senses])
        self.ids = self.ids.to(next(encoder.parameters()).device)
        self.positions = torch.tensor([tokens.index(row["word"]) for tokens, row in zip(pieces, senses, strict=True)])
        word = torch.tensor([self.words.index(row["word"]) for row in senses])
        same_word = word[:, None] == word
        same_sense = same_word & torch.tensor([[a["sense"] == b["sense"] for a in senses] for b in senses])
        self.word, self.pairs = word, same_sense & ~torch.eye(len(word), dtype=torch.bool)
        self.others = same_word & ~same_sense
        with torch.no_grad():
            vectors = self.vectors()
            tables = [table.to(vectors.device).float() for table in (self.pairs, self.others)]
            means = [F.normalize(table @ vectors, dim=-1) for table in tables]
        self.means = torch.stack(means, dim=1)  # (B, 2, d): of the other sentences with its sense, of the other sense

    def vectors(self) -> Tensor:
        """The word's vector in each sentence, of length 1: (B, 384)."""
        hidden, _ = self.encoder(self.ids, self.lengths)
        return F.normalize(hidden[torch.arange(len(hidden)), self.positions], dim=-1)

    def losses(self) -> Tensor:
        """Each sentence's own loss (B,): is its word's vector more like the mean of its sense, or of the other?

        Both means are those of the model as it was when the probe was made.
        """
        alike = torch.einsum("bd,bkd->bk", self.vectors(), self.means) / 0.1
        return F.cross_entropy(alike, torch.zeros(len(alike), dtype=torch.long, device=alike.device), reduction="none")

    @torch.no_grad()
    def loss(self) -> float:
        return self.losses().mean().item()

    @torch.no_grad()
    def by_word(self) -> Tensor:
        """The share of each word's triplets that are right: (words,)."""
        vectors = self.vectors().cpu()
        alike = vectors @ vectors.mT
        right = alike[:, :, None] > alike[:, None, :]  # (first, second, third)
        triplets = self.pairs[:, :, None] & self.others[:, None, :]
        counts = [(right & triplets).sum(dim=(1, 2)), triplets.sum(dim=(1, 2))]
        hit, tried = (torch.zeros(len(self.words)).index_add(0, self.word, count.float()) for count in counts)
        return hit / tried

    def right(self) -> float:
        return self.by_word().mean().item()


def subsets() -> Tensor:
    """How many of 300 validation dates the model of lesson 07 gets right without each set of its heads: (4096,).

    Number n has head i off where bit i of n is 1; heads 0 to 3 are the encoder's, then decoder's, then cross.
    """
    return load_file(data_path("sweep/subsets.safetensors"))["right"].int()


def set_off(number: int) -> list[tuple[int, int]]:
    """The heads that are off in set `number` of `subsets`: a list of (layer, head)."""
    return [divmod(head, 4) for head in range(12) if number >> head & 1]


def smallest_set(target: float) -> tuple[int, int, list[tuple[int, int]]]:
    """Of the sets with at least this share right the one with the fewest heads on, of equals the best.

    Returns how many are on, how many dates of 300 are right, and the heads that are off.
    """
    right = subsets().tolist()
    good = [(12 - number.bit_count(), -count, number) for number, count in enumerate(right) if count >= target * 300]
    on, count, number = min(good)
    return on, -count, set_off(number)


def by_heads(task: str, column: str, table: list[dict[str, Any]] | None = None) -> dict[int, list[float]]:
    """One column of models.csv for one task: {h: its values, one for each seed, rising}."""
    found: dict[int, list[float]] = {h: [] for h in HEADS}
    for row in rows("models") if table is None else table:
        if row["task"] == task:
            found[row["heads"]].append(row[column])
    return {h: sorted(values) for h, values in found.items() if values}


def stored_curves(task: str, num_heads: int) -> dict[str, Tensor]:
    """What is right with 0, 1, 2 … heads off, for each order: {order: (models, heads + 1)}; draws are averaged."""
    found: dict[str, dict[int, list]] = {}
    for row in rows("curves"):
        if (row["task"], row["heads"]) == (task, num_heads):
            values = [float(value) for value in str(row["right"]).split()]
            found.setdefault(row["order"], {}).setdefault(row["seed"], []).append(values)
    return {order: torch.tensor([*models.values()]).mean(dim=1) for order, models in found.items()}


def may_go(curves: Tensor, points: float = 0.01) -> list[int]:
    """How many heads of each model (models, heads + 1) can go, and still no more than `points` are lost: a list."""
    kept = curves >= curves[:, :1] - points - 1e-6
    return [int(row.nonzero().max()) for row in kept]


def english_curves() -> tuple[list[int], dict[str, Tensor]]:
    """What is right of the triplets of each word: the numbers of heads off, and {order: (draws, counts, words)}."""
    found: dict[str, dict[int, dict[int, list]]] = {}
    for row in rows("english"):
        shares = [value for name, value in row.items() if name not in ("order", "draw", "off")]
        found.setdefault(row["order"], {}).setdefault(row["draw"], {})[row["off"]] = shares
    counts = sorted(found["greedy"][0])
    tables = {order: [[draw[off] for off in counts] for draw in draws.values()] for order, draws in found.items()}
    return counts, {order: torch.tensor(table, dtype=torch.float64) for order, table in tables.items()}


def table_bytes(task: str, num_heads: int) -> int:
    """Bytes of all attention weights of one text at its longest, float32: what grows with h."""
    T = TASKS[task]["tokens"]
    cells = T * T if task == "lookback" else T * T + 10 * 10 + 10 * T  # encoder, decoder, cross-attention
    return 4 * num_heads * cells


def affordable(
    task: str, quality: float, most_bytes: int, most_time: float, times: dict[int, float]
) -> dict[int, tuple[float, int, float, list[str]]]:
    """Each h with what it has and what it lacks for a budget: {h: (worst seed, bytes, time, what it lacks)}.

    times {h: milliseconds} are measured; most_time is in multiples of the time of h = 1.
    """
    found = {}
    for h, seeds in by_heads(task, "validation").items():
        size, slower = table_bytes(task, h), times[h] / times[1]
        lacks = [
            name
            for name, short in (
                ("quality", seeds[0] < quality),
                ("memory", size > most_bytes),
                ("time", slower > most_time),
            )
            if short
        ]
        found[h] = seeds[0], size, slower, lacks
    return found
