"""Exercise 7.1: the mask that hides padding."""

import torch
import torch.nn.functional as F

import mha.attention
from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.probes import wrong_cells


def padding_mask(source):
    real = source != 0
    return real[:, None, None, :]  # (B, S) → (B, 1, 1, S): a row of keys for each text


def _inputs():
    def rows(*texts):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)

    return {
        "3 texts of 5, 2 and 4 symbols": (rows([3, 1, 4, 1, 5], [9, 2], [6, 5, 1, 8]),),
        "2 texts of 2 and 3": (rows([7, 7], [1, 2, 3]),),
        "3 texts of 1, 3 and 3, padded to 6": (F.pad(rows([5], [1, 1, 1], [2, 3, 4]), (0, 3)),),
    }


# fmt: off
EXERCISE = Exercise(
    "7.1", padding_mask, difficulty=1, minutes=4,
    inputs=_inputs, cell="{:g}".format, legend=" (1 = True)",
    probes=(wrong_cells(
        ("hidden-is-seen", "is True and must be False: padding is seen"),
        ("real-is-hidden", "is False and must be True: a real symbol is hidden"),
    ),),
    hints=(
        "Where is a symbol real? One comparison of the whole table says so, (B, S).",
        "source != 0 is (B, S). Indexed with [:, None, None, :] it gets an axis of size 1 for heads, one for queries.",
    ),
    mistakes=(
        Mistake("on-the-query-axis", "The mask is (B, 1, S, 1): it hides rows, the padded queries; real tokens still "
            "listen to padding. Keys are the last axis.", ("None, None, :", "None, :, None")),
        Mistake("on-both-axes", "Padded queries were hidden as well: their rows see nothing, which softmax makes NaN. "
            "Hide keys alone.", ("real[:, None, None, :]", "real[:, None, :, None] * real[:, None, None, :]")),
        Mistake("no-axes-for-heads-and-queries", "The mask is (B, S): against weights (B, h, T, S) it would be read as "
            "one row for each query. Wanted (B, 1, 1, S).", ("[:, None, None, :]", "")),
        Mistake("one-axis-missing", "The mask is (B, 1, S): against (B, h, T, S) its first axis would be read as "
            "heads. Wanted (B, 1, 1, S).", ("None, None", "None")),
        Mistake("texts-read-as-queries", "The mask is (1, 1, B, S): the texts stand where queries belong. Wanted (B, "
            "1, 1, S).", (":, None, None, :", "None, None")),
        Mistake("inverted", "True is padding; here True = may attend.", ("    return", "    real = ~real\n    return")),
        Mistake("first-text-for-all", "Every text got the first one's mask.",
            ("source != 0", "(source[:1] != 0).expand_as(source)")),
        Mistake("longest-for-all", "Every text got the longest one's length, so that padding of the shorter ones is "
            "seen.", ("source != 0", "(source != 0).any(dim=0).expand_as(source)")),
        Mistake("shortest-for-all", "Every text got the shortest one's length, so that real tokens of the others are "
            "hidden.", ("source != 0", "(source != 0).all(dim=0).expand_as(source)")),
        Mistake("one-too-few", "The last real symbol of each text is hidden as well.",
            ("source != 0", "F.pad(source, (0, 1))[:, 1:] != 0")),
        Mistake("one-too-many", "One symbol of padding is seen after each text.",
            ("source != 0", "F.pad(source, (1, 0), value=1)[:, :-1] != 0")),
        Mistake("another-symbol", "Symbol 1 was hidden; padding is symbol 0.", ("!= 0", "!= 1")),
        Mistake("not-bool", "Right numbers, but no booleans. As floats F.scaled_dot_product_attention would add them "
            "to the scores, whole numbers it refuses. Call .bool().", ("  #", ".float()  #")),
    ),
    right=(
        lambda source: source.bool().unsqueeze(1).unsqueeze(2),
        lambda source: mha.attention.padding_mask((source > 0).sum(1), source.size(1)),
        lambda source: (torch.arange(source.size(1)) < source.ne(0).sum(1, keepdim=True)).view(len(source), 1, 1, -1),
    ),
    fresh=lambda: [(torch.tensor([[1, 2, 3, 4, 0], [5, 0, 0, 0, 0]]),), (torch.tensor([[2, 2, 0]] * 4),)],
)
