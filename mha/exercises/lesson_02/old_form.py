"""Exercise of lesson 02: how much each head looks k tokens back."""

import itertools

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def cells_used(attempt):
    """For numbers (h,) that are linear in weights (h, T, T): which cells of head 0's table count, and how much."""
    T, k = 5, 2
    wanted = {(t, t - k): 1 / (T - k) for t in range(k, T)}
    used = {}
    for t, s in itertools.product(range(T), range(T)):
        table = torch.zeros(2, T, T)
        table[0, t, s] = 1
        value = attempt.call(table, k)
        if not isinstance(value, torch.Tensor) or value.shape != (2,) or value.isnan().any():
            return None
        if value[0]:
            used[t, s] = value[0].item()
    other = random_tensor(0, 2, T, T)
    if abs(attempt.call(other, k)[0] - sum(share * other[0][cell] for cell, share in used.items())) > 1e-4:
        return None  # no weighted sum of cells
    extra, missing = ([cell for cell in one if cell not in other] for one, other in ((used, wanted), (wanted, used)))
    if extra and len(extra) < T * T // 2:
        many = f" and {len(extra) - 1} more that should not" if len(extra) > 1 else ", which should not"
        return "cells-too-many", f"With {T} tokens and k = {k}, cell {extra[0]} counts (query, key){many}."
    if missing:
        return (
            "cells-missing",
            f"With {T} tokens and k = {k}, cell {missing[0]} (query, key) does not count; it should.",
        )
    for cell, share in wanted.items():
        if not extra and abs(used[cell] - share) > 1e-4:
            says = f"The right cells, but with {T} tokens and k = {k} each counts {used[cell]:.3f}, wanted 1/{T - k}"
            return "wrong-share", f"{says}: a mean over the T − k tokens that have somebody there."
    return None


def looks_back(weights, k):
    T = weights.size(-1)
    queries = torch.arange(k, T, device=weights.device)  # the first k tokens have nobody k places back
    return weights[:, queries, queries - k].mean(dim=-1)  # (h, T, T) → (h, T − k) → (h,)


def _looks_back(weights, k, diagonal=lambda k: -k, over="pairs", heads="right", axes="right"):
    """The reference with options."""
    T = weights.size(-1)
    if axes == "heads":
        found = torch.diagonal(weights, offset=diagonal(k))  # heads × queries, as diagonal does unless told
    elif axes == "turned":
        found = torch.diagonal(weights.transpose(1, 2), offset=diagonal(k), dim1=1, dim2=2)
    else:
        found = torch.diagonal(weights, offset=diagonal(k), dim1=1, dim2=2)  # (h, T − k)
    if over == "sum":
        result = found.sum(dim=-1)
    elif over == "all queries":
        result = found.sum(dim=-1) / T
    elif over == "largest":
        result = found.max(dim=-1).values
    elif over == "last":
        result = found[..., -1]
    elif over == "column":
        result = weights[:, :, k].mean(dim=-1)
    elif over == "row":
        result = weights[:, k, 0]
    elif over == "table":
        result = weights.mean(dim=(1, 2))
    elif over == "wraps":
        result = weights[:, torch.arange(T), torch.arange(T) - k].mean(dim=-1)
    elif over == "from 4":
        result = found[:, 4 - k :].mean(dim=-1)
    elif over == "up to k":
        result = weights.tril(-1).triu(-k)[:, k:].sum(dim=-1).mean(dim=-1) if k else found.mean(dim=-1)
    elif over == "k and farther":
        result = weights.tril(-k)[:, k:].sum(dim=-1).mean(dim=-1)
    elif over == "T × T":
        result = found.sum(dim=-1) / T**2
    elif over == "argmax":
        most = weights.argmax(dim=-1) == torch.arange(T, device=weights.device) - k
        result = most[:, k:].float().mean(dim=-1)
    elif over == "slice":
        result = weights[:, k:, :-k].diagonal(0, 1, 2).mean(dim=-1)
    else:
        result = found.mean(dim=-1)
    return {"averaged": result.mean(), "largest": result.max(), "first": result[0]}.get(heads, result)


def _one_tensor(found):
    """A list of numbers is as good as a tensor."""
    if isinstance(found, list | tuple) and all(isinstance(x, int | float | torch.Tensor) for x in found):
        numbers = [float(x) for x in found if not isinstance(x, torch.Tensor) or x.numel() == 1]
        return torch.tensor(numbers) if len(numbers) == len(found) else found
    return found


def _inputs():
    def draw(seed, h, T):
        return (3 * random_tensor(seed, h, T, T)).softmax(dim=-1)

    causal = draw(4, 2, 7).tril()
    return {
        "3 heads, 6 tokens, k = 1": (draw(1, 3, 6), 1),
        "4 heads, 4 tokens, k = 2": (draw(2, 4, 4), 2),
        "2 heads, 7 tokens, causal, k = 3": (causal / causal.sum(dim=-1, keepdim=True), 3),
        "2 heads, 5 tokens, k = 0": (draw(5, 2, 5), 0),
        "1 head, 4 tokens, k = 3": (draw(6, 1, 4), 3),
    }


LOOKS_BACK = Exercise(
    "2.1",
    looks_back,
    difficulty=2,
    minutes=5,
    family=_looks_back,
    inputs=_inputs,
    read=_one_tensor,
    cell="{:.3f}".format,
    probes=(cells_used,),
    hints=(
        "Take one head and k = 1. Which cell of row t is the token before it? In row 0?",
        "The cells (t, t − k) lie on a line parallel to the diagonal, below it. Index it with two lists of numbers, or "
        "with torch.diagonal and its offset.",
        "Of T rows only T − k have such a cell: average over those. With k = 0 that is each token itself (and a slice "
        "[:-k] is empty, as -0 is 0).",
    ),
    mistakes=(
        Mistake(
            "looks-ahead",
            "These are the cells (t, t + k), above the diagonal: the token that comes after. Rows are queries, so the "
            "past lies below.",
            change={"diagonal": lambda k: k},
        ),
        Mistake(
            "one-too-near",
            "These are k − 1 places back. k = 0 is the token itself.",
            change={"diagonal": lambda k: 1 - k},
        ),
        Mistake(
            "one-too-far",
            "These are k + 1 places back; k = 1 is the token before.",
            change={"diagonal": lambda k: -k - 1},
        ),
        Mistake(
            "divided-by-T",
            "The sum was divided by T, but only T − k tokens have somebody k places back. The first k cannot "
            "look there, and must not count against the head.",
            change={"over": "all queries"},
        ),
        Mistake(
            "summed",
            "This is a sum over queries; wanted the mean, which lies between 0 and 1.",
            change={"over": "sum"},
        ),
        Mistake(
            "largest-weight",
            "This is the largest such weight; wanted the mean over queries.",
            change={"over": "largest"},
        ),
        Mistake(
            "last-query-only",
            "Only the last query was looked at; wanted the mean over all that can.",
            change={"over": "last"},
        ),
        Mistake(
            "column-k",
            "This is column k, attention to the fixed place k; wanted k places before each query.",
            change={"over": "column"},
        ),
        Mistake(
            "wraps-around",
            "For the first k queries, t − k is negative, and a negative index counts from the end: they were paired "
            "with the last tokens. Begin with query k.",
            change={"over": "wraps"},
        ),
        Mistake(
            "queries-from-4-on",
            "Queries before the fifth were left out, as in the lesson's cell, where k went up to 4. Here every query "
            "from k on counts.",
            change={"over": "from 4"},
        ),
        Mistake("one-row", "This is one cell of row k; wanted a mean over rows.", change={"over": "row"}),
        Mistake(
            "whole-table",
            "This is the mean of the whole table, or of whole rows: 1/T for every head, as each row sums to 1.",
            change={"over": "table"},
        ),
        Mistake(
            "up-to-k",
            "All the last k tokens were added up; wanted the one k places back.",
            change={"over": "up to k"},
        ),
        Mistake(
            "all-further-back",
            "The tokens farther back were added as well; wanted the one exactly k places back.",
            change={"over": "k and farther"},
        ),
        Mistake(
            "mean-over-the-table",
            "The sum was divided by T · T, all cells of the table; only T − k of them are k places back.",
            change={"over": "T × T"},
        ),
        Mistake(
            "how-often-largest",
            "This is how often that token gets the most weight; wanted the weight itself, on average.",
            change={"over": "argmax"},
        ),
        Mistake(
            "empty-slice",
            "Right for k ≥ 1. At k = 0 the slice [:-k] is [:0], and empty: -0 is 0, no distance from the end. [:T - k] "
            "says the same for every k.",
            change={"over": "slice"},
        ),
        Mistake(
            "heads-averaged",
            "The heads were averaged: two that look to different places become one blur. One number for each head.",
            change={"heads": "averaged"},
        ),
        Mistake(
            "best-head-only",
            "Only the best head's number came back; wanted one for each.",
            change={"heads": "largest"},
        ),
        Mistake("head-0-only", "Only head 0's number came back; wanted one for each.", change={"heads": "first"}),
        Mistake(
            "diagonal-of-heads",
            "torch.diagonal takes axes 0 and 1 unless told, heads × queries here. Name the last two: dim1=-2, dim2=-1.",
            change={"axes": "heads"},
        ),
    ),
)

EXERCISES = (LOOKS_BACK,)
