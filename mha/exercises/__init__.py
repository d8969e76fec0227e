"""Exercises that name your mistake: `check`, `hint`, `solution` and `progress`.

`exercise` says what an exercise is and how to write one; each is a file in its lesson's folder.  `judge` compares and
diagnoses (in `sandbox`, by `compare` and `probes`), `card` shows.
"""

from mha.exercises.judge import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
