"""Refusing bad input: one sentence that says what was got, what was wanted and what to do.

What fits comes back, as it is or as the caller needs it; what does not raises TypeError or ValueError.  Letters as in
`attention.py`.
"""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
import torch


def whole(value: Any, name: str) -> int:
    """This whole number as int, also one of numpy's or a 0-d tensor.  TypeError for all else, True included."""
    try:
        if "bool" in str(getattr(value, "dtype", type(value))):
            raise TypeError
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


def check_sizes(d_model: int, num_heads: int) -> tuple[int, int]:
    """Both as int; TypeError or ValueError unless num_heads heads fit a width of d_model."""
    d_model, num_heads = whole(d_model, "d_model"), whole(num_heads, "num_heads")
    for name, size in (("d_model", d_model), ("num_heads", num_heads)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if d_model % num_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        below, above = max(h for h in fits if h < num_heads), [h for h in fits if h > num_heads][:1]
        nearest = ", ".join(map(str, [below, *above]))
        raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}; nearest that work: {nearest}")
    return d_model, num_heads


def check_kv_heads(num_heads: int, kv_heads: int) -> int:
    """kv_heads as int; TypeError or ValueError unless it divides num_heads."""
    kv_heads = whole(kv_heads, "kv_heads")
    if kv_heads < 1 or num_heads % kv_heads:
        raise ValueError(f"kv_heads={kv_heads} must divide num_heads={num_heads}: each is shared by as many queries")
    return kv_heads


def check_tokens(x: torch.Tensor, d_model: int, name: str) -> None:
    """TypeError or ValueError unless x, called so in the sentence, holds tokens (B, T, d_model) of floating point."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, wanted a tensor of floating point")
    if x.dim() != 3 or x.size(-1) != d_model:
        hint = f": add the batch axis with {name}.unsqueeze(0)" if x.dim() == 2 and x.size(-1) == d_model else ""
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted (B, T, d_model={d_model}){hint}")
    check_floating(x, name)


def check_same_batch(x: torch.Tensor, source: torch.Tensor) -> None:
    """ValueError unless x (B, T, d) and source (B, S, d) hold as many texts."""
    if x.size(0) != source.size(0):
        raise ValueError(f"x holds {x.size(0)} texts and source {source.size(0)}: they must be as many")


def check_floating(x: torch.Tensor, name: str) -> None:
    """TypeError unless x, called so in the sentence, is of floating point."""
    if not x.is_floating_point():
        raise TypeError(f"{name} is {x.dtype}, wanted floating point: embed tokens first, or call {name}.float()")


def check_qkv(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """TypeError or ValueError unless q (…, T, d_k), k (…, S, d_k) and v (…, S, d_v) fit each other."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_floating(x, name)
        if x.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted at least (tokens, width)")
    if q.size(-1) != k.size(-1):
        raise ValueError(f"q is {q.size(-1)} wide and k {k.size(-1)}: a dot product needs the same d_k")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"k has {k.size(-2)} tokens and v {v.size(-2)}: each key needs its value")


def check_lengths(lengths: torch.Tensor, size: int) -> None:
    """ValueError unless lengths (B,) are the lengths of texts that fit into `size` tokens."""
    if lengths.dim() != 1:
        raise ValueError(f"lengths must be a list, one whole number per text, got shape {tuple(lengths.shape)}")
    if not lengths.is_meta and not bool(((lengths >= 0) & (lengths <= size)).all()):
        raise ValueError(f"lengths must lie between 0 and size={size}, got {lengths.tolist()}")


def checked_mask(mask: torch.Tensor, shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """The mask as bool, if it fits scores of this shape (…, T, S) on this device."""
    mask = as_bool(mask)
    if mask.device != device:
        raise ValueError(
            f"mask is on {mask.device}, the tokens on {device}: build it there, or mask.to({str(device)!r})"
        )
    more = len(shape) - mask.dim()  # axes that the scores have more
    per_head = more > 0 and mask.dim() > 2
    if per_head or more < 0 or not _broadcasts(mask.shape, shape[more:]):
        per_text = mask.dim() == 2 and mask.shape == (shape[0], shape[-1])
        hint = (
            ": it would be read as one mask per head; for one mask per text, use mask.unsqueeze(1)" if per_head else ""
        )
        if per_text and len(shape) == 4:
            hint = ": if it tells which keys of each text are real, use mask[:, None, None, :]"
        wanted = f"wanted shape broadcastable to {tuple(shape)}{hint}"
        raise ValueError(f"mask has shape {tuple(mask.shape)}, {wanted}")
    return mask


def _broadcasts(sizes: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(size in (1, want) for size, want in zip(sizes, wanted, strict=True))


def as_bool(mask: torch.Tensor) -> torch.Tensor:
    """A bool mask, or one of whole numbers (0 = hidden), as bool; TypeError for a float one, which may mean either."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}, wanted a bool tensor: torch.as_tensor(mask, device=…)")
    if mask.is_floating_point():
        raise TypeError(
            f"mask is {mask.dtype}, wanted bool, True = may attend: use mask.bool() if 1 = may attend and 0 = hidden, "
            "or mask == 0 if it is to be added (0 and -inf)"
        )
    return mask.bool()


# Weights that come back from a layer, ours or another's.


def layer_weights(weights: Any, batch: int | None = None) -> np.ndarray:
    """One layer's weights of one text as an array (h, T, S); of (B, h, T, S) with B > 1 `batch` chooses the text."""
    array = _as_array(weights)
    wanted = f"weights have shape {array.shape}, wanted (h, T, S) or (B, h, T, S)"
    if array.ndim == 4:
        if batch is None and len(array) > 1:
            raise ValueError(f"weights hold {len(array)} texts: choose one, batch=0 to {len(array) - 1}")
        if not 0 <= (batch or 0) < len(array):
            raise ValueError(f"batch={batch}, but weights hold {len(array)} texts: choose 0 to {len(array) - 1}")
        array = array[batch or 0]
    elif array.ndim == 3 and batch is not None:
        raise ValueError(f"{wanted} when batch={batch} is chosen: were heads averaged? pass average_attn_weights=False")
    elif array.ndim > 4:
        raise ValueError(wanted)
    return attention_weights(array)


def attention_weights(weights: Any) -> np.ndarray:
    """Weights of heads as an array (…, T, S), if that is what they are: three axes or more, rows that sum to 1 or 0."""
    array = _as_array(weights)
    wanted = f"weights have shape {array.shape}, wanted (h, T, S) or (B, h, T, S)"
    if array.ndim == 2:
        raise ValueError(f"{wanted}: averaged over heads? pass average_attn_weights=False; one head is weights[None]")
    if array.ndim < 3 or not array.size:
        raise ValueError(wanted)
    if not np.isfinite(array).all() or array.min() < 0:
        raise ValueError("weights hold NaN or numbers below 0: are these scores, or the output of a row with no keys?")
    rows, columns = array.sum(axis=-1), array.sum(axis=-2)
    if not (_near_one(rows) | (rows == 0)).all():
        hint = "is dropout on (call eval()), or are these scores?"
        if _near_one(columns).all():
            hint = "columns do: softmax was taken over the queries, use dim=-1"
        raise ValueError(f"rows of weights sum to {rows.min():.2f} … {rows.max():.2f}, wanted 1; {hint}")
    return array


def _as_array(weights: Any) -> np.ndarray:
    if weights is None:
        raise TypeError("weights are None: call the layer with need_weights=True")
    weights = weights.detach().float().cpu() if isinstance(weights, torch.Tensor) else weights
    return np.asarray(weights, dtype=float)


def _near_one(sums: np.ndarray) -> np.ndarray:
    return np.abs(sums - 1) < 0.02


def check_counts(layer: np.ndarray, tokens: Sequence[str], keys: Sequence[str]) -> None:
    """ValueError unless a layer's weights (h, T, S) are those of T query tokens and S key tokens."""
    if layer.shape[1:] != (len(tokens), len(keys)):
        raise ValueError(
            f"weights are {layer.shape[1]} × {layer.shape[2]} per head, but there are {len(tokens)} query tokens and "
            f"{len(keys)} key tokens: give key_tokens, or cut the padding"
        )
