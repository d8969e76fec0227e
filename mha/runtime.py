"""Where the course runs: device, seeds, files, time.  Imports nothing of ours."""

import logging
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import torch

PACKAGE = Path(__file__).resolve().parent
PROJECTOR = 1.4  # so many times larger are type and lines in front of a class
look = SimpleNamespace(scale=1.0, dark=False)  # how figures and views are drawn from now on


def device() -> torch.device:
    """The device of the course: the CPU, unless the environment variable MHA_DEVICE names another.

    Raises RuntimeError if that one is not there.
    """
    name = os.environ.get("MHA_DEVICE") or "cpu"
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise RuntimeError(f"MHA_DEVICE={name} cannot be used here ({reason}): unset it to run on the CPU") from None


def seed(number: int = 0) -> None:
    """Start every random stream of torch at `number`.  Draw on the CPU and move: devices draw differently."""
    torch.manual_seed(number)


def data_path(name: str) -> Path:
    """The path of a file of the course's `data`: beside `mha` in a clone, inside it where it was installed.

    Raises FileNotFoundError naming the folder searched.
    """
    folder = next((f for f in (PACKAGE / "data", PACKAGE.parent / "data") if f.is_dir()), PACKAGE / "data")
    if not (folder / name).exists():
        raise FileNotFoundError(f"{name} is not in the course's data folder, {folder}: was all of it copied?")
    return folder / name


def setup(projector: bool = False, dark: bool = False) -> torch.device:
    """Seed, and print one line: versions, device, and where `mha` comes from.  Returns the device.

    projector: larger type and lines in every figure and view; dark: light on dark.
    """
    seed()
    look.scale, look.dark = PROJECTOR if projector else 1.0, dark
    chosen = device()
    here = Path.cwd().resolve()
    inside = PACKAGE.parent in (here, *here.parents)
    source = os.path.relpath(PACKAGE, here) if inside else PACKAGE
    print(f"Python {platform.python_version()} · torch {torch.__version__} · device {chosen.type} · mha from {source}")
    return chosen


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Inside, this library logs errors only: what it tells of its own files is no news for a lesson."""
    log = logging.getLogger(library)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def race(runners: dict[str, Callable[[], object]], repeats: int = 15) -> dict[str, float]:
    """Median milliseconds of each function in a dict, run in turns so that a busy moment hits all alike.

    Each round is shuffled, since what ran just before leaves the caches and the memory warm or cold.
    Returns {name: milliseconds}.  One round of warming up is not counted; a GPU is waited for.
    """
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(repeats + 1):
        for name in random.Random(turn).sample(list(runners), len(runners)):
            wait()
            start = time.perf_counter()
            runners[name]()
            wait()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def kept_bytes(call: Callable, *inputs: object, **options: object) -> int:
    """Bytes that PyTorch keeps for the backward pass of call(*inputs, **options), the parameters of a module left out.

    Each piece of memory counts once, however many tensors share it.  Source: notebook 05.
    """
    parameters = call.parameters() if isinstance(call, torch.nn.Module) else []
    own, kept = {p.data_ptr() for p in parameters}, {}

    def note(tensor: torch.Tensor) -> torch.Tensor:  # called with each tensor that is kept
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in own:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _ = call(*inputs, **options)  # held, or its graph and what it keeps would be freed
    return sum(kept.values())
