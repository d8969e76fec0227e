"""What the two layouts of query, key and value weights have in common."""

from typing import Any

import torch

from mha import addresses
from mha.exercises.exercise import Mistake, random_tensor


def _triple(value):
    """A list, or one tensor with three parts in front, is as good as a tuple."""
    if isinstance(value, list) or (isinstance(value, torch.Tensor) and value.dim() == 4 and len(value) == 3):
        return tuple(value)
    return value


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


# fmt: off
COMMON: dict[str, Any] = {
    "read": _triple, "probes": (rearranged_rows,), "parts": ("query weights", "key weights", "value weights"),
    "cell": addresses.label, "legend": " (row.column)",
    "inputs": lambda: {
        f"a weight ({3 * d}, {d}), {h} head{'s' * (h > 1)}": (addresses.make(3 * d, d), h)
        for d, h in ((12, 3), (8, 2), (9, 3), (12, 2), (6, 1))
    },
    "fresh": lambda: [(random_tensor(d, 3 * d, d), h) for d, h in ((20, 5), (12, 4), (6, 1))],
}


def order_and_form(q, k, v):
    """The mistakes in the three parts, which the reference returns as these texts."""
    parts = f"{q}, {k}, {v}"

    def each(change):
        return ("return ", f"return tuple({change} for part in ("), ("  # each", "))  # each")

    return (
        Mistake("keys-before-queries", "The parts come as K, Q, V; wanted Q, K, V.", (parts, f"{k}, {q}, {v}")),
        Mistake("values-before-keys", "The parts come as Q, V, K; wanted Q, K, V.", (parts, f"{q}, {v}, {k}")),
        Mistake("values-first", "The parts come as V, K, Q; wanted Q, K, V.", (parts, f"{v}, {k}, {q}")),
        Mistake("queries-three-times", "All three parts are Q.", (parts, f"{q}, {q}, {q}")),
        Mistake("heads-not-cut", "Q, K and V are still whole, (d, d); wanted one matrix per head, (h, d_k, d).",
            *each("part.reshape(d, d)")),
        Mistake("transposed", "Each head's matrix is (d, d_k), turned over; nn.Linear stores (out, in), so (d_k, d).",
            *each("part.mT")),
        Mistake("columns-cut", "The columns were cut, which are the input features; a head's own are rows, the "
            "outputs.", *each("part.reshape(d, num_heads, -1).transpose(0, 1)")),
        Mistake("one-head-only", "Only head 0 came back; wanted all, (h, d_k, d).", *each("part[0]")),
    )
