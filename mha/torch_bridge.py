"""Weights and masks, to and from PyTorch's nn.MultiheadAttention.  Explained in notebook 05."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch import device as default_device

from mha import runtime
from mha.attention import MultiHeadAttention, causal_mask, padding_mask
from mha.checks import as_bool

# Both store [Q | K | V] with the heads one after the other, so only the names differ.
NAMES = {
    "qkv.weight": "in_proj_weight",
    "qkv.bias": "in_proj_bias",
    "proj.weight": "out_proj.weight",
    "proj.bias": "out_proj.bias",
}


def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """A MultiHeadAttention with copies of the weights of an nn.MultiheadAttention, batch_first or not.

    Ours always takes (B, T, d).  Dropout is left behind: the two agree in eval mode.
    Raises ValueError for kdim or vdim other than embed_dim, add_bias_kv and add_zero_attn, which ours lacks.
    Source: notebook 05.
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"from_torch takes an nn.MultiheadAttention, got {type(module).__name__}")
    if module.in_proj_weight is None:
        raise ValueError(
            f"kdim={module.kdim} and vdim={module.vdim} must equal embed_dim={module.embed_dim}: ours has one width"
        )
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError("add_bias_kv and add_zero_attn add keys that ours does not have: build the module without")
    ours = _like(module.in_proj_weight, MultiHeadAttention, module.embed_dim, module.num_heads, module.in_proj_bias)
    theirs = module.state_dict()
    ours.load_state_dict({our: theirs[name] for our, name in NAMES.items() if name in theirs})
    return ours.train(module.training)


def to_torch(module: MultiHeadAttention, batch_first: bool = True) -> nn.MultiheadAttention:
    """An nn.MultiheadAttention with copies of the weights of a MultiHeadAttention.

    Raises TypeError for anything else.  Source: notebook 05.
    """
    if not isinstance(module, MultiHeadAttention):
        raise TypeError(f"to_torch takes a MultiHeadAttention, got {type(module).__name__}")
    weight, bias = module.qkv.weight, module.qkv.bias
    theirs = _like(weight, nn.MultiheadAttention, module.d_model, module.num_heads, bias, batch_first=batch_first)
    theirs.load_state_dict({NAMES[our]: value for our, value in module.state_dict().items()})
    return theirs.train(module.training)


def to_torch_mask(mask: Tensor, num_heads: int | None = None) -> Tensor:
    """Our mask (True = may attend) as nn.MultiheadAttention reads it (True = blocked).

    (T, S)        → (T, S), its `attn_mask`
    (B, 1, 1, S)  → (B, S), its `key_padding_mask`
    (B, h, T, S)  → (B·h, T, S), its `attn_mask`; (B, 1, T, S) needs num_heads=h, being the same for each head
    F.scaled_dot_product_attention reads masks as we do: give it ours unchanged.
    Raises ValueError for any other shape.  Source: notebook 05.
    """
    blocked = ~as_bool(mask)
    if mask.dim() == 2:
        return blocked
    if mask.dim() != 4:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, wanted (T, S), (B, 1, 1, S) or (B, h, T, S)")
    B, h, T, S = mask.shape
    if h == T == 1 and num_heads is None:
        return blocked[:, 0, 0]
    if h == 1 and num_heads is None:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}: name the number of heads, to_torch_mask(mask, num_heads=h)"
        )
    if num_heads is not None and h not in (1, num_heads):
        raise ValueError(f"mask has shape {tuple(mask.shape)}, one for each of {h} heads, but num_heads={num_heads}")
    return blocked.expand(B, num_heads or h, T, S).flatten(0, 1)


def differences(
    B: int,
    T: int,
    S: int,
    d_model: int,
    num_heads: int,
    bias: bool,
    cross: bool,
    kind: str,
    translate: Callable = to_torch_mask,
) -> list[float]:
    """The largest differences between our layer and PyTorch's with the same weights, in one case of random texts.

    Returns four: outputs; our output with weights and without; weights per head; gradients of the input.
    cross: keys and values come from another text of S tokens, else S = T.  kind: "none", "causal", "padding" or
    "per head".  translate: what makes PyTorch's mask of ours.  Source: notebook 05.
    """
    mine = MultiHeadAttention(d_model, num_heads, bias=bias).to(runtime.device())
    theirs = to_torch(mine)
    x = torch.randn(B, T, d_model).to(runtime.device()).requires_grad_()
    other_text = torch.randn(B, S, d_model).to(x.device) if cross else None
    source = x if other_text is None else other_text
    mask = _mask(kind, B, num_heads, T, source.size(1), x.device)
    name = "key_padding_mask" if kind == "padding" else "attn_mask"
    a, our_weights = mine(x, mask, source=other_text)
    fused, _ = mine(x, mask, source=other_text, need_weights=False)
    options = {} if mask is None else {name: translate(mask)}
    b, their_weights = theirs(x, source, source, average_attn_weights=False, **options)
    gradients = [torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (a, b)]
    compared = (a, b), (a, fused), (our_weights, their_weights), gradients
    return [(left - right).abs().max().item() for left, right in compared]


def _mask(kind: str, B: int, h: int, T: int, S: int, device: torch.device) -> Tensor | None:
    """A mask of this kind in which every query may see something, and may in its opposite."""
    if kind == "per head":
        mask = torch.rand(B, h, T, S).to(device) < 0.5
        mask[..., 0] = True
        mask[..., 1:2] = False
        return mask
    made = {"none": None, "causal": causal_mask(T, S), "padding": padding_mask([S, *[1] * (B - 1)], S)}[kind]
    return made if made is None else made.to(device)


def _like(weight: Tensor, kind: type, d_model: int, num_heads: int, bias: Tensor | None, **options: Any) -> Any:
    """A new module of this kind on the weight's device and in its precision."""
    with default_device(weight.device):
        return kind(d_model, num_heads, bias=bias is not None, **options).to(weight.dtype)
