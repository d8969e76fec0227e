"""mha/open_models.py and data/models: rows that make sense, caches against tensors, the drawing."""

import re

import pytest
import torch

from mha.accounting import cache_bytes
from mha.figures import Picture, head_counts
from mha.open_models import read_models

MODELS = {model.model: model for model in read_models()}


def test_the_models_are_many_in_order_and_each_has_a_source():
    assert len(MODELS) >= 12
    dates = [model.date for model in MODELS.values()]
    assert dates == sorted(dates) and dates[0][:4] == "2017"
    for model in MODELS.values():
        assert re.fullmatch(r"20\d\d-(0\d|1[012])", model.date) and len(model.source) > 15, model
        paper = re.search(r"arXiv (\d\d)(\d\d)\.\d{5}", model.source)
        assert paper is None or model.date == f"20{paper[1]}-{paper[2]}", model


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_sizes_of_a_model_fit_each_other(model):
    assert model.kind in ("encoder", "decoder", "encoder-decoder")
    assert min(model.layers, model.d_model, model.heads, model.d_k, model.kv_heads) > 0
    assert model.heads % model.kv_heads == 0
    assert bool(model.window) == bool(model.window_layers) and model.window_layers <= model.layers


def test_what_is_known_of_single_models():
    assert sum(model.heads * model.d_k != model.d_model for model in MODELS.values()) == 8
    falcon, deepseek, base = MODELS["Falcon 7B"], MODELS["DeepSeek-V2"], MODELS["Transformer base"]
    assert falcon.kv_heads == 1 and deepseek.latent == 512 + 64 and (base.heads, base.d_k) == (8, 64)


def test_a_cache_holds_the_tensors_that_its_layers_keep():
    for name, T in (("Llama 3 8B", 8192), ("Gemma 3 27B", 32768), ("Gemma 3 27B", 100), ("Mistral 7B", 8192)):
        model = MODELS[name]
        lengths = [T] * (model.layers - model.window_layers) + [min(T, model.window)] * model.window_layers
        kept = [torch.empty(2, 3, model.kv_heads, n, model.d_k, dtype=torch.half, device="meta") for n in lengths]
        assert model.cache_bytes(T, B=3) == sum(tensor.nbytes for tensor in kept), name
    assert MODELS["Llama 3 8B"].cache_bytes(8192) == 2**30
    assert MODELS["DeepSeek-V3"].cache_bytes(10, B=2, bytes_per_number=1) == 61 * 576 * 10 * 2
    assert MODELS["GPT-2 XL"].cache_bytes(1) == 300 * 1024 == cache_bytes(48, 25, 64, 1)
    with pytest.raises(ValueError, match="BERT base is an encoder"):
        MODELS["BERT base"].cache_bytes(1)


def test_they_can_be_drawn():
    picture = head_counts(list(MODELS.values()), title="Heads", alt="Dots.")
    assert isinstance(picture, Picture) and picture.alt == "Dots." and len(picture.png) > 10_000
