"""Switching heads off from outside: to zero, to their mean, or at random while training.  Notebooks 07 and 08.

A head's contribution is its slice of the input of `proj`.  Each function hooks there, so that the layer itself
stays as lesson 03 built it, and returns a handle: `handle.remove()` ends it, and so does the end of a `with`.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mha.attention import MultiHeadAttention
from mha.checks import whole


def switch_off(
    attention: MultiHeadAttention, heads: int | Iterable[int], mean: Tensor | None = None
) -> RemovableHandle:
    """These heads of a MultiHeadAttention say nothing: zeros, or their part of `mean` (d,) if given.

    heads: one whole number or several.  Raises TypeError for what is none, ValueError for a head that is not there.
    Source: Michel et al. 2019 (zeros); notebook 07.
    """
    columns = _columns(attention, heads)

    def gate(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = inputs  # (B, T, h·d_k), the heads side by side
        gone = columns.to(x.device)
        return (x.masked_fill(gone, 0) if mean is None else torch.where(gone, mean, x),)

    return attention.proj.register_forward_pre_hook(gate)


def drop_heads(attention: MultiHeadAttention, p: float) -> RemovableHandle:
    """While training, each head of each text is left out with probability p, and the others are raised.

    Raises ValueError for a p outside 0 … 1.  Source: notebook 07.
    """
    if not 0 <= p < 1:
        raise ValueError(f"p={p} must be at least 0 and below 1")

    def gate(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
        (x,) = inputs
        if not module.training:
            return None
        keep = torch.rand(len(x), 1, attention.num_heads, 1, device=x.device) >= p  # (B, 1, h, 1)
        return ((x.unflatten(-1, (attention.num_heads, -1)) * keep / (1 - p)).flatten(2),)

    return attention.proj.register_forward_pre_hook(gate)


@torch.no_grad()
def mean_of_heads(attention: MultiHeadAttention, run: Callable[[], object]) -> Tensor:
    """What the heads say on average while run() runs: (d,), over all texts and tokens alike."""
    seen: list[Tensor] = []  # the input of proj, (B·T, d), each time
    with attention.proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(0, 1))):
        run()
    return torch.cat(seen).mean(dim=0)


def _columns(attention: MultiHeadAttention, heads: int | Iterable[int]) -> Tensor:
    """Where the numbers of these heads stand in the input of proj: bool (d,)."""
    several = isinstance(heads, Iterable) and getattr(heads, "ndim", 1) > 0  # an array without axes is one number
    chosen = [whole(head, "a head") for head in (heads if several else [heads])]  # type: ignore[union-attr]
    wrong = [head for head in chosen if not 0 <= head < attention.num_heads]
    if wrong:
        raise ValueError(f"there is no head {wrong[0]}: this layer has heads 0 to {attention.num_heads - 1}")
    columns = torch.zeros(attention.num_heads, attention.d_k, dtype=torch.bool)
    columns[chosen] = True
    return columns.flatten()
