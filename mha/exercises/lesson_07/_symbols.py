"""What exercises share whose answers are rows of symbols."""

import torch


def wrong_symbol(attempt):
    """The first wrong one."""
    for mine, want, case in attempt.triples():
        if not torch.equal(mine.double(), want.double()):
            text, place = (mine != want).nonzero()[0].tolist()
            says = f"symbol {place} of text {text} is {mine[text, place].item():g}, wanted {want[text, place].item():g}"
            return "wrong-symbol", f"On {case}, {says}."
    return None
