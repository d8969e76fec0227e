"""Exercise 3.2: heads put side by side again."""

import torch

from mha import addresses
from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.exercises.lesson_03.split_heads import split_heads
from mha.exercises.probes import rearranged


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)  # (B, h, T, d_k) → (B, T, h, d_k) → (B, T, h·d_k)


WHOLE = "x.transpose(1, 2).flatten(2)"

# fmt: off
EXERCISE = Exercise(
    "3.2", merge_heads, difficulty=1, minutes=4,
    probes=(rearranged,), cell=addresses.label, legend=" (token.feature)",
    inputs=lambda: {  # contiguous, as attention by hand leaves them
        f"heads ({B}, {h}, {T}, {d // h})": (split_heads(addresses.make(T, d, B), h).contiguous(),)
        for B, T, d, h in ((2, 5, 12, 3), (2, 4, 6, 2), (3, 2, 8, 2), (2, 3, 6, 2), (1, 7, 4, 1))
    },
    hints=(
        "Play the split backwards. What was done last there is undone first here.",
        "The last step of the split swapped the token and head axes. After swapping back, a token's numbers lie side "
        "by side.",
        "reshape(B, T, -1), or flatten(2), puts the last two axes into one. view refuses after a transpose.",
    ),
    mistakes=(
        Mistake("not-transposed-back", "Row 0 holds head 0 of tokens 0, 1, …: the head axis was never moved back, so a "
            "row mixes tokens, and under a causal mask the future leaks in. Swap tokens and heads first, then reshape. "
            "(With one head you would never notice.)", (WHOLE, "x.reshape(len(x), x.size(2), -1)")),
        Mistake("heads-interleaved", "Each row holds the right token, but feature 0 of all heads, then feature 1: the "
            "head axis went to the end. Wanted head 0, then head 1.", (".transpose(1, 2)", ".permute(0, 2, 3, 1)")),
        Mistake("features-in-front", "Features were moved before the heads, so rows mix tokens. Only tokens and heads "
            "change places.", (WHOLE, "x.permute(0, 3, 1, 2).reshape(len(x), x.size(2), -1)")),
        Mistake("tokens-and-features-swapped", "transpose(2, 3) swaps tokens and features; wanted the token and head "
            "axes, 1 and 2.", (WHOLE, "x.transpose(2, 3).reshape(len(x), x.size(2), -1)")),
        Mistake("heads-and-features-swapped", "transpose(1, 3) swaps heads and features; wanted the token and head "
            "axes, 1 and 2.", (WHOLE, "x.transpose(1, 3).reshape(len(x), x.size(2), -1)")),
        Mistake("texts-mixed", "The batch axis moved, and rows of text 0 hold other texts. It stays first.",
            (WHOLE, "x.permute(2, 0, 1, 3).reshape(len(x), x.size(2), -1)")),
        Mistake("heads-reversed", "Heads come in reverse: head 0 goes first.", ("x.transpose", "x.flip(1).transpose")),
        Mistake("heads-summed", "The heads were added up: d_k numbers are left of h·d_k. Put them side by side.",
            (".transpose(1, 2).flatten(2)", ".sum(dim=1)")),
        Mistake("heads-averaged", "The heads were averaged: d_k numbers are left of h·d_k. Put them side by side.",
            (".transpose(1, 2).flatten(2)", ".mean(dim=1)")),
        Mistake("one-head-only", "Only head 0 is left; wanted all heads side by side.",
            (".transpose(1, 2).flatten(2)", "[:, 0]")),
        Mistake("not-merged", "Rightly moved, but there are still four axes, (B, T, h, d_k). Put the last two into "
            "one.", (".flatten(2)", "")),
        Mistake("batch-lost", "Texts and tokens share an axis; wanted (B, T, h·d_k).",
            (".flatten(2)", ".flatten(2).flatten(0, 1)")),
        Mistake("turned", "The result is turned over; wanted (B, T, h·d_k).", (".flatten(2)", ".flatten(2).mT")),
    ),
    right=(
        lambda x: torch.cat(list(x.unbind(dim=1)), dim=-1),
        lambda x: x.permute(0, 2, 1, 3).contiguous().view(x.size(0), x.size(2), -1),
        lambda x: x.transpose(1, 2).reshape(x.size(0), -1, x.size(1) * x.size(3)),
    ),
    fresh=lambda: [
        (random_tensor(1, *shape),) for shape in ((2, 3, 7, 5), (3, 2, 4, 6), (1, 1, 1, 5), (1, 3, 1, 1))
    ],
)
