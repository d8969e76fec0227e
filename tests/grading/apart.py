"""The grader's side of the fence: a submission's process, asked for what its answers return, and watched.

The judge of `mha.exercises` runs here, where no line of a submission ever runs: it hands the inputs over, and compares
what comes back with what it knows.  So a submission can return wrong values, or none; it cannot say "solved".
"""

import contextlib
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from mha.exercises import check
from mha.exercises.sandbox import Elsewhere, Outcome, Stopped
from tests.grading import fence, wire

START, READ = 120, 20  # seconds to import torch on a busy machine, and to make an answer's definitions
MEMORY = 1 << 30  # bytes of one submission's process, of which PyTorch takes about a third
PATIENCE = 180  # seconds for all notebooks of one learner
KEPT = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG")  # of the environment


class Process:
    """One submission behind the fence.  `ask` starts it, and after it has ended, starts it again."""

    def __init__(self, sources, kind, folders, until=math.inf):  # until: a time of time.monotonic()
        self.sources, self.kind, self.folders, self.until = sources, kind, folders, until
        self.process, self.greedy = None, False  # greedy: it was ended because of its memory

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="answers-", ignore_cleanup_errors=True)
        return self

    def __exit__(self, *error):
        self.end()
        self.folder.cleanup()

    def start(self):
        """Start the process and have it read the notebook; OSError where it cannot be fenced in."""
        command = [*fence.command(self.kind, self.folders), sys.executable, Path(__file__).with_name("inside.py")]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        paths = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [*map(str, command), self.kind, *self.folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder.name,
            env=kept | threads | {"PYTHONPATH": paths, "HOME": self.folder.name, "CUDA_VISIBLE_DEVICES": ""},
            start_new_session=True,
        )
        self.questions, self.replies = queue.Queue(), queue.Queue()
        threading.Thread(target=_talk, args=(self.process, self.questions, self.replies), daemon=True).start()
        first = self._reply(START)
        if first.get("fence") != self.kind:
            raise OSError(f"no {self.kind} fence here: {first.get('error')}")
        self.questions.put(("read", self.sources))
        self._reply(READ)

    def ask(self, *question, seconds):
        """The reply to a question; Stopped where it takes longer, takes too much memory, or ends its process."""
        self.greedy = False
        if self.process is None:
            self.start()
        self.questions.put(question)
        return self._reply(seconds)

    def late(self):
        """Whether its learner's time is used up."""
        return time.monotonic() >= self.until

    def _reply(self, seconds):
        end = min(time.monotonic() + seconds, self.until)
        while time.monotonic() < end:
            try:
                reply = self.replies.get(timeout=0.05)
            except queue.Empty:
                self.greedy = self._size() > MEMORY
                if self.greedy:
                    break
                continue
            if reply is None:
                raise Stopped(code=self.end(patience=0.5))
            return reply
        self.end()
        raise Stopped

    def _size(self):
        try:
            own = psutil.Process(self.process.pid)
            return sum(one.memory_info().rss for one in (own, *own.children(recursive=True)))
        except psutil.Error:  # it has just ended
            return 0

    def end(self, patience=0):
        """End the process, after this many seconds of grace, and whatever it has started; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return None
        self.questions.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        with contextlib.suppress(OSError, AttributeError):  # Windows has no groups
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        return process.wait()


def _talk(process, questions, replies):
    """In a thread of its own, as both pipes may block: each question, then its reply; None where nothing more comes."""
    try:
        replies.put(wire.receive(process.stdout))
        while (question := questions.get()) is not None:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            replies.put(wire.receive(process.stdout))
    except (EOFError, ValueError, OSError):
        replies.put(None)
    finally:
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


class Answer(Elsewhere):
    """An answer to an exercise as the judge wants it: something to run, which runs in the submission's process."""

    judging = threading.Lock()  # the judge works for one submission at a time, and not while it waits for an outcome

    def __init__(self, process):
        self.process = process

    def checked(self, number):
        """The judge's verdict."""
        with self.judging:
            return check(number, self)

    def outcome(self, arguments, names, seconds, shaken):
        self.judging.release()
        try:
            reply = self.process.ask("call", arguments, list(names), shaken, seconds=seconds)
        finally:
            self.judging.acquire()
        error = reply.get("error")
        if error:
            kind, text = map(str, error)
            error = type(kind[:60], (Exception,), {})(text)
        changed = tuple(str(name)[:60] for name in reply.get("changed", ()))
        return Outcome(reply.get("value"), error, str(reply.get("lines", "")), str(reply.get("printed", "")), changed)
