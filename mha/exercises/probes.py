"""What can be measured on an answer that no known mistake explains.

A probe takes an `Attempt` and returns (name, sentence), or None where it has nothing to say.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

import torch

from mha.exercises.compare import Odd, Raised, describe, equal, pairs, plain
from mha.exercises.exercise import Case, Exercise, random_tensor
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


def cells_used(attempt):
    """For numbers (h,) that are linear in weights (h, T, T): which cells of head 0's table count, and how much."""
    T, k = 5, 2
    wanted = {(t, t - k): 1 / (T - k) for t in range(k, T)}
    used = {}
    for t, s in itertools.product(range(T), range(T)):
        table = torch.zeros(2, T, T)
        table[0, t, s] = 1
        value = attempt.call(table, k)
        if not isinstance(value, torch.Tensor) or value.shape != (2,) or value.isnan().any():
            return None
        if value[0]:
            used[t, s] = value[0].item()
    other = random_tensor(0, 2, T, T)
    if abs(attempt.call(other, k)[0] - sum(share * other[0][cell] for cell, share in used.items())) > 1e-4:
        return None  # no weighted sum of cells
    extra, missing = ([cell for cell in one if cell not in other] for one, other in ((used, wanted), (wanted, used)))
    if extra and len(extra) < T * T // 2:
        many = f" and {len(extra) - 1} more that should not" if len(extra) > 1 else ", which should not"
        return "cells-too-many", f"With {T} tokens and k = {k}, cell {extra[0]} counts (query, key){many}."
    if missing:
        return (
            "cells-missing",
            f"With {T} tokens and k = {k}, cell {missing[0]} (query, key) does not count; it should.",
        )
    for cell, share in wanted.items():
        if not extra and abs(used[cell] - share) > 1e-4:
            says = f"The right cells, but with {T} tokens and k = {k} each counts {used[cell]:.3f}, wanted 1/{T - k}"
            return "wrong-share", f"{says}: a mean over the T − k tokens that have somebody there."
    return None


# Rearranged numbers: each input number is an address, 10000·text + 100·token + feature.


def addresses(B, T, d):
    """Numbers (B, T, d) that say where they come from."""
    return 10000.0 * torch.arange(B)[:, None, None] + 100.0 * torch.arange(T)[:, None] + torch.arange(d)


def address(value):
    """An address in short: token.feature, after the text and a colon if that is not text 0."""
    if value != value or value % 1 or value < 0:
        return f"{value:.2f}"
    text, rest = divmod(int(value), 10000)
    return f"{text}:{rest // 100}.{rest % 100}" if text else f"{rest // 100}.{rest % 100}"


def rearranged(attempt):
    """For a reshape: what the first wrong row holds, and what it should."""
    differing = (triple for triple in attempt.triples() if (triple[0] != triple[1]).any())
    mine, want, case = next(differing)
    where = tuple((mine != want).nonzero()[0, :-1].tolist())
    yours, wanted = mine[where], want[where]
    if not torch.isin(yours.double(), want.flatten().double()).all():
        return (
            "numbers-changed",
            f"A reshape only moves numbers, but {address(yours[0].item())} is none of the input's.",
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
    rows = [", ".join(address(value) for value in row.tolist()) for row in (yours, wanted)]
    place = f"[{', '.join(map(str, where))}]"
    return name, f"On {case}, row {place} holds {rows[0]} (token.feature); wanted {rows[1]}."


# Counts: a formula is found from a few values.

TERMS = {
    d_name + h_name: (d_power, h_power)
    for d_power, d_name in ((3, "d³"), (2, "d²"), (1, "d"), (0, "1"))
    for h_power, h_name in ((2, "·h²"), (1, "·h"), (0, ""), (-1, "/h"), (-2, "/h²"))
}


def formula(attempt):
    """An answer (d, h, bias) as a sum of powers of d and h, if it is one with few and simple factors."""
    sizes = [(d, h) for d in (12, 24, 36, 48, 60, 120) for h in (1, 2, 3, 4, 6, 12)]
    table = torch.tensor([[d**a * h**b for a, b in TERMS.values()] for d, h in sizes], dtype=torch.float64)
    weight = table.square().mean(dim=0).sqrt()  # so that large and small terms count alike
    said = []
    for bias in (False, True):
        counts = [attempt.call(d, h, bias) for d, h in sizes]
        if not all(isinstance(count, int | float) and math.isfinite(count) for count in counts):
            return None
        counts = torch.tensor(counts, dtype=torch.float64)[:, None]
        factors = (torch.linalg.lstsq(table / weight, counts).solution[:, 0] / weight * 12).round() / 12
        if not torch.allclose(table @ factors, counts[:, 0], rtol=1e-9, atol=1e-6):
            return "no-formula", "Your counts are no sum of powers of d and h; wanted 4·d², and 4·d more with biases."
        found = {term: factor for term, factor in zip(TERMS, factors.tolist(), strict=True) if factor}
        said.append(_sum(found) or "0")
    says = f"You count {said[0]} without biases (wanted 4·d²) and {said[1]} with them (wanted 4·d² + 4·d)."
    return "another-formula", says


def _sum(terms):
    """{term: factor} as it would be written."""
    words = [f"{abs(factor):g}·{term}".removesuffix("·1").replace("·1·", "·") for term, factor in terms.items()]
    signs = ["+" if factor > 0 else "−" for factor in terms.values()]
    return " ".join(f"{sign} {word}" for sign, word in zip(signs, words, strict=True)).removeprefix("+ ")


def share(attempt):
    """An answer (d, expansion) that leaves the range of a share, or moves with what it should not."""
    shares = {d: attempt.call(d, 4) for d in (8, 512)}
    if not all(isinstance(value, int | float) for value in shares.values()):
        return None
    for d, value in shares.items():
        if not 0 <= value <= 1:
            return "not-a-share", f"For d = {d} and expansion 4 it returns {value:,.4g}; a share lies between 0 and 1."
    if all(abs(mine - want) < 6e-3 for mine, want, _ in attempt.triples()):
        return "rounded", "Right, but rounded: return the number as it is."
    if abs(shares[8] - shares[512]) > 1e-6:
        says = f"It depends on d: {shares[8]:.4f} at 8, {shares[512]:.4f} at 512. Every matrix has d², so d cancels."
        return "depends-on-d", says
    odds = []
    for expansion in (1, 2, 4):
        value = attempt.call(8, expansion)
        odds.append(f"{value / (1 - value):.4g}" if isinstance(value, int | float) and value < 1 else "all")
    says = (
        f"At expansion 1, 2, 4 you give the feed-forward block {', '.join(odds)} times attention's; wanted 0.5, 1, 2."
    )
    return "wrong-proportion", says


# Lists of numbers, masks, rows of a matrix.


def turned_over(attempt):
    for mine, want, case in attempt.triples():
        if torch.equal(~mine, want):
            return "turned-over", f"On {case} every entry is inverted: True must mean blocked."
    for mine, want, case in attempt.triples():
        if not torch.equal(mine, want):
            free = (want & ~mine).sum().item()
            what = f"{free} entries that must be blocked are free" if free else "entries are blocked that must be free"
            return "wrong-entries", f"On {case}, {what}."
    return None


def wrong_entries(attempt):
    """For a mask: whether something hidden is seen, or something seen is hidden."""
    for mine, want, case in attempt.triples():
        for name, cells, words in (
            ("hidden-is-seen", mine & ~want, "is True and must be False: padding is seen"),
            ("real-is-hidden", want & ~mine, "is False and must be True: a real symbol is hidden"),
        ):
            if cells.any():
                return name, f"On {case}, entry {cells.nonzero()[0].tolist()} {words}."
    return None


def wrong_symbol(attempt):
    """For rows of symbols: the first wrong one."""
    for mine, want, case in attempt.triples():
        if not torch.equal(mine.double(), want.double()):
            text, place = (mine != want).nonzero()[0].tolist()
            says = f"symbol {place} of text {text} is {mine[text, place].item():g}, wanted {want[text, place].item():g}"
            return "wrong-symbol", f"On {case}, {says}."
    return None


def waves(attempt):
    """For a table of positions: whether it is made of waves, where they start and how fast they turn."""
    for mine, want, case in attempt.triples():
        if torch.allclose(mine, want, atol=1e-3):
            continue
        if not torch.allclose(mine[0], want[0], atol=1e-3):
            row = ", ".join(f"{value:.2f}" for value in mine[0, :4].tolist())
            return "wrong-first-row", f"On {case}, row 0 begins {row}; at place 0 sines are 0 and cosines 1."
        if not torch.allclose(mine[:, 0::2] ** 2 + mine[:, 1::2] ** 2, torch.ones(1), atol=1e-3):
            return "not-sine-and-cosine", f"On {case}, a pair's two columns are not the sine and cosine of one angle."
        turned = torch.atan2(mine[1, 0::2], mine[1, 1::2])
        rates = torch.atan2(want[1, 0::2], want[1, 1::2])
        wrong = (turned - rates).abs() > 1e-4
        pair = int(wrong.nonzero()[0]) if wrong.any() else 0
        says = f"pair {pair} turns by {turned[pair]:.4f} from place 0 to 1, wanted {rates[pair]:.4f}"
        return "wrong-rates", f"On {case}, {says}."
    return None


def mixes_memory(attempt):
    """For cross-attention: whether outputs are mixtures of the memory's values, each token's own."""
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
