"""Attention, with one head and with several.  Built step by step in notebooks 01 and 03.

Letters: B batch, T tokens that ask (queries), S tokens that answer (keys), d model width, h heads, d_k = d / h.
A mask is boolean, True = may attend.  Weights are (B, h, T, S): rows are queries, columns are keys.
"""

import math
import operator
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn


def scaled_dot_product_attention(q, k, v, mask=None):
    """Mix the values v, each query by its own weights: softmax(q kᵀ / √d_k) v.

    q (…, T, d_k), k (…, S, d_k), v (…, S, d_v); mask bool, broadcastable to (…, T, S), True = may attend.
    Returns context (…, T, d_v) and weights (…, T, S).  Every row of weights sums to one, except the row of a
    query that may see nothing: it is zero, and so are its context and its gradient.  Half-precision inputs are
    scored in float32, so that large scores do not overflow.
    Raises TypeError (not floating point; a mask that is not bool) and ValueError (shapes that do not fit).
    Source: Vaswani et al. 2017, equation 1; notebook 01.
    """
    _check_qkv(q, k, v)
    if q.shape[:-2] != k.shape[:-2]:
        leading = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        q, k = q.expand(*leading, -1, -1), k.expand(*leading, -1, -1)
    if mask is not None:
        mask = _checked_mask(mask, (*q.shape[:-1], k.size(-2)), q.device)
    exact = torch.promote_types(q.dtype, torch.float32)
    weights = _scores(q.to(exact), k.to(exact), mask).softmax(dim=-1)  # (…, T, S)
    if mask is not None:
        sees = mask.any(dim=-1, keepdim=True)  # the row of a query that may see nothing becomes zero,
        weights = weights * sees if weights.requires_grad else weights.mul_(sees)  # in place where no gradient minds
    weights = weights.to(v.dtype)
    return weights @ v, weights


def _scores(q, k, mask):
    """q kᵀ / √d_k (…, T, S), and far below every score where the mask is False."""
    (*leading, T, d_k), S = q.shape, k.size(-2)
    with _without_autocast(q.device.type):
        if mask is None:
            return (q / math.sqrt(d_k)) @ k.mT
        hidden = torch.where(mask, q.new_zeros(()), torch.finfo(q.dtype).min / 2)
        n = math.prod(leading)
        if mask.dim() > 2:
            hidden = hidden.expand(*leading, *mask.shape[-2:]).reshape(n, *mask.shape[-2:])
        q, k = q.reshape(n, T, d_k), k.reshape(n, S, d_k)  # product, scale and mask in one go:
        return torch.baddbmm(hidden, q, k.mT, alpha=1 / math.sqrt(d_k)).view(*leading, T, S)


def causal_mask(T, S=None, device=None):
    """True where a key is not in the query's future: bool (T, S), S = T unless given.

    When S > T the T queries are the last of S tokens (the earlier keys come from a cache): query t sees
    the keys up to t + S − T.  Source: notebook 01.
    """
    S = T if S is None else S
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def padding_mask(lengths, size, device=None):
    """True on real tokens, False on padding, for B texts padded to `size` tokens: bool (B, 1, 1, size).

    lengths: B whole numbers, 0 … size (a list, or a tensor, on whose device the mask is made unless `device`
    says otherwise).  Raises ValueError for a length that does not fit.  Source: notebook 01.
    """
    lengths = torch.as_tensor(lengths, device=device)
    if lengths.dim() != 1:
        raise ValueError(f"lengths must be a list, one whole number per text, got shape {tuple(lengths.shape)}")
    if not lengths.is_meta and not bool(((lengths >= 0) & (lengths <= size)).all()):
        raise ValueError(f"lengths must lie between 0 and size={size}, got {lengths.tolist()}")
    real = torch.arange(size, device=lengths.device) < lengths[:, None]  # (B, size)
    return real[:, None, None, :]


class MultiHeadAttention(nn.Module):
    """h attentions side by side, each d_k = d / h wide, then one projection that mixes them.

    d_model must be divisible by num_heads (else ValueError).  Parameters: 4d², and 4d more with bias.
    `qkv` holds [Q | K | V], and inside each the heads one after the other; `proj` is W_O.
    Source: Vaswani et al. 2017, section 3.2.2; notebook 03.
    """

    def __init__(self, d_model=512, num_heads=8, bias=False):
        super().__init__()
        d_model, num_heads = check_sizes(d_model, num_heads)
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.proj = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, mask=None, *, source=None, need_weights=True):
        """Attend from x (B, T, d) to itself, or to source (B, S, d).

        mask: bool, broadcastable to (B, h, T, S), True = may attend.  Two axes are read as (T, S), the same for every
        text: one row of keys for each text, (B, S), goes in as mask[:, None, None, :].
        Returns output (B, T, d) and weights (B, h, T, S), or None for them with need_weights=False, which takes
        PyTorch's fused kernel: same output.
        """
        q, k, v = self.project(x, source)  # each (B, h, ·, d_k)
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
        else:
            heads, weights = _fused_attention(q, k, v, mask), None
        return self.proj(heads.transpose(1, 2).flatten(2)), weights  # (B, h, T, d_k) → (B, T, h·d_k)

    def project(self, x, source=None):
        """Queries of x, keys and values of the source (x unless given), with a head axis: each (B, h, ·, d_k).

        Two sources take only their own rows of a plain Linear, so that hooks on `qkv` see self-attention alone;
        what somebody has put in its place (quantised, an adapter) is called as a whole for either.
        """
        _check_tokens(x, self.d_model, "x")
        if source is None:
            q, k, v = self.qkv(x).chunk(3, dim=-1)  # one product, three times (B, T, d)
        else:
            _check_tokens(source, self.d_model, "source")
            _check_batch(x, source)
            q, k, v = self._project_two(x, source)
        return tuple(part.view(*part.shape[:2], self.num_heads, self.d_k).transpose(1, 2) for part in (q, k, v))

    def _project_two(self, x, source):
        """Queries (B, T, d) of x, keys and values (B, S, d) of the source."""
        if type(self.qkv) is not nn.Linear:
            return self.qkv(x).chunk(3, dim=-1)[0], *self.qkv(source).chunk(3, dim=-1)[1:]
        sizes = [self.d_model, 2 * self.d_model]
        w_q, w_kv = self.qkv.weight.split(sizes)
        b_q, b_kv = (None, None) if self.qkv.bias is None else self.qkv.bias.split(sizes)
        return F.linear(x, w_q, b_q), *F.linear(source, w_kv, b_kv).chunk(2, dim=-1)


def allowed_heads(d_model):
    """All head counts that divide d_model, in rising order."""
    return [h for h in range(1, d_model + 1) if d_model % h == 0]


def _without_autocast(kind):
    """Where autocast, if this kind of device has it, does not take float32 products back to half precision."""
    off = kind == "meta" or not torch.is_autocast_enabled(kind)
    return nullcontext() if off else torch.autocast(kind, enabled=False)


def _fused_attention(q, k, v, mask):
    """The context of `scaled_dot_product_attention`, by PyTorch's fused kernel, which keeps no weights."""
    if mask is not None:
        mask = _checked_mask(mask, (*q.shape[:-1], k.size(-2)), q.device)
        mask = mask if mask.dim() > 1 else torch.atleast_2d(mask)  # the kernel takes no mask (S,)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# What follows refuses bad input: one sentence with what was got, what was wanted and what to do.


def check_sizes(d_model, num_heads):
    """Both as int; TypeError or ValueError unless num_heads heads fit a width of d_model."""
    d_model, num_heads = whole(d_model, "d_model"), whole(num_heads, "num_heads")
    for name, size in (("d_model", d_model), ("num_heads", num_heads)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if d_model % num_heads:
        allowed = allowed_heads(d_model)
        below, above = max(h for h in allowed if h < num_heads), [h for h in allowed if h > num_heads][:1]
        nearest = ", ".join(map(str, [below, *above]))
        raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}; nearest that work: {nearest}")
    return d_model, num_heads


def whole(value, name):
    """This whole number as int, also one of numpy's or a 0-d tensor.  TypeError for all else, True included."""
    try:
        if "bool" in str(getattr(value, "dtype", type(value))):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


def _check_tokens(x, d_model, name):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, wanted a tensor of floating point")
    if x.dim() != 3 or x.size(-1) != d_model:
        hint = f": add the batch axis with {name}.unsqueeze(0)" if x.dim() == 2 and x.size(-1) == d_model else ""
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted (B, T, d_model={d_model}){hint}")
    _check_floating(x, name)


def _check_batch(x, source):
    if x.size(0) != source.size(0):
        raise ValueError(f"x holds {x.size(0)} texts and source {source.size(0)}: they must be as many")


def _check_floating(x, name):
    if not x.is_floating_point():
        raise TypeError(f"{name} is {x.dtype}, wanted floating point: embed tokens first, or call {name}.float()")


def _check_qkv(q, k, v):
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_floating(x, name)
        if x.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted at least (tokens, width)")
    if q.size(-1) != k.size(-1):
        raise ValueError(f"q is {q.size(-1)} wide and k {k.size(-1)}: a dot product needs the same d_k")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"k has {k.size(-2)} tokens and v {v.size(-2)}: each key needs its value")


def _checked_mask(mask, shape, device):
    """The mask as bool, if it fits scores of this shape."""
    mask = as_bool(mask)
    if mask.device != device:
        raise ValueError(
            f"mask is on {mask.device}, the tokens on {device}: build it there, or mask.to({str(device)!r})"
        )
    per_text = mask.dim() == 2 and mask.shape == (shape[0], shape[-1])
    per_head = 2 < mask.dim() < len(shape)
    if per_head or mask.dim() > len(shape) or not _broadcasts(mask.shape, shape[len(shape) - mask.dim() :]):
        hint = (
            ": it would be read as one mask per head; for one mask per text, use mask.unsqueeze(1)" if per_head else ""
        )
        if per_text and len(shape) == 4:
            hint = ": if it tells which keys of each text are real, use mask[:, None, None, :]"
        wanted = f"wanted shape broadcastable to {tuple(shape)}{hint}"
        raise ValueError(f"mask has shape {tuple(mask.shape)}, {wanted}")
    return mask


def _broadcasts(sizes, wanted):
    return all(size in (1, want) for size, want in zip(sizes, wanted, strict=True))


def as_bool(mask):
    """A bool mask, or one of whole numbers (0 = hidden), as bool; TypeError for a float one, which may mean either."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}, wanted a bool tensor: torch.as_tensor(mask, device=…)")
    if mask.is_floating_point():
        raise TypeError(
            f"mask is {mask.dtype}, wanted bool, True = may attend: use mask.bool() if 1 = may attend and 0 = hidden, "
            "or mask == 0 if it is to be added (0 and -inf)"
        )
    return mask.bool()
