"""Exercise 9.1: how much of its weight each head puts behind the earlier copies."""

import torch

from mha.exercises.compare import one_tensor
from mha.exercises.exercise import HEADS_AVERAGED, Exercise, Mistake, random_weights
from mha.exercises.probes import cells_used


def induction_score(weights, tokens):
    same = tokens[:, None] == tokens[None, :]  # query i and key j hold the same token
    copies = same.tril(-1)  # only earlier ones
    behind = copies.roll(1, dims=1)  # the key after a copy
    asked = copies.any(dim=1)  # who has an earlier copy
    return (weights * behind).sum(dim=-1)[:, asked].mean(dim=-1)  # (h, T) → (h, asked) → (h,)


def _causal(seed, h, T):
    table = random_weights(seed, h, T, T).tril()
    return table / table.sum(dim=-1, keepdim=True)


TOKENS = torch.tensor([3, 1, 3, 5, 3, 1])

# fmt: off
EXERCISE = Exercise(
    "9.1", induction_score, difficulty=2, minutes=7, read=one_tensor, cell="{:.3f}".format,
    probes=(cells_used(6, TOKENS, dict.fromkeys(((2, 1), (4, 1), (4, 3), (5, 2)), 1 / 3), on="tokens 3 1 3 5 3 1"),),
    inputs=lambda: {
        "3 heads, three copies": (_causal(2, 3, 8), torch.tensor([1, 5, 1, 5, 1, 5, 1, 5])),
        "2 heads, two copies of three tokens": (_causal(1, 2, 6), torch.tensor([4, 0, 7, 4, 0, 7])),
        "2 heads, one token twice in a row": (_causal(3, 2, 7), torch.tensor([3, 6, 6, 2, 3, 1, 6])),
        "1 head, five tokens": (_causal(6, 1, 5), torch.tensor([2, 9, 2, 9, 2])),
    },
    hints=(
        "Build a table (T, T): which keys count for query i? Key j counts if the token before it, tokens[j - 1], is "
        "the query's own, and stands before the query.",
        "tokens[:, None] == tokens[None, :] says where two are the same; .tril(-1) keeps the earlier ones; shifting "
        "the table by one column gives the keys behind them.",
        "Sum the weights of these keys for each query, then take the mean over the queries that have any: a token's "
        "first copy has nowhere to look.",
    ),
    mistakes=(
        Mistake("the-copy-itself", "This is the weight on the earlier copies themselves: “same word”. Wanted the key "
            "just behind each of them.", ("copies.roll(1, dims=1)", "copies")),
        Mistake("before-the-copy", "This is the weight on the key just before each earlier copy; wanted the one "
            "behind it, which tells what came next.", (".roll(1, dims=1)", ".roll(-1, dims=1).tril()")),
        Mistake("its-own-copy", "A token counts as a copy of itself here, so each query is asked, and for its own next "
            "token. Only earlier copies count.", ("same.tril(-1)", "same.tril()")),
        Mistake("first-copies-counted", "The mean is over all tokens. One without an earlier copy has nowhere to look, "
            "and must not count against the head.", ("[:, asked]", "")),
        Mistake("only-the-nearest", "Only the key behind the nearest earlier copy counts here. All earlier copies tell "
            "what came next: add them up.",
            ("copies.roll(1, dims=1)", "(copies & (copies.int().flip(1).cumsum(1).flip(1) == 1)).roll(1, dims=1)")),
        Mistake("queries-shifted", "The table is shifted along the queries: query i is asked for the copies of the "
            "token before it.", (".roll(1, dims=1)", ".roll(1, dims=0)")),
        Mistake("mean-of-keys", "Where a query has several such keys their weights were averaged; wanted their sum, so "
            "that a perfect head scores 1.",
            ("(weights * behind).sum(dim=-1)", "((weights * behind).sum(dim=-1) / behind.sum(dim=-1).clamp(min=1))")),
        Mistake("summed", "This is a sum over queries; wanted the mean, which lies between 0 and 1.",
            ("asked].mean(", "asked].sum(")),
        Mistake("heads-averaged", HEADS_AVERAGED, (".mean(dim=-1)  #", ".mean()  #")),
    ),
    fresh=lambda: [
        (_causal(4, 4, 9), torch.tensor([2, 7, 1, 8, 2, 8, 1, 8, 2])),
        (_causal(5, 1, 5), torch.tensor([0, 0, 0, 0, 0])),
    ],
)
