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
            return torch.nn.functional.one_hot(tokens.roll(-1 - steps, dims=1), repeats.VOCABULARY).float(), None

        return model

    assert repeats.accuracy(says(0), texts) == 1 and repeats.accuracy(says(-1), texts) == 0
    for steps in (-1, 0, 1):
        shares = [repeats.names(says(steps), texts, other) for other in (-1, 0, 1)]
        assert shares == pytest.approx([float(other == steps) for other in (-1, 0, 1)], abs=0.01)  # 0.01: text's end


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
