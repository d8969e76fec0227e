"""Exercise 8.1: how much each head matters, by gradient."""

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def head_importance(said, slopes):
    per_text = (said * slopes).sum(dim=(2, 3))  # the slope of each text's loss along each head's gate: (B, h)
    scores = per_text.abs().mean(dim=0)  # E_x |∂L(x) / ∂ξ_h|: (h,)
    return scores / scores.norm()


def _draw(B, h, T, d_k):
    return random_tensor(B, B, h, T, d_k) * torch.linspace(1, 3, h)[:, None, None], random_tensor(B + 9, B, h, T, d_k)


# fmt: off
EXERCISE = Exercise(
    "8.1", head_importance, difficulty=2, minutes=7, cell="{:.3f}".format,
    inputs=lambda: {
        f"{B} texts, {h} heads, {T} tokens, d_k = {d_k}": _draw(B, h, T, d_k)
        for B, h, T, d_k in ((4, 3, 5, 2), (3, 4, 2, 6), (6, 2, 4, 3))
    },
    hints=(
        "A gate ξ that multiplies what a head says: by the chain rule ∂L/∂ξ is the sum of said · slope over all that "
        "the gate multiplies. In one text and one head, which axes are these?",
        "Per text and head one number, (B, h). It may be positive or negative; when is the sign to be dropped, before "
        "the mean over texts or after?",
        "Last, divide the h scores by the length of their vector: scores.norm().",
    ),
    mistakes=(
        Mistake("absolute-value-after-the-mean", "The sign was dropped after the mean: texts in which a head helps and "
            "texts in which it harms cancel, and a head that matters in all of them looks idle. First abs, then mean.",
            (".abs().mean(dim=0)", ".mean(dim=0).abs()")),
        Mistake("absolute-value-of-each-token", "The sign was dropped token by token. (The paper's own code does so, "
            "its formula does not.) A text has one loss and a head one gate: first sum over tokens, then abs.",
            ("(said * slopes).sum(dim=(2, 3))", "(said * slopes).sum(dim=3).abs().sum(dim=2)")),
        Mistake("absolute-value-of-each-number", "The sign was dropped number by number: first the sum over tokens and "
            "features, then abs.", ("(said * slopes).sum(dim=(2, 3))", "(said * slopes).abs().sum(dim=(2, 3))")),
        Mistake("sign-kept", "Without abs: a head that helps in one text and harms in another looks idle.",
            (".abs().mean(dim=0)", ".mean(dim=0)")),
        Mistake("squared", "Slopes were squared, which counts the few large ones most; wanted absolute values.",
            (".abs().mean(dim=0)", ".square().mean(dim=0)")),
        Mistake("largest-text", "This is the largest slope of any text; wanted the mean over texts.",
            (".abs().mean(dim=0)", ".abs().amax(dim=0)")),
        Mistake("slopes-alone", "This asks how steep the loss is, not how much the head says: multiply by what it "
            "said.", ("(said * slopes)", "slopes")),
        Mistake("said-alone", "This asks how much a head says, not whether the loss minds: multiply by the slopes.",
            ("(said * slopes)", "said")),
        Mistake("heads-and-tokens-swapped", "You have one score for each token. Axis 1 holds the heads.",
            (".sum(dim=(2, 3))", ".sum(dim=(1, 3))")),
        Mistake("not-normalised", "The scores are right and not yet divided by their length, so layers cannot be "
            "compared.", ("scores / scores.norm()", "scores")),
        Mistake("sum-is-one", "The scores were divided by their sum; wanted by their length, scores.norm().",
            ("scores.norm()", "scores.sum()")),
        Mistake("largest-is-one", "The scores were divided by the largest; wanted by their length, scores.norm().",
            ("scores.norm()", "scores.max()")),
        Mistake("softmax", "Softmax makes other ratios of the scores; wanted a division by their length.",
            ("scores / scores.norm()", "scores.softmax(dim=0)")),
    ),
    right=(
        lambda said, slopes: torch.nn.functional.normalize((said * slopes).flatten(2).sum(-1).abs().sum(0), dim=0),
        lambda said, slopes: (s := torch.einsum("bhtk,bhtk->bh", said, slopes).abs().mean(0)) / (s @ s) ** 0.5,
        lambda said, slopes: (s := sum((a * b).sum((1, 2)).abs() for a, b in zip(said, slopes))) / s.norm(),  # noqa: B905
    ),
    fresh=lambda: [_draw(2, 5, 3, 4), _draw(5, 3, 3, 3), _draw(7, 8, 2, 1)],
)
