"""Heads that are switched off say nothing, and only while they are; those that are removed are gone."""

import copy
import itertools
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mha.attention import MultiHeadAttention, causal_mask
from mha.pruning import (
    ablation_importance,
    all_off,
    curve,
    drop_heads,
    gradient_importance,
    greedy_order,
    head_ids,
    look_evenly,
    maps_in_common,
    mean_of_heads,
    nearest,
    order_by,
    outputs_by_head,
    outputs_in_common,
    random_order,
    remove_heads,
    switch_off,
)
from mha.tasks import dates

X = torch.randn(3, 5, 12)


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return MultiHeadAttention(12, 3, bias=True)


def without(layer, heads):
    """The output with these heads' columns of W_O at zero."""
    weight = layer.proj.weight.detach().clone()
    for head in heads:
        weight[:, 4 * head : 4 * head + 4] = 0
    context, _ = layer(X)
    inner = torch.linalg.solve(layer.proj.weight, (context - layer.proj.bias).mT).mT  # the input of proj
    return inner @ weight.T + layer.proj.bias


@pytest.mark.parametrize("heads", [0, [1], [0, 2], [0, 1, 2], []])
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_head_that_is_off_says_nothing(layer, heads, need_weights):
    whole = layer(X)[0]
    wanted = without(layer, [heads] if isinstance(heads, int) else heads)
    with switch_off(layer, heads):
        output, weights = layer(X, need_weights=need_weights)
        torch.testing.assert_close(output, wanted, atol=1e-4, rtol=1e-4)
        assert not need_weights or torch.equal(weights, layer(X)[1])  # it still attends
    torch.testing.assert_close(layer(X)[0], whole)


def test_all_heads_off_leave_the_bias(layer):
    with switch_off(layer, range(3)):
        torch.testing.assert_close(layer(X)[0], layer.proj.bias.expand(3, 5, 12))


def test_a_head_at_its_mean(layer):
    mean = mean_of_heads(layer, lambda: layer(X))
    seen = []
    with layer.proj.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0])):
        layer(X)
    torch.testing.assert_close(mean, seen[0].mean(dim=(0, 1)))
    inner = seen[0].clone()
    inner[..., 4:8] = mean[4:8]
    wanted = F.linear(inner, layer.proj.weight, layer.proj.bias)  # without the module, whose hook is on trial
    assert not torch.allclose(wanted, layer(X)[0], atol=1e-3)
    with switch_off(layer, 1, mean):
        torch.testing.assert_close(layer(X)[0], wanted)


@pytest.mark.parametrize(
    "kind", [int, np.int64, np.array, torch.tensor], ids=["int", "numpy", "0-d array", "0-d tensor"]
)
def test_a_head_may_be_a_whole_number_of_any_library(layer, kind):
    with switch_off(layer, 2):
        wanted = layer(X)[0]
    for heads in (kind(2), [kind(2)], (kind(2),)):
        with switch_off(layer, heads):
            assert torch.equal(layer(X)[0], wanted)
    with switch_off(layer, np.array([0, 2])), switch_off(layer, torch.tensor([2, 0])):
        assert not torch.equal(layer(X)[0], wanted)


@pytest.mark.parametrize(
    "heads", [True, [True, False, True], 1.0, "1", None, np.array([1.0]), torch.tensor(True)], ids=str
)
def test_what_is_no_whole_number_is_refused_in_one_sentence(layer, heads):
    with pytest.raises(TypeError, match=r"^a head must be a whole number, got [^\n]+$"):
        switch_off(layer, heads)


def test_heads_are_switched_on_the_layers_device(layer):
    layer, x = layer.to("meta"), X.to("meta")
    for mean in (None, torch.zeros(12, device="meta")):
        with switch_off(layer, 1, mean):
            assert layer(x)[0].device.type == "meta"


def test_two_can_be_off_one_after_the_other(layer):
    first = switch_off(layer, 0)
    second = switch_off(layer, 2)
    torch.testing.assert_close(layer(X)[0], without_fresh(layer, first, second), atol=1e-4, rtol=1e-4)


def without_fresh(layer, *handles):
    with switch_off(layer, [0, 2]):
        for handle in handles:
            handle.remove()
        return layer(X)[0]


def test_a_head_that_is_not_there():
    with pytest.raises(ValueError, match="no head 3: this layer has heads 0 to 2"):
        switch_off(MultiHeadAttention(12, 3), 3)
    with pytest.raises(ValueError, match="no head -1"):
        switch_off(MultiHeadAttention(12, 3), [0, -1])


def test_dropped_heads_are_whole_and_the_mean_is_kept(layer):
    handle = drop_heads(layer, 0.25)
    seen = []
    layer.proj.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = torch.randn(1, 5, 12).expand(4000, 5, 12)
    layer.train()(x)
    dropped = seen[-1].unflatten(-1, (3, 4))
    gone = dropped.eq(0).all(dim=-1)  # (B, T, h)
    assert torch.equal(gone[:, 0], gone[:, 4]) and 0.23 < gone.float().mean() < 0.27
    layer.eval()(x)
    whole = seen[-1].unflatten(-1, (3, 4))
    assert not whole.eq(0).all(dim=-1).any()
    torch.testing.assert_close(dropped[~gone], (whole / 0.75)[~gone])
    handle.remove()
    layer.train()(x)
    torch.testing.assert_close(seen[-1].unflatten(-1, (3, 4)), whole)
    for p in (1, -0.1):
        with pytest.raises(ValueError, match=f"p={p}"):
            drop_heads(layer, p)


# Uniform attention, ranking, and removal.


def text_losses(layer, x=X):
    """A loss for each text that depends on every head."""
    return (layer(x)[0] ** 2).sum(dim=(1, 2)) / 10


def pieces(layer):
    """The weights that heads own, by part; in each, heads are the second axis."""
    h, d_k = layer.num_heads, layer.d_k
    return {
        "qkv weight": layer.qkv.weight.unflatten(0, (3, h, d_k)),
        "qkv bias": layer.qkv.bias.unflatten(0, (3, h, d_k)),
        "proj weight": layer.proj.weight.unflatten(1, (h, d_k)),
    }


def test_heads_that_look_evenly_say_the_mean_of_what_is_visible(layer):
    mask = causal_mask(5)
    whole = layer(X, mask)
    with look_evenly(layer, [0, 2]):
        output, weights = layer(X, mask)
        fused = layer(X, mask, need_weights=False)[0]
        assert (layer(X, source=X[:, :2])[1][:, [0, 2]] == 0.5).all()  # hooks on qkv would not see this
    even = mask / mask.sum(dim=1, keepdim=True)
    for head in (0, 2):
        torch.testing.assert_close(weights[:, head], even.expand(3, 5, 5))
    assert torch.equal(weights[:, 1], whole[1][:, 1])
    torch.testing.assert_close(output, fused)
    assert all(map(torch.equal, layer(X, mask), whole)) and "project" not in vars(layer)


def test_even_looks_within_each_other_end_in_turn(layer):
    def is_even():
        return [(layer(X)[1][:, head] - 0.2).abs().max().item() < 1e-6 for head in range(3)]

    with look_evenly(layer, 0):
        with look_evenly(layer, 2):
            assert is_even() == [True, False, True]
        assert is_even() == [True, False, False]
    assert is_even() == [False, False, False]
    with pytest.raises(ValueError, match="there is no head 3"), look_evenly(layer, 3):
        pass


def test_the_output_is_its_bias_and_what_each_head_adds(layer):
    output, _ = layer(X)
    each = outputs_by_head(layer, lambda: layer(X))
    assert each.shape == (3, 3, 5, 12)
    torch.testing.assert_close(layer.proj.bias + each.sum(dim=1), output)
    for head in range(3):
        with switch_off(layer, head):
            torch.testing.assert_close(layer(X)[0], output - each[:, head])


def test_all_off_over_several_layers(layer):
    other = MultiHeadAttention(12, 2, bias=True)
    with all_off([layer, other], [(1, 0), (0, 2), (1, 1)]):
        torch.testing.assert_close(other(X)[0], other.proj.bias.expand(3, 5, 12))
        now = layer(X)[0]
    with switch_off(layer, 2):
        torch.testing.assert_close(layer(X)[0], now)


def test_maps_and_outputs_in_common(layer):
    with torch.no_grad():
        layer.qkv.weight.data[4:8] = layer.qkv.weight[:4]  # head 1 looks as head 0 does,
        layer.qkv.bias.data[4:8] = layer.qkv.bias[:4]
        layer.qkv.weight.data[16:20] = layer.qkv.weight[12:16]
        layer.qkv.bias.data[16:20] = layer.qkv.bias[12:16]
    asked = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] * 4 + [False]])
    maps = maps_in_common(layer(X)[1].detach(), asked)
    rows = layer(X)[1].transpose(1, 2)[asked]
    torch.testing.assert_close(maps.diagonal(), torch.ones(3))
    torch.testing.assert_close(maps[0, 1], torch.tensor(1.0))
    torch.testing.assert_close(maps[0, 2], torch.minimum(rows[:, 0], rows[:, 2]).sum(dim=-1).mean())
    assert torch.equal(maps, maps.T) and maps[0, 2] < 0.99
    outputs = outputs_in_common(outputs_by_head(layer, lambda: layer(X)), asked)
    torch.testing.assert_close(outputs.diagonal(), torch.ones(3))
    assert outputs[0, 1].abs() < 0.9  # and writes something else
    torch.testing.assert_close(nearest(maps), torch.stack([maps[0, 1], maps[0, 1], maps[0, 2]]))
    assert nearest(torch.ones(1, 1)).isnan().all()


def test_outputs_in_common_knows_the_same_the_opposite_and_a_constant():
    said = torch.randn(4, 5, 6)
    outputs = torch.stack([said, 3 * said + torch.ones(6), -said], dim=1)
    found = outputs_in_common(outputs, torch.ones(4, 5, dtype=torch.bool))
    torch.testing.assert_close(found, torch.tensor([[1.0, 1, -1], [1, 1, -1], [-1, -1, 1]]))


def test_gradient_importance_is_the_mean_of_absolute_slopes(layer):
    found = gradient_importance([layer], lambda: text_losses(layer))[0]
    slopes, step = torch.zeros(3, 3, dtype=torch.float64), 1e-4  # of each text's loss, by finite differences
    exact = layer.double()
    for head in range(3):
        columns = slice(4 * head, 4 * head + 4)
        for sign in (1, -1):
            with torch.no_grad():
                exact.proj.weight[:, columns] *= 1 + sign * step
                slopes[:, head] += sign * text_losses(exact, X.double()) / (2 * step)
                exact.proj.weight[:, columns] /= 1 + sign * step
    wanted = slopes.abs().mean(dim=0)
    torch.testing.assert_close(found.double(), wanted / wanted.norm(), atol=1e-3, rtol=1e-3)
    assert not torch.allclose(wanted, slopes.mean(dim=0).abs(), rtol=1e-2)  # the mistake that this would not see


def test_gradient_importance_takes_several_batches_and_layers(layer):
    other = MultiHeadAttention(12, 2, bias=True)

    def losses(*parts):
        return torch.cat([(other(layer(x)[0])[0] ** 2).sum(dim=(1, 2)) for x in parts])

    whole = gradient_importance([layer, other], lambda: losses(X))
    assert [len(scores) for scores in whole] == [3, 2]
    for scores, again in zip(whole, gradient_importance([layer, other], lambda: losses(X[:2], X[2:])), strict=True):
        torch.testing.assert_close(scores, again)
        torch.testing.assert_close(scores.norm(), torch.tensor(1.0))
    assert layer.qkv.weight.grad is None and other.proj.weight.grad is None
    with pytest.raises(ValueError, match=r"gave shape \(\), wanted one loss for each text"):
        gradient_importance([layer], lambda: text_losses(layer).sum())


def planted():
    """A layer whose head 1 says nothing, and whose head 2 says little."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(12, 3, bias=True)
    with torch.no_grad():
        layer.proj.weight[:, 4:8] = 0
        layer.proj.weight[:, 8:] *= 0.1
    wanted = layer(X)[0].detach()
    return layer, lambda: ((layer(X)[0] - wanted) ** 2).mean()


def test_every_ranking_lets_the_silent_head_go_first():
    layer, loss = planted()
    rises = ablation_importance([layer], loss)
    assert rises[0][1] == 0 and 0 < rises[0][2] < rises[0][0]
    assert order_by([layer], rises) == greedy_order([layer], loss) == [(0, 1), (0, 2), (0, 0)]
    scores = gradient_importance([layer], lambda: layer(X)[0].sum(dim=(1, 2)))
    assert order_by([layer], scores)[0] == (0, 1)


def test_greedy_ranks_again_after_each_head():
    """Two heads that say the same: each alone is missed little, both together much."""
    spare = {(0, 0): 1.0, (0, 1): 1.0, (0, 2): 1.5}
    layer = MultiHeadAttention(12, 3)

    def loss():
        said = outputs_by_head(layer, lambda: layer(X))[0, :, 0].abs().sum(dim=-1)
        gone = {(0, head) for head in range(3) if said[head] == 0}
        return sum(spare[pair] for pair in gone) + 10 * (gone >= {(0, 0), (0, 1)})

    assert order_by([layer], ablation_importance([layer], loss)) == [(0, 0), (0, 1), (0, 2)]
    assert greedy_order([layer], loss) == [(0, 0), (0, 2), (0, 1)]


def test_orders_and_curves(layer):
    layers = [layer, MultiHeadAttention(12, 2)]
    one, again, other = (random_order(layers, seed) for seed in (3, 3, 4))
    assert one == again != other and sorted(one) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    remove_heads(layer, 1)
    assert sorted(random_order(layers, 0)) == [(0, 0), (0, 2), (1, 0), (1, 1)]

    def said():
        return (outputs_by_head(layer, lambda: layer(X)).abs().sum(dim=(0, 2, 3)) > 0).tolist()

    order = [(0, 2), (1, 0), (0, 0)]
    assert curve(layers, order, said) == [[True, True], [True, False], [True, False], [False, False]]
    assert curve(layers, order, said, counts=[0, 3]) == [[True, True], [False, False]]


def subsets(h):
    """Every set of heads for h ≤ 4; above, twenty that are drawn, and all."""
    if h <= 4:
        return [set(chosen) for n in range(h + 1) for chosen in itertools.combinations(range(h), n)]
    draw = random.Random(h)
    return [set(draw.sample(range(h), draw.randint(1, h - 1))) for _ in range(20)] + [set(range(h))]


@pytest.mark.parametrize("crossed", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("h", [1, 2, 3, 4, 8, 12])
def test_a_layer_without_heads_is_the_layer_with_them_at_zero(h, bias, crossed):
    torch.manual_seed(h)
    d, d_k = 24, 24 // h
    for gone in subsets(h):
        layer = MultiHeadAttention(d, h, bias=bias).double()
        small = remove_heads(copy.deepcopy(layer), gone)
        x = torch.randn(2, 5, d, dtype=torch.float64)
        options = {"source": torch.randn(2, 7, d, dtype=torch.float64)} if crossed else {"mask": causal_mask(5)}
        slope = torch.randn(2, 5, d, dtype=torch.float64)
        grads, outputs = [], []
        for attention, off in ((layer, gone), (small, ())):
            asked = x.clone().requires_grad_()
            with switch_off(attention, off):
                output, weights = attention(asked, **options)
            (output * slope).sum().backward()
            grads.append(asked.grad)
            outputs.append((output, weights))
            with switch_off(attention, off):
                fused, _ = attention(x, **options, need_weights=False)
            torch.testing.assert_close(fused, output, atol=1e-6, rtol=0)
        kept = [head for head in range(h) if head not in gone]
        torch.testing.assert_close(*(output for output, _ in outputs), atol=1e-6, rtol=0)
        torch.testing.assert_close(outputs[0][1][:, kept], outputs[1][1], atol=1e-6, rtol=0)
        torch.testing.assert_close(*grads, atol=1e-6, rtol=0)
        rows = [d * block + d_k * head + i for block in range(3) for head in kept for i in range(d_k)]
        columns = rows[: len(kept) * d_k]
        torch.testing.assert_close(layer.qkv.weight.grad[rows], small.qkv.weight.grad, atol=1e-6, rtol=0)
        torch.testing.assert_close(layer.proj.weight.grad[:, columns], small.proj.weight.grad, atol=1e-6, rtol=0)
        if bias:
            torch.testing.assert_close(layer.qkv.bias.grad[rows], small.qkv.bias.grad, atol=1e-6, rtol=0)
            torch.testing.assert_close(layer.proj.bias.grad, small.proj.bias.grad, atol=1e-6, rtol=0)
        assert sum(w.numel() for w in small.parameters()) == 4 * d * d_k * len(kept) + bias * (3 * d_k * len(kept) + d)
        assert small.qkv.out_features == 3 * d_k * len(kept) and small.proj.in_features == d_k * len(kept)


def test_heads_keep_their_numbers_when_others_go(layer):
    torch.manual_seed(2)
    layer = MultiHeadAttention(24, 6, bias=True)
    before = {name: piece.clone() for name, piece in pieces(layer).items()}
    small = copy.deepcopy(layer)
    assert head_ids(small) == (0, 1, 2, 3, 4, 5)
    for gone in (1, [4], 3):
        assert remove_heads(small, gone) is small
    assert head_ids(small) == (0, 2, 5) and small.num_heads == 3 and small.d_k == 4
    after = pieces(small)
    for name, piece in after.items():
        assert torch.equal(piece, before[name][:, [0, 2, 5]])  # in each, heads are the second axis
    assert torch.equal(small.proj.bias, layer.proj.bias)
    with switch_off(small, 5), switch_off(layer, [1, 3, 4, 5]):
        x = torch.randn(2, 3, 24)
        torch.testing.assert_close(small(x)[0], layer(x)[0])
    x = torch.randn(2, 3, 24)
    with look_evenly(small, 2), switch_off(layer, [1, 3, 4]), look_evenly(layer, 2):
        torch.testing.assert_close(small(x)[0], layer(x)[0])
    assert [len(scores) for scores in ablation_importance([small], lambda: text_losses(small, x).sum())] == [3]


def test_a_layer_without_any_head_says_its_bias(layer):
    remove_heads(layer, range(3))
    assert head_ids(layer) == () and sum(w.numel() for w in layer.parameters()) == 12
    for options in ({}, {"mask": causal_mask(5)}, {"source": X[:, :2]}, {"need_weights": False}):
        torch.testing.assert_close(layer(X, **options)[0], layer.proj.bias.expand(3, 5, 12))
    assert layer(X)[1].shape == (3, 0, 5, 5)
    plain = remove_heads(MultiHeadAttention(12, 3), [0, 1, 2])
    assert torch.equal(plain(X)[0], torch.zeros(3, 5, 12))


def test_removing_what_is_not_there_is_refused_in_one_sentence(layer):
    with pytest.raises(ValueError, match=r"^there is no head 3: this layer has heads 0 to 2$"):
        remove_heads(layer, 3)
    with pytest.raises(ValueError, match=r"^head 1 is named twice: name each head once$"):
        remove_heads(layer, [1, 0, 1])
    remove_heads(layer, 1)
    with pytest.raises(ValueError, match=r"^there is no head 1: of its heads this layer has left: 0, 2$"):
        remove_heads(layer, 1)
    with pytest.raises(ValueError, match=r"^there is no head 1: "):
        switch_off(layer, [0, 1])
    remove_heads(layer, [0, 2])
    with pytest.raises(ValueError, match=r"left: none$"):
        remove_heads(layer, 0)
    with pytest.raises(TypeError, match=r"^a head must be a whole number, got '1'$"):
        remove_heads(layer, ["1"])
    other = MultiHeadAttention(12, 3)
    other.proj = torch.nn.Sequential(other.proj)
    with pytest.raises(TypeError, match=r"^proj is a Sequential, wanted a plain nn.Linear"):
        remove_heads(other, 0)
    assert other.num_heads == 3 and other.qkv.out_features == 36  # nothing was cut


def test_a_frozen_layer_stays_frozen_and_its_kind_of_numbers(layer):
    layer.requires_grad_(False).to(torch.bfloat16)
    remove_heads(layer, 0)
    assert not any(w.requires_grad for w in layer.parameters()) and layer.qkv.weight.dtype == torch.bfloat16


def test_a_whole_translator_with_heads_gone_translates_on():
    torch.manual_seed(0)
    model = dates.model(num_heads=4).eval()
    layers = [model.encoder[0].attention, model.decoder[0].attention, model.decoder[0].cross]
    gone = [(0, 1), (1, 0), (1, 3), (2, 2)]
    small = copy.deepcopy(model)
    for number, layer in enumerate([small.encoder[0].attention, small.decoder[0].attention, small.decoder[0].cross]):
        remove_heads(layer, [head for where, head in gone if where == number])
    source = dates.encode(["3 May 1979", "2001-02-03"])
    with all_off(layers, gone):
        symbols, shares = model.greedy(source, dates.START, 10)
    again, same = small.greedy(source, dates.START, 10)
    assert torch.equal(symbols, again)
    torch.testing.assert_close(shares, same, atol=1e-5, rtol=1e-5)
