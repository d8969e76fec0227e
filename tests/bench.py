"""`make bench`: the ratios that the design asks for, each raced in one run.  Medians; machines are noisy."""

import torch
import torch.nn.functional as F
from torch import nn

from mha.attention import MultiHeadAttention, causal_mask
from mha.runtime import device, race
from mha.torch_bridge import to_torch, to_torch_mask

SIZES = [(8, 16, 64, 4), (8, 64, 128, 8), (4, 128, 512, 8), (1, 512, 512, 8)]  # (B, T, d, h)


class ByHand(nn.Module):
    """Linear, the fused kernel, Linear: the least that a layer without weights must do."""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.proj = h, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, mask):
        B, T, d = x.shape
        q, k, v = (part.view(B, T, self.h, d // self.h).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(heads.transpose(1, 2).reshape(B, T, d))


def contestants(B, T, d, h, masked, train):
    """What runs against what: {name: function}, forward alone or with the backward pass."""
    place = device()
    ours = MultiHeadAttention(d, h).to(place)
    theirs = to_torch(ours)
    by_hand = ByHand(d, h).to(place)
    x = torch.randn(B, T, d, device=place, requires_grad=train)
    mask = causal_mask(T, device=place) if masked else None
    blocked = to_torch_mask(mask) if masked else None
    roads = {
        "ours": lambda: ours(x, mask)[0],
        "nn": lambda: theirs(x, x, x, attn_mask=blocked, average_attn_weights=False)[0],
        "ours fused": lambda: ours(x, mask, need_weights=False)[0],
        "by hand": lambda: by_hand(x, mask),
    }
    return {name: (lambda road=road: road().sum().backward()) if train else road for name, road in roads.items()}


def main():
    print(f"{device().type}, {torch.get_num_threads()} threads; ratios of medians, below 1 = ours is quicker")
    print(f"{'(B, T, d, h)':22}{'mask':8}{'pass':18}{'ours / nn.MultiheadAttention':30}ours fused / by hand")
    for B, T, d, h in SIZES:
        for masked in (False, True):
            for train in (False, True):
                with torch.set_grad_enabled(train):
                    roads = contestants(B, T, d, h, masked, train)
                    ms = {}
                    for pair in (("ours", "nn"), ("ours fused", "by hand")):
                        ms |= race({name: roads[name] for name in pair}, repeats=61)
                words = ("causal" if masked else "none", "forward+backward" if train else "forward")
                print(f"{(B, T, d, h)!s:22}{words[0]:8}{words[1]:18}", end="")
                print(f"{ms['ours'] / ms['nn']:<30.2f}{ms['ours fused'] / ms['by hand']:.2f}")


if __name__ == "__main__":
    main()
