"""Exercise 2.1: how much each head looks k tokens back."""

import torch

from mha.exercises.compare import one_tensor
from mha.exercises.exercise import BEST_HEAD, HEADS_AVERAGED, Exercise, Mistake, random_weights
from mha.exercises.probes import cells_used


def looks_back(weights, k):
    cells = weights.diagonal(-k, dim1=1, dim2=2)  # (h, T, T) → (h, T − k): the first k tokens have nobody there
    return cells.mean(dim=-1)  # (h,)


def _inputs():
    causal = random_weights(4, 2, 7, 7).tril()
    return {
        "3 heads, 6 tokens, k = 1": (random_weights(1, 3, 6, 6), 1),
        "4 heads, 4 tokens, k = 2": (random_weights(2, 4, 4, 4), 2),
        "2 heads, 7 tokens, causal, k = 3": (causal / causal.sum(dim=-1, keepdim=True), 3),
        "2 heads, 5 tokens, k = 0": (random_weights(5, 2, 5, 5), 0),
        "1 head, 4 tokens, k = 3": (random_weights(6, 1, 4, 4), 3),
    }


MEAN = ".mean(dim=-1)"

# fmt: off
EXERCISE = Exercise(
    "2.1", looks_back, difficulty=2, minutes=5,
    inputs=_inputs, read=one_tensor, cell="{:.3f}".format,
    probes=(cells_used(5, 2, {(t, t - 2): 1 / 3 for t in (2, 3, 4)}, on="5 tokens and k = 2"),),
    hints=(
        "Take one head and k = 1. Which cell of row t is the token before it? In row 0?",
        "The cells (t, t − k) lie on a line parallel to the diagonal, below it. Index it with two lists of numbers, or "
        "with torch.diagonal and its offset.",
        "Of T rows only T − k have such a cell: average over those. With k = 0 that is each token itself (and a slice "
        "[:-k] is empty, as -0 is 0).",
    ),
    mistakes=(
        Mistake("looks-ahead", "These are the cells (t, t + k), above the diagonal: the token that comes after. Rows "
            "are queries, so the past lies below.", ("-k", "k")),
        Mistake("one-too-near", "These are k − 1 places back. k = 0 is the token itself.", ("-k", "1 - k")),
        Mistake("one-too-far", "These are k + 1 places back; k = 1 is the token before.", ("-k", "-k - 1")),
        Mistake("divided-by-T", "The sum was divided by T, but the first k tokens have nobody k places back, and must "
            "not count against the head.", (MEAN, ".sum(dim=-1) / weights.size(-1)")),
        Mistake("summed", "This is a sum over queries; wanted the mean, at most 1.", (MEAN, ".sum(dim=-1)")),
        Mistake("largest-weight", "This is the largest such weight; wanted the mean over queries.",
            (MEAN, ".max(dim=-1).values")),
        Mistake("last-query-only", "Only the last query was looked at; wanted the mean over all that can.",
            (MEAN, "[..., -1]")),
        Mistake("column-k", "This is column k, attention to the fixed place k; wanted k places before each query.",
            ("cells.mean", "weights[:, :, k].mean")),
        Mistake("wraps-around", "For the first k queries t − k is negative, and counts from the end: they met the last "
            "tokens. Begin with query k.", ("cells.mean", "weights.roll(k, -1).diagonal(dim1=1, dim2=2).mean")),
        Mistake("queries-from-4-on", "Queries before the fifth were left out, as in the lesson's cell, where k went up "
            "to 4. Here every query from k on counts.", ("cells.mean", "cells[:, 4 - k :].mean")),
        Mistake("one-row", "This is one cell of row k; wanted a mean.", ("cells.mean(dim=-1)", "weights[:, k, 0]")),
        Mistake("whole-table", "This is the mean of the whole table, or of whole rows: 1/T for every head, as each row "
            "sums to 1.", ("cells.mean(dim=-1)", "weights.mean(dim=(1, 2))")),
        Mistake("up-to-k", "All the last k tokens were added up; wanted the one k places back.",
            ("cells.mean", "(weights.tril(-1).triu(-k)[:, k:].sum(dim=-1) if k else cells).mean")),
        Mistake("all-further-back", "The tokens farther back were added as well; wanted the one exactly k places back.",
            ("cells.mean", "weights.tril(-k)[:, k:].sum(dim=-1).mean")),
        Mistake("mean-over-the-table", "The sum was divided by T · T, all cells of the table; only T − k of them are k "
            "places back.", (MEAN, ".sum(dim=-1) / weights.size(-1) ** 2")),
        Mistake("how-often-largest", "This is how often that token gets the most weight; wanted the weight itself.",
            ("cells.mean", "(weights.argmax(dim=-1) == torch.arange(-k, weights.size(-1) - k))[:, k:].float().mean")),
        Mistake("empty-slice", "Right for k ≥ 1. At k = 0 the slice [:-k] is [:0], and empty, as -0 is 0. [:T - k] is "
            "right for every k.", ("cells.mean", "weights[:, k:, :-k].diagonal(dim1=1, dim2=2).mean")),
        Mistake("heads-averaged", HEADS_AVERAGED, ("return ", "return torch.mean("), ("  # (h,)", ")  # (h,)")),
        Mistake("best-head-only", BEST_HEAD, ("return ", "return torch.max("), ("  # (h,)", ")  # (h,)")),
        Mistake("head-0-only", "Only head 0's number came back; wanted one for each.",
            ("return ", "return ("), ("  # (h,)", ")[0]  # (h,)")),
        Mistake("diagonal-of-heads", "torch.diagonal takes axes 0 and 1 unless told, heads × queries here. Name the "
            "last two: dim1=-2, dim2=-1.", (", dim1=1, dim2=2", "")),
    ),
    right=(
        lambda w, k: [head.diagonal(-k).mean().item() for head in w],
        lambda w, k: w[:, k:, : w.size(1) - k].diagonal(0, 1, 2).mean(-1),
        lambda w, k: w.flatten(1)[:, k * w.size(1) :: w.size(1) + 1].mean(1),
        lambda w, k: w[:, torch.arange(k, w.size(1)), torch.arange(w.size(1) - k)].mean(dim=-1),
        lambda w, k: (w * torch.eye(w.size(1)).roll(-k, 1).tril()).sum((1, 2)) / (w.size(1) - k),
    ),
    fresh=lambda: [(random_weights(T, h, T, T), k) for h, T, k in ((3, 9, 2), (5, 8, 4), (1, 6, 5), (1, 3, 0))],
)
