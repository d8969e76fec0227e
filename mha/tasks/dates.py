"""People's ways of writing a date, and the one that computers sort by: "3 May 1979" → "1979-05-03".  Notebook 07.

No string has two meanings, by three rules: with the year last, dots and dashes put the day first and slashes the
month (as in the US); a year of two digits means 1969 to 2068, as in the C library; a year in front is followed by
month and day.  A test writes every date of 1900 to 2099 in every format and finds no string twice.
"""

import datetime
import re
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mha.transformer import Transformer

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

# Day {d} {dd}, with its ending {th}; month {m} {mm}, its name {mon} {month}; year {yy} {yyyy}; weekday {ddd} {dddd}.
FORMATS = (
    "{yyyy}-{mm}-{dd}",
    "{yyyy}/{mm}/{dd}",
    "{yyyy}.{mm}.{dd}",
    "{yyyy}{mm}{dd}",
    "{yyyy} {mon} {d}",
    "{yyyy} {month} {d}",
    "{yyyy}, {month} {d}",
    "{yyyy}-{mon}-{dd}",
    "{d}.{m}.{yyyy}",
    "{dd}.{mm}.{yyyy}",
    "{d}.{m}.{yy}",
    "{dd}-{mm}-{yyyy}",
    "{d}-{m}-{yyyy}",
    "{dd}-{mm}-{yy}",
    "{m}/{d}/{yyyy}",
    "{mm}/{dd}/{yyyy}",
    "{m}/{d}/{yy}",
    "{mm}/{dd}/{yy}",
    "{d} {mon} {yyyy}",
    "{dd} {mon} {yyyy}",
    "{d} {month} {yyyy}",
    "{dd} {month} {yyyy}",
    "{d}. {month} {yyyy}",
    "{d} {month}, {yyyy}",
    "{d} {mon} {yy}",
    "{d} {mon} '{yy}",
    "{d}-{mon}-{yyyy}",
    "{dd}-{mon}-{yy}",
    "{d}/{mon}/{yyyy}",
    "{th} {month} {yyyy}",
    "{th} of {month} {yyyy}",
    "the {th} of {month}, {yyyy}",
    "{mon} {d}, {yyyy}",
    "{mon}. {d}, {yyyy}",
    "{mon} {d} {yyyy}",
    "{mon} {dd}, {yyyy}",
    "{month} {d}, {yyyy}",
    "{month} {d} {yyyy}",
    "{month} {th}, {yyyy}",
    "{month} {th} {yyyy}",
    "{month} {d}, '{yy}",
    "{dddd}, {month} {d}, {yyyy}",
    "{dddd}, {d} {month} {yyyy}",
    "{dddd} {d} {month} {yyyy}",
    "{dddd}, {month} {th}, {yyyy}",
    "{ddd}, {mon} {d}, {yyyy}",
    "{ddd}, {d} {mon} {yyyy}",
    "{ddd} {d} {mon} {yyyy}",
)
HELD_OUT_FORMATS = (
    "{dd}/{mon}/{yyyy}",
    "{ddd} {mon} {d} {yyyy}",
    "{dddd} {th} {month} {yyyy}",
    "{month} the {th}, {yyyy}",
)
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
PAD, START = 0, 11  # symbol 0 pads; the decoder begins with START
SOURCE = " ',-./0123456789abcdefghijklmnopqrstuvwxyz"  # symbol i + 1 is SOURCE[i]; capitals are read as small letters
TARGET = "-0123456789"  # symbol i is TARGET[i]
LONGEST = 40
ALIKE = str.maketrans("’‘`´‐‑–—−", "''''-----")  # as phones and word processors write ' and -
WORDS = {part.lower() for name in (*MONTHS, *DAYS) for part in (name, name[:3])} | set("st nd rd th of the".split())


def fields(date: datetime.date) -> dict[str, str | int]:
    """The pieces of which formats are made, for one date."""
    d, m, y = date.day, date.month, date.year
    ending = "th" if d in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    month, weekday = MONTHS[m - 1], DAYS[date.weekday()]
    return {
        "d": d, "dd": f"{d:02}", "th": f"{d}{ending}", "m": m, "mm": f"{m:02}", "mon": month[:3], "month": month,
        "yy": f"{y % 100:02}", "yyyy": f"{y:04}", "ddd": weekday[:3], "dddd": weekday,
    }  # fmt: skip


def write(date: datetime.date, form: str) -> str | None:
    """The date in this format, a string; None if its year needs four digits and the format has two."""
    if "{yy}" in form and not 1969 <= date.year <= 2068:
        return None
    return form.format(**fields(date))


def part(date: datetime.date) -> str:
    """ "train", "validation" or "test": decided by the date alone, the same on every machine."""
    number = zlib.crc32(date.isoformat().encode()) % 100
    return "test" if number < 5 else "validation" if number < 10 else "train"


def all_dates(name: str | None = None, first: datetime.date = FIRST, last: datetime.date = LAST) -> list[datetime.date]:
    """Every date of 1900 to 2099, or those of one part."""
    days = (first + datetime.timedelta(days) for days in range((last - first).days + 1))
    return [date for date in days if name is None or part(date) == name]


def draw(
    count: int, dates: Sequence[datetime.date], seed: int = 0, formats: Sequence[str] = FORMATS
) -> list[tuple[datetime.date, str]]:
    """`count` random pairs (date, format) that can be written."""
    generator = torch.Generator().manual_seed(seed)
    drawn: list[tuple[datetime.date, str]] = []
    while len(drawn) < count:
        left = count - len(drawn)
        which = torch.randint(len(dates), (left,), generator=generator).tolist()
        how = torch.randint(len(formats), (left,), generator=generator).tolist()
        drawn += [(dates[i], formats[j]) for i, j in zip(which, how, strict=True) if write(dates[i], formats[j])]
    return drawn


def pairs(
    count: int, dates: Sequence[datetime.date], seed: int = 0, formats: Sequence[str] = FORMATS
) -> list[tuple[str, str]]:
    """`count` random pairs (string, ISO date)."""
    return [(str(write(date, form)), date.isoformat()) for date, form in draw(count, dates, seed, formats)]


def clean(text: str) -> str:
    """A date as the model reads it: small letters, spaces in a row as one, ’ as ' and – as -."""
    return " ".join(text.translate(ALIKE).lower().split())


def encode(texts: Sequence[str]) -> Tensor:
    """Strings, cleaned, as symbols (B, longest), padded with 0.

    Raises ValueError for what is empty, too long, or has characters that no date of ours has.
    """
    rows = []
    for text in map(clean, texts):
        if not 0 < len(text) <= LONGEST:
            raise ValueError(f"a date has 1 to {LONGEST} characters, got {len(text)}: {text[:50]!r}")
        unknown = sorted(set(text) - set(SOURCE))
        if unknown:
            shown = " ".join(character if character.isprintable() else repr(character) for character in unknown)
            raise ValueError(f"the model has never seen “{shown}”: it knows a to z, 0 to 9, spaces and ' , - . /")
        rows.append(torch.tensor([SOURCE.index(character) + 1 for character in text]))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def encode_dates(isos: Sequence[str]) -> Tensor:
    """ISO dates as symbols (B, 10)."""
    return torch.tensor([[TARGET.index(character) for character in iso] for iso in isos])


def decode(symbols: Tensor) -> list[str]:
    """Symbols (B, 10) as strings; START, which only an untrained model writes, as a question mark."""
    return ["".join(f"{TARGET}?"[i] for i in row) for row in symbols.tolist()]


class Batches:
    """Batches of about equal length, so that little is padded: batches(step) → (source, target), always the same.

    `examples` are pairs of strings; after all have been used they come again in another order.
    """

    def __init__(
        self,
        examples: Sequence[tuple[str, str]],
        size: int,
        seed: int = 0,
        device: torch.device | str | None = None,
    ):
        self.size, self.seed, self.device = size, seed, device
        self.source = encode([text for text, _ in examples])
        self.target = encode_dates([iso for _, iso in examples])
        self.lengths = (self.source != PAD).sum(dim=1)
        self.epoch = -1
        self.order: list[Tensor] = []

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Source (size, longest) and target (size, 10) of this step."""
        epoch, number = divmod(step, len(self.source) // self.size)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, self._order(epoch)
        rows = self.order[number]
        source = self.source[rows, : int(self.lengths[rows].max())]
        return source.to(self.device), self.target[rows].to(self.device)

    def _order(self, epoch: int) -> list[Tensor]:
        """All examples, sorted by length within chunks of twenty batches, then the batches shuffled."""
        generator = torch.Generator().manual_seed(1000 * self.seed + epoch)
        rows = torch.randperm(len(self.source), generator=generator)
        chunks = [chunk[self.lengths[chunk].argsort()] for chunk in rows.split(20 * self.size)]
        batches = torch.cat(chunks).split(self.size)[: len(rows) // self.size]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def inputs(target: Tensor) -> Tensor:
    """What the decoder is given while it learns: START, then all but the last of the target (B, 10)."""
    return torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Cross-entropy of the ten symbols, each predicted from the true ones before it."""
    source, target = batch
    scores, _ = model(source, inputs(target), need_weights=False)
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


@torch.no_grad()
def hits(model: Transformer, examples: Sequence[tuple[str, str]], size: int = 500) -> Tensor:
    """What greedy decoding gets right of each pair: bool (N, 4), the whole date, its year, month and day."""
    device = next(model.parameters()).device
    rows = []
    for i in range(0, len(examples), size):
        texts, isos = zip(*examples[i : i + size], strict=True)
        symbols, _ = model.greedy(encode(texts).to(device), START, 10)
        same = symbols.cpu() == encode_dates(isos)
        parts = same, same[:, WRITES.eq(0)], same[:, WRITES.eq(1)], same[:, WRITES.eq(2)]
        rows.append(torch.stack([part.all(dim=1) for part in parts], dim=1))
    return torch.cat(rows)


def right(model: Transformer, examples: Sequence[tuple[str, str]], size: int = 500) -> Tensor:
    """The shares of whole dates, years, months and days that greedy decoding gets right, in this order (4,)."""
    return hits(model, examples, size).float().mean(dim=0)


def exact(model: Transformer, examples: Sequence[tuple[str, str]]) -> float:
    """The share of pairs that greedy decoding translates without a single wrong symbol."""
    return right(model, examples)[0].item()


FIELDS = ("year", "month", "day", "rest")
WRITES = torch.tensor([0, 0, 0, 0, 3, 1, 1, 3, 2, 2])  # which field each output symbol belongs to


@torch.no_grad()
def doubts(model: Transformer, texts: Sequence[str]) -> Tensor:
    """How little the model trusts its own translations: (B,), one minus the product of its ten probabilities."""
    source = encode(texts).to(next(model.parameters()).device)
    return 1 - model.greedy(source, START, 10)[1].prod(dim=1).cpu()


@torch.no_grad()
def translate(model: Transformer, text: str) -> tuple[str, float, str | None]:
    """One text as (ISO date, the model's doubt, why it is a guess or None).  Raises ValueError as `encode` does."""
    symbols, probabilities = model.greedy(encode([text]).to(next(model.parameters()).device), START, 10)
    (iso,) = decode(symbols)
    return iso, 1 - probabilities.prod().item(), caution(text, iso)


def caution(text: str, iso: str) -> str | None:
    """Why the translation iso of this text is a guess, in words; None if a learned format writes this day so.

    No string has two meanings, so None means right.  This asks the calendar and the formats, not the model.
    """
    date = _date(iso)
    if date and clean(text) in {clean(write(date, form) or "") for form in FORMATS}:
        return None
    words, numbers = (re.findall(kind, clean(text)) for kind in ("[a-z]+", "[0-9]+"))
    strange = [word for word in words if word not in WORDS]
    years = [number for number in numbers if len(number) == 4 and not FIRST.year <= int(number) <= LAST.year]
    weekday = next((day for day in DAYS if {day.lower(), day[:3].lower()} & set(words)), None)
    if strange:
        return f"it has never learned the word “{strange[0]}”"
    if missing(text):
        return f"a date has a day, a month and a year, and this has no {' and no '.join(missing(text))}"
    if years:
        return f"it has learned the years {FIRST.year} to {LAST.year}, and {years[0]} is none of them"
    if date is None:
        return f"there is no such day as {iso}"
    if weekday and weekday != DAYS[date.weekday()]:
        return f"{iso} is a {DAYS[date.weekday()]}, not a {weekday}"
    return f"none of the {len(FORMATS)} formats that it has learned writes {iso} in this way"


def missing(text: str) -> list[str]:
    """Which of day, month and year nothing is left for in this text: a list of words, empty where all may be there."""
    names = {part.lower() for name in MONTHS for part in (name, name[:3])}
    named = bool(names & set(re.findall("[a-z]+", clean(text))))
    numbers = re.findall("[0-9]+", clean(text))
    if any(len(number) > 4 for number in numbers):  # all in one, as in 19790503
        return []
    year = any(len(number) == 4 or int(number) > 31 for number in numbers)
    wanted = [*([] if named else ["month"]), "day", *([] if year else ["year"])]
    return wanted[len(numbers) - year :]


def _date(iso: str) -> datetime.date | None:
    """The day, or None if there is none of that name."""
    try:
        return datetime.date.fromisoformat(iso)
    except ValueError:
        return None


def model(num_heads: int = 4, d_model: int = 64) -> Transformer:
    """An untrained Transformer for this task: 126,412 parameters for d = 64."""
    return Transformer(len(SOURCE) + 1, len(TARGET) + 1, d_model, num_heads, 4 * d_model, longest=LONGEST)


# Chosen on the validation dates: batches of 64, of 40,000 examples, for so many steps.
SETTINGS = {"steps": 1200, "lr": 8e-3}


def learning_batches(seed: int = 0, device: torch.device | str | None = None) -> Batches:
    """The batches that `SETTINGS` goes with."""
    return Batches(pairs(40_000, all_dates("train"), seed), 64, seed, device)
