"""A small Transformer, encoder and decoder, on `MultiHeadAttention`.  Put together in notebook 07.

Pre-norm: every part reads a normalised copy of the stream and adds its update.  Letters as in `attention.py`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha.attention import MultiHeadAttention, causal_mask, scaled_dot_product_attention

Cache = dict[str, tuple[Tensor, Tensor]]  # keys and values, each (B, h, S, d_k), by what they belong to
Maps = list[Tensor | None]  # weights, one (B, h, T, S) per layer


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Waves of d_model / 2 wavelengths, from 2π to 10000·2π: (length, d_model), sine and cosine in turn.

    Raises ValueError for an odd d_model.  Source: Vaswani et al. 2017, section 3.5; notebook 07.
    """
    if d_model % 2:
        raise ValueError(f"d_model={d_model} must be even: each wave needs a sine and a cosine")
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))  # (d / 2,)
    angles = torch.arange(length)[:, None] * rates  # (length, d / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Embedding(nn.Module):
    """Symbols (B, T) → tokens (B, T, d): a learned vector for the symbol plus one for its position.

    Positions are "learned", "sinusoidal" or "none" (else ValueError).
    """

    def __init__(self, vocabulary: int, d_model: int, longest: int, positions: str = "learned"):
        super().__init__()
        self.symbols = nn.Embedding(vocabulary, d_model)
        nn.init.normal_(self.symbols.weight, std=d_model**-0.5)
        if positions == "learned":
            self.positions = nn.Parameter(torch.randn(longest, d_model) * d_model**-0.5)
        elif positions in ("sinusoidal", "none"):
            waves, zeros = sinusoidal_positions, torch.zeros
            table = (waves if positions == "sinusoidal" else zeros)(longest, d_model)
            self.register_buffer("positions", table, persistent=False)
        else:
            raise ValueError(f'positions={positions!r}: choose "learned", "sinusoidal" or "none"')

    def forward(self, symbols: Tensor, first: int = 0) -> Tensor:
        """Tokens (B, T, d) of symbols (B, T), of which the first stands at position `first`.

        Raises ValueError for more symbols than there are positions.
        """
        last = first + symbols.size(1)
        if last > len(self.positions):
            raise ValueError(f"{last} symbols are too many: there are positions for {len(self.positions)}")
        return self.symbols(symbols) + self.positions[first:last]


def feed_forward(d_model: int, d_inner: int) -> nn.Sequential:
    """d → d_inner → d, for each token alone.  Source: Vaswani et al. 2017, equation 2."""
    return nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))


class EncoderLayer(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)): as nn.TransformerEncoderLayer with norm_first."""

    def __init__(self, d_model: int, num_heads: int, d_inner: int):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, True)
        self.feed_forward = feed_forward(d_model, d_inner)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None, need_weights: bool = True) -> tuple[Tensor, Tensor | None]:
        """From x (B, S, d) the next x and the weights (B, h, S, S), or None for them with need_weights=False."""
        update, weights = self.attention(self.norm1(x), mask, need_weights=need_weights)
        x = x + update
        return x + self.feed_forward(self.norm2(x)), weights


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward: as nn.TransformerDecoderLayer with norm_first."""

    def __init__(self, d_model: int, num_heads: int, d_inner: int):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, True)
        self.cross = MultiHeadAttention(d_model, num_heads, True)
        self.feed_forward = feed_forward(d_model, d_inner)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None = None,
        need_weights: bool = True,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """From x (B, T, d), memory (B, S, d) and its mask (B, 1, 1, S) the next x and two weights.

        Own weights (B, h, T, T) and those of cross-attention (B, h, T, S), or None for each with need_weights=False.
        With a `cache` (a dict, empty at first) x holds only the newest token, (B, 1, d): keys and values of earlier
        ones, and of the memory, are kept there and not computed again.
        """
        if cache is None:
            mask = causal_mask(x.size(1), device=x.device)
            update, own = self.attention(self.norm1(x), mask, need_weights=need_weights)
            x = x + update
            update, cross = self.cross(self.norm2(x), memory_mask, source=memory, need_weights=need_weights)
        else:
            update, own = _attend_with_cache(self.attention, self.norm1(x), cache, "own")
            x = x + update
            update, cross = _attend_with_cache(self.cross, self.norm2(x), cache, "cross", memory, memory_mask)
        x = x + update
        return x + self.feed_forward(self.norm3(x)), own, cross


def _attend_with_cache(
    attention: MultiHeadAttention,
    x: Tensor,
    cache: Cache,
    name: str,
    memory: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One token's attention, x (B, 1, d), to what the cache holds under this name: output and weights (B, h, 1, S)."""
    if memory is None:  # to the tokens so far, of which this one is the last
        q, k, v = attention.project(x)
        if name in cache:
            earlier_k, earlier_v = cache[name]
            k, v = torch.cat([earlier_k, k], dim=2), torch.cat([earlier_v, v], dim=2)
        cache[name] = k, v
    elif name in cache:  # the memory has not changed: only the query is new
        q, (k, v) = attention.project(x)[0], cache[name]
    else:
        q, k, v = attention.project(x, memory)
        cache[name] = k, v
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return attention.merge(context), weights


class Transformer(nn.Module):
    """Source symbols (B, S) and target symbols so far (B, T) → scores (B, T, targets) for the next symbol of each.

    Symbol 0 of the source is padding and is hidden from everyone.  Source: Vaswani et al. 2017, with norms in
    front; notebook 07.
    """

    def __init__(
        self,
        sources: int,
        targets: int,
        d_model: int = 64,
        num_heads: int = 4,
        d_inner: int = 256,
        layers: int = 1,
        longest: int = 64,
        positions: str = "learned",
    ):
        super().__init__()
        self.source = Embedding(sources, d_model, longest, positions)
        self.target = Embedding(targets, d_model, longest, positions)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, num_heads, d_inner) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, num_heads, d_inner) for _ in range(layers))
        self.norm_memory, self.norm_out = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.read_out = nn.Linear(d_model, targets)

    def encode(self, source: Tensor, need_weights: bool = True) -> tuple[Tensor, Tensor, Maps]:
        """The memory (B, S, d), its mask (B, 1, 1, S), and the encoder's weights, one (or None) per layer."""
        mask = (source != 0)[:, None, None, :]
        x = self.source(source)
        maps: Maps = []
        for layer in self.encoder:
            x, weights = layer(x, mask, need_weights)
            maps.append(weights)
        return self.norm_memory(x), mask, maps

    def forward(
        self, source: Tensor, target: Tensor, need_weights: bool = True
    ) -> tuple[Tensor, dict[str, Maps] | None]:
        """Always two things: scores (B, T, targets), and weights, or None for them with need_weights=False.

        The weights are {"encoder": …, "decoder": …, "cross": …}, for each a list, one (B, h, ·, ·) per layer.
        """
        memory, mask, encoder = self.encode(source, need_weights)
        x = self.target(target)
        own: Maps = []
        cross: Maps = []
        for layer in self.decoder:
            x, own_weights, cross_weights = layer(x, memory, mask, need_weights)
            own.append(own_weights)
            cross.append(cross_weights)
        scores = self.read_out(self.norm_out(x))
        return scores, {"encoder": encoder, "decoder": own, "cross": cross} if need_weights else None

    @torch.no_grad()
    def greedy(self, source: Tensor, start: int, steps: int) -> tuple[Tensor, Tensor]:
        """The likeliest symbol, again and again: (symbols (B, steps), their probabilities (B, steps)).

        Each step computes one token; keys and values of the rest come from a cache.
        """
        memory, mask, _ = self.encode(source, need_weights=False)
        symbol = torch.full((len(source), 1), start, device=source.device)
        caches: list[Cache] = [{} for _ in self.decoder]
        symbols, probabilities = [], []
        for step in range(steps):
            x = self.target(symbol, first=step)
            for layer, cache in zip(self.decoder, caches, strict=True):
                x, _, _ = layer(x, memory, mask, cache=cache)
            distribution = F.softmax(self.read_out(self.norm_out(x)), dim=-1)[:, 0]  # (B, targets)
            probability, symbol = distribution.max(dim=-1, keepdim=True)  # each (B, 1)
            symbols.append(symbol)
            probabilities.append(probability)
        return torch.cat(symbols, dim=1), torch.cat(probabilities, dim=1)
