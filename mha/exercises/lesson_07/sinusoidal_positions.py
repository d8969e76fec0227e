"""Exercise 7.2: the table of waves that tells places apart."""

import math  # noqa: F401  an edit takes it

import torch

import mha.transformer
from mha.exercises.exercise import Exercise, Mistake


def sinusoidal_positions(length, d_model):
    places = torch.arange(length)[:, None]  # (length, 1)
    rates = 10000 ** (-torch.arange(0, d_model, 2) / d_model)  # (d / 2,), from 1 down
    angles = places * rates  # (length, d / 2)
    table = torch.empty(length, d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()  # even columns, odd columns
    return table


def _waves(attempt):
    """Whether the table is made of waves, where they start and how fast they turn."""
    for mine, want, case in attempt.triples():
        if torch.allclose(mine, want, atol=1e-3):
            continue
        if not torch.allclose(mine[0], want[0], atol=1e-3):
            row = ", ".join(f"{value:.2f}" for value in mine[0, :4].tolist())
            return "wrong-first-row", f"On {case}, row 0 begins {row}; at place 0 sines are 0 and cosines 1."
        if not torch.allclose(mine[:, 0::2] ** 2 + mine[:, 1::2] ** 2, torch.ones(1), atol=1e-3):
            return "not-sine-and-cosine", f"On {case}, a pair's two columns are not the sine and cosine of one angle."
        turned, wanted = (torch.atan2(table[1, 0::2], table[1, 1::2]) for table in (mine, want))
        wrong = (turned - wanted).abs() > 1e-4
        if not wrong.any():
            return "wrong-rates", f"On {case}, the rows of places 0 and 1 are right, a later one is not."
        pair = int(wrong.nonzero()[0])
        says = f"from place 0 to 1 pair {pair} turns by {turned[pair].abs():.4f} radians, or that and whole turns"
        return "wrong-rates", f"On {case}, {says}; wanted {wanted[pair]:.4f}."
    return None


WAVES = "angles.sin(), angles.cos()"

# fmt: off
EXERCISE = Exercise(
    "7.2", sinusoidal_positions, difficulty=2, minutes=8,
    inputs=lambda: {f"length {n}, d = {d}": (n, d) for n, d in ((5, 6), (12, 8), (3, 10))},
    probes=(_waves,), tolerance=1e-3,
    hints=(
        "arange(0, d, 2) are the numbers 2i. Places down, [:, None], times rates across makes all angles at once.",
        "An empty table, then table[:, 0::2] = sines and table[:, 1::2] = cosines.",
    ),
    mistakes=(
        Mistake("halves-not-in-turn", "All sines come first, then all cosines; wanted in turn, a sine beside its "
            "cosine. (Some models do it your way: it works, but their weights do not fit the other.)",
            ("0::2], table[:, 1::2]", ": d_model // 2], table[:, d_model // 2 :]")),
        Mistake("cosine-first", "Sine and cosine changed places: even columns hold the sine.",
            (WAVES, "angles.cos(), angles.sin()")),
        Mistake("sine-alone", "Both columns of a pair hold the sine; the odd one holds the cosine, so that places can "
            "be told apart.", (WAVES, "angles.sin(), angles.sin()")),
        Mistake("cosine-alone", "Both columns of a pair hold the cosine; the even one is a sine.",
            (WAVES, "angles.cos(), angles.cos()")),
        Mistake("rate-by-column", "Each column has a rate of its own, 10000 ** (−column / d); the two of a pair share "
            "one. Count pairs: i is column // 2, and the exponent −2i / d.", ("0, d_model, 2", "d_model"),
            (WAVES, "angles[:, 0::2].sin(), angles[:, 1::2].cos()")),
        Mistake("angles-themselves", "These are angles; wanted their sine and cosine.", (WAVES, "angles, angles")),
        Mistake("counted-from-one", "Places are counted from 1; wanted from 0: the first row is 0, 1, 0, 1 and so on.",
            ("(length)", "(1, length + 1)")),
        Mistake("exponent-halved", "The exponent is i / d for pair i; wanted 2i / d, so that the slowest wave is near "
            "10000.", ("2) / d_model", "2) / d_model / 2")),
        Mistake("exponent-doubled", "The exponent is 4i / d for pair i: 2i was doubled once more.",
            ("2) / d_model", "2) / d_model * 2")),
        Mistake("another-base", "The base is not 10000: these are waves of base 1000.", ("10000", "1000")),
        Mistake("base-e", "The base is e: exp(−2i / d) without the logarithm of 10000.", ("10000", "math.e")),
        Mistake("rates-upside-down", "Places are multiplied by 10000 ** (2i / d), not divided.", ("-torch", "torch")),
        Mistake("whole-turns", "Angles are multiplied by 2π; wanted place · rate as it is: sin counts in radians.",
            ("[:, None]", "[:, None] * 2 * math.pi")),
        Mistake("turned", "The table is (d, length); wanted a row for each place.", ("return table", "return table.T")),
        Mistake("batch-axis-added", "There is an axis too many in front; wanted (length, d).",
            ("return table", "return table[None]")),
        Mistake("one-place-only", "There is one row; wanted one for each place: were the places broadcast?",
            ("return table", "return table[-1:]")),
        Mistake("scaled", "Everything is multiplied by 1/√d; wanted plain sines and cosines.",
            ("return table", "return table / math.sqrt(d_model)")),
    ),
    right=(mha.transformer.sinusoidal_positions,),
    fresh=lambda: [(9, 12), (20, 4)],
)
