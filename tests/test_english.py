"""The English model: the same tokens, states and weights as the transformers library, and clear refusals."""

import shutil
import sys

import pytest
import torch
from torch import nn

from mha import english
from mha.attention import scaled_dot_product_attention

FOLDER = english.find_model()
needs_model = pytest.mark.skipif(FOLDER is None, reason="NOT CHECKED: the English model is not here, run `make model`")
SENTENCES = [
    "Maya fed her cat, twice.",
    "It's $5 for a well-known café; isn't it?",
    "The queen waited for the king, because she was early.",
    "No.",
    "Naïve coöperation, déjà vu, Ångström: accents everywhere!",
    "On 3 May 1979 (a Thursday) 12,345 people came to 221B Baker Street.",
    "THE SHOUTING MAN WAS NOT HEARD",
    "unbelievably incomprehensible electroencephalographically speaking",
    "She said: “I don't know”, and left…",
    "A dog chased a dog that chased another dog.",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "The trophy does not fit into the suitcase because it is too large.",
    "e-mail me at nobody at all, please",
    "日本 and Ελλάδα are countries",
    "   too   many     spaces   ",
    "Hmm , odd , spacing .",
    "3.14159 is not 22/7",
    "If the rain stops, we will walk; if not, we will read.",
    "Her mother's sister's daughter is her cousin.",
    "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo",
]


@pytest.fixture(scope="module")
def ours():
    return english.load(FOLDER), english.Tokenizer(FOLDER)


@pytest.fixture(scope="module")
def theirs():
    from transformers import BertModel, BertTokenizerFast

    model = BertModel.from_pretrained(str(FOLDER), attn_implementation="eager")
    return model.eval(), BertTokenizerFast.from_pretrained(str(FOLDER))


def distance(left, right):
    return (left - right).abs().max().item()


@needs_model
@pytest.mark.parametrize("sentence", SENTENCES)
def test_one_sentence_is_read_as_by_transformers(ours, theirs, sentence):
    (encoder, tokenizer), (model, their_tokenizer) = ours, theirs
    ids, lengths, tokens = tokenizer([sentence])
    batch = their_tokenizer(sentence, return_tensors="pt")
    assert torch.equal(ids, batch.input_ids) and tokens[0] == their_tokenizer.convert_ids_to_tokens(ids[0])
    with torch.no_grad():
        hidden, maps = encoder(ids, lengths)
        wanted = model(**batch, output_attentions=True)
    assert distance(hidden, wanted.last_hidden_state) < 1e-5
    assert max(distance(a, b) for a, b in zip(maps, wanted.attentions, strict=True)) < 1e-5
    assert len(maps) == 6 and maps[0].shape == (1, 12, ids.size(1), ids.size(1))
    assert sentence != "No." or torch.equal(encoder(ids)[0], hidden)  # without lengths, too


@needs_model
def test_a_padded_batch_is_read_as_by_transformers(ours, theirs):
    (encoder, tokenizer), (model, their_tokenizer) = ours, theirs
    ids, lengths, _ = tokenizer(SENTENCES)
    batch = their_tokenizer(SENTENCES, return_tensors="pt", padding=True)
    assert torch.equal(ids, batch.input_ids) and lengths == batch.attention_mask.sum(dim=1).tolist()
    with torch.no_grad():
        hidden, maps = encoder(ids, lengths)
        wanted = model(**batch, output_attentions=True)
    real = batch.attention_mask.bool()
    assert distance(hidden[real], wanted.last_hidden_state[real]) < 1e-5
    for a, b in zip(maps, wanted.attentions, strict=True):
        rows = real[:, None, :, None].expand_as(a)
        assert distance(a[rows], b[rows]) < 1e-5 and not a.masked_select(~real[:, None, None]).any()


@needs_model
def test_reading_and_vectors(ours):
    encoder, tokenizer = ours
    tokens, maps = english.read(encoder, tokenizer, SENTENCES[0])
    assert tokens == ["[CLS]", "maya", "fed", "her", "cat", ",", "twice", ".", "[SEP]"] and maps.shape == (6, 12, 9, 9)
    torch.testing.assert_close(maps.sum(dim=-1), torch.ones(6, 12, 9))
    assert tokenizer(["cat " * 200])[1] == [202]  # nothing is cut off
    near, same, far = english.vectors(
        encoder,
        tokenizer,
        ["The cat sleeps on the sofa.", "A cat is asleep on the couch.", "The bank raised its rates."],
    )
    assert near @ same > 0.7 > 0.3 > near @ far and near.norm() == pytest.approx(1, abs=1e-5)
    alone = english.vectors(encoder, tokenizer, ["The bank raised its rates."])[0]
    torch.testing.assert_close(alone, far, atol=1e-5, rtol=1e-5)


@needs_model
def test_lengths_are_those_of_what_each_token_hands_on(ours, theirs):
    """Token by token, from transformers' own layers: what a head adds if all its weight lies on one token."""
    (encoder, tokenizer), (model, their_tokenizer) = ours, theirs
    lengths = english.value_lengths(encoder, tokenizer, SENTENCES[0])
    assert lengths.shape == (6, 12, 9) and not encoder.layers[0].attention.qkv._forward_pre_hooks
    with torch.no_grad():
        hidden = model(**their_tokenizer(SENTENCES[0], return_tensors="pt"), output_hidden_states=True).hidden_states
        for layer, head, token in ((0, 2, 0), (1, 3, 4), (5, 11, 8)):
            attention = model.encoder.layer[layer].attention
            value = attention.self.value(hidden[layer])[0, token]
            one = torch.zeros(384)
            one[32 * head : 32 * (head + 1)] = value[32 * head : 32 * (head + 1)]
            wanted = (attention.output.dense(one) - attention.output.dense(torch.zeros(384))).norm()
            assert lengths[layer, head, token] == pytest.approx(wanted.item(), rel=1e-4)


def test_what_is_written_is_weight_times_length():
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.2, 0.6]]])  # (1, 2, 3)
    found = english.written(weights, torch.tensor([[0.0, 2.0, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.4, 0.6]]]))
    torch.testing.assert_close(english.written(weights, torch.full((1, 3), 7.0)), weights)  # equal lengths: no change
    weights, lengths = torch.rand(2, 5, 3, 3), torch.rand(2, 5, 3)  # head by head, as of whole models
    torch.testing.assert_close(english.written(weights, lengths)[1, 4], english.written(weights[1, 4], lengths[1, 4]))


@needs_model
def test_the_stored_lengths_are_the_models(ours):
    encoder, tokenizer = ours
    for tokens, lengths in english.stored_lengths():
        text = tokenizer.pieces.decode(tokenizer.pieces.encode(" ".join(tokens[1:-1])).ids)
        torch.testing.assert_close(english.value_lengths(encoder, tokenizer, text), lengths, atol=5e-3, rtol=2e-3)


class LearnersAttention(nn.Module):
    """The class of lesson 03, with the biases that this model has."""

    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        B, T, d_model = x.shape
        q, k, v = (p.view(B, T, self.num_heads, self.d_k).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        context, weights = scaled_dot_product_attention(q, k, v, mask)
        return self.proj(context.transpose(1, 2).reshape(B, T, d_model)), weights


@needs_model
def test_the_learners_own_class_gives_the_same_vectors(ours):
    encoder, tokenizer = ours
    learners = english.load(FOLDER, lambda: LearnersAttention(384, 12))
    assert isinstance(learners.layers[0].attention, LearnersAttention)
    torch.testing.assert_close(*(english.vectors(e, tokenizer, SENTENCES) for e in (encoder, learners)))


def small(folder, content=b"not a model"):
    (folder / "model.safetensors").write_bytes(content)
    return folder


def test_the_model_is_looked_for_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(english, "data_path", lambda name: tmp_path / "data" / name)
    monkeypatch.setattr(english, "PYPI", "no_such_package")
    monkeypatch.delenv("MHA_ENGLISH", raising=False)
    assert english.find_model() is None
    installed = tmp_path / "installed" / "some_package"
    (installed / "model").mkdir(parents=True)
    (installed / "__init__.py").write_text("raise RuntimeError('this package must not be run')")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.setattr(english, "PYPI", "some_package")
    assert english.find_model() is None  # half an installation
    small(installed / "model")
    assert english.find_model() == installed / "model" and "some_package" not in sys.modules
    local = tmp_path / "data" / "english" / "model"
    local.mkdir(parents=True)
    small(local)
    assert english.find_model() == local
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("MHA_ENGLISH", str(named))
    assert english.find_model() == local
    small(named)
    assert english.find_model() == named


@pytest.mark.parametrize(("size", "hint"), [(89_999_999, "it is half a download"), (90_000_000, "it is another model")])
def test_another_file_and_half_a_download_are_refused(tmp_path, monkeypatch, size, hint):
    with open(small(tmp_path) / "model.safetensors", "wb") as file:
        file.truncate(size)
    monkeypatch.setattr(english.Path, "read_bytes", lambda _: b"another")
    with pytest.raises(ValueError, match=rf"checksum \w{{12}}…, wanted 53aa51172d14…: {hint}"):
        english.load(tmp_path)


@needs_model
def test_a_tampered_file_is_refused(tmp_path):
    shutil.copy(FOLDER / "model.safetensors", tmp_path)
    with open(tmp_path / "model.safetensors", "r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)
        file.seek(50_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        english.load(tmp_path)


def test_without_a_network_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setattr(english, "find_model", lambda: None)
    for module in (None, type(sys)("huggingface_hub")):  # not installed; installed, but nothing can be fetched
        if module is not None:

            def fail(*_):
                raise ConnectionError("no route\nand more")

            module.hf_hub_download = fail
        monkeypatch.setitem(sys.modules, "huggingface_hub", module)
        with pytest.raises(
            RuntimeError, match=r"could not be fetched \(\w+Error: [^\n]+\): run `make model` with a network"
        ):
            english.fetch_model()


def test_from_the_hub_both_files_are_taken(monkeypatch, tmp_path):
    module, asked = type(sys)("huggingface_hub"), []
    module.hf_hub_download = lambda repository, name: asked.append((repository, name)) or str(tmp_path / name)
    monkeypatch.setattr(english, "find_model", lambda: None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    assert english.fetch_model() == tmp_path
    assert asked == [(english.HUB, "model.safetensors"), (english.HUB, "tokenizer.json")]
    monkeypatch.setattr(english, "find_model", lambda: tmp_path / "here")
    assert english.fetch_model() == tmp_path / "here" and len(asked) == 2
