"""The judge: compare an answer with the reference, then with known mistakes, then probe it.

The inputs of an exercise tell all its mistakes apart, so an answer that does on every input what a mistake does has
made it.  Two mistakes at once are tried after the single ones, and before the probes, which would stop at a wrong
shape; what no mistake explains, the probes measure.
"""

import functools
import importlib
import inspect
import pkgutil
from pathlib import Path

from mha.exercises import probes
from mha.exercises.card import Verdict, difference
from mha.exercises.compare import Raised, describe, equal, plain
from mha.exercises.exercise import Case
from mha.exercises.sandbox import SECONDS, Elsewhere, Stopped, apart, forks, run


@functools.cache
def exercises():
    """All exercises by id, lesson after lesson; nothing but the files in the lessons' folders lists them."""
    found = []
    for info in pkgutil.walk_packages([str(Path(__file__).parent)], "mha.exercises."):
        if ".lesson_" in info.name and not info.ispkg and "._" not in info.name:
            found.append(importlib.import_module(info.name).EXERCISE)
    return {exercise.id: exercise for exercise in sorted(found, key=lambda one: [*map(int, one.id.split("."))])}


SEEN = {}  # by id, in this kernel: how many hints were given, and the status of the last check


def _find(id):
    if callable(id):
        name = getattr(id, "__name__", "your_function")
        likely = next((exercise.id for exercise in exercises().values() if name.endswith(exercise.title)), "3.1")
        raise ValueError(f'say which exercise it is for: check("{likely}", {name})')
    if str(id) not in exercises():
        raise ValueError(f"there is no exercise {id!r}; there are: {', '.join(exercises())}")
    return exercises()[str(id)]


def check(id, answer=..., seconds=SECONDS):
    """Check a function against exercise `id`, such as "3.1".  Returns a Verdict, which a notebook shows.

    Its status is "not attempted", "right", "wrong" or "error"; nothing that the answer does gets out of here.
    Each call of the answer may take `seconds`; what cannot be stopped, and where, `sandbox` says.
    """
    exercise = _find(id)
    judged = functools.partial(_judge, exercise, answer, seconds)
    try:
        verdict = judged() if isinstance(answer, Elsewhere) else apart(judged)
    except Stopped as stop:
        verdict = Verdict(exercise.id, exercise.title, "error", *_why(stop, seconds), lines=stop.lines)
    seen = SEEN.setdefault(exercise.id, {})
    if seen.get("status") != "right":  # once solved, it stays so
        seen["status"] = verdict.status
    return verdict


def _why(stop, seconds):
    if stop.code is not None:
        return "process-ended", f"Your function ended the whole process it ran in, with code {stop.code}."
    message = f"Stopped after {seconds:g} s: is there something that takes very long, or a loop that never ends?"
    limits = " On this machine not every such function can be stopped: interrupt the kernel (■) if check hangs."
    return "runs-too-long", message + ("" if forks() else limits)


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
    print(_find(id).source)


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
    if any(seen.get("status") == "right" for seen in SEEN.values()):
        print("After a restart of the kernel, run all cells: what is solved is checked again and comes back.")


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
    wanted = behaviour(exercise, exercise.reference, cases)  # first, while nothing can have been changed
    outcomes = []
    for arguments in cases.values():
        outcomes.append(run(answer, arguments, exercise.names, seconds))
        if _unfinished(outcomes[-1].value):
            return verdict("not attempted", message=untouched)
    try:
        yours = [_read(exercise, outcome.value, outcome.error, outcome.lines) for outcome in outcomes]
        made = [
            Case(*case, mine, want, equal(mine, want, exercise.tolerance))
            for case, mine, want in zip(cases.items(), yours, wanted, strict=True)
        ]
        return _compared(exercise, answer, seconds, made, outcomes)
    except Exception as error:  # an odd object may raise wherever it is looked at
        what = f"{type(error).__name__}: {error}"[:200]
        return verdict("error", message=f"What your function returns could not be looked at: {what}.")


def _compared(exercise, answer, seconds, cases, outcomes):
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


def _unfinished(value):
    return value is ... or (isinstance(value, tuple | list) and any(part is ... for part in value))


def behaviour(exercise, function, cases):
    """What one of the course's own functions does on inputs: values, or what was raised."""
    return list(_outcomes(exercise, function, cases.values()))


def _outcomes(exercise, function, arguments):
    for case in arguments:
        value, error = None, None
        try:
            value = function(*case)
        except Exception as raised:
            error = raised
        yield _read(exercise, value, error)


def _read(exercise, value, error, inside=True):
    """A value as the exercise compares it, or what was raised."""
    if error is None:
        return exercise.read(plain(value))
    raised = Raised(" ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")[:400])
    raised.inside = bool(inside)
    return raised


def same(exercise, left, right):
    """Whether two lists of outcomes agree, tensors up to rounding; the first difference ends the work."""
    return all(equal(a, b, exercise.tolerance) for a, b in zip(left, right, strict=False))


def _unsteady(exercise, answer, case, seconds):
    """What to say of an answer that gives another output for the same input, or None."""
    for shaken in (False, True):
        outcome = run(answer, case.arguments, exercise.names, seconds, shaken)
        again, first = _read(exercise, outcome.value, outcome.error), case.yours
        if equal(again, first, exercise.tolerance):
            continue
        if isinstance(again, Raised) and isinstance(first, Raised):
            continue  # it fails both times, if in other words
        if isinstance(again, Raised):
            says = f"The first call went well; the same call again raised {again.rstrip('.')}."
            return "keeps-state", f"{says} Does it delete or use up something that it needs again?"
        if shaken:
            return "random", "Twice the same input, two different outputs: is something in it random (dropout, rand)?"
        says = "Twice the same input, two different outputs: does it keep something from call to call"
        return "keeps-state", f"{says} (a counter, a list, a global), or is something in it random?"
    return None


def _diagnosis(exercise, answer, cases):
    """The name of the mistake, or None, and what to say."""
    telling = sorted(cases, key=lambda case: case.same)  # where it is wrong, mistakes differ soonest
    arguments, yours = [case.arguments for case in telling], [case.yours for case in telling]
    for made in (*((mistake,) for mistake in exercise.mistakes), *exercise.pairs()):
        if same(exercise, _outcomes(exercise, exercise.answer(*made), arguments), yours):
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
