"""What a learner sees of a check: a verdict as text and as HTML, wanted beside yours."""

from dataclasses import dataclass

import torch

from mha import palette
from mha.exercises.compare import Raised, equal, pairs, unequal
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

    def _parts(self):
        yield self.message
        if self.lines:
            yield f"It {'was in' if self.mistake == 'runs-too-long' else 'was raised by'}\n{self.lines}"
        if self.difference and self.difference.words:
            yield self.difference.words
        if self.printed:
            shown = [line if len(line) < 120 else line[:117] + "…" for line in self.printed.strip().splitlines()]
            yield "It also printed: " + " / ".join(shown[:3]) + (" …" if len(shown) > 3 else "")

    def _headline(self):
        name = f" ({self.mistake})" if self.mistake else ""
        return f"{MARKS[self.status]} {self.exercise} {self.title}: {self.status}{name}"

    def __repr__(self):
        return "\n".join([self._headline(), *self._parts()])

    def _repr_html_(self):
        paragraphs = "".join(
            f'<p style="margin:6px 0;white-space:pre-wrap">{svg.escape(part)}</p>' for part in self._parts()
        )
        picture = self.difference.svg if self.difference else ""
        edge = getattr(palette, ROLES[self.status])
        look = f"border-left:6px solid {edge};padding:6px 12px;background:{palette.PAPER};color:{palette.INK}"
        return f'<div role="status" style="{look}"><b>{svg.escape(self._headline())}</b>{paragraphs}{picture}</div>'


def difference(exercise, cases):
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


def _short(value):
    text = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) < 120 else text[:117] + "…"


def _tensors(exercise, part, description, mine, want):
    """Two tables, the slice in which they first differ; what differs is framed."""
    cell = exercise.cell
    mine, want = (tensor[None] if tensor.dim() == 0 else tensor for tensor in (mine, want))
    where, words = (0,) * max(mine.dim(), want.dim(), 1), ""
    differing = unequal(mine, want, exercise.tolerance).nonzero() if mine.shape == want.shape else ()
    if len(differing):
        where = tuple(differing[0].tolist())
        place = ", ".join(map(str, where))
        values = [cell(tensor[where].item()) for tensor in (want, mine)]
        if values[0] == values[1]:  # rounded alike
            values = [f"{tensor[where].item():.6g}" for tensor in (want, mine)]
        place = f"{' in the ' + part if part else ''} at [{place}], on {description}"
        words = f"First difference{place}: wanted {values[0]}, yours {values[1]}{exercise.legend}."
    tables = {"wanted": _window(want, where), "yours": _window(mine, where)}
    same_size = tables["wanted"].shape == tables["yours"].shape
    differs = unequal(tables["yours"], tables["wanted"], exercise.tolerance) if same_size else None
    parts, left = [], 0
    for name, table in tables.items():
        parts.append(svg.text(left, 14, f"{name}{exercise.legend}", 14))
        for y, row in enumerate(table.tolist()):
            for x, value in enumerate(row):
                other = differs is not None and bool(differs[y, x]) and name == "yours"
                parts.append(svg.cell(left + 46 * x, 22 + 24 * y, 46, 24, palette.PAPER, cell(value)))
                if other:
                    parts.append(svg.frame(left + 46 * x + 2, 24 + 24 * y, 42, 20, palette.CHOSEN, 2))
        left += max(46 * table.size(1), 10 * len(name + exercise.legend)) + 40
    height = 30 + 24 * max(map(len, tables.values()))
    return Difference(words, svg.document(parts, left, height, words or "Two tables of different sizes."))


def _window(tensor, where):
    """The last two axes around this place, at most 8 × 8 numbers."""
    tensor = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor
    leading = where[-tensor.dim() : -2] if tensor.dim() > 2 else ()
    table = tensor[tuple(min(i, size - 1) for i, size in zip(leading, tensor.shape, strict=False))]
    top, left = (max(0, i - 7) for i in (where[-2:] if len(where) > 1 else (0, where[0])))
    return torch.atleast_2d(table[..., top : top + 8, left : left + 8])
