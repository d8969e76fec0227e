"""What a learner sees of a check: a verdict as text and as HTML, wanted beside yours."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import torch

from mha import palette
from mha.exercises.compare import Raised, equal, pairs, unequal
from mha.exercises.exercise import Case, Exercise
from mha.views import svg

MARKS = {"right": "✓", "wrong": "✗", "error": "!", "not attempted": "·"}
ROLES = {"right": "RIGHT", "wrong": "WRONG", "error": "WRONG", "not attempted": "IDLE"}  # of the palette


@dataclass(frozen=True)
class Difference:
    """The first place where an answer differs: in words, and drawn."""

    words: str
    svg: str


@dataclass(frozen=True)
class Verdict:
    """What `check` found: status, the mistake's stable name (or None), and what to say about it."""

    exercise: str
    title: str
    status: str
    mistake: str | None = None
    message: str = ""
    lines: str = ""  # the learner's own lines that raised an error
    printed: str = ""  # what the answer printed while it was checked
    difference: Difference | None = None

    def _parts(self) -> Iterator[str]:
        yield self.message
        if self.lines:
            yield f"It {'was in' if self.mistake == 'runs-too-long' else 'was raised by'}\n{self.lines}"
        if self.difference and self.difference.words:
            yield self.difference.words
        if self.printed:
            shown = [line if len(line) < 120 else line[:117] + "…" for line in self.printed.strip().splitlines()]
            yield "It also printed: " + " / ".join(shown[:3]) + (" …" if len(shown) > 3 else "")

    def _headline(self) -> str:
        name = f" ({self.mistake})" if self.mistake else ""
        return f"{MARKS[self.status]} {self.exercise} {self.title}: {self.status}{name}"

    def __repr__(self) -> str:
        return "\n".join([self._headline(), *self._parts()])

    def _repr_html_(self) -> str:
        paragraphs = "".join(
            f'<p style="margin:6px 0;white-space:pre-wrap">{escape(part)}</p>' for part in self._parts()
        )
        picture = self.difference.svg if self.difference else ""
        edge = getattr(palette, ROLES[self.status])
        look = f"border-left:6px solid {edge};padding:6px 12px;background:{palette.PAPER};color:{palette.INK}"
        return f'<div role="status" style="{look}"><b>{escape(self._headline())}</b>{paragraphs}{picture}</div>'


def difference(exercise: Exercise, cases: list[Case]) -> Difference | None:
    """The first difference between outcomes: a table of numbers, or the two tensors side by side."""
    for case in cases:
        mine, want = case.yours, case.wanted
        if isinstance(mine, Raised) or case.same:
            continue
        parts = list(enumerate(pairs(mine, want)))
        for number, (a, b) in parts[exercise.look_at :] + parts[: exercise.look_at]:
            if not equal(a, b, exercise.tolerance):
                part = exercise.parts[number] if exercise.parts else ""
                return _tensors(exercise, part, case.description, a, b)
        if isinstance(mine, int | float | list) and isinstance(want, int | float | list):
            called = ", ".join(f"{name}={value}" for name, value in zip(exercise.names, case.arguments, strict=False))
            return Difference(f"First difference: for {called}, wanted {_short(want)}, yours {_short(mine)}.", "")
    return None


def _short(value: object) -> str:
    text = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) < 120 else text[:117] + "…"


def _tensors(exercise: Exercise, part: str, case: str, mine: torch.Tensor, want: torch.Tensor) -> Difference:
    """Two tables, the slice in which they first differ; what differs is framed."""
    cell = exercise.cell
    mine, want = torch.atleast_1d(mine), torch.atleast_1d(want)
    where, words = [0] * max(mine.dim(), want.dim()), ""
    differing = unequal(mine, want, exercise.tolerance).nonzero().tolist() if mine.shape == want.shape else []
    if differing:  # there are none where booleans meet numbers
        where = differing[0]
        place = f"{' in the ' + part if part else ''} at [{', '.join(map(str, where))}], on {case}"
        values = [cell(tensor[tuple(where)].item()) for tensor in (want, mine)]
        if values[0] == values[1]:  # rounded alike
            values = [f"{tensor[tuple(where)].item():.6g}" for tensor in (want, mine)]
        words = f"First difference{place}: wanted {values[0]}, yours {values[1]}{exercise.legend}."
    tables = {"wanted": _window(want, where), "yours": _window(mine, where)}
    same_size = tables["wanted"].shape == tables["yours"].shape
    differs = unequal(tables["yours"], tables["wanted"], exercise.tolerance) if same_size else None
    parts, left = [], 0
    for name, table in tables.items():
        parts.append(svg.text(left, 14, f"{name}{exercise.legend}", 14))
        for y, row in enumerate(table.tolist()):
            for x, value in enumerate(row):
                parts.append(svg.cell(left + 46 * x, 22 + 24 * y, 46, 24, palette.PAPER, cell(value)))
                if name == "yours" and differs is not None and differs[y, x]:
                    parts.append(svg.frame(left + 46 * x + 2, 24 + 24 * y, 42, 20, palette.CHOSEN, 2))
        left += max(46 * table.size(1), 10 * len(name + exercise.legend)) + 40
    height = 30 + 24 * max(map(len, tables.values()))
    return Difference(words, svg.document(parts, left, height, words or "Two tables of different sizes."))


def _window(tensor: torch.Tensor, where: list[int]) -> torch.Tensor:
    """The last two axes around this place, at most 8 × 8 numbers."""
    *leading, row, column = [0] * (2 - len(where)) + where[-max(tensor.dim(), 2) :]
    table = torch.atleast_2d(tensor)
    for i in leading:
        table = table[min(i, len(table) - 1)]
    top, left = max(0, row - 7), max(0, column - 7)
    return table[top : top + 8, left : left + 8]
