"""mha/production.py: shared and latent heads against multi-head attention and PyTorch, the cache, rotary positions."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from mha.accounting import attention_parameters, cache_bytes, latent_cache_bytes
from mha.attention import MultiHeadAttention, causal_mask
from mha.production import (
    GroupedQueryAttention,
    LatentAttention,
    cached_tokens,
    expand_kv_heads,
    remember,
    rotate,
    sliding_window_mask,
)

kv_heads = pytest.mark.parametrize("kv", [6, 3, 2, 1])
rotary = pytest.mark.parametrize("base", [None, 10_000.0, 500.0], ids=str)


@pytest.fixture
def x():
    return torch.randn(2, 7, 48, generator=torch.Generator().manual_seed(0))


def count(module):
    return sum(p.numel() for p in module.parameters())


@kv_heads
def test_neighbouring_query_heads_share_a_key_head(kv):
    keys = torch.randn(2, kv, 5, 4)
    expanded = expand_kv_heads(keys, 6)
    assert expanded.shape == (2, 6, 5, 4)
    for head in range(6):
        torch.testing.assert_close(expanded[:, head], keys[:, head * kv // 6])


@pytest.mark.parametrize("kv", [0, 4, 12])
def test_key_heads_that_cannot_be_shared_evenly_are_refused(kv):
    with pytest.raises(ValueError, match=f"kv_heads={kv} must divide num_heads=6"):
        GroupedQueryAttention(48, 6, kv)
    with pytest.raises(TypeError, match=r"kv_heads must be a whole number, got 2\.5"):
        GroupedQueryAttention(48, 6, 2.5)


@kv_heads
@pytest.mark.parametrize("bias", [False, True])
def test_grouped_heads_are_those_of_pytorchs_function(x, kv, bias):
    layer, mask = GroupedQueryAttention(48, 6, kv, bias), causal_mask(7)
    output, weights = layer(x, mask)
    q, k, v = layer.project(x)
    assert k.shape == v.shape == (2, kv, 7, 8)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(output, layer.proj(heads.transpose(1, 2).flatten(2)))
    fused, nothing = layer(x, mask, need_weights=False)
    torch.testing.assert_close(fused, output)
    assert nothing is None and weights.shape == (2, 6, 7, 7)
    assert count(layer) == sum(attention_parameters(48, 6, bias=bias, kv_heads=kv).values())


@pytest.mark.parametrize("bias", [False, True])
def test_as_many_key_heads_as_query_heads_is_multi_head_attention(x, bias):
    layer, plain = GroupedQueryAttention(48, 6, 6, bias), MultiHeadAttention(48, 6, bias)
    plain.load_state_dict(layer.state_dict())
    for mask in (None, causal_mask(7)):
        for ours, theirs in zip(layer(x, mask), plain(x, mask), strict=True):
            torch.testing.assert_close(ours, theirs)


@kv_heads
def test_grouped_heads_are_multi_head_attention_with_equal_rows(x, kv):
    layer, plain = GroupedQueryAttention(48, 6, kv), MultiHeadAttention(48, 6)
    q, k, v = layer.qkv.weight.split([48, kv * 8, kv * 8])
    copied = [part.view(kv, 8, 48).repeat_interleave(6 // kv, dim=0).flatten(0, 1) for part in (k, v)]
    plain.load_state_dict({"qkv.weight": torch.cat([q, *copied]), "proj.weight": layer.proj.weight})
    torch.testing.assert_close(layer(x, causal_mask(7)), plain(x, causal_mask(7)))


def test_a_mask_is_checked_with_and_without_weights(x):
    layer = GroupedQueryAttention(48, 6, 2)
    for need_weights in (True, False):
        with pytest.raises(ValueError, match=r"mask has shape \(5, 5\), wanted shape broadcastable to \(2, 6, 7, 7\)"):
            layer(x, causal_mask(5), need_weights=need_weights)
        with pytest.raises(ValueError, match=r"x has shape \(7, 48\).*unsqueeze"):
            layer(x[0], need_weights=need_weights)
        keys = torch.arange(7) < 4  # (S,): the same keys for every query
        torch.testing.assert_close(layer(x, keys, need_weights=need_weights)[0], layer(x, keys[None].expand(7, 7))[0])


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [4, 3], [1, 3, 2, 1]], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("make", ["grouped", "rotary", "latent"])
def test_piece_by_piece_with_a_cache_is_the_same_as_all_at_once(x, make, need_weights, sizes):
    layers = {
        "grouped": lambda: GroupedQueryAttention(48, 6, 2),
        "rotary": lambda: GroupedQueryAttention(48, 6, 3, True, rotary_base=10_000.0),
        "latent": lambda: LatentAttention(48, 6, 16),
    }
    layer, cache, outputs = layers[make](), {}, []
    whole, whole_weights = layer(x, causal_mask(7))
    for piece in x.split(sizes, dim=1):
        mask = causal_mask(piece.size(1), cached_tokens(cache) + piece.size(1))
        output, rows = layer(piece, mask, need_weights=need_weights, cache=cache)
        outputs.append(output)
        if need_weights:
            seen = cached_tokens(cache)
            torch.testing.assert_close(rows, whole_weights[:, :, seen - piece.size(1) : seen, :seen])
    torch.testing.assert_close(torch.cat(outputs, dim=1), whole)
    kept = sum(part.nbytes for part in cache.values())
    formula = latent_cache_bytes(1, 16, 7, 2, 4) if make == "latent" else cache_bytes(1, layer.kv_heads, 8, 7, 2, 4)
    assert cached_tokens(cache) == 7 and kept == formula


def test_what_is_remembered_comes_back_in_order_and_without_a_cache_nothing_is_kept():
    k, v = torch.zeros(1, 2, 3, 4), torch.ones(1, 2, 3, 4)
    assert remember(None, k=k, v=v) == [k, v] and cached_tokens(None) == cached_tokens({}) == 0
    cache = {}
    remember(cache, k=k, v=v)
    keys, values = remember(cache, k=k + 2, v=v + 2)
    assert keys[0, 0, :, 0].tolist() == [0, 0, 0, 2, 2, 2] and values[0, 0, :, 0].tolist() == [1, 1, 1, 3, 3, 3]
    assert cached_tokens(cache) == 6


@pytest.mark.parametrize("T", [1, 5])
@kv_heads
def test_sharing_saves_products_of_keys_and_values_alone(kv, T):
    layer, x = GroupedQueryAttention(48, 6, kv), torch.zeros(2, T, 48)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x)
    projected = 2 * 2 * T * sum(attention_parameters(48, 6, kv_heads=kv).values())
    assert counter.get_total_flops() == projected + 2 * (2 * 2 * T * T * 48)


def test_a_latent_as_wide_as_the_model_can_be_any_multi_head_attention(x):
    plain, layer = MultiHeadAttention(48, 6), LatentAttention(48, 6, latent=48)
    query, keys_and_values = plain.qkv.weight.data.split([48, 96])
    layer.query.weight.data, layer.proj.weight.data = query, plain.proj.weight.data
    layer.down.weight.data, layer.up.weight.data = torch.eye(48), keys_and_values
    for mask in (None, causal_mask(7)):
        torch.testing.assert_close(layer(x, mask), plain(x, mask))


@pytest.mark.parametrize("base", [10_000.0, 3.0])
@pytest.mark.parametrize("d_k", [2, 8])
def test_rotation_tells_how_far_apart_two_places_are_and_not_where(d_k, base):
    q, k = torch.randn(2, 1, d_k, dtype=torch.float64)
    places = torch.arange(40)
    turned_q, turned_k = (rotate(one.expand(40, d_k), places, base) for one in (q, k))
    scores = turned_q @ turned_k.T  # by place of the query, place of the key
    for apart in range(-39, 40):
        line = scores.diagonal(apart)
        torch.testing.assert_close(line, line[:1].expand_as(line), rtol=1e-5, atol=1e-5)  # angles are float32
    assert scores[:, 0].std() > 0.01  # and it does tell
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(40), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(turned_q[0], q[0])


def test_rotation_is_multiplication_by_a_complex_number():
    x, places = torch.randn(3, 5, 6, dtype=torch.float64), torch.tensor([0, 1, 7, 100, 3])
    angles = places[:, None] * 10_000.0 ** (-torch.arange(3, dtype=torch.float64) / 3)
    wanted = torch.view_as_real(
        torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angles), angles)
    )
    torch.testing.assert_close(rotate(x, places), wanted.flatten(-2), rtol=1e-4, atol=1e-5)
    assert rotate(x.half(), places).dtype == torch.float16


def test_rotation_refuses_what_it_cannot_turn():
    with pytest.raises(ValueError, match="d_k=5 must be even"):
        rotate(torch.zeros(4, 5), torch.arange(4))
    with pytest.raises(ValueError, match=r"positions have shape \(3,\), wanted \(4,\)"):
        rotate(torch.zeros(4, 6), torch.arange(3))


@rotary
def test_rotated_weights_do_not_change_when_the_text_moves(x, base):
    layer = GroupedQueryAttention(48, 6, 2, rotary_base=base)
    q, k, _ = layer.project(x)
    moved_q, moved_k, _ = layer.project(x, first=30)
    here, there = (a @ expand_kv_heads(b, 6).mT for a, b in ((q, k), (moved_q, moved_k)))
    torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)
    assert torch.equal(q, moved_q) == (base is None)


def test_a_window_hides_what_is_far_and_sinks_stay():
    assert torch.equal(sliding_window_mask(6, 6), causal_mask(6))
    assert torch.equal(sliding_window_mask(3, 9, S=8), causal_mask(3, 8))
    for T, S, window, sinks in ((6, 6, 3, 1), (2, 9, 4, 0), (1, 9, 2, 2), (6, 6, 1, 0)):
        mask = sliding_window_mask(T, window, sinks, S)
        for t in range(T):
            place = S - T + t
            seen = [s for s in range(place + 1) if place - s < window or s < sinks]
            assert mask[t].nonzero().flatten().tolist() == seen
    for wrong in ({"window": 0}, {"window": 2, "sinks": -1}):
        with pytest.raises(ValueError, match=r"window=\d must be at least 1"):
            sliding_window_mask(4, **wrong)
