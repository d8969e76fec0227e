"""What can be measured on an answer that no known mistake explains.

A probe takes an `Attempt` and returns (name, sentence), or None where it has nothing to say.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

import torch

from mha.addresses import label
from mha.exercises.compare import Odd, Raised, describe, equal, pairs, plain
from mha.exercises.exercise import Case, Exercise
from mha.exercises.sandbox import run


@dataclass(frozen=True)
class Attempt:
    """An answer to an exercise, and what it did on each input."""

    exercise: Exercise
    answer: Callable
    cases: list[Case]

    def call(self, *arguments):
        """The answer's value on other arguments, or None if it raises."""
        outcome = run(self.answer, arguments, self.exercise.names)
        return None if outcome.error else self.exercise.read(plain(outcome.value))

    def triples(self):
        """Yours, wanted and the description, for each input."""
        return [(case.yours, case.wanted, case.description) for case in self.cases]

    def tensors(self):
        """All pairs of tensors, (yours, wanted)."""
        return [pair for mine, want, _ in self.triples() for pair in pairs(mine, want)]


# Any exercise.


def wrong_type(attempt):
    for mine, want, _ in attempt.triples():
        if mine is None:
            return "returns-nothing", f"Your function returns None, wanted {describe(want)}: is a return missing?"
        if isinstance(mine, tuple) and isinstance(want, tuple) and len(mine) != len(want):
            says = f"Your function returns {len(mine)} results, wanted {len(want)}."
            return "wrong-number-of-results", f"{says} (chunk and split cut axis 0 unless dim= says another.)"
        if not isinstance(mine, Raised) and _kind(mine) != _kind(want):
            made = isinstance(mine, list) and isinstance(want, torch.Tensor)
            way = " torch.stack makes one tensor of several, torch.tensor one of numbers." if made else ""
            return "wrong-type", f"Your function returns {describe(mine)}, wanted {describe(want)}.{way}"
    return None


def _kind(value):
    if isinstance(value, Odd):
        return value
    if isinstance(value, tuple):
        return [_kind(part) for part in value]
    if type(value) in (int, float):
        return "a number"
    return describe(value).partition(",")[0].partition(" of ")[0] + str(getattr(value, "dtype", None) == torch.bool)


# By a part of torch's or Python's message: a name, and what helps.
VIEW = "view size is not compatible"
NO_FIT = ("shapes-do-not-meet", "Two shapes do not fit each other. Write its shape beside each line.")
ONE_NUMBER = (
    "not-one-number",
    "A plain number is needed where a whole tensor was given. The functions of math take one number; a tensor has "
    "its own: x.exp(), x.sqrt().",
)
TUPLE = (
    "tuple-not-unpacked",
    "That is a tuple, several results still together, as from chunk, or from an attention function that returns "
    "(context, weights). Take it apart: a, b = …",
)
MIXED = (
    "dtypes-mixed",
    "Two tensors of different precision meet. One input is in half precision (float16), and something has become "
    "float32: a table made by torch.zeros or torch.where(mask, 0., …), a .float()? .to(v.dtype) brings it back.",
)
ERRORS = {
    "same dtype": MIXED,
    "expected scalar type": MIXED,
    "dtypes match": MIXED,
    "nobody can answer": (
        "nobody-to-ask",
        "Neither a debugger nor input() works inside check: call your function yourself, in a cell, and look there.",
    ),
    "'tuple'": TUPLE,
    "Tensor, not tuple": TUPLE,
    "integers or slices, not tuple": ("not-a-tensor", "Lists and ranges take one index: a tensor (arange) takes two."),
    "is ambiguous": (
        "truth-of-a-tensor",
        "Python's not, and, or, if ask for one yes or no, and a tensor has many. Cell by cell work ~, &, |; whether "
        "there is a mask at all asks: mask is not None.",
    ),
    VIEW: (
        "view-refuses",
        "view needs numbers that lie in the order of the axes; after a transpose, or in a part that chunk has cut, "
        "they may not, and reshape copies them. But with reshape in its place the numbers are still wrong: are the "
        "axes named in the order in which they lie?",
    ),
    "is invalid for input of size": (
        "sizes-do-not-multiply",
        "The sizes you ask for do not multiply to what the tensor holds. Which letter is which size? Print x.shape.",
    ),
    "invalid shape dimension": ("sizes-do-not-multiply", "A size can be -1, worked out from the others, but not less."),
    "value cannot be converted to type": (
        "too-low-for-half-precision",
        "Right in float32, but half precision has no number as low as the one you hide with. Use float('-inf'), or "
        "torch.finfo(scores.dtype).min.",
    ),
    "the `-` operator": ("minus-on-booleans", "Booleans have no minus: ~mask turns them over."),
    "to be equal size": (
        "pieces-of-several-sizes",
        "The pieces are not equally long: chunk and split cut axis 0 unless dim= says another.",
    ),
    "positional argument": ("wrong-signature", "It takes other arguments than the exercise hands over."),
    "is not defined": ("name-not-defined", "Nothing has that name here: a slip of spelling, or a missing import?"),
    "Dimension out of range": ("no-such-axis", "It names an axis that the tensor does not have. Count from the end."),
    "cannot be multiplied": (
        "shapes-do-not-meet",
        "The inner sizes of a product differ: in a @ b, the last axis of a meets the last but one of b. (What is "
        "stored as in nn.Linear, (out, in), is met transposed.)",
    ),
    "must match": NO_FIT,
    "must be the same": NO_FIT,
    "Expected size for first two dimensions": (
        "shapes-do-not-meet",
        "The inner sizes of a product differ: in a @ b, the last axis of a meets the last but one of b.",
    ),
    "batch1 tensor": ("shapes-do-not-meet", "In a @ b, the last axis of a meets the last but one of b."),
    "not broadcastable": NO_FIT,
    "NoneType": ("none-used", "Something is None where a tensor is needed: mask is None unless one is given."),
    "values to unpack": (
        "wrong-number-of-axes",
        "More or fewer names than parts: print what you unpack. (chunk and split cut axis 0 unless dim= says another.)",
    ),
    "invalid combination of arguments": (
        "wrong-arguments",
        "That function takes other arguments, or in another order.",
    ),
    "argument 'size'": (
        "not-a-size",
        "A size must be a whole number: / gives a float, // does not; or is a tensor among them?",
    ),
    "only one element tensors": ONE_NUMBER,
    "cannot be converted to Scalar": ONE_NUMBER,
    "only implemented on integer and Boolean": ("not-a-mask", "~ turns booleans over: was the mask meant?"),
    "out of bounds": ("index-out-of-range", "It asks for a part that is not there: print the shape."),
    "list index out of range": ("index-out-of-range", "It asks for a part that is not there: print the length."),
    "same number of dimensions": ("axis-missing", "One has an axis fewer: keepdim=True keeps it, [:, None] adds it."),
    "are not aligned": NO_FIT,
    "not callable": ("not-callable", "Something that is no function is called: is a name used twice?"),
    "unsupported operand": ("kinds-do-not-meet", "Two values meet that do not go together: print the type of each."),
    "object is not subscriptable": ("no-parts", "That value has no parts: print its type."),
    "must be Tensor": ("not-a-tensor", "A tensor is needed there: print the type of what you hand over."),
    "must be tuple of": ("not-a-tensor", "Something else is needed there: print the type of what you hand over."),
    "has no len()": ("no-parts", "That value has no parts: print its type."),
    "maximum recursion": ("endless-recursion", "It calls itself again and again."),
    "by zero": ("division-by-zero", "Which of the sizes is 0?"),
    "has no attribute": (
        "no-such-attribute",
        "That kind of value has nothing of this name: a slip of spelling? Print its type.",
    ),
}


def raised(attempt):
    for said, _, description in attempt.triples():
        if isinstance(said, Raised):
            inside, said = said.inside, said.rstrip(".")
            for part, (name, help) in ERRORS.items():
                if part not in said:
                    continue
                if name == "wrong-signature" and inside:
                    name, help = "wrong-arguments", "A call inside your function is given what it does not take."
                if part == VIEW and _reshape_is_right(attempt):
                    help = "All is right but this word: reshape copies where view refuses (or .contiguous() before it)."
                wanted = f" Wanted: ({', '.join(attempt.exercise.names)})." if name == "wrong-signature" else ""
                return name, f"On {description} your function raised {said}. {help}{wanted}"
            return None, f"On {description} your function raised {said}."
    return None


def _reshape_is_right(attempt):
    def reshaping(*arguments):
        with mock.patch.object(torch.Tensor, "view", torch.Tensor.reshape):
            return attempt.answer(*arguments)

    other = replace(attempt, answer=reshaping)
    return all(equal(other.call(*case.arguments), case.wanted, attempt.exercise.tolerance) for case in attempt.cases)


def wrong_shape(attempt):
    for mine, want, description in attempt.triples():
        for a, b in pairs(mine, want):
            if a.shape != b.shape:
                turned = a.dim() == b.dim() and sorted(a.shape) == sorted(b.shape)
                name, more = ("axes-in-another-order", ": the right sizes in another order") if turned else ("", "")
                says = f"The result has shape {tuple(a.shape)}, wanted {tuple(b.shape)}{more}, on {description}."
                if a.dim() < b.dim() and a.shape == tuple(size for size in b.shape if size != 1):
                    says += " Is there a squeeze? It takes away every axis of size 1."
                return name or "wrong-shape", says
    return None


def not_a_number(attempt):
    for mine, want, case in attempt.triples():
        if any(a.isnan().any() and not b.isnan().any() for a, b in pairs(mine, want)):
            why = "0 / 0 (so the mean of nothing, the spread of one number), ∞ − ∞, or a row of scores that are all −∞"
            return "nan", f"On {case} there is NaN in the result. It comes from {why}."
    return None


def constant_factor(attempt):
    """Whether all results are the wanted ones times one number."""
    tensors = attempt.tensors()
    if not tensors or any(a.shape != b.shape for a, b in tensors):
        return None
    mine, want = (torch.cat([pair[i].flatten().double() for pair in tensors]) for i in (0, 1))
    factor = (mine @ want / (want @ want)).item() if want.any() else 0
    if factor and abs(factor - 1) > 1e-3 and torch.allclose(mine, factor * want, 1e-3, 1e-4):
        return "constant-factor", f"Every number is {factor:.4g} times the wanted one."
    return None


FIRST = (wrong_type, raised, wrong_shape, not_a_number)
LAST = (constant_factor,)


# Attention weights with a wrong scale.


def log_ratio(yours, wanted):
    """How many times too large the scores are, if that is all that is wrong; else None."""
    if yours.shape != wanted.shape or not (yours > 0).all():
        return None
    mine, want = (table.double().log() for table in (yours, wanted))
    mine, want = (table - table.mean(dim=-1, keepdim=True) for table in (mine, want))
    factor = (mine * want).sum() / (want * want).sum()
    return factor.item() if torch.allclose(mine, factor * want, 1e-2, 1e-3) else None


def name_the_scale(factors, sizes):
    """factors {d_k: how many times too large the scores were}; sizes {what may stand in its place: of d_k}."""
    if None in factors.values() or all(abs(factor - 1) < 1e-3 for factor in factors.values()):
        return None
    if all(abs(factor + 1) < 1e-2 for factor in factors.values()):
        return "wrong-sign", "The scores have the wrong sign: what fits best gets the least weight."
    for (what, size), power in itertools.product(sizes.items(), (0.5, -0.5, 1, -1, 0.25, -0.25)):
        if all(abs(factor / (math.sqrt(d_k) * size(d_k) ** -power) - 1) < 1e-2 for d_k, factor in factors.items()):
            root = {0.5: f"the root of {what}", 1: what}.get(power, f"{what} to the power of {power}")
            return (
                "wrong-scale",
                f"The scores are divided by {root}, wanted √d_k: log-ratios of two weights say so.",
            )
    if all(abs(factor / math.sqrt(d_k) - 1) < 1e-2 for d_k, factor in factors.items()):
        return (
            "wrong-scale",
            "The scores are not divided by anything: log-ratios of two weights are √d_k times too large.",
        )
    divisors = [math.sqrt(d_k) / factor for d_k, factor in factors.items()]
    if abs(max(divisors) / min(divisors) - 1) < 1e-2:
        return "wrong-scale", f"The scores are divided by {divisors[0]:.4g} whatever d_k is; wanted √d_k."
    said = ", ".join(f"{factor:.4g} at d_k = {d_k}" for d_k, factor in factors.items())
    return "wrong-scale", f"The scores come out multiplied by {said}; wanted by 1: look at what you divide by."


# Rearranged numbers: each input number is an address of `mha.addresses`.


def rearranged(attempt):
    """For a reshape: what the first wrong row holds, and what it should."""
    differing = (triple for triple in attempt.triples() if (triple[0] != triple[1]).any())
    mine, want, case = next(differing)
    where = tuple((mine != want).nonzero()[0, :-1].tolist())
    yours, wanted = mine[where], want[where]
    if not torch.isin(yours.double(), want.flatten().double()).all():
        return (
            "numbers-changed",
            f"A reshape only moves numbers, but {label(yours[0].item())} is none of the input's.",
        )
    parts = {"texts-mixed": lambda row: row // 10000, "row-mixes-tokens": lambda row: row // 100 % 100}
    name = "wrong-features"
    for candidate, part in parts.items():
        if len(part(yours).unique()) > len(part(wanted).unique()):
            name = candidate
            break
        if not torch.equal(part(yours), part(wanted)):
            name = {"texts-mixed": "wrong-text", "row-mixes-tokens": "wrong-token"}[candidate]
            break
    rows = [", ".join(label(value) for value in row.tolist()) for row in (yours, wanted)]
    place = f"[{', '.join(map(str, where))}]"
    return name, f"On {case}, row {place} holds {rows[0]} (token.feature); wanted {rows[1]}."
