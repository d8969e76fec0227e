"""The language model of lessons 09 and 10.  Where its weights are not there, its parts alone."""

import hashlib
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel

from mha import smollm

FOLDER = smollm.find_model()
needs_model = pytest.mark.skipif(FOLDER is None, reason="the language model is not here: `make smollm` fetches it")


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
    model, tokenizer = loaded
    _is_that_of_transformers(model, tokenizer("Maya fed her cat, twice, in 2026; her cat was hungry.")[0])


def _is_that_of_transformers(model, ids):
    """The same logits and weights, at once and with a cache, for the sizes that `smollm` has now."""
    transformers = pytest.importorskip("transformers")
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
    with torch.no_grad():
        found = theirs.eval()(ids, output_attentions=True)
    logits, maps = model(ids)
    torch.testing.assert_close(logits, found.logits, atol=1e-3, rtol=0)
    for ours, other in zip(maps, found.attentions, strict=True):
        torch.testing.assert_close(ours, other, atol=1e-4, rtol=0)
    kept = model.empty_cache()
    steps = [model(part, cache=kept)[0] for part in ids.split([5, 3, *[1] * (ids.size(1) - 8)], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), logits, atol=1e-3, rtol=0)
    assert [{name: table.shape for name, table in layer.items()} for layer in kept] == smollm.LAYERS * [
        dict.fromkeys("kv", (1, smollm.KV_HEADS, ids.size(1), smollm.WIDTH // smollm.HEADS))
    ]
    fused, none = model(ids, need_weights=False)
    torch.testing.assert_close(fused, logits, atol=1e-3, rtol=0)
    assert none == [None] * smollm.LAYERS


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


# The same code on a file of random numbers, whose "gguf" package is made here, too.

SIZES = {"LAYERS": 2, "HEADS": 6, "KV_HEADS": 2, "WIDTH": 48, "INNER": 40, "BASE": 100.0}
SPECIAL, MERGES = "<|im_start|>", ["c a", "ca t", "Ġ cat", "1 2", "Ġ Ġ"]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder with a small model's file, and the file's tensors."""
    pieces = [SPECIAL, *sorted(ByteLevel.alphabet()), *(pair.replace(" ", "") for pair in MERGES)]
    for name, size in {**SIZES, "VOCABULARY": len(pieces)}.items():
        monkeypatch.setattr(smollm, name, size)
    narrow, wide, inner = 48 * 2 // 6, 48, 40
    shapes = {"token_embd": (len(pieces), wide), "output_norm": (wide,)}
    for n in range(2):
        parts = {
            "attn_q": (wide, wide),
            "attn_k": (narrow, wide),
            "attn_v": (narrow, wide),
            "attn_output": (wide, wide),
        }
        parts |= {"ffn_gate": (inner, wide), "ffn_up": (inner, wide), "ffn_down": (wide, inner)}
        parts |= {"attn_norm": (wide,), "ffn_norm": (wide,)}
        shapes |= {f"blk.{n}.{name}": shape for name, shape in parts.items()}
    torch.manual_seed(0)
    tensors = {name: 0.3 * torch.randn(shape) for name, shape in shapes.items()}
    tensors["token_embd"] *= 0.02  # so short that the norm's small constant counts
    kinds = [3, *(6 if piece == "c" else 1 for piece in pieces[1:])]  # 3 is special, 1 a piece and 6 a byte
    fields = {"tokens": pieces, "merges": MERGES, "token_type": kinds}

    class GGUFReader:
        """Numbers are stored fourfold, as "type" 4 says."""

        def __init__(self, path):
            assert path == tmp_path / smollm.FILE
            self.tensors = [
                SimpleNamespace(name=f"{name}.weight", data=4 * table.numpy(), tensor_type=4)
                for name, table in tensors.items()
            ]
            self.fields = {
                f"tokenizer.ggml.{name}": SimpleNamespace(contents=lambda of=of: of) for name, of in fields.items()
            }

    gguf = ModuleType("gguf")
    gguf.GGUFReader, gguf.dequantize = GGUFReader, lambda data, kind: data / kind
    monkeypatch.setitem(sys.modules, "gguf", gguf)
    (tmp_path / smollm.FILE).write_bytes(b"made up")
    monkeypatch.setattr(smollm, "SHA256", hashlib.sha256(b"made up").hexdigest())
    return tmp_path, tensors


def test_a_small_model_is_that_of_transformers(small):
    folder, tensors = small
    model, _ = smollm.load(folder)
    assert not model.training and not any(weight.requires_grad for weight in model.parameters())
    _is_that_of_transformers(model, torch.randint(smollm.VOCABULARY, (1, 12)))
    assert torch.equal(model.embedding.weight, tensors["token_embd"])
    assert torch.equal(model.norm.weight, tensors["output_norm"])
    x = tensors["token_embd"]
    torch.testing.assert_close(
        model.norm(x), x / (x.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * model.norm.weight
    )
    for n, layer in enumerate(model.layers):
        q, k, v = layer.attention.qkv.weight.split([48, 16, 16])
        found = {"attn_q": q, "attn_k": k, "attn_v": v, "attn_output": layer.attention.proj.weight}
        found |= {"ffn_gate": layer.gate.weight, "ffn_up": layer.up.weight, "ffn_down": layer.down.weight}
        found |= {"attn_norm": layer.norm1.weight, "ffn_norm": layer.norm2.weight}
        assert all(torch.equal(weight, tensors[f"blk.{n}.{name}"]) for name, weight in found.items())


def test_a_learners_attention_takes_the_weights_too(small):
    class Learners(smollm.GroupedQueryAttention):
        pass

    folder, _ = small
    model, _ = smollm.load(folder, lambda: Learners(48, 6, 2, rotary_base=100.0))
    assert all(type(layer.attention) is Learners for layer in model.layers)
    ids = torch.arange(9)[None]
    torch.testing.assert_close(model(ids)[0], smollm.load(folder)[0](ids)[0])
    with pytest.raises(ValueError, match="shorter"):
        model(ids, cache=model.empty_cache()[:-1])


def test_a_small_vocabulary_cuts_and_joins(small):
    _, tokenizer = smollm.load(small[0])
    text = f"cat cat,  1212 é{SPECIAL}\ncat"
    ids, pieces = tokenizer(text)
    assert ids.shape == (1, len(pieces)) and tokenizer.decode(ids[0]) == tokenizer.decode(ids[0].tolist()) == text
    assert pieces[:8] == ["cat", " cat", ",", "  ", *"1212"] and pieces[-3:] == [SPECIAL, "\n", "cat"]
    assert ids[0, -3] == 0


@pytest.mark.parametrize(("size", "hint"), [(97_999_999, "it is half a download"), (98_000_000, "it is another model")])
def test_a_file_of_this_size_is_called(small, monkeypatch, size, hint):
    folder, _ = small
    with open(folder / smollm.FILE, "wb") as file:
        file.truncate(size)
    monkeypatch.setattr(smollm.Path, "read_bytes", lambda _: b"another")
    wrong, wanted = hashlib.sha256(b"another").hexdigest()[:12], smollm.SHA256[:12]
    with pytest.raises(ValueError, match=f"has the checksum {wrong}…, wanted {wanted}…: {hint}"):
        smollm.load(folder)


def test_the_file_is_looked_for_in_order(tmp_path, monkeypatch):
    installed, gguf = tmp_path / "installed" / "some_package", tmp_path / "installed" / "gguf"
    local, named = tmp_path / "data" / "smollm2" / "model", tmp_path / "named"
    for folder in (installed, gguf, local, named):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('this package must not be run')")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.setattr(smollm, "data_path", lambda name: tmp_path / "data" / name)
    monkeypatch.setattr(smollm, "PYPI", "no_such_package")
    monkeypatch.delenv("MHA_SMOLLM", raising=False)
    (installed / smollm.FILE).touch()
    assert smollm.find_model() is None
    monkeypatch.setattr(smollm, "PYPI", "some_package")
    assert smollm.find_model() == installed and "some_package" not in sys.modules
    (local / smollm.FILE).touch()
    assert smollm.find_model() == local
    monkeypatch.setenv("MHA_SMOLLM", str(named))
    assert smollm.find_model() == local
    (named / smollm.FILE).touch()
    assert smollm.find_model() == named
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else find(name))
    assert smollm.find_model() is None  # nothing reads such a file
