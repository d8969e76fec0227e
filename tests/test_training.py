"""The training loop: it learns, stops at a step's end, resumes exactly, and is quiet where nobody looks."""

import contextlib
import io
import signal
import sys
import threading

import pytest
import torch
from torch import nn

from mha.training import Training, pace


class Dropping(nn.Module):
    """A model with dropout, so that random numbers matter."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x):
        return self.net(x)


def batches(step):
    return torch.randn(32, 4, generator=torch.Generator().manual_seed(step))


def loss(model, x):
    return (model(x) - x.flip(-1)).square().mean()


def make(**options):
    return Training(Dropping(), loss, batches, **{"steps": 60, "every": 20, **options})


def weights(training):
    return torch.cat([weight.flatten() for weight in training.model.parameters()])


def test_it_learns():
    training = make(steps=400, lr=1e-2)
    before = loss(training.model.eval(), batches(10**6)).item()
    assert loss(training.run().model, batches(10**6)).item() < before / 4
    assert not training.model.training and training.step == 400 and training.seconds > 0


def test_a_step_is_adamw_with_its_decay_on_clipped_gradients():
    """Written out: every setting moves these weights, so that leaving one out is seen."""
    settings = {"lr": 1e-2, "weight_decay": 0.3, "betas": (0.8, 0.9), "clip": 0.7, "warm_up": 0.2}
    training = make(steps=10, **settings).run(6)
    model = Dropping()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.8, 0.9), weight_decay=0.3)
    torch.manual_seed(0)
    torch.set_rng_state(make().random)
    for step in range(6):
        optimizer.param_groups[0]["lr"] = 1e-2 * pace(step / 10, 0.2)
        optimizer.zero_grad()
        loss(model, batches(step)).backward()
        norm = torch.cat([weight.grad.flatten() for weight in model.parameters()]).norm()
        for weight in model.parameters():
            weight.grad *= min(1, 0.7 / norm)
        optimizer.step()
    expected = torch.cat([weight.flatten() for weight in model.parameters()])
    torch.testing.assert_close(weights(training), expected, rtol=1e-5, atol=1e-6)


def test_it_measures_and_keeps_snapshots_without_touching_the_model():
    seen = []

    def measure(model):
        seen.append((model.training, torch.is_grad_enabled()))
        torch.rand(3)
        return loss(model, batches(10**6)).item()

    training = make(steps=50, measure=measure, snapshot=lambda model: model.net[0].weight.clone())
    training.run()
    assert list(training.measured) == list(training.snapshots) == [0, 20, 40, 50]
    assert seen == [(False, False)] * 4
    assert not torch.equal(training.snapshots[0], training.snapshots[50])


def test_stopped_and_resumed_it_is_exactly_as_if_it_had_not_been():
    whole = make().run()
    parts = make()
    for steps in (1, 7, 20, 100):
        parts.run(steps)
        torch.rand(11)  # what happens in between does not matter
    assert parts.step == 60 and torch.equal(weights(whole), weights(parts))
    assert torch.equal(weights(parts.run()), weights(whole))


def test_an_interrupt_ends_a_step_says_where_and_loses_nothing():
    def interrupting(step):
        if step == 25 and not interrupted:
            interrupted.append(step)
            signal.raise_signal(signal.SIGINT)
        return batches(step)

    interrupted = []
    training = Training(Dropping(), loss, interrupting, steps=60)
    before = signal.getsignal(signal.SIGINT)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        training.run()
    assert training.step == 26 and "Stopped after step 26 of 60" in text.getvalue()
    assert signal.getsignal(signal.SIGINT) is before
    assert torch.equal(weights(training.run()), weights(make().run()))


def test_seeds_outside_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    training = make()
    torch.manual_seed(5)
    training.run()
    assert torch.equal(torch.rand(2), expected)


def test_it_trains_in_one_thread_and_gives_the_others_back():
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    make(steps=1, measure=lambda model: seen.append(torch.get_num_threads()) or 0.0).run()
    assert set(seen) == {1} and torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_an_error_leaves_everything_in_order():
    before = signal.getsignal(signal.SIGINT)

    def failing(step):
        if step == 3:
            raise LookupError("no batch")
        return batches(step)

    training = Training(Dropping(), loss, failing, steps=10)
    with pytest.raises(LookupError):
        training.run()
    assert training.step == 3 and signal.getsignal(signal.SIGINT) is before


def test_it_runs_in_another_thread():
    training = make()
    thread = threading.Thread(target=training.run)
    thread.start()
    thread.join()
    assert training.step == 60


class Screen(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO, False), (Screen, True), (Notebook, True)])
def test_the_bar_is_for_people(stream, shown, monkeypatch):
    text = stream()
    monkeypatch.setattr(sys, "stdout", text)
    make(measure=lambda model: 0.5, name="heads").run()
    assert ("heads: 100%" in text.getvalue()) == shown
    assert ("right: 50.0%" in text.getvalue()) == shown


def test_the_pace_rises_and_falls():
    paces = [pace(step / 100, 0.15) for step in range(101)]
    assert 0 < paces[0] < 0.02 and max(paces) == pytest.approx(1, abs=0.01) and paces[-1] == pytest.approx(0)
    top = paces.index(max(paces))
    assert top == 15 and paces[:16] == sorted(paces[:16]) and paces[15:] == sorted(paces[15:], reverse=True)
