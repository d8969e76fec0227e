"""Exercise 4.3: attention's parameters with shared keys and values, and heads of any width."""

import itertools

import torch

from mha.exercises.compare import whole
from mha.exercises.exercise import GROUPS, Exercise, Mistake
from mha.exercises.probes import as_sum


def attention_parameters(d_model, num_heads, kv_heads, d_k):
    queries = d_model * (num_heads * d_k)  # W_Q
    shared = d_model * (kv_heads * d_k)  # W_K, and W_V as well
    output = (num_heads * d_k) * d_model  # W_O
    return queries + 2 * shared + output


TERMS = {  # what a count may be made of: powers of d, h, h_kv, d_k
    "d·h·d_k": (1, 1, 0, 1), "d·h_kv·d_k": (1, 0, 1, 1), "d²": (2, 0, 0, 0), "d·d_k": (1, 0, 0, 1),
    "h·d²": (2, 1, 0, 0), "h_kv·d²": (2, 0, 1, 0), "h·d_k²": (0, 1, 0, 2), "(h·d_k)²": (0, 2, 0, 2),
    "h·d_k": (0, 1, 0, 1), "h_kv·d_k": (0, 0, 1, 1), "d": (1, 0, 0, 0), "1": (0, 0, 0, 0),
}  # fmt: skip
HEADS = ((2, 1), (4, 2), (6, 2), (6, 3), (12, 4))


def formula(attempt):
    sizes = [(d, *heads, d_k) for d, heads, d_k in itertools.product((24, 36, 60), HEADS, (3, 8, 10))]
    found = as_sum(attempt, TERMS, sizes)
    if found == "":
        return "no-formula", "Your counts are no sum of products of the sizes; wanted 2·d·h·d_k + 2·d·h_kv·d_k."
    return found and ("another-formula", f"You count {found}; wanted 2·d·h·d_k + 2·d·h_kv·d_k.")


# fmt: off
EXERCISE = Exercise(
    "4.3", attention_parameters, difficulty=2, minutes=5,
    read=whole, probes=(formula,),
    inputs=lambda: {
        f"{name}: d = {d}, h = {h}, h_kv = {kv}, d_k = {d_k}": (d, h, kv, d_k)
        for name, d, h, kv, d_k in (
            ("small", 12, 6, 2, 5), ("Llama 3 8B", 4096, 32, 8, 128), ("Gemma 7B", 3072, 16, 16, 256),
            ("GPT-2", 768, 12, 12, 64), ("Falcon 7B", 4544, 71, 1, 64),
        )
    },
    hints=(
        "Write the shape of each of the four matrices. One side is always d.",
        "The other side is as wide as all its heads together: h · d_k for W_Q and W_O.",
        "W_K and W_V have h_kv heads, each d_k wide like a query's.",
    ),
    mistakes=(
        Mistake("four-d-squared", "4·d² holds where every query head has its own keys and values, and h · d_k is d. "
            "Count each matrix from its own heads.", ("queries + 2 * shared + output", "4 * d_model**2")),
        Mistake("sharing-ignored", "Keys and values are counted for each of the h query heads; there are only h_kv "
            "heads of them.", ("(kv_heads * d_k)", "(num_heads * d_k)")),
        Mistake("how-many-share", GROUPS, ("(kv_heads", "(num_heads // kv_heads")),
        Mistake("one-key-head", "One head of keys and one of values is counted; there are h_kv of each.",
            ("(kv_heads * d_k)", "d_k")),
        Mistake("keys-only", "W_K and W_V are two matrices, and one is counted.", ("2 * shared", "shared")),
        Mistake("keys-and-values-missing", "W_Q and W_O alone: W_K and W_V are missing.", (" + 2 * shared", "")),
        Mistake("queries-or-output-missing", "d · h·d_k too few: W_Q and W_O have so many each. Is W_O there, which "
            "brings the heads back to d?", (" + output", "")),
        Mistake("queries-or-output-shared", "W_Q or W_O is counted with h_kv heads; both belong to all h query heads.",
            ("(num_heads * d_k) * d_model", "(kv_heads * d_k) * d_model")),
        Mistake("all-shared", "Everything is counted with h_kv heads; W_Q and W_O belong to all h query heads.",
            ("queries + 2 * shared + output", "4 * shared")),
        Mistake("width-from-d", "d_k is taken as d / h, whatever is given. Heads may be wider: 16 of 256 on d = 3072.",
            ("queries =", "d_k = d_model // num_heads\n    queries =")),
        Mistake("keys-as-narrow-as-d-over-h", "Keys and values are counted d / h wide; they have d_k like a query, or "
            "q · k could not be taken.", ("(kv_heads * d_k)", "(kv_heads * d_model // num_heads)")),
        Mistake("queries-and-output-d-squared", "W_Q and W_O are counted d × d; one side is all heads together, "
            "h · d_k, and that need not be d.",
            ("(num_heads * d_k)  # W_Q", "d_model"), ("(num_heads * d_k) * d_model", "d_model * d_model")),
        Mistake("queries-or-output-d-squared", "W_Q or W_O is counted d × d. W_Q makes h · d_k numbers and W_O reads "
            "them, and that need not be d.", ("(num_heads * d_k) * d_model", "d_model * d_model")),
        Mistake("output-as-wide-as-the-heads", "W_O is counted h·d_k on both sides; it comes back to d.",
            ("(num_heads * d_k) * d_model", "(num_heads * d_k) ** 2")),
        Mistake("one-query-head", "W_Q and W_O are counted for one head; there are h.",
            ("(num_heads * d_k)  # W_Q", "d_k"), ("(num_heads * d_k) * d_model", "d_k * d_model")),
        Mistake("heads-as-wide-as-the-model", "Each head is counted d wide; it has d_k.",
            ("queries =", "d_k = d_model\n    queries =")),
        Mistake("biases-counted", "Biases are counted as well; wanted the matrices alone.",
            ("return queries", "return num_heads * d_k + 2 * kv_heads * d_k + d_model + queries")),
        Mistake("cache-not-parameters", "2 · h_kv · d_k is what the cache keeps of one token in one layer; wanted the "
            "parameters of the four matrices.", ("queries + 2 * shared + output", "2 * shared // d_model")),
    ),
    right=(
        lambda d, h, kv, d_k: 2 * d * d_k * (h + kv),
        lambda d, h, kv, d_k: float(sum(d * heads * d_k for heads in (h, kv, kv, h))),
        lambda d, h, kv, d_k: torch.tensor(d * (h + kv + kv) * d_k + h * d_k * d),
    ),
    fresh=lambda: [(60, 6, 3, 8), (24, 4, 4, 6), (30, 10, 5, 7), (16, 4, 1, 9), (7, 1, 1, 3)],
)
