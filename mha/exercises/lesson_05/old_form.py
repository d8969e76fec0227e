"""Exercises of lesson 05: masks for nn.MultiheadAttention, and two layouts of its weights."""

import torch

from mha.exercises import probes
from mha.exercises.exercise import Exercise, Mistake


def turned_over(attempt):
    for mine, want, case in attempt.triples():
        if torch.equal(~mine, want):
            return "turned-over", f"On {case} every entry is inverted: True must mean blocked."
    for mine, want, case in attempt.triples():
        if not torch.equal(mine, want):
            free = (want & ~mine).sum().item()
            what = f"{free} entries that must be blocked are free" if free else "entries are blocked that must be free"
            return "wrong-entries", f"On {case}, {what}."
    return None


def rearranged_rows(attempt):
    """For a matrix cut in three: which rows went where."""
    for mine, want, case in attempt.triples():
        for name, a, b in zip("QKV", mine, want, strict=True):
            wrong = (a != b).any(dim=-1).nonzero()
            if len(wrong):
                head, row = wrong[0].tolist()
                first, wanted = a[head, row], b[head, row]
                if not torch.equal(first % 100, wanted % 100):
                    return "columns-moved", f"On {case}, the columns of {name} moved: only rows should be regrouped."
                says = f"row {row} of {name} of head {head} is row {int(first[0]) // 100} of the matrix"
                return "wrong-rows", f"On {case}, {says}; wanted row {int(wanted[0]) // 100}."
    return None


def to_torch_mask(mask):
    blocked = ~mask  # nn.MultiheadAttention: True = blocked
    if blocked.dim() == 2:
        return blocked  # (T, S), its attn_mask
    if blocked.shape[1:3] == (1, 1):
        return blocked[:, 0, 0]  # (B, 1, 1, S) → (B, S), its key_padding_mask
    return blocked.flatten(0, 1)  # (B, h, T, S) → (B·h, T, S), its attn_mask


def _to_torch_mask(mask, turn="right", fold="right", end="right"):
    """The reference with options."""
    blocked = mask if turn == "not" else ~mask
    if turn == "padding only" and mask.dim() == 2:
        blocked = mask
    if turn == "causal only" and mask.dim() == 4:
        blocked = mask
    if blocked.dim() == 4:
        if fold == "not":
            pass
        elif blocked.shape[1:3] == (1, 1):
            if fold == "queries kept":
                blocked = blocked[:, 0]
            elif fold == "flat":
                blocked = blocked.flatten()
            elif fold == "squeezed":
                blocked = blocked.squeeze()
            else:
                blocked = blocked[:, 0, 0]
        elif fold == "head 0":
            blocked = blocked[:, 0]
        elif fold == "any head":
            blocked = blocked.any(dim=1)
        elif fold == "heads outside":
            blocked = blocked.transpose(0, 1).flatten(0, 1)
        elif fold == "first text":
            blocked = blocked[0]
        else:
            blocked = blocked.flatten(0, 1)
    if end == "turned":
        return blocked.transpose(-2, -1)
    return {"float": blocked.float(), "0 and 1 turned": (~blocked).float()}.get(end, blocked)


def _as_blocked(mask):
    """A table to be added, 0 and −∞ (or the lowest number), blocks just as well as booleans."""
    if isinstance(mask, torch.Tensor) and mask.is_floating_point():
        low = mask < -1e4
        if low.any() and mask[~low].eq(0).all():
            return low
    return mask


def _mask_inputs():
    rand = torch.Generator().manual_seed(3)
    return {
        "a causal mask (5, 5)": (torch.ones(5, 5, dtype=torch.bool).tril(),),
        "a padding mask (3, 1, 1, 6)": ((torch.arange(6) < torch.tensor([6, 4, 1])[:, None])[:, None, None],),
        "a mask per head (2, 3, 4, 5)": (torch.rand(2, 3, 4, 5, generator=rand) < 0.6,),
        "a mask per head (2, 2, 3, 4)": (torch.rand(2, 2, 3, 4, generator=rand) < 0.6,),
        "a mask per head (2, 3, 1, 5), one query": (torch.rand(2, 3, 1, 5, generator=rand) < 0.6,),
        "a padding mask (1, 1, 1, 6), one text": ((torch.arange(6) < 4)[None, None, None],),
        "a mask per head (1, 2, 3, 4), one text": (torch.rand(1, 2, 3, 4, generator=rand) < 0.6,),
        "a mask of one query (1, 5)": (torch.tensor([[True, True, False, True, True]]),),
        "a mask with a cache (3, 5)": (torch.ones(3, 5, dtype=torch.bool).tril(2),),
    }


TO_TORCH_MASK = Exercise(
    "5.1",
    to_torch_mask,
    difficulty=2,
    minutes=5,
    family=_to_torch_mask,
    inputs=_mask_inputs,
    read=_as_blocked,
    probes=(turned_over,),
    cell=lambda value: f"{value:g}",
    legend=" (1 = True)",
    hints=(
        "First the meaning: True = may attend here, True = blocked there. One sign inverts a table of booleans: ~.",
        "Then the shapes. attn_mask takes (T, S) or (B·h, T, S); key_padding_mask takes (B, S). Look at mask.dim() and "
        "at the axes of size 1.",
        "flatten(0, 1) puts texts and heads into one axis, all heads of text 0 first, as nn.MultiheadAttention does.",
    ),
    mistakes=(
        Mistake(
            "not-turned-over",
            "The shapes are right and the meaning is not: True (or −∞) must stand on what is blocked.",
            change={"turn": "not"},
        ),
        Mistake(
            "causal-not-turned-over",
            "Masks with four axes are inverted, those with two are not.",
            change={"turn": "padding only"},
        ),
        Mistake(
            "padding-not-turned-over",
            "Masks with two axes are inverted, those with four are not.",
            change={"turn": "causal only"},
        ),
        Mistake(
            "shape-unchanged",
            "Inverted, but still with four axes: it takes (B, S) for padding and (B·h, T, S) per head.",
            change={"fold": "not"},
        ),
        Mistake(
            "padding-with-query-axis",
            "A padding mask came out as (B, 1, S); key_padding_mask is (B, S), one row per text.",
            change={"fold": "queries kept"},
        ),
        Mistake(
            "padding-flattened",
            "A padding mask came out flat; wanted (B, S), one row per text.",
            change={"fold": "flat"},
        ),
        Mistake(
            "squeezed",
            "squeeze takes away every axis of size 1: with one text the batch axis goes, too, and (1, 1, 1, S) becomes "
            "(S,). Name the axes: [:, 0, 0].",
            change={"fold": "squeezed"},
        ),
        Mistake(
            "head-0-for-all",
            "Only head 0's table is kept; wanted one for each head, (B·h, T, S).",
            change={"fold": "head 0"},
        ),
        Mistake(
            "heads-joined",
            "The heads' tables were joined to one; wanted one for each, (B·h, T, S).",
            change={"fold": "any head"},
        ),
        Mistake(
            "heads-outside",
            "The first axis runs over texts inside heads; wanted all heads of text 0 first, then those of text 1.",
            change={"fold": "heads outside"},
        ),
        Mistake("text-0-for-all", "Only text 0's tables are kept; wanted (B·h, T, S).", change={"fold": "first text"}),
        Mistake("transposed", "Queries and keys changed places: rows stay queries.", change={"end": "turned"}),
        Mistake(
            "floats-of-0-and-1",
            "Numbers 0 and 1 block nothing: as floats they are *added* to the scores, whole ones are refused. Return "
            "booleans, ~mask, or a table of 0 and −∞.",
            change={"end": "float"},
        ),
        Mistake(
            "floats-not-turned-over",
            "Numbers 0 and 1 block nothing (floats are *added* to the scores, whole ones refused), and 1 stands on "
            "what may be seen. Use ~mask.",
            change={"end": "0 and 1 turned"},
        ),
    ),
)


def qkv_from_torch(in_proj_weight, num_heads):
    d = in_proj_weight.size(1)
    blocks = in_proj_weight.view(3, num_heads, d // num_heads, d)  # [Q | K | V], heads inside each
    return blocks[0], blocks[1], blocks[2]  # each (h, d_k, d)


def qkv_from_interleaved(weight, num_heads):
    d = weight.size(1)
    heads = weight.view(num_heads, 3, d // num_heads, d)  # head by head, q, k and v inside each
    return heads[:, 0], heads[:, 1], heads[:, 2]  # each (h, d_k, d)


def _qkv(weight, num_heads, layout="blocks", order=(0, 1, 2), end="right"):
    """Both references with options."""
    d, h = weight.size(1), num_heads
    if layout == "blocks":
        parts = weight.reshape(3, h, d // h, d)
    elif layout == "by head":
        parts = weight.reshape(h, 3, d // h, d).transpose(0, 1)
    elif layout == "by row":
        parts = weight.reshape(h, d // h, 3, d).permute(2, 0, 1, 3)
    elif layout == "every third":
        parts = weight.reshape(d // h, h, 3, d).permute(2, 1, 0, 3)
    elif layout == "heads innermost":
        parts = weight.reshape(3, d // h, h, d).transpose(1, 2)
    parts = tuple(parts[i] for i in order)
    change = {
        "whole": lambda part: part.reshape(d, d),
        "turned": lambda part: part.transpose(-2, -1),
        "columns": lambda part: part.reshape(d, h, d // h).transpose(0, 1),
        "head 0": lambda part: part[0],
    }.get(end, lambda part: part)
    return tuple(change(part) for part in parts)


def _triple(value):
    """A list, or one tensor with three parts in front, is as good as a tuple."""
    if isinstance(value, list) or (isinstance(value, torch.Tensor) and value.dim() == 4 and len(value) == 3):
        return tuple(value)
    return value


def _weight_inputs():
    sizes = ((12, 3), (8, 2), (9, 3), (12, 2), (6, 1))
    return {
        f"a weight ({3 * d}, {d}), {h} head{'s' * (h > 1)}": (probes.addresses(1, 3 * d, d)[0], h) for d, h in sizes
    }


ORDER = (
    Mistake("keys-before-queries", "The parts come as K, Q, V; wanted Q, K, V.", change={"order": (1, 0, 2)}),
    Mistake("values-before-keys", "The parts come as Q, V, K; wanted Q, K, V.", change={"order": (0, 2, 1)}),
    Mistake("values-first", "The parts come as V, K, Q; wanted Q, K, V.", change={"order": (2, 1, 0)}),
    Mistake("queries-three-times", "All three parts are Q.", change={"order": (0, 0, 0)}),
    Mistake(
        "heads-not-cut",
        "Q, K and V are still whole, (d, d); wanted one matrix per head, (h, d_k, d).",
        change={"end": "whole"},
    ),
    Mistake(
        "transposed",
        "Each head's matrix is (d, d_k), turned over; nn.Linear stores (out, in), so (d_k, d).",
        change={"end": "turned"},
    ),
    Mistake(
        "columns-cut",
        "The columns were cut, which are the input features; a head's own are rows, the outputs.",
        change={"end": "columns"},
    ),
    Mistake("one-head-only", "Only head 0 came back; wanted all, (h, d_k, d).", change={"end": "head 0"}),
)
PARTS = ("query weights", "key weights", "value weights")

QKV = Exercise(
    "5.2",
    qkv_from_torch,
    difficulty=2,
    minutes=4,
    family=_qkv,
    inputs=_weight_inputs,
    read=_triple,
    probes=(rearranged_rows,),
    parts=PARTS,
    cell=probes.address,
    legend=" (row.column)",
    hints=(
        "The rows are outputs. The first d make queries, the next d keys, the last d values: chunk(3).",
        "Inside each, heads lie one after the other, d_k rows each: view(num_heads, d_k, d).",
    ),
    mistakes=(
        Mistake(
            "interleaved-layout",
            "The rows were read head by head, [q₀ k₀ v₀ q₁ …]. In this layout all queries come first.",
            change={"layout": "by head"},
        ),
        Mistake(
            "every-third-row",
            "Every third row was taken for Q. Queries are one block of d rows.",
            change={"layout": "by row"},
        ),
        Mistake(
            "heads-innermost",
            "Head 0 takes every h-th row of Q; its rows lie together, d_k in a row.",
            change={"layout": "heads innermost"},
        ),
        *ORDER,
    ),
)

INTERLEAVED = Exercise(
    "5.3",
    qkv_from_interleaved,
    difficulty=2,
    minutes=4,
    family=lambda weight, num_heads, layout="by head", **options: _qkv(weight, num_heads, layout, **options),
    inputs=_weight_inputs,
    read=_triple,
    probes=(rearranged_rows,),
    parts=PARTS,
    cell=probes.address,
    legend=" (row.column)",
    hints=(
        "Now the outermost cut is by head: 3·d_k rows for head 0, then as many for head 1.",
        "Inside a head come q, k, v: view(num_heads, 3, d_k, d). Which axis do you then choose from?",
    ),
    mistakes=(
        Mistake(
            "block-layout",
            "The rows were read as [Q | K | V]. In this layout each head brings its own q, k and v.",
            change={"layout": "blocks"},
        ),
        Mistake(
            "every-third-row",
            "Every third row was taken for q. Inside a head, q is d_k rows together.",
            change={"layout": "by row"},
        ),
        Mistake(
            "heads-innermost",
            "Read as blocks of Q, K and V with the heads inside alternating; wanted head by head.",
            change={"layout": "heads innermost"},
        ),
        *ORDER,
    ),
)

EXERCISES = (TO_TORCH_MASK, QKV, INTERLEAVED)
