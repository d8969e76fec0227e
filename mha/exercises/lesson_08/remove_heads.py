"""Exercise 8.2: heads cut out of a layer's matrices."""

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def remove_heads(w_qkv, w_out, b_out, heads, d_k):
    keep = torch.ones(w_out.size(1) // d_k, dtype=torch.bool, device=w_out.device)  # a yes or no for each head
    keep[heads] = False
    keep = keep.repeat_interleave(d_k)  # for each of the h·d_k numbers that the heads say
    return w_qkv[keep.repeat(3)], w_out[:, keep], b_out


def _draw(seed, d, h, heads, d_k):
    """Matrices of a layer that still has h heads of d_k numbers."""
    return (
        random_tensor(seed, 3 * h * d_k, d),
        random_tensor(seed + 1, d, h * d_k),
        random_tensor(seed + 2, d),
        heads,
        d_k,
    )


# fmt: off
EXERCISE = Exercise(
    "8.2", remove_heads, difficulty=2, minutes=8, parts=("w_qkv", "w_out", "b_out"),
    inputs=lambda: {
        "4 heads of 2, heads [1] off": _draw(1, 8, 4, [1], 2),
        "4 heads of 3, heads [0, 2] off": _draw(4, 12, 4, [0, 2], 3),
        "3 heads left of 6, of 2, the first of them off": _draw(7, 12, 3, [0], 2),
    },
    hints=(
        "w_qkv holds three blocks of rows, [Q | K | V], and in each the heads stand one after the other, d_k rows "
        "each. Which rows belong to head i?",
        "What the heads say goes into w_out by its columns: those of head i meet what head i says.",
        "Decide once for each head, keep or not; repeat_interleave(d_k) makes that a decision for each number, and "
        ".repeat(3) for each row of w_qkv. b_out belongs to no head.",
    ),
    mistakes=(
        Mistake("one-block-of-three", "Rows went from the queries' block alone: keys and values still have the head, "
            "and a cut into three then goes through the wrong rows. Take them from all three.",
            ("w_qkv[keep.repeat(3)]", "torch.cat([w_qkv[: len(keep)][keep], w_qkv[len(keep) :]])")),
        Mistake("values-kept", "Rows went from queries and keys, not from the values: take them from all three blocks.",
            ("w_qkv[keep.repeat(3)]",
             "torch.cat([w_qkv[: 2 * len(keep)][keep.repeat(2)], w_qkv[2 * len(keep) :]])")),
        Mistake("first-rows-of-qkv", "3·d_k rows in one piece were cut: that is Q of three heads, if the layout were "
            "one head after the other. Here it is [Q | K | V], and heads inside each.",
            ("w_qkv[keep.repeat(3)]", "w_qkv[keep.unflatten(0, (-1, d_k)).repeat_interleave(3, 1).flatten()]")),
        Mistake("proj-cut-on-rows", "w_out lost rows, which are the features that come *out*. What a head says goes in "
            "by the columns: w_out[:, …].",
            ("w_out[:, keep]", "w_out[torch.cat([keep, keep.new_ones(len(w_out) - len(keep))])]")),
        Mistake("ids-shifted", "The heads went one after the other, and after the first removal the rest had moved up: "
            "the second number then names another head. Keep the numbers of the whole layer.",
            ("keep[heads] = False", "keep[[head + place for place, head in enumerate(sorted(heads))]] = False")),
        Mistake("scores-zeroed", "The queries' rows were set to zero: these heads then look at all alike, and still "
            "speak. To be off, what they say must go.",
            ("return w_qkv[keep.repeat(3)], w_out[:, keep], b_out",
             "return torch.where(torch.cat([keep, ~keep | keep, ~keep | keep])[:, None], w_qkv, 0), w_out, b_out")),
        Mistake("set-to-zero", "The numbers were set to zero and are still there: right results, and nothing is "
            "smaller or quicker. Leave them out.",
            ("return w_qkv[keep.repeat(3)], w_out[:, keep], b_out",
             "return w_qkv * keep.repeat(3)[:, None], w_out * keep, b_out")),
        Mistake("columns-set-to-zero", "The columns of w_out are zero and still there: right results, and nothing is "
            "smaller. Leave them out, and the rows of w_qkv.",
            ("return w_qkv[keep.repeat(3)], w_out[:, keep], b_out", "return w_qkv, w_out * keep, b_out")),
        Mistake("bias-removed-as-well", "The bias was cut, too. It is added once to the whole output and belongs to no "
            "head.", ("w_out[:, keep], b_out",
             "w_out[:, keep], b_out[torch.cat([keep, keep.new_ones(len(b_out) - len(keep))])]")),
        Mistake("bias-dropped", "The bias became zero. It belongs to no head: with all heads off it is what is left.",
            ("w_out[:, keep], b_out", "w_out[:, keep], 0 * b_out")),
        Mistake("kept-instead-of-removed", "These heads were kept, and all others removed.",
            ("keep[heads] = False", "keep[heads] = False; keep = ~keep")),
        Mistake("every-h-th-number", "Numbers h apart were cut, as if head 0 had numbers 0, h, 2h, …: head i has "
            "d_k numbers in a row.", ("keep.repeat_interleave(d_k)", "keep.repeat(d_k)")),
        Mistake("only-the-first", "Only the first of these heads went.",
            ("keep[heads] = False", "keep[heads[0]] = False")),
        Mistake("qkv-left", "w_out lost its columns, and w_qkv still makes what nobody reads.",
            ("w_qkv[keep.repeat(3)]", "w_qkv")),
        Mistake("proj-left", "w_qkv lost its rows, and w_out still waits for what nobody says.",
            ("w_out[:, keep], b_out", "w_out, b_out")),
    ),
    right=(
        lambda w, o, b, heads, d_k: (
            torch.cat([torch.cat([rows for i, rows in enumerate(block.split(d_k)) if i not in heads])
                       for block in w.chunk(3)]),
            torch.cat([columns for i, columns in enumerate(o.split(d_k, dim=1)) if i not in heads], dim=1), b,
        ),
        lambda w, o, b, heads, d_k: (
            w.view(3, -1, d_k, w.size(1))[:, [i for i in range(o.size(1) // d_k) if i not in heads]].flatten(0, 2),
            o.view(len(o), -1, d_k)[:, [i for i in range(o.size(1) // d_k) if i not in heads]].flatten(1), b.clone(),
        ),
    ),
    fresh=lambda: [_draw(11, 6, 3, [2, 0], 2), _draw(14, 10, 2, [1], 5), _draw(17, 12, 4, [0, 1, 3], 2)],
)
