"""What a head does: a score for each kind, its null beside it, and a verdict.  Notebook 06.

A **score** is the mean weight that queries give to the keys of a pattern; its **null** is what even attention would
give them, under the same mask and for the same tokens; **strength** is how much of the room between null and 1 is
taken, (score − null) / (1 − null): 0 for even attention, below 0 for looking elsewhere.  A kind whose pattern has
several parts is **as strong as its weakest part**: who looks at one part alone is not of that kind.
Special tokens ask nothing, and a query without any key of the pattern does not count.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mha import checks

SPECIAL = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>"}
PUNCTUATION = set(",.;:!?…—()\"'")
THRESHOLD = 0.25  # of strength: chosen on planted heads (`planted_heads`), see notebook 06


class Text:
    """What the pattern of a kind may ask of T tokens: i and j, tables of positions, and which tokens are what, (T,)."""

    def __init__(self, tokens: Sequence[str]):
        T = len(tokens)
        self.i, self.j = np.arange(T)[:, None], np.arange(T)[None, :]  # queries are rows (T, 1), keys columns (1, T)
        self.special = np.array([token in SPECIAL for token in tokens])
        self.mark = np.array([token in PUNCTUATION for token in tokens])
        self.last = np.arange(T) == max(np.flatnonzero(~self.special), default=-1)
        self.same = np.array([[a == b for b in tokens] for a in tokens])  # (T, T)

    def at(self, *distances: int) -> list[np.ndarray]:
        """For each distance the key that far on."""
        return [self.j == self.i + distance for distance in distances]

    def marks(self) -> list[np.ndarray]:
        """Marks inside the sentence; a mark at its end."""
        return [self.mark & here & (self.i != self.j) for here in (~self.last, self.last)]

    def copies(self) -> list[np.ndarray]:
        """Other copies of the query, if it is a word."""
        return [self.same & ~self.mark[:, None] & (self.i != self.j)]

    def behind_copies(self) -> list[np.ndarray]:
        """The token just behind each earlier copy of the query."""
        return [np.pad(self.same, ((0, 0), (1, 0)))[:, :-1] & (self.j <= self.i) & ~self.mark[:, None]]

    def sink(self) -> list[np.ndarray]:
        """Special tokens, or the first token where there are none."""
        first = (self.j == 0) & (self.i > 0)
        return [np.broadcast_to(self.special, first.shape) if self.special.any() else first]


class Kind(NamedTuple):
    """A kind of head: the parts of its pattern, each bool (T, T), and the wider kinds it lies within.

    `causal`: asked of causal models alone.
    """

    parts: Callable[[Text], list[np.ndarray]]
    within: tuple[str, ...] = ()
    causal: bool = False


# All that the course knows of a kind stands in its line here.
KINDS = {
    "previous": Kind(lambda text: text.at(-1), ("behind", "band")),  # Clark et al. 2019 (divided by all n rows)
    "next": Kind(lambda text: text.at(1), ("ahead", "band")),  # Clark et al. 2019, likewise
    "behind": Kind(lambda text: text.at(-1, -2), ("band",)),  # both of them
    "ahead": Kind(lambda text: text.at(1, 2), ("band",)),
    "band": Kind(lambda text: text.at(-2, -1, 0, 1, 2)),  # each of the five
    "punctuation": Kind(Text.marks),  # , . ; : ! ? … — ( ) " '   Clark et al. 2019
    "same word": Kind(Text.copies),
    "sink": Kind(Text.sink),
    "induction": Kind(Text.behind_copies, causal=True),  # Olsson et al. 2022
}


def parts(tokens: Sequence[str]) -> dict[str, list[np.ndarray]]:
    """The parts of each kind's pattern, for a query (row) its keys (columns): {kind: [bool (T, T), …]}.

    Special tokens neither ask nor answer, but for the sink.
    """
    text = Text(tokens)
    ask, answer = ~text.special[:, None], ~text.special[None, :]
    tables = {name: [table & ask for table in kind.parts(text)] for name, kind in KINDS.items()}
    return {name: [table if name == "sink" else table & answer for table in tables[name]] for name in KINDS}


def visible(T: int, causal: bool) -> np.ndarray:
    """Which keys a query may see: bool (T, T)."""
    return np.tril(np.ones((T, T), dtype=bool)) if causal else np.ones((T, T), dtype=bool)


def patterns(tokens: Sequence[str], causal: bool = False) -> dict[str, np.ndarray]:
    """Which keys belong to each kind, all parts together: {kind: bool (T, T)}."""
    seen = visible(len(tokens), causal)
    return {kind: np.any(tables, axis=0) & seen for kind, tables in parts(tokens).items()}


def score(weights: ArrayLike, pattern: np.ndarray, causal: bool = False) -> tuple[np.ndarray, float]:
    """Score (…) and null of a pattern bool (T, T) in weights (…, T, T); NaN where no query can follow it."""
    array = np.asarray(weights, dtype=float)
    rows = pattern.any(axis=-1).sum()  # how many queries have a key of it
    if not rows:
        return np.full(array.shape[:-2], np.nan), float("nan")
    even = pattern / visible(len(pattern), causal).sum(axis=-1, keepdims=True)
    return np.tensordot(array, pattern / rows, axes=2), float(even.sum() / rows)


def kinds(causal: bool = False) -> list[str]:
    """The kinds that such a model is asked for."""
    return [name for name, kind in KINDS.items() if causal or not kind.causal]


def strengths(weights: Any, tokens: Sequence[str], causal: bool = False) -> dict[str, np.ndarray]:
    """Every kind's strength for every head of one sentence: {kind: (…)}, from weights (…, T, T).

    A part's weight is scaled to what the whole would get if all keys were treated like its own; the weakest part
    counts.  NaN where a part is missing: a sentence without marks inside cannot tell marks from the last place.
    Raises TypeError or ValueError for weights that are none, averaged, padded, under dropout or of other tokens.
    """
    weights = checks.attention_weights(weights)
    flat = weights.reshape(-1, *weights.shape[-2:])
    checks.check_counts(flat, tokens, tokens)
    if "[PAD]" in tokens or "<pad>" in tokens:
        raise ValueError("there is padding among the tokens: cut weights and tokens to the sentence's own length")
    future = np.triu(flat, 1).sum() / flat.sum()
    if causal and future > 1e-3:
        raise ValueError(f"{future:.0%} of the weight lies on the future: not causal, or the mask is upside down")
    seen, tables, strength = visible(len(tokens), causal), parts(tokens), {}
    for kind in kinds(causal):
        possible = [table & seen for table in tables[kind] if (table & seen).any()]  # nobody sees the future
        whole = score(flat[:0], np.any(tables[kind], axis=0) & seen, causal)[1]  # the null of all parts together
        missing = not possible or not all(table.any() for table in tables[kind])
        if missing or whole == 1:  # 1: no room above the null
            strength[kind] = np.full(weights.shape[:-2], np.nan)
            continue
        scores = [score(flat, table, causal) for table in possible]
        mass = whole * np.min([mass / null for mass, null in scores], axis=0)
        strength[kind] = ((mass - whole) / (1 - whole)).reshape(weights.shape[:-2])
    return strength


def over_sentences(sentences: Iterable[tuple[Sequence[str], Any]], causal: bool = False) -> dict[str, np.ndarray]:
    """Strengths on several sentences, [(tokens, weights (…, T, T)), …]: {kind: (sentences, …)}.

    Kinds that nobody can follow in any of them are left out.  Raises what `strengths` raises.
    """
    rows = [strengths(weights, tokens, causal) for tokens, weights in sentences]
    stacked = {kind: np.stack([row[kind] for row in rows]) for kind in kinds(causal)}
    return {kind: values for kind, values in stacked.items() if not np.isnan(values).all()}


def profile(weights: ArrayLike, tokens: Sequence[str], reach: int = 4) -> np.ndarray:
    """Mean weight by distance, from −reach (back) to reach (on), special tokens left out: (…, 2·reach + 1)."""
    plain = np.array([token not in SPECIAL for token in tokens])
    asked = plain[:, None] & plain[None, :]
    tables = [np.eye(len(tokens), k=distance, dtype=bool) & asked for distance in range(-reach, reach + 1)]
    return np.stack([score(weights, table)[0] for table in tables], axis=-1)


def looks(
    weights: ArrayLike, tokens: Sequence[str], asking: Collection[str], top: int = 2
) -> list[tuple[int, list[tuple[str, float]]]]:
    """Where one head (T, T) looks most from tokens in `asking`, specials aside: (position, [(token, weight), …])."""
    table = np.asarray(weights, dtype=float)
    plain = [j for j, token in enumerate(tokens) if token not in SPECIAL]
    rows = []
    for i in (i for i in plain if tokens[i] in asking):
        best = sorted(plain, key=lambda j: -table[i, j])[:top]
        rows.append((i, [(tokens[j], float(table[i, j])) for j in best]))
    return rows


def coreference(to_candidates: ArrayLike) -> np.ndarray:
    """Strength of telling the antecedent from another candidate, −1 … 1, for each sentence and head.

    to_candidates (sentences, …, 2): weights from the pronoun to the antecedent and to the other.  The strength is
    their difference; its null is 0 if each position and each word is the antecedent equally often, as in our
    balanced sentences: whoever always takes the nearer noun, or the first, or the queen, gets 0.
    """
    weights = np.asarray(to_candidates, dtype=float)
    return weights[..., 0] - weights[..., 1]


def intervals(values: ArrayLike, tests: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean of values (n, …) over n sentences (or other independent cases), and its lower end; NaN is left out.

    The end is Student's, one-sided, at 5 % divided by the number of tests: mean − t · s / √n.  Of 72 random heads the
    best looks good, and must not pass for it.  Returns two arrays (…); with one sentence the end is −∞.
    """
    cases = np.asarray(values, dtype=float)
    cases = cases[~np.isnan(cases.reshape(len(cases), -1)).all(axis=1)]
    n, mean = len(cases), cases.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, -np.inf)
    return mean, mean - student(0.05 / tests, n - 1) * cases.std(axis=0, ddof=1) / np.sqrt(n)


@functools.cache
def student(tail: float, freedom: int) -> float:
    """The t that Student's distribution with `freedom` ν passes with probability `tail`, below one half.

    Of its angle arctan(t / √ν) the density is cos^(ν − 1), which is summed up here on a fine grid.
    """
    angle = (np.arange(200_000) + 0.5) / 200_000 * np.pi / 2
    passed = np.cumsum(np.cos(angle[::-1]) ** (freedom - 1))  # from the far end
    return np.sqrt(freedom) * np.tan(np.interp(2 * tail, passed / passed[-1], angle[::-1]))


def verdicts(per_sentence: Mapping[str, np.ndarray], threshold: float = THRESHOLD) -> np.ndarray:
    """Labels of every head: {kind: strength over sentences, (sentences, …)} → an object array (…) of tuples.

    A kind is a label where the lower end of its strength is above the threshold; none and several are possible.
    Of kinds that lie within each other the widest is said.  `sink` is a label like others; its weight is missing
    elsewhere, so a head that is mostly a sink hardly gets another.
    """
    tests = len(per_sentence) * max(1, int(np.prod(np.shape(next(iter(per_sentence.values())))[1:])))
    low = {kind: intervals(values, tests)[1] for kind, values in per_sentence.items()}
    labels = np.empty(np.shape(next(iter(low.values()))), dtype=object)
    for head in np.ndindex(labels.shape):
        passed = [kind for kind in per_sentence if low[kind][head] > threshold]
        wider = {kind: KINDS[kind].within for kind in passed if kind in KINDS}
        labels[head] = tuple(kind for kind in passed if not {*wider.get(kind, ())} & {*passed})
    return labels


# Heads whose answer is known, to test all this.


def planted_heads(
    tokens: Sequence[str],
    kinds: Sequence[str | ArrayLike],
    strength: float,
    heads: int = 1,
    causal: bool = False,
    seed: int = 0,
    spread: float = 0.0,
) -> np.ndarray:
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


def planted_labels(
    texts: Iterable[Sequence[str]],
    kinds: Sequence[str],
    strength: float,
    heads: int = 12,
    causal: bool = False,
    spread: float = 0.0,
) -> np.ndarray:
    """The labels of planted heads, judged on these texts (lists of tokens).  kinds: names of kinds or of impostors."""
    rows = []
    for seed, tokens in enumerate(texts):
        strange = impostors(tokens)
        chosen: list[str | ArrayLike] = [strange.get(kind, kind) for kind in kinds]
        rows.append((tokens, planted_heads(tokens, chosen, strength, heads, causal, seed, spread)))
    return verdicts(over_sentences(rows, causal))


def impostors(tokens: Sequence[str]) -> dict[str, np.ndarray]:
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
