"""What an exercise is: a reference, inputs that tell its known mistakes apart, and each mistake as an edit of it.

A new one is a file `lesson_NN/name.py` that ends in `EXERCISE = Exercise(…)`, and a cell of the lesson; it is found by
itself.  A file there whose name begins with `_` holds what several exercises share.

1. Write the reference, short and without ceremony: `solution` prints it, and the mistakes edit its text.
2. A mistake is `Mistake(name, says, (old, new), …)`.  Each `old` stands exactly once in the reference's text, comments
   included (make it longer until it does); `new` takes its place, may have several lines, and may use what the file
   imports or defines.
3. Two mistakes at once are tried where their edits do not touch.  Two that cannot both be made (this way or that of
   the same step) get an `old` that overlaps.  The list is in the order of mending: of two, the first is explained.
   Which are tried at all, the first input on which the answer is wrong decides: where the tests say that a pair is
   passed over, begin with another input, or say `entangled=True`.
4. At least three; no two do the same on all inputs, none is right, alone or with another: the tests say so.
5. `right` holds other right answers (long ones stand in the tests), `fresh()` inputs that no check uses: both are for
   the tests alone.
"""

import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

Edit = tuple[str, str]  # old text, new text

# What several exercises say of a mistake.
NO_SCALE = "The scores are not divided by √d_k."
HEADS_AVERAGED = "The heads were averaged: one clear head among many disappears. Wanted one number for each."
BEST_HEAD = "Only the best head's number came back; wanted one for each."
GROUPS = (
    "You count h / h_kv, how many query heads share one key head; wanted h_kv, how many key heads there are. Both are "
    "called “groups” somewhere."
)


def random_tensor(seed: int, *shape: int) -> torch.Tensor:
    """Normal numbers of this shape, the same for each seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_weights(seed: int, *shape: int) -> torch.Tensor:
    """Attention weights of this shape, the same for each seed: rows sum to 1, and are far from even."""
    return (3 * random_tensor(seed, *shape)).softmax(dim=-1)


class Mistake:
    """A known wrong answer: a stable name, what it is and the way out, and the edits of the reference that make it."""

    def __init__(self, name: str, says: str, *edits: Edit) -> None:
        self.name, self.says, self.edits = name, says, edits


@dataclass(frozen=True)
class Case:
    """One input of an exercise, and what came of it: values, or `Raised`."""

    description: str
    arguments: tuple
    yours: Any
    wanted: Any
    same: bool


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise.  `inputs()` gives fresh tuples of arguments, each with its description: {description: tuple}."""

    id: str
    reference: Callable
    difficulty: int
    minutes: int
    hints: tuple[str, ...]
    mistakes: tuple[Mistake, ...]
    inputs: Callable[[], dict[str, tuple]]
    right: tuple[Callable, ...] = ()
    fresh: Callable[[], list[tuple]] = list
    probes: tuple[Callable, ...] = ()
    read: Callable = lambda value: value  # brings equally right forms of an answer into one
    parts: tuple[str, ...] = ()  # names of the results, where there are several
    look_at: int = 0  # which of them to draw first
    legend: str = ""  # how a cell of the picture is to be read
    cell: Callable[[float], str] = "{:.2f}".format  # how a number is written in the picture
    tolerance: float = 1e-4
    entangled: bool = False  # whether a mistake that alone changes nothing often does so beside another

    @property
    def title(self) -> str:
        """The name that the lesson's cell gives it, without `my_`."""
        return self.reference.__name__

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the arguments."""
        return list(inspect.signature(self.reference).parameters)

    @functools.cached_property
    def source(self) -> str:
        """The reference's text."""
        return textwrap.dedent(inspect.getsource(self.reference)).rstrip()

    def mistake(self, name: str) -> Mistake:
        """The mistake of this name, whose sentence another exercise may need, too."""
        return next(mistake for mistake in self.mistakes if mistake.name == name)

    def answer(self, *mistakes: Mistake) -> Callable:
        """The function that makes these mistakes, one or more."""
        return _compiled(self, tuple(edit for mistake in mistakes for edit in mistake.edits))

    def edited(self, edits: tuple[Edit, ...]) -> str:
        """The reference's text with each `old` replaced by its `new`; ValueError where one is not there once."""
        text, end = self.source, len(self.source)
        for (start, stop), new in sorted(((self._place(old), new) for old, new in edits), reverse=True):
            if stop > end:
                raise ValueError(f"two edits of {self.title} touch at {self.source[start:stop]!r}: make one of them.")
            text, end = text[:start] + new + text[stop:], start
        return text

    def _place(self, old: str) -> tuple[int, int]:
        start, times = self.source.find(old), self.source.count(old)
        if times != 1:
            raise ValueError(f"{old!r} stands {times} times in {self.title}; wanted once, spelled as it is there.")
        return start, start + len(old)

    def pairs(self) -> Iterator[tuple[Mistake, Mistake]]:
        """Two mistakes at once that concern different things, the first to mend first."""
        for first, second in itertools.combinations(self.mistakes, 2):
            places = sorted(self._place(old) for old, _ in (*first.edits, *second.edits))
            if all(end <= start for (_, end), (start, _) in itertools.pairwise(places)):
                yield first, second


@functools.lru_cache(1024)
def _compiled(exercise: Exercise, edits: tuple[Edit, ...]) -> Callable:
    scope = dict(exercise.reference.__globals__)
    exec(compile(exercise.edited(edits), f"<{exercise.title}, edited>", "exec"), scope)
    return scope[exercise.title]
