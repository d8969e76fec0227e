"""Exercise 7.5: symbol after symbol, always the likeliest."""

import torch

from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.lesson_07.decoder_inputs import wrong_symbol


def greedy(model, source, start, steps):
    symbols = torch.full((len(source), 1), start, device=source.device)
    for _ in range(steps):
        scores, _ = model(source, symbols)  # (B, t, symbols)
        symbols = torch.cat([symbols, scores[:, -1:].argmax(dim=-1)], dim=1)  # the next one after all so far
    return symbols[:, 1:]  # without start


class _Rule(torch.nn.Module):
    """A model with a rule: scores of the next symbol depend on the text, on its place, and on all symbols before.

    A module with a parameter, as the real one is: .eval(), .parameters() and need_weights do what they do there.
    """

    def __init__(self, symbols):
        super().__init__()
        self.symbols, self.scale = symbols, torch.nn.Parameter(torch.ones(1))

    def forward(self, source, target, need_weights=True):
        so_far = (target * torch.arange(2, target.size(1) + 2)).cumsum(dim=1)  # (B, T): nothing after a place
        best = (source.sum(dim=1, keepdim=True) + so_far) % (self.symbols - 1)
        distance = (torch.arange(self.symbols) - best[..., None]).abs()
        scores = -self.scale * (distance + 0.01 * torch.arange(self.symbols))  # (B, T, symbols)
        return scores, {} if need_weights else None


# fmt: off
EXERCISE = Exercise(
    "7.5", greedy, difficulty=2, minutes=8,
    probes=(wrong_symbol,), cell="{:g}".format,
    inputs=lambda: {
        "2 texts, 3 steps": (_Rule(8), torch.tensor([[1, 2, 3], [5, 0, 5]]), 3, 3),
        "3 texts, 5 steps": (_Rule(11), torch.tensor([[3, 1], [4, 4], [7, 5]]), 10, 5),
        "4 texts, 1 step": (_Rule(6), torch.tensor([[1], [2], [4], [0]]), 5, 1),
    },
    hints=(
        "Begin with a column of start, (B, 1). Each turn of a loop asks the model and adds one column.",
        "The model returns two things. Its scores are for every place, (B, t, symbols). Which place says what comes "
        "next? Take its largest score.",
        "In the end the column of start goes: it was never written.",
    ),
    mistakes=(
        Mistake("own-output-never-seen", "What is read never depends on what was written: either the model is given "
            "start alone, or you read the scores of place 0, which has only start before it. Give it all so far, and "
            "read the last place.", ("[:, -1:]", "[:, :1]")),
        Mistake("only-the-newest-given", "The model is given only the newest symbol: without a cache it needs all of "
            "them, from start on.", ("source, symbols", "source, symbols[:, -1:]")),
        Mistake("start-dropped", "After the first step start is no longer given; it stays in front.",
            ("source, symbols", "source, symbols[:, 1:] if symbols.size(1) > 1 else symbols")),
        Mistake("smallest-score", "The smallest score was taken; wanted the largest.", ("argmax", "argmin")),
        Mistake("text-0-for-all", "Every text got the symbol of text 0.",
            (".argmax(dim=-1)", "[:1].argmax(dim=-1).expand(len(source), 1)")),
        Mistake("largest-over-texts", "argmax ran over the texts; for each text the largest over the symbols is "
            "wanted, axis -1.", ("argmax(dim=-1)", "argmax(dim=0).T[: len(source)]")),
        Mistake("largest-over-places", "argmax ran over axis 1, the places; take the last place, and there the largest "
            "over the symbols.", ("[:, -1:].argmax(dim=-1)", ".argmax(dim=1)")),
        Mistake("wrong-end-cut", "The last symbol was cut off and start came back; cut off start, at the front: "
            "symbols[:, 1:].", ("symbols[:, 1:]", "symbols[:, :-1]")),
        Mistake("start-ignored", "Decoding begins with symbol 0, whatever start is.", ("1), start", "1), 0")),
        Mistake("start-hard-coded", "Decoding begins with symbol 11, whatever start is: that is start for the dates "
            "alone. Use what is handed over.", ("1), start", "1), 11")),
        Mistake("new-symbol-in-front", "Each new symbol was put in front; it belongs behind all others, and start "
            "stays first.", ("symbols, scores[:, -1:].argmax(dim=-1)", "scores[:, -1:].argmax(dim=-1), symbols")),
        Mistake("source-and-symbols-swapped", "The model was called with (symbols, source); it takes (source, "
            "symbols).", ("source, symbols", "symbols, source")),
        Mistake("argmax-over-everything", "argmax without an axis counts through all texts at once and gives one "
            "number; wanted one for each text, axis -1.", ("argmax(dim=-1)", "argmax().expand(len(source), 1)")),
        Mistake("second-likeliest", "The second largest score was taken; wanted the largest.",
            ("argmax(dim=-1)", "topk(2).indices[..., 1]")),
        Mistake("score-for-symbol", "The largest score itself was written down; wanted which symbol has it: argmax, "
            "not max.", ("argmax(dim=-1)", "max(dim=-1).values")),
        Mistake("one-step-too-many", "There is one symbol too many.", ("range(steps)", "range(steps + 1)")),
        Mistake("one-step-too-few", "There is one symbol too few.", ("range(steps)", "range(steps - 1)")),
        Mistake("start-returned", "Start came back; it was given, not written.", ("symbols[:, 1:]", "symbols")),
        Mistake("last-symbol-only", "Only the last symbol came back; wanted all steps of them.",
            ("symbols[:, 1:]", "symbols[:, -1:]")),
        Mistake("reversed", "The symbols come in reverse order.", ("symbols[:, 1:]", "symbols[:, 1:].flip(1)")),
    ),
    fresh=lambda: [
        (_Rule(11), torch.tensor([[5, 5, 2], [1, 9, 3], [4, 4, 4], [0, 1, 0]]), 10, 6),
        (_Rule(8), torch.tensor([[6], [3], [2]]), 7, 3),
    ],
)
