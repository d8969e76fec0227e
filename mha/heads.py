"""What a head does: a score for each kind, its null beside it, and a verdict.  Notebook 06.

A score is the mean weight that queries give to the keys of a kind's pattern; its **null** is what even attention
would give them, under the same mask and for the same tokens; its **strength** is how much of the room between
null and 1 the head has taken: (score − null) / (1 − null).  Special tokens ask nothing, and a query without any
key of the pattern does not count.  Rows are queries, columns are keys.
"""

import numpy as np
import torch

SPECIAL = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>"}
PUNCTUATION = set(",.;:!?…—()\"'")
KINDS = ("previous", "next", "band", "punctuation", "same word", "sink")
THRESHOLD = 0.25  # of strength: chosen on planted heads (`planted_heads`), see notebook 06


def patterns(tokens, causal=False):
    """Which keys belong to each kind, for each query: {kind: bool (T, T)}; special tokens neither ask nor answer.

    previous     key i − 1                                    Clark et al. 2019 (there divided by all n rows)
    next         key i + 1; nothing under a causal mask       Clark et al. 2019
    band         keys with |i − j| ≤ 2, the token itself included
    punctuation  keys that are , . ; : ! ? … — ( ) " '        Clark et al. 2019 (there , and . only)
    same word    other copies of the query, if it is a word
    sink         special tokens, or the first token where there are none: imitates a stripe, so it is kept apart
    """
    T = len(tokens)
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    special = np.array([token in SPECIAL for token in tokens])
    mark = np.array([token in PUNCTUATION for token in tokens])
    same = np.array([[a == b for b in tokens] for a in tokens]) & ~mark[:, None]
    found = {
        "previous": j == i - 1,
        "next": (j == i + 1) & (not causal),
        "band": abs(i - j) <= 2,
        "punctuation": np.broadcast_to(mark, (T, T)) & (i != j),
        "same word": same & (i != j),
    }
    found = {kind: table & ~special[None, :] for kind, table in found.items()}
    found["sink"] = np.broadcast_to(special, (T, T)) if special.any() else (j == 0) & (i > 0)
    seen = (j <= i) if causal else np.ones((T, T), dtype=bool)
    return {kind: table & seen & ~special[:, None] for kind, table in found.items()}


def score(weights, pattern, causal=False):
    """Score (…) and null of a pattern bool (T, T) in weights (…, T, T); NaN where no query can follow it."""
    weights = np.asarray(weights, dtype=float)
    rows = pattern.any(axis=-1)
    T = len(pattern)
    seen = np.arange(1, T + 1) if causal else np.full(T, T)
    if not rows.any():
        return np.full(weights.shape[:-2], np.nan), float("nan")
    mass = (weights * pattern).sum(axis=-1)[..., rows].mean(axis=-1)
    return mass, float((pattern.sum(axis=-1) / seen)[rows].mean())


def strengths(weights, tokens, causal=False):
    """Every kind's strength for every head of one sentence: {kind: (…)}, from weights (…, T, T).

    Raises TypeError or ValueError for weights that are none, averaged, padded, under dropout or of other tokens.
    """
    weights = weights.detach().float().cpu() if isinstance(weights, torch.Tensor) else weights
    if weights is None or np.asarray(weights).ndim < 3:
        checked(weights, None)  # says what is wrong
    weights = np.asarray(weights, dtype=float)
    flat = checked(weights.reshape(-1, *weights.shape[-2:]), None)
    check_counts(flat, tokens, tokens)
    if "[PAD]" in tokens or "<pad>" in tokens:
        raise ValueError("there is padding among the tokens: cut weights and tokens to the sentence's own length")
    future = np.triu(flat, 1).sum() / flat.sum()
    if causal and future > 1e-3:
        raise ValueError(f"{future:.0%} of the weight lies on the future: not causal, or the mask is upside down")
    found = {}
    for kind, pattern in patterns(tokens, causal).items():
        mass, null = score(weights, pattern, causal)
        found[kind] = (mass - null) / (1 - null) if null < 1 else np.full_like(mass, np.nan)  # no room above the null
    return found


def over_sentences(sentences, causal=False):
    """Strengths on several sentences, [(tokens, weights (…, T, T)), …]: {kind: (sentences, …)}.

    Kinds that nobody can follow in any of them are left out.  Raises what `strengths` raises.
    """
    rows = [strengths(weights, tokens, causal) for tokens, weights in sentences]
    stacked = {kind: np.stack([row[kind] for row in rows]) for kind in KINDS}
    return {kind: values for kind, values in stacked.items() if not np.isnan(values).all()}


def coreference(to_candidates):
    """Strength of telling the antecedent from another candidate, −1 … 1, for each sentence and head.

    to_candidates (sentences, …, 2): weights from the pronoun to the antecedent and to the other.  The strength is
    their difference; its null is 0 if each place and each word is the antecedent equally often, as in our
    balanced sentences: whoever always takes the nearer noun, or the first, or the queen, gets 0.
    """
    weights = np.asarray(to_candidates, dtype=float)
    return weights[..., 0] - weights[..., 1]


def intervals(values, tests, seed=0):
    """Mean and lower end over sentences of values (sentences, …); NaN is left out.

    The end is that of a bootstrap over sentences, at 5 % divided by the number of tests: of 72 random heads the
    best looks good, and must not pass for it.  Returns two arrays (…).
    """
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values.reshape(len(values), -1)).all(axis=1)]
    draws = np.random.default_rng(seed).integers(len(values), size=(20_000, len(values)))
    counts = np.stack([(draws == s).sum(axis=1) for s in range(len(values))], axis=1)  # (draws, sentences)
    means = np.tensordot(counts / len(values), values, axes=1)
    return values.mean(axis=0), np.quantile(means, 0.05 / tests, axis=0)


def verdicts(per_sentence, threshold=THRESHOLD):
    """Labels of every head: {kind: strength over sentences, (sentences, …)} → an object array (…) of tuples.

    A kind is a label where the lower end of its strength is above the threshold; none and several are possible.
    A head that looks one back or one on is not called a band as well.  `sink` is a label like others; its weight
    is missing elsewhere, so a head that is mostly a sink hardly gets another.
    """
    tests = len(per_sentence) * max(1, int(np.prod(np.shape(next(iter(per_sentence.values())))[1:])))
    low = {kind: intervals(values, tests)[1] for kind, values in per_sentence.items()}
    labels = np.empty(np.shape(next(iter(low.values()))), dtype=object)
    for place in np.ndindex(labels.shape):
        found = [kind for kind in per_sentence if low[kind][place] > threshold]
        if {"previous", "next"} & set(found):
            found = [kind for kind in found if kind != "band"]
        labels[place] = tuple(found)
    return labels


def planted_heads(tokens, kinds, strength, heads=1, causal=False, seed=0):
    """Attention tables with a known answer: noise, and `strength` of each row spread over the patterns of `kinds`.

    Returns weights (heads, T, T).  kinds () is noise alone; a row without a key of the pattern is noise, too.
    """
    rng = np.random.default_rng(seed)
    T = len(tokens)
    seen = np.tril(np.ones((T, T))) if causal else np.ones((T, T))
    noise = np.exp(rng.normal(size=(heads, T, T))) * seen
    weights = noise / noise.sum(axis=-1, keepdims=True)
    all_patterns = patterns(tokens, causal)
    for kind in kinds:
        pattern = all_patterns[kind].astype(float)
        rows = pattern.any(axis=-1)
        pattern[rows] /= pattern[rows].sum(axis=-1, keepdims=True)
        weights[:, rows] += strength / len(kinds) / (1 - strength + 1e-12) * pattern[rows]
    return weights / weights.sum(axis=-1, keepdims=True)


# What follows refuses what are no attention weights.


def checked(weights, batch):
    """One layer's weights as an array (h, T, S), if they are attention weights."""
    if weights is None:
        raise TypeError("weights are None: call the layer with need_weights=True")
    weights = weights.detach().float().cpu() if isinstance(weights, torch.Tensor) else weights
    array = np.asarray(weights, dtype=float)
    wanted = f"weights have shape {array.shape}, wanted (h, T, S) or (B, h, T, S)"
    if array.ndim == 2:
        raise ValueError(f"{wanted}: averaged over heads? pass average_attn_weights=False; one head is weights[None]")
    if array.ndim == 4:
        if batch is None and len(array) > 1:
            raise ValueError(f"weights hold {len(array)} texts: choose one, batch=0 to {len(array) - 1}")
        if not 0 <= (batch or 0) < len(array):
            raise ValueError(f"batch={batch}, but weights hold {len(array)} texts: choose 0 to {len(array) - 1}")
        array = array[batch or 0]
    elif array.ndim == 3 and batch is not None:
        raise ValueError(f"{wanted} when batch={batch} is chosen: were heads averaged? pass average_attn_weights=False")
    if array.ndim != 3 or not array.size:
        raise ValueError(wanted)
    if not np.isfinite(array).all() or array.min() < 0:
        raise ValueError("weights hold NaN or numbers below 0: are these scores, or the output of a row with no keys?")
    rows, columns = array.sum(axis=-1), array.sum(axis=-2)
    if not (_near_one(rows) | (rows == 0)).all():
        hint = "is dropout on (call eval()), or are these scores?"
        if _near_one(columns).all():
            hint = "columns do: softmax was taken over the queries, use dim=-1"
        raise ValueError(f"rows of weights sum to {rows.min():.2f} … {rows.max():.2f}, wanted 1; {hint}")
    return array


def _near_one(sums):
    return np.abs(sums - 1) < 0.02


def check_counts(layer, tokens, keys):
    if layer.shape[1:] != (len(tokens), len(keys)):
        raise ValueError(
            f"weights are {layer.shape[1]} × {layer.shape[2]} per head, but there are {len(tokens)} query tokens and "
            f"{len(keys)} key tokens: give key_tokens, or cut the padding"
        )
