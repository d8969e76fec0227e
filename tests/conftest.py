"""For every test: one thread to a worker, as two workers share two cores, and examples that repeat."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")
