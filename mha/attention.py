"""Attention, with one head and with several.  Built step by step in notebooks 01 and 03.

Letters: B batch, T tokens that ask (queries), S tokens that answer (keys), d model width, h heads, d_k = d / h.
A mask is boolean, True = may attend.  Weights are (B, h, T, S): rows are queries, columns are keys.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha import checks


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix the values v, each query by its own weights: softmax(q kᵀ / √d_k) v.

    q (…, T, d_k), k (…, S, d_k), v (…, S, d_v); mask bool, broadcastable to (…, T, S), True = may attend.
    Returns context (…, T, d_v) and weights (…, T, S).  Every row of weights sums to one, except the row of a
    query that may see nothing: it is zero, and so are its context and its gradient.  Half-precision inputs are
    scored in float32, so that large scores do not overflow.
    Raises TypeError (not floating point; a mask that is not bool) and ValueError (shapes that do not fit).
    Source: Vaswani et al. 2017, equation 1; notebook 01.
    """
    checks.check_qkv(q, k, v)
    if q.shape[:-2] != k.shape[:-2]:
        leading = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        q, k = q.expand(*leading, -1, -1), k.expand(*leading, -1, -1)
    if mask is not None:
        mask = checks.checked_mask(mask, (*q.shape[:-1], k.size(-2)), q.device)
    q = q.float() if q.dtype.itemsize < 4 else q
    weights = _scores(q, k.to(q.dtype), mask).softmax(dim=-1)  # (…, T, S)
    if mask is not None:
        sees = mask.any(dim=-1, keepdim=True)  # the row of a query that may see nothing becomes zero,
        weights = weights * sees if weights.requires_grad else weights.mul_(sees)  # in place where no gradient minds
    weights = weights.to(v.dtype)
    return weights @ v, weights


def _scores(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """q kᵀ / √d_k (…, T, S), and far below every score where the mask is False."""
    (*leading, T, d_k), S = q.shape, k.size(-2)
    with _without_autocast(q.device.type):
        n, hidden = math.prod(leading), q.new_zeros(())
        if mask is not None:
            hidden = torch.where(mask, hidden, torch.finfo(q.dtype).min / 2)
            if mask.dim() > 2:
                hidden = hidden.expand(*leading, *mask.shape[-2:]).reshape(n, *mask.shape[-2:])
        q, k = q.reshape(n, T, d_k), k.reshape(n, S, d_k)  # product, scale and mask in one go:
        return torch.baddbmm(hidden, q, k.mT, alpha=1 / math.sqrt(d_k)).view(*leading, T, S)


def causal_mask(T: int, S: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """True where a key is not in the query's future: bool (T, S), S = T unless given.

    When S > T the T queries are the last of S tokens (the earlier keys come from a cache): query t sees
    the keys up to t + S − T.  Source: notebook 01.
    """
    S = T if S is None else S
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def padding_mask(lengths: Sequence[int] | Tensor, size: int, device: torch.device | str | None = None) -> Tensor:
    """True on real tokens, False on padding, for B texts padded to `size` tokens: bool (B, 1, 1, size).

    lengths: B whole numbers, 0 … size (a list, or a tensor, on whose device the mask is made unless `device`
    says otherwise).  Raises ValueError for a length that does not fit.  Source: notebook 01.
    """
    lengths = torch.as_tensor(lengths, device=device)
    checks.check_lengths(lengths, size)
    real = torch.arange(size, device=lengths.device) < lengths[:, None]  # (B, size)
    return real[:, None, None, :]


class MultiHeadAttention(nn.Module):
    """h attentions side by side, each d_k = d / h wide, then one projection that mixes them.

    d_model must be divisible by num_heads (else ValueError).  Parameters: 4d², and 4d more with bias.
    `qkv` holds [Q | K | V], and inside each the heads one after the other; `proj` is W_O.
    Source: Vaswani et al. 2017, section 3.2.2; notebook 03.
    """

    def __init__(self, d_model: int = 512, num_heads: int = 8, bias: bool = False):
        super().__init__()
        d_model, num_heads = checks.check_sizes(d_model, num_heads)
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.proj = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, source: Tensor | None = None, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x (B, T, d) to itself, or to source (B, S, d).

        mask: bool, broadcastable to (B, h, T, S), True = may attend.  Two axes are read as (T, S), the same for every
        text: one row of keys for each text, (B, S), goes in as mask[:, None, None, :].
        Always returns two things: output (B, T, d) and weights (B, h, T, S), or None for the weights with
        need_weights=False, which takes PyTorch's fused kernel: same output.
        """
        q, k, v = self.project(x, source)  # each (B, h, ·, d_k)
        if not need_weights:
            return self.merge(_fused_attention(q, k, v, mask)), None
        context, weights = scaled_dot_product_attention(q, k, v, mask)
        return self.merge(context), weights

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x, keys and values of the source (x unless given), with a head axis: each (B, h, ·, d_k).

        Two sources take only their own rows of a plain Linear, so that hooks on `qkv` see self-attention alone;
        what somebody has put in its place (quantised, an adapter) is called as a whole for either.
        """
        checks.check_tokens(x, self.d_model, "x")
        if source is None:
            q, k, v = self._split(self.qkv(x)).chunk(3, dim=1)  # one product, (B, 3h, T, d_k), cut in three
            return q, k, v
        checks.check_tokens(source, self.d_model, "source")
        checks.check_same_batch(x, source)
        q, k, v = self._project_two(x, source)
        return self._split(q), self._split(k), self._split(v)

    def merge(self, context: Tensor) -> Tensor:
        """The heads' contexts (B, h, T, d_k), side by side (B, T, h·d_k), mixed by W_O: (B, T, d)."""
        return self.proj(context.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)  # (B, T, h·d_k) → (B, h, T, d_k)

    def _project_two(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, T, d) of x, keys and values (B, S, d) of the source."""
        if type(self.qkv) is not nn.Linear:
            (q, _, _), (_, k, v) = (self.qkv(tokens).chunk(3, dim=-1) for tokens in (x, source))
            return q, k, v
        width = self.num_heads * self.d_k  # d, unless heads were removed
        sizes = [width, 2 * width]
        w_q, w_kv = self.qkv.weight.split(sizes)
        b_q, b_kv = (None, None) if self.qkv.bias is None else self.qkv.bias.split(sizes)
        k, v = F.linear(source, w_kv, b_kv).chunk(2, dim=-1)
        return F.linear(x, w_q, b_q), k, v


def allowed_heads(d_model: int) -> list[int]:
    """All head counts that divide d_model, in rising order."""
    return [h for h in range(1, d_model + 1) if d_model % h == 0]


def _without_autocast(kind: str) -> AbstractContextManager:
    """Where autocast, if this kind of device has it, does not take float32 products back to half precision."""
    off = kind == "meta" or not torch.is_autocast_enabled(kind)
    return nullcontext() if off else torch.autocast(kind, enabled=False)


def _fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """The context of `scaled_dot_product_attention`, by PyTorch's fused kernel, which keeps no weights."""
    if mask is not None:
        mask = checks.checked_mask(mask, (*q.shape[:-1], k.size(-2)), q.device)
        mask = mask if mask.dim() > 1 else torch.atleast_2d(mask)  # the kernel takes no mask (S,)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
