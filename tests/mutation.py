"""`make mutants MODULES="mha.heads mha.pruning"`: small edits, one at a time, against the tests that reach it.

Each edit is tried, or with a number among the names a drawn sample of so many to a module.  Prints the edits that no
test misses, but for those that `survivors.list` explains.  A child of this process collects the tests and sees which of
them reach which function; for each edit a child of that one exchanges the function's code and runs those tests, the
quickest first, a minute of them at most.  A function that has run before the first test (a registry is made by it, say)
is edited in the text of its file, for a child that has not loaded the package.  Linux and macOS.
"""

import ast
import contextlib
import fnmatch
import functools
import gc
import importlib.machinery
import importlib.util
import json
import mmap
import os
import pkgutil
import random
import signal
import sys
import time
import types
from pathlib import Path

import hypothesis
import matplotlib.pyplot  # noqa: F401  what is loaded here, no child loads again
import pytest
import torch

from tests.mutants import variants

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60  # seconds of tests to an edit
# The files that test a room, where that is not the file of its name.
TESTS = {
    "checks": "attention heads explore",
    "views": "explore",
    "labels": "figures heads",
    "tasks": "tasks training repeats",
}


torch.testing.assert_close(torch.ones(1), torch.ones(1))  # these two load much at their first call: once is enough
torch.ones(1, device="meta") * 1


def tests_of(module):
    """The files that test this module."""
    room = module.split(".")[1]
    return [f"tests/test_{name}.py" for name in TESTS.get(room, room).split()]


def functions(tree):
    """A module's functions and its classes' methods, not those inside another function: {(name, first line): node}."""
    every = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inner = {id(node) for function in every for node in ast.walk(function) if node is not function}
    return {
        (one.name, min(node.lineno for node in (one, *one.decorator_list))): one
        for one in every
        if id(one) not in inner
    }


def codes(code):
    """All code objects inside this one: {(name, first line): code}."""
    found = {}
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= {(const.co_name, const.co_firstlineno): const, **codes(const)}
    return found


def explained():
    """The edits, patterns of `fnmatch`, that `survivors.list` names below a reason."""
    lines = Path(__file__).with_name("survivors.list").read_text("utf-8").splitlines()
    return [line.replace("[", "[[]") for line in lines if line and not line.startswith("#")]


class Edited(importlib.machinery.SourceFileLoader):
    """Finds and loads this one module with other code."""

    def __init__(self, module, path, code):
        super().__init__(module, path)
        self.code = code

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname):
        return self.code


def run_pytest(arguments, plugins=()):
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return pytest.main(["-x", "-q", "-o", "addopts=", "-p", "no:cacheprovider", *arguments], plugins)


def in_a_child(work, seconds=3600, quiet=True):
    """Whether `work` ends well in a child of this process, in so many seconds; what it has started ends with it."""
    if not (child := os.fork()):
        os.setpgid(0, 0)
        signal.alarm(int(seconds))
        if quiet:
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            os._exit(int(work() or 0))
        finally:
            os._exit(99)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    return status == 0


class Runner:
    """A plugin of pytest that runs the tests for every edit, not once.  `report` gets (number, verdict, its tests)."""

    def __init__(self, edits, report):
        self.edits, self.report, self.early, self.now = edits, report, set(), None

    def pytest_collection(self):
        """Load the whole package, and see what of it runs before the first test."""
        hypothesis.settings.register_profile("edits", phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate))
        hypothesis.settings.load_profile("edits")  # an example that fails need not become small

        def called(frame, event, _):
            if event == "call" and "mha" in frame.f_code.co_filename:
                self.early.add((frame.f_code.co_filename, frame.f_code.co_name, frame.f_code.co_firstlineno))

        sys.setprofile(called)
        for one in pkgutil.walk_packages([str(ROOT / "mha")], "mha."):
            importlib.import_module(one.name)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os._exit(1)

    def pytest_runtestloop(self, session):
        sys.setprofile(None)
        paths = {path for path, *_ in self.edits}
        self.found = {}
        for one in gc.get_objects():
            if type(one) is types.FunctionType and one.__code__.co_filename in paths:
                code = one.__code__
                self.found.setdefault((code.co_filename, code.co_name, code.co_firstlineno), []).append(one)
        self.session, self.flags = session, mmap.mmap(-1, len(self.found) + 1)  # shared with all children
        reached, seconds = zip(*map(self.tried, range(len(session.items))), strict=True)
        quickest, times, turn = sorted(range(len(session.items)), key=seconds.__getitem__), {}, {}
        for i in quickest:  # one test of each name, then a second of each
            name = session.items[i].nodeid.partition("[")[0]
            turn[i] = times[name] = times.get(name, -1) + 1
        quickest.sort(key=turn.__getitem__)
        for number, (path, where, edit) in enumerate(self.edits):
            key, total, chosen = (path, *where), 0, []
            early = key in self.early or key not in self.found
            near = {key, *((path, *inner) for inner in codes(codes(edit)[where]))}  # what it makes may run later
            for i in sorted(quickest, key=lambda i, near=near: not near & reached[i]):
                if (early or key in reached[i]) and (not chosen or total + seconds[i] < PATIENCE):
                    total += seconds[i]
                    chosen.append(i)
            if early:
                self.report(number, "early", [session.items[i].nodeid for i in chosen])
            elif chosen and not in_a_child(functools.partial(self.run, chosen, key, edit), 20 + 5 * total):
                self.report(number, "missed", [])
            else:
                self.report(number, "survives", [])
        return True

    def tried(self, i):
        """What a test reaches, in processes of its own, too, and its seconds."""
        self.flags[:] = bytes(len(self.flags))
        begin, run = time.monotonic(), functools.partial(self.run, [i])
        if not in_a_child(run) and not in_a_child(run):  # a test with a clock may fail once on a busy machine
            self.report(-1, "fails", [self.session.items[i].nodeid])
        found = {
            key for key, flag in zip(self.found, self.flags[:], strict=False) if flag
        }  # bytes: numbers, one by one
        return found, time.monotonic() - begin

    def run(self, chosen, key=None, edit=None):
        """Run these tests: with an edit, or without one, and note which functions are called."""
        if edit:
            new = codes(edit)[key[1:]]
            for one in self.found[key]:
                one.__code__ = new
        else:
            index = {id(one.__code__): number for number, found in enumerate(self.found.values()) for one in found}

            def called(frame, event, _):
                if event == "call" and (number := index.get(id(frame.f_code))) is not None:
                    self.flags[number] = 1

            sys.setprofile(called)
        items = [self.session.items[i] for i in chosen]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def edits_of(module, path, sample):
    """All edits of a module, or a sample: [(module, what, path, which function, the module's code with it)]."""
    tree, found = ast.parse(path.read_text("utf-8")), []
    for where, function in functions(tree).items():
        for line, what in variants(tree, function):
            if not what.endswith(".squeeze()"):  # a slip of learners, tried on their answers
                words = f"{module} {where[0]} {what}   line {line}"
                found.append((module, words, str(path), where, compile(tree, path, "exec")))
    return found if sample is None else random.Random(0).sample(found, min(sample, len(found)))


def tried(tests, edits):
    """In turn, whether no test of these files misses an edit: pairs (its number, true or false)."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with open(write, "w", buffering=1) as pipe:
            run_pytest(tests, [Runner([edit[2:] for edit in edits], lambda *said: print(json.dumps(said), file=pipe))])
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        for number, verdict, chosen in map(json.loads, pipe):
            if verdict == "fails":
                sys.exit(f"{chosen[0]} fails as it is")
            if verdict == "early":
                module, _, path, _, code = edits[number]
                plugins = sys.meta_path
                plugins.insert(0, Edited(module, path, code))
                verdict = "survives" if in_a_child(lambda chosen=chosen: run_pytest(chosen), 5 * PATIENCE) else "missed"
                del plugins[0]
            yield number, verdict == "survives"
    os.waitpid(child, 0)


def main(modules, sample=None):
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.glob("mha/**/*.py"))}
    known, groups = explained(), {}
    for module in modules or [name for name in paths if "__init__" not in name]:
        groups.setdefault(tuple(tests_of(module)), []).append(module)
    for tests, several in groups.items():
        edits = [edit for module in several for edit in edits_of(module, paths[module], sample)]
        counts = {module: [0, 0, 0] for module in several}  # tried, survived, explained
        for number, survives in tried(tests, edits):
            module, words, *_ = edits[number]
            why = any(fnmatch.fnmatchcase(words.partition("   line")[0], pattern) for pattern in known)
            counts[module] = [a + b for a, b in zip(counts[module], (1, survives, survives and why), strict=True)]
            if survives and not why:
                print(f"  {words}", flush=True)
        for module, (all_, left, why) in counts.items():
            print(f"{module}: {all_} edits, {left} that no test misses, of which {why} are explained", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off for what it starts with &
    number = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main([word for word in sys.argv[1:] if not word.isdigit()], *number)
