"""The judge: compare an answer with the reference, then with known mistakes, then probe it.

The inputs of an exercise tell all its mistakes apart, so an answer that does on every input what a mistake does has
made it.  Two mistakes at once are tried after the single ones, and before the probes, which would stop at a wrong
shape; what no mistake explains, the probes measure.
"""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mha.exercises import probes
from mha.exercises.card import Verdict, difference
from mha.exercises.compare import Raised, describe, equal, plain
from mha.exercises.exercise import Case, Exercise, Mistake
from mha.exercises.sandbox import SECONDS, Elsewhere, Outcome, Stopped, apart, forks, run


@functools.cache
def exercises(lesson: str = "*") -> dict[str, Exercise]:
    """All exercises by id, or those of one lesson ("03"); nothing but the files in the lessons' folders lists them."""
    files = Path(__file__).parent.glob(f"lesson_{lesson}/[!_]*.py")
    found = [importlib.import_module(f"mha.exercises.{file.parent.name}.{file.stem}").EXERCISE for file in files]
    return {exercise.id: exercise for exercise in sorted(found, key=lambda one: [*map(int, one.id.split("."))])}


SEEN: dict[str, dict[str, Any]] = {}  # by id, in this kernel: how many hints were given, the status of the last check


def _find(number: Any) -> Exercise:
    if callable(number):
        name = getattr(number, "__name__", "your_function")
        likely = next((exercise.id for exercise in exercises().values() if name.endswith(exercise.title)), "3.1")
        raise ValueError(f'say which exercise it is for: check("{likely}", {name})')
    exercise = exercises(str(number).partition(".")[0].zfill(2)).get(str(number))  # the others need not be loaded
    if exercise is None:
        raise ValueError(f"there is no exercise {number!r}; there are: {', '.join(exercises())}")
    return exercise


def check(number: str, answer: Any = ..., seconds: float = SECONDS) -> Verdict:
    """Check a function against an exercise, by its number, such as "3.1".  Returns a Verdict, which a notebook shows.

    Its status is "not attempted", "right", "wrong" or "error"; nothing that the answer does gets out of here.
    Each call of the answer may take `seconds`; what cannot be stopped, and where, `sandbox` says.
    """
    exercise = _find(number)
    judged = functools.partial(_judge, exercise, answer, seconds)
    try:
        verdict = judged() if isinstance(answer, Elsewhere) else apart(judged)
    except Stopped as stop:
        name, message = _why(stop, seconds)
        verdict = Verdict(exercise.id, exercise.title, "error", name, message, lines=stop.lines)
    seen = SEEN.setdefault(exercise.id, {})
    if seen.get("status") != "right":  # once solved, it stays so
        seen["status"] = verdict.status
    return verdict


def _why(stop: Stopped, seconds: float) -> tuple[str, str]:
    if stop.code is not None:
        return "process-ended", f"Your function ended the whole process it ran in, with code {stop.code}."
    message = f"Stopped after {seconds:g} s: is there something that takes very long, or a loop that never ends?"
    limits = " On this machine not every such function can be stopped: interrupt the kernel (■) if check hangs."
    return "runs-too-long", message + ("" if forks() else limits)


def hint(number: str) -> None:
    """Print the next hint of an exercise; after the last one, where the solution is."""
    exercise = _find(number)
    seen = SEEN.setdefault(exercise.id, {})
    given = seen["hints"] = min(seen.get("hints", 0) + 1, len(exercise.hints) + 1)
    if given <= len(exercise.hints):
        print(f"Hint {given} of {len(exercise.hints)}: {exercise.hints[given - 1]}")
    else:
        print(f'That was the last hint. See one right answer with solution("{exercise.id}").')


def solution(number: str) -> None:
    """Print the code of one right answer, the one that checks are made against."""
    print(_find(number).source)


def progress() -> None:
    """Print what is solved in this kernel, for the lessons in which something was checked (else for all)."""
    status = {number: seen["status"] for number, seen in SEEN.items() if "status" in seen}
    lessons = {number.split(".")[0] for number in status}
    for exercise in exercises().values():
        if not lessons or exercise.id.split(".")[0] in lessons:
            said = status.get(exercise.id, "not attempted")
            mark = {"right": "✓", "not attempted": "·"}.get(said, "✗")
            words = "solved" if said == "right" else said
            stars = "★" * exercise.difficulty + "☆" * (3 - exercise.difficulty)
            print(f"{mark} {exercise.id} {exercise.title:22} {stars} {exercise.minutes} min   {words}")
    if "right" in status.values():
        print("After a restart of the kernel, run all cells: what is solved is checked again and comes back.")


# What follows judges.  An outcome is compared after `read`, so that equally right forms count as equal.


def _judge(exercise: Exercise, answer: Any, seconds: float) -> Verdict:
    verdict = functools.partial(Verdict, exercise.id, exercise.title)
    untouched = f'Replace the … and run the cell again. Stuck? hint("{exercise.id}")'
    if answer is ...:
        return verdict("not attempted", message=untouched)
    if not callable(answer) or inspect.isclass(answer):
        what = f"the class {answer.__name__}" if inspect.isclass(answer) else describe(answer)
        return verdict("error", "not-a-function", f"Hand over a function of ({', '.join(exercise.names)}), got {what}.")
    inputs = exercise.inputs()
    wanted = behaviour(exercise, exercise.reference, inputs)  # first, while nothing can have been changed
    outcomes = []
    for arguments in inputs.values():
        outcomes.append(run(answer, arguments, exercise.names, seconds))
        value = outcomes[-1].value
        if value is ... or (isinstance(value, tuple | list) and any(part is ... for part in value)):
            return verdict("not attempted", message=untouched)
    try:
        cases = []
        for (description, arguments), outcome, want in zip(inputs.items(), outcomes, wanted, strict=True):
            yours = _read(exercise, outcome.value, outcome.error, bool(outcome.lines))
            cases.append(Case(description, arguments, yours, want, equal(yours, want, exercise.tolerance)))
        return _compared(exercise, answer, seconds, cases, outcomes)
    except Exception as error:  # an odd object may raise wherever it is looked at
        what = f"{type(error).__name__}: {error}"[:200]
        return verdict("error", message=f"What your function returns could not be looked at: {what}.")


def _compared(
    exercise: Exercise, answer: Callable, seconds: float, cases: list[Case], outcomes: list[Outcome]
) -> Verdict:
    printed = next((outcome.printed for outcome in outcomes if outcome.printed), "")
    verdict = functools.partial(Verdict, exercise.id, exercise.title, printed=printed)
    changed = next((outcome.changed for outcome in outcomes if outcome.changed), None)
    if changed:
        inputs = any(name.startswith("its input") for name in changed)
        way = "work on a copy (clone)" if inputs else "leave such settings as they are"
        message = f"Your function changes {' and '.join(changed)}, which others still use: {way}."
        return verdict("wrong", "changes-what-is-not-its-own", message)
    if all(case.same for case in cases):
        described = "; ".join(case.description for case in cases)
        return verdict("right", message=f"Right, on {len(cases)} inputs: {described}.")
    unsteady = _unsteady(exercise, answer, cases[0], seconds)
    if unsteady:
        return verdict("wrong", *unsteady)
    name, message = _diagnosis(exercise, answer, cases)
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed:
        return verdict("error", name, message, lines=failed.lines)
    return verdict("wrong", name, message, difference=difference(exercise, cases))


def behaviour(exercise: Exercise, function: Callable, inputs: dict[str, tuple]) -> list:
    """What one of the course's own functions does on inputs: values, or what was raised."""
    return list(_outcomes(exercise, function, inputs.values()))


def _outcomes(exercise: Exercise, function: Callable, inputs: Iterable[tuple]) -> Iterator[Any]:
    for arguments in inputs:
        value, error = None, None
        try:
            value = function(*arguments)
        except Exception as raised:
            error = raised
        yield _read(exercise, value, error)


def _read(exercise: Exercise, value: Any, error: BaseException | None, inside: bool = True) -> Any:
    """A value as the exercise compares it, or what was raised."""
    if error is None:
        return exercise.read(plain(value))
    raised = Raised(" ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")[:400])
    raised.inside = inside
    return raised


def same(exercise: Exercise, left: Iterable, right: Iterable) -> bool:
    """Whether two series of outcomes agree, tensors up to rounding; the first difference ends the work."""
    return all(equal(a, b, exercise.tolerance) for a, b in zip(left, right, strict=False))


def _unsteady(exercise: Exercise, answer: Callable, case: Case, seconds: float) -> tuple[str, str] | None:
    """What to say of an answer that gives another output for the same input, or None."""
    for shaken in (False, True):
        outcome = run(answer, case.arguments, exercise.names, seconds, shaken)
        again, first = _read(exercise, outcome.value, outcome.error), case.yours
        failed = isinstance(again, Raised)
        if equal(again, first, exercise.tolerance) or (failed and isinstance(first, Raised)):
            continue  # it does the same, or fails both times, if in other words
        if failed:
            says = f"The first call went well; the same call again raised {again.rstrip('.')}."
            return "keeps-state", f"{says} Does it delete or use up something that it needs again?"
        says = "Twice the same input, two different outputs:"
        if shaken:
            return "random", f"{says} is something in it random (dropout, rand)?"
        says += " does it keep something from call to call (a counter, a list, a global)"
        return "keeps-state", f"{says}, or is something in it random?"
    return None


def _diagnosis(exercise: Exercise, answer: Callable, cases: list[Case]) -> tuple[str | None, str]:
    """The name of the mistake, or None, and what to say."""
    made = known(exercise, cases)
    if made:
        first, *second = made
        if second:
            return first.name, f"Two things at once; this one first. {first.says} (Next: {second[0].name}.)"
        return first.name, first.says
    attempt = probes.Attempt(exercise, answer, cases)
    for probe in (*probes.FIRST, *exercise.probes, *probes.LAST):
        found = probe(attempt)
        if found:
            return found
    agree = [case.description for case in cases if case.same]
    some = f" It is right on {'; '.join(agree)}: what is different there?" if agree else ""
    return None, f"No mistake that we know does this. Look at the place where the two first differ.{some}"


def known(exercise: Exercise, cases: list[Case]) -> tuple[Mistake, ...]:
    """The mistake, or the two, that do on every input what the answer does; () if there are none."""
    first, *others = sorted(cases, key=lambda case: case.same)  # where it is wrong, mistakes differ soonest

    def does(function: Callable, some: list[Case]) -> bool:
        return same(exercise, _outcomes(exercise, function, (c.arguments for c in some)), (c.yours for c in some))

    idle, fits = set(), set()  # mistakes that change nothing on the first input, and that do there what the answer does
    for mistake in exercise.mistakes:
        function = exercise.answer(mistake)
        (alone,) = _outcomes(exercise, function, [first.arguments])
        if equal(alone, first.yours, exercise.tolerance):
            if does(function, others):
                return (mistake,)
            fits.add(mistake)
        elif equal(alone, first.wanted, exercise.tolerance):
            idle.add(mistake)
    for one, other in exercise.pairs():  # beside an idle one, the other does what it does alone
        ruled_out = (one in idle and other not in fits) or (other in idle and one not in fits)
        if (exercise.entangled or not ruled_out) and does(exercise.answer(one, other), [first, *others]):
            return one, other
    return ()
