"""Exercises of lesson 04: counting the layer, and the share of the feed-forward block."""

import math

import torch

from mha.exercises.exercise import Exercise, Mistake

# A formula is found from a few values.
TERMS = {
    d_name + h_name: (d_power, h_power)
    for d_power, d_name in ((3, "d³"), (2, "d²"), (1, "d"), (0, "1"))
    for h_power, h_name in ((2, "·h²"), (1, "·h"), (0, ""), (-1, "/h"), (-2, "/h²"))
}


def formula(attempt):
    """An answer (d, h, bias) as a sum of powers of d and h, if it is one with few and simple factors."""
    sizes = [(d, h) for d in (12, 24, 36, 48, 60, 120) for h in (1, 2, 3, 4, 6, 12)]
    table = torch.tensor([[d**a * h**b for a, b in TERMS.values()] for d, h in sizes], dtype=torch.float64)
    weight = table.square().mean(dim=0).sqrt()  # so that large and small terms count alike
    said = []
    for bias in (False, True):
        counts = [attempt.call(d, h, bias) for d, h in sizes]
        if not all(isinstance(count, int | float) and math.isfinite(count) for count in counts):
            return None
        counts = torch.tensor(counts, dtype=torch.float64)[:, None]
        factors = (torch.linalg.lstsq(table / weight, counts).solution[:, 0] / weight * 12).round() / 12
        if not torch.allclose(table @ factors, counts[:, 0], rtol=1e-9, atol=1e-6):
            return "no-formula", "Your counts are no sum of powers of d and h; wanted 4·d², and 4·d more with biases."
        found = {term: factor for term, factor in zip(TERMS, factors.tolist(), strict=True) if factor}
        said.append(_sum(found) or "0")
    says = f"You count {said[0]} without biases (wanted 4·d²) and {said[1]} with them (wanted 4·d² + 4·d)."
    return "another-formula", says


def _sum(terms):
    """{term: factor} as it would be written."""
    words = [f"{abs(factor):g}·{term}".removesuffix("·1").replace("·1·", "·") for term, factor in terms.items()]
    signs = ["+" if factor > 0 else "−" for factor in terms.values()]
    return " ".join(f"{sign} {word}" for sign, word in zip(signs, words, strict=True)).removeprefix("+ ")


def share(attempt):
    """An answer (d, expansion) that leaves the range of a share, or moves with what it should not."""
    shares = {d: attempt.call(d, 4) for d in (8, 512)}
    if not all(isinstance(value, int | float) for value in shares.values()):
        return None
    for d, value in shares.items():
        if not 0 <= value <= 1:
            return "not-a-share", f"For d = {d} and expansion 4 it returns {value:,.4g}; a share lies between 0 and 1."
    if all(abs(mine - want) < 6e-3 for mine, want, _ in attempt.triples()):
        return "rounded", "Right, but rounded: return the number as it is."
    if abs(shares[8] - shares[512]) > 1e-6:
        says = f"It depends on d: {shares[8]:.4f} at 8, {shares[512]:.4f} at 512. Every matrix has d², so d cancels."
        return "depends-on-d", says
    odds = []
    for expansion in (1, 2, 4):
        value = attempt.call(8, expansion)
        odds.append(f"{value / (1 - value):.4g}" if isinstance(value, int | float) and value < 1 else "all")
    says = (
        f"At expansion 1, 2, 4 you give the feed-forward block {', '.join(odds)} times attention's; wanted 0.5, 1, 2."
    )
    return "wrong-proportion", says


def count_parameters(d_model, num_heads, bias=False):
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k  # W_Q, W_K, W_V
    output = num_heads * d_k * d_model  # W_O
    biases = 4 * d_model if bias else 0  # three for all heads together, one for the output
    return num_heads * one_head + output + biases


def _count_parameters(d_model, num_heads, bias=False, weights="right", biases="right"):
    """The reference with options."""
    d, h = d_model, num_heads
    d_k = d // h
    count = {
        "heads as wide as the model": 3 * h * d * d + h * d * d,
        "three wide heads, one W_O": 3 * h * d * d + d * d,
        "no W_O": 3 * d * d,
        "one head": 4 * d * d_k,
        "one head and W_O": 3 * d * d_k + d * d,
        "one of three": 2 * d * d,
        "W_O alone": d * d,
        "shared slices": 3 * d_k * d_k + d * d,
        "small W_O": 3 * d * d + d_k * d,
        "squared too late": 4 * d,
        "xor": 4 * d ^ 2,
        "with the feed-forward block": 12 * d * d,
    }.get(weights, 4 * d * d)
    extra = {
        "none": 0,
        "inputs": 3 * d,
        "output": d,
        "one each": 4,
        "per head": 4 * d_k,
        "per head and d": 3 * h * d + d,
    }
    if biases == "always":
        return count + 4 * d
    if biases == "upside down":
        return count + (0 if bias else 4 * d)
    return count + (extra.get(biases, 4 * d) if bias else 0)


def _whole(count):
    """A number, also from a tensor or an array that holds one."""
    return count.item() if hasattr(count, "item") and getattr(count, "size", None) and count.ndim == 0 else count


def _count_inputs():
    sizes = ((12, 3), (512, 8), (10, 2), (64, 1), (32, 32))
    return {f"d = {d}, h = {h}, bias={bias}": (d, h, bias) for d, h in sizes for bias in (False, True)}


COUNT_PARAMETERS = Exercise(
    "4.1",
    count_parameters,
    difficulty=2,
    minutes=4,
    family=_count_parameters,
    inputs=_count_inputs,
    read=_whole,
    probes=(formula,),
    hints=(
        "Four matrices: query, key, value, output. How large is each when all heads are put together?",
        "h heads of d/h columns are d columns again: each matrix has d·d numbers, whatever h.",
        "Each of the four projections has d outputs, and a bias is one number per output.",
    ),
    mistakes=(
        Mistake(
            "heads-as-wide-as-the-model",
            "You count h times 4·d²: each head as wide as the model. A head is d/h wide, so h cancels.",
            change={"weights": "heads as wide as the model"},
        ),
        Mistake(
            "wide-heads-one-output",
            "Query, key and value are counted d wide for each head. A head is d/h wide, so h cancels.",
            change={"weights": "three wide heads, one W_O"},
        ),
        Mistake(
            "no-output-matrix",
            "d² too few: W_O, which mixes the heads, is missing.",
            change={"weights": "no W_O"},
        ),
        Mistake("one-head", "This is one head's share, 4·d·d_k; wanted all h.", change={"weights": "one head"}),
        Mistake(
            "query-key-value-h-times-too-few",
            "3·d·d_k + d²: query, key and value of one head alone, or of h heads that read only their slice of "
            "the embedding. There are h heads, each d × d_k.",
            change={"weights": "one head and W_O"},
        ),
        Mistake(
            "one-of-three",
            "Half of it: query, key and value are three matrices, not one.",
            change={"weights": "one of three"},
        ),
        Mistake(
            "linear-modules-only",
            "Only W_O is counted, as when Q, K and V lie in a bare parameter and not in an nn.Linear.",
            change={"weights": "W_O alone"},
        ),
        Mistake(
            "shared-slices",
            "3·d_k² + d²: one d_k × d_k matrix each for query, key, value, shared by all heads. Each head "
            "projects the whole embedding, d × d_k.",
            change={"weights": "shared slices"},
        ),
        Mistake(
            "output-of-one-head",
            "W_O is counted d_k × d; it reads all heads side by side, so it is d × d.",
            change={"weights": "small W_O"},
        ),
        Mistake(
            "power-is-not-xor",
            "In Python ^ is no power (it is XOR, bit by bit): a square is d**2.",
            change={"weights": "xor"},
        ),
        Mistake(
            "not-squared",
            "4·d instead of 4·d²: a matrix has rows and columns.",
            change={"weights": "squared too late"},
        ),
        Mistake(
            "feed-forward-counted",
            "12·d² is a whole layer, feed-forward block included; wanted attention alone.",
            change={"weights": "with the feed-forward block"},
        ),
        Mistake(
            "biases-ignored",
            "4·d too few with bias=True: the argument changes nothing.",
            change={"biases": "none"},
        ),
        Mistake(
            "output-bias-missing",
            "d too few with bias=True: the output projection has a bias, too.",
            change={"biases": "inputs"},
        ),
        Mistake(
            "only-output-bias",
            "3·d too few with bias=True: query, key and value have biases, too.",
            change={"biases": "output"},
        ),
        Mistake(
            "one-number-per-bias",
            "A bias is a number for each of d outputs, not one number for each matrix.",
            change={"biases": "one each"},
        ),
        Mistake(
            "biases-of-one-head",
            "Biases are counted d_k long; all heads together have d.",
            change={"biases": "per head"},
        ),
        Mistake(
            "biases-d-long-per-head",
            "A bias of d for each head; a head's is d/h long, so that all heads together have d.",
            change={"biases": "per head and d"},
        ),
        Mistake(
            "biases-always",
            "4·d too many without bias: the argument changes nothing.",
            change={"biases": "always"},
        ),
        Mistake(
            "biases-upside-down",
            "Biases are counted when there are none, and not when there are.",
            change={"biases": "upside down"},
        ),
    ),
)


def feed_forward_share(d_model, expansion=4):
    attention = 4 * d_model**2
    feed_forward = 2 * expansion * d_model**2  # up, d → expansion·d, and down again
    return feed_forward / (attention + feed_forward)


def _share_inputs():
    return {f"d = {d}, expansion = {e}": (d, e) for d, e in ((512, 4), (8, 4), (64, 1), (12, 2), (16, 8))}


SHARE = Exercise(
    "4.2",
    feed_forward_share,
    difficulty=1,
    minutes=3,
    inputs=_share_inputs,
    read=_whole,
    probes=(share,),
    hints=(
        "Attention has 4·d². The feed-forward block has two matrices, d × (expansion·d) and back.",
        "A share is a part divided by the whole, and the whole is both blocks together.",
    ),
    mistakes=(
        Mistake(
            "attention-share",
            "This is the share of attention; wanted what is left of 1.",
            lambda d, e=4: 4 / (4 + 2 * e),
        ),
        Mistake(
            "ratio-not-share",
            "This is feed-forward divided by attention; a share divides by both together.",
            lambda d, e=4: 2 * e / 4,
        ),
        Mistake(
            "attention-over-feed-forward",
            "This is attention divided by feed-forward; a share divides by both together.",
            lambda d, e=4: 4 / (2 * e),
        ),
        Mistake(
            "one-matrix",
            "One feed-forward matrix is counted; there is one up and one down.",
            lambda d, e=4: e / (4 + e),
        ),
        Mistake(
            "expansion-ignored",
            "Two thirds whatever the expansion: the argument changes nothing.",
            lambda d, e=4: 2 / 3,
        ),
        Mistake(
            "expansion-squared",
            "The inner width is squared; a matrix up is d × (expansion·d).",
            lambda d, e=4: 2 * e * e / (4 + 2 * e * e),
        ),
        Mistake(
            "square-middle",
            "A third matrix was counted, from inner width to inner width; there are two, up and down.",
            lambda d, e=4: (2 * e + e * e) / (4 + 2 * e + e * e),
        ),
        Mistake(
            "no-output-matrix",
            "Attention is counted as 3·d²: W_O is missing.",
            lambda d, e=4: 2 * e / (3 + 2 * e),
        ),
        Mistake(
            "one-attention-matrix",
            "Attention is counted as d²; it has four matrices.",
            lambda d, e=4: 2 * e / (1 + 2 * e),
        ),
        Mistake(
            "percent",
            "This is in percent; wanted a share between 0 and 1.",
            lambda d, e=4: 100 * 2 * e / (4 + 2 * e),
        ),
        Mistake("whole-division", "// drops the fraction: 0. Use / for a share.", lambda d, e=4: 2 * e // (4 + 2 * e)),
        Mistake(
            "with-biases",
            "Biases were counted as well; wanted the matrices alone.",
            lambda d, e=4: (2 * e * d * d + e * d + d) / (4 * d * d + 4 * d + 2 * e * d * d + e * d + d),
        ),
        Mistake(
            "count-not-share",
            "This is a count of parameters; wanted a share between 0 and 1.",
            lambda d, e=4: 2 * e * d * d,
        ),
        Mistake(
            "not-squared",
            "Attention is counted as 4·d, a matrix without its second side.",
            lambda d, e=4: 2 * e * d * d / (4 * d + 2 * e * d * d),
        ),
    ),
)

EXERCISES = (COUNT_PARAMETERS, SHARE)
