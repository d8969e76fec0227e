"""The language model of lessons 09 and 10.  Where its weights are not there, its parts alone."""

import hashlib

import pytest
import torch

from mha import smollm

FOLDER = smollm.find_model()
needs_model = pytest.mark.skipif(FOLDER is None, reason="the language model is not here: `make smollm` fetches it")


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
    logits, maps = model(ids)
    torch.testing.assert_close(logits, found.logits, atol=1e-3, rtol=0)
    for ours, other in zip(maps, found.attentions, strict=True):
        torch.testing.assert_close(ours, other, atol=1e-4, rtol=0)
    kept = model.empty_cache()
    steps = [model(part, cache=kept)[0] for part in ids.split([5, *[1] * (ids.size(1) - 5)], dim=1)]
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
