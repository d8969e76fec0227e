"""The exercises: each known mistake is called by its name, each right answer passes, and nothing gets out."""

import asyncio
import collections
import contextlib
import fractions
import functools
import importlib
import io
import itertools
import math
import os
import pdb
import random
import re
import signal
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mha.attention
import mha.torch_bridge
import mha.transformer
from mha.exercises import card, check, compare, hint, judge, probes, progress, sandbox, solution
from mha.exercises.card import Verdict
from mha.exercises.compare import Raised, describe, equal, one_tensor, plain, whole
from mha.exercises.exercise import Case, Exercise, Mistake, random_weights
from mha.exercises.judge import behaviour, exercises, same
from tests.mutants import mutants

ALL = exercises()
ONE = torch.ones(2, 2)
every_exercise = pytest.mark.parametrize("exercise", ALL.values(), ids=list(ALL))
every_mistake = pytest.mark.parametrize(
    ("exercise", "mistake"),
    [(exercise, mistake) for exercise in ALL.values() for mistake in exercise.mistakes],
    ids=lambda value: value.id if hasattr(value, "id") else value.name,
)


@pytest.fixture(autouse=True)
def forget():
    judge.SEEN.clear()


@pytest.fixture
def in_the_kernel(monkeypatch):
    """As on machines without a safe fork; and many checks take less time so."""
    for module in (judge, sandbox):
        monkeypatch.setattr(module, "forks", lambda: False)


@pytest.fixture(params=["in a child", "in the kernel"])
def place(request):
    """Both ways to run an answer."""
    if request.param == "in the kernel":
        request.getfixturevalue("in_the_kernel")
    elif not sandbox.forks():
        pytest.skip("no safe fork here")
    return request.param


def printed(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        function(*arguments)
    return text.getvalue()


# Right answers, written in other ways.


def loop_attention(q, k, v, mask=None):
    weights = torch.zeros(*q.shape[:-1], k.size(-2), dtype=torch.float64)
    for where in itertools.product(*map(range, q.shape[:-1])):
        scores = [float(q[where].double() @ k[where[:-1]][s].double()) / q.size(-1) ** 0.5 for s in range(k.size(-2))]
        seen = [True] * len(scores) if mask is None else mask.expand(*q.shape[:-1], k.size(-2))[where].tolist()
        powers = [math.exp(score) if see else 0.0 for score, see in zip(scores, seen, strict=True)]
        weights[where] = torch.tensor(powers, dtype=torch.float64) / sum(powers)
    weights = weights.to(v.dtype)
    return weights @ v, weights


def lowest_number_attention(q, k, v, mask=None):
    scores = torch.einsum("...td,...sd->...ts", q, k).mul_(q.shape[-1] ** -0.5)
    if mask is not None:
        scores.masked_fill_(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, -1)
    return [torch.einsum("...ts,...sd->...td", weights, v), weights]


def renormalising_attention(q, k, v, mask=None):
    weights = torch.softmax(q / math.sqrt(q.size(-1)) @ k.mT, dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ v, weights


def infinite_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / k.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    return scores.softmax(-1) @ v, scores.softmax(-1)


def added_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / k.size(-1) ** 0.5
    if mask is not None:
        scores = scores + torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v, scores.softmax(-1)


def named_attention(q, k, v, mask=None):
    return collections.namedtuple("Out", "context weights")(*infinite_attention(q, k, v, mask))


def logarithmic_attention(q, k, v, mask=None):
    scores = q @ k.mT / k.size(-1) ** 0.5 + (0 if mask is None else mask.to(q.dtype).log())
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return weights @ v, weights


class Layer(nn.Module):
    """A module, with dropout that must be off, and F's kernel inside."""

    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, w_qkv, w_out, num_heads, mask=None):
        q, k, v = F.linear(x, w_qkv).unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.dropout(F.linear(context.transpose(1, 2).contiguous().view(x.shape), w_out))


def loop_of_heads(x, w_qkv, w_out, num_heads, mask=None):
    d = x.size(-1)
    found = []
    for head in range(num_heads):
        rows = slice(head * d // num_heads, (head + 1) * d // num_heads)
        q, k, v = (x @ block[rows].T for block in w_qkv.split(d))
        scores = q @ k.mT / (d // num_heads) ** 0.5
        if mask is not None:
            own = mask.expand(x.size(0), num_heads, x.size(1), x.size(1))[:, head]
            scores = scores.masked_fill(~own, -torch.inf)
        found.append(scores.softmax(-1) @ v)
    return torch.cat(found, dim=-1) @ w_out.T


def einsum_heads(x, w_qkv, w_out, num_heads, mask=None):
    w = w_qkv.reshape(3, num_heads, -1, x.size(-1))
    q, k, v = torch.einsum("btd,nhkd->nbhtk", x, w)
    weights = torch.einsum("bhtk,bhsk->bhts", q, k) / w.size(2) ** 0.5
    if mask is not None:
        weights = weights.exp() * mask
        weights = weights / weights.sum(-1, keepdim=True)
    else:
        weights = weights.softmax(-1)
    return torch.einsum("bhts,bhsk,ohk->bto", weights, v, w_out.view(-1, num_heads, w.size(2)))


def one_head_at_a_time(context, w_out):
    """Each head alone, the others silent."""
    alone = torch.eye(context.size(1))[:, None, :, None, None] * context  # (h, B, h, T, d_k)
    return torch.stack([head.transpose(1, 2).flatten(-2) @ w_out.T for head in alone], dim=1)


def heads_added_up(x, w_qkv, w_out, numheads, mask=None):
    """Each head writes through its own columns of w_out."""
    d = x.size(-1)
    output = 0
    for head, columns in enumerate(w_out.split(d // numheads, 1)):
        q, k, v = (x @ block.chunk(numheads)[head].T for block in w_qkv.chunk(3))
        own = mask if mask is None else mask.expand(len(x), numheads, *mask.shape[-2:])[:, head]
        output = output + F.scaled_dot_product_attention(q, k, v, own) @ columns.T
    return output


def pytorchs_own(x, w_qkv, w_out, num_heads, mask=None):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True, dtype=x.dtype)
    with torch.no_grad():
        layer.in_proj_weight.copy_(w_qkv)
        layer.out_proj.weight.copy_(w_out)
    if mask is not None:
        mask = ~mask.expand(len(x), num_heads, x.size(1), x.size(1)).flatten(0, 1)
    return layer(x, x, x, attn_mask=mask)[0]


def two_passes(q, k, v, size):
    """First the largest score of each query, then the sums."""
    blocks = [(q @ a.mT * q.size(-1) ** -0.5, b) for a, b in zip(k.split(size, -2), v.split(size, -2), strict=True)]
    largest = torch.stack([scores.amax(-1, keepdim=True) for scores, _ in blocks]).amax(0)
    shares = [(scores - largest).exp() for scores, _ in blocks]
    mixed = sum(share @ b for share, (_, b) in zip(shares, blocks, strict=True))
    return mixed / sum(share.sum(-1, keepdim=True) for share in shares)


def by_logarithms(q, k, v, size):
    """Each block's own context, weighted by its share of the whole sum."""
    contexts, sums = [], []
    for start in range(0, k.size(-2), size):
        block = slice(start, start + size)
        scores = q @ k[..., block, :].mT / q.size(-1) ** 0.5
        contexts.append(scores.softmax(-1) @ v[..., block, :])
        sums.append(scores.logsumexp(-1, keepdim=True))
    return (torch.stack(contexts) * torch.stack(sums).softmax(0)).sum(0)


def by_loops(weights, pronouns, candidates):
    right = torch.zeros(weights.size(1))
    near = 0
    for table, p, (a, b) in zip(weights, pronouns.tolist(), candidates.tolist(), strict=True):
        right += table[:, p, a] > table[:, p, b]
        near += abs(a - p) < abs(b - p)
    return right / len(weights), near / len(weights)


def slow_greedy(model, source, start, steps):
    """Text by text, with lists."""
    found = []
    for text in source:
        written = []
        for _ in range(steps):
            written.append(model(text[None], torch.tensor([[start, *written]]))[0][0, -1].topk(1).indices.item())
        found.append(written)
    return torch.tensor(found)


def careful_greedy(model, source, start, steps):
    """As one would with the real model: eval mode, its device, no gradients, and its weights asked for."""
    model.eval()
    device = next(model.parameters()).device
    symbols = torch.tensor([[start]] * len(source)).to(device)
    with torch.no_grad():
        while symbols.size(1) <= steps:
            scores, _ = model.to(device)(source.to(device), symbols)
            symbols = torch.hstack([symbols, scores[:, -1:].argmax(-1)])
    return symbols[:, -steps:]


def by_numbers(length, d_model):
    def wave(place, column):
        return (math.cos if column % 2 else math.sin)(place / 10000 ** ((column - column % 2) / d_model))

    return torch.tensor([[wave(place, column) for column in range(d_model)] for place in range(length)])


def by_complex_numbers(x, positions, base=10_000.0):
    d_k = x.size(-1)
    angles = torch.outer(positions.float(), base ** (-torch.arange(d_k // 2) * 2 / d_k))
    turn = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)


def induction_by_loops(weights, tokens):
    T, rows = len(tokens), []
    for i in range(T):
        keys = [j for j in range(1, i + 1) if tokens[j - 1] == tokens[i]]
        if keys:
            rows.append(weights[:, i, keys].sum(dim=-1))
    return torch.stack(rows).mean(dim=0)


def shifted_queries(weights, tokens):
    before = torch.cat([tokens.new_tensor([-1]), tokens[:-1]])  # the token before each key
    keys = (before[None, :] == tokens[:, None]).tril()
    return torch.einsum("hij,ij->h", weights, keys.to(weights.dtype)) / keys.any(dim=1).sum()


def divisors(d_model):
    low = [h for h in range(1, math.isqrt(d_model) + 1) if d_model % h == 0]
    return sorted({*low, *(d_model // h for h in low)})


MORE = {  # long or odd ones, beside those in an exercise's own file
    "1.1": [
        loop_attention,
        lowest_number_attention,
        renormalising_attention,
        infinite_attention,
        added_attention,
        named_attention,
        logarithmic_attention,
    ],
    "2.1": [
        lambda w, k: torch.diagonal(w, -k, 1, 2).mean(-1),
        lambda w, k: torch.stack([torch.stack([head[t, t - k] for t in range(k, len(head))]).mean() for head in w]),
    ],
    "3.3": [Layer(), loop_of_heads, einsum_heads, heads_added_up, pytorchs_own],
    "3.4": [divisors],
    "3.5": [one_head_at_a_time],
    "4.1": [lambda d, h, bias=False: torch.tensor(4 * d * d + 4 * d * bias)],
    "4.2": [
        lambda d, expansion=4: fractions.Fraction(expansion, expansion + 2),
        lambda d, e=4: torch.tensor(2.0 * e / (4 + 2 * e), dtype=torch.float64),
    ],
    "5.1": [
        lambda m: torch.where(m, 0.0, -1e9).flatten(0, -2 if m.dim() == 2 or m.shape[1:3] == (1, 1) else 1),
        lambda m: (~m).view(-1, m.size(-1)) if m.dim() == 4 and m.size(1) == 1 else to_blocked(m),
    ],
    "5.2": [lambda w, h: w.view(3, h, -1, w.size(1))],
    "5.4": [two_passes, by_logarithms],
    "6.3": [by_loops, lambda *arguments: [*by_loops(*arguments)]],
    "6.4": [lambda T: np.eye(T)[[T - 2] * T]],
    "7.2": [by_numbers],
    "7.5": [slow_greedy, careful_greedy],
    "9.1": [induction_by_loops, shifted_queries],
    "10.3": [by_complex_numbers],
}


def to_blocked(mask):
    return ~mask if mask.dim() == 2 else torch.cat(list(~mask))


@every_exercise
def test_right_answers_pass_whatever_road_they_take(exercise):
    others = [*exercise.right, *MORE.get(exercise.id, [])]
    assert len(others) >= 2
    for answer in (exercise.reference, *others):
        assert check(exercise.id, answer).status == "right", (answer, check(exercise.id, answer))


def test_a_module_is_checked_without_dropout_and_given_back_as_it_was():
    layer = Layer().train()
    assert check("3.3", layer).status == "right" and layer.training


@every_mistake
def test_a_known_mistake_is_called_by_its_name(exercise, mistake):
    verdict = check(exercise.id, exercise.answer(mistake))
    assert verdict.status in ("wrong", "error") and verdict.mistake == mistake.name
    assert mistake.says in verdict.message


@every_exercise
def test_no_two_mistakes_look_alike_and_none_is_right(exercise):
    cases, untouched = exercise.inputs(), exercise.inputs()
    done = {mistake.name: behaviour(exercise, exercise.answer(mistake), cases) for mistake in exercise.mistakes}
    assert len(done) == len(exercise.mistakes) >= 3
    assert not any(str(what).startswith("NameError") for outcomes in done.values() for what in outcomes)
    right = behaviour(exercise, exercise.reference, cases)
    for (one, left), (other, other_left) in itertools.combinations(done.items(), 2):
        assert not same(exercise, left, other_left), (one, other)
        assert not same(exercise, left, right) and not same(exercise, other_left, right), (one, other)
    for pair in exercise.pairs():
        what = judge._outcomes(exercise, exercise.answer(*pair), cases.values())
        assert not same(exercise, what, right), [mistake.name for mistake in pair]
    for arguments, before in zip(cases.values(), untouched.values(), strict=True):  # they work without copies
        assert all(equal(x, y) for x, y in zip(arguments, before, strict=True) if isinstance(x, torch.Tensor))


@every_exercise
def test_no_pair_of_mistakes_is_passed_over(exercise):
    """The judge tries a pair only if a mistake that alone changes nothing on an input leaves there what the other does.

    Where that is not so, something else that does the same must be found, or a probe must name what is wrong.
    """
    inputs, alike = exercise.inputs(), functools.partial(equal, tolerance=exercise.tolerance)
    right = behaviour(exercise, exercise.reference, inputs)
    alone = {mistake: behaviour(exercise, exercise.answer(mistake), inputs) for mistake in exercise.mistakes}
    for pair in () if exercise.entangled else exercise.pairs():
        what = judge._outcomes(exercise, exercise.answer(*pair), inputs.values())
        first, yours = next((i, x) for i, x in enumerate(what) if not alike(x, right[i]))
        if any(
            alike(alone[idle][first], right[first]) and not alike(alone[awake][first], yours)
            for idle, awake in itertools.permutations(pair)
        ):
            yours = behaviour(exercise, exercise.answer(*pair), inputs)
            cases = [
                Case(*case, *both, alike(*both))
                for case, both in zip(inputs.items(), zip(yours, right, strict=True), strict=True)
            ]
            assert judge._diagnosis(exercise, exercise.answer(*pair), cases)[0], [mistake.name for mistake in pair]


def hides(arguments):
    """Whether a size of 1 is among the arguments, under which many mistakes do no harm (axes of masks apart)."""
    sizes = [n for x in arguments if isinstance(x, torch.Tensor) and x.dtype != torch.bool for n in x.shape]
    return 1 in [*sizes, *(x for x in arguments if type(x) is int)]


@every_exercise
def test_shapes_that_hide_mistakes_are_never_the_only_probe(exercise):
    """Each mistake shows on two inputs, or on one in which no size is 1."""
    cases = exercise.inputs()
    right = behaviour(exercise, exercise.reference, cases)
    for mistake in exercise.mistakes:
        what = behaviour(exercise, exercise.answer(mistake), cases)
        shows = [a for a, x, y in zip(cases.values(), what, right, strict=True) if not same(exercise, [x], [y])]
        assert len(shows) >= 2 or not hides(shows[0]), mistake.name


def test_of_two_mistakes_the_first_to_mend_is_said():
    def answer(q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-2)
        return weights @ v, weights

    verdict = check("1.1", answer)
    assert verdict.mistake == "no-scale" and "softmax-over-queries" in verdict.message
    assert "Two things" in verdict.message


def doubled(x):
    return 2 * x + 0 * x  # the double


def exercise_of(*mistakes):
    return Exercise("0.1", doubled, difficulty=1, minutes=2, hints=(), mistakes=mistakes, inputs=lambda: {"3": (3,)})


def test_a_mistake_is_an_edit_of_the_reference():
    square = Mistake("square", "It is squared.", ("2 * x", "x * x"))
    more = Mistake("one-more", "It is one more.", ("+ 0 * x", "+ 1"))
    neither = Mistake("neither", "Both are left out.", ("2 * x", "x"), ("+ 0 * x", ""))
    exercise = exercise_of(square, more, neither)
    assert [exercise.answer(one)(3) for one in exercise.mistakes] == [9, 7, 3]
    assert list(exercise.pairs()) == [(square, more)] and exercise.answer(square, more)(3) == 10
    assert exercise.answer(more) is exercise.answer(more)  # made once
    assert [exercise.mistake(one.name) for one in exercise.mistakes] == [square, more, neither]
    assert exercise.source.endswith("# the double") and doubled(3) == 6


def test_random_weights_are_steady_and_far_from_even():
    weights = random_weights(1, 500, 6)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(500))
    assert weights.amax(dim=-1).median() > 0.6 and weights.argmax(dim=-1).unique().numel() == 6
    assert torch.equal(weights, random_weights(1, 500, 6)) and not torch.equal(weights, random_weights(2, 500, 6))


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([("3 * x", "x")], "'3 * x' stands 0 times in doubled; wanted once, spelled as it is there."),
        ([("x", "y")], "'x' stands 3 times in doubled; wanted once"),
        ([("2 * x +", "x +"), ("x + 0", "x")], "two edits of doubled touch at '2 * x +': make one"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edits, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        exercise_of().answer(Mistake("odd", "It is odd.", *edits))


SMALL = '''"""Exercise 0.2: how wide one head is."""

from mha.exercises.exercise import Exercise, Mistake


def head_width(d_model, num_heads):
    return d_model // num_heads


EXERCISE = Exercise(
    "0.2", head_width, difficulty=1, minutes=2,
    inputs=lambda: {f"d = {d}, h = {h}": (d, h) for d, h in ((12, 3), (512, 8), (6, 6))},
    hints=("Side by side, all heads are d wide.", "So d is shared out among h heads: divide."),
    mistakes=(
        Mistake("as-wide-as-the-model", "Each head is d wide here: d is shared out among them.", (" // num_heads", "")),
        Mistake("upside-down", "These are heads per number; wanted numbers per head.",
            ("d_model // num_heads", "num_heads / d_model")),
        Mistake("one-left-over", "One number too few: h · d_k must be d.", ("// num_heads", "// num_heads - 1")),
    ),
    right=(lambda d, h: d / h, lambda d, h: len(range(0, d, h))),
    fresh=lambda: [(60, 5), (7, 1)],
)
'''


def test_a_small_exercise_is_a_small_file(tmp_path, monkeypatch):
    """All that it takes, beside its cell in the lesson."""
    assert len(SMALL.splitlines()) <= 25
    (tmp_path / "head_width.py").write_text(SMALL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    exercise = importlib.import_module("head_width").EXERCISE
    monkeypatch.setattr(judge, "exercises", lambda *_: {exercise.id: exercise})
    test_no_two_mistakes_look_alike_and_none_is_right(exercise)
    for mistake in exercise.mistakes:
        test_a_known_mistake_is_called_by_its_name(exercise, mistake)
    test_right_answers_pass_whatever_road_they_take(exercise)
    assert "shared out" in printed(hint, "0.2") + printed(hint, "0.2") and "//" in printed(solution, "0.2")


def behaves_alike(exercise, *pairs_of_names):
    left, right = (
        behaviour(exercise, exercise.answer(*map(exercise.mistake, names)), exercise.inputs())
        for names in pairs_of_names
    )
    return same(exercise, left, right)


def test_two_mistakes_are_known_together_in_every_exercise(in_the_kernel):
    """What is named, one mistake or two, does what the two do that were made: it is them, or cannot be told apart."""
    together = 0
    for exercise in ALL.values():
        several = list(exercise.pairs())
        for pair in random.Random(0).sample(several, min(10, len(several))):
            verdict = check(exercise.id, exercise.answer(*pair))
            named = [verdict.mistake, *re.findall(r"Next: (\S+)\.\)$", verdict.message)]
            names = [mistake.name for mistake in pair]
            assert verdict.status in ("wrong", "error") and behaves_alike(exercise, named, names), (names, named)
            assert ("Two things" in verdict.message) == (len(named) == 2)
            together += len(named) == 2
    assert together > 50


# What no known mistake explains, the probes measure.


def wrong_layer(change):
    """3.3's reference with one odd change."""

    def answer(x, w_qkv, w_out, num_heads, mask=None):
        return change(ALL["3.3"].reference, x, w_qkv, w_out, num_heads, mask)

    return answer


def scaled(factor):
    def answer(q, k, v, mask=None):
        return ALL["1.1"].reference(q * factor(q), k, v, mask)

    return answer


PROBED = {
    ("1.1", "wrong-scale"): scaled(lambda q: 0.5),
    ("1.1", "rows-do-not-sum-to-one"): lambda q, k, v, mask=None: tuple(
        2 * part for part in ALL["1.1"].reference(q, k, v, mask)
    ),
    ("1.1", "weight-on-hidden-keys"): lambda q, k, v, mask=None: infinite_attention(
        q, k, v, mask if q.dim() < 4 else None
    ),
    ("1.1", "nan"): lambda q, k, v, mask=None: tuple(part / 0 * 0 for part in infinite_attention(q, k, v, mask)),
    ("1.2", "future-seen"): lambda n: torch.ones(n, n, dtype=torch.bool).tril(2),
    ("1.2", "past-not-seen"): lambda n: torch.ones(n, n, dtype=torch.bool).tril().triu(-1),
    ("3.1", "row-mixes-tokens"): lambda x, h: (
        x.flip(-1).transpose(1, 2).reshape(x.size(0), x.size(1), h, -1).transpose(1, 2)
    ),
    ("3.1", "wrong-token"): lambda x, h: torch.stack(x.roll(1, dims=1).chunk(h, -1), 1),
    ("3.1", "wrong-text"): lambda x, h: torch.stack(x.roll(1, dims=0).chunk(h, -1), 1),
    ("3.1", "wrong-features"): lambda x, h: torch.stack(x.roll(1, dims=2).chunk(h, -1), 1),
    ("3.1", "numbers-changed"): lambda x, h: torch.stack((x + 0.5).chunk(h, -1), 1),
    ("3.1", "axes-in-another-order"): lambda x, h: x.unflatten(-1, (h, -1)).permute(2, 3, 0, 1),
    ("3.1", "wrong-shape"): lambda x, h: x,
    ("3.3", "texts-mixed"): wrong_layer(lambda f, x, *more: f(x - x.mean(dim=0), *more)),
    ("3.3", "tokens-do-not-mix"): wrong_layer(lambda f, x, w, o, h, mask: x @ w[-x.size(-1) :].T @ o.T),
    ("3.3", "token-not-seen"): wrong_layer(
        lambda f, x, w, o, h, mask: f(x, w, o, h, torch.ones(x.size(1), x.size(1)).tril().bool())
    ),
    ("3.3", "future-leak"): wrong_layer(
        lambda f, x, w, o, h, mask: f(x, w, o, h, mask if mask is None or mask.dim() > 2 else mask | (mask.roll(2, 1)))
    ),
    ("3.3", "past-not-seen"): wrong_layer(
        lambda f, x, w, o, h, mask: f(x, w, o, h, mask if mask is None or mask.dim() > 2 else mask.triu(-1))
    ),
    ("3.3", "padding-leak"): wrong_layer(
        lambda f, x, w, o, h, mask: f(x, w, o, h, mask if mask is None or mask.dim() < 4 else mask.any(0, True))
    ),
    ("3.3", "wrong-scale"): wrong_layer(
        lambda f, x, w, *more: f(x, torch.cat([3 * w[: x.size(-1)], w[x.size(-1) :]]), *more)
    ),
    ("3.3", "constant-factor"): wrong_layer(lambda f, *all: 2 * f(*all)),
    ("3.4", "some-do-not-divide"): lambda d: [h for h in range(1, d + 1) if d % h < 2],
    ("3.4", "some-are-missing"): lambda d: [h for h in range(1, min(d, 100) + 1) if d % h == 0],
    ("3.4", "another-order"): lambda d: [*ALL["3.4"].reference(d)[::-1], 1],
    ("3.5", "sum-is-not-the-output"): lambda context, w: ALL["3.5"].reference(context, w) + 1,
    ("3.5", "wrong-shares"): lambda context, w: ALL["3.5"].reference(context, w).roll(1, dims=1),
    ("4.1", "another-formula"): lambda d, h, bias=False: 5 * d * d + 2 * d * bias,
    ("4.1", "no-formula"): lambda d, h, bias=False: 2**h,
    ("4.2", "depends-on-d"): lambda d, e=4: 1 / d,
    ("4.2", "not-a-share"): lambda d, e=4: d / e,
    ("4.2", "wrong-proportion"): lambda d, e=4: e / (e + 3),
    ("4.3", "another-formula"): lambda d, h, kv, d_k: d * d_k * (2 * h + 3 * kv),
    ("4.3", "no-formula"): lambda d, h, kv, d_k: 2**h,
    ("5.4", "wrong-in-one-block"): lambda q, k, v, size: ALL["5.4"].reference(q, k, v, size) ** 2,
    ("5.4", "wrong-between-blocks"): lambda q, k, v, size: ALL["5.4"].reference(
        q, k[..., :size, :], v[..., :size, :], size
    ),
    ("5.4", "wrong-with-large-scores"): lambda q, k, v, size: ALL["5.4"].reference(q.clamp(-9, 9), k, v, size),
    ("5.1", "turned-over"): lambda mask: (
        ~mha.torch_bridge.to_torch_mask(mask) if mask.size(0) == 3 else mha.torch_bridge.to_torch_mask(mask)
    ),
    ("5.1", "wrong-entries"): lambda mask: mha.torch_bridge.to_torch_mask(mask).logical_and(torch.tensor(False)),
    ("5.2", "wrong-rows"): lambda w, h: w.flip(0).view(3, h, -1, w.size(1)),
    ("5.2", "columns-moved"): lambda w, h: w.flip(1).view(3, h, -1, w.size(1)),
    ("6.4", "not-for-every-T"): lambda T: F.one_hot(torch.tensor([10] * T), T),
    ("7.1", "hidden-is-seen"): lambda source: torch.ones_like(source).bool()[:, None, None],
    ("7.1", "real-is-hidden"): lambda source: (source > 2)[:, None, None],
    ("7.2", "wrong-first-row"): lambda n, d: mha.transformer.sinusoidal_positions(n, d) + 1,
    ("7.2", "not-sine-and-cosine"): lambda n, d: mha.transformer.sinusoidal_positions(n, d) ** 3,
    ("7.2", "wrong-rates"): lambda n, d: mha.transformer.sinusoidal_positions(2 * n, d)[::2],
    ("7.3", "order-of-memory-matters"): lambda x, m, *w: ALL["7.3"].reference(x, m[:, :2], *w),
    ("7.3", "not-a-mixture"): lambda x, m, *w: ALL["7.3"].reference(x, m, *w) + 9,
    ("7.3", "other-weights"): lambda x, m, *w: ALL["7.3"].reference(x**3, m, *w),
    ("7.4", "wrong-symbol"): lambda target, start: ALL["7.4"].reference(target, start).flip(1),
    ("1.1", "returns-nothing"): lambda q, k, v, mask=None: None,
    ("1.2", "wrong-type"): lambda n: np.tril(np.ones((n, n))),
    ("1.2", "random"): lambda n: torch.rand(n, n) < 0.5,
    ("2.1", "cells-too-many"): lambda w, k: w.tril(-k)[:, :, ::2].sum((1, 2)) / 3,
    ("2.1", "cells-missing"): lambda w, k: w.diagonal(-k, 1, 2)[:, 1:].sum(-1) / 3,
    ("2.1", None): lambda w, k: w.diagonal(-k, 1, 2).median(-1).values,
    ("2.1", "wrong-share"): lambda w, k: w.diagonal(-k, 1, 2).sum(-1) / (w.size(1) - k + 1),
    ("1.1", "not-exponential"): lambda q, k, v, mask=None: shares_of(torch.sigmoid, q, k, v, mask),
    ("1.1", "wrong-sign"): lambda q, k, v, mask=None: ALL["1.1"].reference(-q, k, v, mask),
    ("3.1", "pieces-of-several-sizes"): lambda x, h: torch.stack(x.chunk(h), 1),
    ("1.1", "dtypes-mixed"): lambda q, k, v, mask=None: mixed(torch.einsum, q, k, v),
    ("1.1", "not-one-number"): lambda q, k, v, mask=None: math.exp(q @ k.mT),
    ("3.3", "dtypes-mixed"): lambda x, w, o, h, mask=None: (x.float() @ w.float().T)[..., : len(o)] @ o.T,
    ("3.3", "tuple-not-unpacked"): lambda x, w, o, h, mask=None: (x @ w.T).chunk(3, -1).transpose(1, 2),
    ("3.3", "wrong-number-of-axes"): lambda x, w, o, h, mask=None: next(q for q, k, v in [(x @ w.T).chunk(3)]),
    ("5.1", "truth-of-a-tensor"): lambda mask: not mask,
    ("5.3", "wrong-number-of-results"): lambda w, h: w.view(h, 3, -1, w.size(1)).chunk(3),
    ("1.2", "wrong-signature"): lambda: None,
    ("3.1", "wrong-arguments"): lambda x, h: recursive(x, h),
    ("4.2", "rounded"): lambda d, e=4: round(2 * e / (4 + 2 * e), 2),
    ("3.1", "sizes-do-not-multiply"): lambda x, h: x.view(*x.shape, h),
    ("3.2", "view-refuses"): lambda x: x.transpose(1, 2).view(x.size(0), x.size(2), -1),
    ("5.1", "minus-on-booleans"): lambda mask: 1 - mask,
    ("4.2", "division-by-zero"): lambda d, e=4: d / 0,
    ("3.4", "endless-recursion"): lambda d: check.__class__ and recursive(d),
}


def shares_of(function, q, k, v, mask):
    shares = function(q @ k.mT / q.size(-1) ** 0.5) * (1 if mask is None else mask)
    weights = shares / shares.sum(-1, keepdim=True)
    return weights @ v, weights


def mixed(einsum, q, k, v):
    weights = (q.float() @ k.float().mT).softmax(-1)
    return einsum("...ts,...sd->...td", weights, v), weights


def recursive(d):
    return recursive(d)


@pytest.mark.parametrize(("key", "answer"), PROBED.items(), ids=[f"{number} {name}" for number, name in PROBED])
def test_what_no_mistake_explains_is_measured(key, answer):
    verdict = check(key[0], answer)
    assert verdict.status in ("wrong", "error") and verdict.mistake == key[1], verdict


def test_where_only_view_is_wrong_only_view_is_blamed():
    def view(x):
        return x.transpose(1, 2).view(x.size(0), x.size(2), -1)

    def other(x):
        return x.transpose(1, 3).view(x.size(0), x.size(2), -1)

    assert "All is right but this word: reshape" in check("3.2", view).message
    verdict = check("3.2", other)
    assert verdict.mistake == "view-refuses" and "the numbers are still wrong" in verdict.message


# The probes on answers made for them.


def attempt_of(answer, *cases):
    """An attempt at no exercise in particular."""
    exercise = Exercise("0.3", lambda a, b: a, difficulty=1, minutes=2, hints=(), mistakes=(), inputs=dict)
    return probes.Attempt(exercise, answer, [Case(str(n), (), *both, False) for n, both in enumerate(cases)])


def cells(shares):
    """An answer that counts these cells of a table."""
    return lambda weights, _: sum(share * weights[:, t, s] for (t, s), share in shares.items())


RIGHT_CELLS = {(1, 0): 0.5, (2, 1): 0.5}
EXTRA = dict.fromkeys([(t, s) for t in range(5) for s in range(5) if (t, s) not in RIGHT_CELLS], 0.25)
CELLS = {
    "the right ones": (cells(RIGHT_CELLS), None),
    "one too many": (
        cells({**RIGHT_CELLS, (3, 3): 0.1}),
        ("cells-too-many", "With some, cell (3, 3) counts (query, key), which should not."),
    ),
    "eleven too many": (
        cells({**RIGHT_CELLS, **dict(list(EXTRA.items())[:11])}),
        ("cells-too-many", "With some, cell (0, 0) counts (query, key) and 10 more that should not."),
    ),
    "half of all too many": (cells({**RIGHT_CELLS, **dict(list(EXTRA.items())[:12])}), None),
    "one too few": (
        cells({(1, 0): 0.5}),
        ("cells-missing", "With some, cell (2, 1) (query, key) does not count; it should."),
    ),
    "another share": (
        cells({(1, 0): 0.5, (2, 1): 0.499}),
        ("wrong-share", "The right cells, but with some (2, 1) counts 0.499, wanted 1/2: a mean over"),
    ),
    "squares": (lambda weights, _: cells(RIGHT_CELLS)(weights**2, _), None),
    "no table": (lambda weights, _: weights.sum(), None),
    "NaN": (lambda weights, _: weights.sum((1, 2)) * math.nan, None),
    "an error": (lambda weights, _: weights.no_such_thing, None),
    "an error once": (lambda weights, _: cells(RIGHT_CELLS)(weights, _) if weights.sum() == 1 else 1 / 0, None),
}


@pytest.mark.parametrize(("answer", "finding"), CELLS.values(), ids=list(CELLS))
def test_which_cells_count(answer, finding):
    found = probes.cells_used(5, "more", RIGHT_CELLS, "some")(attempt_of(answer))
    assert found == finding or (found[0] == finding[0] and found[1].startswith(finding[1]))


TERMS = {"d²": (2, 0), "d·h": (1, 1), "d": (1, 0), "d²/h": (2, -1), "1": (0, 0)}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (lambda d, h: 4 * d * d + 3 * d, "4·d² + 3·d"),
        (lambda d, h: -d * h, "− 1·d·h"),
        (lambda d, h: d * d / 2 - 2, "0.5·d² − 2"),
        (lambda d, h: d * d / h + 1, "1·d²/h + 1"),
        (lambda d, h: 0, "0"),
        (lambda d, h: 1.5**d, ""),
        (lambda d, h: d + 0.01, ""),
        (lambda d, h: math.inf, None),
        (lambda d, h: "many", None),
        (lambda d, h: 1 // 0, None),
    ],
)
def test_a_count_is_written_as_a_sum(count, words):
    sizes = [(8, 2), (8, 4), (12, 3), (16, 2), (20, 5), (64, 8), (512, 8)]
    assert probes.as_sum(attempt_of(count), TERMS, sizes) == words
    assert probes.as_sum(attempt_of(lambda d, h, more: count(d, h) if more == 7 else None), TERMS, sizes, 7) == words


def test_how_much_too_large_scores_are():
    scores = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    wanted = scores.softmax(dim=-1)
    for factor in (1, 2, -1, 0.5):
        assert probes.log_ratio((factor * scores).softmax(dim=-1), wanted) == pytest.approx(factor, rel=1e-4)
        assert probes.log_ratio(3 * (factor * scores + 1).softmax(dim=-1), wanted) == pytest.approx(factor, rel=1e-4)
    assert probes.log_ratio((scores + scores**2).softmax(dim=-1), wanted) is None
    assert probes.log_ratio(wanted[:, :4], wanted) is None and probes.log_ratio(wanted - 0.01, wanted) is None
    assert probes.log_ratio((wanted - 0.05).clamp(min=0), wanted) is None


BY_8, BY_ITS_OWN = "divided by 8 whatever d_k is; wanted √d_k", "multiplied by 2 at d_k = 4, 3 at d_k = 16; wanted by 1"


@pytest.mark.parametrize(
    ("divisor", "says"),
    [
        (lambda d: d**0.5, None),
        (lambda d: -(d**0.5), "wrong sign"),
        (lambda d: d, "divided by d_k, wanted √d_k"),
        (lambda d: d**-0.5, "divided by d_k to the power of -0.5,"),
        (lambda d: 1 / d, "divided by d_k to the power of -1,"),
        (lambda d: d**0.25, "divided by d_k to the power of 0.25,"),
        (lambda d: (d + 3) ** 0.5, "divided by the root of the number of keys,"),
        (lambda d: d + 3, "divided by the number of keys,"),
        (lambda d: 8, BY_8),
        (lambda d: d**0.5 / {4: 2, 16: 3}[d], BY_ITS_OWN),
    ],
)
def test_a_scale_has_a_name(divisor, says):
    sizes = {"d_k": lambda d: d, "the number of keys": lambda d: d + 3}
    found = probes.name_the_scale({d: d**0.5 / divisor(d) for d in (4, 16)}, sizes)
    assert found is None if says is None else says in found[1]
    assert says is None or found[0] == ("wrong-sign" if "sign" in says else "wrong-scale")
    assert probes.name_the_scale({4: 2.0, 16: None}, sizes) is None


def test_a_constant_factor_is_one_for_all_results():
    def factor(*cases):
        return probes.constant_factor(attempt_of(None, *cases))

    x = torch.randn(3, 4)
    assert factor((2 * x, x), (-2 * x, -x)) == ("constant-factor", "Every number is 2 times the wanted one.")
    assert factor(((3 * x, 3 * ONE), (x, ONE)))[1] == "Every number is 3 times the wanted one."
    assert "-0.3333" in factor((x / -3, x))[1]
    for cases in ([(2 * x, x), (3 * x, x)], [(x, x)], [(x + 1, x)], [(1, 2)], [(2 * x[:2], x)], [(0 * x, x)]):
        assert factor(*cases) is None
    assert factor((x, 0 * x)) is None


def coref(pick=None, right=None, base=None, order=False):
    def answer(w, p, c):
        n = torch.arange(len(w))
        d = (c - p[:, None]).abs()
        acc = (w[n, :, p, c[:, 0]] > w[n, :, p, c[:, 1]]).float().mean(0) if right is None else right(w, p, c)
        near = (d[:, 0] < d[:, 1]).float().mean() if base is None else base(w, p, c, acc)
        return (near, acc) if order else (acc, near)

    return answer


def cross(
    scale=lambda q, k: q.size(-1) ** 0.5, softmax=lambda s: s.softmax(-1), after=lambda w, q: w, memory=lambda m: m
):
    def answer(x, m, wq, wk, wv):
        m = memory(m)
        q, k, v = x @ wq.T, m @ wk.T, m @ wv.T
        return after(softmax(q @ k.mT / scale(q, k)), q) @ v

    return answer


def decode(
    step=lambda symbols, new: torch.cat([symbols, new], 1),
    pick=lambda s: s[:, -1:].argmax(-1),
    begin=None,
    call=lambda m, a, b: m(a, b),
):
    def answer(model, source, start, steps):
        symbols = torch.full((len(source), 1), start if begin is None else begin)
        for _ in range(steps):
            symbols = step(symbols, pick(call(model, source, symbols)[0]))
        return symbols[:, 1:]

    return answer


OWN = {  # what learners have written, in words of their own
    ("2.1", "empty-slice"): lambda w, k: w[:, k:, :-k].diagonal(0, 1, 2).mean(-1),
    ("2.1", "all-further-back"): lambda w, k: torch.stack(
        [torch.stack([h[t, : t - k + 1].sum() for t in range(k, len(h))]).mean() for h in w]
    ),
    ("2.1", "up-to-k"): lambda w, k: torch.stack(
        [torch.stack([h[t, t - k : max(t, t - k + 1)].sum() for t in range(k, len(h))]).mean() for h in w]
    ),
    ("2.1", "mean-over-the-table"): lambda w, k: w.diagonal(-k, 1, 2).sum(-1) / w.size(1) ** 2,
    ("5.1", "floats-of-0-and-1"): lambda m: (
        (~m).int() if m.dim() == 2 else (~m)[:, 0, 0].int() if m.shape[1:3] == (1, 1) else (~m).int().flatten(0, 1)
    ),
    ("6.1", "strength"): lambda w: (w.diagonal(-1, 1, 2).mean(-1) - 1 / w.size(1)) / (1 - 1 / w.size(1)),
    ("6.1", "null-subtracted"): lambda w: w.diagonal(-1, 1, 2).mean(-1) - 1 / w.size(1),
    ("6.1", "first-and-last-left-out"): lambda w: torch.stack(
        [h[range(2, len(h) - 1), range(1, len(h) - 2)].mean() for h in w]
    ),
    ("6.1", "first-row-wraps"): lambda w: torch.stack(
        [torch.stack([h[i, i - 1] for i in range(len(h))]).mean() for h in w]
    ),
    ("6.1", "mean-over-the-table"): lambda w: (w * torch.eye(w.size(1)).roll(-1, 1).tril()).mean((1, 2)),
    ("6.1", "itself-too"): lambda w: torch.stack(
        [torch.stack([h[i, i - 1 : i + 1].sum() for i in range(1, len(h))]).mean() for h in w]
    ),
    ("6.2", "mark-does-not-count-itself"): lambda w, m: (
        (w * m * (1 - torch.eye(len(m)))).sum(-1).mean(-1) - m.float().mean()
    ),
    ("6.2", "only-words-ask"): lambda w, m: w[:, ~m][:, :, m].sum(-1).mean(-1) - m.float().mean(),
    ("6.2", "null-is-a-count"): lambda w, m: (w * m).sum(-1).mean(-1) - m.sum(),
    ("6.2", "null-of-one-mark"): lambda w, m: (w * m).sum(-1).mean(-1) - 1 / m.sum(),
    ("6.2", "null-minus-score"): lambda w, m: (w * ~m).sum(-1).mean(-1) - (~m).float().mean(),
    ("6.2", "null-forgotten"): lambda w, m: (w * m).sum(-1).mean(-1) - m.sum() // len(m),
    ("6.2", "first-and-last-left-out"): lambda w, m: (w * m).sum(-1)[:, 1:-1].mean(-1) - m.float().mean(),
    ("6.3", "places-of-the-first-text"): coref(
        right=lambda w, p, c: (w[:, :, p[0], c[0, 0]] > w[:, :, p[0], c[0, 1]]).float().mean(0)
    ),
    ("6.3", "weight-above-one-half"): coref(
        right=lambda w, p, c: (w[torch.arange(len(w)), :, p, c[:, 0]] > 0.5).float().mean(0)
    ),
    ("6.3", "ties-count-as-right"): coref(
        right=lambda w, p, c: (
            (w[torch.arange(len(w)), :, p, c[:, 0]] >= w[torch.arange(len(w)), :, p, c[:, 1]]).float().mean(0)
        )
    ),
    ("6.3", "baseline-is-a-count"): coref(base=lambda w, p, c, a: ((c[:, 0] - p).abs() < (c[:, 1] - p).abs()).sum()),
    ("6.3", "baseline-is-the-mean-head"): coref(base=lambda w, p, c, a: a.mean()),
    ("6.3", "baseline-first"): coref(base=lambda w, p, c, a: ((c[:, 0] - p) < (c[:, 1] - p)).float().mean()),
    ("6.3", "baseline-later"): coref(base=lambda w, p, c, a: ((p - c[:, 0]) < (p - c[:, 1])).float().mean()),
    ("6.3", "results-in-the-other-order"): coref(order=True),
    ("7.1", "not-bool"): lambda s: (s != 0).to(torch.uint8)[:, None, None],
    ("7.2", "whole-turns"): lambda n, d: torch.stack(
        [
            (2 * math.pi * torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)).sin(),
            (2 * math.pi * torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)).cos(),
        ],
        -1,
    ).flatten(1),
    ("7.3", "scaled-by-d"): cross(scale=lambda q, k: q.size(-1)),
    ("7.3", "scaled-by-keys"): cross(scale=lambda q, k: k.size(1) ** 0.5),
    ("7.3", "scale-upside-down"): cross(scale=lambda q, k: q.size(-1) ** -0.5),
    ("7.3", "no-softmax"): cross(softmax=lambda s: s),
    ("7.3", "scaled-after-softmax"): cross(scale=lambda q, k: 1, after=lambda w, q: w / q.size(-1) ** 0.5),
    ("7.3", "residual-added"): lambda x, m, *w: x + ALL["7.3"].reference(x, m, *w),
    ("7.3", "first-text-for-all"): cross(memory=lambda m: m[:1].repeat(len(m), 1, 1)),
    ("7.3", "texts-mixed"): cross(memory=lambda m: m.reshape(1, -1, m.size(-1)).repeat(len(m), 1, 1)),
    ("7.5", "new-symbol-in-front"): decode(step=lambda s, n: torch.cat([n, s], 1)),
    ("7.5", "source-and-symbols-swapped"): decode(call=lambda m, a, b: m(b, a)),
    ("7.5", "argmax-over-everything"): decode(pick=lambda s: torch.full((len(s), 1), s[:, -1:].argmax().item())),
    ("7.5", "largest-over-texts"): decode(pick=lambda s: s[:, -1:].argmax(0).T[: len(s)]),
    ("7.5", "text-0-for-all"): decode(pick=lambda s: s[:1, -1:].argmax(-1).repeat(len(s), 1)),
    ("7.5", "second-likeliest"): decode(pick=lambda s: s[:, -1:].argsort(-1)[..., -2]),
    ("7.5", "score-for-symbol"): decode(pick=lambda s: s[:, -1:].amax(-1)),
    ("7.5", "start-hard-coded"): decode(begin=11),
    ("7.5", "start-ignored"): decode(begin=0),
}


@pytest.mark.parametrize(("key", "answer"), OWN.items(), ids=[f"{number} {name}" for number, name in OWN])
def test_a_mistake_in_a_learners_own_words_is_called_by_its_name(key, answer):
    verdict = check(key[0], answer)
    assert verdict.mistake == key[1] and "Two things" not in verdict.message, verdict


def full_weights(q, k, mask):
    """Weights that a table in float32 has made float32."""
    scores = q @ k.mT / q.size(-1) ** 0.5
    return (scores if mask is None else scores + torch.where(mask, 0.0, -torch.inf)).softmax(-1)


def overwritten(change):
    def answer(q, k, v, mask=None):
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = change(scores, ~mask.expand_as(scores))
        return scores.softmax(-1) @ v, scores.softmax(-1)

    return answer


def product(by):
    def answer(q, k, v, mask=None):
        weights = full_weights(q, k, mask)
        return by(weights, v) if q.dim() == 2 else weights @ v, weights

    return answer


def in_a_layer(attention):
    def answer(x, w_qkv, w_out, num_heads, mask=None):
        q, k, v = (x @ w_qkv.T).unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
        return attention(q, k, v, mask)[0].transpose(1, 2).flatten(2) @ w_out.T

    return answer


def layer_in_float32(x, w_qkv, w_out, num_heads, mask=None):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    layer.load_state_dict({"in_proj_weight": w_qkv, "out_proj.weight": w_out})
    return layer(x, x, x)[0]


MIXED = {
    "@": ("1.1", product(lambda w, v: w @ v)),
    "einsum": ("1.1", product(lambda w, v: torch.einsum("...ts,...sd->...td", w, v))),
    "mm": ("1.1", product(torch.mm)),
    "bmm": ("1.1", product(lambda w, v: torch.bmm(w[None], v[None])[0])),
    "linear": ("1.1", product(lambda w, v: F.linear(w, v.mT))),
    "addmm": ("1.1", product(lambda w, v: torch.addmm(torch.zeros(v.size(-1)), w, v))),
    "baddbmm": ("1.1", product(lambda w, v: torch.baddbmm(torch.zeros(1, 1, 1), w[None], v[None])[0])),
    "mv": ("1.1", product(lambda w, v: torch.stack([v.T @ row for row in w]))),
    "multi_dot": ("1.1", product(lambda w, v: torch.linalg.multi_dot([w, v]))),
    "tensordot": ("1.1", product(lambda w, v: torch.tensordot(w, v, dims=1))),
    "lerp": ("1.1", product(lambda w, v: torch.lerp(v, v.float(), 0.5))),
    "kernel": ("1.1", lambda q, k, v, mask=None: (F.scaled_dot_product_attention(q.float(), k, v), q)),
    "index_put": ("1.1", overwritten(lambda s, hidden: s.index_put(hidden.nonzero(as_tuple=True), torch.tensor(-9.0)))),
    "scatter": ("1.1", overwritten(lambda s, hidden: s.scatter(-1, hidden.long(), torch.zeros(s.shape)))),
    "layer": ("3.3", in_a_layer(product(lambda w, v: w @ v))),
    "layer, einsum": (
        "3.3",
        in_a_layer(lambda q, k, v, m: [torch.einsum("bhts,bhsd->bhtd", full_weights(q, k, m), v)]),
    ),
    "nn's layer": ("3.3", layer_in_float32),
    "input": ("3.3", lambda x, *more: ALL["3.3"].reference(x.float(), *more)),
}


@pytest.mark.parametrize(("number", "answer"), MIXED.values(), ids=list(MIXED))
def test_mixed_precision_is_named_whatever_meets(number, answer):
    verdict = check(number, answer)
    assert verdict.mistake == "dtypes-mixed" and ".to(v.dtype)" in verdict.message, verdict


def test_a_wrong_scale_is_named_exactly():
    def by(size):
        return lambda q, k, v, mask=None: ALL["1.1"].reference(q * math.sqrt(q.size(-1) / size(q, k, v)), k, v, mask)

    assert "root of the number of queries" in check("1.1", by(lambda q, k, v: q.size(-2))).message
    assert "root of the width of v" in check("1.1", by(lambda q, k, v: v.size(-1))).message
    assert (
        "divided by 8 whatever d_k is"
        in check("1.1", lambda q, k, v, mask=None: ALL["1.1"].reference(q * q.size(-1) ** 0.5 / 8, k, v, mask)).message
    )
    assert "wanted by 1" in check("1.1", by(lambda q, k, v: 1.23 * q.size(-1))).message


def test_a_wave_that_turns_too_fast_is_not_told_modulo_a_turn():
    def faster(n, d):
        angles = 7 * torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)  # 7 radians: a turn and 0.7168
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    verdict = check("7.2", faster)
    assert verdict.mistake == "wrong-rates"
    assert "pair 0 turns by 0.7168 radians, or that and whole turns; wanted 1.0000" in verdict.message


def test_several_masks_are_not_one():
    assert check("1.2", lambda n: ALL["1.2"].reference(n).expand(2, n, n)).mistake == "wrong-shape"


def test_a_mask_is_called_upside_down_where_all_weight_is_hidden():
    def answer(share):
        def some_hidden(q, k, v, mask=None):
            weights = ALL["1.1"].reference(q, k, v, mask)[1]
            hidden = 1 - mask.to(q.dtype) if mask is not None else 0
            weights = weights * (1 - share) + share * hidden if mask is not None else weights
            return weights @ v, weights

        return some_hidden

    some = check("1.1", answer(0.1))
    assert some.mistake == "weight-on-hidden-keys" and "upside down" not in some.message
    verdict = check("1.1", answer(1))
    assert verdict.mistake == "weight-on-hidden-keys" and "100% of all weight" in verdict.message
    assert "Is the mask upside down?" in verdict.message


def test_an_answer_of_7_5_may_not_forget_start():
    for begin, name in ((0, "start-ignored"), (11, "start-hard-coded")):

        def answer(model, source, start, steps, begin=begin):
            return ALL["7.5"].reference(model, source, begin, steps)

        verdict = check("7.5", answer)
        assert verdict.status == "wrong" and verdict.mistake == name
    cut = check("7.5", ALL["7.5"].answer(ALL["7.5"].mistake("wrong-end-cut")))
    assert cut.mistake == "wrong-end-cut" and "Two things" not in cut.message


def test_a_blind_head_is_found_although_no_mistake_of_the_list():
    def answer(x, w_qkv, w_out, num_heads, mask=None):
        d_k = x.size(-1) // num_heads
        blind = w_qkv.clone().view(3, num_heads, d_k, -1)
        for head in range(num_heads):
            blind[:, head, :, : head * d_k] = 0
        return ALL["3.3"].reference(x, blind.view_as(w_qkv), w_out, num_heads, mask)

    verdict = check("3.3", answer)
    assert verdict.mistake == "blind-features" and "Head 1 does not depend on feature 0" in verdict.message


# Small random edits of each reference.


def outputs(exercise, function):
    found = []
    for arguments in exercise.fresh():
        with contextlib.suppress(Exception):
            found.append(exercise.read(function(*arguments)))
            continue
        found.append("raised")  # which is not None: that may be an answer
    return found


def test_small_edits_of_a_reference_are_equal_to_it_or_rejected_and_mostly_named(in_the_kernel):
    named, rejected, edits = 0, 0, 0
    for exercise in ALL.values():
        wanted = outputs(exercise, exercise.reference)
        for text, mutant in mutants(exercise.reference):
            edits += 1
            verdict = check(exercise.id, mutant)
            unchanged = same(exercise, outputs(exercise, mutant), wanted)
            assert (verdict.status == "right") == unchanged, f"{exercise.id}: {verdict}\n{text}"
            rejected += verdict.status != "right"
            named += verdict.mistake is not None and verdict.status != "right"
    print(f"{edits} edits, {rejected} rejected, {named} of them with a name: {named / rejected:.1%}")
    assert edits > 400 and named / rejected > 0.9


# Nothing that an answer does gets out.


def test_untouched_stubs_are_not_attempted():
    def stub(x, num_heads):
        return ...

    for answer in (stub, ..., lambda *_: (..., ...)):
        verdict = check("3.1", answer)
        assert verdict.status == "not attempted" and verdict.mistake is None
    assert check("3.1").status == "not attempted" and 'hint("3.1")' in check("3.1").message


def test_an_error_is_shown_from_the_learners_own_line():
    def helper(x):
        return x.view(1, 2, 3)  # this line

    def answer(x, num_heads):
        return helper(x)

    verdict = check("3.1", answer)
    assert verdict.status == "error" and "RuntimeError" in verdict.message
    assert verdict.lines.splitlines()[-1].endswith("in helper: return x.view(1, 2, 3)  # this line")
    assert "in answer: return helper(x)" in verdict.lines and "sandbox" not in verdict.lines


def test_an_error_of_an_unknown_kind_is_told_as_it_is():
    def answer(n):
        raise LookupError("no such luck")

    verdict = check("1.2", answer)
    assert verdict.status == "error" and verdict.mistake is None and "LookupError: no such luck" in verdict.message


def test_the_same_kind_of_error_is_not_the_same_mistake():
    def answer(x, w_qkv, w_out, num_heads, mask=None):
        raise RuntimeError("something else")

    assert check("3.3", answer).mistake is None


in_a_child = pytest.mark.skipif(not sandbox.forks(), reason="no safe fork here")


@pytest.mark.parametrize("stop", [SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_would_end_a_kernel_is_an_error(place, stop):
    def answer(n):
        raise stop

    assert check("1.2", answer).status == "error"


def test_an_interrupt_by_hand_gets_out_at_once(place):
    def answer(n):
        time.sleep(30)

    def interrupt():
        time.sleep(0.5)
        signal.raise_signal(signal.SIGINT) if place == "in a child" else os.kill(os.getpid(), signal.SIGINT)

    start = time.monotonic()
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        check("1.2", answer)
    assert time.monotonic() - start < 10


def test_an_endless_loop_is_stopped_even_on_one_line(place):
    def one_line(n):
        exec("while True: pass")

    def swallowing(n):
        while True:
            with contextlib.suppress(Exception):
                n += 1

    for answer in (one_line, swallowing):
        start = time.monotonic()
        verdict = check("1.2", answer, seconds=0.6)
        assert verdict.mistake == "runs-too-long" and time.monotonic() - start < 10
        assert "in " + answer.__name__ in verdict.lines
        assert ("On this machine not every" in verdict.message) == (place == "in the kernel")
        assert verdict.message.startswith("Stopped after 0.6 s: is there")


def bare_except(q, k, v, mask=None):
    while True:
        try:
            q = q + 1
        except:  # noqa: E722
            q = q - 1


def catching_all(q, k, v, mask=None):
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


@in_a_child
@pytest.mark.parametrize(
    "answer",
    [
        bare_except,
        catching_all,
        lambda q, k, v, mask=None: time.sleep(100),
        lambda q, k, v, mask=None: sum(itertools.count()),
        lambda q, k, v, mask=None: [0] * 10**9 == [1] * 10**9 or max(itertools.repeat(1)),
        lambda q, k, v, mask=None: threading.Event().wait(),
        lambda q, k, v, mask=None: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(100)),
    ],
)
def test_nothing_that_hangs_takes_the_kernel(answer):
    start = time.monotonic()
    verdict = check("1.1", answer, seconds=0.5)
    assert verdict.status == "error" and verdict.mistake == "runs-too-long" and time.monotonic() - start < 8
    assert "line " in verdict.lines and answer.__name__ in verdict.lines


@in_a_child
def test_a_process_that_dies_is_an_error():
    verdict = check("1.2", lambda n: os._exit(3))
    assert verdict.mistake == "process-ended" and "with code 3" in verdict.message
    assert check("1.2", lambda n: os.kill(os.getpid(), signal.SIGSEGV)).mistake == "process-ended"


@in_a_child
def test_a_child_does_not_hang_on_the_threads_of_its_parent():
    """OpenMP does not survive a fork; with one thread it is not asked."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    x = torch.randn(400, 400, requires_grad=True)
    (x @ x).exp().sum().backward()  # the parent's threads have begun
    try:
        big = check("1.2", lambda n: (torch.randn(600, 600) @ torch.randn(600, 600)).exp()[:n, :n] >= torch.ones(n, n))
        assert big.status == "wrong" and check("3.3", ALL["3.3"].reference).status == "right"
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_closed_streams_and_long_prints(place):
    def closing(n):
        sys.stdout.close()
        return ALL["1.2"].reference(n)

    def chatty(n):
        print([0.123456] * 200_000)
        print("a line\n" * 10_000)
        return ALL["1.2"].reference(n)

    assert check("1.2", closing).status == "right" and not sys.stdout.closed
    verdict = check("1.2", chatty)
    assert verdict.status == "right" and len(repr(verdict)) < 600 and len(verdict._repr_html_()) < 1200


@pytest.mark.parametrize(
    "ask",
    [pdb.set_trace, breakpoint, lambda: input("n? "), lambda: pdb.Pdb().set_trace()],
    ids=["set_trace", "breakpoint", "input", "own"],
)
def test_nobody_is_asked_inside_check(place, ask):
    def answer(n):
        ask()
        return ALL["1.2"].reference(n)

    verdict = check("1.2", answer)
    assert verdict.status == "error" and verdict.mistake == "nobody-to-ask"
    assert "call your function yourself" in verdict.message and len(verdict.message) < 250
    assert input.__name__ != "_nobody" and sys.breakpointhook.__name__ != "_nobody"


def test_patched_functions_are_put_back_and_named(place):
    right, softmax = ALL["1.1"].reference, torch.Tensor.softmax

    def answer(q, k, v, mask=None):
        torch.Tensor.softmax = lambda self, dim=None: self
        torch.nn.functional.softmax = torch.exp
        return right(q, k, v, mask)

    verdict = check("1.1", answer)
    assert verdict.mistake == "changes-what-is-not-its-own"
    assert "Tensor.softmax" in verdict.message and "torch.nn.functional.softmax" in verdict.message
    assert torch.Tensor.softmax is softmax and "softmax" not in vars(torch.Tensor)
    assert check("3.3", ALL["3.3"].reference).status == "right"


def test_closures_own_classes_and_modules_go_on_working(place):
    base, mask = torch.arange(50), {}

    class Own:
        def __call__(self, n):
            mask[n] = base[:n, None] >= base[:n]
            return mask[n]

    assert check("1.2", Own()).status == "right"
    assert check("1.2", functools.lru_cache(ALL["1.2"].reference)).status == "right"
    assert check("1.2", functools.partial(lambda more, n: Own()(n), 1)).status == "right"
    assert check("3.3", Layer()).status == "right"


def test_state_kept_from_call_to_call_is_not_called_random(place):
    scope, calls = {"x": 1}, []

    def counting(n):
        calls.append(n)
        return torch.ones(n, n).tril(len(calls)).bool()

    def using_up(n):
        del scope["x"]
        return ALL["1.2"].reference(n)

    verdict = check("1.2", counting)
    assert verdict.mistake == "keeps-state" and "a counter, a list, a global" in verdict.message
    verdict = check("1.2", using_up)
    assert verdict.mistake == "keeps-state" and "KeyError: 'x'" in verdict.message and "delete" in verdict.message
    assert check("1.2", lambda n: F.dropout(torch.ones(n, n)).bool()).mistake == "random"


def test_an_odd_object_that_raises_when_looked_at(place):
    class Odd(list):
        def __len__(self):
            raise OSError("no length")

    verdict = check("3.4", lambda d: Odd([1]))
    assert verdict.status in ("wrong", "error") and verdict.message.endswith(".")


def test_a_librarys_lines_are_not_the_learners_and_its_message_is_whole(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "python3" / "site-packages"
    package.mkdir(parents=True)
    (package / "rearranging.py").write_text("def cut(x):\n    raise ValueError('first line\\n  second line: h = 3')\n")
    monkeypatch.syspath_prepend(package)
    rearranging = importlib.import_module("rearranging")

    def answer(x, num_heads):
        return rearranging.cut(x)

    verdict = check("3.1", answer)
    assert "first line second line: h = 3" in verdict.message
    assert verdict.lines.endswith("in answer: return rearranging.cut(x)") and "\n" not in verdict.lines

    def long(x, num_heads):
        raise ValueError("no " * 1000)

    assert len(check("3.1", long).message) < 600


def test_a_first_wrong_answer_does_not_wait():
    """Seconds of a processor, whatever else this machine does; the quickest of five, for an answer nobody knows."""
    for number in ("1.1", "3.3", "5.4", "6.3", "7.5"):

        def answer(*inputs, number=number):
            out = ALL[number].reference(*inputs)
            return tuple(2 * part + 1 for part in out) if isinstance(out, tuple) else 2 * out + 1

        times = []
        for _ in range(5):
            start = sum(os.times()[:4])  # with those of ended children
            assert check(number, answer).status == "wrong"
            times.append(sum(os.times()[:4]) - start)
        assert min(times) < 0.3, (number, times)


def test_what_an_answer_prints_is_caught_and_shown():
    def answer(n):
        print("hello")
        return torch.ones(n, n).tril().bool()

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        verdict = check("1.2", answer)
    assert verdict.status == "right" and "It also printed: hello" in repr(verdict) and not text.getvalue()


def test_long_prints_and_long_tracebacks_are_cut():
    def says(printed):
        return repr(Verdict("0.1", "doubled", "right", printed=printed)).splitlines()[-1]

    assert says("x" * 119 + "\n" + "y" * 120) == f"It also printed: {'x' * 119} / {'y' * 117}…"
    assert says("a\nb\nc\n") == "It also printed: a / b / c" and says("a\nb\nc\nd") == "It also printed: a / b / c …"

    def down(n):
        return 1 / 0 if n == 0 else down(n - 1)

    *lines, last = check("1.2", lambda n: down(5)).lines.splitlines()
    assert len(lines) == 2 and "in down: return 1 / 0" in last


def test_what_runs_elsewhere_is_asked_there():
    class There(sandbox.Elsewhere):
        def outcome(self, *asked):
            return asked

    assert sandbox.run(There(), (1, 2), ["a", "b"], 3, True) == ((1, 2), ["a", "b"], 3, True)


def test_changed_inputs_are_noticed():
    def answer(x, num_heads):
        x *= 1
        heads = torch.stack(x.chunk(num_heads, -1), 1)
        x += 1
        return heads

    verdict = check("3.1", answer)
    assert verdict.mistake == "changes-what-is-not-its-own" and "its input x" in verdict.message
    assert check("3.1", ALL["3.1"].reference).status == "right"


def test_global_state_is_put_back_and_named():
    changes = {
        "default dtype": lambda: torch.set_default_dtype(torch.float64),
        "keeps gradients": lambda: torch.set_grad_enabled(False),
        "random seed": lambda: torch.manual_seed(123456),
        "default device": lambda: torch.set_default_device("meta"),
    }
    torch.manual_seed(7)
    expected = torch.rand(3)
    for name, change in changes.items():

        def answer(n, change=change):
            change()
            return torch.ones(n, n, device="cpu").tril().bool()

        torch.manual_seed(7)
        verdict = check("1.2", answer)
        assert verdict.mistake == "changes-what-is-not-its-own" and name in verdict.message
        assert torch.equal(torch.rand(3), expected), name
        assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
        assert torch.empty(0).device == torch.device("cpu")


def test_a_random_answer_leaves_the_random_streams_alone():
    random.seed(3)
    expected = random.random()
    random.seed(3)
    check("1.2", lambda n: torch.rand(n, n) < random.random())
    assert random.random() == expected


ODD = {
    "a string": "no",
    "a dict": {"a": 1},
    "nested": ((1, 2), [3]),
    "a meta tensor": torch.ones(2, 3, device="meta"),
    "a sparse tensor": torch.eye(3).to_sparse(),
    "a complex tensor": torch.ones(2, 2, dtype=torch.complex64),
    "an empty tensor": torch.ones(0, 3),
    "a scalar": torch.tensor(1.0),
    "a parameter": nn.Parameter(torch.ones(2, 2)),
    "numpy": np.ones((2, 3)),
    "a function": print,
    "a namespace": SimpleNamespace(),
    "nan": float("nan"),
    "infinity": float("inf"),
    "a huge number": 10**400,
    "a bool": True,
    "two tensors": (torch.ones(2), torch.ones(2)),
    "a tensor of strings": ["a", "b"],
    "an empty list": [],
    "an empty tuple": (),
    "a half tensor": torch.ones(2, 2, dtype=torch.float16),
}


@every_exercise
@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_odd_results_get_a_sentence(exercise, odd, in_the_kernel):
    verdict = check(exercise.id, lambda *_: odd)
    assert verdict.status == "wrong" and verdict.message.endswith((".", "?", ".)"))
    assert repr(verdict) and verdict._repr_html_()


def test_what_is_not_a_function_gets_a_sentence():
    assert "a tuple" in check("1.2", (1, 2)).message
    assert "the class Layer" in check("3.3", Layer).message
    with pytest.raises(ValueError, match=r"no exercise '9.9'; there are: 1.1, 1.2, 2.1"):
        check("9.9", print)

    def my_merge_heads(x):
        return x

    with pytest.raises(ValueError, match=r'say which exercise it is for: check\("3.2", my_merge_heads\)'):
        check(my_merge_heads)


# What is shown.


def test_a_wrong_answer_shows_wanted_beside_yours():
    verdict = check("3.1", lambda x, h: x.view(x.size(0), h, x.size(1), -1))
    page = verdict._repr_html_()
    assert "wanted (token.feature)" in page and "yours (token.feature)" in page and 'role="img"' in page
    assert (
        "First difference at [0, 0, 1, 0], on x (2, 5, 12) and 3 heads: wanted 1.0, yours 0.4 (token.feature)."
        in repr(verdict)
    )
    assert page.count('stroke-width="2"') == 16  # four rows of four numbers differ
    assert "http" not in page and "<script" not in page


def test_numbers_are_compared_in_words():
    verdict = check("4.1", lambda d, h, bias=False: 4 * d * d)
    assert "for d_model=12, num_heads=3, bias=True, wanted 624, yours 576." in repr(verdict)


def shown(*cases, **settings):
    """The difference that is shown of these (yours, wanted), and the texts of its picture."""
    exercise = Exercise(
        "0.3",
        lambda a, b: a,
        difficulty=1,
        minutes=2,
        hints=(),
        mistakes=(),
        inputs=dict,
        cell="{:.2f}".format,
        **settings,
    )
    found = card.difference(exercise, [Case(f"case {n}", (4, 0.5), *both, False) for n, both in enumerate(cases)])
    return found.words, re.findall(r"<text[^>]*>([^<]*)</text>", found.svg)


@pytest.mark.parametrize(
    ("wanted", "yours", "words"),
    [
        (1234567, 3, "wanted 1,234,567, yours 3."),
        (1 / 3, 2e9, "wanted 0.333333, yours 2e+09."),
        ([1, 2], [1, 2, 3], "wanted [1, 2], yours [1, 2, 3]."),
        (list(range(100)), 2.0, f"wanted {str(list(range(100)))[:117]}…, yours 2."),
        (["x" * 115], 1, f"wanted {['x' * 115]}, yours 1."),
        (["x" * 116], 1, f"wanted {str(['x' * 116])[:117]}…, yours 1."),
    ],
)
def test_numbers_and_lists_are_shown_short(wanted, yours, words):
    assert shown((yours, wanted)) == (f"First difference: for a=4, b=0.5, {words}", [])


def test_the_part_to_look_at_is_shown_before_the_others():
    one, two, three = ONE, 2 * ONE, 3 * ONE
    settings = {"parts": ("context", "weights"), "look_at": 1}
    assert (
        "in the weights at [0, 0], on case 0: wanted 2.00, yours 3.00."
        in shown(((two, three), (one, two)), **settings)[0]
    )
    assert (
        "in the context at [0, 0], on case 0: wanted 1.00, yours 2.00."
        in shown(((two, two), (one, two)), **settings)[0]
    )
    assert "First difference at [0, 0], on case 0: wanted" in shown((two, one))[0]
    raised = Raised("ValueError")
    assert "on case 1: wanted 1.00, yours 2.00." in shown((raised, one), (two, one))[0]


def test_two_tables_stand_side_by_side_and_what_is_rounded_alike_is_told_apart():
    wanted = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    yours = wanted + torch.tensor([[0, 0, 0], [0, 0.001, 2]])
    words, texts = shown((yours, wanted))
    assert words == "First difference at [1, 1], on case 0: wanted 5, yours 5.001."
    numbers = "1.00 2.00 3.00 4.00 5.00".split()
    assert texts == ["wanted", *numbers, "6.00", "yours", *numbers, "8.00"]
    words, texts = shown((yours[:, :2], wanted))
    assert words == "" and texts[7:] == ["yours", "1.00", "2.00", "4.00", "5.00"]


def test_a_large_table_is_shown_around_the_first_difference():
    wanted = torch.arange(3 * 12 * 20).view(3, 12, 20).float()
    yours = wanted.clone()
    yours[1, 10, 12] = -1
    words, texts = shown((yours, wanted))
    assert words.startswith("First difference at [1, 10, 12], on case 0: wanted 452.00, yours -1.00")
    assert texts[1:65] == [f"{wanted[1, row, column]:.2f}" for row in range(3, 11) for column in range(5, 13)]
    assert texts[-1] == "-1.00" and len(texts) == 2 * 65
    yours[1, 0, 0] = -1
    assert shown((yours, wanted))[1][1:65] == [
        f"{wanted[1, row, column]:.2f}" for row in range(8) for column in range(8)
    ]


def test_what_a_learner_wrote_is_escaped():
    def answer(n):
        raise ValueError("<b>bold</b>")

    assert "<b>bold" not in check("1.2", answer)._repr_html_()


def test_statuses_are_told_without_colour():
    marks = {repr(check("1.2", answer))[0] for answer in (..., ALL["1.2"].reference, lambda n: None, lambda n: n / 0)}
    assert marks == {"·", "✓", "✗", "!"}


@every_exercise
def test_every_hint_and_solution_is_shown(exercise):
    assert 2 <= len(exercise.hints) <= 3 and 1 <= exercise.difficulty <= 3 and 2 <= exercise.minutes <= 8
    for number, text in enumerate(exercise.hints, 1):
        assert printed(hint, exercise.id) == f"Hint {number} of {len(exercise.hints)}: {text}\n"
    for _ in range(2):
        assert f'solution("{exercise.id}")' in printed(hint, exercise.id)
    code = printed(solution, exercise.id)
    scope = {"torch": torch, "math": math}
    exec(code, scope)
    assert check(exercise.id, scope[exercise.reference.__name__]).status == "right"
    assert exercise.title == exercise.reference.__name__


def test_progress_shows_the_lessons_that_were_begun():
    assert len(printed(progress).splitlines()) == len(ALL)
    check("3.1", ALL["3.1"].reference)
    check("3.2", lambda x: x)
    check("3.1", lambda x, h: x)  # once solved, it stays so
    *lines, last = printed(progress).splitlines()
    assert "run all cells" in last
    marks = {"3.1": "✓", "3.2": "✗", "3.3": "·", "3.4": "·", "3.5": "·"}
    assert [line.split()[:2] for line in lines] == [[mark, name] for name, mark in marks.items()]
    assert lines[0].endswith("solved") and lines[2].endswith("not attempted")


# The references are what they say.


def test_the_reference_of_5_1_is_what_pytorch_takes():
    layer = nn.MultiheadAttention(12, 3, batch_first=True)
    ours = mha.torch_bridge.from_torch(layer)
    x = torch.randn(2, 5, 12)
    to_torch_mask = ALL["5.1"].reference
    causal = mha.attention.causal_mask(5)
    per_head = torch.rand(2, 3, 5, 5) < 0.5
    per_head[..., 0] = True
    padding = mha.attention.padding_mask([5, 2], 5)
    for mask, name in ((causal, "attn_mask"), (per_head, "attn_mask"), (padding, "key_padding_mask")):
        theirs, _ = layer(x, x, x, **{name: to_torch_mask(mask)})
        torch.testing.assert_close(theirs, ours(x, mask)[0])


def test_the_references_of_5_2_and_5_3_undo_the_two_layouts():
    layer = mha.attention.MultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    by_head = layer.qkv.weight.view(3, 3, 4, 12).transpose(0, 1).reshape(36, 12)
    for number, weight in (("5.2", layer.qkv.weight), ("5.3", by_head)):
        parts = ALL[number].reference(weight, 3)
        for part, wanted in zip(parts, layer.project(x), strict=True):
            torch.testing.assert_close(torch.einsum("btd,hkd->bhtk", x, part), wanted)


# What is compared, and how it is called.


ALIKE = {
    "tensors": (ONE, ONE + 9e-5, ONE + 3e-4),
    "large ones": (1000 * ONE, 1000 * ONE + 0.09, 1000 * ONE + 0.2),
    "half precision": (ONE, (ONE + 0.03).half(), (ONE + 0.05).half()),
    "half on the left": ((ONE + 0.03).half(), ONE, ONE - 0.03),
    "half apart": (ONE.half(), ONE + 0.03, ONE + 0.05),
    "shapes": (ONE, ONE.clone(), ONE[None]),
    "nan": (ONE * math.nan, ONE * math.nan, ONE),
    "booleans": (ONE.bool(), ONE.bool(), ONE),
    "pairs": ((ONE, 2), (ONE + 1e-5, 2.0), (ONE, 3)),
    "lengths": ((1, 2), (1, 2), (1, 2, 3)),
    "lists": ([1, 2], [1, 2], (1, 2)),
    "lists' numbers": ([1, 2], [1, 2.0], [1, 3]),
    "numbers": (10**7, 10**7 + 9, 10**7 + 11),
    "small numbers": (0.0, 9e-7, 2e-6),
    "no number": (math.nan, math.nan, 0.0),
    "words": ("a", "a", "b"),
    "sets": ({1}, {1}, {2}),
    "None": (None, None, 0),
    "tensor and number": (1.0, 1.0, ONE[0, 0]),
}


@pytest.mark.parametrize(("one", "same_one", "other"), ALIKE.values(), ids=list(ALIKE))
def test_what_counts_as_the_same(one, same_one, other):
    assert equal(one, same_one) is True or equal(one, same_one) == torch.tensor(True)
    assert equal(same_one, one) and not equal(one, other) and not equal(other, one)


def test_tensors_of_two_answers_stand_side_by_side():
    found = compare.pairs((ONE, 2, 3 * ONE, 4 * ONE), (5 * ONE, 6, 7 * ONE))
    assert [(mine[0, 0].item(), want[0, 0].item()) for mine, want in found] == [(1, 5), (3, 7)]
    ((mine, want),) = compare.pairs(ONE, 2 * ONE)
    assert torch.equal(2 * mine, want) and compare.pairs((ONE, ONE), ONE) == compare.pairs(1, 2) == []
    assert compare.pairs(ONE, (ONE, ONE)) == []


CALLED = {
    "a tensor of numbers, shape (2, 2)": ONE,
    "a tensor of booleans, shape (2,)": torch.tensor([True, False]),
    "a tuple of 2, such as a tensor of numbers, shape (2, 2)": (ONE, ONE),
    "a list of 2, such as a whole number": [1, 2],
    "a list of 2, such as a number": [1.5, 2],
    "a list of 1 tuples": [(1, 2)],
    "a list of 1 lists": [[1, 2]],
    "a tuple of 0": (),
    "a number": 1.5,
    "a bool": False,
    "None": None,
    "a NumPy array": np.ones(2),
    "a dict": {},
    "an OSError": OSError("no"),
}


@pytest.mark.parametrize(("words", "value"), CALLED.items(), ids=list(CALLED))
def test_a_value_in_a_few_words(words, value):
    assert describe(value).lower() == words.lower()


@pytest.mark.filterwarnings("ignore")  # nested tensors are a prototype
def test_a_value_is_made_plain():
    parameter = nn.Parameter(ONE)
    assert not plain(parameter).requires_grad and equal(plain(parameter), ONE)
    assert type(plain(collections.namedtuple("Two", "a b")(1, fractions.Fraction(1, 2)))) is tuple
    assert [type(x) for x in plain([fractions.Fraction(1, 2), np.float64(2), 3, True])] == [float, float, int, bool]
    assert plain(ONE[:1]).shape == (1, 2)
    assert plain(10**100) == 10**100 and plain(-(10**100)) == -(10**100)
    assert describe(plain(10**100 + 1)) == describe(plain(-(10**101))) == "a whole number of more than 100 digits"
    assert "float32 on meta" in describe(plain(ONE.to("meta"))) and "complex64 on cpu" in describe(plain(ONE + 1j))
    assert "a tensor of" in describe(plain(torch.nested.nested_tensor([ONE, ONE[0, None]])))
    assert equal(plain(torch.eye(2).to_sparse()), torch.eye(2))

    async def later():
        return 1

    coroutine = later()
    assert plain(coroutine) is coroutine and coroutine.cr_frame is None  # closed


def test_equally_right_forms_are_one():
    for count in (whole(x) for x in (4, 4.0, torch.tensor(4), np.array(4.0))):
        assert count == 4 and type(count) is int
    assert whole(4.5) == 4.5 and whole(ONE) is ONE and whole("no") == "no"
    for found in ([1, 2.0], (1, 2), [torch.tensor(1), torch.tensor([2.0])]):
        assert equal(one_tensor(found), torch.tensor([1.0, 2.0]))
    assert one_tensor([5]).shape == (1,)
    for odd in ([ONE, 1], [ONE[:0], 1], ["a"], None, 3, ONE):
        assert one_tensor(odd) is odd


def test_every_message_is_a_sentence():
    for exercise in ALL.values():
        for mistake in exercise.mistakes:
            assert re.fullmatch(r"[A-Za-z0-9_-]+", mistake.name) and mistake.says[-1] in ".?)", mistake.name
            assert 20 < len(mistake.says) < 300, mistake.says
