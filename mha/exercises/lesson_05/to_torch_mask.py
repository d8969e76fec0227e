"""Exercise 5.1: a mask of this course for nn.MultiheadAttention."""

import torch

import mha.torch_bridge
from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.exercises.probes import wrong_cells


def to_torch_mask(mask):
    blocked = ~mask  # nn.MultiheadAttention: True = blocked
    if blocked.dim() == 2:
        return blocked  # (T, S), its attn_mask
    if blocked.shape[1:3] == (1, 1):
        return blocked[:, 0, 0]  # (B, 1, 1, S) → (B, S), its key_padding_mask
    return blocked.flatten(0, 1)  # (B, h, T, S) → (B·h, T, S), its attn_mask


def _as_blocked(mask):
    """A table to be added, 0 and −∞ (or the lowest number), blocks just as well as booleans."""
    if isinstance(mask, torch.Tensor) and mask.is_floating_point():
        low = mask < -1e4
        if low.any() and mask[~low].eq(0).all():
            return low
    return mask


def _draw(*shapes):
    return [(random_tensor(3, *shape) < 0.3,) for shape in shapes]


def turned_over(attempt):
    for mine, want, case in attempt.triples():
        if torch.equal(~mine, want):
            return "turned-over", f"On {case} every entry is inverted: True must mean blocked."
    return None


# fmt: off
KINDS = {
    "a mask for all": ((5, 5), (3, 5), (1, 5)),
    "a padding mask": ((3, 1, 1, 6), (1, 1, 1, 6)),
    "a mask per head": ((2, 3, 4, 5), (2, 2, 3, 4), (2, 3, 1, 5), (1, 2, 3, 4)),
}
FRESH = (4, 6), (5, 1, 1, 4), (3, 4, 5, 2), (3, 2, 1, 4), (5, 4, 1, 2), (1, 1, 1, 4), (1, 3, 2, 4), (1, 4)
EXERCISE = Exercise(
    "5.1", to_torch_mask, difficulty=2, minutes=5, read=_as_blocked, probes=(
        turned_over, wrong_cells(("wrong-entries", "blocks what must be free"), ("wrong-entries", "does not block")),
    ),
    cell="{:g}".format, legend=" (1 = True)", fresh=lambda: _draw(*FRESH),
    inputs=lambda: {f"{kind} {shape}": _draw(shape)[0] for kind, shapes in KINDS.items() for shape in shapes},
    hints=(
        "First the meaning: True = may attend here, True = blocked there. One sign inverts a table of booleans: ~.",
        "Then the shapes. attn_mask takes (T, S) or (B·h, T, S); key_padding_mask takes (B, S). Look at mask.dim() and "
        "at the axes of size 1.",
        "flatten(0, 1) puts texts and heads into one axis, all heads of text 0 first, as nn.MultiheadAttention does.",
    ),
    mistakes=(
        Mistake("not-turned-over", "The shapes are right and the meaning is not: True (or −∞) must stand on what is "
            "blocked.", ("~mask", "mask")),
        Mistake("causal-not-turned-over", "Masks with four axes are inverted, those with two are not.",
            ("~mask", "mask if mask.dim() == 2 else ~mask")),
        Mistake("padding-not-turned-over", "Masks with two axes are inverted, those with four are not.",
            ("~mask", "mask if mask.dim() == 4 else ~mask")),
        Mistake("shape-unchanged", "Inverted, but still with four axes: it takes (B, S) for padding and (B·h, T, S) "
            "per head.", ("[:, 0, 0]", ""), (".flatten(0, 1)", "")),
        Mistake("padding-with-query-axis", "A padding mask came out as (B, 1, S); key_padding_mask is (B, S), one row "
            "per text.", ("[:, 0, 0]", "[:, 0]")),
        Mistake("padding-flattened", "A padding mask came out flat; wanted (B, S), one row per text.",
            ("[:, 0, 0]", ".flatten()")),
        Mistake("squeezed", "squeeze takes away every axis of size 1: with one text the batch axis goes, too, and (1, "
            "1, 1, S) becomes (S,). Name the axes: [:, 0, 0].", ("[:, 0, 0]", ".squeeze()")),
        Mistake("head-0-for-all", "Only head 0's table is kept; wanted each head's.", (".flatten(0, 1)", "[:, 0]")),
        Mistake("heads-joined", "The heads' tables were joined to one; wanted one for each, (B·h, T, S).",
            (".flatten(0, 1)", ".any(dim=1)")),
        Mistake("heads-outside", "The first axis runs over texts inside heads; wanted all heads of text 0 first, then "
            "those of text 1.", (".flatten(0, 1)", ".transpose(0, 1).flatten(0, 1)")),
        Mistake("text-0-for-all", "Only text 0's tables are kept; wanted (B·h, T, S).", (".flatten(0, 1)", "[0]")),
        Mistake("transposed", "Queries and keys changed places: rows stay queries.",
            ("  # (T,", ".mT  # (T,"), ("  # (B, 1", ".mT  # (B, 1"), ("  # (B, h", ".mT  # (B, h")),
        Mistake("floats-of-0-and-1", "Numbers 0 and 1 block nothing: as floats they are *added* to the scores, whole "
            "ones are refused. Return booleans, ~mask, or a table of 0 and −∞.",
            ("= blocked\n", "= blocked\n    blocked = blocked.float()\n")),
        Mistake("floats-not-turned-over", "Numbers 0 and 1 block nothing (floats are *added* to the scores, whole ones "
            "refused), and 1 stands on what may be seen. Use ~mask.",
            ("= blocked\n", "= blocked\n    blocked = (~blocked).float()\n")),
    ),
    right=(
        mha.torch_bridge.to_torch_mask,
        lambda m: torch.where(m, 0.0, -torch.inf).flatten(0, -2 if m.dim() == 2 or m.shape[1:3] == (1, 1) else 1),
    ),
)
