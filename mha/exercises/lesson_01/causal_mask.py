"""Exercise 1.2: the causal mask."""

import torch

import mha.attention
from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.probes import wrong_cells


def causal_mask(n):
    position = torch.arange(n)
    return position[:, None] >= position[None, :]  # query t sees key s if s is not later: (n, n)


def _one_table(mask):
    """Axes of size 1 in front do no harm."""
    if isinstance(mask, torch.Tensor):
        while mask.dim() > 2 and mask.size(0) == 1:
            mask = mask[0]
    return mask


# fmt: off
EXERCISE = Exercise(
    "1.2", causal_mask, difficulty=1, minutes=3,
    inputs=lambda: {f"n = {n}": (n,) for n in (4, 1, 7)}, read=_one_table, cell="{:g}".format,
    legend=" (1 = True)", probes=(wrong_cells(
        ("future-seen", "is True: the query sees a key that is later"),
        ("past-not-seen", "is False: the query does not see a key that is not later"),
    ),),
    hints=(
        "Number the positions: torch.arange(n). For query t and key s, when may t see s?",
        "Put the numbers once down, [:, None], and once across, [None, :]: comparing the two makes a table.",
    ),
    mistakes=(
        Mistake("sees-the-future", "The table is turned over its diagonal: each token sees itself and what comes "
            "after. Rows are queries.", (">=", "<=")),
        Mistake("not-itself", "A token may see itself, too: here row 0 sees nothing, and softmax of nothing is NaN. "
            "Allow equality.", (">=", ">")),
        Mistake("sees-the-next", "Each token sees one token too far: entry [0, 1] is True, which gives away the very "
            "token to be predicted.", ("position[:, None] >=", "position[:, None] + 1 >=")),
        Mistake("sees-everything", "All is True: nothing is hidden from anyone.", (">=", ">= 0 *")),
        Mistake("inverted", "True marks what is hidden here. In this course True = may attend.", (">=", "<")),
        Mistake("not-bool", "Right, but 0 and 1 as numbers; wanted booleans, which ~ turns over and nobody adds to "
            "scores.", ("position[:, None] >= position[None, :]", "(position[:, None] >= position).float()")),
        Mistake("additive", "This is a table to be added, 0 and −∞; wanted booleans, True = may attend.",
            ("position[:, None] >= position[None, :]", "torch.where(position[:, None] >= position, 0.0, -torch.inf)")),
    ),
    right=(
        mha.attention.causal_mask,
        lambda n: torch.ones(n, n).tril() == 1,
        lambda n: ~torch.ones(n, n, dtype=torch.bool).triu(1),
        lambda n: torch.eye(n).cumsum(0).bool(),
        lambda n: torch.tensor([[s <= t for s in range(n)] for t in range(n)]),
        lambda n: torch.ones(1, 1, n, n, dtype=torch.int64).tril().bool(),
    ),
    fresh=lambda: [(11,), (2,), (3,), (1,)],
)
