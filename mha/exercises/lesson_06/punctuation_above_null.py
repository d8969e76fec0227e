"""Exercise 6.2: how far a head's score for punctuation is above even attention."""

import torch

from mha.exercises.exercise import BEST_HEAD, HEADS_AVERAGED, Exercise, Mistake, random_tensor
from mha.exercises.lesson_06.previous_token_score import EXERCISE as PREVIOUS


def punctuation_above_null(weights, marks):
    score = weights[:, :, marks].sum(dim=-1).mean(dim=-1)  # weight that a token gives to all marks: (h,)
    null = marks.float().mean()  # what even attention would give them
    return score - null


def _inputs():
    marks = ([0, 0, 1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0, 1, 0, 0, 0, 1])
    return {
        f"{name}, {sum(mark)} mark{'s' * (sum(mark) > 1)}": (*table, torch.tensor(mark).bool())
        for (name, table), mark in zip(PREVIOUS.inputs().items(), marks, strict=True)
    }


# fmt: off
EXERCISE = Exercise(
    "6.2", punctuation_above_null, difficulty=2, minutes=5,
    inputs=_inputs, cell="{:.3f}".format,
    hints=(
        "First the score: how much of its one whole does a token give to all marks together? Average over tokens.",
        "Attention *to* the marks is in their columns: weights[:, :, marks].",
        "Even attention gives every key 1/T, so all marks together get their share of the tokens, "
        "marks.float().mean().",
    ),
    mistakes=(
        Mistake("null-forgotten", "This is the score alone. Where a third of the tokens are marks, even attention "
            "scores a third: take the null away. (Is it 0? Whole numbers divided with // give that.)", (" - null", "")),
        Mistake("null-of-one-token", "The null taken away is 1/T, that of a single mark; wanted that of all of them.",
            ("- null", "- 1 / len(marks)")),
        Mistake("ratio-to-null", "This is the score divided by its null; wanted the difference.", ("- null", "/ null")),
        Mistake("strength", "This is the difference divided by the room above the null; wanted the difference itself.",
            ("score - null", "(score - null) / (1 - null)")),
        Mistake("null-minus-score", "The sign is turned: this is null minus score, or, what comes to the same, the "
            "words were counted (~marks) in place of the marks.", ("score - null", "null - score")),
        Mistake("null-is-a-count", "The number of marks was taken away; even attention gives each of them 1/T, so "
            "their *share* is the null.", ("- null", "- marks.sum()")),
        Mistake("null-of-one-mark", "1 divided by the number of marks was taken away; the null is the number of marks "
            "divided by T.", ("- null", "- 1 / marks.sum()")),
        Mistake("mark-does-not-count-itself", "A mark's weight on itself was left out, as the lesson does; here it may "
            "count itself.", ("weights[:, :, marks]", "(weights.triu(1) + weights.tril(-1))[:, :, marks]")),
        Mistake("mark-does-not-count-itself-null-neither", "A mark's weight on itself was left out, and of the null as "
            "well, as the lesson does; here it may count itself, in both.",
            ("weights[:, :, marks]", "(weights.triu(1) + weights.tril(-1))[:, :, marks]"),
            ("- null", "- (marks.sum() - null) / len(marks)")),
        Mistake("only-words-ask", "Only the rows of words were counted; wanted all rows, those of marks, too.",
            ("[:, :, marks]", "[:, ~marks][:, :, marks]")),
        Mistake("first-and-last-left-out", "The rows of the first and the last token were left out; here no token is "
            "special.", ("[:, :, marks]", "[:, 1:-1, marks]")),
        Mistake("null-of-the-other-heads", "The mean of the heads was taken away; the null is what even attention "
            "would give, whatever other heads do.", ("- null", "- score.mean()")),
        Mistake("rows-and-columns-swapped", "This is the weight that the marks give, their rows; wanted what they "
            "receive, their columns.", ("[:, :, marks].sum(dim=-1)", "[:, marks].sum(dim=1)")),
        Mistake("marks-to-marks", "Only queries that are marks themselves were counted; wanted all.",
            ("[:, :, marks]", "[:, marks][:, :, marks]")),
        Mistake("the-others", "This is the weight on all that are not marks.", ("[:, :, marks]", "[:, :, ~marks]")),
        Mistake("mean-over-marks", "The mean over marks was taken; a row's weight on all of them together is a sum.",
            ("sum(dim=-1).mean", "mean(dim=-1).mean")),
        Mistake("summed", "The sum over tokens was taken; wanted their mean.", (".mean(dim=-1)", ".sum(dim=-1)")),
        Mistake("best-token-only", "The largest row was taken; wanted their mean.", (".mean(dim=-1)", ".amax(dim=-1)")),
        Mistake("heads-averaged-first", HEADS_AVERAGED, ("  # weight", ".mean()  # weight")),
        Mistake("best-head-only", BEST_HEAD, ("  # weight", ".max()  # weight")),
    ),
    right=(
        lambda w, marks: (w * marks).sum((1, 2)) / w.size(1) - marks.sum() / len(marks),
        lambda w, marks: torch.stack([(head @ marks.float()).mean() for head in w]) - marks.double().mean(),
    ),
    fresh=lambda: [
        (random_tensor(1, 5, 7, 7), random_tensor(2, 7) > 0),
        (random_tensor(3, 2, 4, 4), torch.tensor([True, False, False, True])),
    ],
)
