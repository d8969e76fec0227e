"""Exercise 3.3: the whole of multi-head attention."""

import itertools
import math

import torch

from mha.exercises.exercise import NO_SCALE, Exercise, Mistake, random_tensor
from mha.exercises.lesson_01.attention import EXERCISE as ATTENTION
from mha.exercises.probes import log_ratio, name_the_scale


def multi_head_attention(x, w_qkv, w_out, num_heads, mask=None):
    B, T, d = x.shape
    parts = (x @ w_qkv.T).chunk(3, dim=-1)  # nn.Linear stores (out, in); three times (B, T, d)
    q, k, v = (part.view(B, T, num_heads, d // num_heads).transpose(1, 2) for part in parts)  # (B, h, T, d_k)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d // num_heads)  # (B, h, T, T)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    context = scores.softmax(dim=-1) @ v  # (B, h, T, d_k)
    return context.transpose(1, 2).reshape(B, T, d) @ w_out.T


def _draw(seed, B, T, d, h):
    # Large enough that weights are far from even, small enough that exp does not overflow.
    shapes = (B, T, d), (3 * d, d), (d, d)
    x, w_qkv, w_out = (random_tensor(seed + i, *shape) for i, shape in enumerate(shapes))
    return x, w_qkv / d**0.5, w_out, h


def _inputs():
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    padding = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]  # (B, 1, 1, T)
    per_head = torch.tensor([[[1, 0, 0], [0, 1, 1], [1, 1, 0]], [[1, 1, 0], [1, 0, 0], [0, 1, 1]]]).bool()[None]
    half = tuple(t.half() if isinstance(t, torch.Tensor) else t for t in _draw(40, 2, 6, 12, 3))
    return {  # first the one on which fewest mistakes show, so that few pairs of them need a try
        "x (2, 3, 4), 1 head": _draw(70, 2, 3, 4, 1),
        "x (2, 5, 12), 3 heads": _draw(10, 2, 5, 12, 3),
        "x (2, 6, 12), 3 heads, half precision, a causal mask": (*half, causal),
        "x (3, 6, 10), 2 heads, a causal mask": (*_draw(20, 3, 6, 10, 2), causal),
        "x (2, 5, 12), 2 heads, a padding mask": (*_draw(30, 2, 5, 12, 2), padding),
        "x (2, 4, 8), 4 heads": _draw(50, 2, 4, 8, 4),
        "x (1, 3, 6), 2 heads, a mask per head (1, 2, 3, 3)": (*_draw(60, 1, 3, 6, 2), per_head),
    }


# The answer as a black box (x, w_qkv, w_out, num_heads, mask): change one thing, see what moves.

D, H, T = 12, 2, 5


def _black_box(attempt, x, mask=None):
    """The contexts of two heads side by side, as w_out changes nothing; None where the answer makes none."""
    output = attempt.call(x, random_tensor(7, 3 * D, D) / 3, torch.eye(D), H, mask)
    usable = isinstance(output, torch.Tensor) and output.shape == x.shape and not output.isnan().any()
    return output if usable else None


def _moved(attempt, mask=None):
    """bool (text changed, token changed, text, token, feature): which outputs move; None where there are none."""
    x, outputs = random_tensor(5, 2, T, D), []
    for b, t in itertools.product(range(2), range(T)):
        other = x.clone()
        other[b, t] = random_tensor(100 * b + t, D)
        outputs.append(_black_box(attempt, other, mask))
    before = _black_box(attempt, x, mask)
    if before is None or any(output is None for output in outputs):
        return None
    return ((torch.stack(outputs) - before).abs() > 1e-6).view(2, T, 2, T, D)


def receptive_field(attempt):
    """Which tokens and texts an output depends on, without a mask and with two kinds."""
    moved = _moved(attempt)
    if moved is None:
        return None
    if moved[0, :, 1].any() or moved[1, :, 0].any():
        return "texts-mixed", "Changing text 0 moves the output of text 1: the batch axis has been mixed in."
    sees = moved[0, :, 0].any(-1).T  # (T that sees, T that is seen)
    if not (sees & ~torch.eye(T, dtype=torch.bool)).any():
        return "tokens-do-not-mix", "Each output depends on its own token alone: scores must be tokens × tokens."
    if not sees.all():
        t, s = (~sees).nonzero()[0].tolist()
        return "token-not-seen", f"Without a mask, output {t} does not depend on token {s}: a head must see them all."
    if not moved[0, :, 0].any(0).any(0).all():
        return "output-never-moves", "Some features of the output depend on nothing: are they zeros or constants?"
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    moved = _moved(attempt, causal)
    if moved is not None:
        sees = moved[0, :, 0].any(-1).T
        for name, wrong, says in (
            ("future-leak", sees & ~causal, "depends on token {}, which lies in its future (True = may attend)"),
            ("past-not-seen", ~sees & causal, "does not depend on token {}, which it may see"),
        ):
            if wrong.any():
                t, s = wrong.nonzero()[0].tolist()
                return name, f"Under a causal mask, output {t} {says.format(s)}."
    moved = _moved(attempt, (torch.arange(T) < torch.tensor([T, T - 2])[:, None])[:, None, None])
    if moved is not None and moved[1, T - 1, 1, : T - 2].any():
        return "padding-leak", "A padded token moves the output of real ones: the padding mask does not hide it."
    return None


def blind_features(attempt):
    """Whether every head reads the whole embedding."""
    x = random_tensor(5, 2, T, D)
    before = _black_box(attempt, x)
    for head, f in itertools.product(range(H), range(D)):
        other = x.clone()
        other[0, 0, f] += 1
        after = _black_box(attempt, other)
        own = slice(head * D // H, (head + 1) * D // H)
        if before is not None and after is not None and (after - before)[0, :, own].abs().max() < 1e-6:
            says = f"Head {head} does not depend on feature {f}: project the whole embedding, then split the product."
            return "blind-features", says
    return None


def hidden_scale(attempt):
    """As `wrong_scale`, but the weights are read from the outputs of values that are one-hot."""
    factors = {}
    tokens = {6: 5, 9: 7}  # by d_k
    for d_k, T in tokens.items():
        d = 2 * d_k
        x = torch.cat([torch.eye(T), random_tensor(3, T, d - T)], dim=-1)[None]
        w_q, w_k = random_tensor(1, d, d) / 3, random_tensor(2, d, d) / 3
        w_v = torch.zeros(d, d)
        for head in range(2):
            w_v[head * d_k : head * d_k + T, :T] = torch.eye(T)
        output = attempt.call(x, torch.cat([w_q, w_k, w_v]), torch.eye(d), 2)
        if not isinstance(output, torch.Tensor) or output.shape != x.shape:
            return None
        q, k = (x[0] @ w[:d_k].T for w in (w_q, w_k))
        factors[d_k] = log_ratio(output[0, :, :T], (q @ k.T / math.sqrt(d_k)).softmax(-1))
    return name_the_scale(
        factors, {"d_k": lambda d_k: d_k, "d": lambda d_k: 2 * d_k, "the number of tokens": lambda d_k: tokens[d_k]}
    )


def _sliced(x, w, num_heads):
    """Each head sees its own features alone, through one small matrix shared by all."""
    d_k = x.size(-1) // num_heads
    return torch.cat([part @ w[:d_k, :d_k].T for part in x.chunk(num_heads, -1)], -1)


def _of_attention(name, *edits):
    return Mistake(name, ATTENTION.mistake(name).says, *edits)


SPLIT = "view(B, T, num_heads, d // num_heads).transpose(1, 2)"
HIDDEN = 'scores.masked_fill(~mask, float("-inf"))'

# fmt: off
EXERCISE = Exercise(
    "3.3", multi_head_attention, difficulty=3, minutes=8,
    probes=(receptive_field, blind_features, hidden_scale), inputs=_inputs, tolerance=1e-3,
    hints=(
        "Five steps: project x once, cut the product in three, split each into heads, attend, merge and project. Write "
        "the shape beside each line.",
        "nn.Linear stores (out, in): w_qkv is (3d, d), so the product is x @ w_qkv.T, (B, T, 3d). Then chunk(3, "
        "dim=-1).",
        "my_split_heads and my_merge_heads do two of the steps; scaled_dot_product_attention returns two things, of "
        "which the first is wanted. In the end comes @ w_out.T.",
    ),
    mistakes=(
        Mistake("w-qkv-not-transposed", "x @ w_qkv does not fit: nn.Linear stores (out, in), here (3d, d). The product "
            "is x @ w_qkv.T.", ("w_qkv.T", "w_qkv")),
        Mistake("w-qkv-reshaped", "w_qkv was reshaped to (d, 3d) to make the product possible, which shuffles its "
            "numbers. Turn it: w_qkv.T.", ("w_qkv.T", "w_qkv.reshape(d, 3 * d)")),
        Mistake("embedding-sliced", "The embedding was sliced into heads before it was projected, so that head 0 is "
            "blind to the other features. Project the whole, then split.",
            ("(x @ w_qkv.T).chunk(3, dim=-1)", "[_sliced(x, w, num_heads) for w in w_qkv.chunk(3)]")),
        Mistake("keys-before-queries", "The product was cut as K, Q, V; wanted Q, K, V.", ("q, k, v =", "k, q, v =")),
        Mistake("values-before-keys", "The product was cut as Q, V, K; wanted Q, K, V.", ("q, k, v =", "q, v, k =")),
        Mistake("values-first", "The product was cut as V, K, Q; wanted Q, K, V.", ("q, k, v =", "v, k, q =")),
        Mistake("interleaved-layout", "w_qkv was read head by head, [q₀ k₀ v₀ q₁ …]. Here all queries come first: cut "
            "in three, then into heads.", (".chunk(3, dim=-1)", ".view(B, T, num_heads, 3, -1).unbind(3)")),
        Mistake("heads-are-slices-of-the-text", "view(B, h, T, d_k) names the axes in another order than the numbers "
            "lie: each head got a slice of the text. View as (B, T, h, d_k), then transpose(1, 2).",
            (SPLIT, "reshape(B, num_heads, T, d // num_heads)")),
        Mistake("tokens-in-slices-both-ways", "Split and merged without a transpose: heads are slices of the text, "
            "token 0 never sees the last ones.", (SPLIT, "reshape(B, num_heads, T, d // num_heads)"),
            ("context.transpose(1, 2)", "context")),
        Mistake("every-h-th-feature", "Head 0 takes features 0, h, 2h, …: h and d_k stand the wrong way round in the "
            "split.", ("num_heads, d // num_heads).transpose(1, 2)", "d // num_heads, num_heads).permute(0, 3, 1, 2)")),
        Mistake("sizes-swapped", "h and d_k changed places in the split: d_k heads of h numbers. The last axis is d / "
            "h wide.", ("num_heads, d // num_heads)", "d // num_heads, num_heads)")),
        Mistake("heads-among-themselves", "q, k and v were left as (B, T, h, d_k), so each token's heads attend to "
            "each other alone. Scores must be T × T: transpose(1, 2) first.", (".transpose(1, 2) for", " for"),
            ("context.transpose(1, 2)", "context"), ("not None:", "not None and T == num_heads:")),
        Mistake("one-head", "This is attention with a single head, d wide: num_heads changes nothing.",
            (SPLIT, "view(B, T, (num_heads := 1), d).transpose(1, 2)")),
        Mistake("no-scale", NO_SCALE, (" / math.sqrt(d // num_heads)", "")),
        Mistake("divided-by-root-d", "The scores are divided by √d, wanted √d_k, a head's width: log-ratios of weights "
            "are 1/√h of the right ones.", ("math.sqrt(d // num_heads)", "math.sqrt(d)")),
        Mistake("divided-by-d_k", "The scores are divided by d_k, wanted √d_k: weights come out too even.",
            ("math.sqrt(d // num_heads)", "(d // num_heads)")),
        Mistake("multiplied-by-root", "The scores are multiplied by √d_k (or divided by d_k ** -0.5, which is the "
            "same); wanted divided.", ("/ math.sqrt(d", "* math.sqrt(d")),
        Mistake("divided-by-root-T", "The scores are divided by √T, the number of tokens; wanted √d_k.",
            ("math.sqrt(d // num_heads)", "math.sqrt(T)")),
        _of_attention("softmax-over-queries", ("softmax(dim=-1)", "softmax(dim=-2)")),
        _of_attention("no-softmax", (".softmax(dim=-1)", "")),
        _of_attention("mask-ignored", ("if mask is not None", "if False")),
        _of_attention("mask-inverted", ("~mask", "mask")),
        _of_attention("mask-after-softmax",
            ("if mask is not None", "if False"), ("-1) @ v", "-1) * (1 if mask is None else mask) @ v")),
        _of_attention("mask-added", (HIDDEN, "scores + mask")),
        _of_attention("hidden-scores-zero", (HIDDEN, "scores * mask")),
        _of_attention("too-low-for-half-precision", ('float("-inf")', "-1e9")),
        Mistake("softmax-over-heads", "Softmax ran over axis 1, the heads: they compete for attention. Normalise over "
            "keys, axis -1.", ("softmax(dim=-1)", "softmax(dim=1)")),
        Mistake("not-transposed-back", "Merged without transposing back: row 0 holds several tokens of head 0, and the "
            "future leaks in. transpose(1, 2) first.", ("context.transpose(1, 2)", "context")),
        Mistake("heads-interleaved", "Merged feature by feature, not head by head: w_out meets its numbers in the "
            "wrong order.", ("context.transpose(1, 2)", "context.permute(0, 2, 3, 1)")),
        Mistake("heads-averaged", "The heads were averaged; wanted side by side.",
            ("context.transpose(1, 2).reshape(B, T, d)", "context.mean(dim=1).repeat(1, 1, num_heads)")),
        Mistake("w-out-left-out", "The last product is missing: w_out mixes what the heads found.", (" @ w_out.T", "")),
        Mistake("w-out-not-transposed", "merged @ w_out: the square matrix fits either way, but nn.Linear stores (out, "
            "in). Wanted w_out.T.", ("w_out.T", "w_out")),
        Mistake("residual-added", "x was added to the output: a block does that, this function does not.",
            ("return context", "return x + context")),
        Mistake("weights-returned-too", "Two results came back; wanted the output alone.",
            ("w_out.T", "w_out.T, scores.softmax(dim=-1)")),
    ),
    fresh=lambda: [
        _draw(1, 2, 7, 20, 5), _draw(4, 1, 4, 12, 2), _draw(7, 3, 4, 12, 1),
        (*_draw(10, 3, 4, 12, 2), torch.ones(4, 4).tril().bool()),
    ],
)
