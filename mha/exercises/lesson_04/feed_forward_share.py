"""Exercise 4.2: the feed-forward block's share of a layer."""

from mha.accounting import feed_forward_parameters
from mha.exercises.compare import whole
from mha.exercises.exercise import Exercise, Mistake


def feed_forward_share(d_model, expansion=4):
    attention = 4 * d_model**2
    feed_forward = 2 * expansion * d_model**2  # up, d → expansion·d, and down again
    return feed_forward / (attention + feed_forward)


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
    said = ", ".join(odds)
    says = f"At expansion 1, 2, 4 you give the feed-forward block {said} times attention's; wanted 0.5, 1, 2."
    return "wrong-proportion", says


# fmt: off
EXERCISE = Exercise(
    "4.2", feed_forward_share, difficulty=1, minutes=3, read=whole, probes=(share,),
    fresh=lambda: [(100, 3), (20, 5), (64, 4)],
    inputs=lambda: {f"d = {d}, expansion = {e}": (d, e) for d, e in ((512, 4), (8, 4), (64, 1), (12, 2), (16, 8))},
    hints=(
        "Attention has 4·d². The feed-forward block has two matrices, d × (expansion·d) and back.",
        "A share is a part divided by the whole, and the whole is both blocks together.",
    ),
    mistakes=(
        Mistake("attention-share", "This is the share of attention; wanted what is left of 1.",
            ("return feed_forward /", "return attention /")),
        Mistake("ratio-not-share", "This is feed-forward divided by attention; a share divides by both together.",
            ("(attention + feed_forward)", "attention")),
        Mistake("attention-over-feed-forward", "This is attention divided by feed-forward; a share divides by both "
            "together.", ("feed_forward / (attention + feed_forward)", "attention / feed_forward")),
        Mistake("one-matrix", "One feed-forward matrix is counted; there is one up and one down.",
            ("4 * d_model**2\n    feed_forward = 2", "4 * d_model**2\n    feed_forward = 1")),
        Mistake("expansion-ignored", "Two thirds always: the argument changes nothing.", ("2 * expansion", "8")),
        Mistake("expansion-squared", "The inner width is squared; a matrix up is d × (expansion·d).",
            ("2 * expansion", "2 * expansion**2")),
        Mistake("square-middle", "A third matrix was counted, from inner width to inner width; there are two, up and "
            "down.", ("2 * expansion", "(2 + expansion) * expansion")),
        Mistake("no-output-matrix", "Attention is counted as 3·d²: W_O is missing.", ("4 *", "3 *")),
        Mistake("one-attention-matrix", "Attention is counted as d²; it has four matrices.", ("4 *", "1 *")),
        Mistake("percent", "This is in percent; wanted a share between 0 and 1.", ("return feed", "return 100 * feed")),
        Mistake("whole-division", "// drops the fraction: 0. Use / for a share.", (" / ", " // ")),
        Mistake("with-biases", "Biases were counted as well; wanted the matrices alone.",
            ("4 * d_model**2", "4 * (d_model + 1) * d_model"),
            ("2 * expansion * d_model**2", "(2 * expansion * d_model + expansion + 1) * d_model")),
        Mistake("count-not-share", "This is a count; wanted a share, 0 to 1.", (" / (attention + feed_forward)", "")),
        Mistake("not-squared", "Attention is counted as 4·d, not as 4·d².", ("4 * d_model**2", "4 * d_model")),
    ),
    right=(
        lambda d, expansion=4: expansion / (expansion + 2),
        lambda d, e=4: 1 - 4 * d * d / (4 * d * d + sum(feed_forward_parameters(d, e).values())),
    ),
)
