"""Exercise 9.2: one head whose keys come from another stream than its queries and values."""

import math

import torch
import torch.nn.functional as F

from mha.attention import causal_mask, scaled_dot_product_attention
from mha.exercises.exercise import Exercise, Mistake, random_tensor


def patch_keys(x, patched, w_q, w_k, w_v):
    q, k, v = x @ w_q.T, patched @ w_k.T, x @ w_v.T  # each (B, T, d_k)
    scores = q @ k.mT / math.sqrt(k.size(-1))
    future = torch.ones_like(scores).triu(1).bool()
    return scores.masked_fill(future, -math.inf).softmax(dim=-1) @ v  # (B, T, d_k)


def _draw(seed, B, T, d, d_k):
    shapes = (B, T, d), (B, T, d), (d_k, d), (d_k, d), (d_k, d)
    return tuple(random_tensor(10 * seed + n, *shape) for n, shape in enumerate(shapes))


# fmt: off
EXERCISE = Exercise(
    "9.2", patch_keys, difficulty=2, minutes=6,
    inputs=lambda: {
        "2 texts, 4 tokens, d = 6, d_k = 3": _draw(1, 2, 4, 6, 3),
        "1 text, 5 tokens, d = 4, d_k = 2": _draw(2, 1, 5, 4, 2),
    },
    hints=(
        "It is the head of lesson 01, causal mask and all, with one change: one of the three products takes another "
        "stream.",
        "q = x @ w_q.T and v = x @ w_v.T stay; the keys are patched @ w_k.T.",
        "Scores over √d_k, the future hidden, softmax over the keys, times v. scaled_dot_product_attention does it.",
    ),
    mistakes=(
        Mistake("nothing-patched", "The keys come from x, like all the rest: nothing has been patched.",
            ("patched @ w_k.T", "x @ w_k.T")),
        Mistake("queries-patched", "The queries are patched here, and the keys are not.",
            ("x @ w_q.T, patched @ w_k.T", "patched @ w_q.T, x @ w_k.T")),
        Mistake("queries-and-keys-patched", "Queries and keys are both patched; wanted the keys alone.",
            ("x @ w_q.T, patched", "patched @ w_q.T, patched")),
        Mistake("keys-and-values-patched", "Keys and values are both patched, as in cross-attention; wanted the keys "
            "alone.", ("@ w_k.T, x @ w_v.T", "@ w_k.T, patched @ w_v.T")),
        Mistake("matrices-exchanged", "The streams are right, but w_q makes the keys here and w_k the queries.",
            ("x @ w_q.T, patched @ w_k.T", "x @ w_k.T, patched @ w_q.T")),
        Mistake("w_q-for-the-keys", "The patched stream goes through w_q here; keys are made by w_k.",
            ("patched @ w_k.T", "patched @ w_q.T")),
        Mistake("w_k-for-the-values", "The values are made by w_k here; they have a matrix of their own, w_v.",
            ("x @ w_v.T", "x @ w_k.T")),
        Mistake("values-patched", "The values are patched here; wanted the keys alone, which say where to look.",
            ("patched @ w_k.T, x @ w_v.T", "x @ w_k.T, patched @ w_v.T")),
        Mistake("all-patched", "Queries, keys and values all come from the patched stream: then it cannot be told "
            "through which of them the change worked.",
            ("x @ w_q.T, patched @ w_k.T, x @ w_v.T", "patched @ w_q.T, patched @ w_k.T, patched @ w_v.T")),
        Mistake("no-mask", "The future is not hidden: this head is causal.", (".masked_fill(future, -math.inf)", "")),
        Mistake("no-scale", "The scores are not divided by √d_k.", (" / math.sqrt(k.size(-1))", "")),
        Mistake("scale-of-d", "The scores are divided by √d, the width of the stream; wanted √d_k, the width of a key.",
            ("math.sqrt(k.size(-1))", "math.sqrt(x.size(-1))")),
        Mistake("softmax-over-queries", "Softmax ran over the queries; wanted over the keys, so that each query's "
            "weights sum to one.", ("softmax(dim=-1)", "softmax(dim=-2)")),
    ),
    right=(
        lambda x, patched, w_q, w_k, w_v: scaled_dot_product_attention(
            F.linear(x, w_q), F.linear(patched, w_k), F.linear(x, w_v), causal_mask(x.size(1)))[0],
        lambda x, patched, w_q, w_k, w_v: F.scaled_dot_product_attention(
            x @ w_q.T, patched @ w_k.T, x @ w_v.T, is_causal=True),
    ),
    fresh=lambda: [_draw(3, 3, 6, 8, 4), _draw(4, 1, 2, 4, 4)],
)
