"""What models in production change in attention: shared or compressed keys and values, a cache, rotary positions.

Built in notebook 10.  Letters as in `attention.py`; h_kv (kv_heads) is the number of key and value heads, r (latent)
the width of what stands for keys and values.  All attention here is self-attention.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha import checks
from mha.attention import MultiHeadAttention, scaled_dot_product_attention

Cache = dict[str, Tensor]  # what one layer keeps: {"k": (B, h_kv, S, d_k), "v": the same}, or {"latent": (B, S, r)}


def expand_kv_heads(kv: Tensor, num_heads: int) -> Tensor:
    """Keys or values (B, h_kv, S, d_k) as each of h query heads sees them, (B, h, S, d_k): neighbours share a head.

    Raises ValueError unless h_kv divides h.  Source: Ainslie et al. 2023; notebook 10.
    """
    checks.check_kv_heads(num_heads, kv.size(1))
    return kv.repeat_interleave(num_heads // kv.size(1), dim=1)


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Queries or keys x (…, T, d_k), turned by their positions (T,): rotary position embedding.

    Features 2i and 2i + 1 are a point in a plane, turned by position · base^(−2i / d_k).  So the dot product of a
    query and a key depends on how far apart they stand, not on where.
    Raises ValueError for an odd d_k or a wrong number of positions.  Source: Su et al. 2021, equation 34; notebook 10.
    """
    T, d_k = x.shape[-2:]
    if d_k % 2:
        raise ValueError(f"d_k={d_k} must be even: features are turned in pairs")
    if positions.shape != (T,):
        raise ValueError(f"positions have shape {tuple(positions.shape)}, wanted ({T},), one for each token of x")
    rates = base ** (-torch.arange(0, d_k, 2, device=x.device) / d_k)  # (d_k / 2,)
    angles = positions.to(rates)[:, None] * rates  # (T, d_k / 2)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


def sliding_window_mask(
    T: int, window: int, sinks: int = 0, S: int | None = None, device: torch.device | str | None = None
) -> Tensor:
    """True for the `window` newest keys up to the query itself, and for the first `sinks` keys: bool (T, S).

    Causal and, like `causal_mask`, aligned to the end when S > T.  Raises ValueError for a window below 1.
    Source: Beltagy et al. 2020 (window), Xiao et al. 2023 (sinks); notebook 10.
    """
    if window < 1 or sinks < 0:
        raise ValueError(f"window={window} must be at least 1, since a query sees itself, and sinks={sinks} at least 0")
    S = T if S is None else S
    back = torch.arange(S - T, S, device=device)[:, None] - torch.arange(S, device=device)  # how far back a key is
    return (back >= 0) & ((back < window) | (torch.arange(S, device=device) < sinks))


def remember(cache: Cache | None, **new: Tensor) -> list[Tensor]:
    """What is new of the latest tokens, each (…, T, width), behind what the cache holds: all of it, (…, S, width).

    cache: a dict, empty before the first token, which grows by the new; None keeps nothing and gives back the new.
    """
    if cache is None:
        return list(new.values())
    for name, part in new.items():
        cache[name] = torch.cat([cache[name], part], dim=-2) if name in cache else part
    return [cache[name] for name in new]


def cached_tokens(cache: Cache | None) -> int:
    """How many tokens a layer's cache holds."""
    return next(iter(cache.values())).size(-2) if cache else 0


class GroupedQueryAttention(MultiHeadAttention):
    """The class of lesson 03 with h_kv heads of keys and values, each shared by h / h_kv query heads.

    h_kv = h is multi-head attention, h_kv = 1 multi-query attention (Shazeer 2019), between them grouped-query
    attention (Ainslie et al. 2023).  `qkv` holds [Q | K | V] as before, but K and V are only h_kv·d_k wide.
    With a `rotary_base` (10,000, say) queries and keys are turned by their positions.  Notebook 10.
    """

    def __init__(
        self,
        d_model: int = 512,
        num_heads: int = 8,
        kv_heads: int = 2,
        bias: bool = False,
        *,
        rotary_base: float | None = None,
    ):
        super().__init__(d_model, num_heads, bias)
        self.kv_heads, self.rotary_base = checks.check_kv_heads(num_heads, kv_heads), rotary_base
        self.qkv = nn.Linear(self.d_model, (self.num_heads + 2 * self.kv_heads) * self.d_k, bias=bias)

    def project(self, x: Tensor, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Queries (B, h, T, d_k), keys and values (B, h_kv, T, d_k), of x (B, T, d) from position `first` on."""
        checks.check_tokens(x, self.d_model, "x")
        sizes = [heads * self.d_k for heads in (self.num_heads, self.kv_heads, self.kv_heads)]
        q, k, v = (part.unflatten(-1, (-1, self.d_k)).transpose(1, 2) for part in self.qkv(x).split(sizes, dim=-1))
        if self.rotary_base is not None:
            positions = torch.arange(first, first + x.size(1), device=x.device)
            q, k = rotate(q, positions, self.rotary_base), rotate(k, positions, self.rotary_base)
        return q, k, v

    def forward(  # type: ignore[override]  # a cache in place of another source
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        need_weights: bool = True,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x (B, T, d) to itself and, with a cache (a dict), to the tokens before it, S in all.

        mask: bool, broadcastable to (B, h, T, S), True = may attend; without one, every token sees all S.
        Returns output (B, T, d) and weights (B, h, T, S), or None for them with need_weights=False: the fused kernel.
        """
        q, k, v = self.project(x, cached_tokens(cache))
        k, v = remember(cache, k=k, v=v)  # (B, h_kv, S, d_k)
        return attend(self, q, k, v, mask, need_weights)


class LatentAttention(MultiHeadAttention):
    """The class of lesson 03 with keys and values made from one short vector of r numbers for each token.

    `down` (d → r) makes that vector, which is all that a cache keeps; `up` (r → 2d) makes [K | V] of it, heads inside
    each.  As wide as d, it can be any multi-head attention.  DeepSeek's layer also has compressed queries and a small
    rotated key beside the vector; both are left out.  Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1; notebook 10.
    """

    def __init__(self, d_model: int = 512, num_heads: int = 8, latent: int = 128):
        super().__init__(d_model, num_heads)
        del self.qkv
        self.latent = checks.whole(latent, "latent")
        self.query = nn.Linear(self.d_model, self.d_model, bias=False)
        self.down = nn.Linear(self.d_model, self.latent, bias=False)
        self.up = nn.Linear(self.latent, 2 * self.d_model, bias=False)

    def forward(  # type: ignore[override]  # a cache in place of another source
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        need_weights: bool = True,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """As `GroupedQueryAttention.forward`; the cache keeps r numbers for each token."""
        checks.check_tokens(x, self.d_model, "x")
        (latent,) = remember(cache, latent=self.down(x))  # (B, S, r)
        parts = self.query(x), *self.up(latent).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.num_heads, self.d_k)).transpose(1, 2) for part in parts)
        return attend(self, q, k, v, mask, need_weights)


def attend(
    layer: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Attention of q (B, h, T, d_k) to k, v (B, h_kv, S, d_k), merged and projected: output and weights, or None."""
    if need_weights:
        k, v = (expand_kv_heads(part, q.size(1)) for part in (k, v))
        context, weights = scaled_dot_product_attention(q, k, v, mask)
        return layer.merge(context), weights
    if mask is not None:
        mask = torch.atleast_2d(checks.checked_mask(mask, (*q.shape[:-1], k.size(-2)), q.device))
    # The kernel shares keys and values without copies.
    return layer.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)), None
