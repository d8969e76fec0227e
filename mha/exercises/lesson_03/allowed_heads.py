"""Exercise 3.4: the head counts that divide."""

import math  # noqa: F401  an edit takes it

import torch

from mha.attention import allowed_heads as suggested
from mha.exercises.compare import describe
from mha.exercises.exercise import Exercise, Mistake


def allowed_heads(d_model):
    return [h for h in range(1, d_model + 1) if d_model % h == 0]


def _heads_list(found):
    """Tuples, ranges, tensors and arrays of whole numbers are as good as a list."""
    if getattr(found, "ndim", 0) == 1:
        return found.tolist()
    return list(found) if isinstance(found, tuple | range) else found


def missing_or_extra(attempt):
    for mine, want, case in attempt.triples():
        if any(type(h) not in (int, float) for h in mine):
            return "not-numbers", f"On {case} the list holds {describe(mine[0])}, wanted whole numbers."
        if mine != want:
            missing, extra = sorted(set(want) - set(mine)), sorted(set(mine) - set(want))
            if extra:
                return "some-do-not-divide", f"On {case} the list holds {extra[0]}, which does not divide it."
            if missing:
                return "some-are-missing", f"On {case} the list lacks {missing[0]}, which divides it."
            return "another-order", f"On {case} the numbers are right, but not each once and in rising order."
    return None


# fmt: off
EXERCISE = Exercise(
    "3.4", allowed_heads, difficulty=1, minutes=2,
    read=_heads_list, probes=(missing_or_extra,),
    inputs=lambda: {f"d_model = {d}": (d,) for d in (12, 1, 7, 16, 36, 510)},
    hints=(
        "h heads fit when d_model leaves no remainder: d_model % h == 0.",
        "Try every h from 1 up to and including d_model; range stops before its end.",
    ),
    mistakes=(
        Mistake("d-model-left-out", "d_model itself is missing: d heads one number wide. The search must go up to and "
            "including d_model.", ("d_model + 1", "d_model")),
        Mistake("one-left-out", "1 is missing: one head as wide as the model is allowed.", ("range(1,", "range(2,")),
        Mistake("both-ends-left-out", "1 and d_model are missing: both divide d_model.",
            ("range(1, d_model + 1)", "range(2, d_model)")),
        Mistake("stops-at-the-root", "It stops at √d_model: every divisor below has a partner above, d_model // h.",
            ("d_model + 1", "math.isqrt(d_model) + 1")),
        Mistake("powers-of-two", "Only powers of two; 3 heads of 4 numbers make 12 as well.",
            ("range(1, d_model + 1)", "(2**i for i in range(20))")),
        Mistake("even-only", "Only even head counts; odd ones may divide, too.",
            ("range(1, d_model + 1)", "range(2, d_model + 1, 2)")),
        Mistake("head-widths", "These are the widths d_model / h; wanted the counts.", ("[h for", "[d_model // h for")),
        Mistake("the-others", "These are the counts that leave a remainder: != where == is wanted.", ("==", "!=")),
        Mistake("all-counts", "All counts up to d_model: nothing is tested.", (" if d_model % h == 0", "")),
        Mistake("upside-down", "h % d_model was tested; wanted d_model % h.", ("d_model % h", "h % d_model")),
        Mistake("how-many", "This is how many there are; wanted a list.", ("return [", "return len(["), ("0]", "0])")),
        Mistake("a-set", "A set has no order; wanted a list in rising order.", ("return [", "return {"), ("0]", "0}")),
        Mistake("a-generator", "A generator is used up after one look; wanted a list.",
            ("return [", "return ("), ("0]", "0)")),
    ),
    right=(suggested, lambda d: tuple(suggested(d)), lambda d: torch.tensor(suggested(d))),
    fresh=lambda: [(d,) for d in (60, 31, 64, 2)],
)
