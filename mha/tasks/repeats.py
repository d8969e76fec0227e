"""What comes next in a text that repeats itself: a task that takes two layers of attention.  Notebook 09.

A text begins with a block of different tokens and goes on repeating it.  How long the block is, its **period**, is
drawn anew for each text, so that the position alone does not tell what to copy.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha.attention import MultiHeadAttention, causal_mask, scaled_dot_product_attention

LENGTH, VOCABULARY, PERIODS = 24, 16, (4, 12)
SETTINGS = {"steps": 400, "lr": 5e-3}


def batch(seed: int, size: int = 64, periods: tuple[int, int] = PERIODS) -> Tensor:
    """`size` texts (B, T), each with a period from the first to the last of `periods`: the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    first, last = periods
    period = torch.randint(first, last + 1, (size, 1), generator=generator)
    blocks = torch.rand(size, VOCABULARY, generator=generator).argsort(dim=1)  # each row all tokens, in some order
    return blocks.gather(1, torch.arange(LENGTH) % period)


def letters(tokens: Tensor) -> list[str]:
    """One text (T,) as letters, to be read."""
    return [chr(ord("a") + symbol) for symbol in tokens.tolist()]


def period(tokens: Tensor) -> Tensor:
    """The period of each text (B, T): how far from its first token to the next copy of it, (B,)."""
    return (tokens[:, 1:] == tokens[:, :1]).int().argmax(dim=1) + 1


def asked(tokens: Tensor) -> Tensor:
    """Which positions can know their next token: those that hold a copy, bool (B, T − 1)."""
    return torch.arange(tokens.size(1) - 1, device=tokens.device) >= period(tokens)[:, None]


class Repeats(nn.Module):
    """Embedding and positions, layers of attention, each with its residual, and a linear read-out: nothing else.

    tokens (B, T) → scores (B, T, V) for the next token of each one.  Without norms and feed-forward blocks the
    scores are a sum: of what the token itself says and of what each head says (`written`).
    """

    def __init__(self, layers: int = 2, num_heads: int = 2, d_model: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.positions = nn.Embedding(LENGTH, d_model)
        self.layers = nn.ModuleList(MultiHeadAttention(d_model, num_heads) for _ in range(layers))
        self.read_out = nn.Linear(d_model, VOCABULARY)

    def enter(self, tokens: Tensor) -> Tensor:
        """What the tokens enter with: embedding and position, (B, T, d)."""
        return self.embedding(tokens) + self.positions.weight[: tokens.size(1)]

    def forward(self, tokens: Tensor, need_weights: bool = True) -> tuple[Tensor, list[Tensor | None]]:
        """Always two things: scores, and the weights (B, h, T, T) of each layer, None with need_weights=False."""
        x, maps = self.enter(tokens), []
        mask = causal_mask(tokens.size(1), device=x.device)
        for layer in self.layers:
            update, weights = layer(x, mask, need_weights=need_weights)
            x = x + update
            maps.append(weights)
        return self.read_out(x), maps


def loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Cross-entropy of the next token, at the positions that can know it."""
    positions = asked(tokens)
    return F.cross_entropy(model(tokens, need_weights=False)[0][:, :-1][positions], tokens[:, 1:][positions])


@torch.no_grad()
def accuracy(model: Callable, tokens: Tensor) -> float:
    """The share of positions that can know their next token and name it."""
    positions = asked(tokens)
    scores, _ = model(tokens, need_weights=False)
    return (scores[:, :-1].argmax(dim=-1) == tokens[:, 1:])[positions].float().mean().item()


class Patched:
    """A two-layer `Repeats` whose second layer sees something else of one first-layer head, on some of the paths.

    What this head wrote is, on the paths named by letters, q, k and v into the second layer and d past it, replaced:
    by nothing ("zero"), by what it wrote in the text before in the batch ("another text"), or by what it wrote at the
    neighbouring position of its own text ("shifted 1" takes each from the position before it, "shifted -1" from the
    position after).  Called like the model.  Source: Elhage et al. 2021 (composition through queries, keys, values).
    """

    def __init__(self, model: Repeats, head: int, paths: str, way: str = "zero"):
        self.model, self.head, self.paths, self.way = model, head, paths, way

    def __call__(self, tokens: Tensor, need_weights: bool = True) -> tuple[Tensor, list[Tensor | None]]:
        first, second = cast(list[MultiHeadAttention], list(self.model.layers))
        x = self.model.enter(tokens)
        mask = causal_mask(tokens.size(1), device=x.device)
        each, maps = said(first, x, mask)  # (B, h, T, d)
        whole = x + each.sum(dim=1)
        changed = whole - each[:, self.head] + replaced(each[:, self.head], self.way)
        q, k, v = (second.project(changed if path in self.paths else whole)[n] for n, path in enumerate("qkv"))
        heads, weights = scaled_dot_product_attention(q, k, v, mask)
        scores = self.model.read_out((changed if "d" in self.paths else whole) + second.merge(heads))
        return scores, [maps, weights] if need_weights else [None, None]


def said(attention: MultiHeadAttention, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What each head of a layer writes, (B, h, T, d), which sums up to its output, and the weights (B, h, T, T)."""
    q, k, v = attention.project(x)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    blocks = attention.proj.weight.unflatten(1, (attention.num_heads, -1))  # (d, h, d_k): the columns of each head
    return torch.einsum("bhtk,dhk->bhtd", heads, blocks), weights


def replaced(written: Tensor, way: str) -> Tensor:
    """What one head wrote, (B, T, d), exchanged: see `Patched`."""
    if way == "zero":
        return torch.zeros_like(written)
    if way == "another text":
        return written.roll(1, dims=0)
    return written.roll(int(way.removeprefix("shifted ")), dims=1)


@torch.no_grad()
def names(model: Callable, tokens: Tensor, steps: int) -> float:
    """How often a position that can know its next token names the one `steps` further on instead: 0 is the right one.

    −1 is the token of the position itself.  Positions whose text ends before are left out.
    """
    positions = asked(tokens)[:, : tokens.size(1) - 1 - max(0, steps)]
    other = tokens.roll(-1 - steps, dims=1)[:, : positions.size(1)]
    scores, _ = model(tokens, need_weights=False)
    return (scores[:, : positions.size(1)].argmax(dim=-1) == other)[positions].float().mean().item()
