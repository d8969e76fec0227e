"""Exercise 1.1: attention with a mask."""

import math

import torch
import torch.nn.functional as F

from mha.attention import scaled_dot_product_attention
from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.exercises.probes import log_ratio, name_the_scale


def attention(q, k, v, mask=None):
    shares = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).exp()  # (…, T, S), all positive
    if mask is not None:
        shares = shares * mask  # hidden keys get nothing, before the row is divided by its sum
    weights = shares / shares.sum(dim=-1, keepdim=True)
    return weights @ v, weights


def _inputs():
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


def row_sums(attempt):
    """For results (context, weights): whether rows, or columns, or neither sum to one."""
    for (_, weights), _, case in attempt.triples():
        rows, columns = ((weights.double().sum(dim) - 1).abs().max() < 1e-2 for dim in (-1, -2))
        if columns and not rows:
            return "columns-sum-to-one", "Columns sum to 1 and rows do not: softmax ran over the queries, not the keys."
        if not rows:
            first = weights.double().sum(-1).flatten()[0]
            says = f"Row 0 sums to {first:.3f} on {case}, wanted 1: a row shares out exactly one whole."
            return "rows-do-not-sum-to-one", says
    return None


def hidden_weight(attempt):
    for (_, weights), (_, want), case in attempt.triples():
        share = weights[want == 0].sum() / weights.sum()
        if want.eq(0).any() and share > 1e-3:
            upside = " Is the mask upside down? True = may attend." if share > 0.99 else ""
            says = f"{share:.0%} of all weight lies on keys that the mask hides, on {case}; wanted none.{upside}"
            return "weight-on-hidden-keys", says
    return None


SIZES = {3: (2, 7, 6, 4, 5), 8: (3, 5, 9, 11, 7)}  # by d_k: B, h, T, S, d_v, all different


def wrong_scale(attempt):
    """The log-ratio of two weights, yours over wanted, names a wrong scale exactly."""
    factors = {}
    for d_k, (B, h, T, S, d_v) in SIZES.items():
        q, k, v = random_tensor(1, B, h, T, d_k), random_tensor(2, B, h, S, d_k), random_tensor(3, B, h, S, d_v)
        value = attempt.call(q, k, v)
        if not isinstance(value, tuple) or len(value) != 2:
            return None
        factors[d_k] = log_ratio(value[1], (q @ k.transpose(-2, -1) / math.sqrt(d_k)).softmax(-1))
    names = ("the batch size", "the size of axis 1", "the number of queries", "the number of keys", "the width of v")
    sizes = {name: lambda d_k, i=i: SIZES[d_k][i] for i, name in enumerate(names)}
    return name_the_scale(factors, {"d_k": lambda d_k: d_k} | sizes)


def another_function(attempt):
    """With scores 2, 1, −1: whether the weights of a row are those that exp makes."""
    k = torch.tensor([[4.0, 0, 0, 0], [2, 0, 0, 0], [-2, 0, 0, 0]])
    value = attempt.call(torch.tensor([[1.0, 0, 0, 0]]), k, torch.eye(3))
    if not isinstance(value, tuple) or len(value) != 2 or value[1].shape != (1, 3) or not value[1][0, 1]:
        return None
    ratio = (value[1][0, 0] / value[1][0, 1]).item()
    if abs(ratio - math.e) < 1e-3:
        return None
    return "not-exponential", f"A score of 2 weighs {ratio:.4g} times as much as a score of 1; exp makes it e = 2.718."


HIDDEN = ("shares * mask", 'shares.masked_fill(~mask, float("-inf"))')

# fmt: off
EXERCISE = Exercise(
    "1.1", attention, difficulty=2, minutes=6,
    inputs=_inputs, read=lambda value: tuple(value) if isinstance(value, list) else value,
    probes=(hidden_weight, row_sums, wrong_scale, another_function), parts=("context", "weights"), look_at=1,
    hints=(
        "Softmax of a row is exp of each score, divided by the sum of the row. Write these two as two lines first.",
        "A hidden key must have share 0, and must not be in the sum either. So: exp, then the mask, then the sum.",
        "The sum runs over keys, the last axis: shares.sum(dim=-1, keepdim=True). To turn k over, swap its last two "
        "axes, transpose(-2, -1), whatever comes before them. In half precision all that you build must be half, too: "
        "a mask of booleans multiplies without changing that.",
    ),
    mistakes=(
        Mistake("no-scale", "The scores are not divided by √d_k: log-ratios of two weights are √d_k times too large. "
            "The wider the head, the more one token takes it all.", (" / math.sqrt(q.size(-1))", "")),
        Mistake("divided-by-d_k", "The scores are divided by d_k, wanted √d_k: weights come out too even. The spread "
            "of a dot product grows with the root of its length.", ("math.sqrt(q.size(-1))", "q.size(-1)")),
        Mistake("multiplied-by-root", "The scores are multiplied by √d_k, not divided (or divided by d_k ** -0.5, "
            "which is the same): log-ratios are d_k times too large.",
            ("/ math.sqrt(q.size(-1))).exp()", "* math.sqrt(q.size(-1)))"), HIDDEN,
            ("shares / shares.sum(dim=-1, keepdim=True)", "shares.softmax(dim=-1)")),
        Mistake("softmax-over-queries", "Columns sum to 1 and rows do not: softmax ran over the queries. Each query "
            "shares out its own attention, so normalise over keys, the last axis.", ("dim=-1", "dim=-2")),
        Mistake("softmax-over-first-axis", "Softmax ran over axis 0, which is the queries of one table and the texts "
            "of a batch. Count from the end: keys are axis -1.", ("dim=-1", "dim=0")),
        Mistake("softmax-over-second-axis", "Softmax ran over axis 1: keys in one table, but heads in a batch. Count "
            "from the end: keys are axis -1.", ("dim=-1", "dim=1")),
        Mistake("softmax-over-the-table", "The whole table sums to 1, wanted each row: every query has one whole to "
            "share out.", ("dim=-1", "dim=(-2, -1)")),
        Mistake("no-softmax", "The weights are plain scores, not shares: softmax is missing.",
            (").exp()", ")"), HIDDEN, (" / shares.sum(dim=-1, keepdim=True)", "")),
        Mistake("no-exponential", "Each row is divided by its sum, but without exp first: scores may be negative, "
            "shares may not.", (").exp()", ")"), HIDDEN),
        Mistake("mask-ignored", "The mask changes nothing. Is the argument used?", ("if mask is not None", "if False")),
        Mistake("mask-inverted", "The mask is upside down: what may be seen is hidden. True = may attend, so hide "
            "where it is False.", ("* mask", "* ~mask")),
        Mistake("mask-after-softmax", "Rows sum to less than 1: the hidden keys took their share first, and then it "
            "was thrown away. Hide before the row is divided by its sum, or divide again.",
            ("if mask is not None", "if False"), ("True)", "True) * (1 if mask is None else mask)")),
        Mistake("mask-added", "The mask was added to the scores: True counts as 1 there, so a seen key gets e¹ times "
            "the odds and a hidden one stays.", ("* mask", "* mask.to(q.dtype).exp()")),
        Mistake("hidden-scores-zero", "Hidden scores were set to 0, and e⁰ is 1: they still take a share. −∞ gets none "
            "(or a mask multiplied in after exp).", ("shares * mask", "torch.where(mask, shares, 1.0)")),
        Mistake("too-low-for-half-precision", "Right in float32, but half precision ends at −65504. Use float('-inf') "
            "or torch.finfo(scores.dtype).min.", ("shares * mask", "shares.log().masked_fill(~mask, -1e9).exp()")),
        Mistake("transposed-with-T", "k.T turns all axes around, which is right for one table alone. Swap the last "
            "two: k.transpose(-2, -1).", ("k.transpose(-2, -1)", "k.permute(*range(k.dim() - 1, -1, -1))")),
        Mistake("queries-and-keys-swapped", "The table is k @ qᵀ: rows are keys and columns queries. Wanted q @ kᵀ, a "
            "row for each query.", ("q @ k.", "k @ q."), ("shares * mask", "shares.masked_fill(~mask, 0)")),
        Mistake("results-swapped", "These are weights, then context; wanted (context, weights).",
            ("weights @ v, weights", "weights, weights @ v")),
        Mistake("context-alone", "Only the context came back; wanted (context, weights).", ("v, weights", "v")),
        Mistake("scores-returned", "The second result holds scores; wanted the weights, after softmax.",
            ("v, weights", "v, shares.log()")),
        Mistake("context-of-undivided-shares", "The weights are right, but the context was made before the division: "
            "it takes the weights, not exp of the scores.", ("weights @ v", "shares @ v")),
        Mistake("keys-mixed", "The weights mix the keys. What is handed over are the values, v.", ("@ v", "@ k")),
        Mistake("queries-mixed", "The weights mix the queries. What is handed over are the values, v.", ("@ v", "@ q")),
    ),
    right=(
        scaled_dot_product_attention,
        lambda q, k, v, mask=None: (
            F.scaled_dot_product_attention(q, k, v, mask), scaled_dot_product_attention(q, k, v, mask)[1]
        ),
    ),
    fresh=lambda: [
        (random_tensor(1, 2, 9, 4), random_tensor(2, 2, 7, 4), random_tensor(3, 2, 7, 6)),
        (*(random_tensor(seed, 6, 5) for seed in (4, 5, 6)), random_tensor(7, 6, 6) < 0.8),
    ],
)
