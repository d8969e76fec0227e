"""mha/torch_bridge.py: the same numbers as nn.MultiheadAttention, both ways, and its masks.

The oracle runs in train mode with dropout 0: in eval mode under no_grad its fast path returns NaN on empty rows.
"""

import re

import pytest
import torch
from torch import nn

from mha.attention import MultiHeadAttention, causal_mask, padding_mask
from mha.torch_bridge import differences, from_torch, to_torch, to_torch_mask

B, H, T, S, D = 2, 3, 4, 5, 12

biases = pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
layouts = pytest.mark.parametrize("batch_first", [False, True], ids=["(T, B, d)", "(B, T, d)"])


def tokens(count, seed=0):
    torch.manual_seed(seed)
    return torch.randn(B, count, D, dtype=torch.float64, requires_grad=True)


def theirs(bias=True, batch_first=True, **options):
    torch.manual_seed(1)
    module = nn.MultiheadAttention(D, H, bias=bias, batch_first=batch_first, **{"dtype": torch.float64} | options)
    for parameter in module.parameters():  # PyTorch starts biases at zero, which would hide a lost one
        nn.init.normal_(parameter, std=0.3)
    return module


def ours(bias=True):
    torch.manual_seed(2)
    return MultiHeadAttention(D, H, bias=bias).double()


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=1e-10, rtol=1e-10)


def run_theirs(module, x, source, **masks):
    """Output (B, T, d) and weights (B, h, T, S), whatever the layout that the module wants."""
    x, source = (y if module.batch_first else y.transpose(0, 1) for y in (x, source))
    output, weights = module(x, source, source, average_attn_weights=False, **masks)
    return output if module.batch_first else output.transpose(0, 1), weights


def in_one_order(module, gradients):
    """The gradients of the parameters: first projections, then the output's; biases before weights."""
    table = dict(zip([name for name, _ in module.named_parameters()], gradients, strict=True))
    return [table[name] for name in sorted(table, key=lambda name: (name.startswith(("proj", "out")), name))]


@biases
@layouts
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("way", ["from_torch", "to_torch"])
def test_outputs_weights_per_head_and_gradients_are_equal(way, cross, batch_first, bias):
    if way == "from_torch":
        other = theirs(bias, batch_first)
        mine = from_torch(other)
    else:
        mine = ours(bias)
        other = to_torch(mine, batch_first)
    assert other.batch_first == batch_first
    x, source = tokens(T), tokens(S, seed=1) if cross else None
    results = mine(x, source=source), run_theirs(other, x, source if cross else x)
    close(*results)
    inputs = [x, source] if cross else [x]
    direction = tokens(T, seed=2).detach()
    gradients = [
        torch.autograd.grad(output, [*inputs, *module.parameters()], direction)
        for module, (output, _) in zip((mine, other), results, strict=True)
    ]
    n = len(inputs)
    close(gradients[0][:n], gradients[1][:n])
    close(in_one_order(mine, gradients[0][n:]), in_one_order(other, gradients[1][n:]))


@biases
def test_there_and_back_gives_the_identical_state(bias):
    mine, other = ours(bias), theirs(bias)
    for start, end in ((mine, from_torch(to_torch(mine))), (other, to_torch(from_torch(other)))):
        assert type(end) is type(start)
        torch.testing.assert_close(dict(end.state_dict()), dict(start.state_dict()), atol=0, rtol=0)
        assert (end.num_heads, end.training) == (start.num_heads, start.training)


@biases
@pytest.mark.parametrize(("convert", "build"), [(from_torch, theirs), (to_torch, ours)], ids=["from", "to"])
def test_weights_are_copies(convert, build, bias):
    source = build(bias)
    copied = convert(source)
    before = {name: value.clone() for name, value in copied.state_dict().items()}
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1)
    close(dict(copied.state_dict()), before)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("convert", [from_torch, to_torch], ids=["from", "to"])
def test_precision_device_and_mode_are_kept(convert, dtype, device, training):
    with torch.device(device):
        source = nn.MultiheadAttention(D, H) if convert is from_torch else MultiHeadAttention(D, H, bias=True)
    converted = convert(source.to(dtype).train(training))
    assert {(p.dtype, p.device.type) for p in converted.parameters()} == {(dtype, device)}
    assert len(list(converted.parameters())) == 4
    assert all(module.training is training for module in converted.modules())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kdim": 4}, "kdim=4 and vdim=12 must equal embed_dim=12: ours has one width"),
        ({"vdim": 4}, "kdim=12 and vdim=4 must equal embed_dim=12: ours has one width"),
        ({"add_bias_kv": True}, "add_bias_kv and add_zero_attn add keys that ours does not have"),
        ({"add_zero_attn": True}, "add_bias_kv and add_zero_attn add keys that ours does not have"),
    ],
    ids=str,
)
def test_a_module_that_ours_cannot_hold_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_torch(nn.MultiheadAttention(D, H, **options))


def test_a_module_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"from_torch takes an nn\.MultiheadAttention, got MultiHeadAttention"):
        from_torch(ours())
    with pytest.raises(TypeError, match="to_torch takes a MultiHeadAttention, got MultiheadAttention"):
        to_torch(theirs())


# Masks, used for real.


def random_mask(*shape):
    """Every query sees key 0 at least."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.5
    mask[..., 0] = True
    assert not mask.all()
    return mask


@pytest.mark.parametrize(
    ("mask", "argument", "heads", "shape"),
    [
        (causal_mask(T, S), "attn_mask", None, (T, S)),
        (random_mask(T, S).int(), "attn_mask", None, (T, S)),
        (padding_mask([3, S], S), "key_padding_mask", None, (B, S)),
        (random_mask(B, H, T, S), "attn_mask", None, (B * H, T, S)),
        (random_mask(B, H, T, S), "attn_mask", H, (B * H, T, S)),
        (random_mask(B, 1, T, S), "attn_mask", H, (B * H, T, S)),
    ],
    ids=["(T, S)", "(T, S) of 0/1", "(B, 1, 1, S)", "(B, h, T, S)", "(B, h, T, S) named", "(B, 1, T, S)"],
)
def test_a_translated_mask_hides_the_same_keys(mask, argument, heads, shape):
    other, x, source = theirs(), tokens(T), tokens(S, seed=1)
    translated = to_torch_mask(mask, num_heads=heads)
    assert translated.shape == shape and translated.dtype == torch.bool
    wanted = run_theirs(other, x, source, **{argument: translated})
    close(from_torch(other)(x, mask, source=source), wanted)
    assert (wanted[1] == 0).any()  # the mask was read


def test_causal_and_padding_masks_translate_apart_and_act_together():
    other, x, causal, real = theirs(), tokens(T), causal_mask(T), padding_mask([2, T], T)
    wanted = run_theirs(other, x, x, attn_mask=to_torch_mask(causal), key_padding_mask=to_torch_mask(real))
    close(from_torch(other)(x, causal & real), wanted)


@pytest.mark.parametrize("shape", [(S,), (B, T, S), (1, B, H, T, S)], ids=str)
def test_a_mask_of_another_shape_is_refused(shape):
    sentence = f"mask has shape {shape}, wanted (T, S), (B, 1, 1, S) or (B, h, T, S)"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        to_torch_mask(torch.ones(shape, dtype=torch.bool))


def test_a_mask_for_all_heads_needs_their_number():
    sentence = f"mask has shape ({B}, 1, {T}, {S}): name the number of heads, to_torch_mask(mask, num_heads=h)"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        to_torch_mask(random_mask(B, 1, T, S))


def test_a_number_of_heads_that_contradicts_the_mask_is_refused():
    with pytest.raises(ValueError, match="num_heads=2"):
        to_torch_mask(random_mask(B, H, T, S), num_heads=2)


def test_a_mask_to_be_added_is_refused_and_not_inverted():
    added = torch.zeros(T, T).masked_fill(~causal_mask(T), float("-inf"))
    with pytest.raises(TypeError, match=r"mask is torch\.float32, wanted bool"):
        to_torch_mask(added)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "per head"])
def test_the_largest_differences_are_small_and_an_untranslated_mask_makes_them_large(kind, cross):
    torch.manual_seed(0)
    found = differences(2, 4, 6, 12, 3, True, cross, kind)
    assert len(found) == 4 and max(found) < 1e-4
    if kind == "per head":
        output, fused, weights, gradient = differences(
            2, 4, 6, 12, 3, True, cross, kind, translate=lambda mask: mask.flatten(0, 1)
        )
        assert min(output, weights, gradient) > 1e-2 and fused < 1e-4


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("kind", ["causal", "padding", "per head"])
def test_the_texts_compared_have_the_lengths_asked_for(kind, cross):
    given = []
    differences(2, 4, 6, 12, 3, False, cross, kind, translate=lambda mask: given.append(mask) or to_torch_mask(mask))
    (mask,) = given
    assert mask.size(-1) == (6 if cross else 4)
    assert kind != "padding" or (mask[0].all() and mask[1].sum() == 1)
