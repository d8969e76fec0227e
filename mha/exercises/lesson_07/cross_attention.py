"""Exercise 7.3: one text asks, another answers."""

import math

import torch
import torch.nn.functional as F

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def cross_attention(x, memory, w_q, w_k, w_v):
    q, k, v = x @ w_q.T, memory @ w_k.T, memory @ w_v.T  # (B, T, d), (B, S, d), (B, S, d)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, T, S)
    return scores.softmax(dim=-1) @ v  # (B, T, d)


def _draw(seed, B, T, S, d):
    shapes = (B, T, d), (B, S, d), (d, d), (d, d), (d, d)
    return tuple(random_tensor(seed + i, *shape) / (d**0.5 if i > 1 else 1) for i, shape in enumerate(shapes))


def mixes_memory(attempt):
    """Whether outputs are mixtures of the memory's values, each token's own."""
    for mine, want, _ in attempt.triples():
        if (mine - want).abs().max() > 1e-3:
            x, memory, *weights = attempt.cases[0].arguments
            other = attempt.call(x, memory.flip(1), *weights)
            if other is not None and not torch.allclose(other, attempt.cases[0].yours, atol=1e-4):
                return "order-of-memory-matters", "The order of the memory's tokens changes the output; it must not."
            values = memory @ weights[2].T
            low, high = values.amin(dim=1, keepdim=True) - 1e-4, values.amax(dim=1, keepdim=True) + 1e-4
            if ((attempt.cases[0].yours < low) | (attempt.cases[0].yours > high)).any():
                return "not-a-mixture", "An output lies outside the memory's values; a mixture of them never does."
            return "other-weights", "The outputs are mixtures of the memory's values, but with other shares."
    return None


def by_einsum(x, memory, w_q, w_k, w_v):
    scores = torch.einsum("btd,ed,ef,bsf->bts", x, w_q, w_k, memory) / len(w_q) ** 0.5
    return torch.einsum("bts,bsd->btd", scores.softmax(-1), memory @ w_v.T)


# fmt: off
EXERCISE = Exercise(
    "7.3", cross_attention, difficulty=2, minutes=6,
    probes=(mixes_memory,),
    inputs=lambda: {
        "x (2, 3, 6), memory (2, 5, 6)": _draw(10, 2, 3, 5, 6),
        "x (3, 4, 8), memory (3, 4, 8)": _draw(20, 3, 4, 4, 8),
        "x (1, 1, 5), memory (1, 7, 5)": _draw(30, 1, 1, 7, 5),
    },
    hints=(
        "The scores are (B, T, S). Which of x and memory gives the rows, T, and which the columns, S?",
        "nn.Linear stores (out, in), so projecting is x @ w_q.T; each of the three matrices is used once.",
        "Scores q @ k.transpose(-2, -1) are (B, T, S): divide them by √d, softmax over the last axis, times v.",
    ),
    mistakes=(
        Mistake("queries-and-memory-swapped", "The memory asks and x answers: one row for each token of memory. The "
            "decoder, x, asks; memory gives keys and values.",
            ("x @ w_q.T, memory @ w_k.T, memory", "memory @ w_q.T, x @ w_k.T, x")),
        Mistake("self-attention", "x attends to itself, never to memory.", ("memory @ w_k.T, memory", "x @ w_k.T, x")),
        Mistake("memory-to-itself", "The memory attends to itself: x is never used.",
            ("x @ w_q.T, memory", "memory @ w_q.T, memory")),
        Mistake("values-of-x", "The keys are the memory's, the values those of x: what was found there cannot be "
            "fetched.", ("memory @ w_k.T, memory", "memory @ w_k.T, x")),
        Mistake("keys-of-x", "The values are the memory's, the keys those of x: whoever matches is not who answers.",
            ("memory @ w_k.T, memory", "x @ w_k.T, memory")),
        Mistake("w-v-not-used", "The memory itself was mixed; wanted its values, memory @ w_v.T.", (" @ w_v.T", "")),
        Mistake("keys-and-values-swapped", "w_k and w_v changed places.", ("w_q, w_k, w_v", "w_q, w_v, w_k")),
        Mistake("queries-and-keys-swapped", "w_q and w_k changed places.", ("w_q, w_k, w_v", "w_k, w_q, w_v")),
        Mistake("no-scale", "The scores are not divided by √d.", (" / math.sqrt(q.size(-1))", "")),
        Mistake("w-q-not-used", "x itself met the keys; wanted its queries, x @ w_q.T.", (" @ w_q.T", "")),
        Mistake("w-k-not-used", "The memory itself was compared with the queries; wanted its keys, memory @ w_k.T.",
            (" @ w_k.T", "")),
        Mistake("no-projections", "x and memory met as they are: queries are x @ w_q.T, keys memory @ w_k.T, values "
            "memory @ w_v.T.", (" @ w_q.T", ""), (" @ w_k.T", ""), (" @ w_v.T", "")),
        Mistake("scaled-by-d", "The scores are divided by d, wanted √d.", ("math.sqrt(q.size(-1))", "q.size(-1)")),
        Mistake("scaled-by-keys", "The scores are divided by √S, the root of the number of keys; wanted √d, that of "
            "the width of a query.", ("math.sqrt(q.size(-1))", "math.sqrt(k.size(-2))")),
        Mistake("scale-upside-down", "Scores are multiplied by √d; wanted divided.", ("/ math.sqrt", "* math.sqrt")),
        Mistake("scaled-after-softmax", "√d divides the weights, so that no row sums to one; divide the scores, before "
            "softmax.", (" / math.sqrt(q.size(-1))", ""), (" @ v", " / math.sqrt(q.size(-1)) @ v")),
        Mistake("no-softmax", "The scores themselves mix the values: softmax is missing.", (".softmax(dim=-1)", "")),
        Mistake("residual-added", "x was added to what was found. The residual block does that, outside; return the "
            "context alone.", ("return", "return x +")),
        Mistake("first-text-for-all", "Every text reads the memory of the first; each has its own.",
            ("    q, k, v", "    memory = memory[:1].expand_as(memory)\n    q, k, v")),
        Mistake("texts-mixed", "Every text reads the memories of all texts at once; keep the batch axis in front.",
            ("    q, k, v", "    memory = memory.flatten(0, 1).expand(len(memory), -1, -1)\n    q, k, v")),
        Mistake("softmax-over-queries", "Softmax ran over the queries; normalise over keys, axis -1.",
            ("dim=-1", "dim=-2")),
        Mistake("softmax-over-texts", "Softmax ran over texts; normalise over keys, axis -1.", ("dim=-1", "dim=0")),
        Mistake("not-transposed", "x @ w: the square matrices fit either way, but nn.Linear stores (out, in). Wanted "
            "w.T.", ("):", "):\n    w_q, w_k, w_v = w_q.T, w_k.T, w_v.T")),
    ),
    right=(
        by_einsum,
        lambda x, m, q, k, v: F.scaled_dot_product_attention(F.linear(x, q), F.linear(m, k), F.linear(m, v)),
    ),
    fresh=lambda: [_draw(1, 2, 5, 3, 7), _draw(6, 4, 4, 4, 6), _draw(11, 4, 1, 3, 6)],
)
