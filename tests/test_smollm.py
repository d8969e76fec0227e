"""The language model of lessons 09 and 10.  Where its weights are not there, its parts alone."""

import hashlib

import pytest
import torch
import torch.nn.functional as F

from mha import smollm
from mha.attention import MultiHeadAttention, causal_mask

FOLDER = smollm.find_model()
needs_model = pytest.mark.skipif(FOLDER is None, reason="the language model is not here: `make smollm` fetches it")


def test_rotation_keeps_lengths_and_knows_distances_alone():
    q, k = torch.randn(2, 16), torch.randn(2, 16)
    near = [smollm.rotate(x, torch.tensor([5.0, 9.0])) for x in (q, k)]
    far = [smollm.rotate(x, torch.tensor([1005.0, 1009.0])) for x in (q, k)]
    torch.testing.assert_close(near[0] @ near[1].T, far[0] @ far[1].T, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(near[0].norm(dim=-1), q.norm(dim=-1))
    assert not torch.allclose(near[0] @ near[1].T, q @ k.T, atol=1e-3)
    torch.testing.assert_close(smollm.rotate(q, torch.zeros(2)), q)


def test_grouped_heads_are_pytorchs():
    torch.manual_seed(0)
    attention, x = smollm.GroupedAttention(24, 6, 2), torch.randn(2, 5, 24)
    mask = causal_mask(5)
    output, weights = attention(x, mask)
    q, k, v = attention.project(x)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(output, attention.proj(theirs.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(attention(x, mask, need_weights=False)[0], output)
    assert weights.shape == (2, 6, 5, 5) and k.shape == v.shape == (2, 2, 5, 4)


def test_with_as_many_keys_and_no_rotation_it_is_the_class_of_lesson_03(monkeypatch):
    monkeypatch.setattr(smollm, "rotate", lambda x, positions: x)
    ours, plain = smollm.GroupedAttention(12, 3, 3), MultiHeadAttention(12, 3)
    plain.load_state_dict(ours.state_dict())
    x, mask = torch.randn(2, 4, 12), causal_mask(4)
    for left, right in zip(ours(x, mask), plain(x, mask), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_cache_changes_nothing(need_weights):
    attention, x, kept = smollm.GroupedAttention(24, 6, 2), torch.randn(2, 7, 24), {}
    whole, weights = attention(x, causal_mask(7))
    parts = []
    for first, last in ((0, 4), (4, 5), (5, 7)):
        mask = causal_mask(last - first, last)
        found, rows = attention(x[:, first:last], mask, need_weights=need_weights, cache=kept)
        parts.append(found)
        if need_weights:
            torch.testing.assert_close(rows, weights[:, :, first:last, :last])
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    assert kept["k"].shape == (2, 2, 7, 4)


def test_another_file_is_refused(tmp_path):
    pytest.importorskip("gguf")
    (tmp_path / smollm.FILE).write_bytes(b"half")
    with pytest.raises(ValueError, match=r"half a download.*fetch again"):
        smollm.load(tmp_path)


@pytest.fixture(scope="module")
def loaded():
    return smollm.load(FOLDER)


@needs_model
def test_the_file_is_the_one_we_know():
    assert hashlib.sha256((FOLDER / smollm.FILE).read_bytes()).hexdigest() == smollm.SHA256


@needs_model
def test_pieces_give_the_text_back(loaded):
    _, tokenizer = loaded
    for text in ("Maya fed her cat, twice, in 2026.", "Élan's 12 naïve jokes\n\n  x", "<|im_start|>user\nHi<|im_end|>"):
        ids, pieces = tokenizer(text)
        assert tokenizer.decode(ids[0]) == text and len(pieces) == ids.size(1)
    assert tokenizer("2026")[1] == list("2026") and tokenizer(" a cat")[1] == [" a", " cat"]


@needs_model
def test_logits_and_weights_are_those_of_transformers(loaded):
    transformers = pytest.importorskip("transformers")
    model, tokenizer = loaded
    sizes = {"hidden_size": smollm.WIDTH, "intermediate_size": smollm.INNER, "vocab_size": smollm.VOCABULARY}
    heads = {"num_attention_heads": smollm.HEADS, "num_key_value_heads": smollm.KV_HEADS}
    config = transformers.LlamaConfig(
        **sizes, **heads, num_hidden_layers=smollm.LAYERS, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_theta=smollm.BASE, attn_implementation="eager",
    )  # fmt: skip
    with torch.device("meta"):
        theirs = transformers.LlamaForCausalLM(config)
    theirs.load_state_dict(_their_names(model), assign=True, strict=False)
    theirs.tie_weights()
    theirs.model.rotary_emb = type(theirs.model.rotary_emb)(config)  # its numbers are no parameters
    ids, _ = tokenizer("Maya fed her cat, twice, in 2026; her cat was hungry.")
    with torch.no_grad():
        found = theirs.eval()(ids, output_attentions=True)
    logits, maps = model(ids, need_weights=True)
    torch.testing.assert_close(logits, found.logits, atol=1e-3, rtol=0)
    for ours, other in zip(maps, found.attentions, strict=True):
        torch.testing.assert_close(ours, other, atol=1e-4, rtol=0)
    kept = model.empty_cache()
    steps = [model(part, cache=kept) for part in ids.split([5, *[1] * (ids.size(1) - 5)], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), logits, atol=1e-3, rtol=0)


def _their_names(model):
    """Our weights as transformers names them; it pairs feature i with i + d_k / 2 where the file pairs neighbours."""

    def halves(weight):
        return weight.view(-1, smollm.WIDTH // smollm.HEADS // 2, 2, smollm.WIDTH).transpose(1, 2).flatten(0, 2)

    found = {"model.embed_tokens.weight": model.embedding.weight, "model.norm.weight": model.norm.weight}
    for number, layer in enumerate(model.layers):
        q, k, v = layer.attention.qkv.weight.split([smollm.WIDTH, smollm.WIDTH // 3, smollm.WIDTH // 3])
        parts = {"self_attn.q_proj": halves(q), "self_attn.k_proj": halves(k), "self_attn.v_proj": v}
        parts |= {"self_attn.o_proj": layer.attention.proj.weight, "input_layernorm": layer.norm1.weight}
        parts |= {f"mlp.{name}_proj": getattr(layer, name).weight for name in ("gate", "up", "down")}
        parts["post_attention_layernorm"] = layer.norm2.weight
        found |= {f"model.layers.{number}.{name}.weight": weight for name, weight in parts.items()}
    return found
