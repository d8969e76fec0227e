"""Exercise 6.3: how often a head finds what a pronoun stands for, beside a baseline."""

import torch

from mha.exercises.exercise import BEST_HEAD, HEADS_AVERAGED, Exercise, Mistake, random_tensor, random_weights


def coreference_check(weights, pronouns, candidates):
    text = torch.arange(len(weights), device=weights.device)
    rows = weights[text, :, pronouns]  # (N, h, T): what each pronoun looks at
    to_antecedent = rows[text, :, candidates[:, 0]]  # (N, h)
    to_other = rows[text, :, candidates[:, 1]]
    accuracy = (to_antecedent > to_other).float().mean(dim=0)  # (h,)
    distance = (candidates - pronouns[:, None]).abs()
    baseline = (distance[:, 0] < distance[:, 1]).float().mean()  # always take the nearer one
    return accuracy, baseline


def _draw(seed, N, h, T):
    """N texts of T tokens; a pronoun and two candidates stand at three of their places."""
    places = random_tensor(seed, N, T).argsort(dim=-1)
    return random_weights(seed + 1, N, h, T, T), places[:, 0], places[:, 1:3]


def _inputs():
    tied = weights, pronouns, candidates = _draw(4, 6, 3, 8)
    for text, head in ((0, 0), (2, 1), (3, 2), (5, 2)):  # both candidates get the same weight
        row = weights[text, head, pronouns[text]]
        row[candidates[text]] = row[candidates[text]].mean()
    near = _draw(5, 5, 3, 9)
    near[1][:2], near[2][:2] = torch.tensor([4, 5]), torch.tensor([[2, 6], [7, 3]])
    return {
        "6 texts, 3 heads, some ties": tied, "5 texts, 3 heads, some equally near": near,
        "4 texts, 4 heads": _draw(2, 4, 4, 7), "7 texts, 2 heads": _draw(3, 7, 2, 9),
    }  # fmt: skip


def _read(value):
    """A number is as good as a tensor of one."""
    if not isinstance(value, tuple | list):
        return value
    return tuple(torch.as_tensor(x) if isinstance(x, float | int) else x for x in value)


NEARER = "(distance[:, 0] < distance[:, 1]).float().mean()"


# fmt: off
EXERCISE = Exercise(
    "6.3", coreference_check, difficulty=3, minutes=7,
    inputs=_inputs, read=_read,
    parts=("accuracy", "baseline"), cell="{:.3f}".format,
    hints=(
        "Each text has its own pronoun and its own two candidates: pick with two lists of indices, weights[text, :, "
        "pronouns].",
        "Of the pronoun's row take the weight on candidates[:, 0], the antecedent, and on candidates[:, 1]. A head is "
        "right where the first is larger.",
        "The baseline looks at no weight: it takes the candidate that stands nearer to the pronoun. How often is it "
        "right?",
    ),
    mistakes=(
        Mistake("columns-read", "You read who looks at the pronoun, its column; wanted what the pronoun looks at, its "
            "row.", ("weights[text, :, pronouns]", "weights.mT[text, :, pronouns]")),
        Mistake("ties-count-as-right", "Where both candidates get the same weight, that counted as right; wanted "
            "*more* weight: >, not >=.", ("> to_other", ">= to_other")),
        Mistake("weight-above-one-half", "It counted where the antecedent gets more than 0.5; wanted more than the "
            "other candidate gets.", ("> to_other", "> 0.5")),
        Mistake("every-pronoun-in-every-text", "The places of all pronouns were looked up in every text: weights[:, :, "
            "pronouns] pairs no text with its own. weights[text, :, pronouns] does, with text = torch.arange(N).",
            ("weights[text, :, pronouns]", "weights[:, :, pronouns].permute(2, 1, 3, 0)"),
            ("mean(dim=0)", "mean(dim=(0, 2))")),
        Mistake("places-of-the-first-text", "Pronoun and candidates of text 0 were used for all texts; each has its "
            "own.", ("pronouns]", "pronouns[0]]"), ("candidates[:, 0]", "candidates[0, 0]"),
            ("candidates[:, 1]", "candidates[0, 1]")),
        Mistake("word-before-read", "The row of the word before the pronoun was read.", ("pronouns]", "pronouns - 1]")),
        Mistake("first-pronoun-for-all", "Every text was read at text 0's pronoun.", ("pronouns]", "pronouns[0]]")),
        Mistake("first-pronoun-for-everything", "Text 0's pronoun was used for every text, in the weights and in the "
            "distances; each text has its own.", ("pronouns]", "pronouns[0]]"), ("pronouns[:,", "pronouns[:1,")),
        Mistake("other-candidate", "This counts where the other candidate gets more: candidates[:, 0] is the "
            "antecedent.", ("> to_other", "< to_other")),
        Mistake("mean-weight", "This is the mean weight on the antecedent; wanted how often it gets more than the "
            "other.", ("(to_antecedent > to_other)", "to_antecedent")),
        Mistake("mean-difference", "This is a difference of weights; wanted how often the antecedent gets more.",
            ("> to_other", "- to_other")),
        Mistake("most-of-all-tokens", "The antecedent had to get more than every other token; wanted more than the "
            "other candidate.", ("to_antecedent > to_other", "rows.argmax(dim=-1) == candidates[:, :1]")),
        Mistake("means-compared", "Two means were compared, once; wanted the share of texts.",
            ("(to_antecedent > to_other).float().mean(dim=0)", "(to_antecedent - to_other).mean(dim=0).gt(0).float()")),
        Mistake("count-not-share", "This is a number of texts; wanted their share.",
            ("> to_other).float().mean", "> to_other).float().sum")),
        Mistake("averaged-over-heads-per-text", "The mean ran over the heads; wanted over texts, one number for each "
            "head.", ("> to_other).float().mean(dim=0)", "> to_other).float().mean(dim=1)")),
        Mistake("heads-averaged", HEADS_AVERAGED, ("  # (h,)", ".mean()  # (h,)")),
        Mistake("best-head-only", BEST_HEAD, ("  # (h,)", ".max()  # (h,)")),
        Mistake("baseline-missing", "Only the accuracy came back; without a baseline nobody knows what it is worth.",
            ("accuracy, baseline", "accuracy")),
        Mistake("baseline-equally-near-counts", "Where both candidates are equally near, that counted as right; "
            "neither is nearer there, so it counts as wrong: <, not <=.", ("< distance", "<= distance")),
        Mistake("baseline-farther", "The baseline takes the farther; wanted the nearer.", ("< distance", "> distance")),
        Mistake("baseline-first", "The baseline takes the candidate that comes first; wanted the nearer one, before "
            "the pronoun or after it. (Candidate minus pronoun has a sign: is abs missing?)",
            ("distance[:, 0] < distance[:, 1]", "candidates[:, 0] < candidates[:, 1]")),
        Mistake("baseline-later", "The baseline takes the candidate that comes later; wanted the nearer one, before "
            "the pronoun or after it. (Pronoun minus candidate has a sign: is abs missing?)",
            ("distance[:, 0] < distance[:, 1]", "candidates[:, 0] > candidates[:, 1]")),
        Mistake("baseline-is-a-count", "The baseline is a number of texts; wanted their share.",
            ("< distance[:, 1]).float().mean", "< distance[:, 1]).float().sum")),
        Mistake("baseline-is-the-mean-head", "The baseline is the mean accuracy of the heads; wanted what taking the "
            "nearer candidate gets right.", (NEARER, "accuracy.mean()")),
        Mistake("results-in-the-other-order", "The baseline came back first; wanted the accuracies, then the baseline.",
            ("accuracy, baseline", "baseline, accuracy")),
        Mistake("baseline-by-guessing", "The baseline is one half, for guessing; wanted how often the nearer candidate "
            "is right.", (NEARER, "torch.tensor(0.5)")),
    ),
    fresh=lambda: [_draw(1, 32, 5, 9), _draw(3, 32, 2, 9), _inputs()["6 texts, 3 heads, some ties"]],
)
