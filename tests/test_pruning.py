"""Heads that are switched off say nothing, or their mean, and only while they are."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mha.attention import MultiHeadAttention
from mha.pruning import drop_heads, mean_of_heads, switch_off

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
