"""Makes what lies beside it, `make maps`, from random words and the weights that `make smollm` fetches.

texts.safetensors      ids of our texts, 25 random words each, twice: ten to choose heads on, ten others to test them
strengths.safetensors  strength of four kinds (`mha.heads`) for all 270 heads on both tens, float16
maps.safetensors       all 270 heads' weights on one shorter text, float16; its words are in its metadata
losses.csv             mean loss over the first and the second copy of each test text, with heads switched off
"""

import contextlib
import csv
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from mha import heads, smollm
from mha.pruning import switch_off

HERE = Path(__file__).resolve().parent

KINDS = ("previous", "same word", "sink", "induction")
TEXTS, WORDS, SHOWN, DRAWS = 10, 25, 10, 10  # texts in each ten; words, and words of the shown text; random choices


def texts(tokenizer):
    """Random words, each text twice in a row: (2, TEXTS, 2 · WORDS) ids, and one shorter text (1, 2 · SHOWN)."""
    pieces = [tokenizer.decode([number]) for number in range(smollm.VOCABULARY)]
    words = [number for number, piece in enumerate(pieces) if re.fullmatch(" [a-z]{4,}", piece)]
    draws = random.Random(0)
    blocks = torch.tensor([[draws.sample(words, WORDS) for _ in range(TEXTS)] for _ in range(2)])
    shown = torch.tensor([draws.sample(words, SHOWN)])
    return blocks.repeat(1, 1, 2), shown.repeat(1, 2)


def named(tokenizer, ids):
    return [tokenizer.decode([number]) for number in ids]


@torch.no_grad()
def losses(model, ids):
    """Mean loss of each text over the words of its first copy (the very first aside), and of its second: (B, 2)."""
    logits = model(ids, need_weights=False)[0][:, :-1]
    each = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)
    half = ids.size(1) // 2
    return torch.stack([each[:, : half - 1].mean(dim=1), each[:, half:].mean(dim=1)], dim=1)


def means(model, ids):
    """What each layer's heads say on average over these texts: a list of (d,)."""
    stack, found = contextlib.ExitStack(), {}
    with stack:
        for number, layer in enumerate(model.layers):

            def note(_, inputs, number=number):
                found[number] = inputs[0].flatten(0, 1).mean(dim=0)

            stack.enter_context(layer.attention.proj.register_forward_pre_hook(note))
        model(ids, need_weights=False)
    return [found[number] for number in range(len(model.layers))]


def off(model, chosen, mean=None):
    """A context in which the heads [(layer, head), …] are off: at zero, or at their means."""
    stack = contextlib.ExitStack()
    for layer in sorted({layer for layer, _ in chosen}):
        numbers = [head for other, head in chosen if other == layer]
        told = None if mean is None else mean[layer]
        stack.enter_context(switch_off(model.layers[layer].attention, numbers, told))
    return stack


def strongest(strength, number):
    """The heads with the highest mean strength (texts, 30, 9), best first: [(layer, head), …]."""
    order = strength.mean(axis=0).flatten().argsort()[::-1][:number]
    return [tuple(int(n) for n in np.unravel_index(place, (smollm.LAYERS, smollm.HEADS))) for place in order]


def main():
    folder = smollm.find_model()
    if folder is None:
        sys.exit("The language model is not here: run `make smollm` first.")
    model, tokenizer = smollm.load(folder)
    both, shown = texts(tokenizer)
    save_file({"choose": both[0], "test": both[1]}, HERE / "texts.safetensors")
    _, maps = model(shown)
    words = json.dumps(named(tokenizer, shown[0]))
    save_file({"weights": torch.cat(maps).half()}, HERE / "maps.safetensors", metadata={"words": words})
    found = {}
    for group, ids in zip(("choose", "test"), both, strict=True):
        rows = [(named(tokenizer, text), torch.cat(model(text[None])[1])) for text in ids]
        found[group] = heads.over_sentences(rows, causal=True)
    kept = {f"{group} {kind}": torch.tensor(found[group][kind]).half() for group in found for kind in KINDS}
    save_file(kept, HERE / "strengths.safetensors")
    print("strengths stored", flush=True)

    induction, previous = (found["choose"][kind] for kind in ("induction", "previous"))
    best, before = strongest(induction, 8), strongest(previous, 3)
    draws = random.Random(1)
    others = [(layer, head) for layer in range(smollm.LAYERS) for head in range(smollm.HEADS)]
    others = [head for head in others if head not in best + before]
    plain = {f"8 random heads, {n}": draws.sample(others, 8) for n in range(DRAWS)}
    late = [head for head in others if head[0] in {layer for layer, _ in best}]  # of the same layers
    plain |= {f"8 of the same layers, {n}": draws.sample(late, 8) for n in range(DRAWS)}
    plain |= {f"3 random heads, {n}": draws.sample(others, 3) for n in range(DRAWS)}
    settings = (
        {"nothing": []} | {f"{n} best induction": best[:n] for n in (1, 4, 8)} | {"3 best previous": before} | plain
    )
    mean, rows = means(model, both[0]), []
    for name, chosen in settings.items():
        for way, told in (("zero", None), ("mean", mean)):
            if way == "mean" and name[0] in "3n":
                continue
            with off(model, chosen, told):
                values = losses(model, both[1])
            print(name, way, values.mean(dim=0).tolist(), flush=True)
            which = " ".join(f"{layer}.{head}" for layer, head in chosen)
            rows += [[name, way, which, n, *(f"{v:.4f}" for v in pair)] for n, pair in enumerate(values.tolist())]
    with open(HERE / "losses.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([["off", "way", "heads", "text", "first", "second"], *rows])


if __name__ == "__main__":
    main()
