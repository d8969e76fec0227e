"""Exercises of lesson 07: padding, positions, cross-attention, what a decoder is given, and greedy decoding."""

import functools
import math

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def wrong_entries(attempt):
    """For a mask: whether something hidden is seen, or something seen is hidden."""
    for mine, want, case in attempt.triples():
        for name, cells, words in (
            ("hidden-is-seen", mine & ~want, "is True and must be False: padding is seen"),
            ("real-is-hidden", want & ~mine, "is False and must be True: a real symbol is hidden"),
        ):
            if cells.any():
                return name, f"On {case}, entry {cells.nonzero()[0].tolist()} {words}."
    return None


def wrong_symbol(attempt):
    """For rows of symbols: the first wrong one."""
    for mine, want, case in attempt.triples():
        if not torch.equal(mine.double(), want.double()):
            text, place = (mine != want).nonzero()[0].tolist()
            says = f"symbol {place} of text {text} is {mine[text, place].item():g}, wanted {want[text, place].item():g}"
            return "wrong-symbol", f"On {case}, {says}."
    return None


def mixes_memory(attempt):
    """For cross-attention: whether outputs are mixtures of the memory's values, each token's own."""
    for mine, want, _ in attempt.triples():
        if (mine - want).abs().max() > 1e-3:
            x, memory, *weights = attempt.cases[0].arguments
            other = attempt.call(x, memory.flip(1), *weights)
            if other is not None and not torch.allclose(other, attempt.cases[0].yours, atol=1e-4):
                return "order-of-memory-matters", "The order of the memory's tokens changes the output; it must not."
            values = memory @ weights[2].T
            low, high = values.amin(dim=1, keepdim=True) - 1e-4, values.amax(dim=1, keepdim=True) + 1e-4
            if ((attempt.cases[0].yours < low) | (attempt.cases[0].yours > high)).any():
                return "not-a-mixture", "An output lies outside the memory's values; a mixture of them never does."
            return "other-weights", "The outputs are mixtures of the memory's values, but with other shares."
    return None


def padding_mask(source):
    return (source != 0)[:, None, None, :]  # (B, S) → (B, 1, 1, S): a row of keys for each text


def _padding_mask(source, axis="keys", turn=False, length="right", kind="bool"):
    """The reference with options."""
    real = source != 0
    lengths = real.sum(dim=1, keepdim=True)
    places = torch.arange(source.size(1))
    real = {
        "first text": real[:1].expand_as(real),
        "longest": (places < lengths.max()).expand_as(real),
        "shortest": (places < lengths.min()).expand_as(real),
        "one less": places < lengths - 1,
        "one more": places <= lengths,
        "symbol 1": source != 1,
    }.get(length, real)
    real = ~real if turn else real
    real = real.float() if kind == "float" else real
    return {
        "queries": lambda: real[:, None, :, None],
        "both": lambda: real[:, None, :, None] * real[:, None, None, :],
        "none": lambda: real,
        "one": lambda: real[:, None, :],
        "heads": lambda: real[None, None],
    }.get(axis, lambda: real[:, None, None, :])()


def _sources():
    def rows(*texts):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)

    return {
        "3 texts of 5, 2 and 4 symbols": (rows([3, 1, 4, 1, 5], [9, 2], [6, 5, 1, 8]),),
        "2 texts of 2 and 3": (rows([7, 7], [1, 2, 3]),),
        "3 texts of 1, 3 and 3, padded to 6": (torch.nn.functional.pad(rows([5], [1, 1, 1], [2, 3, 4]), (0, 3)),),
    }


PADDING = Exercise(
    "7.1",
    padding_mask,
    difficulty=1,
    minutes=4,
    family=_padding_mask,
    inputs=_sources,
    probes=(wrong_entries,),
    cell=lambda value: f"{value:g}",
    legend=" (1 = True)",
    hints=(
        "Where is a symbol real? One comparison of the whole table says so, (B, S).",
        "It must fit weights of (B, h, T, S): which two axes are missing, and where do they go?",
    ),
    mistakes=(
        Mistake(
            "on-the-query-axis",
            "The mask is (B, 1, S, 1): it hides rows, the padded queries; real tokens still listen to padding. Keys "
            "are the last axis.",
            change={"axis": "queries"},
        ),
        Mistake(
            "on-both-axes",
            "Padded queries were hidden as well: their rows see nothing, which softmax makes NaN. Hide keys alone.",
            change={"axis": "both"},
        ),
        Mistake(
            "no-axes-for-heads-and-queries",
            "The mask is (B, S): against weights (B, h, T, S) it would be read as one row for each query. Wanted "
            "(B, 1, 1, S).",
            change={"axis": "none"},
        ),
        Mistake(
            "one-axis-missing",
            "The mask is (B, 1, S): against (B, h, T, S) its first axis would be read as heads. Wanted (B, 1, 1, S).",
            change={"axis": "one"},
        ),
        Mistake(
            "texts-read-as-queries",
            "The mask is (1, 1, B, S): the texts stand where queries belong. Wanted (B, 1, 1, S).",
            change={"axis": "heads"},
        ),
        Mistake("inverted", "True stands on padding; here True = may attend.", change={"turn": True}),
        Mistake("first-text-for-all", "Every text got the first one's mask.", change={"length": "first text"}),
        Mistake(
            "longest-for-all",
            "Every text got the longest one's length, so that padding of the shorter ones is seen.",
            change={"length": "longest"},
        ),
        Mistake(
            "shortest-for-all",
            "Every text got the shortest one's length, so that real tokens of the others are hidden.",
            change={"length": "shortest"},
        ),
        Mistake("one-too-few", "The last real symbol of each text is hidden as well.", change={"length": "one less"}),
        Mistake("one-too-many", "One symbol of padding is seen after each text.", change={"length": "one more"}),
        Mistake("another-symbol", "Symbol 1 was hidden; padding is symbol 0.", change={"length": "symbol 1"}),
        Mistake(
            "not-bool",
            "Right numbers, but no booleans. As floats F.scaled_dot_product_attention would add them to the scores, "
            "whole numbers it refuses. Call .bool().",
            change={"kind": "float"},
        ),
    ),
)


def sinusoidal_positions(length, d_model):
    places = torch.arange(length)[:, None]  # (length, 1)
    rates = 10000 ** (-torch.arange(0, d_model, 2) / d_model)  # (d / 2,), from 1 down
    table = torch.empty(length, d_model)
    table[:, 0::2] = torch.sin(places * rates)  # even columns
    table[:, 1::2] = torch.cos(places * rates)  # odd columns
    return table


def _positions(length, d_model, first=0, base=10000.0, power=2, sign=-1, turns=1, order="in turn", end="right"):
    """The reference with options."""
    places = torch.arange(first, first + length)[:, None].float()
    steps = torch.arange(d_model // 2)
    exponents = power * steps / d_model
    angles = turns * places * base ** (sign * exponents.double())
    sine, cosine = angles.sin(), angles.cos()
    table = {
        "halves": lambda: torch.cat([sine, cosine], dim=-1),
        "cosine first": lambda: torch.stack([cosine, sine], dim=-1).flatten(1),
        "sine alone": lambda: torch.stack([sine, sine], dim=-1).flatten(1),
        "cosine alone": lambda: torch.stack([cosine, cosine], dim=-1).flatten(1),
        "angles": lambda: torch.stack([angles, angles], dim=-1).flatten(1),
    }.get(order, lambda: torch.stack([sine, cosine], dim=-1).flatten(1))()
    if order == "by column":
        own = places * base ** (sign * torch.arange(d_model).double() / d_model)
        table = torch.where(torch.arange(d_model) % 2 == 0, own.sin(), own.cos())
    table = table.float()
    return {"turned": table.T, "batch": table[None], "one row": table[-1:], "scaled": table * d_model**-0.5}.get(
        end, table
    )


def _waves(attempt):
    """Whether the table is made of waves, where they start and how fast they turn."""
    for mine, want, case in attempt.triples():
        if torch.allclose(mine, want, atol=1e-3):
            continue
        if not torch.allclose(mine[0], want[0], atol=1e-3):
            row = ", ".join(f"{value:.2f}" for value in mine[0, :4].tolist())
            return "wrong-first-row", f"On {case}, row 0 begins {row}; at place 0 sines are 0 and cosines 1."
        if not torch.allclose(mine[:, 0::2] ** 2 + mine[:, 1::2] ** 2, torch.ones(1), atol=1e-3):
            return "not-sine-and-cosine", f"On {case}, a pair's two columns are not the sine and cosine of one angle."
        turned, wanted = (torch.atan2(table[1, 0::2], table[1, 1::2]) for table in (mine, want))
        wrong = (turned - wanted).abs() > 1e-4
        if not wrong.any():
            return "wrong-rates", f"On {case}, the rows of places 0 and 1 are right, a later one is not."
        pair = int(wrong.nonzero()[0])
        says = f"from place 0 to 1 pair {pair} turns by {turned[pair].abs():.4f} radians, or that and whole turns"
        return "wrong-rates", f"On {case}, {says}; wanted {wanted[pair]:.4f}."
    return None


POSITIONS = Exercise(
    "7.2",
    sinusoidal_positions,
    difficulty=2,
    minutes=8,
    family=_positions,
    inputs=lambda: {f"length {n}, d = {d}": (n, d) for n, d in ((5, 6), (12, 8), (3, 10))},
    tolerance=1e-3,
    probes=(_waves,),
    hints=(
        "Column 2i is sin(place · rate), column 2i + 1 is cos of the same. The rate of pair i is 10000 ** (−2i / d).",
        "arange(0, d, 2) are the numbers 2i. Places down, [:, None], times rates across makes all angles at once.",
        "An empty table, then table[:, 0::2] = sines and table[:, 1::2] = cosines.",
    ),
    mistakes=(
        Mistake(
            "halves-not-in-turn",
            "All sines come first, then all cosines; wanted in turn, a sine beside its cosine. (Some models do "
            "it your way: it works, but their weights do not fit the other.)",
            change={"order": "halves"},
        ),
        Mistake(
            "cosine-first",
            "Sine and cosine changed places: even columns hold the sine.",
            change={"order": "cosine first"},
        ),
        Mistake(
            "sine-alone",
            "Both columns of a pair hold the sine; the odd one holds the cosine, so that places can be told apart.",
            change={"order": "sine alone"},
        ),
        Mistake(
            "cosine-alone",
            "Both columns of a pair hold the cosine; the even one is a sine.",
            change={"order": "cosine alone"},
        ),
        Mistake(
            "rate-by-column",
            "Each column has a rate of its own, 10000 ** (−column / d); the two of a pair share one. Count pairs: i is "
            "column // 2, and the exponent −2i / d.",
            change={"order": "by column"},
        ),
        Mistake("angles-themselves", "These are angles; wanted their sine and cosine.", change={"order": "angles"}),
        Mistake(
            "counted-from-one",
            "Places are counted from 1; wanted from 0: the first row is 0, 1, 0, 1 and so on.",
            change={"first": 1},
        ),
        Mistake(
            "exponent-halved",
            "The exponent is i / d for pair i; wanted 2i / d, so that the slowest wave is near 10000.",
            change={"power": 1},
        ),
        Mistake(
            "exponent-doubled",
            "The exponent is 4i / d for pair i: 2i was doubled once more.",
            change={"power": 4},
        ),
        Mistake("another-base", "The base is not 10000: these are waves of base 1000.", change={"base": 1000.0}),
        Mistake("base-e", "The base is e: exp(−2i / d) without the logarithm of 10000.", change={"base": math.e}),
        Mistake("rates-upside-down", "Places are multiplied by 10000 ** (2i / d); wanted divided.", change={"sign": 1}),
        Mistake(
            "whole-turns",
            "Angles are multiplied by 2π; wanted place · rate as it is: sin counts in radians.",
            change={"turns": 2 * math.pi},
        ),
        Mistake("turned", "The table is (d, length); wanted a row for each place.", change={"end": "turned"}),
        Mistake("batch-axis-added", "There is an axis too many in front; wanted (length, d).", change={"end": "batch"}),
        Mistake(
            "one-place-only",
            "There is one row; wanted one for each place: were the places broadcast?",
            change={"end": "one row"},
        ),
        Mistake(
            "scaled",
            "Everything is multiplied by 1/√d; wanted plain sines and cosines.",
            change={"end": "scaled"},
        ),
    ),
)


def cross_attention(x, memory, w_q, w_k, w_v):
    q, k, v = x @ w_q.T, memory @ w_k.T, memory @ w_v.T  # (B, T, d), (B, S, d), (B, S, d)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, T, S)
    return scores.softmax(dim=-1) @ v  # (B, T, d)


def _cross_attention(
    x,
    memory,
    w_q,
    w_k,
    w_v,
    of=("x", "memory", "memory"),
    order="qkv",
    scale="right",
    axis=-1,
    turn=True,
    raw="",
    texts="own",
    residual=False,
):
    """The reference with options; `raw` names what is not projected."""
    memory = {
        "first": memory[:1].expand_as(memory),
        "all": memory.flatten(0, 1).expand(len(memory), -1, -1),
    }.get(texts, memory)
    source = {"x": x, "memory": memory}
    weights = dict(zip("qkv", (w_q, w_k, w_v), strict=True))
    used = {letter: (matrix.T if turn else matrix) for letter, matrix in weights.items()}
    used |= {letter: torch.eye(len(w_q)) for letter in raw}
    q, k, v = (source[name] @ used[letter] for name, letter in zip(of, order, strict=True))
    d, S = k.size(-1), k.size(-2)
    by = {"none": 1, "d": d, "keys": S**0.5, "multiplied": d**-0.5, "after": 1}.get(scale, d**0.5)
    scores = q @ k.transpose(-2, -1) / by
    shares = (scores if axis is None else scores.softmax(dim=axis)) / (d**0.5 if scale == "after" else 1)
    return shares @ v + (x if residual else 0)


def _cross_inputs():
    def draw(seed, B, T, S, d):
        shapes = (B, T, d), (B, S, d), (d, d), (d, d), (d, d)
        return tuple(random_tensor(seed + i, *shape) / (d**0.5 if i > 1 else 1) for i, shape in enumerate(shapes))

    return {
        "x (2, 3, 6), memory (2, 5, 6)": draw(10, 2, 3, 5, 6),
        "x (3, 4, 8), memory (3, 4, 8)": draw(20, 3, 4, 4, 8),
        "x (1, 1, 5), memory (1, 7, 5)": draw(30, 1, 1, 7, 5),
    }


CROSS = Exercise(
    "7.3",
    cross_attention,
    difficulty=2,
    minutes=6,
    family=_cross_attention,
    inputs=_cross_inputs,
    probes=(mixes_memory,),
    hints=(
        "Who asks, and who answers? Queries come from one of the two, keys and values from the other.",
        "nn.Linear stores (out, in), so projecting is x @ w_q.T; each of the three matrices is used once.",
        "Scores q @ k.transpose(-2, -1) are (B, T, S): divide them by √d, softmax over the last axis, times v.",
    ),
    mistakes=(
        Mistake(
            "queries-and-memory-swapped",
            "The memory asks and x answers: one row for each token of memory. The decoder, x, asks; memory gives keys "
            "and values.",
            change={"of": ("memory", "x", "x")},
        ),
        Mistake("self-attention", "x attends to itself: memory is never used.", change={"of": ("x", "x", "x")}),
        Mistake(
            "memory-to-itself",
            "The memory attends to itself: x is never used.",
            change={"of": ("memory", "memory", "memory")},
        ),
        Mistake(
            "values-of-x",
            "The keys are the memory's, the values those of x: what was found there cannot be fetched.",
            change={"of": ("x", "memory", "x")},
        ),
        Mistake(
            "keys-of-x",
            "The values are the memory's, the keys those of x: whoever matches is not who answers.",
            change={"of": ("x", "x", "memory")},
        ),
        Mistake("w-v-not-used", "The memory itself was mixed; wanted its values, memory @ w_v.T.", change={"raw": "v"}),
        Mistake("keys-and-values-swapped", "w_k and w_v changed places.", change={"order": "qvk"}),
        Mistake("queries-and-keys-swapped", "w_q and w_k changed places.", change={"order": "kqv"}),
        Mistake("no-scale", "The scores are not divided by √d.", change={"scale": "none"}),
        Mistake(
            "w-q-not-used",
            "x itself was compared with the keys; wanted its queries, x @ w_q.T.",
            answer=functools.partial(_cross_attention, raw="q"),
        ),
        Mistake(
            "w-k-not-used",
            "The memory itself was compared with the queries; wanted its keys, memory @ w_k.T.",
            answer=functools.partial(_cross_attention, raw="k"),
        ),
        Mistake(
            "no-projections",
            "x and memory met as they are: queries are x @ w_q.T, keys memory @ w_k.T, values memory @ w_v.T.",
            answer=functools.partial(_cross_attention, raw="qkv"),
        ),
        Mistake(
            "scaled-by-d",
            "The scores are divided by d; wanted by its root.",
            answer=functools.partial(_cross_attention, scale="d"),
        ),
        Mistake(
            "scaled-by-keys",
            "The scores are divided by √S, the root of the number of keys; wanted √d, that of the width of a query.",
            answer=functools.partial(_cross_attention, scale="keys"),
        ),
        Mistake(
            "scale-upside-down",
            "The scores are multiplied by √d; wanted divided.",
            answer=functools.partial(_cross_attention, scale="multiplied"),
        ),
        Mistake(
            "scaled-after-softmax",
            "√d divides the weights, so that no row sums to one; divide the scores, before softmax.",
            answer=functools.partial(_cross_attention, scale="after"),
        ),
        Mistake(
            "no-softmax",
            "The scores themselves mix the values, without softmax: no weight is kept between 0 and 1.",
            answer=functools.partial(_cross_attention, axis=None),
        ),
        Mistake(
            "residual-added",
            "x was added to what was found. The residual block does that, outside; return the context alone.",
            answer=functools.partial(_cross_attention, residual=True),
        ),
        Mistake(
            "first-text-for-all",
            "Every text reads the memory of the first; each has its own.",
            answer=functools.partial(_cross_attention, texts="first"),
        ),
        Mistake(
            "texts-mixed",
            "Every text reads the memories of all texts at once; keep the batch axis in front.",
            answer=functools.partial(_cross_attention, texts="all"),
        ),
        Mistake(
            "softmax-over-queries",
            "Softmax ran over the queries; normalise over keys, axis -1.",
            change={"axis": -2},
        ),
        Mistake(
            "softmax-over-texts",
            "Softmax ran over the texts of the batch; normalise over keys, axis -1.",
            change={"axis": 0},
        ),
        Mistake(
            "not-transposed",
            "x @ w: the square matrices fit either way, but nn.Linear stores (out, in). Wanted w.T.",
            change={"turn": False},
        ),
    ),
)


def decoder_inputs(target, start):
    first = torch.full_like(target[:, :1], start)
    return torch.cat([first, target[:, :-1]], dim=1)  # symbol t is given what stands before t


def _shifted(target, start, road="right"):
    first = torch.full_like(target[:, :1], start)
    return {
        "unchanged": lambda: target.clone(),
        "left": lambda: torch.cat([target[:, 1:], first], dim=1),
        "too long": lambda: torch.cat([first, target], dim=1),
        "rolled": lambda: target.roll(1, dims=1),
        "overwritten": lambda: torch.cat([first, target[:, 1:]], dim=1),
        "too short": lambda: target[:, :-1],
        "two": lambda: torch.cat([first, first, target[:, :-2]], dim=1),
        "texts": lambda: torch.cat([torch.full_like(target[:1], start), target[:-1]], dim=0),
        "start alone": lambda: torch.full_like(target, start),
        "zero": lambda: torch.cat([torch.zeros_like(first), target[:, :-1]], dim=1),
        "end": lambda: torch.cat([target[:, :-1], first], dim=1),
    }.get(road, lambda: decoder_inputs(target, start))()


INPUTS = Exercise(
    "7.4",
    decoder_inputs,
    difficulty=1,
    minutes=3,
    family=_shifted,
    inputs=lambda: {
        f"target ({B}, {T}), start {start}": (torch.arange(1, B * T + 1).view(B, T) % 9, start)
        for B, T, start in ((2, 5, 11), (3, 4, 12), (4, 3, 10))
    },
    probes=(wrong_symbol,),
    cell=lambda value: f"{value:g}",
    hints=(
        "Before the first symbol the decoder has seen nothing: it is given start. What has it seen before the second?",
        "A column of start in front, and the last symbol of the target left out: nobody comes after it.",
    ),
    mistakes=(
        Mistake(
            "not-shifted",
            "The target itself: each place is given the very symbol that it must predict, and copies it. Training "
            "looks perfect, and decoding fails.",
            change={"road": "unchanged"},
        ),
        Mistake(
            "shifted-left",
            "Shifted the wrong way: each place is given the symbol after the one that it must predict.",
            change={"road": "left"},
        ),
        Mistake(
            "one-too-long",
            "One column too many: the last symbol of the target is given to nobody.",
            change={"road": "too long"},
        ),
        Mistake("rolled", "The last symbol came round to the front; start belongs there.", change={"road": "rolled"}),
        Mistake(
            "first-overwritten",
            "Start was written over the first symbol, but nothing moved: all others are given what they must predict.",
            change={"road": "overwritten"},
        ),
        Mistake(
            "start-missing",
            "The last symbol is left out, but start is missing in front.",
            change={"road": "too short"},
        ),
        Mistake(
            "shifted-by-two",
            "Shifted by two: a place never sees the symbol just before it.",
            change={"road": "two"},
        ),
        Mistake("texts-shifted", "The texts moved, not the symbols: shift along axis 1.", change={"road": "texts"}),
        Mistake(
            "start-everywhere",
            "Start everywhere: no place sees what has been written.",
            change={"road": "start alone"},
        ),
        Mistake("zero-in-front", "A 0 stands in front; wanted the symbol start.", change={"road": "zero"}),
        Mistake(
            "start-at-the-end",
            "Start replaced the last symbol; it belongs in front, and all others move on.",
            change={"road": "end"},
        ),
    ),
)


def greedy(model, source, start, steps):
    symbols = torch.full((len(source), 1), start, device=source.device)
    for _ in range(steps):
        scores, _ = model(source, symbols)  # (B, t, symbols)
        symbols = torch.cat([symbols, scores[:, -1:].argmax(dim=-1)], dim=1)  # the next one after all so far
    return symbols[:, 1:]  # without start


def _greedy(model, source, start, steps, place=-1, given="all", pick="largest", extra=0, end="right", begin=None):
    """The reference with options."""
    first = symbols = torch.full((len(source), 1), start if begin is None else begin)
    for _ in range(steps + extra):
        seen = {"newest": symbols[:, -1:], "no start": symbols[:, 1:] if symbols.size(1) > 1 else first}
        asked = (source, seen.get(given, symbols))
        new = _next(model(*(asked[::-1] if given == "swapped" else asked))[0], place, pick)
        symbols = torch.cat([new, symbols] if end == "in front" else [symbols, new], dim=1)
    return {
        "with start": symbols,
        "last cut": symbols[:, :-1],
        "last": symbols[:, -1:],
        "reversed": symbols[:, 1:].flip(1),
    }.get(end, symbols[:, 1:])


def _next(answers, place, pick):
    """One more symbol for each text, (B, 1), from scores (B, t, symbols)."""
    scores, B = answers[:, place], len(answers)
    return {
        "smallest": lambda: scores.argmin(dim=-1, keepdim=True),
        "second": lambda: scores.topk(2, dim=-1).indices[:, 1:],
        "value": lambda: scores.max(dim=-1, keepdim=True).values,
        "text 0": lambda: scores[:1].argmax(dim=-1, keepdim=True).expand(B, 1),
        "flat": lambda: scores.argmax().expand(B, 1),
        "places": lambda: answers.argmax(dim=1),
        "texts": lambda: scores.argmax(dim=0)[:B, None],
    }.get(pick, lambda: scores.argmax(dim=-1, keepdim=True))()


class _Rule(torch.nn.Module):
    """A model with a rule: scores of the next symbol depend on the text, on its place, and on all symbols before.

    A module with a parameter, as the real one is: .eval(), .parameters() and need_weights do what they do there.
    """

    def __init__(self, symbols):
        super().__init__()
        self.symbols, self.scale = symbols, torch.nn.Parameter(torch.ones(1))

    def forward(self, source, target, need_weights=True):
        so_far = (target * torch.arange(2, target.size(1) + 2)).cumsum(dim=1)  # (B, T): nothing after a place
        best = (source.sum(dim=1, keepdim=True) + so_far) % (self.symbols - 1)
        distance = (torch.arange(self.symbols) - best[..., None]).abs()
        scores = -self.scale * (distance + 0.01 * torch.arange(self.symbols))  # (B, T, symbols)
        return scores, {} if need_weights else None


GREEDY = Exercise(
    "7.5",
    greedy,
    difficulty=2,
    minutes=8,
    family=_greedy,
    inputs=lambda: {
        "3 texts, 5 steps": (_Rule(11), torch.tensor([[3, 1], [4, 4], [7, 5]]), 10, 5),
        "2 texts, 7 steps": (_Rule(8), torch.tensor([[1, 2, 3], [5, 0, 5]]), 3, 7),
        "4 texts, 1 step": (_Rule(6), torch.tensor([[1], [2], [4], [0]]), 5, 1),
    },
    probes=(wrong_symbol,),
    cell=lambda value: f"{value:g}",
    hints=(
        "Begin with a column of start, (B, 1). Each turn of a loop asks the model and adds one column.",
        "The model returns two things. Its scores are for every place, (B, t, symbols). Which place says what comes "
        "next? Take its largest score.",
        "In the end the column of start goes: it was never written.",
    ),
    mistakes=(
        Mistake(
            "own-output-never-seen",
            "What is read never depends on what was written: either the model is given start alone, or you read the "
            "scores of place 0, which has only start before it. Give it all so far, and read the last place.",
            change={"place": 0},
        ),
        Mistake(
            "only-the-newest-given",
            "The model is given only the newest symbol: without a cache it needs all of them, from start on.",
            change={"given": "newest"},
        ),
        Mistake(
            "start-dropped",
            "After the first step start is no longer given; it stays in front.",
            change={"given": "no start"},
        ),
        Mistake("smallest-score", "The smallest score was taken; wanted the largest.", change={"pick": "smallest"}),
        Mistake("text-0-for-all", "Every text got the symbol of text 0.", change={"pick": "text 0"}),
        Mistake(
            "largest-over-texts",
            "argmax ran over the texts; for each text the largest over the symbols is wanted, axis -1.",
            change={"pick": "texts"},
        ),
        Mistake(
            "largest-over-places",
            "argmax ran over axis 1, the places; take the last place, and there the largest over the symbols.",
            change={"pick": "places"},
        ),
        Mistake(
            "wrong-end-cut",
            "The last symbol was cut off and start came back; cut off start, at the front: symbols[:, 1:].",
            answer=functools.partial(_greedy, end="last cut"),
        ),
        Mistake(
            "start-ignored",
            "Decoding begins with symbol 0, whatever start is; begin with a column of start.",
            answer=functools.partial(_greedy, begin=0),
        ),
        Mistake(
            "start-hard-coded",
            "Decoding begins with symbol 11, whatever start is: that is start for the dates alone. Use what is handed "
            "over.",
            answer=functools.partial(_greedy, begin=11),
        ),
        Mistake(
            "new-symbol-in-front",
            "Each new symbol was put in front; it belongs behind all others, and start stays first.",
            answer=functools.partial(_greedy, end="in front"),
        ),
        Mistake(
            "source-and-symbols-swapped",
            "The model was called with (symbols, source); it takes (source, symbols).",
            answer=functools.partial(_greedy, given="swapped"),
        ),
        Mistake(
            "argmax-over-everything",
            "argmax without an axis counts through all texts at once and gives one number; wanted one for each text, "
            "axis -1.",
            answer=functools.partial(_greedy, pick="flat"),
        ),
        Mistake(
            "second-likeliest",
            "The second largest score was taken; wanted the largest.",
            answer=functools.partial(_greedy, pick="second"),
        ),
        Mistake(
            "score-for-symbol",
            "The largest score itself was written down; wanted which symbol has it: argmax, not max.",
            answer=functools.partial(_greedy, pick="value"),
        ),
        Mistake("one-step-too-many", "There is one symbol too many.", change={"extra": 1}),
        Mistake("one-step-too-few", "There is one symbol too few.", change={"extra": -1}),
        Mistake("start-returned", "Start came back in front; it was given, not written.", change={"end": "with start"}),
        Mistake(
            "last-symbol-only",
            "Only the last symbol came back; wanted all steps of them.",
            change={"end": "last"},
        ),
        Mistake("reversed", "The symbols come in reverse order.", change={"end": "reversed"}),
    ),
)

EXERCISES = (PADDING, POSITIONS, CROSS, INPUTS, GREEDY)
