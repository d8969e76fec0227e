"""Exercise 8.3: the smallest number of heads that is good enough, whatever the seed."""

import copy

from mha.exercises.exercise import Exercise, Mistake


def smallest_h(results, target):
    good = [h for h in results if min(results[h]) >= target]  # the worst seed decides
    return min(good, default=None)


# fmt: off
TABLES = {  # {h: quality of each seed}, and the target
    "one bad seed, not sorted":
        ({4: [0.99, 0.7, 0.98], 2: [0.75, 0.95, 0.6], 32: [0.96, 0.98, 0.96], 16: [0.99, 1.0, 0.99],
          8: [0.96, 0.97, 0.95]}, 0.95),
    "nothing is good enough":
        ({2: [0.6, 0.79, 0.7], 1: [0.3, 0.2, 0.1], 4: [0.7, 0.6, 0.7]}, 0.8),
    "more heads are worse again":
        ({1: [0.2, 0.1, 0.3], 4: [0.97, 0.93, 0.9], 2: [0.91, 0.9, 0.9], 32: [0.5, 0.8, 0.8]}, 0.9),
    "a mean above, a seed below":
        ({2: [0.5, 1.0, 1.0], 1: [0.1, 0.2, 0.3], 8: [0.8, 0.85, 0.9], 4: [0.85, 1.0, 0.8],
          16: [0.82, 0.9, 0.95]}, 0.8),
    "again nothing":
        ({8: [0.5, 0.4], 16: [0.6, 0.3]}, 0.99),
}

EXERCISE = Exercise(
    "8.3", smallest_h, difficulty=1, minutes=4, cell="{:g}".format,
    inputs=lambda: copy.deepcopy(TABLES),
    hints=(
        "You will train once, with a seed you have not tried. Of the qualities of one h, which one promises "
        "something?",
        "An h is good enough if its worst seed reaches the target (≥). Of those, the smallest; None if there is none.",
    ),
    mistakes=(
        Mistake("mean-over-seeds", "The mean over seeds reaches the target, and one seed lies below it: the next "
            "training may be that one. Ask the worst seed.", ("min(results[h])", "sum(results[h]) / len(results[h])")),
        Mistake("best-seed", "The best seed reaches the target; the others need not. Ask the worst.",
            ("min(results[h])", "max(results[h])")),
        Mistake("middle-seed", "The middle seed reaches the target; half of them may lie below. Ask the worst.",
            ("min(results[h])", "sorted(results[h])[len(results[h]) // 2]")),
        Mistake("first-seed", "Only the first seed was asked. Ask the worst.", ("min(results[h])", "results[h][0]")),
        Mistake("above-instead-of-at-least", "An h that just reaches the target is enough: ≥, not >.", (">=", ">")),
        Mistake("largest-h", "This is the largest good h; wanted the smallest.", ("min(good", "max(good")),
        Mistake("best-h", "This is the h with the best worst seed, whatever the target; wanted the smallest that "
            "reaches it.", ("min(good, default=None)", "max(good, key=lambda h: min(results[h]), default=None)")),
        Mistake("first-in-the-table", "This is the first good h in the order of the table, which is not sorted.",
            ("min(good, default=None)", "next(iter(good), None)")),
        Mistake("quality-instead-of-h", "This is the quality that the chosen h reaches; wanted h itself.",
            ("return min(good, default=None)", "return min(results[min(good)]) if good else None")),
        Mistake("all-larger-too", "You asked that all larger h be good as well. They need not be: too many heads can "
            "be worse again.", ("if min(results[h]) >= target",
             "if all(min(results[more]) >= target for more in results if more >= h)")),
        Mistake("largest-if-none", "Where nothing reaches the target you return an h all the same; wanted None, so "
            "that somebody notices.", ("default=None", "default=max(results)")),
        Mistake("zero-if-none", "Where nothing reaches the target you return 0; wanted None.",
            ("default=None", "default=0")),
        Mistake("raises-if-none", "Where nothing reaches the target your function raises an error; wanted None.",
            (", default=None", "")),
    ),
    right=(
        lambda results, target: next((h for h in sorted(results) if min(results[h]) >= target), None),
        lambda results, target: min((h for h, q in results.items() if all(x >= target for x in q)), default=None),
    ),
    fresh=lambda: [({3: [0.5, 0.5], 1: [0.5, 0.4]}, 0.5), ({2: [0.9]}, 0.95), ({8: [1, 1], 4: [1, 1], 2: [1, 0]}, 1)],
)
