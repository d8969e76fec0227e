"""Exercise 3.1: a token's features cut into heads."""

import torch

from mha import addresses
from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.exercises.probes import rearranged


def split_heads(x, num_heads):
    B, T, d = x.shape
    return x.view(B, T, num_heads, d // num_heads).transpose(1, 2)  # (B, T, h, d_k) → (B, h, T, d_k)


WHOLE = "x.view(B, T, num_heads, d // num_heads).transpose(1, 2)"

# fmt: off
EXERCISE = Exercise(
    "3.1", split_heads, difficulty=1, minutes=4,
    probes=(rearranged,), cell=addresses.label, legend=" (token.feature)",
    inputs=lambda: {
        f"x ({B}, {T}, {d}) and {h} head{'s' * (h > 1)}": (addresses.make(T, d, B), h)
        for B, T, d, h in ((2, 5, 12, 3), (2, 4, 6, 2), (3, 3, 8, 2), (2, 2, 12, 3), (1, 7, 4, 1))
    },
    hints=(
        "Each token's d features lie side by side: first head 0's d_k, then head 1's. View them in that order first.",
        "After view(B, T, h, d_k) no number has moved. Which two axes must change places to get (B, h, T, d_k)?",
    ),
    mistakes=(
        Mistake("heads-are-slices-of-the-text", "You named the axes in the order you want, not in the order in which "
            "the numbers lie: row 1 of head 0 holds token 0. The shape is right, but each head has a slice of the "
            "text, not of the features. View as (B, T, h, d_k), then swap the token and head axes.",
            (WHOLE, "x.reshape(B, num_heads, T, d // num_heads)")),
        Mistake("every-h-th-feature", "Head 0 takes features 0, h, 2h, …, wanted the first d_k in a row: with h and "
            "d_k the other way round, the cut goes through every head.",
            ("num_heads, d // num_heads).transpose(1, 2)", "d // num_heads, num_heads).permute(0, 3, 1, 2)")),
        Mistake("tokens-and-features-swapped", "The numbers were cut as (B, h, d_k, T): rows of a head hold bits of "
            "several tokens. They lie as (B, T, h, d_k).", (WHOLE, "x.reshape(B, num_heads, -1, T).transpose(2, 3)")),
        Mistake("transposed-before-the-cut", "Tokens and features changed places before the cut, so a row of a head "
            "holds one feature of many tokens. Cut the last axis first, then move the head axis.",
            (WHOLE, "x.mT.reshape(B, num_heads, T, d // num_heads)")),
        Mistake("texts-mixed", "The head axis was cut from the front: heads of text 0 hold numbers of other texts. "
            "Leave the batch axis first.", (WHOLE, "x.reshape(num_heads, B, T, -1).transpose(0, 1)")),
        Mistake("not-transposed", "Rightly cut, but the axes are still (B, T, h, d_k). Wanted (B, h, T, d_k): "
            "attention works on the last two axes, and those must be tokens and features.", (".transpose(1, 2)", "")),
        Mistake("heads-before-texts", "The head axis stands before the batch axis, (h, B, T, d_k). Wanted (B, h, T, "
            "d_k): swap axes 1 and 2.", (".transpose(1, 2)", ".permute(2, 0, 1, 3)")),
        Mistake("features-before-tokens", "Each head is (d_k, T), turned over. Wanted (T, d_k): a row for each token.",
            (".transpose(1, 2)", ".permute(0, 2, 3, 1)")),
        Mistake("sizes-swapped", "h and d_k changed places: d_k heads of h features. The last axis must be d / h wide.",
            ("num_heads, d // num_heads", "d // num_heads, num_heads")),
        Mistake("heads-in-the-batch", "Texts and heads share one axis, (B·h, T, d_k). It can be worked with, but here "
            "the head axis stays visible: (B, h, T, d_k).", (".transpose(1, 2)", ".transpose(1, 2).flatten(0, 1)")),
        Mistake("one-head-only", "Only head 0 is left; wanted all h.", (".transpose(1, 2)", ".transpose(1, 2)[:, :1]")),
        Mistake("heads-reversed", "The heads come in reverse order: head 0 has the first features.",
            (".transpose(1, 2)", ".transpose(1, 2).flip(1)")),
        Mistake("list-of-heads", "You return a list of heads, each right; wanted one tensor, torch.stack(heads, "
            "dim=1).", ("return x", "return [*x"), (".transpose(1, 2)", ".unbind(2)]")),
    ),
    right=(
        lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2),
        lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
        lambda x, h: torch.einsum("bthk->bhtk", x.view(*x.shape[:2], h, -1)),
        lambda x, h: x.permute(1, 2, 0).reshape(x.size(1), h, -1, x.size(0)).permute(3, 1, 0, 2),
    ),
    fresh=lambda: [
        (random_tensor(1, *shape), h) for *shape, h in ((2, 7, 20, 5), (3, 4, 12, 2), (1, 1, 6, 1), (1, 3, 6, 6))
    ],
)
