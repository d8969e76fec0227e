"""mha/accounting.py: every formula against modules that were built, and FLOPs against PyTorch's counter."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mha.accounting import (
    attention_flops,
    attention_parameters,
    cache_bytes,
    feed_forward_parameters,
    latent_cache_bytes,
    latent_parameters,
    stack_parameters,
    table_bytes,
)
from mha.attention import MultiHeadAttention
from mha.production import LatentAttention

biases = pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
sizes = pytest.mark.parametrize(("d", "h"), [(8, 1), (8, 8), (12, 3), (64, 4)])
texts = pytest.mark.parametrize(("B", "T", "S"), [(1, 4, None), (2, 4, None), (3, 1, None), (2, 3, 7), (2, 7, 1)])


def count(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


@biases
@sizes
def test_attention_parameters_are_those_of_both_modules(d, h, bias):
    pieces = attention_parameters(d, h, bias=bias)
    assert (
        sum(pieces.values()) == count(MultiHeadAttention(d, h, bias)) == count(nn.MultiheadAttention(d, h, bias=bias))
    )
    assert sum(pieces.values()) == 4 * d**2 + (4 * d if bias else 0)
    assert list(pieces) == ["query", "key", "value", "output"] + ["biases"] * bias


@biases
@pytest.mark.parametrize(("d", "h", "d_k"), [(8, 2, 4), (8, 3, 5), (10, 4, 1), (6, 1, 16)])
def test_attention_parameters_with_a_free_width_are_those_of_a_module_built_by_hand(d, h, d_k, bias):
    built = {name: nn.Linear(d, h * d_k, bias) for name in ("query", "key", "value")}
    built["output"] = nn.Linear(h * d_k, d, bias)
    wanted = {name: linear.weight.numel() for name, linear in built.items()}
    if bias:
        wanted["biases"] = sum(linear.bias.numel() for linear in built.values())
    assert attention_parameters(d, h, d_k, bias) == wanted


@biases
@pytest.mark.parametrize(("d", "h", "kv", "d_k"), [(8, 4, 4, None), (8, 4, 2, None), (8, 4, 1, None), (10, 6, 3, 5)])
def test_shared_keys_and_values_are_those_of_a_module_built_by_hand(d, h, kv, d_k, bias):
    width = d // h if d_k is None else d_k
    sizes = {"query": (d, h * width), "key": (d, kv * width), "value": (d, kv * width), "output": (h * width, d)}
    built = {name: nn.Linear(*size, bias) for name, size in sizes.items()}
    wanted = {name: linear.weight.numel() for name, linear in built.items()}
    if bias:
        wanted["biases"] = sum(linear.bias.numel() for linear in built.values())
    assert attention_parameters(d, h, d_k, bias, kv_heads=kv) == wanted


@pytest.mark.parametrize("kv", [0, 3, 8])
def test_key_heads_that_cannot_be_shared_evenly_are_refused(kv):
    with pytest.raises(ValueError, match=f"kv_heads={kv} must divide num_heads=4"):
        attention_parameters(8, 4, kv_heads=kv)


@pytest.mark.parametrize("latent", [1, 16, 48])
def test_latent_parameters_are_those_of_the_module(latent):
    layer, pieces = LatentAttention(48, 6, latent), latent_parameters(48, 6, latent)
    assert {name: getattr(layer, {"output": "proj"}.get(name, name)).weight.numel() for name in pieces} == pieces
    assert count(layer) == sum(pieces.values())
    assert latent_parameters(48, 6, latent, d_k=10) == {
        "query": 48 * 60,
        "down": 48 * latent,
        "up": 2 * latent * 60,
        "output": 60 * 48,
    }


@biases
@pytest.mark.parametrize(("d", "expansion", "inner"), [(8, 4, 32), (8, 3.5, 28), (10, 2.66, 27)])
def test_a_gated_feed_forward_block_is_that_of_a_module_built_by_hand(d, expansion, inner, bias):
    built = {"gate": nn.Linear(d, inner, bias), "up": nn.Linear(d, inner, bias), "down": nn.Linear(inner, d, bias)}
    wanted = {name: linear.weight.numel() for name, linear in built.items()}
    if bias:
        wanted["biases"] = sum(linear.bias.numel() for linear in built.values())
    found = feed_forward_parameters(d, expansion, bias, gated=True)
    assert found == wanted and all(isinstance(number, int) for number in found.values())


@biases
@pytest.mark.parametrize("expansion", [1, 4])
@pytest.mark.parametrize("vocabulary", [0, 11])
@pytest.mark.parametrize(("layers", "d", "h"), [(1, 8, 2), (3, 12, 3)])
def test_a_stack_and_its_pieces_have_the_parameters_of_an_encoder_of_pytorch(layers, d, h, vocabulary, expansion, bias):
    layer = nn.TransformerEncoderLayer(d, h, expansion * d, bias=bias)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    block = count(layer.linear1, layer.linear2)
    wanted = {
        "attention": layers * count(layer.self_attn),
        "feed-forward": layers * block,
        "norms": layers * count(layer.norm1, layer.norm2),
    } | ({"embedding": count(nn.Embedding(vocabulary, d))} if vocabulary else {})
    assert stack_parameters(layers, d, h, expansion, bias, vocabulary) == wanted
    assert sum(wanted.values()) == count(encoder) + vocabulary * d

    pieces = {"up": layer.linear1.weight.numel(), "down": layer.linear2.weight.numel()}
    pieces |= {"biases": block - sum(pieces.values())} if bias else {}
    assert feed_forward_parameters(d, expansion, bias) == pieces


@biases
@texts
@sizes
def test_flops_are_those_that_pytorch_counts(d, h, B, T, S, bias):
    module, x = MultiHeadAttention(d, h, bias), torch.zeros(B, T, d)
    source = None if S is None else torch.zeros(B, S, d)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(x, source=source)
    counted = counter.get_flop_counts()["Global"]
    pieces = attention_flops(d, h, T, S, B)
    batched = sum(number for product, number in counted.items() if "bmm" in str(product))
    assert pieces["scores"] == pieces["mixing"] and pieces["scores"] + pieces["mixing"] == batched
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.proj(x)
    assert pieces["output"] == counter.get_total_flops()
    assert sum(pieces.values()) == sum(counted.values())


def test_flops_with_a_free_width_are_those_of_as_many_heads_of_that_width():
    assert attention_flops(8, 3, 4, 5, 2, d_k=5) == {
        "projections": 2 * 2 * 8 * 15 * (4 + 5 + 5),
        "scores": 2 * 2 * 4 * 5 * 15,
        "mixing": 2 * 2 * 4 * 5 * 15,
        "output": 2 * 2 * 4 * 15 * 8,
    }
    assert attention_flops(8, 2, 4) == attention_flops(8, 2, 4, d_k=4)


@texts
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_table_bytes_are_those_of_the_weights(dtype, B, T, S):
    module, x = MultiHeadAttention(12, 3).to(dtype), torch.zeros(B, T, 12, dtype=dtype)
    _, weights = module(x, source=None if S is None else torch.zeros(B, S, 12, dtype=dtype))
    assert table_bytes(3, T, S, B, bytes_per_number=dtype.itemsize) == weights.nbytes
    if dtype is torch.float32:
        assert table_bytes(3, T, S, B) == weights.nbytes


@pytest.mark.parametrize(("layers", "kv", "d_k", "T", "B"), [(1, 1, 1, 1, 1), (3, 2, 5, 7, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_cache_bytes_are_those_of_keys_and_values_that_are_kept(layers, kv, d_k, T, B, dtype):
    kept = [torch.zeros(B, kv, T, d_k, dtype=dtype) for _ in range(layers) for _ in ("keys", "values")]
    wanted = sum(tensor.nbytes for tensor in kept)
    assert cache_bytes(layers, kv, d_k, T, B, bytes_per_number=dtype.itemsize) == wanted
    if dtype is torch.float16:
        assert cache_bytes(layers, kv, d_k, T, B) == wanted
    # A vector of as many numbers as all keys and values have, kept instead of them, is as large.
    assert latent_cache_bytes(layers, 2 * kv * d_k, T, B, bytes_per_number=dtype.itemsize) == wanted


@pytest.mark.parametrize(
    "function", [attention_parameters, lambda d, h: attention_flops(d, h, 4), lambda d, h: stack_parameters(1, d, h)]
)
def test_heads_that_do_not_divide_the_width_are_refused(function):
    with pytest.raises(ValueError, match="d_model=10 is not divisible by num_heads=3; nearest that work: 2, 5"):
        function(10, 3)


def test_sizes_below_one_are_refused_and_the_stack_has_the_papers_sizes_unless_told():
    for h, d_k in ((0, 4), (2, -4)):
        with pytest.raises(ValueError, match=f"num_heads={h} and d_k={d_k} must be at least 1"):
            attention_parameters(8, h, d_k=d_k)
    assert stack_parameters() == stack_parameters(12, 512, 8)
