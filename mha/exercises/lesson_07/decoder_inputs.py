"""Exercise 7.4: what the decoder is given while it learns."""

import torch
import torch.nn.functional as F

from mha.exercises.exercise import Exercise, Mistake


def decoder_inputs(target, start):
    first = torch.full_like(target[:, :1], start)
    return torch.cat([first, target[:, :-1]], dim=1)  # symbol t is given what stands before t


def wrong_symbol(attempt):
    for mine, want, case in attempt.triples():
        if not torch.equal(mine.double(), want.double()):
            text, place = (mine != want).nonzero()[0].tolist()
            says = f"symbol {place} of text {text} is {mine[text, place].item():g}, wanted {want[text, place].item():g}"
            return "wrong-symbol", f"On {case}, {says}."
    return None


GIVEN = "first, target[:, :-1]"

# fmt: off
EXERCISE = Exercise(
    "7.4", decoder_inputs, difficulty=1, minutes=3,
    probes=(wrong_symbol,), cell="{:g}".format,
    inputs=lambda: {
        f"target ({B}, {T}), start {start}": (torch.arange(1, B * T + 1).view(B, T) % 9, start)
        for B, T, start in ((2, 5, 11), (3, 4, 12), (4, 3, 10))
    },
    hints=(
        "Before the first symbol the decoder has seen nothing: it is given start. What has it seen before the second?",
        "A column of start in front, and the last symbol of the target left out: nobody comes after it.",
    ),
    mistakes=(
        Mistake("not-shifted", "The target itself: each place is given the very symbol it must predict, and copies it. "
            "Training looks perfect, decoding fails.", ("torch.cat([first, target[:, :-1]], dim=1)", "target.clone()")),
        Mistake("shifted-left", "Shifted the wrong way: each place is given the symbol after the one that it must "
            "predict.", (GIVEN, "target[:, 1:], first")),
        Mistake("one-too-long", "One column too many: the last symbol of the target is given to nobody.",
            (GIVEN, "first, target")),
        Mistake("rolled", "The last symbol is in front; wanted start.", ("first, target", "target[:, -1:], target")),
        Mistake("first-overwritten", "Start was written over the first symbol, but nothing moved: all others are given "
            "what they must predict.", (GIVEN, "first, target[:, 1:]")),
        Mistake("start-missing", "The last symbol is out, but start not in front.", ("first, target", "target")),
        Mistake("shifted-by-two", "Shifted by two: a place never sees the symbol just before it.",
            (GIVEN, "first, first, target[:, :-2]")),
        Mistake("texts-shifted", "The texts moved, not the symbols: shift along axis 1.",
            ("first, target[:, :-1]], dim=1", "torch.full_like(target[:1], start), target[:-1]]")),
        Mistake("start-everywhere", "Start everywhere: no place sees what has been written.",
            (GIVEN, "first.expand_as(target)")),
        Mistake("zero-in-front", "A 0 stands in front; wanted start.", ("first, target", "0 * first, target")),
        Mistake("start-at-the-end", "Start replaced the last symbol; it belongs in front, and all others move on.",
            (GIVEN, "target[:, :-1], first")),
    ),
    right=(
        lambda target, start: F.pad(target, (1, 0), value=start)[:, :-1],
        lambda target, start: torch.tensor([[start, *row[:-1]] for row in target.tolist()]),
    ),
    fresh=lambda: [(torch.arange(30).view(5, 6) * 7 % 9, 20), (torch.arange(16).view(2, 8) * 5 % 9, 9)],
)
