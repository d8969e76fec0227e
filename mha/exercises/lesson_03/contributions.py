"""Exercise 3.5: what each head writes into the output."""

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def contributions(context, w_out):
    h, d_k = context.size(1), context.size(-1)
    blocks = w_out.T.reshape(h, d_k, -1)  # (h, d_k, d): head i meets rows i · d_k to (i + 1) · d_k - 1 of W_O
    return context @ blocks  # (B, h, T, d)


def _draw(seed, B, h, T, d_k):
    return random_tensor(seed, B, h, T, d_k), random_tensor(seed + 1, h * d_k, h * d_k) / d_k**0.5


def _output(context, w_out):
    return context.transpose(1, 2).flatten(-2) @ w_out.T


def sum_of_heads(attempt):
    """Whether what the heads write adds up to the output of the layer."""
    for (mine, want, description), case in zip(attempt.triples(), attempt.cases, strict=True):
        if mine.shape != want.shape:
            return None
        if not torch.allclose(mine.sum(dim=1), _output(*case.arguments), atol=1e-4):
            says = "Summed over the heads, your result is not the output of the layer"
            return "sum-is-not-the-output", f"{says} on {description}: does each head meet its own block of W_O?"
    says = "Summed over the heads, your result is the output; but it is shared out wrongly among the heads."
    return "wrong-shares", f"{says} A head writes its own context times its own block of W_O."


BLOCKS, PRODUCT = "w_out.T.reshape(h, d_k, -1)", "context @ blocks"

# fmt: off
EXERCISE = Exercise(
    "3.5", contributions, difficulty=2, minutes=4, probes=(sum_of_heads,),
    inputs=lambda: {
        f"context {shape}": _draw(10 * seed, *shape)
        for seed, shape in enumerate(((2, 3, 5, 4), (3, 4, 6, 2), (2, 2, 3, 4), (1, 1, 4, 6)))
    },
    hints=(
        "Which numbers of the merged row come from head 0? Which rows of W_O do they meet in the product?",
        "nn.Linear stores W_O turned, so head i has the *columns* i · d_k to (i + 1) · d_k of w_out: "
        "w_out.split(d_k, dim=1) cuts them. Each block is (d, d_k), and a context (T, d_k) meets it transposed.",
        "One product does all heads: w_out.T.reshape(h, d_k, -1) is (h, d_k, d), and @ works head by head.",
    ),
    mistakes=(
        Mistake("w-out-not-transposed", "The blocks were cut from the rows of w_out. nn.Linear stores (out, in): what "
            "head i meets are columns of w_out, so rows of w_out.T.", ("w_out.T", "w_out")),
        Mistake("blocks-reshaped", "The blocks (d, d_k) were reshaped to (d_k, d), which shuffles their numbers. Turn "
            "them: .mT.", (BLOCKS, "torch.stack(w_out.split(d_k, dim=1)).reshape(h, d_k, -1)")),
        Mistake("every-h-th-row", "Head 0 met rows 0, h, 2h, … of W_O. Merged, its d_k numbers lie side by side: it "
            "meets the first d_k rows.", (BLOCKS, "w_out.T.reshape(d_k, h, -1).transpose(0, 1)")),
        Mistake("first-block-for-all", "Every head met the first block of W_O. Head i has block i of its own.",
            (BLOCKS, "w_out.T.reshape(h, d_k, -1)[:1]")),
        Mistake("blocks-in-reverse", "The blocks came in reverse order: head 0 has the first d_k rows of W_O.",
            (BLOCKS, "w_out.T.reshape(h, d_k, -1).flip(0)")),
        Mistake("w-out-left-out", "Each head's context was put at its own place between zeros. That is what W_O gets, "
            "not what it makes: multiply by the head's block.", (BLOCKS, "torch.eye(h * d_k).reshape(h, d_k, -1)")),
        Mistake("heads-summed", "The heads are summed up already: that is the output (B, T, d). Wanted each head's own "
            "part, (B, h, T, d).", (PRODUCT, "(context @ blocks).sum(dim=1)")),
        Mistake("whole-output-for-each", "Each head was given the whole output. Wanted its own part: all parts add up "
            "to the output.", (PRODUCT, "(context @ blocks).sum(dim=1, keepdim=True).expand(-1, h, -1, -1)")),
        Mistake("output-shared-evenly", "The output was divided by h, the same part for each head. The heads write "
            "different things: each its own context times its own block.",
            (PRODUCT, "(context @ blocks).mean(dim=1, keepdim=True).expand(-1, h, -1, -1)")),
        Mistake("what-remains", "That is what remains of the output without this head. Wanted what is missing then.",
            (PRODUCT, "(context @ blocks).sum(dim=1, keepdim=True) - context @ blocks")),
        Mistake("tokens-before-heads", "The numbers are right, but the axes are (B, T, h, d); wanted (B, h, T, d).",
            (PRODUCT, "(context @ blocks).transpose(1, 2)")),
        Mistake("list-of-heads", "You return a list of heads, each right; wanted one tensor, torch.stack(heads, "
            "dim=1).", (PRODUCT, "[*(context @ blocks).unbind(1)]")),
    ),
    right=(
        lambda c, w: torch.stack([c[:, i] @ b.T for i, b in enumerate(w.split(c.size(-1), dim=1))], dim=1),
        lambda c, w: torch.einsum("bhtk,dhk->bhtd", c, w.unflatten(1, c.shape[1::2])),
    ),
    fresh=lambda: [_draw(seed, *shape) for seed, shape in ((1, (2, 5, 7, 3)), (3, (3, 2, 2, 2)), (5, (1, 1, 1, 3)))],
)
