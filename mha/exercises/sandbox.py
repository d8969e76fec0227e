"""Run somebody's function so that it cannot hurt the lesson by raising, looping, printing or meddling."""

import contextlib
import io
import os
import random
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

SECONDS = 5
# Code from these folders (the standard library, packages, this one) is nobody's answer: not timed, not shown.
FOREIGN = tuple(str(Path(file).parent) for file in (os.__file__, Path(torch.__file__).parent, Path(__file__).parent))


class TooLong(BaseException):
    """Raised in a function that runs on and on.  Not an Exception, so that `except Exception` lets it through."""


@dataclass
class Outcome:
    """What a call did: its value or its error, the lines that raised it, what it printed, what it meddled with."""

    value: object = None
    error: BaseException | None = None
    lines: str = ""
    printed: str = ""
    changed: tuple = ()


def run(function, arguments, names, seconds=SECONDS, shaken=False):
    """Call function(*arguments) with copies, and put back whatever it changes.  `names` names the arguments.

    A module is called in eval mode; `shaken` starts the random streams elsewhere.  Only an interrupt by hand
    gets out of here.
    """
    given, printed, outcome = [_copy(value) for value in arguments], io.StringIO(), Outcome()
    training = getattr(function, "training", False)
    before = _state()
    if shaken:
        torch.rand(1)
        random.random()
    try:
        if isinstance(function, torch.nn.Module):
            function.eval()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _deadline(seconds):
                outcome.value = function(*given)
    except (Exception, SystemExit, TooLong) as error:
        outcome.error, outcome.lines = error, _own_lines(error)
    finally:
        if isinstance(function, torch.nn.Module):
            function.train(training)
        meddled = _restore(before)
    inputs = [
        f"its input {name}"
        for name, old, new in zip(names, arguments, given, strict=False)
        if isinstance(old, torch.Tensor) and not (old.shape == new.shape and torch.equal(old, new))
    ]
    outcome.printed, outcome.changed = printed.getvalue(), (*inputs, *meddled)
    return outcome


def _copy(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _deadline(seconds):
    """Raise TooLong at the first of the learner's operations that begins after so many seconds."""
    end, tracer = time.monotonic() + seconds, sys.gettrace()

    def at_call(frame, event, argument):
        if _foreign(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True  # `while True: pass` is one endless line
        return at_operation

    def at_operation(frame, event, argument):
        if time.monotonic() > end:
            raise TooLong
        return at_operation

    sys.settrace(at_call)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _foreign(file):
    return file.startswith(FOREIGN) or file.startswith("<frozen")


def _own_lines(error):
    """The learner's own lines of a traceback, one per call; empty where the call itself failed."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not _foreign(frame.filename)]
    return "\n".join(f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in own[-3:])


def _state():
    """What a function may change behind our back: random streams first, then torch's settings by name."""
    settings = {
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch keeps gradients": torch.is_grad_enabled(),
        "torch's default device": torch.empty(0).device,
        "the random seed": torch.initial_seed(),
    }
    return torch.get_rng_state(), random.getstate(), settings


def _restore(before):
    """Put everything back, and name the settings that had to be."""
    rng, pseudo, settings = before
    now = _state()[-1]
    torch.set_default_dtype(settings["torch's default dtype"])
    torch.set_grad_enabled(settings["whether torch keeps gradients"])
    if now["torch's default device"] != settings["torch's default device"]:
        old = settings["torch's default device"]
        torch.set_default_device(None if old.type == "cpu" else old)
    torch.set_rng_state(rng)
    random.setstate(pseudo)
    return [name for name in settings if now[name] != settings[name]]
