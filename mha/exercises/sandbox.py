"""Run somebody's function so that it cannot hurt the lesson by raising, looping, printing or meddling.

On Linux all that an answer does happens in a forked child (`apart`), which is ended when one call takes too long,
wherever it hangs; nothing of it reaches the kernel.  Elsewhere there is no safe fork (none on Windows; libraries of
macOS do not bear it; a child cannot use a CUDA that began before it), so that an answer runs in the kernel itself:
it is stopped between two of its operations, but not in one long call (`time.sleep(100)`), nor where a bare `except`
catches the stop.  There, interrupt the kernel.
"""

import contextlib
import faulthandler
import gc
import io
import itertools
import linecache
import logging
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn
from unittest import mock

import torch

SECONDS = 5
# Code from these folders (the standard library, packages, this one) is nobody's answer: not timed, not shown.
FOREIGN = (str(Path(os.__file__).parent), str(Path(__file__).parent), "<frozen")
PACKAGES = ("site-packages", "dist-packages")
PATCHABLE = (torch, torch.Tensor, torch.nn.functional)
_alarm: IO[str] | None = None  # in a child: the file for the lines of an answer that takes too long
_functions: dict[Any, dict[str, Any]] = {}  # while an answer is checked: what stood in PATCHABLE before


class Stopped(BaseException):
    """An answer that took too long, or, with the exit code, one that ended its process; `lines` are its own.

    Not an Exception, so that `except Exception` lets it through.
    """

    def __init__(self, lines: str = "", code: int | None = None) -> None:
        self.lines, self.code = lines, code


@dataclass
class Outcome:
    """What a call did: its value or its error, the lines that raised it, what it printed, what it meddled with."""

    value: Any = None
    error: BaseException | None = None
    lines: str = ""
    printed: str = ""
    changed: tuple[str, ...] = ()


class Elsewhere:
    """An answer that runs in another process, which cannot reach the judge's: `tests/grading` makes them."""

    def outcome(self, arguments: Iterable, names: list[str], seconds: float, shaken: bool) -> Outcome:
        """What `run` would find out; may raise Stopped."""
        raise NotImplementedError

    def __call__(self, *arguments: object) -> object:
        raise NotImplementedError("it cannot be called from here")


def forks() -> bool:
    """Whether an answer runs in a child, which can be stopped whatever it does."""
    return sys.platform == "linux" and not torch.cuda.is_available()


def apart(work: Callable[[], Any]) -> Any:
    """The value of work(), from a forked child where that is safe, else from here.  May raise Stopped."""
    if not forks():
        with _alone():
            return work()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    with tempfile.TemporaryFile("w+") as alarm, receive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads: the child needs none of them
        child = context.Process(target=_child, args=(work, send, alarm))
        child.start()
        send.close()
        try:
            while not receive.poll(0.2) and child.is_alive():
                pass
            if receive.poll():
                return receive.recv()
            raise EOFError
        except EOFError:  # it ended without a word
            child.join()
            alarm.seek(0)
            text = alarm.read()
            raise Stopped(_alarm_lines(text), None if text else child.exitcode) from None
        finally:
            child.kill()
            child.join()


def _child(work: Callable[[], Any], send: Connection, alarm: IO[str]) -> None:
    global _alarm
    _alarm = alarm
    gc.freeze()  # nothing that came from the parent is looked through, and so copied, again
    faulthandler.disable()  # a crash is told by the parent
    logging.disable()  # such as a kernel's, of pictures that a child cannot send
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt by hand is for the parent
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    with _alone():
        send.send(work())
    os._exit(0)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One thread, as OpenMP does not survive a fork and two would fight for a busy machine; and nobody to ask."""
    global _functions
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    _functions = {owner: dict(vars(owner)) for owner in PATCHABLE}
    doors = ("builtins.input", "sys.breakpointhook", "bdb.Bdb.set_trace")
    try:
        with contextlib.ExitStack() as stack:
            for door in doors:
                stack.enter_context(mock.patch(door, _nobody))
            yield
    finally:
        torch.set_num_threads(threads)


def _nobody(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("nobody can answer inside check")


def run(
    function: Callable, arguments: Iterable, names: list[str], seconds: float = SECONDS, shaken: bool = False
) -> Outcome:
    """Call function(*arguments) with copies, and put back whatever it changes.  `names` names the arguments.

    A module is called in eval mode; `shaken` starts the random streams elsewhere.  Only an interrupt by hand
    gets out of here, and Stopped.  With infinite `seconds` somebody outside watches.
    """
    if isinstance(function, Elsewhere):
        return function.outcome(arguments, names, seconds, shaken)
    given, printed, outcome = [_copied(value) for value in arguments], _Page(), Outcome()
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
    except Stopped as stop:
        stop.lines = _own_lines(stop)
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _alarm is None:
            raise
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


def _copied(value: Any) -> Any:
    """A tensor's copy; anything else as it is."""
    return value.clone() if isinstance(value, torch.Tensor) else value


class _Page(io.StringIO):
    """What is printed, up to a length; it cannot be closed."""

    def write(self, text: str) -> int:
        return super().write(text[: max(0, 2000 - self.tell())])

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """In a child, end it after so many seconds; else raise Stopped at the first operation that begins later."""
    if _alarm is not None:
        faulthandler.dump_traceback_later(seconds, file=_alarm, exit=True)  # set anew by the next call
        yield
        return
    if seconds == float("inf"):
        yield
        return
    end, tracer = time.monotonic() + seconds, sys.gettrace()

    def at_call(frame: FrameType, *_: Any) -> Callable | None:
        if _foreign(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True  # `while True: pass` is one endless line
        return at_operation

    def at_operation(*_: Any) -> Callable:
        if time.monotonic() > end:
            raise Stopped
        return at_operation

    sys.settrace(at_call)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _foreign(file: str) -> bool:
    return file.startswith(FOREIGN) or any(part in PACKAGES for part in Path(file).parts)


def _own_lines(error: BaseException) -> str:
    """The learner's own lines of a traceback, one per call; empty where the call itself failed."""
    return _lines((f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__))


def _alarm_lines(text: str) -> str:
    """The same from what faulthandler writes, the latest call first."""
    found = re.findall(r'File "(.*)", line (\d+) in (.*)', text)
    inside = list(itertools.takewhile(lambda call: call[0] != __file__, found))
    return _lines((file, int(line), name) for file, line, name in reversed(inside))


def _lines(calls: Iterable[tuple[str, int, str]]) -> str:
    own = [
        f"line {line}, in {name}: {linecache.getline(file, line).strip()[:200]}"
        for file, line, name in calls
        if not _foreign(file)
    ]
    return "\n".join(own[-3:])


def _settings() -> dict[str, Any]:
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch keeps gradients": torch.is_grad_enabled(),
        "torch's default device": torch.empty(0).device,
        "the random seed": torch.initial_seed(),
    }


def _state() -> tuple[torch.Tensor, Any, dict[str, Any]]:
    """What a function may change behind our back: random streams, torch's settings by name."""
    return torch.get_rng_state(), random.getstate(), _settings()


def _restore(before: tuple[torch.Tensor, Any, dict[str, Any]]) -> list[str]:
    """Put everything back, and name what had to be."""
    rng, pseudo, settings = before
    patched, now = list(_patch_back()), _settings()
    torch.set_default_dtype(settings["torch's default dtype"])
    torch.set_grad_enabled(settings["whether torch keeps gradients"])
    if now["torch's default device"] != settings["torch's default device"]:
        old = settings["torch's default device"]
        torch.set_default_device(None if old.type == "cpu" else old)
    torch.set_rng_state(rng)
    random.setstate(pseudo)
    return [*patched, *(name for name in settings if now[name] != settings[name])]


def _patch_back() -> Iterator[str]:
    for owner, old in _functions.items():
        now = vars(owner)
        if now == old:
            continue
        for name in old:
            if now.get(name) is not old[name]:
                setattr(owner, name, old[name])
                yield f"{owner.__name__}.{name}"
        for name in now.keys() - old.keys() if owner is torch.Tensor else ():  # it hides one that is inherited
            delattr(owner, name)
            yield f"{owner.__name__}.{name}"
