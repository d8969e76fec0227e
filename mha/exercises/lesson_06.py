"""Exercises of lesson 06: a score, a score minus its null, and a check with a baseline."""

import torch

from mha.exercises import probes
from mha.exercises.engine import Exercise, Mistake


def previous_token_score(weights):
    return weights.diagonal(offset=-1, dim1=1, dim2=2).mean(dim=-1)  # cells (i, i − 1): (h, T − 1) → (h,)


def _previous(weights, offset=-1, over="pairs", heads="each"):
    """The reference with options."""
    T = weights.size(-1)
    cells = weights.diagonal(offset=offset, dim1=1, dim2=2)
    found = {
        "all": lambda: cells.sum(dim=-1) / T,
        "first row": lambda: (cells.sum(dim=-1) + weights[:, 0, 0]) / T,
        "sum": lambda: cells.sum(dim=-1),
        "largest": lambda: cells.amax(dim=-1),
        "argmax": lambda: (weights[:, 1:].argmax(dim=-1) == torch.arange(T - 1)).float().mean(dim=-1),
        "mass": lambda: cells.sum(dim=-1) / weights.tril(-1).sum(dim=(1, 2)),
        "past": lambda: weights[:, 1:].tril().sum(dim=-1).mean(dim=-1),
    }.get(over, lambda: cells.mean(dim=-1))()
    return {"averaged": found.mean(), "best": found.max()}.get(heads, found)


def _tables():
    def draw(seed, h, T):
        return (2 * probes._random(seed, h, T, T)).softmax(dim=-1)

    return {
        "3 heads, 6 tokens": (draw(1, 3, 6),),
        "4 heads, 4 tokens": (draw(2, 4, 4),),
        "2 heads, 9": (draw(3, 2, 9),),
    }


PREVIOUS = Exercise(
    "6.1",
    "previous_token_score",
    difficulty=1,
    minutes=4,
    reference=previous_token_score,
    family=_previous,
    inputs=_tables,
    cell="{:.3f}".format,
    hints=(
        "Row i is a query; the token before it is column i − 1. Where do these cells lie in the table?",
        "They form the first line below the diagonal; torch.diagonal takes an offset, and dim1=1, dim2=2 for the "
        "table.",
    ),
    mistakes=(
        Mistake(
            "next-instead-of-previous",
            "These are the cells (i, i + 1), the token that comes after: rows and columns changed places, or the sign "
            "of the offset did.",
            change={"offset": 1},
        ),
        Mistake("itself", "This is the diagonal, each token's weight on itself.", change={"offset": 0}),
        Mistake("two-back", "These are the tokens two places back.", change={"offset": -2}),
        Mistake(
            "divided-by-T",
            "The sum was divided by T, but the first token has nobody before it: T − 1 rows count. A perfect head must "
            "score 1.",
            change={"over": "all"},
        ),
        Mistake(
            "first-row-counted",
            "The first row was counted with its weight on itself; it has nobody before it, so leave it out.",
            change={"over": "first row"},
        ),
        Mistake("summed", "This is a sum over rows; wanted the mean.", change={"over": "sum"}),
        Mistake("largest-weight", "This is the largest such weight; wanted the mean.", change={"over": "largest"}),
        Mistake(
            "share-of-largest",
            "This is the share of rows whose largest weight lies there; wanted the mean weight itself.",
            change={"over": "argmax"},
        ),
        Mistake(
            "divided-by-the-past",
            "The sum was divided by all weight on the past; wanted a mean over rows.",
            change={"over": "mass"},
        ),
        Mistake(
            "all-of-the-past",
            "This is the weight on all earlier tokens; wanted the one just before.",
            change={"over": "past"},
        ),
        Mistake(
            "heads-averaged-first",
            "The heads were averaged: one clear head among twelve disappears. One number for each.",
            change={"heads": "averaged"},
        ),
        Mistake(
            "best-head-only",
            "Only the best head's score came back; wanted one for each.",
            change={"heads": "best"},
        ),
    ),
)


def punctuation_above_null(weights, marks):
    score = weights[:, :, marks].sum(dim=-1).mean(dim=-1)  # weight that a token gives to all marks: (h,)
    null = marks.float().mean()  # what even attention would give them
    return score - null


def _punctuation(weights, marks, null="share", of="columns", heads="each", over="tokens"):
    """The reference with options."""
    T = weights.size(-1)
    if of == "rows":
        score = weights[:, marks].sum(dim=1).mean(dim=-1)
    elif of == "from marks":
        score = weights[:, marks][:, :, marks].sum(dim=-1).mean(dim=-1)
    elif of == "to others":
        score = weights[:, :, ~marks].sum(dim=-1).mean(dim=-1)
    elif over == "each mark":
        score = weights[:, :, marks].mean(dim=(1, 2))
    elif over == "sum":
        score = weights[:, :, marks].sum(dim=(1, 2))
    elif over == "largest":
        score = weights[:, :, marks].sum(dim=-1).amax(dim=-1)
    else:
        score = weights[:, :, marks].sum(dim=-1).mean(dim=-1)
    share = marks.float().mean()
    result = {
        "none": lambda: score,
        "one token": lambda: score - 1 / T,
        "ratio": lambda: score / share,
        "strength": lambda: (score - share) / (1 - share),
        "turned": lambda: share - score,
        "head mean": lambda: score - score.mean(),
    }.get(null, lambda: score - share)()
    return {"averaged": result.mean(), "best": result.max()}.get(heads, result)


def _marked():
    tables = _tables()
    marks = ([0, 0, 1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0, 1, 0, 0, 0, 1])
    return {
        f"{name}, {sum(mark)} mark{'s' * (sum(mark) > 1)}": (*table, torch.tensor(mark, dtype=torch.bool))
        for (name, table), mark in zip(tables.items(), marks, strict=True)
    }


PUNCTUATION = Exercise(
    "6.2",
    "punctuation_above_null",
    difficulty=2,
    minutes=5,
    reference=punctuation_above_null,
    family=_punctuation,
    inputs=_marked,
    cell="{:.3f}".format,
    hints=(
        "First the score: how much of its one whole does a token give to all marks together? Average over tokens.",
        "Attention *to* the marks is in their columns: weights[:, :, marks].",
        "Even attention gives every key 1/T, so all marks together get their share of the tokens, "
        "marks.float().mean().",
    ),
    mistakes=(
        Mistake(
            "null-forgotten",
            "This is the score alone. Where a third of the tokens are marks, a head that looks nowhere scores a third: "
            "take the null away.",
            change={"null": "none"},
        ),
        Mistake(
            "null-of-one-token",
            "The null taken away is 1/T, that of a single mark; wanted that of all of them.",
            change={"null": "one token"},
        ),
        Mistake(
            "ratio-to-null",
            "This is the score divided by its null; wanted the difference.",
            change={"null": "ratio"},
        ),
        Mistake(
            "strength",
            "This is the difference divided by the room above the null; wanted the difference itself.",
            change={"null": "strength"},
        ),
        Mistake("null-minus-score", "The sign is turned: this is null minus score.", change={"null": "turned"}),
        Mistake(
            "null-of-the-other-heads",
            "The mean of the heads was taken away; the null is what even attention would give, whatever other heads "
            "do.",
            change={"null": "head mean"},
        ),
        Mistake(
            "rows-and-columns-swapped",
            "This is the weight that the marks give, their rows; wanted what they receive, their columns.",
            change={"of": "rows"},
        ),
        Mistake(
            "marks-to-marks",
            "Only queries that are marks themselves were counted; wanted all.",
            change={"of": "from marks"},
        ),
        Mistake("the-others", "This is the weight on all that are not marks.", change={"of": "to others"}),
        Mistake(
            "mean-over-marks",
            "The mean over marks was taken; a row's weight on all of them together is a sum.",
            change={"over": "each mark"},
        ),
        Mistake("summed", "The sum over tokens was taken; wanted their mean.", change={"over": "sum"}),
        Mistake(
            "best-token-only",
            "The largest row was taken; wanted the mean over tokens.",
            change={"over": "largest"},
        ),
        Mistake("heads-averaged-first", "The heads were averaged; one number for each.", change={"heads": "averaged"}),
        Mistake(
            "best-head-only",
            "Only the best head's number came back; wanted one for each.",
            change={"heads": "best"},
        ),
    ),
)


def coreference_check(weights, pronouns, candidates):
    text = torch.arange(len(weights))
    rows = weights[text, :, pronouns]  # (N, h, T): what each pronoun looks at
    to_antecedent = rows[text, :, candidates[:, 0]]  # (N, h)
    to_other = rows[text, :, candidates[:, 1]]
    accuracy = (to_antecedent > to_other).float().mean(dim=0)  # (h,)
    distance = (candidates - pronouns[:, None]).abs()
    baseline = (distance[:, 0] < distance[:, 1]).float().mean()  # always take the nearer one
    return accuracy, baseline


def _coreference(weights, pronouns, candidates, look="row", count="right", base="nearer", heads="each"):
    """The reference with options."""
    text = torch.arange(len(weights))
    table = weights.transpose(-2, -1) if look == "column" else weights
    at = {"before": pronouns - 1, "after": pronouns + 1, "first text": pronouns[:1].expand_as(pronouns)}.get(
        look, pronouns
    )
    rows = table[text, :, at]
    a, b = (rows[text, :, candidates[:, i]] for i in (0, 1))
    accuracy = {
        "wrong": lambda: (a < b).float().mean(dim=0),
        "weight": lambda: a.mean(dim=0),
        "difference": lambda: (a - b).mean(dim=0),
        "most of all": lambda: (rows.argmax(dim=-1) == candidates[:, :1]).float().mean(dim=0),
        "means": lambda: (a.mean(dim=0) > b.mean(dim=0)).float(),
        "sum": lambda: (a > b).float().sum(dim=0),
        "per text": lambda: (a > b).float().mean(dim=1),
    }.get(count, lambda: (a > b).float().mean(dim=0))()
    accuracy = {"averaged": accuracy.mean(), "best": accuracy.max()}.get(heads, accuracy)
    distance = (candidates - pronouns[:, None]).abs()
    baseline = {
        "farther": lambda: (distance[:, 0] > distance[:, 1]).float().mean(),
        "first": lambda: (candidates[:, 0] < candidates[:, 1]).float().mean(),
        "half": lambda: torch.tensor(0.5),
    }.get(base, lambda: (distance[:, 0] < distance[:, 1]).float().mean())()
    return accuracy if base == "none" else (accuracy, baseline)


def _pronoun_texts():
    def draw(seed, N, h, T, pronouns, candidates):
        weights = (2 * probes._random(seed, N, h, T, T)).softmax(dim=-1)
        return weights, torch.tensor(pronouns), torch.tensor(candidates)

    return {
        "5 texts, 3 heads": draw(1, 5, 3, 8, [6, 5, 6, 1, 5], [[1, 4], [4, 1], [2, 5], [3, 5], [1, 3]]),
        "4 texts, 4 heads": draw(2, 4, 4, 7, [5, 5, 4, 2], [[1, 3], [3, 0], [2, 0], [6, 4]]),
        "7 texts, 2 heads": draw(
            3, 7, 2, 9, [7, 6, 5, 7, 1, 6, 7], [[1, 4], [4, 2], [3, 0], [0, 6], [3, 2], [2, 5], [1, 2]]
        ),
    }


COREFERENCE = Exercise(
    "6.3",
    "coreference_check",
    difficulty=3,
    minutes=7,
    reference=coreference_check,
    family=_coreference,
    inputs=_pronoun_texts,
    parts=("accuracy", "baseline"),
    read=lambda value: (
        tuple(torch.as_tensor(x) if isinstance(x, float | int) else x for x in value)
        if isinstance(value, tuple | list)
        else value
    ),
    cell="{:.3f}".format,
    hints=(
        "Each text has its own pronoun and its own two candidates: pick with two lists of indices, weights[text, :, "
        "pronouns].",
        "Of the pronoun's row take the weight on candidates[:, 0], the antecedent, and on candidates[:, 1]. A head is "
        "right where the first is larger.",
        "The baseline looks at no weight: it takes the candidate that stands nearer to the pronoun. How often is it "
        "right?",
    ),
    mistakes=(
        Mistake(
            "columns-read",
            "You read who looks at the pronoun, its column; wanted what the pronoun looks at, its row.",
            change={"look": "column"},
        ),
        Mistake("word-before-read", "The row of the word before the pronoun was read.", change={"look": "before"}),
        Mistake(
            "first-pronoun-for-all",
            "Every text was read at the place of text 0's pronoun.",
            change={"look": "first text"},
        ),
        Mistake(
            "other-candidate",
            "This counts where the other candidate gets more: candidates[:, 0] is the antecedent.",
            change={"count": "wrong"},
        ),
        Mistake(
            "mean-weight",
            "This is the mean weight on the antecedent; wanted how often it gets more than the other.",
            change={"count": "weight"},
        ),
        Mistake(
            "mean-difference",
            "This is a difference of weights; wanted how often the antecedent gets more.",
            change={"count": "difference"},
        ),
        Mistake(
            "most-of-all-tokens",
            "The antecedent had to get more than every other token; wanted more than the other candidate.",
            change={"count": "most of all"},
        ),
        Mistake(
            "means-compared",
            "Two means were compared, once; wanted the share of texts.",
            change={"count": "means"},
        ),
        Mistake("count-not-share", "This is a number of texts; wanted their share.", change={"count": "sum"}),
        Mistake(
            "averaged-over-heads-per-text",
            "The mean ran over the heads; wanted over texts, one number for each head.",
            change={"count": "per text"},
        ),
        Mistake(
            "heads-averaged",
            "One number came back for all heads; wanted one for each.",
            change={"heads": "averaged"},
        ),
        Mistake("best-head-only", "Only the best head's accuracy came back; wanted all.", change={"heads": "best"}),
        Mistake(
            "baseline-missing",
            "Only the accuracy came back; without a baseline nobody knows what it is worth.",
            change={"base": "none"},
        ),
        Mistake(
            "baseline-farther",
            "The baseline takes the farther candidate; wanted the nearer.",
            change={"base": "farther"},
        ),
        Mistake(
            "baseline-first",
            "The baseline takes the candidate that comes first; wanted the nearer one.",
            change={"base": "first"},
        ),
        Mistake(
            "baseline-by-guessing",
            "The baseline is one half, for guessing; wanted how often the nearer candidate is right.",
            change={"base": "half"},
        ),
    ),
)

EXERCISES = (PREVIOUS, PUNCTUATION, COREFERENCE)
