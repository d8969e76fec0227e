"""The Transformer: beside PyTorch's own layers, no leak through padding, batch or future, and its drawing."""

import copy
import math

import pytest
import torch
from torch import nn

from mha.attention import MultiHeadAttention, causal_mask
from mha.figures import architecture
from mha.transformer import DecoderLayer, Embedding, EncoderLayer, Transformer, sinusoidal_positions

D, H, INNER = 16, 4, 32


def double(module):
    return module.double().eval()


def copy_attention(theirs, ours):
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.qkv.weight.data.clone(), ours.qkv.bias.data.clone()
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = ours.proj.weight.data.clone(), ours.proj.bias.data.clone()


def copy_rest(theirs, ours, norms):
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())
    for norm in norms:
        getattr(theirs, norm).load_state_dict(getattr(ours, norm).state_dict())


def shaken(module):
    """Weights that no part can ignore: norms and biases, too, are random."""
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.4)
    return module


@pytest.fixture
def lengths():
    return (torch.arange(7) < torch.tensor([7, 4, 2])[:, None])[:, None, None]  # (B, 1, 1, S)


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("need_weights", [False, True])
def test_an_encoder_layer_is_pytorchs(need_weights, lengths):
    ours = double(shaken(EncoderLayer(D, H, INNER)))
    theirs = double(nn.TransformerEncoderLayer(D, H, INNER, dropout=0, batch_first=True, norm_first=True))
    copy_attention(theirs.self_attn, ours.attention)
    copy_rest(theirs, ours, ("norm1", "norm2"))
    x = torch.randn(3, 7, D, dtype=torch.float64, requires_grad=True)
    real = lengths[:, 0, 0]
    a, weights = ours(x, lengths, need_weights)
    b = theirs(x, src_key_padding_mask=~real)
    same(a[real], b[real])
    same(*(torch.autograd.grad(y[real].sin().sum(), x)[0] for y in (a, b)))
    assert (weights is None) == (not need_weights)
    if need_weights:
        assert weights.shape == (3, H, 7, 7) and not weights[1, :, :, 4:].any()


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_decoder_layer_is_pytorchs(need_weights, lengths):
    ours = double(shaken(DecoderLayer(D, H, INNER)))
    theirs = double(nn.TransformerDecoderLayer(D, H, INNER, dropout=0, batch_first=True, norm_first=True))
    copy_attention(theirs.self_attn, ours.attention)
    copy_attention(theirs.multihead_attn, ours.cross)
    copy_rest(theirs, ours, ("norm1", "norm2", "norm3"))
    x = torch.randn(3, 5, D, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(3, 7, D, dtype=torch.float64, requires_grad=True)
    a, own, cross = ours(x, memory, lengths, need_weights)
    b = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=~lengths[:, 0, 0])
    same(a, b)
    for mine, other in zip(*(torch.autograd.grad(y.sin().sum(), (x, memory)) for y in (a, b)), strict=True):
        same(mine, other)
    if need_weights:
        assert own.shape == (3, H, 5, 5) and cross.shape == (3, H, 5, 7)
        assert not own.triu(1).any() and not cross[2, :, :, 2:].any()


def test_gradients_of_every_weight_are_pytorchs(lengths):
    ours = double(shaken(EncoderLayer(D, H, INNER)))
    theirs = double(nn.TransformerEncoderLayer(D, H, INNER, dropout=0, batch_first=True, norm_first=True))
    copy_attention(theirs.self_attn, ours.attention)
    copy_rest(theirs, ours, ("norm1", "norm2"))
    x = torch.randn(3, 7, D, dtype=torch.float64)
    for layer, y in ((ours, ours(x)[0]), (theirs, theirs(x))):
        y.sin().sum().backward()
        assert all(weight.grad is not None for weight in layer.parameters())
    pairs = {
        ours.attention.qkv.weight: theirs.self_attn.in_proj_weight,
        ours.attention.proj.bias: theirs.self_attn.out_proj.bias,
        ours.feed_forward[0].weight: theirs.linear1.weight,
        ours.feed_forward[2].bias: theirs.linear2.bias,
        ours.norm1.weight: theirs.norm1.weight,
        ours.norm2.bias: theirs.norm2.bias,
    }
    for mine, other in pairs.items():
        same(mine.grad, other.grad)


def test_sinusoidal_positions_are_the_papers():
    table = sinusoidal_positions(50, 6)
    for place in (0, 1, 7, 49):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            assert table[place, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[place, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)
    with pytest.raises(ValueError, match="d_model=5 must be even"):
        sinusoidal_positions(4, 5)


def test_attention_without_positions_is_blind_to_order():
    layer = double(MultiHeadAttention(D, H))
    x, order = torch.randn(2, 6, D, dtype=torch.float64), torch.randperm(6)
    same(layer(x)[0][:, order], layer(x[:, order])[0])


def test_embeddings_add_places():
    for kind in ("learned", "sinusoidal", "none"):
        embedding = Embedding(5, D, 9, kind)
        symbols = torch.tensor([[1, 1, 2]])
        out = embedding(symbols)
        assert out.shape == (1, 3, D) and torch.equal(out[0, 0], out[0, 1]) == (kind == "none")
        torch.testing.assert_close(embedding(symbols[:, 2:], first=2), out[:, 2:])
    assert len(list(Embedding(5, D, 9, "sinusoidal").parameters())) == 1
    with pytest.raises(ValueError, match="10 symbols are too many: there are positions for 9"):
        embedding(torch.ones(1, 10, dtype=torch.long))
    with pytest.raises(ValueError, match="choose"):
        Embedding(5, D, 9, "relative")


@pytest.fixture(params=[1, 2])
def model(request):
    torch.manual_seed(request.param)
    return double(shaken(Transformer(20, 12, D, H, INNER, layers=request.param, longest=12)))


SOURCE = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 8, 7, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 0]])


def test_padding_and_batch_change_nothing(model):
    together, _ = model(SOURCE, TARGET)
    for row, length in enumerate((6, 3, 1)):
        same(model(SOURCE[row : row + 1, :length], TARGET[row : row + 1])[0][0], together[row])
    wider = torch.nn.functional.pad(SOURCE, (0, 5))
    same(model(wider, TARGET)[0], together)
    for need_weights in (False, True):
        scores, maps = model(SOURCE, TARGET, need_weights)
        same(scores, together)
        assert (maps is None) == (not need_weights)


def test_no_future_leaks(model):
    x = TARGET.clone()
    x[:, 2] = 0
    before, after = model(SOURCE, TARGET)[0], model(SOURCE, x)[0]
    same(before[:, :2], after[:, :2])
    assert (before[:, 2] - after[:, 2]).abs().max() > 1e-3


def test_the_weights_are_of_all_layers(model):
    _, maps = model(SOURCE, TARGET)
    layers = len(model.encoder)
    assert {name: (len(found), tuple(found[0].shape)) for name, found in maps.items()} == {
        "encoder": (layers, (3, H, 6, 6)),
        "decoder": (layers, (3, H, 4, 4)),
        "cross": (layers, (3, H, 4, 6)),
    }
    for found in maps.values():
        for weights in found:
            same(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert not maps["encoder"][0][1, :, :, 3:].any() and not maps["cross"][-1][2, :, :, 1:].any()


def test_greedy_with_a_cache_is_greedy_without(model):
    symbols, probabilities = model.greedy(SOURCE, start=11, steps=6)
    target = torch.full((3, 1), 11)
    for step in range(6):
        shares = model(SOURCE, target)[0][:, -1].softmax(dim=-1)
        same(probabilities[:, step], shares.max(dim=-1).values)
        assert torch.equal(symbols[:, step], shares.argmax(dim=-1))
        target = torch.cat([target, symbols[:, step : step + 1]], dim=1)
    assert torch.equal(model.greedy(SOURCE[1:2, :3], 11, 6)[0], symbols[1:2])


def test_what_is_cached_is_not_computed_again(model):
    """Each step projects one new token, and the memory once."""
    rows = []
    for layer in model.decoder:
        for attention in (layer.attention, layer.cross):
            project = attention.project
            attention.project = lambda x, source=None, project=project: (
                rows.append((x.size(1), None if source is None else source.size(1))) or project(x, source)
            )
    model.greedy(SOURCE, 11, 4)
    assert rows.count((1, 6)) == len(model.decoder) and rows.count((1, None)) == len(rows) - len(model.decoder)


def test_it_learns_to_copy():
    torch.manual_seed(0)
    model = Transformer(8, 9, 16, 2, 32, longest=8)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        source = torch.randint(1, 8, (64, 4))
        target = torch.cat([torch.full((64, 1), 8), source[:, :-1]], dim=1)
        loss = nn.functional.cross_entropy(model(source, target)[0].flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source = torch.randint(1, 8, (50, 4))
    assert (model.greedy(source, 8, 4)[0] == source).all(dim=1).float().mean() > 0.9


def test_a_copy_is_independent(model):
    other = copy.deepcopy(model)
    other.load_state_dict(model.state_dict())
    same(other(SOURCE, TARGET)[0], model(SOURCE, TARGET)[0])


@pytest.mark.parametrize(("num_heads", "layers"), [(4, 1), (8, 2), (2, 6)])
def test_the_drawing_shows_this_model_and_no_words_touch(num_heads, layers, monkeypatch):
    monkeypatch.setattr(architecture, "Picture", lambda figure, alt: (figure, alt))
    model = Transformer(20, 7, 16, num_heads, 48, layers=layers)
    figure, alt = architecture.transformer(model, title="a title", alt="words")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    texts = [text for text in axes.texts if text.get_text()]
    words = [text.get_text() for text in texts]
    for head in range(num_heads):
        assert words.count(f"head {head}" if num_heads <= 4 else f"{head}") == 3
    assert words.count("feed-forward\n16 → 48 → 16, each token alone") == 2 and words.count("norm") == 7
    for said in ("memory (B, S, 16)", "read-out 16 → 7", f"encoder layer × {layers}", f"decoder layer × {layers}"):
        assert said in words
    assert alt == "words" and min(text.get_fontsize() for text in texts) >= 9 and figure.get_figwidth() <= 9
    boxes = [text.get_window_extent() for text in texts]
    for i, box in enumerate(boxes):
        assert figure.bbox.fully_contains(*box.min) and figure.bbox.fully_contains(*box.max), words[i]
        assert not any(box.overlaps(other) for other in boxes[:i]), words[i]
