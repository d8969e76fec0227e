"""The task of lesson 09, its model, and what is patched."""

import csv

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mha import heads
from mha.attention import causal_mask
from mha.runtime import data_path
from mha.tasks import repeats


@pytest.fixture(scope="module")
def model():
    found = repeats.Repeats()
    found.load_state_dict(load_file(data_path("repeats/model.safetensors")))
    return found.eval()


def test_texts_repeat_a_block_of_different_tokens():
    texts = repeats.batch(3, 200)
    assert texts.shape == (200, repeats.LENGTH) and torch.equal(texts, repeats.batch(3, 200))
    assert not torch.equal(texts, repeats.batch(4, 200))
    periods = repeats.period(texts)
    assert sorted(set(periods.tolist())) == list(range(4, 13))
    for text, period in zip(texts, periods, strict=True):
        assert len(set(text[:period].tolist())) == period and torch.equal(text[period:], text[:-period])
    assert set(repeats.period(repeats.batch(0, 50, periods=(8, 8))).tolist()) == {8}


def test_asked_are_the_places_that_hold_a_copy():
    text = torch.tensor([[2, 0, 1, 5, 2, 0, 1, 5, 2, 0]])
    assert repeats.letters(text[0])[:4] == ["c", "a", "b", "f"]
    assert repeats.asked(text)[0].tolist() == [False] * 4 + [True] * 5


def test_a_perfect_model_is_right_and_a_shifted_one_is_named_so():
    texts = repeats.batch(5, 100)

    def says(steps):
        def model(tokens, need_weights=True):
            said = tokens.roll(-1 - steps, dims=1)
            said[:, tokens.size(1) - 1 - steps :] = 99  # past the text's end nothing is right
            return torch.nn.functional.one_hot(said, 100).float(), None

        return model

    assert repeats.accuracy(says(0), texts) == 1 and repeats.accuracy(says(-1), texts) == 0
    for steps in (-1, 0, 1):
        shares = [repeats.names(says(steps), texts, other) for other in (-1, 0, 1)]
        assert shares == [float(other == steps) for other in (-1, 0, 1)]


@pytest.mark.parametrize("steps", [-1, 0, 1, 2])
def test_names_are_counted_one_by_one(steps):
    texts = repeats.batch(2, 30)
    said = torch.randint(repeats.VOCABULARY, texts.shape, generator=torch.Generator().manual_seed(1))
    hits = [
        float(said[b, t] == texts[b, t + 1 + steps])
        for b, period in enumerate(repeats.period(texts).tolist())
        for t in range(period, repeats.LENGTH - 1 - max(0, steps))
    ]
    found = repeats.names(lambda *_, need_weights: (torch.nn.functional.one_hot(said).float(), None), texts, steps)
    assert found == pytest.approx(sum(hits) / len(hits)) and 0 < found < 1


def test_loss_is_that_of_each_place_which_can_know(model):
    texts = repeats.batch(9, 3)
    scores, _ = model(texts)
    each = [
        -scores[b, t].log_softmax(dim=-1)[texts[b, t + 1]].item()
        for b, period in enumerate(repeats.period(texts).tolist())
        for t in range(period, repeats.LENGTH - 1)
    ]
    assert repeats.loss(model, texts).item() == pytest.approx(sum(each) / len(each), abs=1e-5)
    assert type(repeats.accuracy(model, texts)) is type(repeats.names(model, texts, 0)) is float


def test_any_number_of_layers_and_heads_adds_up():
    small, texts = repeats.Repeats(layers=3, num_heads=4, d_model=8), repeats.batch(1, 2)[:, :10]
    assert [(layer.num_heads, layer.d_model) for layer in small.layers] == [(4, 8)] * 3
    scores, maps = small(texts)
    x = torch.stack([small.embedding.weight[token] for token in texts.flatten()]).view(2, 10, 8)
    x = x + torch.stack([small.positions.weight[t] for t in range(10)])
    for layer, weights in zip(small.layers, maps, strict=True):
        each, theirs = repeats.said(layer, x, causal_mask(10))
        torch.testing.assert_close(weights, theirs)
        x = x + each.sum(dim=1)
    torch.testing.assert_close(scores, small.read_out(x))
    fused, none = small(texts, need_weights=False)
    torch.testing.assert_close(fused, scores)
    assert none == [None] * 3


def test_what_a_head_wrote_is_exchanged():
    written = torch.randn(2, 3, 4)
    assert not repeats.replaced(written, "zero").any() and repeats.replaced(written, "zero").shape == (2, 3, 4)
    assert torch.equal(repeats.replaced(written, "another text"), written[[1, 0]])
    assert torch.equal(repeats.replaced(written, "shifted 1"), written[:, [2, 0, 1]])
    assert torch.equal(repeats.replaced(written, "shifted -1"), written[:, [1, 2, 0]])


def test_a_patched_model_answers_as_the_model_does(model):
    texts = repeats.batch(7, 20)[:, :15]
    patched = repeats.Patched(model, 1, "")
    scores, maps = patched(texts)
    wanted, theirs = model(texts)
    torch.testing.assert_close(scores, wanted, atol=1e-4, rtol=1e-4)
    for weights, other in zip(maps, theirs, strict=True):
        torch.testing.assert_close(weights, other)
    assert patched(texts, need_weights=False)[1] == [None, None]


@pytest.mark.parametrize("head", [0, 1])
def test_another_text_on_all_paths_is_that_heads_output_there(model, head):
    """By hand: the first layer's head writes what it wrote in the text before, all else goes its way."""
    texts = repeats.batch(7, 4)
    mask, x = causal_mask(repeats.LENGTH), model.enter(texts)
    each, _ = repeats.said(model.layers[0], x, mask)
    each = each.clone()
    each[:, head] = each[[3, 0, 1, 2], head]
    x = x + each.sum(dim=1)
    expected = model.read_out(x + model.layers[1](x, mask)[0])
    found, _ = repeats.Patched(model, head, "qkvd", "another text")(texts)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_nothing_leaks_from_the_future(model):
    texts = repeats.batch(6, 4)
    changed = texts.clone()
    changed[:, 12:] = (changed[:, 12:] + 1) % repeats.VOCABULARY
    torch.testing.assert_close(model(texts)[0][:, :12], model(changed)[0][:, :12])


def test_what_heads_write_is_the_layers_output(model):
    x, mask = torch.randn(3, 10, 32), causal_mask(10)
    each, weights = repeats.said(model.layers[0], x, mask)
    output, theirs = model.layers[0](x, mask)
    torch.testing.assert_close(each.sum(dim=1), output)
    torch.testing.assert_close(weights, theirs)


def test_a_patch_of_no_path_changes_nothing_and_of_all_paths_is_a_head_switched_off(model):
    from mha.pruning import switch_off

    texts = repeats.batch(7, 20)
    torch.testing.assert_close(repeats.Patched(model, 0, "")(texts)[0], model(texts)[0], atol=1e-4, rtol=1e-4)
    with switch_off(model.layers[0], 0):
        off, _ = model(texts)
    torch.testing.assert_close(repeats.Patched(model, 0, "qkvd")(texts)[0], off, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("path", ["q", "k", "v", "d"])
def test_a_patch_reaches_its_own_path_alone(model, path):
    texts = repeats.batch(8, 20)
    scores, maps = repeats.Patched(model, 0, path)(texts)
    whole, before = model(texts)
    assert not torch.allclose(scores, whole, atol=1e-3)
    assert torch.allclose(maps[1], before[1], atol=1e-4) == (path in "vd")


def test_the_stored_model_composes_through_keys(model):
    texts = repeats.batch(11, 200)
    assert repeats.accuracy(model, texts) > 0.99
    assert repeats.accuracy(repeats.Patched(model, 0, "k", "another text"), texts) < 0.5
    assert repeats.accuracy(repeats.Patched(model, 0, "qvd", "another text"), texts) > 0.99
    assert repeats.names(repeats.Patched(model, 0, "k", "shifted -1"), texts, -1) > 0.8


def test_induction_is_a_kind_of_causal_models_alone():
    tokens = list("abcdabcdab")
    pattern = heads.patterns(tokens, causal=True)["induction"]
    assert [tuple(cell) for cell in np.argwhere(pattern)] == [
        (i, j) for i in range(10) for j in range(1, i + 1) if tokens[j - 1] == tokens[i]
    ]
    weights = heads.planted_heads(tokens, ["induction"], 1.0, causal=True)
    assert heads.strengths(weights, tokens, causal=True)["induction"] == pytest.approx(1)
    assert "induction" not in heads.strengths(weights, tokens)


def test_the_stored_results_are_complete():
    with open(data_path("repeats/results.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with open(data_path("repeats/composition.csv"), encoding="utf-8") as file:
        composed = list(csv.DictReader(file))
    assert len(rows) == 40 and len({row["seed"] for row in composed}) == 10
