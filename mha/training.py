"""One training loop for every lesson: a bar, the accuracy as it goes, snapshots, stop and resume."""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm


class Training:
    """AdamW with a warm-up and a fall to zero, over batches that depend on nothing but their number.

    loss(model, batch) → a scalar; batches(step) → the batch of that step, so that a stopped training goes on
    exactly where it was.  Every `every` steps and at the end, `measure(model)` → a number is noted, and
    `snapshot(model)` → anything is kept.  Source: Vaswani et al. 2017, section 5.3, for the warm-up.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        batches: Callable[[int], Any],
        *,
        steps: int,
        lr: float = 5e-3,
        warm_up: float = 0.15,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.98),
        clip: float | None = 1.0,
        every: int = 100,
        measure: Callable[[Any], float] | None = None,
        snapshot: Callable[[Any], Any] | None = None,
        name: str = "training",
    ):
        self.model, self.loss, self.batches, self.steps, self.name = model, loss, batches, steps, name
        self.clip, self.every, self.measure, self.snapshot = clip, every, measure, snapshot
        self.optimizer = torch.optim.AdamW(model.parameters(), lr, betas, weight_decay=weight_decay, fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: pace(step / steps, warm_up))
        self.step, self.seconds = 0, 0.0
        self.measured: dict[int, float] = {}
        self.snapshots: dict[int, Any] = {}
        self.random = torch.get_rng_state()

    def run(self, steps: int | None = None) -> "Training":
        """Train on, to the end or for so many steps; returns self.

        Interrupted (Ctrl-C, or the stop button of a notebook) it finishes its step, says where it is, and
        keeps everything: `run()` again goes on exactly as if nothing had happened.
        """
        last = self.steps if steps is None else min(self.step + steps, self.steps)
        began = time.perf_counter()
        self.model.train()
        with torch.random.fork_rng(devices=[]), _one_thread(), _stop_button() as stop, self._bar(last) as bar:
            torch.set_rng_state(self.random)
            if self.step == 0:
                self._look(bar)
            while self.step < last and not stop.is_set():
                self.one_step()
                if self.step % self.every == 0 or self.step == self.steps:
                    self._look(bar)
                bar.update()
            self.random = torch.get_rng_state()
        self.seconds += time.perf_counter() - began
        self.model.eval()
        if stop.is_set():
            print(f"Stopped after step {self.step} of {self.steps}. Nothing is lost: run() goes on from here.")
        return self

    def one_step(self) -> None:
        """Train on one batch."""
        self.optimizer.zero_grad()
        self.loss(self.model, self.batches(self.step)).backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1

    def _look(self, bar: tqdm) -> None:
        """Measure and keep a snapshot, without training on it."""
        self.model.eval()
        with torch.no_grad():
            if self.measure:
                self.measured[self.step] = self.measure(self.model)
                bar.set_postfix_str(f"right: {self.measured[self.step]:.1%}", refresh=False)
            if self.snapshot:
                self.snapshots[self.step] = self.snapshot(self.model)
        self.model.train()

    def _bar(self, last: int) -> tqdm:
        """A bar on standard output in a terminal or a notebook; elsewhere nothing."""
        shown = sys.stdout.isatty() or "ipykernel" in type(sys.stdout).__module__
        return tqdm(total=last, initial=self.step, desc=self.name, file=sys.stdout, disable=not shown, mininterval=0.3)


def pace(done: float, warm_up: float) -> float:
    """The learning rate, its peak being 1, when this part of the steps is done: a straight rise, then half a cosine."""
    if done < warm_up:
        return (done + 1e-3) / warm_up
    return (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One thread, where the course's small models gain little from more: two wait for each other on a busy machine,
    and their sums come out in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _stop_button() -> Iterator[threading.Event]:
    """An event that an interrupt sets, instead of breaking a step in two.  Only a main thread hears interrupts."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
