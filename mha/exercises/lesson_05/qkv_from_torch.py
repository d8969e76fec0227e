"""Exercise 5.2: the weights of nn.MultiheadAttention, [Q | K | V]."""

import torch

from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.lesson_05._layouts import COMMON, order_and_form


def qkv_from_torch(in_proj_weight, num_heads):
    d = in_proj_weight.size(1)
    blocks = in_proj_weight.view(3, num_heads, d // num_heads, d)  # [Q | K | V], heads inside each
    return blocks[0], blocks[1], blocks[2]  # each (h, d_k, d)


VIEW = "view(3, num_heads, d // num_heads, d)"

# fmt: off
EXERCISE = Exercise(
    "5.2", qkv_from_torch, difficulty=2, minutes=4, **COMMON,
    hints=(
        "The rows are outputs. The first d make queries, the next d keys, the last d values: chunk(3).",
        "Inside each, heads lie one after the other, d_k rows each: view(num_heads, d_k, d).",
    ),
    mistakes=(
        Mistake("interleaved-layout", "The rows were read head by head, [q₀ k₀ v₀ q₁ …]. In this layout all queries "
            "come first.", (VIEW, "view(num_heads, 3, d // num_heads, d).transpose(0, 1)")),
        Mistake("every-third-row", "Every third row was taken for Q. Queries are one block of d rows.",
            (VIEW, "view(num_heads, d // num_heads, 3, d).permute(2, 0, 1, 3)")),
        Mistake("heads-innermost", "Head 0 takes every h-th row of Q; its rows lie together, d_k in a row.",
            (VIEW, "view(3, d // num_heads, num_heads, d).transpose(1, 2)")),
        *order_and_form("blocks[0]", "blocks[1]", "blocks[2]"),
    ),
    right=(
        lambda w, h: tuple(part.unflatten(0, (h, -1)) for part in w.chunk(3)),
        lambda w, h: [torch.stack(part.chunk(h)) for part in w.split(w.size(1))],
    ),
)
