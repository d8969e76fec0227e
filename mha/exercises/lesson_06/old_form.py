"""Exercises of lesson 06: a score, a score minus its null, a baseline, and a head that fools a detector."""

import torch

from mha import heads
from mha.exercises.exercise import Exercise, Mistake, random_tensor


def previous_token_score(weights):
    return weights.diagonal(offset=-1, dim1=1, dim2=2).mean(dim=-1)  # cells (i, i − 1): (h, T − 1) → (h,)


def _previous(weights, offset=-1, over="pairs", heads="each"):
    """The reference with options."""
    T = weights.size(-1)
    cells = weights.diagonal(offset=offset, dim1=1, dim2=2)
    found = {
        "all": lambda: cells.sum(dim=-1) / T,
        "first row": lambda: (cells.sum(dim=-1) + weights[:, 0, 0]) / T,
        "sum": lambda: cells.sum(dim=-1),
        "largest": lambda: cells.amax(dim=-1),
        "argmax": lambda: (weights[:, 1:].argmax(dim=-1) == torch.arange(T - 1)).float().mean(dim=-1),
        "mass": lambda: cells.sum(dim=-1) / weights.tril(-1).sum(dim=(1, 2)),
        "past": lambda: weights[:, 1:].tril().sum(dim=-1).mean(dim=-1),
        "strength": lambda: (cells.mean(dim=-1) - 1 / T) / (1 - 1 / T),
        "null": lambda: cells.mean(dim=-1) - 1 / T,
        "inner": lambda: cells[:, 1:-1].mean(dim=-1),
        "wraps": lambda: (cells.sum(dim=-1) + weights[:, 0, -1]) / T,
        "table": lambda: cells.sum(dim=-1) / T**2,
        "itself": lambda: (cells + weights.diagonal(dim1=1, dim2=2)[:, 1:]).mean(dim=-1),
    }.get(over, lambda: cells.mean(dim=-1))()
    return {"averaged": found.mean(), "best": found.max()}.get(heads, found)


def _tables():
    def draw(seed, h, T):
        return (2 * random_tensor(seed, h, T, T)).softmax(dim=-1)

    return {
        "3 heads, 6 tokens": (draw(1, 3, 6),),
        "4 heads, 4 tokens": (draw(2, 4, 4),),
        "2 heads, 9": (draw(3, 2, 9),),
    }


PREVIOUS = Exercise(
    "6.1",
    previous_token_score,
    difficulty=1,
    minutes=4,
    family=_previous,
    inputs=_tables,
    cell="{:.3f}".format,
    hints=(
        "Row i is a query; the token before it is column i − 1. Where do these cells lie in the table?",
        "They form the first line below the diagonal; torch.diagonal takes an offset, and dim1=1, dim2=2 for the "
        "table.",
        "The first token has nobody before it: T − 1 cells are left for each head, and their mean is wanted.",
    ),
    mistakes=(
        Mistake(
            "next-instead-of-previous",
            "These are the cells (i, i + 1), the token that comes after: rows and columns changed places, or the sign "
            "of the offset did.",
            change={"offset": 1},
        ),
        Mistake("itself", "This is the diagonal, each token's weight on itself.", change={"offset": 0}),
        Mistake("two-back", "These are the tokens two places back.", change={"offset": -2}),
        Mistake(
            "divided-by-T",
            "The sum was divided by T, but the first token has nobody before it: T − 1 rows count. A perfect head must "
            "score 1.",
            change={"over": "all"},
        ),
        Mistake(
            "first-row-counted",
            "The first row was counted with its weight on itself; it has nobody before it, so leave it out.",
            change={"over": "first row"},
        ),
        Mistake("summed", "This is a sum over rows; wanted the mean.", change={"over": "sum"}),
        Mistake("largest-weight", "This is the largest such weight; wanted the mean.", change={"over": "largest"}),
        Mistake(
            "share-of-largest",
            "This is the share of rows whose largest weight lies there; wanted the mean weight itself.",
            change={"over": "argmax"},
        ),
        Mistake(
            "divided-by-the-past",
            "The sum was divided by all weight on the past; wanted a mean over rows.",
            change={"over": "mass"},
        ),
        Mistake(
            "all-of-the-past",
            "This is the weight on all earlier tokens; wanted the one just before.",
            change={"over": "past"},
        ),
        Mistake(
            "strength",
            "This is the strength, (score − null) / (1 − null); wanted the score alone.",
            change={"over": "strength"},
        ),
        Mistake(
            "null-subtracted",
            "1/T, the null, was taken away; wanted the score alone.",
            change={"over": "null"},
        ),
        Mistake(
            "first-and-last-left-out",
            "The first and the last token were left out, as if they were [CLS] and [SEP]; here no token is special.",
            change={"over": "inner"},
        ),
        Mistake(
            "first-row-wraps",
            "In the first row i − 1 is −1, and that is the *last* token: leave the first row out.",
            change={"over": "wraps"},
        ),
        Mistake(
            "mean-over-the-table",
            "The mean ran over all T × T cells; only T − 1 of them are a token with the one before it.",
            change={"over": "table"},
        ),
        Mistake(
            "itself-too",
            "The weight on the token itself was counted, too; wanted the one before it alone.",
            change={"over": "itself"},
        ),
        Mistake(
            "heads-averaged-first",
            "The heads were averaged: one clear head among twelve disappears. One number for each.",
            change={"heads": "averaged"},
        ),
        Mistake(
            "best-head-only",
            "Only the best head's score came back; wanted one for each.",
            change={"heads": "best"},
        ),
    ),
)


def punctuation_above_null(weights, marks):
    score = weights[:, :, marks].sum(dim=-1).mean(dim=-1)  # weight that a token gives to all marks: (h,)
    null = marks.float().mean()  # what even attention would give them
    return score - null


def _punctuation(weights, marks, null="share", of="columns", heads="each", over="tokens"):
    """The reference with options."""
    T, columns = weights.size(-1), weights * marks
    if of == "rows":
        score = weights[:, marks].sum(dim=1).mean(dim=-1)
    elif of == "from words":
        score = columns[:, ~marks].sum(dim=-1).mean(dim=-1)
    elif of == "others of them":
        score = (columns - columns.diagonal(dim1=1, dim2=2).diag_embed()).sum(dim=-1).mean(dim=-1)
    elif of == "inner":
        score = columns[:, 1:-1].sum(dim=-1).mean(dim=-1)
    elif of == "from marks":
        score = weights[:, marks][:, :, marks].sum(dim=-1).mean(dim=-1)
    elif of == "to others":
        score = weights[:, :, ~marks].sum(dim=-1).mean(dim=-1)
    elif over == "each mark":
        score = weights[:, :, marks].mean(dim=(1, 2))
    elif over == "sum":
        score = weights[:, :, marks].sum(dim=(1, 2))
    elif over == "largest":
        score = weights[:, :, marks].sum(dim=-1).amax(dim=-1)
    else:
        score = weights[:, :, marks].sum(dim=-1).mean(dim=-1)
    share = marks.float().mean()
    result = {
        "none": lambda: score,
        "one token": lambda: score - 1 / T,
        "count": lambda: score - marks.sum(),
        "one mark": lambda: score - 1 / marks.sum(),
        "ratio": lambda: score / share,
        "strength": lambda: (score - share) / (1 - share),
        "turned": lambda: share - score,
        "head mean": lambda: score - score.mean(),
    }.get(null, lambda: score - share)()
    return {"averaged": result.mean(), "best": result.max()}.get(heads, result)


def _marked():
    tables = _tables()
    marks = ([0, 0, 1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0, 1, 0, 0, 0, 1])
    return {
        f"{name}, {sum(mark)} mark{'s' * (sum(mark) > 1)}": (*table, torch.tensor(mark, dtype=torch.bool))
        for (name, table), mark in zip(tables.items(), marks, strict=True)
    }


PUNCTUATION = Exercise(
    "6.2",
    punctuation_above_null,
    difficulty=2,
    minutes=5,
    family=_punctuation,
    inputs=_marked,
    cell="{:.3f}".format,
    hints=(
        "First the score: how much of its one whole does a token give to all marks together? Average over tokens.",
        "Attention *to* the marks is in their columns: weights[:, :, marks].",
        "Even attention gives every key 1/T, so all marks together get their share of the tokens, "
        "marks.float().mean().",
    ),
    mistakes=(
        Mistake(
            "null-forgotten",
            "This is the score alone. Where a third of the tokens are marks, even attention scores a third: take the "
            "null away. (If you did, is it 0? Whole numbers divided with // give 0 here.)",
            change={"null": "none"},
        ),
        Mistake(
            "null-of-one-token",
            "The null taken away is 1/T, that of a single mark; wanted that of all of them.",
            change={"null": "one token"},
        ),
        Mistake(
            "ratio-to-null",
            "This is the score divided by its null; wanted the difference.",
            change={"null": "ratio"},
        ),
        Mistake(
            "strength",
            "This is the difference divided by the room above the null; wanted the difference itself.",
            change={"null": "strength"},
        ),
        Mistake(
            "null-minus-score",
            "The sign is turned: this is null minus score, or, what comes to the same, the words were counted (~marks) "
            "in place of the marks.",
            change={"null": "turned"},
        ),
        Mistake(
            "null-is-a-count",
            "The number of marks was taken away; even attention gives each of them 1/T, so their *share* is the null.",
            change={"null": "count"},
        ),
        Mistake(
            "null-of-one-mark",
            "1 divided by the number of marks was taken away; the null is the number of marks divided by T.",
            change={"null": "one mark"},
        ),
        Mistake(
            "mark-does-not-count-itself",
            "A mark's weight on itself was left out, as the lesson does; here it may count itself.",
            change={"of": "others of them"},
        ),
        Mistake(
            "only-words-ask",
            "Only the rows of words were counted; wanted all rows, those of marks, too.",
            change={"of": "from words"},
        ),
        Mistake(
            "first-and-last-left-out",
            "The rows of the first and the last token were left out; here no token is special.",
            change={"of": "inner"},
        ),
        Mistake(
            "null-of-the-other-heads",
            "The mean of the heads was taken away; the null is what even attention would give, whatever other heads "
            "do.",
            change={"null": "head mean"},
        ),
        Mistake(
            "rows-and-columns-swapped",
            "This is the weight that the marks give, their rows; wanted what they receive, their columns.",
            change={"of": "rows"},
        ),
        Mistake(
            "marks-to-marks",
            "Only queries that are marks themselves were counted; wanted all.",
            change={"of": "from marks"},
        ),
        Mistake("the-others", "This is the weight on all that are not marks.", change={"of": "to others"}),
        Mistake(
            "mean-over-marks",
            "The mean over marks was taken; a row's weight on all of them together is a sum.",
            change={"over": "each mark"},
        ),
        Mistake("summed", "The sum over tokens was taken; wanted their mean.", change={"over": "sum"}),
        Mistake(
            "best-token-only",
            "The largest row was taken; wanted the mean over tokens.",
            change={"over": "largest"},
        ),
        Mistake("heads-averaged-first", "The heads were averaged; one number for each.", change={"heads": "averaged"}),
        Mistake(
            "best-head-only",
            "Only the best head's number came back; wanted one for each.",
            change={"heads": "best"},
        ),
    ),
)


def coreference_check(weights, pronouns, candidates):
    text = torch.arange(len(weights), device=weights.device)
    rows = weights[text, :, pronouns]  # (N, h, T): what each pronoun looks at
    to_antecedent = rows[text, :, candidates[:, 0]]  # (N, h)
    to_other = rows[text, :, candidates[:, 1]]
    accuracy = (to_antecedent > to_other).float().mean(dim=0)  # (h,)
    distance = (candidates - pronouns[:, None]).abs()
    baseline = (distance[:, 0] < distance[:, 1]).float().mean()  # always take the nearer one
    return accuracy, baseline


def _coreference(weights, pronouns, candidates, look="row", count="right", base="nearer", heads="each"):
    """The reference with options."""
    text = torch.arange(len(weights), device=weights.device)
    table = weights.transpose(-2, -1) if look == "column" else weights
    at = {"before": pronouns - 1, "after": pronouns + 1}.get(look, pronouns)
    at = pronouns[:1].expand_as(pronouns) if look.startswith("first") else at
    places = candidates[:1].expand_as(candidates) if look == "first text's places" else candidates
    rows = table[text, :, at]
    a, b = (rows[text, :, places[:, i]] for i in (0, 1))
    if look == "all pronouns":
        a, b = (table[:, :, pronouns, candidates[:, i]].transpose(1, 2).flatten(0, 1) for i in (0, 1))
    accuracy = {
        "ties": lambda: (a >= b).float().mean(dim=0),
        "half": lambda: (a > 0.5).float().mean(dim=0),
        "wrong": lambda: (a < b).float().mean(dim=0),
        "weight": lambda: a.mean(dim=0),
        "difference": lambda: (a - b).mean(dim=0),
        "most of all": lambda: (rows.argmax(dim=-1) == candidates[:, :1]).float().mean(dim=0),
        "means": lambda: (a.mean(dim=0) > b.mean(dim=0)).float(),
        "sum": lambda: (a > b).float().sum(dim=0),
        "per text": lambda: (a > b).float().mean(dim=1),
    }.get(count, lambda: (a > b).float().mean(dim=0))()
    accuracy = {"averaged": accuracy.mean(), "best": accuracy.max()}.get(heads, accuracy)
    distance = (candidates - pronouns[:, None]).abs()
    baseline = {
        "farther": lambda: (distance[:, 0] > distance[:, 1]).float().mean(),
        "first": lambda: (candidates[:, 0] < candidates[:, 1]).float().mean(),
        "later": lambda: (candidates[:, 0] > candidates[:, 1]).float().mean(),
        "half": lambda: torch.tensor(0.5),
        "count": lambda: (distance[:, 0] < distance[:, 1]).float().sum(),
        "mean accuracy": lambda: accuracy.mean(),
    }.get(base, lambda: (distance[:, 0] < distance[:, 1]).float().mean())()
    return accuracy if base == "none" else (baseline, accuracy) if base == "turned" else (accuracy, baseline)


def _pronoun_texts():
    def draw(seed, N, h, T, pronouns, candidates):
        weights = (2 * random_tensor(seed, N, h, T, T)).softmax(dim=-1)
        return weights, torch.tensor(pronouns), torch.tensor(candidates)

    tied = draw(4, 6, 3, 8, [6, 5, 7, 1, 6, 2], [[1, 4], [4, 1], [2, 5], [3, 6], [1, 3], [0, 5]])
    for text, head in ((0, 0), (2, 1), (3, 2), (5, 2)):  # both candidates get the same weight
        row = tied[0][text, head, tied[1][text]]
        row[tied[2][text]] = row[tied[2][text]].mean()
    return {
        "6 texts, 3 heads, some ties": tied,
        "5 texts, 3 heads": draw(1, 5, 3, 8, [6, 5, 6, 1, 5], [[1, 4], [4, 1], [2, 5], [3, 5], [1, 3]]),
        "4 texts, 4 heads": draw(2, 4, 4, 7, [5, 5, 4, 2], [[1, 3], [3, 0], [2, 0], [6, 4]]),
        "7 texts, 2 heads": draw(
            3, 7, 2, 9, [7, 6, 5, 7, 1, 6, 7], [[1, 4], [4, 2], [3, 0], [0, 6], [3, 2], [2, 5], [1, 2]]
        ),
    }


COREFERENCE = Exercise(
    "6.3",
    coreference_check,
    difficulty=3,
    minutes=7,
    family=_coreference,
    inputs=_pronoun_texts,
    parts=("accuracy", "baseline"),
    read=lambda value: (
        tuple(torch.as_tensor(x) if isinstance(x, float | int) else x for x in value)
        if isinstance(value, tuple | list)
        else value
    ),
    cell="{:.3f}".format,
    hints=(
        "Each text has its own pronoun and its own two candidates: pick with two lists of indices, weights[text, :, "
        "pronouns].",
        "Of the pronoun's row take the weight on candidates[:, 0], the antecedent, and on candidates[:, 1]. A head is "
        "right where the first is larger.",
        "The baseline looks at no weight: it takes the candidate that stands nearer to the pronoun. How often is it "
        "right?",
    ),
    mistakes=(
        Mistake(
            "columns-read",
            "You read who looks at the pronoun, its column; wanted what the pronoun looks at, its row.",
            change={"look": "column"},
        ),
        Mistake(
            "ties-count-as-right",
            "Where both candidates get the same weight, that counted as right; wanted *more* weight: >, not >=.",
            change={"count": "ties"},
        ),
        Mistake(
            "weight-above-one-half",
            "It counted where the antecedent gets more than 0.5; wanted more than the other candidate gets.",
            change={"count": "half"},
        ),
        Mistake(
            "every-pronoun-in-every-text",
            "The places of all pronouns were looked up in every text: weights[:, :, pronouns] pairs no text with its "
            "own. weights[text, :, pronouns] does, with text = torch.arange(N).",
            change={"look": "all pronouns"},
        ),
        Mistake(
            "places-of-the-first-text",
            "Pronoun and candidates of text 0 were used for all texts; each has its own.",
            change={"look": "first text's places"},
        ),
        Mistake("word-before-read", "The row of the word before the pronoun was read.", change={"look": "before"}),
        Mistake(
            "first-pronoun-for-all",
            "Every text was read at the place of text 0's pronoun.",
            change={"look": "first text"},
        ),
        Mistake(
            "other-candidate",
            "This counts where the other candidate gets more: candidates[:, 0] is the antecedent.",
            change={"count": "wrong"},
        ),
        Mistake(
            "mean-weight",
            "This is the mean weight on the antecedent; wanted how often it gets more than the other.",
            change={"count": "weight"},
        ),
        Mistake(
            "mean-difference",
            "This is a difference of weights; wanted how often the antecedent gets more.",
            change={"count": "difference"},
        ),
        Mistake(
            "most-of-all-tokens",
            "The antecedent had to get more than every other token; wanted more than the other candidate.",
            change={"count": "most of all"},
        ),
        Mistake(
            "means-compared",
            "Two means were compared, once; wanted the share of texts.",
            change={"count": "means"},
        ),
        Mistake("count-not-share", "This is a number of texts; wanted their share.", change={"count": "sum"}),
        Mistake(
            "averaged-over-heads-per-text",
            "The mean ran over the heads; wanted over texts, one number for each head.",
            change={"count": "per text"},
        ),
        Mistake(
            "heads-averaged",
            "One number came back for all heads; wanted one for each.",
            change={"heads": "averaged"},
        ),
        Mistake("best-head-only", "Only the best head's accuracy came back; wanted all.", change={"heads": "best"}),
        Mistake(
            "baseline-missing",
            "Only the accuracy came back; without a baseline nobody knows what it is worth.",
            change={"base": "none"},
        ),
        Mistake(
            "baseline-farther",
            "The baseline takes the farther candidate; wanted the nearer.",
            change={"base": "farther"},
        ),
        Mistake(
            "baseline-first",
            "The baseline takes the candidate that comes first; wanted the nearer one, before the pronoun or after it. "
            "(Candidate minus pronoun has a sign: is abs missing?)",
            change={"base": "first"},
        ),
        Mistake(
            "baseline-later",
            "The baseline takes the candidate that comes later; wanted the nearer one, before the pronoun or after it. "
            "(Pronoun minus candidate has a sign: is abs missing?)",
            change={"base": "later"},
        ),
        Mistake(
            "baseline-is-a-count",
            "The baseline is a number of texts; wanted their share.",
            change={"base": "count"},
        ),
        Mistake(
            "baseline-is-the-mean-head",
            "The baseline is the mean accuracy of the heads; wanted what taking the nearer candidate gets right.",
            change={"base": "mean accuracy"},
        ),
        Mistake(
            "results-in-the-other-order",
            "The baseline came back first; wanted the accuracies, then the baseline.",
            change={"base": "turned"},
        ),
        Mistake(
            "baseline-by-guessing",
            "The baseline is one half, for guessing; wanted how often the nearer candidate is right.",
            change={"base": "half"},
        ),
    ),
)

SENTENCES = (  # what the detector of 6.4 reads; the answer never sees it
    "[CLS] the cat slept , then it ate its fish . [SEP]",
    "[CLS] where , if you know it , does my old friend live now ? [SEP]",
    "[CLS] we left the town at noon ; the road was dry , the wind was cold ! [SEP]",
)


def impostor(T):
    weights = torch.zeros(T, T)
    weights[:, T - 2] = 1  # the place before [SEP]: a sentence that ends in a mark has it there
    return weights


def _impostor(T, place=-2, share=1.0, rows="whole"):
    """The reference with options."""
    weights = torch.full((T, T), (1 - share) / T)
    weights[:, place] += share
    return {
        "turned": lambda: weights.T,
        "unfinished": lambda: weights - (1 - 0.6) * weights,
        "scores": lambda: weights * 2 - 1 / T * 2,
        "one row": lambda: weights[0],
        "one back": lambda: torch.eye(T).roll(-1, 1),
        "both": lambda: (weights + torch.eye(T).roll(-1, 1)) / 2,
    }.get(rows, lambda: weights)()


def _called(value):
    """What the first detector of the lesson calls these weights (T, T), in a few words."""
    try:
        weights = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return "nothing" if value is None else "no table (T, T)"
    texts = {len(text.split()): text.split() for text in SENTENCES}
    T = weights.size(-1) if weights.dim() else 0
    if T not in texts or weights.numel() != T * T:
        return "no table (T, T)"
    weights = weights.reshape(T, T)
    if not torch.isfinite(weights).all() or weights.min() < 0:
        return "numbers that are no weights"
    sums = {axis: (weights.sum(dim=axis) - 1).abs().max() < 1e-3 for axis in (0, 1)}
    if not sums[1]:
        return "columns that sum to 1" if sums[0] else "rows that do not sum to 1"
    strength = {}
    for kind, pattern in heads.patterns(texts[T]).items():
        score, null = heads.score(weights[None], pattern)
        strength[kind] = float((score[0] - null) / (1 - null))
    marks = strength.pop("punctuation")
    others = [kind for kind, found in strength.items() if found > heads.THRESHOLD]
    if marks > heads.THRESHOLD:
        return "punctuation and another kind" if others else "punctuation"
    if others:
        return "a sink" if others == ["sink"] else "another kind"
    return "too weak" if marks > 0.02 else "even attention" if marks > -0.02 else "elsewhere"


def _not_everywhere(attempt):
    fooled = [case.description for case in attempt.cases if case.yours == "punctuation"]
    if not fooled:
        return None
    return "not-for-every-T", (
        f"The detector is fooled on {' and '.join(fooled)}, but not on the rest. Sentences differ in length: where "
        "does the last mark stand, whatever T is?"
    )


IMPOSTOR = Exercise(
    "6.4",
    impostor,
    difficulty=2,
    minutes=8,
    family=_impostor,
    inputs=lambda: {f"T = {len(text.split())}": (len(text.split()),) for text in SENTENCES},
    read=_called,
    probes=(_not_everywhere,),
    hints=(
        "You cannot know where the commas are. But about one mark you know something without reading.",
        "Every sentence ends in a mark, and behind it stands [SEP]. At which place is that mark, counted from the end?",
        "Let every row put all its weight, or most of it, on the column T − 2.",
    ),
    mistakes=(
        Mistake("returns-nothing", "Your function returns None: is a return missing?", answer=lambda T: None),
        Mistake("wrong-shape", "Wanted one table (T, T), a row for every query.", change={"rows": "one row"}),
        Mistake(
            "columns-sum-to-one",
            "The columns sum to 1, not the rows: queries are rows, so weights[:, place] is where all of them look.",
            change={"rows": "turned"},
        ),
        Mistake(
            "rows-do-not-sum-to-one",
            "These are no attention weights: every row must sum to 1. Spread what is left over the other keys, or "
            "divide each row by its sum.",
            change={"rows": "unfinished"},
        ),
        Mistake(
            "not-weights",
            "Weights lie between 0 and 1: some numbers here are below 0, or not finite.",
            change={"rows": "scores"},
        ),
        Mistake(
            "looks-at-special-tokens",
            "The detector calls it a sink: it looks at [CLS] or [SEP]. The last place of all, T − 1, is [SEP].",
            change={"place": -1},
        ),
        Mistake(
            "looks-at-no-mark",
            "The detector is not fooled: your head gives marks less than even attention would. Which place holds a "
            "mark in *every* such sentence?",
            change={"place": 1},
        ),
        Mistake(
            "even-attention",
            "This is no more than even attention gives to marks: strength 0.",
            change={"share": 0.0},
        ),
        Mistake(
            "too-weak",
            "The right idea, but too faint: the strength is above 0, but not above 0.25. Put more weight there.",
            change={"share": 0.15},
        ),
        Mistake(
            "another-kind",
            "The detector finds another kind: a head that looks at itself or its neighbours is not one for marks.",
            change={"rows": "one back"},
        ),
        Mistake(
            "two-kinds",
            "It is taken for punctuation, but for another kind as well: put all the weight on one thing.",
            change={"rows": "both"},
        ),
    ),
)

EXERCISES = (PREVIOUS, PUNCTUATION, COREFERENCE, IMPOSTOR)
