"""For every test: one thread to a worker, as two workers share two cores, and examples and draws that repeat."""

import os
import random

import numpy
import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")


def pytest_collectstart(collector):
    """What a file of tests draws when it is loaded does not depend on what was loaded before it, nor on the day."""
    _seed()


@pytest.fixture(autouse=True)
def _seeded():
    """Nor does what a test draws."""
    _seed()


def _seed():
    import torch  # after OMP_NUM_THREADS is set

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def pytest_sessionfinish(session):
    """Where everything should be there (CI is set), a test skipped because something is not fails the run."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    missing = [one.longrepr for one in (terminal.stats if terminal else {}).get("skipped", ())]
    missing = [place for place in missing if os.environ.get("CI") and "NOT CHECKED" in str(place)]
    if missing and session.exitstatus == 0:
        terminal.write_line("".join(f"\n{place}" for place in missing))
        session.exitstatus = 1
