"""Exercise 6.1: a score for heads that look at the token before."""

import torch

from mha.exercises.exercise import BEST_HEAD, HEADS_AVERAGED, Exercise, Mistake, random_tensor, random_weights


def previous_token_score(weights):
    return weights.diagonal(offset=-1, dim1=1, dim2=2).mean(dim=-1)  # cells (i, i − 1): (h, T − 1) → (h,)


WHOLE = "weights.diagonal(offset=-1, dim1=1, dim2=2).mean(dim=-1)"
MEAN = ".mean(dim=-1)"


# fmt: off
EXERCISE = Exercise(
    "6.1", previous_token_score, difficulty=1, minutes=4,
    inputs=lambda: {
        "3 heads, 6 tokens": (random_weights(1, 3, 6, 6),),
        "4 heads, 4 tokens": (random_weights(2, 4, 4, 4),),
        "2 heads, 9": (random_weights(3, 2, 9, 9),),
    },
    cell="{:.3f}".format,
    hints=(
        "Row i is a query; the token before it is column i − 1. Where do these cells lie in the table?",
        "They form the first line below the diagonal; torch.diagonal takes an offset, and dim1=1, dim2=2 for the "
        "table.",
        "The first token has nobody before it: T − 1 cells are left for each head, and their mean is wanted.",
    ),
    mistakes=(
        Mistake("next-instead-of-previous", "These are the cells (i, i + 1), the token that comes after: rows and "
            "columns changed places, or the sign of the offset did.", ("offset=-1", "offset=1")),
        Mistake("itself", "This is the diagonal, each token's weight on itself.", ("offset=-1", "offset=0")),
        Mistake("two-back", "These are the tokens two places back.", ("offset=-1", "offset=-2")),
        Mistake("divided-by-T", "The sum was divided by T, but the first token has nobody before it: T − 1 rows count. "
            "A perfect head must score 1.", (MEAN, ".sum(dim=-1).div(weights.size(1))")),
        Mistake("first-row-counted", "The first row was counted with its weight on itself; it has nobody before it, so "
            "leave it out.", (MEAN, ".sum(dim=-1).add(weights[:, 0, 0]).div(weights.size(1))")),
        Mistake("summed", "This is a sum over rows; wanted the mean.", (".mean", ".sum")),
        Mistake("largest-weight", "This is the largest such weight; wanted the mean.", (".mean", ".amax")),
        Mistake("share-of-largest", "This is the share of rows whose largest weight is there; wanted the mean weight.",
            (WHOLE, "(weights[:, 1:].argmax(dim=-1) == torch.arange(weights.size(1) - 1)).float().mean(dim=-1)")),
        Mistake("divided-by-the-past", "The sum was divided by all weight on the past; wanted a mean over rows.",
            (MEAN, ".sum(dim=-1).div(weights.tril(-1).sum(dim=(1, 2)))")),
        Mistake("all-of-the-past", "This is the weight on all earlier tokens; wanted the one just before.",
            (WHOLE, "weights[:, 1:].tril().sum(dim=-1).mean(dim=-1)")),
        Mistake("all-of-the-past-over-T", "The weight on all earlier tokens, empty first row included; wanted the one "
            "just before, over T − 1 rows.", (WHOLE, "weights.tril(-1).sum(dim=-1).mean(dim=-1)")),
        Mistake("strength", "This is the strength, (score − null) / (1 − null); wanted the score alone.",
            (MEAN, ".mean(dim=-1).sub(1 / weights.size(1)).div(1 - 1 / weights.size(1))")),
        Mistake("null-subtracted", "1/T, the null, was taken away; wanted the score alone.",
            (MEAN, ".mean(dim=-1).sub(1 / weights.size(1))")),
        Mistake("first-and-last-left-out", "The first and the last token were left out, as if they were [CLS] and "
            "[SEP]; here no token is special.", (".mean", "[:, 1:-1].mean")),
        Mistake("first-row-wraps", "In the first row i − 1 is −1, and that is the *last* token: leave the first row "
            "out.", (MEAN, ".sum(dim=-1).add(weights[:, 0, -1]).div(weights.size(1))")),
        Mistake("mean-over-the-table", "The mean ran over all T × T cells; only T − 1 of them are a token with the one "
            "before it.", (MEAN, ".sum(dim=-1).div(weights[0].numel())")),
        Mistake("itself-too", "The weight on the token itself was counted, too; wanted the one before it alone.",
            (".mean", ".add(weights.diagonal(dim1=1, dim2=2)[:, 1:]).mean")),
        Mistake("heads-averaged-first", HEADS_AVERAGED, ("  # cells", ".mean()  # cells")),
        Mistake("best-head-only", BEST_HEAD, ("  # cells", ".max()  # cells")),
    ),
    right=(
        lambda w: torch.stack([torch.stack([head[i, i - 1] for i in range(1, len(head))]).mean() for head in w]),
        lambda w: torch.einsum("hij,ij->h", w, torch.eye(w.size(1)).roll(-1, 1).tril()) / (w.size(1) - 1),
    ),
    fresh=lambda: [(random_tensor(1, 5, 7, 7),), (random_tensor(2, 2, 3, 3),)],
)
