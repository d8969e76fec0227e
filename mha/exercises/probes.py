"""What can be measured on an answer that no known mistake explains.

A probe takes an `Attempt` and returns (name, sentence), or None where it has nothing to say.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

from mha.addresses import label
from mha.exercises.compare import Odd, Raised, describe, equal, pairs, plain
from mha.exercises.exercise import Case, Exercise, random_tensor
from mha.exercises.sandbox import run

Finding = tuple[str | None, str] | None
Tensor = torch.Tensor


@dataclass(frozen=True)
class Attempt:
    """An answer to an exercise, and what it did on each input."""

    exercise: Exercise
    answer: Callable
    cases: list[Case]

    def call(self, *arguments: Any) -> Any:
        """The answer's value on other arguments, or None if it raises."""
        outcome = run(self.answer, arguments, self.exercise.names)
        return None if outcome.error else self.exercise.read(plain(outcome.value))

    def triples(self) -> list[tuple[Any, Any, str]]:
        """Yours, wanted and the description, for each input."""
        return [(case.yours, case.wanted, case.description) for case in self.cases]


Probe = Callable[[Attempt], Finding]


# Any exercise.


def wrong_type(attempt: Attempt) -> Finding:
    for mine, want, _ in attempt.triples():
        if mine is None:
            return "returns-nothing", f"Your function returns None, wanted {describe(want)}: is a return missing?"
        if isinstance(mine, tuple) and isinstance(want, tuple) and len(mine) != len(want):
            says = f"Your function returns {len(mine)} results, wanted {len(want)}."
            return "wrong-number-of-results", f"{says} (chunk and split cut axis 0 unless dim= says another.)"
        if not isinstance(mine, Raised) and _kind(mine) != _kind(want):
            made = isinstance(mine, list) and isinstance(want, Tensor)
            way = " torch.stack makes one tensor of several, torch.tensor one of numbers." if made else ""
            return "wrong-type", f"Your function returns {describe(mine)}, wanted {describe(want)}.{way}"
    return None


def _kind(value: Any) -> Any:
    if isinstance(value, Odd):
        return value
    if isinstance(value, tuple):
        return [_kind(part) for part in value]
    if type(value) in (int, float):
        return "a number"
    return describe(value).partition(",")[0].partition(" of ")[0] + str(getattr(value, "dtype", None) == torch.bool)


VIEW = "view-refuses"
# fmt: off
ERRORS = (  # a name, what helps, and parts of torch's or Python's messages by which it is known; the first that fits
    ("dtypes-mixed", "Two tensors of different precision meet. One input is in half precision (float16), and something "
        "has become float32: a table made by torch.zeros or torch.where(mask, 0., …), a .float()? .to(v.dtype) brings "
        "it back.", "same dtype", "expected scalar type", "dtypes match", "expected dtype", ".dtype to be equal"),
    ("nobody-to-ask", "Neither a debugger nor input() works inside check: call your function yourself, in a cell, and "
        "look there.", "nobody can answer"),
    ("tuple-not-unpacked", "That is a tuple, several results still together, as from chunk, or from an attention "
        "function that returns (context, weights). Take it apart: a, b = …", "'tuple'", "Tensor, not tuple"),
    ("not-a-tensor", "Lists and ranges take one index: a tensor (arange) takes two.", "or slices, not tuple"),
    ("truth-of-a-tensor", "Python's not, and, or, if ask for one yes or no, and a tensor has many. Cell by cell work "
        "~, &, |; whether there is a mask at all asks: mask is not None.", "is ambiguous"),
    (VIEW, "view needs numbers that lie in the order of the axes; after a transpose, or in a part that chunk has cut, "
        "they may not, and reshape copies them. But with reshape in its place the numbers are still wrong: are the "
        "axes named in the order in which they lie?", "view size is not compatible"),
    ("sizes-do-not-multiply", "The sizes you ask for do not multiply to what the tensor holds. Which letter is which "
        "size? Print x.shape.", "is invalid for input of size"),
    ("sizes-do-not-multiply", "A size can be -1, worked out from the others, but not less.", "invalid shape dimension"),
    ("too-low-for-half-precision", "Right in float32, but half precision has no number as low as the one you hide "
        "with. Use float('-inf'), or torch.finfo(scores.dtype).min.", "value cannot be converted to type"),
    ("minus-on-booleans", "Booleans have no minus: ~mask turns them over.", "the `-` operator"),
    ("pieces-of-several-sizes", "The pieces are not equally long: chunk and split cut axis 0 unless dim= says another.",
        "to be equal size"),
    ("wrong-signature", "It takes other arguments than the exercise hands over.", "positional argument"),
    ("name-not-defined", "Nothing has that name here: a slip of spelling, or a missing import?", "is not defined"),
    ("no-such-axis", "It names an axis that the tensor does not have. Count from the end.", "Dimension out of range"),
    ("shapes-do-not-meet", "The inner sizes of a product differ: in a @ b, the last axis of a meets the last but one "
        "of b. (What is stored as in nn.Linear, (out, in), is met transposed.)",
        "cannot be multiplied", "Expected size for first two dimensions", "batch1 tensor"),
    ("shapes-do-not-meet", "Two shapes do not fit each other. Write its shape beside each line.",
        "must match", "must be the same", "not broadcastable", "are not aligned"),
    ("none-used", "Something is None where a tensor is needed: mask is None unless one is given.", "NoneType"),
    ("wrong-number-of-axes", "More or fewer names than parts: print what you unpack. (chunk and split cut axis 0 "
        "unless dim= says another.)", "values to unpack"),
    ("wrong-arguments", "That function takes other arguments, or in another order.", "combination of arguments"),
    ("not-a-size", "A size must be a whole number: / gives a float, // does not; or is a tensor among them?",
        "argument 'size'"),
    ("not-one-number", "A plain number is needed where a whole tensor was given. The functions of math take one "
        "number; a tensor has its own: x.exp(), x.sqrt().", "only one element tensors", "be converted to Scalar"),
    ("not-a-mask", "~ turns booleans over: was the mask meant?", "only implemented on integer and Boolean"),
    ("index-out-of-range", "It asks for a part that is not there: print the shape.", "out of bounds"),
    ("index-out-of-range", "It asks for a part that is not there: print the length.", "list index out of range"),
    ("axis-missing", "One has an axis fewer: keepdim=True keeps it, [:, None] adds it.", "same number of dimensions"),
    ("not-callable", "Something that is no function is called: is a name used twice?", "not callable"),
    ("kinds-do-not-meet", "Two values meet that do not go together: print the type of each.", "unsupported operand"),
    ("no-parts", "That value has no parts: print its type.", "object is not subscriptable", "has no len()"),
    ("not-a-tensor", "A tensor is needed there: print the type of what you hand over.", "must be Tensor"),
    ("not-a-tensor", "Something else is needed there: print the type of what you hand over.", "must be tuple of"),
    ("endless-recursion", "It calls itself again and again.", "maximum recursion"),
    ("division-by-zero", "Which of the sizes is 0?", "by zero"),
    ("no-such-attribute", "That kind of value has nothing of this name: a slip of spelling? Print its type.",
        "has no attribute"),
)
# fmt: on


def raised(attempt: Attempt) -> Finding:
    said, case = next(((mine, case) for mine, _, case in attempt.triples() if isinstance(mine, Raised)), (None, ""))
    if said is None:
        return None
    message = f"On {case} your function raised {said.rstrip('.')}."
    for name, way, *parts in ERRORS:
        if not any(part in said for part in parts):
            continue
        if name == "wrong-signature" and said.inside:
            name, way = "wrong-arguments", "A call inside your function is given what it does not take."
        elif name == "wrong-signature":
            way += f" Wanted: ({', '.join(attempt.exercise.names)})."
        if name == VIEW and _reshape_is_right(attempt):
            way = "All is right but this word: reshape copies where view refuses (or .contiguous() before it)."
        return name, f"{message} {way}"
    return None, message


def _reshape_is_right(attempt: Attempt) -> bool:
    def reshaping(*arguments: Any) -> Any:
        with mock.patch.object(Tensor, "view", Tensor.reshape):
            return attempt.answer(*arguments)

    other = replace(attempt, answer=reshaping)
    return all(equal(other.call(*case.arguments), case.wanted, attempt.exercise.tolerance) for case in attempt.cases)


def wrong_shape(attempt: Attempt) -> Finding:
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


def not_a_number(attempt: Attempt) -> Finding:
    for mine, want, case in attempt.triples():
        if any(a.isnan().any() and not b.isnan().any() for a, b in pairs(mine, want)):
            why = "0 / 0 (so the mean of nothing, the spread of one number), ∞ − ∞, or a row of scores that are all −∞"
            return "nan", f"On {case} there is NaN in the result. It comes from {why}."
    return None


def constant_factor(attempt: Attempt) -> Finding:
    """Whether all results are the wanted ones times one number."""
    tensors = [pair for mine, want, _ in attempt.triples() for pair in pairs(mine, want)]
    if not tensors or any(a.shape != b.shape for a, b in tensors):
        return None
    mine, want = (torch.cat([pair[i].flatten().double() for pair in tensors]) for i in (0, 1))
    factor = (mine @ want / (want @ want)).item() if want.any() else 0
    if factor and abs(factor - 1) > 1e-3 and torch.allclose(mine, factor * want, 1e-3, 1e-4):
        return "constant-factor", f"Every number is {factor:.4g} times the wanted one."
    return None


FIRST = (wrong_type, raised, wrong_shape, not_a_number)
LAST = (constant_factor,)


# What several exercises ask: each makes a probe.


def wrong_cells(too_many: tuple[str, str], too_few: tuple[str, str]) -> Probe:
    """For tables of booleans: names and words for an entry that is True and must be False, and for the other way."""

    def probe(attempt: Attempt) -> Finding:
        for mine, want, case in attempt.triples():
            for (name, says), cells in ((too_many, mine & ~want), (too_few, want & ~mine)):
                if cells.any():
                    return name, f"On {case}, entry {cells.nonzero()[0].tolist()} {says}."
        return None

    return probe


def cells_used(size: int, more: Any, wanted: dict[tuple[int, int], float], on: str) -> Probe:
    """For one number a head, linear in weights (h, size, size): which cells of head 0 count, and how much.

    The answer is called with (weights, more); `wanted` is {(query, key): share}.
    """

    def probe(attempt: Attempt) -> Finding:
        used = {}
        for t, s in itertools.product(range(size), repeat=2):
            table = torch.zeros(2, size, size)
            table[0, t, s] = 1
            value = attempt.call(table, more)
            if not isinstance(value, Tensor) or value.shape != (2,) or value.isnan().any():
                return None
            if value[0]:
                used[t, s] = value[0].item()
        other = random_tensor(0, 2, size, size)
        value = attempt.call(other, more)
        if value is None or abs(value[0] - sum(share * other[0][cell] for cell, share in used.items())) > 1e-4:
            return None  # no weighted sum of cells
        extra, missing = [cell for cell in used if cell not in wanted], [cell for cell in wanted if cell not in used]
        if extra and len(extra) < size**2 // 2:
            many = f" and {len(extra) - 1} more that should not" if len(extra) > 1 else ", which should not"
            return "cells-too-many", f"With {on}, cell {extra[0]} counts (query, key){many}."
        if missing:
            return "cells-missing", f"With {on}, cell {missing[0]} (query, key) does not count; it should."
        for cell, share in wanted.items():
            if not extra and abs(used[cell] - share) > 1e-4:
                says = f"The right cells, but with {on} {cell} counts {used[cell]:.3f}, wanted 1/{1 / share:.0f}"
                return "wrong-share", f"{says}: a mean over the queries that have somebody there."
        return None

    return probe


def as_sum(
    attempt: Attempt, terms: Mapping[str, tuple[int, ...]], sizes: Sequence[tuple[int, ...]], *more: Any
) -> str | None:
    """A count as a sum of a few products of its sizes, such as "4·d² + 3·d"; "" if it is none, None if no number.

    `terms` are {how it is written: the power of each size}; the answer is called with (*size, *more).
    """
    counts = [attempt.call(*size, *more) for size in sizes]
    if not all(isinstance(count, int | float) and math.isfinite(count) for count in counts):
        return None
    rows = [[math.prod(x**p for x, p in zip(size, term, strict=True)) for term in terms.values()] for size in sizes]
    table, wanted = torch.tensor(rows, dtype=torch.float64), torch.tensor(counts, dtype=torch.float64)
    weight = table.square().mean(dim=0).sqrt()  # so that large and small terms count alike
    factors = (torch.linalg.lstsq(table / weight, wanted[:, None]).solution[:, 0] / weight * 12).round() / 12
    if not torch.allclose(table @ factors, wanted, rtol=1e-9, atol=1e-6):
        return ""
    found = [(factor, term) for term, factor in zip(terms, factors.tolist(), strict=True) if factor]
    words = " ".join(f"{'−+'[factor > 0]} {abs(factor):g}·{term}".removesuffix("·1") for factor, term in found)
    return words.replace("·1·", "·").replace("·1/", "/").removeprefix("+ ") or "0"


# Attention weights with a wrong scale.


def log_ratio(yours: Tensor, wanted: Tensor) -> float | None:
    """How many times too large the scores are, if that is all that is wrong; else None."""
    if yours.shape != wanted.shape:
        return None
    mine, want = (table.double().log() for table in (yours, wanted))  # of what is not above 0: no number, so None
    mine, want = (table - table.mean(dim=-1, keepdim=True) for table in (mine, want))
    factor = (mine * want).sum() / (want * want).sum()
    return factor.item() if torch.allclose(mine, factor * want, 1e-2, 1e-3) else None


def name_the_scale(factors: dict[int, float | None], sizes: dict[str, Callable[[int], int]]) -> Finding:
    """factors {d_k: how many times too large the scores were}; sizes {what may stand in its place: of d_k}."""
    divisors = {d_k: math.sqrt(d_k) / factor for d_k, factor in factors.items() if factor}
    if len(divisors) < len(factors) or all(
        abs(divisor / math.sqrt(d_k) - 1) < 1e-3 for d_k, divisor in divisors.items()
    ):
        return None
    if all(abs(divisor / math.sqrt(d_k) + 1) < 1e-2 for d_k, divisor in divisors.items()):
        return "wrong-sign", "The scores have the wrong sign: what fits best gets the least weight."
    for (what, size), power in itertools.product(sizes.items(), (0.5, -0.5, 1, -1, 0.25, -0.25)):
        if all(abs(divisor / size(d_k) ** power - 1) < 1e-2 for d_k, divisor in divisors.items()):
            root = {0.5: f"the root of {what}", 1: what}.get(power, f"{what} to the power of {power}")
            return "wrong-scale", f"The scores are divided by {root}, wanted √d_k: log-ratios of two weights say so."
    first = next(iter(divisors.values()))
    if all(abs(divisor / first - 1) < 1e-2 for divisor in divisors.values()):
        return "wrong-scale", f"The scores are divided by {first:.4g} whatever d_k is; wanted √d_k."
    said = ", ".join(f"{factor:.4g} at d_k = {d_k}" for d_k, factor in factors.items())
    return "wrong-scale", f"The scores come out multiplied by {said}; wanted by 1: look at what you divide by."


# Rearranged numbers: each input number is an address of `mha.addresses`.


def rearranged(attempt: Attempt) -> Finding:
    """For a reshape: what the first wrong row holds, and what it should."""
    mine, want, case = next(triple for triple in attempt.triples() if (triple[0] != triple[1]).any())
    where = tuple((mine != want).nonzero()[0, :-1].tolist())
    yours, wanted = mine[where], want[where]
    if not torch.isin(yours.double(), want.flatten().double()).all():
        says = f"A reshape only moves numbers, but {label(yours[0].item())} is none of the input's."
        return "numbers-changed", says
    name = "wrong-features"
    for mixed, wrong, part in (
        ("texts-mixed", "wrong-text", lambda row: row // 10000),
        ("row-mixes-tokens", "wrong-token", lambda row: row // 100 % 100),
    ):
        if not torch.equal(part(yours), part(wanted)):
            name = mixed if len(part(yours).unique()) > len(part(wanted).unique()) else wrong
            break
    rows = [", ".join(label(value) for value in row.tolist()) for row in (yours, wanted)]
    return name, f"On {case}, row [{', '.join(map(str, where))}] holds {rows[0]} (token.feature); wanted {rows[1]}."
