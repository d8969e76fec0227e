"""Exercises that name your mistake: `check`, `hint`, `solution` and `progress`.

Each lesson's exercises are data, in the module named after it; `engine` compares and diagnoses.
"""

from mha.exercises.engine import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
