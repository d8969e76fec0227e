"""What a head does: a score for each kind, its null beside it, and a verdict.  Notebook 06.

A **score** is the mean weight that queries give to the keys of a pattern; its **null** is what even attention would
give them, under the same mask and for the same tokens; **strength** is how much of the room between null and 1 is
taken, (score − null) / (1 − null): 0 for even attention, below 0 for looking elsewhere.  A kind whose pattern has
several parts is **as strong as its weakest part**: who looks at one part alone is not of that kind.
Special tokens ask nothing, and a query without any key of the pattern does not count.
"""

import functools

import numpy as np
import torch

SPECIAL = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>"}
PUNCTUATION = set(",.;:!?…—()\"'")
KINDS = ("previous", "next", "behind", "ahead", "band", "punctuation", "same word", "sink", "induction")
CAUSAL = {"induction"}  # kinds that are asked of causal models alone
WITHIN = {"previous": {"behind", "band"}, "next": {"ahead", "band"}, "behind": {"band"}, "ahead": {"band"}}
THRESHOLD = 0.25  # of strength: chosen on planted heads (`planted_heads`), see notebook 06


def parts(tokens):
    """The parts of each kind's pattern, for a query (row) its keys (columns): {kind: [bool (T, T), …]}.

    previous, next  key i − 1; key i + 1                      Clark et al. 2019 (there divided by all n rows)
    behind, ahead   keys i − 1 and i − 2, both; i + 1 and i + 2
    band            each of the five keys from i − 2 to i + 2
    punctuation     marks inside the sentence, and a mark at its end: , . ; : ! ? … — ( ) " '      Clark et al. 2019
    same word       other copies of the query, if it is a word
    sink            special tokens, or the first token where there are none
    induction       the token after each earlier copy of the query                         Olsson et al. 2022

    Special tokens neither ask nor answer, but for the sink.
    """
    T = len(tokens)
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    special = np.array([token in SPECIAL for token in tokens])
    mark = np.array([token in PUNCTUATION for token in tokens])
    last = np.arange(T) == max(np.flatnonzero(~special), default=-1)
    same = np.array([[a == b for b in tokens] for a in tokens]) & ~mark[:, None]
    back2, back, itself, on, on2 = (j == i + distance for distance in (-2, -1, 0, 1, 2))
    inside, at_end = (np.broadcast_to(mark & place, (T, T)) & (i != j) for place in (~last, last))
    found = {
        "previous": [back],
        "next": [on],
        "behind": [back, back2],
        "ahead": [on, on2],
        "band": [back2, back, itself, on, on2],
        "punctuation": [inside, at_end],
        "same word": [same & (i != j)],
        "induction": [np.pad(same, ((0, 0), (1, 0)))[:, :T] & (j <= i)],
    }
    found = {kind: [table & ~special[None, :] for table in tables] for kind, tables in found.items()}
    found["sink"] = [np.broadcast_to(special, (T, T)) if special.any() else (j == 0) & (i > 0)]
    return {kind: [table & ~special[:, None] for table in tables] for kind, tables in found.items()}


def visible(T, causal):
    """Which keys a query may see: bool (T, T)."""
    return np.tril(np.ones((T, T), dtype=bool)) if causal else np.ones((T, T), dtype=bool)


def patterns(tokens, causal=False):
    """Which keys belong to each kind, all parts together: {kind: bool (T, T)}."""
    seen = visible(len(tokens), causal)
    return {kind: np.any(tables, axis=0) & seen for kind, tables in parts(tokens).items()}


def score(weights, pattern, causal=False):
    """Score (…) and null of a pattern bool (T, T) in weights (…, T, T); NaN where no query can follow it."""
    weights = np.asarray(weights, dtype=float)
    rows = pattern.any(axis=-1).sum()  # how many queries have a key of it
    if not rows:
        return np.full(weights.shape[:-2], np.nan), float("nan")
    even = pattern / visible(len(pattern), causal).sum(axis=-1, keepdims=True)
    return np.tensordot(weights, pattern / rows, axes=2), float(even.sum() / rows)


def strengths(weights, tokens, causal=False):
    """Every kind's strength for every head of one sentence: {kind: (…)}, from weights (…, T, T).

    A part's weight is scaled to what the whole would get if all keys were treated like its own; the weakest part
    counts.  NaN where a part is missing: a sentence without marks inside cannot tell marks from the last place.
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
    seen, found = visible(len(tokens), causal), {}
    for kind, tables in parts(tokens).items():
        possible = [table & seen for table in tables if (table & seen).any()]  # nobody sees the future
        whole = score(flat[:0], np.any(tables, axis=0) & seen, causal)[1]  # the null of all parts together
        missing = not possible or not all(table.any() for table in tables) or (kind in CAUSAL and not causal)
        if missing or whole == 1:  # 1: no room above the null
            found[kind] = np.full(weights.shape[:-2], np.nan)
            continue
        scores = [score(flat, table, causal) for table in possible]
        mass = whole * np.min([mass / null for mass, null in scores], axis=0)
        found[kind] = ((mass - whole) / (1 - whole)).reshape(weights.shape[:-2])
    return found


def over_sentences(sentences, causal=False):
    """Strengths on several sentences, [(tokens, weights (…, T, T)), …]: {kind: (sentences, …)}.

    Kinds that nobody can follow in any of them are left out.  Raises what `strengths` raises.
    """
    rows = [strengths(weights, tokens, causal) for tokens, weights in sentences]
    stacked = {kind: np.stack([row[kind] for row in rows]) for kind in KINDS}
    return {kind: values for kind, values in stacked.items() if not np.isnan(values).all()}


def profile(weights, tokens, reach=4):
    """Mean weight by distance, from −reach (back) to reach (on), special tokens left out: (…, 2·reach + 1)."""
    weights = np.asarray(weights, dtype=float)
    words = np.array([token not in SPECIAL for token in tokens])
    asked = words[:, None] & words[None, :]
    tables = [np.eye(len(tokens), k=distance, dtype=bool) & asked for distance in range(-reach, reach + 1)]
    return np.stack([score(weights, table)[0] for table in tables], axis=-1)


def looks(weights, tokens, asking, top=2):
    """Where one head (T, T) looks most from tokens in `asking`, special ones aside: [(place, [(token, weight), …])]."""
    weights, words = np.asarray(weights, dtype=float), [j for j, token in enumerate(tokens) if token not in SPECIAL]
    found = []
    for place in (i for i in words if tokens[i] in asking):
        best = sorted(words, key=lambda j: -weights[place, j])[:top]
        found.append((place, [(tokens[j], float(weights[place, j])) for j in best]))
    return found


def coreference(to_candidates):
    """Strength of telling the antecedent from another candidate, −1 … 1, for each sentence and head.

    to_candidates (sentences, …, 2): weights from the pronoun to the antecedent and to the other.  The strength is
    their difference; its null is 0 if each place and each word is the antecedent equally often, as in our
    balanced sentences: whoever always takes the nearer noun, or the first, or the queen, gets 0.
    """
    weights = np.asarray(to_candidates, dtype=float)
    return weights[..., 0] - weights[..., 1]


def intervals(values, tests):
    """Mean of values (n, …) over n sentences (or other independent cases), and its lower end; NaN is left out.

    The end is Student's, one-sided, at 5 % divided by the number of tests: mean − t · s / √n.  Of 72 random heads the
    best looks good, and must not pass for it.  Returns two arrays (…); with one sentence the end is −∞.
    """
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values.reshape(len(values), -1)).all(axis=1)]
    n, mean = len(values), values.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, -np.inf)
    return mean, mean - student(0.05 / tests, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)


@functools.cache
def student(tail, freedom):
    """The t that Student's distribution with `freedom` ν passes with probability `tail`, below one half.

    Of its angle arctan(t / √ν) the density is cos^(ν − 1), which is summed up here on a fine grid.
    """
    angle = (np.arange(200_000) + 0.5) / 200_000 * np.pi / 2
    passed = np.cumsum(np.cos(angle[::-1]) ** (freedom - 1))  # from the far end
    return np.sqrt(freedom) * np.tan(np.interp(2 * tail, passed / passed[-1], angle[::-1]))


def verdicts(per_sentence, threshold=THRESHOLD):
    """Labels of every head: {kind: strength over sentences, (sentences, …)} → an object array (…) of tuples.

    A kind is a label where the lower end of its strength is above the threshold; none and several are possible.
    Of kinds that lie within each other the widest is said.  `sink` is a label like others; its weight is missing
    elsewhere, so a head that is mostly a sink hardly gets another.
    """
    tests = len(per_sentence) * max(1, int(np.prod(np.shape(next(iter(per_sentence.values())))[1:])))
    low = {kind: intervals(values, tests)[1] for kind, values in per_sentence.items()}
    labels = np.empty(np.shape(next(iter(low.values()))), dtype=object)
    for place in np.ndindex(labels.shape):
        found = [kind for kind in per_sentence if low[kind][place] > threshold]
        labels[place] = tuple(kind for kind in found if not WITHIN.get(kind, set()) & set(found))
    return labels


# Heads whose answer is known, to test all this.


def planted_heads(tokens, kinds, strength, heads=1, causal=False, seed=0, spread=0.0):
    """Attention tables with a known answer: noise, and `strength` of each row spread over the patterns of `kinds`.

    A kind is a name, or a pattern of your own, bool (T, T).  With a spread every head draws its strength in this
    sentence anew, normal with this standard deviation and cut to 0 … 1.  kinds () is noise alone; so is a row without
    a key of the pattern.  Returns weights (heads, T, T).
    """
    rng = np.random.default_rng(seed)
    seen = visible(len(tokens), causal)
    noise = np.exp(rng.normal(size=(heads, len(tokens), len(tokens)))) * seen
    weights = noise / noise.sum(axis=-1, keepdims=True)
    level = np.clip(strength + spread * rng.normal(size=(heads, 1, 1)), 0, 1)
    named, pattern = patterns(tokens, causal), np.zeros(seen.shape)
    for kind in kinds:
        table = (named[kind] if isinstance(kind, str) else np.asarray(kind, dtype=bool) & seen).astype(float)
        pattern += table / np.maximum(table.sum(axis=-1, keepdims=True), 1) / len(kinds)
    taken = level * pattern.sum(axis=-1)[:, None]  # (heads, T, 1): a row without a key keeps all its noise
    return np.maximum(1 - taken, 0) * weights + level * pattern


def planted_labels(texts, kinds, strength, heads=12, causal=False, spread=0.0):
    """The labels of planted heads, judged on these texts (lists of tokens).  kinds: names of kinds or of impostors."""
    rows = []
    for seed, tokens in enumerate(texts):
        strange = impostors(tokens)
        chosen = [strange.get(kind, kind) for kind in kinds]
        rows.append((tokens, planted_heads(tokens, chosen, strength, heads, causal, seed, spread)))
    return verdicts(over_sentences(rows, causal))


def impostors(tokens):
    """Patterns of heads that are none of our kinds, or not the kind that they seem: {name: bool (T, T)}.

    None of them knows what a mark or a word is, but for the last three.
    """
    T = len(tokens)
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    token = np.array(tokens)
    same = token[:, None] == token[None, :]
    everywhere = np.ones((T, T), dtype=bool)
    return {
        "itself": i == j,
        "two back": j == i - 2,
        "two on": j == i + 2,
        "three back": j == i - 3,
        "one back, one on": abs(i - j) == 1,
        "three on each side": (abs(i - j) <= 3) & (i != j),
        "place before [SEP]": everywhere & (j == T - 2),
        "first word": everywhere & (j == 1),
        "commas only": everywhere & (token == ","),
        "twin or itself": same,
        "the word the": everywhere & (token == "the"),
    }


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
