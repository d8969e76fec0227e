"""The checking engine: compare an answer with the reference, then with known mistakes, then probe it.

An exercise is data (`Exercise`); a known wrong answer is a function with a name and an explanation (`Mistake`).
The inputs of an exercise tell all its mistakes apart, so an answer that does on every input what a mistake does
has made it.  Two mistakes at once are tried after the single ones; what no mistake explains, the probes measure.
"""

import functools
import importlib
import inspect
import itertools
import pkgutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import mha.exercises
from mha.exercises import probes
from mha.exercises.card import Verdict, difference
from mha.exercises.compare import Raised, describe, equal, plain
from mha.exercises.sandbox import SECONDS, TooLong, run


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer: a stable name, what it is and the way out, and the function that makes it.

    Either `answer`, or `change`: the options with which the exercise's `family` makes this mistake.
    """

    name: str
    says: str
    answer: Callable | None = None
    change: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """One exercise.  `inputs()` gives fresh tuples of arguments, each with its description: {description: tuple}."""

    id: str
    title: str
    difficulty: int
    minutes: int
    reference: Callable
    hints: tuple
    mistakes: tuple
    inputs: Callable
    family: Callable | None = None  # the reference with options, one for each thing that may go wrong
    probes: tuple = ()
    read: Callable = lambda value: value  # brings equally right forms of an answer into one
    parts: tuple = ()  # names of the results, where there are several
    look_at: int = 0  # which of them to draw first
    legend: str = ""  # how a cell of the picture is to be read
    cell: Callable = "{:.2f}".format  # how a number is written in the picture
    tolerance: float = 1e-4

    @property
    def names(self):
        """The names of the arguments."""
        return list(inspect.signature(self.reference).parameters)

    def answer(self, *mistakes):
        """The function that makes these mistakes, one or more."""
        (first, *more) = mistakes
        if first.answer is not None and not more:
            return first.answer
        return functools.partial(self.family, **{key: v for mistake in mistakes for key, v in mistake.change.items()})

    def pairs(self):
        """Two mistakes at once that concern different things, the first to mend first."""
        changes = [mistake for mistake in self.mistakes if mistake.change]
        for first, second in itertools.combinations(changes, 2):
            if not first.change.keys() & second.change.keys():
                yield first, second


@functools.cache
def exercises():
    """All exercises by id, lesson after lesson."""
    modules = sorted(info.name for info in pkgutil.iter_modules(mha.exercises.__path__) if info.name[-1].isdigit())
    found = [importlib.import_module(f"mha.exercises.{name}").EXERCISES for name in modules]
    return {exercise.id: exercise for lesson in found for exercise in lesson}


SEEN = {}  # by id, in this kernel: how many hints were given, and the status of the last check


def _find(id):
    if str(id) not in exercises():
        raise ValueError(f"there is no exercise {id!r}; there are: {', '.join(exercises())}")
    return exercises()[str(id)]


def check(id, answer=..., seconds=SECONDS):
    """Check a function against exercise `id`, such as "3.1".  Returns a Verdict, which a notebook shows.

    Its status is "not attempted", "right", "wrong" or "error"; nothing that the answer does gets out of here.
    """
    exercise = _find(id)
    verdict = _judge(exercise, answer, seconds)
    seen = SEEN.setdefault(exercise.id, {})
    if seen.get("status") != "right":  # once solved, it stays so
        seen["status"] = verdict.status
    return verdict


def hint(id):
    """Print the next hint of exercise `id`; after the last one, where the solution is."""
    exercise = _find(id)
    seen = SEEN.setdefault(exercise.id, {})
    number = seen["hints"] = min(seen.get("hints", 0) + 1, len(exercise.hints) + 1)
    if number <= len(exercise.hints):
        print(f"Hint {number} of {len(exercise.hints)}: {exercise.hints[number - 1]}")
    else:
        print(f'That was the last hint. See one right answer with solution("{exercise.id}").')


def solution(id):
    """Print the code of one right answer, the one that checks are made against."""
    print(source(_find(id).reference))


def source(function):
    """A function's code as text."""
    return textwrap.dedent(inspect.getsource(function)).rstrip()


def progress():
    """Print what is solved in this kernel, for the lessons in which something was checked (else for all)."""
    lessons = {id.split(".")[0] for id, seen in SEEN.items() if "status" in seen}
    for exercise in exercises().values():
        if not lessons or exercise.id.split(".")[0] in lessons:
            status = SEEN.get(exercise.id, {}).get("status", "not attempted")
            mark = {"right": "✓", "not attempted": "·"}.get(status, "✗")
            stars = "★" * exercise.difficulty + "☆" * (3 - exercise.difficulty)
            words = "solved" if status == "right" else status
            print(f"{mark} {exercise.id} {exercise.title:22} {stars} {exercise.minutes} min   {words}")


# What follows judges.  An outcome is compared after `read`, so that equally right forms count as equal.


def _judge(exercise, answer, seconds):
    verdict = functools.partial(Verdict, exercise.id, exercise.title)
    untouched = f'Replace the … and run the cell again. Stuck? hint("{exercise.id}")'
    if answer is ...:
        return verdict("not attempted", message=untouched)
    if not callable(answer) or inspect.isclass(answer):
        what = f"the class {answer.__name__}" if inspect.isclass(answer) else describe(answer)
        return verdict("error", "not-a-function", f"Hand over a function of ({', '.join(exercise.names)}), got {what}.")
    cases = exercise.inputs()
    outcomes = []
    for arguments in cases.values():
        outcomes.append(run(answer, arguments, exercise.names, seconds))
        if _unfinished(outcomes[-1].value):
            return verdict("not attempted", message=untouched)
        if isinstance(outcomes[-1].error, TooLong):
            message = (
                f"Stopped after {seconds:g} s: is there something that takes very long, or a loop that never ends?"
            )
            return verdict("error", "runs-too-long", message, lines=outcomes[-1].lines)
    printed = next((outcome.printed for outcome in outcomes if outcome.printed), "")
    verdict = functools.partial(verdict, printed=printed)
    changed = next((outcome.changed for outcome in outcomes if outcome.changed), None)
    if changed:
        inputs = any(name.startswith("its input") for name in changed)
        way = "work on a copy (clone)" if inputs else "leave such settings as they are"
        message = f"Your function changes {' and '.join(changed)}, which others still use: {way}."
        return verdict("wrong", "changes-what-is-not-its-own", message)
    wanted = _behaviour(exercise, exercise.reference)
    yours = [_read(exercise, outcome) for outcome in outcomes]
    if _same(exercise, yours, wanted):
        return verdict("right", message=f"Right, on {len(cases)} inputs: {'; '.join(cases)}.")
    again = _read(exercise, run(answer, next(iter(cases.values())), exercise.names, seconds, shaken=True))
    if not _same(exercise, [again], yours[:1]):
        message = "Twice the same input, two different outputs: is something in it random (dropout, rand)?"
        return verdict("wrong", "random", message)
    attempt = probes.Attempt(exercise, answer, list(cases), yours, wanted)
    name, message = _diagnosis(attempt)
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed:
        return verdict("error", name, message, lines=failed.lines)
    return verdict("wrong", name, message, difference=difference(exercise, cases, yours, wanted))


def _unfinished(value):
    return value is ... or (isinstance(value, tuple | list) and any(part is ... for part in value))


def _behaviour(exercise, function):
    return [_read(exercise, run(function, case, exercise.names)) for case in exercise.inputs().values()]


@functools.cache
def _mistakes(id):
    """What the mistakes of an exercise do on its inputs: [(mistakes, behaviour)], single ones first."""
    exercise = exercises()[id]
    sets = [*((mistake,) for mistake in exercise.mistakes), *exercise.pairs()]
    return [(mistakes, _behaviour(exercise, exercise.answer(*mistakes))) for mistakes in sets]


def _read(exercise, outcome):
    """A value as the exercise compares it, or what was raised."""
    if outcome.error is not None:
        raised = Raised(f"{type(outcome.error).__name__}: {outcome.error}".split("\n")[0].rstrip(": "))
        raised.inside = bool(outcome.lines)
        return raised
    return exercise.read(plain(outcome.value))


def _same(exercise, left, right):
    """Whether two lists of outcomes agree, tensors up to rounding."""
    return all(equal(a, b, exercise.tolerance) for a, b in zip(left, right, strict=True))


def _diagnosis(attempt):
    """The name of the mistake, or None, and what to say."""
    for mistakes, behaviour in _mistakes(attempt.exercise.id):
        if _same(attempt.exercise, attempt.yours, behaviour):
            first, *second = mistakes
            if second:
                return first.name, f"Two things at once; this one first. {first.says} (Next: {second[0].name}.)"
            return first.name, first.says
    for probe in (*probes.FIRST, *attempt.exercise.probes, *probes.LAST):
        found = probe(attempt)
        if found:
            return found
    agree = [case for mine, want, case in attempt.triples() if equal(mine, want, attempt.exercise.tolerance)]
    some = f" It is right on {'; '.join(agree)}: what is different there?" if agree else ""
    return None, f"No mistake that we know does this. Look at the place where the two first differ.{some}"
