"""Exercise 4.1: the parameters of the attention layer."""

import itertools

from mha.accounting import attention_parameters
from mha.attention import MultiHeadAttention
from mha.exercises.compare import whole
from mha.exercises.exercise import Exercise, Mistake
from mha.exercises.probes import as_sum


def count_parameters(d_model, num_heads, bias=False):
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k  # W_Q, W_K, W_V
    output = num_heads * d_k * d_model  # W_O
    biases = 4 * d_model if bias else 0  # three for all heads together, one for the output
    return num_heads * one_head + output + biases


TERMS = {
    d_name + h_name: (d_power, h_power)
    for d_power, d_name in ((3, "d³"), (2, "d²"), (1, "d"), (0, "1"))
    for h_power, h_name in ((2, "·h²"), (1, "·h"), (0, ""), (-1, "/h"), (-2, "/h²"))
}
SIZES = list(itertools.product((12, 24, 36, 48, 60, 120), (1, 2, 3, 4, 6, 12)))


def formula(attempt):
    without, with_biases = (as_sum(attempt, TERMS, SIZES, bias) for bias in (False, True))
    if without is None or with_biases is None:
        return None
    if not (without and with_biases):
        return "no-formula", "Your counts are no sum of powers of d and h; wanted 4·d², and 4·d more with biases."
    says = f"You count {without} without biases (wanted 4·d²) and {with_biases} with them (wanted 4·d² + 4·d)."
    return "another-formula", says


WEIGHTS = "num_heads * one_head + output"

# fmt: off
EXERCISE = Exercise(
    "4.1", count_parameters, difficulty=2, minutes=4, read=whole, probes=(formula,),
    fresh=lambda: [(60, 5, False), (60, 5, True), (128, 4, False), (128, 4, True)],
    inputs=lambda: {
        f"d = {d}, h = {h}, bias={bias}": (d, h, bias)
        for d, h in ((12, 3), (512, 8), (10, 2), (64, 1), (32, 32)) for bias in (False, True)
    },
    hints=(
        "Four matrices: query, key, value, output. How large is each when all heads are put together?",
        "h heads of d/h columns are d columns again: each matrix has d·d numbers, whatever h.",
        "Each of the four projections has d outputs, and a bias is one number per output.",
    ),
    mistakes=(
        Mistake("heads-as-wide-as-the-model", "You count h times 4·d²: each head as wide as the model. A head is d/h "
            "wide, so h cancels.", (WEIGHTS, "num_heads * 4 * d_model**2")),
        Mistake("wide-heads-one-output", "Query, key and value are counted d wide for each head. A head is d/h wide, "
            "so h cancels.", (WEIGHTS, "num_heads * 3 * d_model**2 + output")),
        Mistake("no-output-matrix", "d² too few: W_O, mixing heads, is missing.", (WEIGHTS, "num_heads * one_head")),
        Mistake("one-head", "This is one head's share, 4·d·d_k; wanted all h.", (WEIGHTS, "one_head + d_k * d_model")),
        Mistake("query-key-value-h-times-too-few", "3·d·d_k + d²: query, key and value of one head, or of h heads that "
            "read a slice each. There are h, each d × d_k.", (WEIGHTS, "one_head + output")),
        Mistake("one-of-three", "Half of it: query, key and value are three matrices, not one.",
            (WEIGHTS, "num_heads * one_head // 3 + output")),
        Mistake("linear-modules-only", "Only W_O is counted, as when Q, K and V lie in a bare parameter and not in an "
            "nn.Linear.", (WEIGHTS, "output")),
        Mistake("shared-slices", "3·d_k² + d²: one d_k × d_k matrix each for query, key, value, shared by all heads. "
            "Each head projects the whole embedding, d × d_k.", (WEIGHTS, "3 * d_k**2 + output")),
        Mistake("output-of-one-head", "W_O is counted d_k × d; it reads all heads side by side, so it is d × d.",
            (WEIGHTS, "num_heads * one_head + d_k * d_model")),
        Mistake("power-is-not-xor", "In Python ^ is XOR, no power: a square is d**2.", (WEIGHTS, "(4 * d_model ^ 2)")),
        Mistake("not-squared", "4·d instead of 4·d²: a matrix has rows and columns.", (WEIGHTS, "4 * d_model")),
        Mistake("feed-forward-counted", "12·d² is a whole layer, feed-forward block included; wanted attention alone.",
            (WEIGHTS, "12 * d_model**2")),
        Mistake("biases-ignored", "4·d too few with bias=True: the argument changes nothing.", ("if bias", "if False")),
        Mistake("output-bias-missing", "d too few with bias=True: the output projection has a bias, too.",
            ("4 * d_model if", "3 * d_model if")),
        Mistake("only-output-bias", "3·d too few with bias=True: query, key and value have biases, too.",
            ("4 * d_model if", "d_model if")),
        Mistake("one-number-per-bias", "A bias is d numbers, one for each output.", ("4 * d_model if", "4 if")),
        Mistake("biases-of-one-head", "Biases are counted d_k long; wanted d.", ("4 * d_model if", "4 * d_k if")),
        Mistake("biases-d-long-per-head", "A bias of d for each head; a head's is d/h long, so that all heads together "
            "have d.", ("4 * d_model if", "(3 * num_heads + 1) * d_model if")),
        Mistake("biases-always", "4·d too many without bias: the argument changes nothing.", (" if bias else 0", "")),
        Mistake("biases-upside-down", "Biases are counted when there are none, and not when there are.",
            ("if bias", "if not bias")),
    ),
    right=(
        lambda d, h, bias=False: 4 * d * d + bias * 4 * d,
        lambda d, h, bias=False: sum(attention_parameters(d, h, bias=bias).values()),
        lambda d, h, bias=False: sum(w.numel() for w in MultiHeadAttention(d, h, bias).parameters()),
    ),
)
