"""Reading the heads of the date translator: where they look, by chance and in truth, and what sixty models have.

`weights` are those of cross-attention, (B, h, 10, S); `kinds` (B, S) say of each character of the source what it is,
−1 on padding.  Notebook 07.
"""

import csv
import datetime
import math
import string
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from mha.tasks.dates import FIELDS, START, WRITES, decode, encode, fields, inputs, write
from mha.transformer import Transformer

Written = Sequence[tuple[datetime.date, str]]  # dates, each with the format in which it is written
Row = dict[str, float]  # what was measured on one head of the census
DIGITS = ("Y1", "Y2", "Y3", "Y4", "month", "D1", "D2", "rest")  # the year's digits, the day's, and all else


@torch.no_grad()
def maps(model: Transformer, source: Tensor, target: Tensor, size: int = 500) -> dict[str, Tensor]:
    """All weights while these targets are written: {"encoder": (B, h, S, S), "decoder": (B, h, 10, 10), "cross": …}.

    Those of the first layers, on the CPU; computed for `size` texts at a time, which keeps memory small.
    """
    parts = zip(source.split(size), target.split(size), strict=True)
    weights = [model(texts, inputs(symbols))[1] for texts, symbols in parts]
    return {name: torch.cat([tables[name][0].cpu() for tables in weights]) for name in weights[0]}


def fields_of(date: datetime.date, form: str) -> list[int]:
    """For each character of the date in this format, the field it belongs to: a list of indices into FIELDS."""
    pieces = fields(date)
    where: list[int] = []
    for literal, name, _, _ in string.Formatter().parse(form):
        where += [3] * len(literal)
        if name:
            field = {"y": 0, "m": 1, "d": 2, "t": 2}[name[0]] if name not in ("ddd", "dddd") else 3
            where += [field] * len(str(pieces[name]))
    return where


def digits_of(date: datetime.date, form: str) -> list[int]:
    """For each character the digit it is: a list of indices into DIGITS.

    A year of two digits has Y3 and Y4, a day of one digit D2 alone; the letters of 3rd are "rest".
    """
    where, text = fields_of(date, form), str(write(date, form))
    which = [4 if field == 1 else 7 for field in where]
    for field, last in ((0, 3), (2, 6)):
        digits = [s for s, character in enumerate(text) if where[s] == field and character.isdigit()]
        for back, s in enumerate(reversed(digits)):
            which[s] = last - back
    return which


def kinds(written: Written, of: Callable[[datetime.date, str], list[int]] = fields_of) -> Tensor:
    """What the characters of several dates are, their fields unless said otherwise, padded with −1: (B, longest)."""
    rows = [torch.tensor(of(date, form)) for date, form in written]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


def even(kinds: Tensor) -> Tensor:
    """The null of every score: a head that looks at all characters of its text alike, (B, 1, 10, S)."""
    real = (kinds >= 0).float()
    return (real / real.sum(dim=1, keepdim=True))[:, None, None].expand(-1, 1, len(WRITES), -1)


def looking(weights: Tensor, kinds: Tensor, count: int) -> Tensor:
    """While each symbol is written, the weight on each of `count` kinds of characters: (h, 10, count)."""
    there = torch.stack([kinds == kind for kind in range(count)], dim=-1).float()  # (B, S, count)
    return torch.einsum("bhts,bsk->htk", weights, there) / len(weights)


def reading(weights: Tensor, kinds: Tensor) -> Tensor:
    """Where each head looks while each field is written: (h, 3, 4), rows and columns in the order of FIELDS.

    Each row sums to one.
    """
    mass = looking(weights, kinds, len(FIELDS))
    return torch.stack([mass[:, WRITES.eq(field)].mean(dim=1) for field in range(3)], dim=1)


def positional(weights: Tensor) -> Tensor:
    """How far weights are a matter of position alone: (h,), the largest weight of the *mean* table, per row.

    A head that looks at one position, whatever the text, has 1; one that follows the text has little.
    """
    return weights.mean(dim=0).amax(dim=-1).mean(dim=-1)


def from_the_end(weights: Tensor, kinds: Tensor) -> Tensor:
    """The same weights with positions counted from the end: the last character of each text in the last column."""
    S = kinds.size(1)
    shift = S - (kinds >= 0).sum(dim=1, keepdim=True)  # how much padding there is
    columns = (torch.arange(S) - shift) % S  # (B, S): the padding comes round to the front
    return weights.gather(3, columns[:, None, None].expand(-1, *weights.shape[1:3], -1))


def copying(weights: Tensor, kinds: Tensor) -> Tensor:
    """While the i-th digit of the year is written, the weight on the year's i-th digit: (h,), over four-digit years."""
    rows = []
    for table, fields_here in zip(weights, kinds.tolist(), strict=True):
        year = [s for s, field in enumerate(fields_here) if field == 0]
        if len(year) == 4:
            rows.append(table[:, range(4), year].mean(dim=-1))
    return torch.stack(rows).mean(dim=0)


def lost(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """What was right before and is wrong after, less the reverse, and ± what: two (4,), in points of 100 dates.

    before, after: bool (N, 4) of `dates.hits`.  The interval holds for other dates and this one model: 95 %,
    1.96 standard errors of the differences date by date.
    """
    change = before.float() - after.float()
    return 100 * change.mean(dim=0), 196 * change.std(dim=0) / math.sqrt(len(change))


@torch.no_grad()
def exchange(model: Transformer, text: str, other: str, position: int) -> str:
    """What the model writes if its memory at one position of `text` is that of `other` there: an ISO date.

    Only what cross-attention reads there changes; both texts went through the encoder as they are.
    """
    device = next(model.parameters()).device
    (memory, _, _), (theirs, _, _) = (model.encode(encode([t]).to(device), need_weights=False) for t in (text, other))
    memory[:, position] = theirs[:, position]
    with model.norm_memory.register_forward_hook(lambda *_: memory):  # the last step of the encoder
        symbols, _ = model.greedy(encode([text]).to(device), START, 10)
    return decode(symbols)[0]


def exchanged_days(
    model: Transformer, written: Written, kind: int, change: Callable[[int], int]
) -> list[tuple[str, str, str]]:
    """What becomes of the day if the memory at one character is that of the same date on another day.

    written: (date, format) with days of two digits; kind: the character, an index into DIGITS; change: day → day.
    Returns a list of (own ISO date, the other's, what the model writes), without those whose other text is shorter.
    """
    rows = []
    for date, form in written:
        other = date.replace(day=change(date.day))
        text, theirs = str(write(date, form)), str(write(other, form))
        position = digits_of(date, form).index(kind)
        if position < len(theirs):
            rows.append((date.isoformat(), other.isoformat(), exchange(model, text, theirs, position)))
    return rows


# The census: what was measured on every cross head of sixty models, in data/dates/heads.csv.

SETTINGS = [(h, dropout) for dropout in (0.0, 0.25) for h in (2, 4, 8)]
OWN = ("year_while_year", "month_while_month", "day_while_day")


def census(path: Path | str) -> dict[tuple[int, float], list[Row]]:
    """All heads that were measured, by setting: {(h, dropout): [row, …]}, a row a dict of numbers."""
    with open(path, encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {setting: [row for row in rows if (row["heads"], row["dropout"]) == setting] for setting in SETTINGS}


def breaks_alone(field: str, way: str) -> Callable[[Row], bool]:
    """The role "its loss breaks this field alone": more than 2 points of it, and over four times each other's."""

    def is_so(row: Row) -> bool:
        others = [row[f"{way}_loses_{other}"] for other in FIELDS[:3] if other != field]
        return row[f"{way}_loses_{field}"] > max(0.02, 4 * max(others))

    return is_so


def roles(way: str = "zero") -> dict[str, Callable[[Row], bool]]:
    """Roles that people give to heads, each as a question to a row: {role: row → bool}.

    `way` is how a head was switched off: to "zero" or to its "mean".
    """
    return {
        "follows whatever is written": lambda row: min(row[name] for name in OWN) > 0.5,
        "reads only the day": lambda row: row[OWN[2]] > 0.8 and max(row[OWN[0]], row[OWN[1]]) < 0.5,
        "copies only the year": lambda row: row["copies_year"] > 0.8 and max(row[OWN[1]], row[OWN[2]]) < 0.5,
        "looks at a fixed place": lambda row: row["positional"] > 0.5,
        "redundant": lambda row: row[f"{way}_loses_date"] <= 0.005,
        **{f"its loss breaks the {field} alone": breaks_alone(field, way) for field in FIELDS[:3]},
    }


def counted(
    groups: dict[tuple[int, float], list[Row]], is_so: Callable[[Row], bool]
) -> list[tuple[int, int, int, int]]:
    """For each setting: (heads of that role, all heads, models with at least one, all models)."""
    counts = []
    for rows in groups.values():
        chosen = [row for row in rows if is_so(row)]
        counts.append(
            (len(chosen), len(rows), len({row["seed"] for row in chosen}), len({row["seed"] for row in rows}))
        )
    return counts


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Between which shares the true one lies, 95 %, if `count` of `of` models had it.  Source: Wilson 1927."""
    z = 1.96
    middle, spread = (count + z * z / 2) / (of + z * z), math.sqrt(count * (of - count) / of + z * z / 4)
    return max(0.0, middle - z * spread / (of + z * z)), min(1.0, middle + z * spread / (of + z * z))
