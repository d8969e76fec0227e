"""Switching heads off, ranking them, and removing them for good.  Notebooks 07 and 08.

A head's contribution is its slice of the input of `proj`, times its own columns of W_O: the output of a layer is
b_o + Σ_h out_h.  What switches heads off hooks in from outside, so that the layer itself stays as lesson 03 built it,
and ends with a `with`.  A head is known by its number in the whole layer, also after others were removed.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mha.attention import MultiHeadAttention
from mha.checks import whole

Pair = tuple[int, int]  # a head of a list of layers: (layer, head), both counted from 0
Layers = Sequence[MultiHeadAttention]
Heads = int | Iterable[int]


def head_ids(attention: MultiHeadAttention) -> tuple[int, ...]:
    """The numbers of the heads that this layer still has, in rising order."""
    return getattr(attention, "head_ids", tuple(range(attention.num_heads)))


# Three papers, three ways of switching a head off.


def switch_off(attention: MultiHeadAttention, heads: Heads, mean: Tensor | None = None) -> RemovableHandle:
    """These heads of a MultiHeadAttention say nothing: zeros, or their part of `mean` (d,) if given.

    heads: one whole number or several.  Raises TypeError for what is none, ValueError for a head that is not there.
    Returns a handle: `handle.remove()` ends it, and so does the end of a `with`.
    Source: Michel et al. 2019 (zeros); notebook 07.
    """
    _, columns = _columns(attention, heads)

    def gate(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = inputs  # (B, T, h·d_k), the heads side by side
        gone = columns.to(x.device)
        return (x.masked_fill(gone, 0) if mean is None else torch.where(gone, mean, x),)

    return attention.proj.register_forward_pre_hook(gate)


@contextmanager
def look_evenly(attention: MultiHeadAttention, heads: Heads) -> Iterator[None]:
    """Inside the `with`, these heads look at all visible keys alike: their queries are zeros, so all scores are.

    Raises what `switch_off` raises.  Source: Kovaleva et al. 2019; notebook 08.
    """
    _, columns = _columns(attention, heads)
    project = attention.project

    def blind(*inputs: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = project(*inputs, **options)  # each (B, h, ·, d_k)
        gone = columns.view(-1, 1, attention.d_k).to(q.device)  # (h, 1, d_k)
        return q.masked_fill(gone, 0), k, v

    before = vars(attention).get("project")  # none, unless this is one `with` inside another
    vars(attention)["project"] = blind
    try:
        yield
    finally:
        del vars(attention)["project"]
        if before is not None:
            vars(attention)["project"] = before


@contextmanager
def all_off(layers: Layers, pairs: Iterable[Pair]) -> Iterator[None]:
    """Inside the `with`, the heads (layer, head) of these layers say nothing; layers is a list, counted from 0."""
    pairs = list(pairs)
    with ExitStack() as stack:
        for number in sorted({number for number, _ in pairs}):
            stack.enter_context(switch_off(layers[number], [head for layer, head in pairs if layer == number]))
        yield


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
        return ((_split(attention, x) * keep / (1 - p)).flatten(2),)

    return attention.proj.register_forward_pre_hook(gate)


# What heads say, and whether two say the same.


@torch.no_grad()
def mean_of_heads(attention: MultiHeadAttention, run: Callable[[], object]) -> Tensor:
    """What the heads say on average while run() runs: (d,), over all texts and tokens alike."""
    return torch.cat([said.flatten(0, 1) for said in _said(attention, run)]).mean(dim=0)


@torch.no_grad()
def outputs_by_head(attention: MultiHeadAttention, run: Callable[[], object]) -> Tensor:
    """What each head adds to the output while run() runs once: (B, h, T, d).  With b_o their sum is the output."""
    said = _split(attention, torch.cat(_said(attention, run)))  # (B, T, h, d_k)
    blocks = _split(attention, attention.proj.weight)  # (d, h, d_k), each head's columns of W_O
    return torch.einsum("bthk,dhk->bhtd", said, blocks)


def maps_in_common(weights: Tensor, asked: Tensor) -> Tensor:
    """The share of their weight that two heads put on the same keys: (h, h), 1 for the same map, on the diagonal.

    weights (B, h, T, S); asked bool (B, T): the queries that count, padding left out.
    """
    rows = weights.transpose(1, 2)[asked]  # (N, h, S)
    return torch.stack([torch.minimum(rows, rows[:, [head]]).sum(-1).mean(0) for head in range(rows.size(1))])


def outputs_in_common(outputs: Tensor, asked: Tensor) -> Tensor:
    """The cosine between what two heads add, each one's mean over all queries taken off: (h, h).

    outputs (B, h, T, d); asked bool (B, T).  1: the same up to a factor; 0: nothing in common; −1: the opposite.
    """
    rows = outputs.transpose(1, 2)[asked]  # (N, h, d)
    rows = nn.functional.normalize((rows - rows.mean(dim=0)).transpose(0, 1).flatten(1), dim=-1)  # (h, N·d)
    return rows @ rows.mT


def nearest(alike: Tensor) -> Tensor:
    """How much each head has in common with the head most like it: (h,), from a table (h, h).  NaN for a lone head."""
    others = alike.masked_fill(torch.eye(len(alike), dtype=torch.bool, device=alike.device), -torch.inf)
    return others.amax(dim=1) if len(alike) > 1 else torch.full((1,), torch.nan)


# Which heads may go?  Heads of several layers are pairs (layer, head); the first of an order goes first.


def gradient_importance(layers: Layers, losses: Callable[[], Tensor]) -> list[Tensor]:
    """E_x |∂L(x) / ∂ξ_h|, each layer's divided by its length: a list of (h,), one for each layer.

    ξ_h is a gate that multiplies what head h says in one text: 1, as if it were not there.  losses() runs the model
    in eval mode, over one batch or several, and returns each text's own loss (B,); no text may influence another's.
    Source: Michel et al. 2019, section 4.1; notebook 08.
    """
    gates: list[list[Tensor]] = [[] for _ in layers]

    def gate(number: int) -> Callable:
        def multiply(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
            (x,) = inputs
            gates[number].append(x.new_ones(len(x), layers[number].num_heads).requires_grad_())  # (B, h)
            return ((_split(layers[number], x) * gates[number][-1][:, None, :, None]).flatten(2),)

        return multiply

    with torch.enable_grad(), ExitStack() as stack:
        for number, layer in enumerate(layers):
            stack.enter_context(layer.proj.register_forward_pre_hook(gate(number)))
        total = losses()
    if total.dim() != 1:
        raise ValueError(f"losses() gave shape {tuple(total.shape)}, wanted one loss for each text, (B,)")
    slopes = iter(torch.autograd.grad(total.sum(), [one for of_layer in gates for one in of_layer]))
    found = [torch.cat([next(slopes) for _ in of_layer]).abs().mean(dim=0) for of_layer in gates]
    return [scores / scores.norm().clamp(min=1e-20) for scores in found]


@torch.no_grad()
def ablation_importance(layers: Layers, loss: Callable[[], float]) -> list[Tensor]:
    """By how much loss() rises when one head alone is switched off: a list of (h,), one for each layer."""
    before = float(loss())
    found = []
    for layer in layers:
        rises = []
        for head in head_ids(layer):
            with switch_off(layer, head):
                rises.append(float(loss()) - before)
        found.append(torch.tensor(rises))
    return found


def order_by(layers: Layers, importance: Sequence[Tensor]) -> list[Pair]:
    """All heads as pairs (layer, head), the least important first."""
    scores = torch.cat([scores.cpu() for scores in importance]).tolist()
    return [pair for _, pair in sorted(zip(scores, _pairs(layers), strict=True))]


@torch.no_grad()
def greedy_order(layers: Layers, loss: Callable[[], float], at_once: int = 1) -> list[Pair]:
    """Again and again the head without which loss() is lowest, given all that are off already: h·(h + 1) / 2 runs.

    Of many heads, several may go `at_once` before the rest is ranked again.
    """
    left = _pairs(layers)
    order: list[Pair] = []
    while left:
        tried = []
        for pair in left:
            with all_off(layers, [*order, pair]):
                tried.append((float(loss()), pair))
        gone = [pair for _, pair in sorted(tried)[:at_once]]
        order, left = order + gone, [pair for pair in left if pair not in gone]
    return order


def random_order(layers: Layers, seed: int) -> list[Pair]:
    """All heads in a random order: the control that every ranking must beat."""
    return random.Random(seed).sample(_pairs(layers), len(_pairs(layers)))


@torch.no_grad()
def curve(layers: Layers, order: Sequence[Pair], measure: Callable, counts: Iterable[int] | None = None) -> list:
    """measure() with the first n heads of an order off, for n = 0 … all, or for these counts: a list."""
    found = []
    for count in range(len(order) + 1) if counts is None else counts:
        with all_off(layers, order[:count]):
            found.append(measure())
    return found


# Removing for good.


@torch.no_grad()
def remove_heads(attention: MultiHeadAttention, heads: Heads) -> MultiHeadAttention:
    """Cut these heads out of qkv (rows, in all three blocks) and proj (columns): fewer parameters, less work.

    heads: as in `switch_off`, by their numbers in the whole layer; all of them leave a layer that says b_o.  The
    output is that of the layer with these heads at zero.  Changes the layer, and returns it; an optimizer that
    holds its parameters must be made anew.  Raises TypeError or ValueError; a head goes only once.
    """
    numbers, gone = _columns(attention, heads)
    twice = next((head for head in numbers if numbers.count(head) > 1), None)
    if twice is not None:
        raise ValueError(f"head {twice} is named twice: name each head once")
    for name in ("qkv", "proj"):
        if type(getattr(attention, name)) is not nn.Linear:
            kind = type(getattr(attention, name)).__name__
            raise TypeError(f"{name} is a {kind}, wanted a plain nn.Linear: remove heads before anything is put there")
    keep = ~gone.to(attention.proj.weight.device)
    left = tuple(head for head in head_ids(attention) if head not in numbers)
    vars(attention)["head_ids"], attention.num_heads = left, len(left)
    _keep(attention.qkv, "weight", keep.repeat(3))
    if attention.qkv.bias is not None:
        _keep(attention.qkv, "bias", keep.repeat(3))
    _keep(attention.proj, "weight", (slice(None), keep))  # its bias belongs to no head
    attention.qkv.out_features, attention.proj.in_features = attention.qkv.weight.size(0), attention.proj.weight.size(1)
    return attention


def _keep(linear: nn.Linear, name: str, which: Tensor | tuple) -> None:
    old = getattr(linear, name)
    setattr(linear, name, nn.Parameter(old[which].clone(), requires_grad=old.requires_grad))


def _columns(attention: MultiHeadAttention, heads: Heads) -> tuple[list[int], Tensor]:
    """The heads as a list, and where their numbers stand in the input of proj: bool (h·d_k,)."""
    several = isinstance(heads, Iterable) and getattr(heads, "ndim", 1) > 0  # an array without axes is one number
    chosen = [whole(head, "a head") for head in (heads if several else [heads])]  # type: ignore[union-attr]
    there = head_ids(attention)
    wrong = [head for head in chosen if head not in there]
    if wrong:
        known = f"this layer has heads 0 to {attention.num_heads - 1}"
        if hasattr(attention, "head_ids"):
            known = f"of its heads this layer has left: {', '.join(map(str, there)) or 'none'}"
        raise ValueError(f"there is no head {wrong[0]}: {known}")
    return chosen, torch.tensor([head in chosen for head in there], dtype=torch.bool).repeat_interleave(attention.d_k)


def _split(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """The last axis, h·d_k, as two."""
    return x.unflatten(-1, (attention.num_heads, attention.d_k))


def _said(attention: MultiHeadAttention, run: Callable[[], object]) -> list[Tensor]:
    """Every input of proj, (B, T, h·d_k), while run() runs."""
    seen: list[Tensor] = []
    with attention.proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        run()
    return seen


def _pairs(layers: Layers) -> list[Pair]:
    return [(number, head) for number, layer in enumerate(layers) for head in head_ids(layer)]
