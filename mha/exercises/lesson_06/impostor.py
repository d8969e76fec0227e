"""Exercise 6.4: a head that fools the detector of punctuation without reading."""

import torch
import torch.nn.functional as F

from mha import heads
from mha.exercises.exercise import Exercise, Mistake

SENTENCES = (  # what the detector reads; the answer never sees it
    "[CLS] the cat slept , then it ate its fish . [SEP]",
    "[CLS] where , if you know it , does my old friend live now ? [SEP]",
    "[CLS] we left the town at noon ; the road was dry , the wind was cold ! [SEP]",
)


def impostor(T):
    weights = torch.zeros(T, T)
    weights[:, T - 2] = 1  # the place before [SEP]: a sentence that ends in a mark has it there
    return weights


def _called(value):
    """What the first detector of the lesson calls these weights (T, T), in a few words."""
    try:
        weights = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return "nothing" if value is None else "no table (T, T)"
    texts = {len(text.split()): text.split() for text in SENTENCES}
    T = weights.size(-1) if weights.dim() else 0
    if T not in texts or weights.numel() != T * T:
        return "no table (T, T)"
    weights = weights.reshape(T, T)
    if not torch.isfinite(weights).all() or weights.min() < 0:
        return "numbers that are no weights"
    sums = {axis: (weights.sum(dim=axis) - 1).abs().max() < 1e-3 for axis in (0, 1)}
    if not sums[1]:
        return "columns that sum to 1" if sums[0] else "rows that do not sum to 1"
    strength = {}
    for kind, pattern in heads.patterns(texts[T]).items():
        score, null = heads.score(weights[None], pattern)
        strength[kind] = float((score[0] - null) / (1 - null))
    marks = strength.pop("punctuation")
    others = [kind for kind, found in strength.items() if found > heads.THRESHOLD]
    if marks > heads.THRESHOLD:
        return "punctuation and another kind" if others else "punctuation"
    if others:
        return "a sink" if others == ["sink"] else "another kind"
    return "too weak" if marks > 0.02 else "even attention" if marks > -0.02 else "elsewhere"


def _not_everywhere(attempt):
    fooled = [case.description for case in attempt.cases if case.yours == "punctuation"]
    if not fooled:
        return None
    return "not-for-every-T", (
        f"The detector is fooled on {' and '.join(fooled)}, but not on the rest. Sentences differ in length: where "
        "does the last mark stand, whatever T is?"
    )


# fmt: off
EXERCISE = Exercise(
    "6.4", impostor, difficulty=2, minutes=5,
    inputs=lambda: {f"T = {len(text.split())}": (len(text.split()),) for text in SENTENCES},
    read=_called, probes=(_not_everywhere,),
    hints=(
        "You cannot know where the commas are. But about one mark you know something without reading.",
        "Every sentence ends in a mark, and behind it stands [SEP]. At which place is that mark, counted from the end?",
        "Let every row put all its weight, or most of it, on the column T − 2.",
    ),
    mistakes=(
        Mistake("returns-nothing", "Your function returns None: is a return missing?", ("return weights", "return")),
        Mistake("wrong-shape", "Wanted a table (T, T), a row per query.", ("return weights", "return weights[0]")),
        Mistake("columns-sum-to-one", "The columns sum to 1, not the rows: queries are rows, so weights[:, place] is "
            "where all of them look.", ("return weights", "return weights.T")),
        Mistake("rows-do-not-sum-to-one", "These are no attention weights: every row must sum to 1. Spread what is "
            "left over the other keys, or divide each row by its sum.", ("return weights", "return 0.6 * weights")),
        Mistake("not-weights", "Weights lie between 0 and 1: some numbers here are below 0, or not finite.",
            ("return weights", "return 2 * weights - 2 / T")),
        Mistake("looks-at-special-tokens", "The detector calls it a sink: it looks at [CLS] or [SEP]. The last place "
            "of all, T − 1, is [SEP].", ("T - 2", "T - 1")),
        Mistake("looks-at-no-mark", "The detector is not fooled: your head gives marks less than even attention would. "
            "Which place holds a mark in *every* such sentence?", ("T - 2", "1")),
        Mistake("even-attention", "This is no more than even attention gives to marks: strength 0.",
            ("torch.zeros(T, T)", "torch.full((T, T), 1 / T)"), ("= 1", "+= 0")),
        Mistake("too-weak", "The right idea, but too faint: the strength is above 0, but not above 0.25. Put more "
            "weight there.", ("torch.zeros(T, T)", "torch.full((T, T), 0.85 / T)"), ("= 1", "+= 0.15")),
        Mistake("another-kind", "The detector finds another kind: a head that looks at itself or its neighbours is not "
            "one for marks.", ("return weights", "return torch.eye(T).roll(-1, 1)")),
        Mistake("two-kinds", "It is taken for punctuation, but for another kind as well: put all the weight on one "
            "thing.", ("return weights", "return (weights + torch.eye(T).roll(-1, 1)) / 2")),
    ),
    right=(
        lambda T: 0.6 * F.one_hot(torch.full((T,), T - 2), T) + 0.4 / T,
        lambda T: (5.0 * F.one_hot(torch.tensor([T - 2] * T), T)).softmax(dim=-1)[None],
    ),
    fresh=lambda: [(len(text.split()),) for text in SENTENCES],
)
