"""mha/attention.py: properties on drawn shapes against PyTorch, then the class, the masks and the refusals."""

import copy
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, grad, jacrev, vmap

from mha.attention import (
    MultiHeadAttention,
    allowed_heads,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)

# Shapes that hide no mistake: B ≥ 2, h ≥ 2, T ≠ h, d_k ≠ h, S ≠ T; B ≠ h, and in some tests B == h.
B, H, T, S, D = 2, 3, 4, 5, 12

both_ways = pytest.mark.parametrize("need_weights", [True, False], ids=["with weights", "fused"])
halves = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def coins(*shape, seed=0, chance=0.5):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < chance


def attention(d=D, h=H, bias=False, dtype=torch.float64):
    torch.manual_seed(1)
    return MultiHeadAttention(d, h, bias=bias).to(dtype)


def close(got, wanted, tolerance=1e-10):
    torch.testing.assert_close(got, wanted, atol=tolerance, rtol=tolerance)


def says(sentence):
    return re.escape(sentence)


# Drawn shapes: the function against PyTorch's and against a loop.


@st.composite
def cases(draw):
    """Shapes and a mask: (q's shape, k's, v's, mask or None, seed)."""
    leading = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    t, s = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    d_k, d_v, seed = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.integers(0, 10**6))
    kind = draw(st.sampled_from(["none", "causal", "padding", "random", "broadcast", "blind row", "all hidden"]))
    full = (*leading, t, s)
    if kind == "none":
        mask = None
    elif kind == "causal":
        mask = causal_mask(t, s)  # with t > s the first queries see nothing
    elif kind == "padding":  # one length per text
        texts = leading[0] if leading else 1
        lengths = draw(st.lists(st.integers(0, s), min_size=texts, max_size=texts))
        mask = padding_mask(lengths, s).view(texts, *(1,) * (len(full) - 2), s)
    elif kind == "broadcast":
        shape = [size if draw(st.booleans()) else 1 for size in full]
        short = draw(st.sampled_from([len(full), 2, 1, 0]))
        mask = coins(*shape[len(full) - short :], seed=seed)
    else:
        mask = coins(*full, seed=seed, chance=0 if kind == "all hidden" else 0.6)
        if kind == "blind row":
            mask[..., draw(st.integers(0, t - 1)), :] = False
    return (*leading, t, d_k), (*leading, s, d_k), (*leading, s, d_v), mask, seed


def with_gradients(function, shapes, seed, dtype):
    """Context, and the gradients of q, k, v for a drawn direction."""
    q, k, v = (random(*shape, seed=seed + i, dtype=dtype).requires_grad_() for i, shape in enumerate(shapes))
    context = function(q, k, v)
    direction = random(*context.shape, seed=seed + 3, dtype=dtype)
    return context.detach(), *torch.autograd.grad(context, (q, k, v), direction)


@given(case=cases())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_values_and_gradients_equal_those_of_pytorch(case):
    *shapes, mask, seed = case
    scores = (*shapes[0][:-1], shapes[1][-2])
    theirs = None if mask is None else mask.expand(scores)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        got = with_gradients(lambda q, k, v: scaled_dot_product_attention(q, k, v, mask)[0], shapes, seed, dtype)
        wanted = with_gradients(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=theirs), shapes, seed, dtype
        )
        for ours, expected in zip(got, wanted, strict=True):
            assert ours.dtype == dtype
            close(ours, expected, tolerance)


@given(case=cases())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_weights_equal_a_slow_loop_and_rows_sum_to_one_or_zero(case):
    *shapes, mask, seed = case
    q, k, v = (random(*shape, seed=seed + i) for i, shape in enumerate(shapes))
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    assert weights.shape == (*q.shape[:-1], k.size(-2))
    seen = torch.ones(weights.shape, dtype=torch.bool) if mask is None else mask.expand(weights.shape)
    close(weights.sum(-1), seen.any(-1).double())
    texts = [x.reshape(-1, *x.shape[-2:]).tolist() for x in (q, k, v, seen, weights, context)]
    for queries, keys, values, visible, table, mixed in zip(*texts, strict=True):
        for query, sees, row, result in zip(queries, visible, table, mixed, strict=True):
            exps = [
                math.exp(sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query))) if see else 0.0
                for key, see in zip(keys, sees, strict=True)
            ]
            expected = [e / (sum(exps) or 1.0) for e in exps]
            assert row == pytest.approx(expected, abs=1e-10)
            columns = zip(*values, strict=True)
            assert result == pytest.approx(
                [sum(w * x for w, x in zip(expected, column, strict=True)) for column in columns], abs=1e-10
            )


@pytest.mark.parametrize("mask", [None, causal_mask(T, S)], ids=["no mask", "mask"])
def test_one_function_serves_2d_3d_and_4d(mask):
    q, k, v = random(B, H, T, 2), random(B, H, S, 2, seed=1), random(B, H, S, 3, seed=2)
    whole = scaled_dot_product_attention(q, k, v, mask)
    for index in ((slice(None), 1), (1,), (1, 2)):
        parts = scaled_dot_product_attention(q[index], k[index], v[index], mask)
        for part, all_of_it in zip(parts, whole, strict=True):
            close(part, all_of_it[index])


# A query that may see nothing.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_query_that_sees_nothing_gets_zero_context_weights_and_gradient(dtype):
    q, k, v = (random(B, H, n, 2, seed=n, dtype=dtype).requires_grad_() for n in (T, S, S))
    mask = coins(B, H, T, S)
    mask[..., :2], mask[:, :, 1], mask[1, 2] = True, False, False  # query 1 everywhere, head 2 of text 1
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    (context.float() ** 2).sum().backward()
    blind = ~mask.any(-1)
    assert blind.any() and not blind.all()
    for x in (context, weights, q.grad):
        assert x.dtype == dtype and x.isfinite().all()
        assert (x[blind] == 0).all() and (x[~blind] != 0).any(-1).all()
    for x in (k.grad, v.grad):
        assert x.isfinite().all() and (x[1, 2] == 0).all() and (x[0] != 0).any()


@both_ways
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_class_answers_a_blind_query_with_its_bias_alone(dtype, need_weights):
    module = attention(bias=True, dtype=dtype)
    x = random(B, T, D, dtype=dtype).requires_grad_()
    source = random(B, S, D, seed=1, dtype=dtype).requires_grad_()
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[:, :, 1], mask[1] = False, False  # query 1 of text 0, all of text 1
    blind = ~mask.any(-1)[:, 0]
    output, weights = module(x, mask, source=source, need_weights=need_weights)
    output.float().square().sum().backward()
    assert torch.equal(output[blind], module.proj.bias.expand_as(output[blind]))
    assert weights is None or (weights.transpose(1, 2)[blind] == 0).all()
    assert (x.grad[blind] == 0).all() and (x.grad[~blind] != 0).any(-1).all()
    assert (source.grad[1] == 0).all() and (source.grad[0] != 0).any()
    assert all(p.grad.isfinite().all() for p in (x, source, *module.parameters()))


@both_ways
def test_no_keys_at_all_give_zeros(need_weights):
    output, _ = attention()(random(B, T, D), source=random(B, 0, D), need_weights=need_weights)
    assert torch.equal(output, torch.zeros(B, T, D, dtype=torch.float64))


# Half precision.


@both_ways
@pytest.mark.parametrize("autocast", [False, True], ids=["half", "autocast"])
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
@halves
def test_huge_scores_do_not_overflow(dtype, masked, autocast, need_weights):
    """q = k = v = x with d_k = 64 and entries of ±200: scores of ±320 000, past float16's 65 504."""
    module = attention(128, 2, dtype=torch.float32 if autocast else dtype)
    with torch.no_grad():
        module.qkv.weight.copy_(torch.eye(128).repeat(3, 1))
        module.proj.weight.copy_(torch.eye(128))
    x = torch.tensor([-200.0, 200.0, 100.0])[:, None].expand(B, 3, 128).to(module.proj.weight.dtype)
    mask = torch.tensor([[0, 1, 0], [1, 0, 0], [1, 1, 0]]).bool() if masked else None
    chosen = [1, 0, 1] if masked else [0, 1, 1]  # the key each query must pick, alone
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        output, weights = module(x, mask, need_weights=need_weights)
    assert output.dtype == dtype
    assert torch.equal(output.float(), x[:, chosen].float())
    if need_weights:
        assert torch.equal(weights.float(), torch.eye(3)[chosen].expand(B, 2, 3, 3))


@both_ways
@halves
def test_autocast_with_a_mask_stays_near_full_precision(dtype, need_weights):
    module, x, mask = attention(bias=True, dtype=torch.float32), random(B, T, D, dtype=torch.float32), causal_mask(T)
    wanted, table = module(x, mask)
    with torch.autocast("cpu", dtype=dtype):
        output, weights = module(x, mask, need_weights=need_weights)
    output.float().sum().backward()
    close(output.float(), wanted, 0.03)
    assert all(p.grad.isfinite().all() for p in module.parameters())
    if need_weights:
        close(weights.float(), table, 0.03)
        assert (weights.triu(1) == 0).all()


# The class against a loop of heads, written with the layout that its docstring promises.


def loop_of_heads(module, x, mask, source=None):
    source, d_k, d = x if source is None else source, module.d_k, module.d_model
    outputs = []
    for head in range(module.num_heads):
        q, k, v = (
            F.linear(
                read,
                module.qkv.weight[start + head * d_k : start + (head + 1) * d_k],
                None if module.qkv.bias is None else module.qkv.bias[start + head * d_k : start + (head + 1) * d_k],
            )
            for start, read in ((0, x), (d, source), (2 * d, source))
        )
        outputs.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    return F.linear(torch.cat(outputs, dim=-1), module.proj.weight, module.proj.bias)


@both_ways
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize(("t", "s"), [(4, None), (1, None), (4, 5), (1, 5), (5, 1)], ids=str)
def test_the_class_equals_a_loop_of_heads_in_values_and_gradients(t, s, masked, bias, need_weights):
    module, x = attention(bias=bias), random(B, t, D).requires_grad_()
    source = None if s is None else random(B, s, D, seed=1).requires_grad_()
    mask = causal_mask(t, s) if masked else None
    output, weights = module(x, mask, source=source, need_weights=need_weights)
    wanted = loop_of_heads(module, x, mask, source)
    close(output, wanted)
    assert (weights.shape if need_weights else weights) == ((B, H, t, s or t) if need_weights else None)
    leaves = [x, *([] if source is None else [source]), *module.parameters()]
    direction = random(B, t, D, seed=2)
    pairs = zip(*(torch.autograd.grad(y, leaves, direction) for y in (output, wanted)), strict=True)
    for ours, theirs in pairs:
        close(ours, theirs)


def test_cross_attention_to_oneself_is_self_attention():
    module, x = attention(bias=True), random(B, T, D)
    for ours, theirs in zip(module(x, source=x), module(x), strict=True):
        close(ours, theirs)


def test_inputs_and_mask_are_left_as_they_were():
    x, mask = random(B, T, D), coins(T, T)
    before = x.clone(), mask.clone()
    attention()(x, mask)
    assert torch.equal(x, before[0]) and torch.equal(mask, before[1])


# Masks.

SHAPES = {
    "(T, S)": (T, S),
    "(B, 1, T, S)": (B, 1, T, S),
    "(B, h, T, S)": (B, H, T, S),
    "(1, h, T, S)": (1, H, T, S),
    "(B, 1, 1, S)": (B, 1, 1, S),
    "(B, 1, T, 1)": (B, 1, T, 1),
    "(T, 1)": (T, 1),
    "(1, S)": (1, S),
    "(S,)": (S,),
    "()": (),
}


@both_ways
@pytest.mark.parametrize("integer", [False, True], ids=["bool", "0/1"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_mask_that_broadcasts_acts_as_its_expansion(shape, integer, need_weights):
    module, x, source = attention(), random(B, T, D).requires_grad_(), random(B, S, D, seed=1)
    mask = coins(*shape, seed=3)
    full = mask.expand(B, H, T, S)
    wanted, table = module(x, full, source=source)
    output, weights = module(x, mask.long() if integer else mask, source=source, need_weights=need_weights)
    close(output, wanted)
    direction = random(B, T, D, seed=2)
    close(torch.autograd.grad(output, x, direction), torch.autograd.grad(wanted, x, direction))
    if need_weights:
        close(weights, table)
        assert (weights[~full] == 0).all() and (weights[full] > 0).all()


def call_class(mask, need_weights, batch=B):
    return attention()(random(batch, T, D), mask, source=random(batch, S, D), need_weights=need_weights)


@both_ways
@pytest.mark.parametrize("batch", [2, 3], ids=["B != h", "B == h"])
def test_one_mask_per_text_without_a_head_axis_is_refused_by_name(batch, need_weights):
    sentence = f"mask has shape ({batch}, {T}, {S}), wanted shape broadcastable to ({batch}, {H}, {T}, {S}): "
    sentence += "it would be read as one mask per head; for one mask per text, use mask.unsqueeze(1)"
    mask = coins(batch, T, S)
    with pytest.raises(ValueError, match=says(sentence)):
        call_class(mask, need_weights, batch)
    call_class(mask.unsqueeze(1), need_weights, batch)  # the way out works


@both_ways
@pytest.mark.parametrize(
    ("mask", "error", "sentence"),
    [
        (torch.ones(T, S), TypeError, "mask is torch.float32, wanted bool, True = may attend: use mask.bool() if 1 ="),
        (torch.ones(T, S).half(), TypeError, "or mask == 0 if it is to be added (0 and -inf)"),
        ([[True] * S] * T, TypeError, "mask is a list, wanted a bool tensor"),
        (coins(S, T), ValueError, f"mask has shape ({S}, {T}), wanted shape broadcastable to ({B}, {H}, {T}, {S})"),
        (coins(H, 1, T, S), ValueError, f"mask has shape ({H}, 1, {T}, {S}), wanted shape broadcastable to ({B}, {H}"),
        (coins(1, B, H, T, S), ValueError, f"mask has shape (1, {B}, {H}, {T}, {S}), wanted"),
        (coins(T, S).to("meta"), ValueError, "mask is on meta, the tokens on cpu: build it there, or mask.to('cpu')"),
    ],
    ids=["float", "half", "list", "(S, T)", "(h, 1, T, S)", "5-D", "device"],
)
def test_a_mask_that_does_not_fit_is_refused_with_a_sentence(mask, error, sentence, need_weights):
    with pytest.raises(error, match=says(sentence)):
        call_class(mask, need_weights)


@both_ways
def test_one_row_of_keys_for_each_text_is_refused_with_the_way_out(need_weights):
    mask = coins(B, S, seed=3)
    sentence = f"mask has shape ({B}, {S}), wanted shape broadcastable to ({B}, {H}, {T}, {S}): "
    sentence += "if it tells which keys of each text are real, use mask[:, None, None, :]"
    with pytest.raises(ValueError, match=says(sentence)):
        call_class(mask, need_weights)
    output, _ = call_class(mask[:, None, None, :], need_weights)
    close(output, call_class(mask[:, None, None, :].expand(B, H, T, S), need_weights)[0])
    call_class(coins(T, S), need_weights, batch=T)  # with B = T it is (T, S), and the docstring says so
    assert "mask[:, None, None, :]" in MultiHeadAttention.forward.__doc__


class Adapter(torch.nn.Module):
    """What LoRA and its like put around a Linear: no weight, no bias, only forward."""

    def __init__(self, linear):
        super().__init__()
        self.inner, self.calls = linear, 0

    def forward(self, x):
        self.calls += 1
        return 2 * self.inner(x)


@both_ways
@pytest.mark.parametrize("bias", [False, True])
def test_what_stands_in_place_of_qkv_is_called_for_either_source(bias, need_weights):
    module, x, source = attention(bias=bias), random(B, T, D), random(B, S, D, seed=1)
    doubled = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in doubled.qkv.parameters():
            parameter.mul_(2)
    module.qkv = Adapter(module.qkv)
    for read in (None, source):
        ours, theirs = (m(x, source=read, need_weights=need_weights)[0] for m in (module, doubled))
        close(ours, theirs)
    assert module.qkv.calls == 3
    assert "hooks on `qkv`" in MultiHeadAttention.project.__doc__


def test_a_quantised_layer_attends_to_a_source(recwarn):
    module = attention(dtype=torch.float32)
    small = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
    x, source = random(B, T, D, dtype=torch.float32), random(B, S, D, seed=1, dtype=torch.float32)
    assert type(small.qkv) is not torch.nn.Linear
    close(small(x, source=source)[0], module(x, source=source)[0], 0.05)


@pytest.mark.parametrize(
    ("sizes", "table"),
    [
        ((3,), ["100", "110", "111"]),
        ((1,), ["1"]),
        ((2, 4), ["1110", "1111"]),
        ((1, 3), ["111"]),
        ((3, 2), ["00", "10", "11"]),
    ],
    ids=str,
)
def test_the_causal_mask_is_aligned_to_the_end(sizes, table):
    mask = causal_mask(*sizes)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[cell == "1" for cell in row] for row in table]


@both_ways
@pytest.mark.parametrize("step", [1, 2])
def test_decoding_against_cached_keys_equals_one_full_pass(step, need_weights):
    module, x = attention(), random(B, 6, D)
    whole, _ = module(x, causal_mask(6))
    for end in range(step, 7, step):
        new, cached = x[:, end - step : end], x[:, :end]
        output, _ = module(new, causal_mask(step, end), source=cached, need_weights=need_weights)
        close(output, whole[:, end - step : end])


@pytest.mark.parametrize("kind", [list, torch.tensor], ids=["list", "tensor"])
def test_the_padding_mask_shows_the_real_tokens(kind):
    mask = padding_mask(kind([0, 2, 3]), 3)
    assert mask.shape == (3, 1, 1, 3) and mask.dtype == torch.bool
    assert mask[:, 0, 0].int().tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("lengths", [[4, 1], [1, -1], torch.tensor([9])], ids=str)
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(ValueError, match=r"lengths must lie between 0 and size=3, got \["):
        padding_mask(lengths, 3)


def test_masks_follow_the_device():
    assert causal_mask(3, 4, device="meta").is_meta
    assert padding_mask([1, 2], 3, device="meta").is_meta
    on_meta = padding_mask(torch.zeros(2, dtype=torch.long, device="meta"), 3)
    assert on_meta.is_meta and on_meta.shape == (2, 1, 1, 3)


# A good citizen of PyTorch.


@both_ways
@pytest.mark.parametrize("layout", ["transposed", "expanded", "strided"])
def test_inputs_need_not_be_contiguous(layout, need_weights):
    x = {
        "transposed": random(T, B, D).transpose(0, 1),
        "expanded": random(1, T, D).expand(B, T, D),
        "strided": random(B, 2 * T, 2 * D)[:, ::2, ::2],
    }[layout]
    mask = coins(T, T).t() | torch.eye(T).bool()
    assert not x.is_contiguous()
    module = attention(bias=True)
    for source in (None, x):
        wanted, _ = module(x.contiguous(), mask.contiguous(), source=None if source is None else x.contiguous())
        close(module(x, mask, source=source, need_weights=need_weights)[0], wanted)
    close(
        scaled_dot_product_attention(x, x, x.flip(1), mask)[0],
        scaled_dot_product_attention(x.contiguous(), x.contiguous(), x.flip(1).contiguous(), mask.contiguous())[0],
    )


@both_ways
def test_shapes_can_be_tried_on_the_meta_device(need_weights):
    with torch.device("meta"):
        module, x, source = MultiHeadAttention(D, H, bias=True), torch.empty(B, T, D), torch.empty(B, S, D)
        mask = causal_mask(T, S) & padding_mask([S, 2], S)
        output, weights = module(x, mask, source=source, need_weights=need_weights)
    assert all(p.is_meta for p in module.parameters())
    assert output.is_meta and output.shape == (B, T, D)
    assert weights is None or weights.shape == (B, H, T, S)


@pytest.mark.parametrize("bias", [False, True])
def test_state_holds_the_parameters_and_nothing_else(bias):
    module = attention(bias=bias)
    module(random(B, T, D), causal_mask(T))
    wanted = {"qkv.weight": (3 * D, D), "proj.weight": (D, D)}
    wanted |= {"qkv.bias": (3 * D,), "proj.bias": (D,)} if bias else {}
    assert {name: tuple(value.shape) for name, value in module.state_dict().items()} == wanted
    assert not list(module.buffers())


def test_a_deep_copy_is_equal_and_independent():
    module, x = attention(bias=True), random(B, T, D)
    module(x)
    twin = copy.deepcopy(module)
    before = module(x)[0]
    assert torch.equal(twin(x)[0], before)
    torch.nn.init.zeros_(twin.qkv.weight)
    assert torch.equal(module(x)[0], before) and not torch.equal(twin(x)[0], before)


@both_ways
@pytest.mark.parametrize("mask", [None, causal_mask(T)], ids=["no mask", "mask"])
def test_it_compiles_as_one_graph(mask, need_weights):
    module, x = attention(), random(B, T, D).requires_grad_()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    wanted, got = (m(x, mask, need_weights=need_weights) for m in (module, compiled))
    close(got, wanted)
    close(*(torch.autograd.grad(y[0].square().sum(), x) for y in (got, wanted)))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@both_ways
def test_gradients_per_sample_by_vmap_equal_a_loop(need_weights):
    module, x, mask = attention(bias=True), random(3, T, D), causal_mask(T)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(parameters, text):
        output, _ = functional_call(module, parameters, (text[None], mask), {"need_weights": need_weights})
        return output.square().sum()

    got = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i, text in enumerate(x):
        wanted = torch.autograd.grad(module(text[None], mask)[0].square().sum(), list(module.parameters()))
        for name, gradient in zip(parameters, wanted, strict=True):
            close(got[name][i], gradient)


def test_masks_alone_may_be_mapped_over():
    q, k, v, masks = random(T, 2), random(S, 2, seed=1), random(S, 3, seed=2), coins(6, T, S)
    masks[3, 1] = False
    got = vmap(lambda mask: scaled_dot_product_attention(q, k, v, mask))(masks)
    wanted = [scaled_dot_product_attention(q, k, v, mask) for mask in masks]
    for ours, each in zip(got, zip(*wanted, strict=True), strict=True):
        close(ours, torch.stack(each))


@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("texts", [(), (B,)])
def test_heads_may_share_one_table_of_keys(masked, texts):
    q, k, v = random(*texts, H, T, 2), random(*texts, 1, S, 2, seed=1), random(*texts, 1, S, 3, seed=2)
    mask = coins(*texts, 1, T, S) if masked else None
    got = scaled_dot_product_attention(q, k, v, mask)
    wanted = scaled_dot_product_attention(q, *(x.expand(*texts, H, -1, -1) for x in (k, v)), mask)
    for ours, theirs in zip(got, wanted, strict=True):
        close(ours, theirs)


def test_the_jacobian_by_jacrev_equals_that_of_autograd():
    q, k, v, mask = random(T, 2), random(S, 2, seed=1), random(S, 3, seed=2), causal_mask(T, S)

    def context(q):
        return scaled_dot_product_attention(q, k, v, mask)[0]

    close(jacrev(context)(q), torch.autograd.functional.jacobian(context, q))


# Sizes and refusals.


@pytest.mark.parametrize("d", [12, 64])
def test_parameters_are_4d_squared_whatever_the_number_of_heads(d):
    for h in allowed_heads(d):
        assert sum(p.numel() for p in MultiHeadAttention(d, h).parameters()) == 4 * d**2
        assert sum(p.numel() for p in MultiHeadAttention(d, h, bias=True).parameters()) == 4 * d**2 + 4 * d


def test_the_defaults_are_those_of_the_paper_without_bias():
    module = MultiHeadAttention()
    assert (module.d_model, module.num_heads, module.d_k) == (512, 8, 64)
    assert module.qkv.bias is None and module.proj.bias is None


@pytest.mark.parametrize("kind", [np.int64, np.array, torch.tensor], ids=["numpy", "0-d array", "0-d tensor"])
def test_sizes_may_be_whole_numbers_of_any_library(kind):
    module = MultiHeadAttention(kind(12), kind(3))
    assert (module.d_model, module.num_heads, module.d_k) == (12, 3, 4) and type(module.num_heads) is int


@pytest.mark.parametrize(("d", "heads"), [(1, [1]), (7, [1, 7]), (12, [1, 2, 3, 4, 6, 12])])
def test_allowed_heads_are_the_divisors(d, heads):
    assert allowed_heads(d) == heads


@pytest.mark.parametrize(
    ("d", "h", "error", "sentence"),
    [
        (512, 7, ValueError, "d_model=512 is not divisible by num_heads=7; nearest that work: 4, 8"),
        (8, 9, ValueError, "d_model=8 is not divisible by num_heads=9; nearest that work: 8"),
        (8, 0, ValueError, "num_heads must be at least 1, got 0"),
        (8, -2, ValueError, "num_heads must be at least 1, got -2"),
        (0, 1, ValueError, "d_model must be at least 1, got 0"),
        (-8, 2, ValueError, "d_model must be at least 1, got -8"),
        (8.0, 2, TypeError, "d_model must be a whole number, got 8.0"),
        (8, 2.0, TypeError, "num_heads must be a whole number, got 2.0"),
        (8, True, TypeError, "num_heads must be a whole number, got True"),
        (8, "2", TypeError, "num_heads must be a whole number, got '2'"),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_a_sentence(d, h, error, sentence):
    with pytest.raises(error, match=f"^{says(sentence)}$"):
        MultiHeadAttention(d, h)


@both_ways
@pytest.mark.parametrize("name", ["x", "source"])
@pytest.mark.parametrize(
    ("bad", "error", "sentence"),
    [
        (random(B, T, D + 1), ValueError, f" has shape ({B}, {T}, {D + 1}), wanted (B, T, d_model={D})"),
        (random(T, D), ValueError, f" has shape ({T}, {D}), wanted (B, T, d_model={D}): add the batch axis with "),
        (random(D), ValueError, f" has shape ({D},), wanted (B, T, d_model={D})"),
        (random(1, B, T, D), ValueError, f" has shape (1, {B}, {T}, {D}), wanted"),
        (torch.ones(B, T, D).long(), TypeError, " is torch.int64, wanted floating point: embed tokens first, or call "),
        ([[1.0] * D], TypeError, " is a list, wanted a tensor"),
    ],
    ids=["width", "2-D", "1-D", "4-D", "integer", "list"],
)
def test_tokens_that_do_not_fit_are_refused_by_name(bad, error, sentence, name, need_weights):
    good = random(B, T, D)
    inputs = {"x": bad} if name == "x" else {"x": good, "source": bad}
    with pytest.raises(error, match=says(name + sentence)) as refusal:
        attention()(**inputs, need_weights=need_weights)
    assert ("unsqueeze(0)" in str(refusal.value)) == (isinstance(bad, torch.Tensor) and bad.dim() == 2)


def test_a_source_of_another_batch_size_is_refused():
    with pytest.raises(ValueError, match=f"x holds {B} texts and source 1: they must be as many"):
        attention()(random(B, T, D), source=random(1, S, D))


@pytest.mark.parametrize(
    ("shapes", "error", "sentence"),
    [
        (((T, 2), (S, 3), (S, 2)), ValueError, "q is 2 wide and k 3: a dot product needs the same d_k"),
        (((T, 2), (S, 2), (T, 2)), ValueError, f"k has {S} tokens and v {T}: each key needs its value"),
        (((2,), (S, 2), (S, 2)), ValueError, "q has shape (2,), wanted at least (tokens, width)"),
    ],
    ids=["d_k", "S", "1-D"],
)
def test_queries_keys_and_values_that_do_not_fit_are_refused(shapes, error, sentence):
    with pytest.raises(error, match=says(sentence)):
        scaled_dot_product_attention(*(random(*shape) for shape in shapes))


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_queries_keys_and_values_must_be_floating_point(name):
    inputs = {letter: random(T, 2) for letter in "qkv"} | {name: torch.ones(T, 2).long()}
    with pytest.raises(TypeError, match=f"{name} is torch.int64, wanted floating point"):
        scaled_dot_product_attention(**inputs)
