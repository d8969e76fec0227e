"""Exercises of lesson 03: split, merge, the whole of multi-head attention, and the head counts that divide."""

import math

import torch

from mha.exercises import probes
from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.exercises.lesson_01 import ATTENTION


def split_heads(x, num_heads):
    B, T, d = x.shape
    return x.view(B, T, num_heads, d // num_heads).transpose(1, 2)  # (B, T, h, d_k) → (B, h, T, d_k)


def _split_heads(x, num_heads, cut="right", end="right"):
    """The reference with options."""
    B, T, d = x.shape
    h, d_k = num_heads, d // num_heads
    if cut == "slices of the text":
        heads = x.reshape(B, h, T, d_k)
    elif cut == "every h-th":
        heads = x.reshape(B, T, d_k, h).permute(0, 3, 1, 2)
    elif cut == "tokens last":
        heads = x.reshape(B, h, d_k, T).transpose(-2, -1)
    elif cut == "columns":
        heads = x.transpose(1, 2).reshape(B, h, T, d_k)
    elif cut == "texts":
        heads = x.reshape(h, B, T, d_k).transpose(0, 1)
    else:
        heads = x.view(B, T, h, d_k).transpose(1, 2)
    if end == "sizes swapped":
        return x.reshape(B, T, d_k, h).transpose(1, 2)  # (B, d_k, T, h)
    return {
        "not moved": heads.transpose(1, 2),
        "heads first": heads.transpose(0, 1),
        "turned": heads.transpose(-2, -1),
        "batched": heads.reshape(B * h, T, d_k),
        "first": heads[:, :1],
        "reversed": heads.flip(1),
        "list": [heads[:, head] for head in range(h)],
    }.get(end, heads)


SPLIT_HEADS = Exercise(
    "3.1",
    split_heads,
    difficulty=1,
    minutes=4,
    family=_split_heads,
    inputs=lambda: {
        f"x ({B}, {T}, {d}) and {h} head{'s' * (h > 1)}": (probes.addresses(B, T, d), h)
        for B, T, d, h in ((2, 5, 12, 3), (2, 4, 6, 2), (3, 3, 8, 2), (2, 2, 12, 3), (1, 7, 4, 1))
    },
    probes=(probes.rearranged,),
    cell=probes.address,
    legend=" (token.feature)",
    hints=(
        "Each token's d features lie side by side: first head 0's d_k, then head 1's. View them in that order first.",
        "After view(B, T, h, d_k) no number has moved. Which two axes must change places to get (B, h, T, d_k)?",
    ),
    mistakes=(
        Mistake(
            "heads-are-slices-of-the-text",
            "You named the axes in the order you want, not in the order in which the numbers lie: row 1 of head 0 "
            "holds token 0. The shape is right, but each head has a slice of the text, not of the features. View as "
            "(B, T, h, d_k), then swap the token and head axes.",
            change={"cut": "slices of the text"},
        ),
        Mistake(
            "every-h-th-feature",
            "Head 0 takes features 0, h, 2h, …, wanted the first d_k in a row: with h and d_k the other way round, the "
            "cut goes through every head.",
            change={"cut": "every h-th"},
        ),
        Mistake(
            "tokens-and-features-swapped",
            "The numbers were cut as (B, h, d_k, T): rows of a head hold bits of several tokens. They lie as "
            "(B, T, h, d_k).",
            change={"cut": "tokens last"},
        ),
        Mistake(
            "transposed-before-the-cut",
            "Tokens and features changed places before the cut, so a row of a head holds one feature of many tokens. "
            "Cut the last axis first, then move the head axis.",
            change={"cut": "columns"},
        ),
        Mistake(
            "texts-mixed",
            "The head axis was cut from the front: heads of text 0 hold numbers of other texts. Leave the batch axis "
            "first.",
            change={"cut": "texts"},
        ),
        Mistake(
            "not-transposed",
            "Rightly cut, but the axes are still (B, T, h, d_k). Wanted (B, h, T, d_k): attention works on the last "
            "two axes, and those must be tokens and features.",
            change={"end": "not moved"},
        ),
        Mistake(
            "heads-before-texts",
            "The head axis stands before the batch axis, (h, B, T, d_k). Wanted (B, h, T, d_k): swap axes 1 and 2.",
            change={"end": "heads first"},
        ),
        Mistake(
            "features-before-tokens",
            "Each head is (d_k, T), turned over. Wanted (T, d_k): a row for each token.",
            change={"end": "turned"},
        ),
        Mistake(
            "sizes-swapped",
            "h and d_k changed places: d_k heads of h features. The last axis must be d / h wide.",
            change={"end": "sizes swapped"},
        ),
        Mistake(
            "heads-in-the-batch",
            "Texts and heads share one axis, (B·h, T, d_k). It can be worked with, but here the head axis stays "
            "visible: (B, h, T, d_k).",
            change={"end": "batched"},
        ),
        Mistake("one-head-only", "Only head 0 came back; wanted all h.", change={"end": "first"}),
        Mistake(
            "heads-reversed",
            "The heads come in reverse order: head 0 has the first features.",
            change={"end": "reversed"},
        ),
        Mistake(
            "list-of-heads",
            "You return a list of heads, each right; wanted one tensor, torch.stack(heads, dim=1).",
            change={"end": "list"},
        ),
    ),
)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)  # (B, h, T, d_k) → (B, T, h, d_k) → (B, T, h·d_k)


def _merge_heads(x, road="right", end="right"):
    """The reference with options."""
    B, h, T, d_k = x.shape
    merged = {
        "no transpose": lambda: x.reshape(B, T, h * d_k),
        "features first": lambda: x.permute(0, 2, 3, 1).reshape(B, T, h * d_k),
        "one transpose too many": lambda: x.permute(0, 3, 1, 2).reshape(B, T, h * d_k),
        "tokens and features": lambda: x.transpose(2, 3).reshape(B, T, h * d_k),
        "heads and features": lambda: x.transpose(1, 3).reshape(B, T, h * d_k),
        "texts": lambda: x.permute(2, 0, 1, 3).reshape(B, T, h * d_k),
        "reversed": lambda: x.flip(1).transpose(1, 2).flatten(2),
        "sum": lambda: x.sum(dim=1),
        "mean": lambda: x.mean(dim=1),
        "first": lambda: x[:, 0],
    }.get(road, lambda: x.transpose(1, 2).flatten(2))()
    if end == "not merged":
        return x.transpose(1, 2)
    return {"texts and tokens": merged.flatten(0, 1), "turned": merged.transpose(1, 2)}.get(end, merged)


def _heads(B, T, d, h):
    return split_heads(probes.addresses(B, T, d), h).contiguous()  # as attention by hand leaves it


MERGE_HEADS = Exercise(
    "3.2",
    merge_heads,
    difficulty=1,
    minutes=4,
    family=_merge_heads,
    inputs=lambda: {
        f"heads ({B}, {h}, {T}, {d // h})": (_heads(B, T, d, h),)
        for B, T, d, h in ((2, 5, 12, 3), (2, 4, 6, 2), (3, 2, 8, 2), (2, 3, 6, 2), (1, 7, 4, 1))
    },
    probes=(probes.rearranged,),
    cell=probes.address,
    legend=" (token.feature)",
    hints=(
        "Play the split backwards. What was done last there is undone first here.",
        "The last step of the split swapped the token and head axes. After swapping back, a token's numbers lie side "
        "by side.",
        "reshape(B, T, -1), or flatten(2), puts the last two axes into one. view refuses after a transpose.",
    ),
    mistakes=(
        Mistake(
            "not-transposed-back",
            "Row 0 holds head 0 of tokens 0, 1, …: the head axis was never moved back, so a row mixes tokens, and "
            "under a causal mask the future leaks in. Swap tokens and heads first, then reshape. (With one head you "
            "would never notice.)",
            change={"road": "no transpose"},
        ),
        Mistake(
            "heads-interleaved",
            "Each row holds the right token, but feature 0 of all heads, then feature 1: the head axis went to the "
            "very end. Wanted all of head 0, then all of head 1.",
            change={"road": "features first"},
        ),
        Mistake(
            "features-in-front",
            "Features were moved before the heads, so rows mix tokens. Only tokens and heads change places.",
            change={"road": "one transpose too many"},
        ),
        Mistake(
            "tokens-and-features-swapped",
            "transpose(2, 3) swaps tokens and features; wanted the token and head axes, 1 and 2.",
            change={"road": "tokens and features"},
        ),
        Mistake(
            "heads-and-features-swapped",
            "transpose(1, 3) swaps heads and features; wanted the token and head axes, 1 and 2.",
            change={"road": "heads and features"},
        ),
        Mistake(
            "texts-mixed",
            "The batch axis moved, and rows of text 0 hold other texts. It stays first.",
            change={"road": "texts"},
        ),
        Mistake("heads-reversed", "Heads come in reverse order: head 0 goes first.", change={"road": "reversed"}),
        Mistake(
            "heads-summed",
            "The heads were added up: d_k numbers are left of h·d_k. Put them side by side.",
            change={"road": "sum"},
        ),
        Mistake(
            "heads-averaged",
            "The heads were averaged: d_k numbers are left of h·d_k. Put them side by side.",
            change={"road": "mean"},
        ),
        Mistake("one-head-only", "Only head 0 is left; wanted all heads side by side.", change={"road": "first"}),
        Mistake(
            "not-merged",
            "Rightly moved, but there are still four axes, (B, T, h, d_k). Put the last two into one.",
            change={"end": "not merged"},
        ),
        Mistake(
            "batch-lost",
            "Texts and tokens share an axis; wanted (B, T, h·d_k).",
            change={"end": "texts and tokens"},
        ),
        Mistake("turned", "The result is (B, h·d_k, T), turned over; wanted (B, T, h·d_k).", change={"end": "turned"}),
    ),
)


def multi_head_attention(x, w_qkv, w_out, num_heads, mask=None):
    B, T, d = x.shape
    parts = (x @ w_qkv.T).chunk(3, dim=-1)  # nn.Linear stores (out, in); three times (B, T, d)
    q, k, v = (part.view(B, T, num_heads, d // num_heads).transpose(1, 2) for part in parts)  # (B, h, T, d_k)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d // num_heads)  # (B, h, T, T)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    context = scores.softmax(dim=-1) @ v  # (B, h, T, d_k)
    return context.transpose(1, 2).reshape(B, T, d) @ w_out.T


def _multi_head_attention(
    x,
    w_qkv,
    w_out,
    num_heads,
    mask=None,
    qkv="right",
    order="qkv",
    split="right",
    scale="right",
    hide="before",
    axis=-1,
    merge="right",
    out="right",
    end="right",
):
    """The reference with options."""
    B, T, d = x.shape
    h = 1 if split == "one head" else num_heads
    d_k = d // h
    if qkv == "sliced":  # each head sees its own features alone, through one small matrix shared by all
        parts = [torch.cat([s @ w_qkv[i * d : i * d + d_k, :d_k].T for s in x.chunk(h, -1)], -1) for i in range(3)]
    elif order == "by head":
        parts = (x @ w_qkv.T).view(B, T, h, 3, d_k).unbind(3)
        parts = [part.flatten(2) for part in parts]
    else:
        weight = w_qkv.reshape(d, 3 * d) if qkv == "reshaped" else w_qkv.T
        parts = (x @ (w_qkv if qkv == "not transposed" else weight)).chunk(3, dim=-1)
    q, k, v = (parts["qkv".index(letter)] for letter in (order if order != "by head" else "qkv"))
    cut = {
        "slices of the text": lambda t: t.reshape(B, h, T, d_k),
        "slices both ways": lambda t: t.reshape(B, h, T, d_k),
        "every h-th": lambda t: t.view(B, T, d_k, h).permute(0, 3, 1, 2),
        "heads among themselves": lambda t: t.view(B, T, h, d_k),
        "sizes swapped": lambda t: t.view(B, T, d_k, h).transpose(1, 2),
    }.get(split, lambda t: t.view(B, T, h, d_k).transpose(1, 2))
    q, k, v = map(cut, (q, k, v))
    factor = {"none": 1, "√d": 1 / math.sqrt(d), "d_k": 1 / d_k, "times": math.sqrt(d_k), "√T": 1 / math.sqrt(T)}
    scores = q @ k.transpose(-2, -1) * factor.get(scale, 1 / math.sqrt(d_k))
    if mask is not None and scores.shape[-2:] == (T, T):
        if hide in ("before", "inverted"):
            scores = scores.masked_fill(mask if hide == "inverted" else ~mask, float("-inf"))
        elif hide == "added":
            scores = scores + mask
        elif hide == "zeroed":
            scores = scores * mask
        elif hide == "minus 1e9":
            scores = scores.masked_fill(~mask, -1e9)
    weights = scores if axis is None else scores.softmax(dim=axis)
    if mask is not None and hide == "after":
        weights = weights * mask
    context = weights @ v
    if split in ("heads among themselves", "slices both ways") or merge == "no transpose":
        merged = context.reshape(B, T, d)
    elif merge == "features first":
        merged = context.permute(0, 2, 3, 1).reshape(B, T, d)
    elif merge == "mean":
        merged = context.mean(dim=1).repeat(1, 1, h)
    else:
        merged = context.transpose(1, 2).reshape(B, T, d)
    if out == "sliced":
        output = torch.cat([part @ w_out[:d_k, :d_k].T for part in merged.chunk(h, -1)], -1)
    else:
        output = merged if out == "left out" else merged @ (w_out if out == "not transposed" else w_out.T)
    return {"residual": x + output, "tuple": (output, weights), "values added": v}.get(end, output)


def _layer_inputs():
    def draw(seed, B, T, d, h):
        # Large enough that weights are far from even, small enough that exp does not overflow.
        return (
            random_tensor(seed, B, T, d),
            random_tensor(seed + 1, 3 * d, d) / d**0.5,
            random_tensor(seed + 2, d, d),
            h,
        )

    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    padding = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]  # (B, 1, 1, T)
    per_head = torch.tensor([[[1, 0, 0], [0, 1, 1], [1, 1, 0]], [[1, 1, 0], [1, 0, 0], [0, 1, 1]]]).bool()[None]
    half = tuple(t.half() if isinstance(t, torch.Tensor) else t for t in draw(40, 2, 6, 12, 3))
    return {
        "x (2, 5, 12), 3 heads": draw(10, 2, 5, 12, 3),
        "x (3, 6, 10), 2 heads, a causal mask": (*draw(20, 3, 6, 10, 2), causal),
        "x (2, 5, 12), 2 heads, a padding mask": (*draw(30, 2, 5, 12, 2), padding),
        "x (2, 4, 8), 4 heads": draw(50, 2, 4, 8, 4),
        "x (2, 3, 4), 1 head": draw(70, 2, 3, 4, 1),
        "x (1, 3, 6), 2 heads, a mask per head (1, 2, 3, 3)": (*draw(60, 1, 3, 6, 2), per_head),
        "x (2, 6, 12), 3 heads, half precision, a causal mask": (*half, causal),
    }


OF_ATTENTION = [
    mistake for mistake in ATTENTION.mistakes if "hide" in mistake.change or mistake.change.get("axis", 1) in (-2, None)
]

MULTI_HEAD_ATTENTION = Exercise(
    "3.3",
    multi_head_attention,
    difficulty=3,
    minutes=8,
    family=_multi_head_attention,
    inputs=_layer_inputs,
    probes=(probes.receptive_field, probes.blind_features, probes.hidden_scale),
    tolerance=1e-3,
    hints=(
        "Five steps: project x once, cut the product in three, split each into heads, attend, merge and project. "
        "Write the shape beside each line.",
        "nn.Linear stores (out, in): w_qkv is (3d, d), so the product is x @ w_qkv.T, (B, T, 3d). "
        "Then chunk(3, dim=-1).",
        "my_split_heads and my_merge_heads do two of the steps; scaled_dot_product_attention returns two things, of "
        "which the first is wanted. In the end comes @ w_out.T.",
    ),
    mistakes=(
        Mistake(
            "w-qkv-not-transposed",
            "x @ w_qkv does not fit: nn.Linear stores (out, in), here (3d, d). The product is x @ w_qkv.T.",
            change={"qkv": "not transposed"},
        ),
        Mistake(
            "w-qkv-reshaped",
            "w_qkv was reshaped to (d, 3d) to make the product possible, which shuffles its numbers. Turn it: w_qkv.T.",
            change={"qkv": "reshaped"},
        ),
        Mistake(
            "embedding-sliced",
            "The embedding was sliced into heads before it was projected, so that head 0 is blind to the other "
            "features. Project the whole, then split.",
            change={"qkv": "sliced"},
        ),
        Mistake(
            "keys-before-queries",
            "The product was cut as K, Q, V; the layout is [Q | K | V].",
            change={"order": "kqv"},
        ),
        Mistake(
            "values-before-keys",
            "The product was cut as Q, V, K; the layout is [Q | K | V].",
            change={"order": "qvk"},
        ),
        Mistake("values-first", "The product was cut as V, K, Q; the layout is [Q | K | V].", change={"order": "vkq"}),
        Mistake(
            "interleaved-layout",
            "w_qkv was read head by head, [q₀ k₀ v₀ q₁ …]. Here all queries come first, then all keys: cut in three, "
            "then into heads.",
            change={"order": "by head"},
        ),
        Mistake(
            "heads-are-slices-of-the-text",
            "view(B, h, T, d_k) names the axes in another order than the numbers lie: each head got a slice of the "
            "text. View as (B, T, h, d_k), then transpose(1, 2).",
            change={"split": "slices of the text"},
        ),
        Mistake(
            "tokens-in-slices-both-ways",
            "Split and merged without a transpose: the shapes are right, and token 0 can never see the last tokens. "
            "The heads are slices of the text, not of the features.",
            change={"split": "slices both ways"},
        ),
        Mistake(
            "every-h-th-feature",
            "Head 0 takes features 0, h, 2h, …: h and d_k stand the wrong way round in the split.",
            change={"split": "every h-th"},
        ),
        Mistake(
            "sizes-swapped",
            "h and d_k changed places in the split: d_k heads of h numbers. The last axis is d / h wide.",
            change={"split": "sizes swapped"},
        ),
        Mistake(
            "heads-among-themselves",
            "q, k and v were left as (B, T, h, d_k), so each token's heads attend to each other and never to another "
            "token. Scores must be T × T: transpose(1, 2) first.",
            change={"split": "heads among themselves"},
        ),
        Mistake(
            "one-head",
            "This is attention with a single head, d wide: num_heads changes nothing.",
            change={"split": "one head"},
        ),
        Mistake(
            "no-scale",
            "The scores are not divided by √d_k: weights come out too peaked.",
            change={"scale": "none"},
        ),
        Mistake(
            "divided-by-root-d",
            "The scores are divided by √d, wanted √d_k, the width of one head: log-ratios of weights are 1/√h of the "
            "right ones. With one head you would never notice.",
            change={"scale": "√d"},
        ),
        Mistake(
            "divided-by-d_k",
            "The scores are divided by d_k, wanted √d_k: weights come out too even.",
            change={"scale": "d_k"},
        ),
        Mistake(
            "multiplied-by-root",
            "The scores are multiplied by √d_k (or divided by d_k ** -0.5, which is the same); wanted divided.",
            change={"scale": "times"},
        ),
        Mistake(
            "divided-by-root-T",
            "The scores are divided by √T, the number of tokens; wanted √d_k.",
            change={"scale": "√T"},
        ),
        *OF_ATTENTION,
        Mistake(
            "softmax-over-heads",
            "Softmax ran over axis 1, the heads: they compete for attention. Normalise over keys, axis -1.",
            change={"axis": 1},
        ),
        Mistake(
            "not-transposed-back",
            "Merged without transposing back: row 0 holds several tokens of head 0, and under a causal mask the future "
            "leaks in. transpose(1, 2) first, then reshape.",
            change={"merge": "no transpose"},
        ),
        Mistake(
            "heads-interleaved",
            "Merged feature by feature, not head by head: w_out meets its numbers in the wrong order.",
            change={"merge": "features first"},
        ),
        Mistake("heads-averaged", "The heads were averaged; wanted side by side.", change={"merge": "mean"}),
        Mistake(
            "w-out-left-out",
            "The last product is missing: w_out mixes what the heads found.",
            change={"out": "left out"},
        ),
        Mistake(
            "w-out-not-transposed",
            "merged @ w_out: the square matrix fits either way, but nn.Linear stores (out, in). Wanted w_out.T.",
            change={"out": "not transposed"},
        ),
        Mistake(
            "residual-added",
            "x was added to the output: a block does that, this function does not.",
            change={"end": "residual"},
        ),
        Mistake("weights-returned-too", "Two results came back; wanted the output alone.", change={"end": "tuple"}),
    ),
)


def allowed_heads(d_model):
    return [h for h in range(1, d_model + 1) if d_model % h == 0]


def _heads_list(found):
    """Tuples, ranges, tensors and arrays of whole numbers are as good as a list."""
    if getattr(found, "ndim", 0) == 1:
        return found.tolist()
    return list(found) if isinstance(found, tuple | range) else found


ALLOWED_HEADS = Exercise(
    "3.4",
    allowed_heads,
    difficulty=1,
    minutes=2,
    read=_heads_list,
    probes=(probes.missing_or_extra,),
    inputs=lambda: {f"d_model = {d}": (d,) for d in (12, 1, 7, 16, 36, 510)},
    hints=(
        "h heads fit when d_model leaves no remainder: d_model % h == 0.",
        "Try every h from 1 up to and including d_model; range stops before its end.",
    ),
    mistakes=(
        Mistake(
            "d-model-left-out",
            "d_model itself is missing: d heads one number wide. The search must go up to and including d_model.",
            lambda d: [h for h in range(1, d) if d % h == 0],
        ),
        Mistake(
            "one-left-out",
            "1 is missing: one head as wide as the model is allowed.",
            lambda d: [h for h in range(2, d + 1) if d % h == 0],
        ),
        Mistake(
            "both-ends-left-out",
            "1 and d_model are missing: both divide d_model.",
            lambda d: [h for h in range(2, d) if d % h == 0],
        ),
        Mistake(
            "stops-at-the-root",
            "It stops at √d_model: every divisor below has a partner above, d_model // h.",
            lambda d: [h for h in range(1, math.isqrt(d) + 1) if d % h == 0],
        ),
        Mistake(
            "powers-of-two",
            "Only powers of two; 3 heads of 4 numbers make 12 as well.",
            lambda d: [h for h in (2**i for i in range(20)) if d % h == 0],
        ),
        Mistake(
            "even-only",
            "Only even head counts; odd ones may divide, too.",
            lambda d: [h for h in range(2, d + 1, 2) if d % h == 0],
        ),
        Mistake(
            "head-widths",
            "In falling order, as the widths d_model / h come; wanted the counts, rising.",
            lambda d: [d // h for h in range(1, d + 1) if d % h == 0],
        ),
        Mistake(
            "the-others",
            "These are the counts that leave a remainder: != stands where == is wanted.",
            lambda d: [h for h in range(1, d + 1) if d % h != 0],
        ),
        Mistake("all-counts", "All counts up to d_model: nothing is tested.", lambda d: list(range(1, d + 1))),
        Mistake(
            "upside-down",
            "h % d_model was tested; wanted d_model % h.",
            lambda d: [h for h in range(1, d + 1) if h % d == 0],
        ),
        Mistake("how-many", "This is how many there are; wanted the list.", lambda d: len(allowed_heads(d))),
        Mistake("a-set", "A set has no order; wanted a list in rising order.", lambda d: set(allowed_heads(d))),
        Mistake(
            "a-generator",
            "A generator is used up after one look; wanted a list.",
            lambda d: (h for h in allowed_heads(d)),
        ),
    ),
)

EXERCISES = (SPLIT_HEADS, MERGE_HEADS, MULTI_HEAD_ATTENTION, ALLOWED_HEADS)
