"""Exercises of lesson 01: attention with a mask, and the causal mask."""

import math

import torch

from mha.exercises import probes
from mha.exercises.exercise import Exercise, Mistake, random_tensor


def attention(q, k, v, mask=None):
    shares = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).exp()  # (…, T, S), all positive
    if mask is not None:
        shares = shares * mask  # hidden keys get nothing, before the row is divided by its sum
    weights = shares / shares.sum(dim=-1, keepdim=True)
    return weights @ v, weights


def _attention(q, k, v, mask=None, scale=lambda d_k: 1 / math.sqrt(d_k), axis=-1, hide="before", end="right", turn="k"):
    """The reference with options."""
    if turn == "k":
        scores = q @ k.transpose(-2, -1)
    elif turn == "q":
        scores = k @ q.transpose(-2, -1)
    else:
        scores = q @ k.permute(*range(k.dim() - 1, -1, -1))  # k.T
    scores = scores * scale(q.size(-1))
    if mask is not None:
        if hide in ("before", "inverted"):
            scores = scores.masked_fill(mask if hide == "inverted" else ~mask, float("-inf"))
        elif hide == "added":
            scores = scores + mask
        elif hide == "zeroed":
            scores = scores * mask
        elif hide == "minus 1e9":
            scores = scores.masked_fill(~mask, -1e9)
    if axis is None:
        weights = scores
    elif axis == "all":
        weights = scores.flatten(-2).softmax(dim=-1).unflatten(-1, scores.shape[-2:])
    elif axis == "sum":
        weights = scores / scores.sum(dim=-1, keepdim=True)
    else:
        weights = scores.softmax(dim=axis)
    if mask is not None and hide == "after":
        weights = weights * mask
    if end == "swapped":
        return weights, weights @ v
    if end == "context alone":
        return weights @ v
    if end == "undivided":
        return scores.exp() @ v, weights
    if end == "scores":
        return weights @ v, scores
    return weights @ {"keys": k, "queries": q}.get(end, v), weights


def _attention_inputs():
    def draw(seed, T, S, d_k, d_v, *leading):
        shapes = (T, d_k), (S, d_k), (S, d_v)
        return tuple(random_tensor(seed + i, *leading, *shape) for i, shape in enumerate(shapes))

    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    padding = (torch.arange(6) < torch.tensor([6, 4])[:, None])[:, None, None]  # (B, 1, 1, S)
    half = tuple(table.half() for table in draw(40, 5, 5, 8, 8))
    return {
        "one table, no mask": draw(10, 4, 4, 3, 3),
        "one table under a causal mask": (*draw(20, 5, 5, 8, 8), causal),
        "2 texts × 3 heads with a padding mask, 4 queries and 6 keys": (*draw(30, 4, 6, 5, 7, 2, 3), padding),
        "half precision under a causal mask": (*half, causal),
    }


ATTENTION = Exercise(
    "1.1",
    attention,
    difficulty=2,
    minutes=6,
    family=_attention,
    inputs=_attention_inputs,
    read=lambda value: tuple(value) if isinstance(value, list) else value,
    parts=("context", "weights"),
    look_at=1,
    probes=(probes.hidden_weight, probes.row_sums, probes.wrong_scale, probes.another_function),
    hints=(
        "Softmax of a row is exp of each score, divided by the sum of the row. Write these two as two lines first.",
        "A hidden key must have share 0, and must not be in the sum either. So: exp, then the mask, then the sum.",
        "The sum runs over keys, the last axis: shares.sum(dim=-1, keepdim=True). To turn k over, swap its last two "
        "axes, transpose(-2, -1), whatever comes before them. In half precision all that you build must be half, "
        "too: a mask of booleans multiplies without changing that.",
    ),
    mistakes=(
        Mistake(
            "no-scale",
            "The scores are not divided by √d_k: log-ratios of two weights are √d_k times too large. The wider the "
            "head, the more one token takes it all.",
            change={"scale": lambda d_k: 1},
        ),
        Mistake(
            "divided-by-d_k",
            "The scores are divided by d_k, wanted √d_k: weights come out too even. The spread of a dot product grows "
            "with the root of its length.",
            change={"scale": lambda d_k: 1 / d_k},
        ),
        Mistake(
            "multiplied-by-root",
            "The scores are multiplied by √d_k, not divided (or divided by d_k ** -0.5, which is the same): log-ratios "
            "are d_k times too large.",
            change={"scale": math.sqrt},
        ),
        Mistake(
            "softmax-over-queries",
            "Columns sum to 1 and rows do not: softmax ran over the queries. Each query shares out its own attention, "
            "so normalise over keys, the last axis.",
            change={"axis": -2},
        ),
        Mistake(
            "softmax-over-first-axis",
            "Softmax ran over axis 0, which is the queries of one table and the texts of a batch. Count from the end: "
            "keys are axis -1.",
            change={"axis": 0},
        ),
        Mistake(
            "softmax-over-second-axis",
            "Softmax ran over axis 1: keys in one table, but heads in a batch. Count from the end: keys are axis -1.",
            change={"axis": 1},
        ),
        Mistake(
            "softmax-over-the-table",
            "The whole table sums to 1, wanted each row: every query has one whole to share out.",
            change={"axis": "all"},
        ),
        Mistake("no-softmax", "The weights are plain scores, not shares: softmax is missing.", change={"axis": None}),
        Mistake(
            "no-exponential",
            "Each row is divided by its sum, but without exp first: scores may be negative, shares may not.",
            change={"axis": "sum"},
        ),
        Mistake(
            "mask-ignored",
            "The mask changes nothing: hidden keys keep their weight. Is the argument used?",
            change={"hide": "ignored"},
        ),
        Mistake(
            "mask-inverted",
            "The mask is upside down: what may be seen is hidden. True = may attend, so hide where it is False.",
            change={"hide": "inverted"},
        ),
        Mistake(
            "mask-after-softmax",
            "Rows sum to less than 1: the hidden keys took their share first, and then it was thrown away. Hide before "
            "the row is divided by its sum, or divide again.",
            change={"hide": "after"},
        ),
        Mistake(
            "mask-added",
            "The mask was added to the scores: True counts as 1 there, so a seen key gets e¹ times the odds and a "
            "hidden one stays.",
            change={"hide": "added"},
        ),
        Mistake(
            "hidden-scores-zero",
            "Hidden scores were set to 0, and e⁰ is 1: they still take a share. It takes −∞ to get none (or a mask "
            "that is multiplied in after exp).",
            change={"hide": "zeroed"},
        ),
        Mistake(
            "too-low-for-half-precision",
            "Right in float32, but half precision ends at −65504, and −1e9 does not fit. Use float('-inf') or "
            "torch.finfo(scores.dtype).min.",
            change={"hide": "minus 1e9"},
        ),
        Mistake(
            "transposed-with-T",
            "k.T turns all axes around, which is right for one table alone. Swap the last two: k.transpose(-2, -1).",
            change={"turn": "T"},
        ),
        Mistake(
            "queries-and-keys-swapped",
            "The table is k @ qᵀ: rows are keys and columns queries. Wanted q @ kᵀ, a row for each query.",
            change={"turn": "q"},
        ),
        Mistake(
            "results-swapped",
            "These are weights, then context; wanted (context, weights).",
            change={"end": "swapped"},
        ),
        Mistake(
            "context-alone",
            "Only the context came back; wanted two results, (context, weights).",
            change={"end": "context alone"},
        ),
        Mistake(
            "scores-returned",
            "The second result holds scores; wanted the weights, after softmax.",
            change={"end": "scores"},
        ),
        Mistake(
            "context-of-undivided-shares",
            "The weights are right, but the context was made before the division: it takes the weights, not exp of the "
            "scores.",
            change={"end": "undivided"},
        ),
        Mistake(
            "keys-mixed",
            "The weights mix the keys. What is handed over once found are the values, v.",
            change={"end": "keys"},
        ),
        Mistake(
            "queries-mixed",
            "The weights mix the queries. What is handed over once found are the values, v.",
            change={"end": "queries"},
        ),
    ),
)


def causal_mask(n):
    position = torch.arange(n)
    return position[:, None] >= position[None, :]  # query t sees key s if s is not later: (n, n)


def _causal_mask(n, diagonal=0, kind="bool", turn=False, upper=False):
    """The reference with options."""
    table = torch.ones(n, n, dtype=torch.bool)
    table = table.triu(diagonal) if upper else table.tril(diagonal)
    if turn:
        table = ~table
    if kind == "additive":
        return torch.zeros(n, n).masked_fill(~table, float("-inf"))
    return table.float() if kind == "float" else table


def _one_table(mask):
    """Axes of size 1 in front do no harm."""
    if isinstance(mask, torch.Tensor):
        while mask.dim() > 2 and mask.size(0) == 1:
            mask = mask[0]
    return mask


CAUSAL_MASK = Exercise(
    "1.2",
    causal_mask,
    difficulty=1,
    minutes=3,
    family=_causal_mask,
    inputs=lambda: {f"n = {n}": (n,) for n in (4, 1, 7)},
    read=_one_table,
    probes=(probes.wrong_cells,),
    cell=lambda value: f"{value:g}",
    legend=" (1 = True)",
    hints=(
        "Number the positions: torch.arange(n). For query t and key s, when may t see s?",
        "Put the numbers once down, [:, None], and once across, [None, :]: comparing the two makes a table.",
    ),
    mistakes=(
        Mistake(
            "sees-the-future",
            "The table is turned over its diagonal: each token sees itself and what comes after. Rows are queries.",
            change={"upper": True},
        ),
        Mistake(
            "not-itself",
            "A token may see itself, too: here row 0 sees nothing, and softmax of nothing is NaN. Allow equality.",
            change={"diagonal": -1},
        ),
        Mistake(
            "sees-the-next",
            "Each token sees one token too far: entry [0, 1] is True, which gives away the very token to be predicted.",
            change={"diagonal": 1},
        ),
        Mistake("sees-everything", "All is True: nothing is hidden from anyone.", change={"diagonal": 10**6}),
        Mistake(
            "inverted",
            "True marks what is hidden here. In this course True = may attend.",
            change={"turn": True},
        ),
        Mistake(
            "not-bool",
            "Right, but 0 and 1 as numbers; wanted booleans, which ~ turns over and nobody adds to scores. Compare, or "
            "call .bool().",
            change={"kind": "float"},
        ),
        Mistake(
            "additive",
            "This is a table to be added, 0 and −∞; wanted booleans, True = may attend.",
            change={"kind": "additive"},
        ),
    ),
)

EXERCISES = (ATTENTION, CAUSAL_MASK)
