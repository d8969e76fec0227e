"""Exercise 5.4: attention that reads the keys block by block and never holds a whole row of weights."""

import math

import torch
import torch.nn.functional as F

from mha.exercises.compare import equal
from mha.exercises.exercise import NO_SCALE, Exercise, Mistake, random_tensor


def attend_in_blocks(q, k, v, size):
    largest = q.new_full((*q.shape[:-1], 1), -math.inf)  # of each query, (…, T, 1)
    total, context = torch.zeros_like(largest), q.new_zeros(*q.shape[:-1], v.size(-1))
    for k_block, v_block in zip(k.split(size, dim=-2), v.split(size, dim=-2), strict=True):
        scores = q @ k_block.transpose(-2, -1) / math.sqrt(q.size(-1))  # (…, T, size)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        fade, shares = (largest - new_largest).exp(), (scores - new_largest).exp()
        total = total * fade + shares.sum(dim=-1, keepdim=True)
        context = context * fade + shares @ v_block
        largest = new_largest
    return context / total


def _draw(seed, *shape, S, d_v, size, scale=1.0):
    """q of this shape (…, T, d_k), S keys and values, and the size of the blocks."""
    *front, _, d_k = shape
    q, k = random_tensor(seed, *shape), random_tensor(seed + 1, *front, S, d_k)
    return scale * q, scale * k, random_tensor(seed + 2, *front, S, d_v), size


def _inputs():
    return {
        "q (3, 4), 5 keys in blocks of 2": _draw(10, 3, 4, S=5, d_v=4, size=2),
        "q (2, 2, 4, 6), 6 keys in blocks of 3": _draw(20, 2, 2, 4, 6, S=6, d_v=5, size=3),
        "q (3, 2, 5, 8), 7 keys in blocks of 2": _draw(30, 3, 2, 5, 8, S=7, d_v=8, size=2),
        "q (2, 2, 4, 6), 5 keys, one in a block": _draw(40, 2, 2, 4, 6, S=5, d_v=6, size=1),
        "q (2, 4, 6), 3 keys in one block of up to 8": _draw(50, 2, 4, 6, S=3, d_v=6, size=8),
        "q (2, 3, 4, 8), large scores, 9 keys in blocks of 4": _draw(60, 2, 3, 4, 8, S=9, d_v=3, size=4, scale=30),
        "q (6, 4), large scores, 8 keys in blocks of 2": _draw(70, 6, 4, S=8, d_v=4, size=2, scale=30),
    }


def between_blocks(attempt):
    """Whether it goes wrong in one block already, with a second one, or only where scores are large."""
    q, k, v, _ = _draw(5, 2, 3, 4, S=6, d_v=4, size=6)
    first = k.norm(dim=-1).argsort(dim=-1, descending=True)[..., None]
    k, v = (x.gather(-2, first.expand_as(x)) for x in (k, v))
    wanted = attend_in_blocks(q, k, v, 6)
    if not equal(attempt.call(q, k, v, 6), wanted):
        return "wrong-in-one-block", "Even with all keys in one block the context is wrong: mend that first."
    if not equal(attempt.call(q, k, v, 3), wanted):
        says = "With all keys in one block it is right, with two blocks it is not. What was collected before a larger "
        return "wrong-between-blocks", says + "score came must fade, the sum like the context."
    return "wrong-with-large-scores", "Small scores are right, large ones are not: what does exp get?"


LARGEST = "torch.maximum(largest, scores.amax(dim=-1, keepdim=True))"
FADE = "fade, shares = (largest - new_largest).exp(), (scores - new_largest).exp()"
BLOCKS = "zip(k.split(size, dim=-2), v.split(size, dim=-2), strict=True)"

# fmt: off
EXERCISE = Exercise(
    "5.4", attend_in_blocks, difficulty=3, minutes=8,
    probes=(between_blocks,), inputs=_inputs, tolerance=1e-3, entangled=True,
    hints=(
        "Begin with the lesson's function for one query. What has a single number there has one for each query here: "
        "shape (…, T, 1), so that it meets the scores (…, T, size).",
        "split(size, dim=-2) cuts the keys, and scores.amax(dim=-1, keepdim=True) is each query's largest in a block.",
        "Both the sum and the context fade by (largest - new_largest).exp() before the block's own is added.",
    ),
    mistakes=(
        Mistake("texts-cut", "split cuts axis 0 unless dim= says another: the texts were cut, wanted the keys, dim=-2.",
            (BLOCKS, "zip(k.split(size), v.split(size), strict=True)")),
        Mistake("last-block-left-out", "The last keys are left out where the block size does not divide their number: "
            "the last block is shorter.",
            (BLOCKS, "zip(k.split(size, dim=-2)[: k.size(-2) // size], v.split(size, dim=-2), strict=False)")),
        Mistake("no-scale", NO_SCALE, (" / math.sqrt(q.size(-1))", "")),
        Mistake("each-block-its-own-softmax", "Each block has a softmax of its own and the blocks' contexts are "
            "averaged, so that every block counts alike. A block counts by its share of the whole sum.",
            (FADE, "fade, shares = 1, scores.softmax(dim=-1)")),
        Mistake("own-maximum-of-each-block", "Each block is measured from its own largest score and then added as it "
            "is, though the blocks have different scales. Keep the largest so far; what was collected fades.",
            (LARGEST, "scores.amax(dim=-1, keepdim=True)"), ("total * fade", "total"), ("context * fade", "context")),
        Mistake("not-rescaled", "When a larger score comes, what was collected is measured from the old one. Multiply "
            "sum and context by exp(old − new).", ("total * fade", "total"), ("context * fade", "context")),
        Mistake("sum-not-rescaled", "The context fades when a larger score comes; the sum of exponentials must, too.",
            ("total * fade", "total")),
        Mistake("context-not-rescaled", "The sum fades when a larger score comes; the context must, too.",
            ("context * fade", "context")),
        Mistake("last-block-only", "Only the last block is left: earlier ones fade to zero, or are overwritten. Is the "
            "largest score kept, and each part added?", ("        largest = new_largest\n", "")),
        Mistake("fade-upside-down", "exp(new − old) grows where it should fade, and makes ∞ · 0 = NaN of the first "
            "block; wanted exp(old largest − new largest).", ("(largest - new_largest)", "(new_largest - largest)")),
        Mistake("largest-of-the-block-only", "The scores are taken minus the largest of this block, not of all so far. "
            "With a fade to match that is right as long as nothing overflows; after a far larger score, it does.",
            (LARGEST, "scores.amax(dim=-1, keepdim=True)")),
        Mistake("one-largest-for-all", "One largest score for all queries: where a query's own lie far below, each exp "
            "is 0, and 0 / 0 is NaN. Each query has its own: amax(dim=-1, keepdim=True).",
            ("scores.amax(dim=-1, keepdim=True)", "scores.amax()")),
        Mistake("largest-not-subtracted", "Small scores come out right, but exp of a large one is ∞: take the largest "
            "away first.", (FADE, "fade, shares = 1, scores.exp()")),
        Mistake("not-divided", "The context is not divided by the whole sum.", ("context / total", "context")),
        Mistake("divided-in-every-block", "The context was divided by the sum in every block, so that earlier blocks "
            "were divided more than once. Divide at the end.",
            ("context = context * fade + shares @ v_block", "context = (context * fade + shares @ v_block) / total"),
            ("context / total", "context")),
        Mistake("divided-by-the-last-sum", "The context is divided by the sum of the last block alone; wanted that of "
            "all keys.", ("total = total * fade +", "total =")),
    ),
    right=(
        lambda q, k, v, size: F.scaled_dot_product_attention(q, k, v),
    ),
    fresh=lambda: [
        _draw(80, 2, 3, 5, 4, S=7, d_v=6, size=3), _draw(90, 5, 4, S=6, d_v=2, size=4),
        _draw(100, 4, 2, 3, 4, S=5, d_v=4, size=2, scale=20), _draw(110, 3, 5, S=4, d_v=5, size=1),
    ],
)
