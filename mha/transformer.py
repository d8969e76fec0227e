"""A small Transformer, encoder and decoder, on `MultiHeadAttention`.  Put together in notebook 07.

Pre-norm: every part reads a normalised copy of the stream and adds what it found.  Letters as in `attention.py`.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from mha.attention import MultiHeadAttention, causal_mask, scaled_dot_product_attention


def sinusoidal_positions(length, d_model):
    """Waves of d_model / 2 wavelengths, from 2π to 10000·2π: (length, d_model), sine and cosine in turn.

    Raises ValueError for an odd d_model.  Source: Vaswani et al. 2017, section 3.5; notebook 07.
    """
    if d_model % 2:
        raise ValueError(f"d_model={d_model} must be even: each wave needs a sine and a cosine")
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))  # (d / 2,)
    angles = torch.arange(length)[:, None] * rates  # (length, d / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Embedding(nn.Module):
    """Symbols (B, T) → tokens (B, T, d): a learned vector for the symbol plus one for the place.

    Places are "learned", "sinusoidal" or "none".  `first` is the place of the first symbol.
    """

    def __init__(self, vocabulary, d_model, longest, positions="learned"):
        super().__init__()
        self.symbols = nn.Embedding(vocabulary, d_model)
        nn.init.normal_(self.symbols.weight, std=d_model**-0.5)
        if positions == "learned":
            self.positions = nn.Parameter(torch.randn(longest, d_model) * d_model**-0.5)
        elif positions in ("sinusoidal", "none"):
            table = (
                sinusoidal_positions(longest, d_model) if positions == "sinusoidal" else torch.zeros(longest, d_model)
            )
            self.register_buffer("positions", table, persistent=False)
        else:
            raise ValueError(f'positions={positions!r}: choose "learned", "sinusoidal" or "none"')

    def forward(self, symbols, first=0):
        last = first + symbols.size(1)
        if last > len(self.positions):
            raise ValueError(f"{last} symbols are too many: there are positions for {len(self.positions)}")
        return self.symbols(symbols) + self.positions[first:last]


def feed_forward(d_model, d_inner):
    """d → d_inner → d, for each token alone.  Source: Vaswani et al. 2017, equation 2."""
    return nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))


class EncoderLayer(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)): as nn.TransformerEncoderLayer with norm_first.

    Returns x (B, S, d) and the weights (B, h, S, S), or None for them unless asked for.
    """

    def __init__(self, d_model, num_heads, d_inner):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadAttention(d_model, num_heads, True), feed_forward(d_model, d_inner)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None, need_weights=False):
        found, weights = self.attention(self.norm1(x), mask, need_weights=need_weights)
        x = x + found
        return x + self.feed_forward(self.norm2(x)), weights


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to a memory, feed-forward: as nn.TransformerDecoderLayer with norm_first.

    x (B, T, d), memory (B, S, d), memory_mask (B, 1, 1, S).  Returns x and two weights, (B, h, T, T) and
    (B, h, T, S), or None for each unless asked for.  With a `cache` (a dict, empty at first) x holds only the
    newest token: keys and values of earlier ones, and of the memory, are kept there and not computed again.
    """

    def __init__(self, d_model, num_heads, d_inner):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, True)
        self.cross = MultiHeadAttention(d_model, num_heads, True)
        self.feed_forward = feed_forward(d_model, d_inner)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, memory_mask=None, need_weights=False, cache=None):
        if cache is None:
            mask = causal_mask(x.size(1), device=x.device)
            found, own = self.attention(self.norm1(x), mask, need_weights=need_weights)
            x = x + found
            found, cross = self.cross(self.norm2(x), memory_mask, source=memory, need_weights=need_weights)
        else:
            found, own = _attend_with_cache(self.attention, self.norm1(x), cache, "own")
            x = x + found
            found, cross = _attend_with_cache(self.cross, self.norm2(x), cache, "cross", memory, memory_mask)
        x = x + found
        return x + self.feed_forward(self.norm3(x)), own, cross


def _attend_with_cache(attention, x, cache, name, memory=None, mask=None):
    """One token's attention, x (B, 1, d), to what the cache holds under this name: output and weights (B, h, 1, S)."""
    if memory is None:  # to the tokens so far, of which this one is the last
        q, k, v = attention.project(x)
        if name in cache:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(cache[name], (k, v), strict=True))
        cache[name] = k, v
    elif name in cache:  # the memory has not changed: only the query is new
        q, (k, v) = attention.project(x)[0], cache[name]
    else:
        q, k, v = attention.project(x, memory)
        cache[name] = k, v
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    return attention.proj(heads.transpose(1, 2).flatten(2)), weights


class Transformer(nn.Module):
    """Source symbols (B, S) and target symbols so far (B, T) → scores (B, T, targets) for the next symbol of each.

    Symbol 0 of the source is padding and is hidden from everyone.  Source: Vaswani et al. 2017, with norms in
    front; notebook 07.
    """

    def __init__(
        self, sources, targets, d_model=64, num_heads=4, d_inner=256, layers=1, longest=64, positions="learned"
    ):
        super().__init__()
        self.source = Embedding(sources, d_model, longest, positions)
        self.target = Embedding(targets, d_model, longest, positions)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, num_heads, d_inner) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, num_heads, d_inner) for _ in range(layers))
        self.norm_memory, self.norm_out = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.read_out = nn.Linear(d_model, targets)

    def encode(self, source, need_weights=False):
        """The memory (B, S, d), its mask (B, 1, 1, S), and the encoder's weights, one per layer."""
        mask = (source != 0)[:, None, None, :]
        x, maps = self.source(source), []
        for layer in self.encoder:
            x, weights = layer(x, mask, need_weights)
            maps.append(weights)
        return self.norm_memory(x), mask, maps

    def forward(self, source, target, need_weights=False):
        """Scores; with need_weights also {"encoder": …, "decoder": …, "cross": …}, a list of weights per layer."""
        memory, mask, encoder = self.encode(source, need_weights)
        x, own, cross = self.target(target), [], []
        for layer in self.decoder:
            x, own_weights, cross_weights = layer(x, memory, mask, need_weights)
            own.append(own_weights)
            cross.append(cross_weights)
        scores = self.read_out(self.norm_out(x))
        return (scores, {"encoder": encoder, "decoder": own, "cross": cross}) if need_weights else scores

    @torch.no_grad()
    def greedy(self, source, start, steps):
        """The likeliest symbol, again and again: (symbols (B, steps), their probabilities (B, steps)).

        Each step computes one token; keys and values of the rest come from a cache.
        """
        memory, mask, _ = self.encode(source)
        symbol = torch.full((len(source), 1), start, device=source.device)
        caches, symbols, doubt = [{} for _ in self.decoder], [], []
        for step in range(steps):
            x = self.target(symbol, first=step)
            for layer, cache in zip(self.decoder, caches, strict=True):
                x, _, _ = layer(x, memory, mask, cache=cache)
            shares = F.softmax(self.read_out(self.norm_out(x)), dim=-1)[:, 0]  # (B, targets)
            probability, symbol = shares.max(dim=-1, keepdim=True)
            symbols.append(symbol)
            doubt.append(probability)
        return torch.cat(symbols, dim=1), torch.cat(doubt, dim=1)
