"""Exercise 10.3: queries or keys turned by their positions."""

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor
from mha.production import rotate as suggested


def rotate(x, positions, base=10_000.0):
    d_k = x.size(-1)
    rates = base ** (-torch.arange(0, d_k, 2, device=x.device) / d_k)  # (d_k / 2,), from place to place
    angles = positions[:, None] * rates  # (T, d_k / 2)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]  # neighbours are a pair: each (…, T, d_k / 2)
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(-2)


def one_point(attempt):
    """What an answer does with one pair at place 1, and then how fast it turns the second of two pairs."""
    for point in ((1.0, 0.0), (0.0, 1.0)):
        found, wanted = (f(torch.tensor([point]), torch.tensor([1])) for f in (attempt.call, suggested))
        if not isinstance(found, torch.Tensor) or found.shape != (1, 2):
            return None
        if not torch.allclose(found, wanted, atol=1e-3):
            (a, b), (c, d) = found[0].tolist(), wanted[0].tolist()
            says = f"d_k = 2, place 1, so an angle of 1 radian: the point {point} becomes ({a:.2f}, {b:.2f})"
            return "a-point-goes-astray", f"{says}, wanted ({c:.2f}, {d:.2f})."
    for place in (0, 1, 2):  # the second pair of two, at base 100: 0.1 radian a place
        x, at = torch.tensor([[0.0, 0.0, 1.0, 0.0]]), torch.tensor([place])
        found, wanted = attempt.call(x, at, 100.0), suggested(x, at, 100.0)
        if isinstance(found, torch.Tensor) and not torch.allclose(found, wanted, atol=1e-4):
            rows = (", ".join(f"{value:.2f}" for value in row[0].tolist()) for row in (found, wanted))
            says = (
                "One pair alone is right. With two, at base 100 and place {}, (0, 0, 1, 0) becomes ({}), wanted ({})."
            )
            return "the-second-pair-goes-astray", says.format(place, *rows)
    return None


PAIRS, TOGETHER = "x[..., 0::2], x[..., 1::2]", "torch.stack(turned, dim=-1).flatten(-2)"
TURNED = "first * cos - second * sin, first * sin + second * cos"

# fmt: off
EXERCISE = Exercise(
    "10.3", rotate, difficulty=3, minutes=8, probes=(one_point,),
    inputs=lambda: {
        "x (5, 6), places 0 to 4": (random_tensor(1, 5, 6), torch.arange(5)),
        "x (2, 3, 4, 8), places 7 to 10": (random_tensor(2, 2, 3, 4, 8), torch.arange(7, 11)),
        "x (3, 4), places 2, 0, 30, base 100": (random_tensor(3, 3, 4), torch.tensor([2, 0, 30]), 100.0),
        "x (1, 2), place 3": (random_tensor(4, 1, 2), torch.tensor([3])),
        "x (2, 1, 2, 2), places 0 and 5": (random_tensor(5, 2, 1, 2, 2), torch.tensor([0, 5])),
    },
    hints=(
        "One angle for each place and each pair: positions (T, 1) times rates (d_k / 2,) is (T, d_k / 2). Rates fall "
        "from 1: base ** (-2i / d_k).",
        "A point (a, b) turned by an angle is (a cos − b sin, a sin + b cos). Here a = x[..., 0::2], b = x[..., 1::2].",
        "Both halves of the result, each (…, T, d_k / 2), must lie side by side again, pair by pair: stack on a new "
        "last axis, then flatten the last two.",
    ),
    mistakes=(
        Mistake("halves-are-pairs", "You pair feature i with feature i + d_k/2. Many models do so (Llama's published "
            "code pairs neighbours, its copy in transformers halves), but weights made for one are wrong in the other; "
            "here neighbours are a pair.", (PAIRS, "x.chunk(2, dim=-1)"), (TOGETHER, "torch.cat(turned, dim=-1)")),
        Mistake("halves-cut-neighbours-put", "Pairs were cut as halves and put together as neighbours.",
            (PAIRS, "x.chunk(2, dim=-1)")),
        Mistake("not-put-back", "The turned pairs are right, but not back in their places: all first ones, then all "
            "second ones. Stack them on a new last axis, then flatten.", (TOGETHER, "torch.cat(turned, dim=-1)")),
        Mistake("turned-backwards", "Turned the other way round. Scores are right as long as queries and keys both "
            "are, but other code turns the other way: (a cos − b sin, a sin + b cos).",
            (TURNED, "first * cos + second * sin, second * cos - first * sin")),
        Mistake("mirrored", "A sign is wrong: this is no rotation. (a cos − b sin, a sin + b cos).",
            (TURNED, "first * cos - second * sin, first * sin - second * cos")),
        Mistake("stretched", "Both signs are plus, so lengths change: (a cos − b sin, a sin + b cos).",
            (TURNED, "first * cos + second * sin, first * sin + second * cos")),
        Mistake("cos-alone", "Each feature was multiplied by its cosine alone; the other feature of the pair must come "
            "in, with the sine.", (TURNED, "first * cos, second * cos")),
        Mistake("overwritten", "The second feature was turned with the first one already changed. Compute both from "
            "the old pair.", (TURNED, "first * cos - second * sin, (first * cos - second * sin) * sin + second * cos")),
        Mistake("one-rate-for-all", "Every pair turns at the same rate; it should fall from pair to pair, base ** (-2i "
            "/ d_k).", ("base ** (-torch.arange(0, d_k, 2, device=x.device) / d_k)", "torch.ones(d_k // 2)")),
        Mistake("rates-rise", "The rates rise from pair to pair: the exponent lacks its minus.",
            ("(-torch.arange", "(torch.arange")),
        Mistake("rates-fall-too-slowly", "The exponent is −i / d_k; wanted −2i / d_k, for pair i.",
            ("torch.arange(0, d_k, 2, device=x.device)", "torch.arange(d_k // 2)")),
        Mistake("base-ignored", "The base is always 10,000: the argument changes nothing.", ("base **", "10_000.0 **")),
        Mistake("places-ignored", "You turn by 0, 1, 2, … whatever `positions` says. With a cache the first new token "
            "has a later place.", ("positions[:, None]", "torch.arange(x.size(-2))[:, None]")),
        Mistake("places-from-one", "Every place is one too high: the first is 0. Scores would not change, but what "
            "others have kept in a cache would not fit.", ("positions[:, None]", "(positions[:, None] + 1)")),
        Mistake("degrees", "The angles were taken as degrees; torch.cos wants radians, as they are.",
            ("positions[:, None]", "torch.pi / 180 * positions[:, None]")),
        Mistake("added", "The waves were added to x, as the paper of 2017 does with embeddings; here x is turned.",
            (TURNED, "first + sin, second + cos")),
        Mistake("nothing-turned", "x came back as it was.", (TOGETHER, "x")),
    ),
    right=(suggested,),
    fresh=lambda: [
        (random_tensor(9, 2, 6, 10), torch.arange(100, 106)),
        (random_tensor(8, 1, 2, 2), torch.tensor([1, 1])),
        (random_tensor(7, 1, 4), torch.tensor([2]), 50.0),
    ],
)
