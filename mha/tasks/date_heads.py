"""Reading the heads of the date translator: where they look, by chance and in truth, and what sixty models have.

`weights` are those of cross-attention, (B, h, 10, S); `kinds` (B, S) say of each character of the source what it is,
−1 on padding.  Notebook 07.
"""

import csv
import math
import string

import torch

from mha.tasks.dates import FIELDS, START, WRITES, decode, encode, fields, inputs, write

DIGITS = ("Y1", "Y2", "Y3", "Y4", "month", "D1", "D2", "rest")  # the year's digits, the day's, and all else


@torch.no_grad()
def maps(model, source, target, size=500):
    """All weights while these targets are written: {"encoder": (B, h, S, S), "decoder": (B, h, 10, 10), "cross": …}.

    Those of the first layers, on the CPU; computed for `size` texts at a time, which keeps memory small.
    """
    parts = zip(source.split(size), target.split(size), strict=True)
    found = [model(texts, inputs(symbols), need_weights=True)[1] for texts, symbols in parts]
    return {name: torch.cat([tables[name][0].cpu() for tables in found]) for name in found[0]}


def fields_of(date, form):
    """For each character of the date in this format, the field it belongs to: a list of indices into FIELDS."""
    pieces, found = fields(date), []
    for literal, name, _, _ in string.Formatter().parse(form):
        found += [3] * len(literal)
        if name:
            field = {"y": 0, "m": 1, "d": 2, "t": 2}[name[0]] if name not in ("ddd", "dddd") else 3
            found += [field] * len(str(pieces[name]))
    return found


def digits_of(date, form):
    """For each character the digit it is: a list of indices into DIGITS.

    A year of two digits has Y3 and Y4, a day of one digit D2 alone; the letters of 3rd are "rest".
    """
    where, signs = fields_of(date, form), write(date, form)
    found = [4 if field == 1 else 7 for field in where]
    for field, last in ((0, 3), (2, 6)):
        digits = [s for s, sign in enumerate(signs) if where[s] == field and sign.isdigit()]
        for back, s in enumerate(reversed(digits)):
            found[s] = last - back
    return found


def kinds(written, of=fields_of):
    """What the characters of several dates (date, format) are, padded with −1: (B, longest)."""
    rows = [torch.tensor(of(date, form)) for date, form in written]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


def place_fields(written):
    """The fields of several dates (date, format), padded with −1: (B, longest)."""
    return kinds(written, fields_of)


def even(kinds):
    """The null of every score: a head that looks at all characters of its text alike, (B, 1, 10, S)."""
    real = (kinds >= 0).float()
    return (real / real.sum(dim=1, keepdim=True))[:, None, None].expand(-1, 1, len(WRITES), -1)


def looking(weights, kinds, count):
    """While each symbol is written, the weight on each of `count` kinds of characters: (h, 10, count)."""
    there = torch.stack([kinds == kind for kind in range(count)], dim=-1).float()  # (B, S, count)
    return torch.einsum("bhts,bsk->htk", weights, there) / len(weights)


def reading(weights, kinds):
    """Where each head looks while each field is written: (h, 3, 4), rows and columns in the order of FIELDS.

    Each row sums to one.
    """
    mass = looking(weights, kinds, len(FIELDS))
    return torch.stack([mass[:, WRITES.eq(field)].mean(dim=1) for field in range(3)], dim=1)


def positional(weights):
    """How far each head's weights are a matter of place alone: (h,), the largest weight of the *mean* table, per row.

    A head that looks at one place, whatever the text, has 1; one that follows the text has little.
    """
    return weights.mean(dim=0).amax(dim=-1).mean(dim=-1)


def from_the_end(weights, kinds):
    """The same weights with places counted from the end: the last character of each text in the last column."""
    S = kinds.size(1)
    shift = S - (kinds >= 0).sum(dim=1, keepdim=True)  # how much padding there is
    columns = (torch.arange(S) - shift) % S  # (B, S): the padding comes round to the front
    return weights.gather(3, columns[:, None, None].expand(-1, *weights.shape[1:3], -1))


def copying(weights, kinds):
    """While the i-th digit of the year is written, the weight on the year's i-th digit: (h,), over four-digit years."""
    found = []
    for table, fields_here in zip(weights, kinds.tolist(), strict=True):
        year = [s for s, field in enumerate(fields_here) if field == 0]
        if len(year) == 4:
            found.append(table[:, range(4), year].mean(dim=-1))
    return torch.stack(found).mean(dim=0)


def lost(before, after):
    """What was right before and is wrong after, less the reverse, and ± what: two (4,), in points of 100 dates.

    before, after: bool (N, 4) of `dates.hits`.  The interval holds for other dates and this one model: 95 %,
    1.96 standard errors of the differences date by date.
    """
    change = before.float() - after.float()
    return 100 * change.mean(dim=0), 196 * change.std(dim=0) / math.sqrt(len(change))


@torch.no_grad()
def exchange(model, text, other, place):
    """What the model writes if the memory at one place of `text` is that of the same place of `other`: an ISO date.

    Only what cross-attention reads there changes; both texts went through the encoder as they are.
    """
    device = next(model.parameters()).device
    (memory, _, _), (theirs, _, _) = (model.encode(encode([t]).to(device)) for t in (text, other))
    memory[:, place] = theirs[:, place]
    with model.norm_memory.register_forward_hook(lambda *_: memory):  # the last step of the encoder
        symbols, _ = model.greedy(encode([text]).to(device), START, 10)
    return decode(symbols)[0]


def exchanged_days(model, written, kind, change):
    """What becomes of the day if the memory at one character is that of the same date on another day.

    written: (date, format) with days of two digits; kind: the character, an index into DIGITS; change: day → day.
    Returns a list of (own ISO date, the other's, what the model writes), without those whose other text is shorter.
    """
    found = []
    for date, form in written:
        other = date.replace(day=change(date.day))
        text, theirs, place = write(date, form), write(other, form), digits_of(date, form).index(kind)
        if place < len(theirs):
            found.append((date.isoformat(), other.isoformat(), exchange(model, text, theirs, place)))
    return found


# The census: what was measured on every cross head of sixty models, in data/dates/heads.csv.

SETTINGS = [(h, dropout) for dropout in (0.0, 0.25) for h in (2, 4, 8)]
OWN = ("year_while_year", "month_while_month", "day_while_day")


def census(path):
    """All heads that were measured, by setting: {(h, dropout): [row, …]}, a row a dict of numbers."""
    with open(path, encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {setting: [row for row in rows if (row["heads"], row["dropout"]) == setting] for setting in SETTINGS}


def breaks_alone(field, way):
    """The role "its loss breaks this field alone": more than 2 points of it, and over four times each other's."""

    def is_so(row):
        others = [row[f"{way}_loses_{other}"] for other in FIELDS[:3] if other != field]
        return row[f"{way}_loses_{field}"] > max(0.02, 4 * max(others))

    return is_so


def roles(way="zero"):
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


def counted(groups, is_so):
    """For each setting: (heads of that role, all heads, models with at least one, all models)."""
    found = []
    for rows in groups.values():
        chosen = [row for row in rows if is_so(row)]
        found.append((len(chosen), len(rows), len({row["seed"] for row in chosen}), len({row["seed"] for row in rows})))
    return found


def share_interval(count, of):
    """Between which shares the true one lies, 95 %, if `count` of `of` models had it.  Source: Wilson 1927."""
    z = 1.96
    middle, spread = (count + z * z / 2) / (of + z * z), math.sqrt(count * (of - count) / of + z * z / 4)
    return max(0.0, middle - z * spread / (of + z * z)), min(1.0, middle + z * spread / (of + z * z))
