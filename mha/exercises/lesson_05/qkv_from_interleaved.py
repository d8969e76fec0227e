"""Exercise 5.3: weights that lie head by head, [q₀ k₀ v₀ q₁ …]."""

import torch

from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.lesson_05._layouts import COMMON, order_and_form


def qkv_from_interleaved(weight, num_heads):
    d = weight.size(1)
    heads = weight.view(num_heads, 3, d // num_heads, d)  # head by head, q, k and v inside each
    return heads[:, 0], heads[:, 1], heads[:, 2]  # each (h, d_k, d)


VIEW = "view(num_heads, 3, d // num_heads, d)"

# fmt: off
EXERCISE = Exercise(
    "5.3", qkv_from_interleaved, difficulty=2, minutes=4, **COMMON,
    hints=(
        "Now the outermost cut is by head: 3·d_k rows for head 0, then as many for head 1.",
        "Inside a head come q, k, v: view(num_heads, 3, d_k, d). Which axis do you then choose from?",
    ),
    mistakes=(
        Mistake("block-layout", "The rows were read as [Q | K | V]. In this layout each head brings its own q, k and "
            "v.", (VIEW, "view(3, num_heads, d // num_heads, d).transpose(0, 1)")),
        Mistake("every-third-row", "Every third row was taken for q. Inside a head, q is d_k rows together.",
            (VIEW, "view(num_heads, d // num_heads, 3, d).transpose(1, 2)")),
        Mistake("heads-innermost", "Read as blocks of Q, K and V with the heads inside alternating; wanted head by "
            "head.", (VIEW, "view(3, d // num_heads, num_heads, d).permute(2, 0, 1, 3)")),
        *order_and_form("heads[:, 0]", "heads[:, 1]", "heads[:, 2]"),
    ),
    right=(
        lambda w, h: w.view(h, 3, -1, w.size(1)).transpose(0, 1),
        lambda w, h: tuple(torch.stack([head.chunk(3)[i] for head in w.chunk(h)]) for i in range(3)),
    ),
)
