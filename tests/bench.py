"""`make bench`: the ratios that the design asks for, each raced in one run.  Medians; machines are noisy."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from mha import english, heads, pruning, sweep
from mha.attention import MultiHeadAttention, causal_mask
from mha.runtime import device, race, seed
from mha.tasks import dates
from mha.torch_bridge import to_torch, to_torch_mask
from mha.training import Training
from mha.transformer import Embedding

SIZES = [(8, 16, 64, 4), (8, 64, 128, 8), (4, 128, 512, 8), (1, 512, 512, 8)]  # (B, T, d, h)


class ByHand(nn.Module):
    """Linear, the fused kernel, Linear: the least that a layer without weights must do."""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.proj = h, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, mask):
        B, T, d = x.shape
        q, k, v = (part.view(B, T, self.h, d // self.h).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(heads.transpose(1, 2).reshape(B, T, d))


def contestants(B, T, d, h, masked, train):
    """What runs against what: {name: function}, forward alone or with the backward pass."""
    chosen = device()
    ours = MultiHeadAttention(d, h).to(chosen)
    theirs = to_torch(ours)
    by_hand = ByHand(d, h).to(chosen)
    x = torch.randn(B, T, d, device=chosen, requires_grad=train)
    mask = causal_mask(T, device=chosen) if masked else None
    blocked = to_torch_mask(mask) if masked else None
    roads = {
        "ours": lambda: ours(x, mask)[0],
        "nn": lambda: theirs(x, x, x, attn_mask=blocked, average_attn_weights=False)[0],
        "ours fused": lambda: ours(x, mask, need_weights=False)[0],
        "by hand": lambda: by_hand(x, mask),
    }
    return {name: (lambda road=road: road().sum().backward()) if train else road for name, road in roads.items()}


class TorchTransformer(nn.Module):
    """The dates model with torch.nn.Transformer inside: same sizes, same parameters, same call."""

    def __init__(self, d=64, h=4):
        super().__init__()
        self.source = Embedding(len(dates.SOURCE) + 1, d, dates.LONGEST)
        self.target = Embedding(len(dates.TARGET) + 1, d, dates.LONGEST)
        self.core = nn.Transformer(d, h, 1, 1, 4 * d, dropout=0, batch_first=True, norm_first=True)
        self.read_out = nn.Linear(d, len(dates.TARGET) + 1)

    def forward(self, source, target, need_weights=False):
        blocked, future = source == 0, ~causal_mask(target.size(1), device=target.device)
        memory = self.core.encoder(self.source(source), src_key_padding_mask=blocked)
        options = {"tgt_mask": future, "tgt_is_causal": True, "memory_key_padding_mask": blocked}
        return self.read_out(self.core.decoder(self.target(target), memory, **options)), None


@torch.no_grad()
def teacher_forced(model, examples):
    """The share of dates whose ten symbols are all right, each given the true ones before it."""
    source = dates.encode([text for text, _ in examples]).to(device())
    target = dates.encode_dates([iso for _, iso in examples]).to(device())
    return (
        (model(source, dates.inputs(target), need_weights=False)[0].argmax(dim=-1) == target)
        .all(dim=1)
        .float()
        .mean()
        .item()
    )


def bench_training():
    """Steps per second in turns, then each alone until 99.5 % of validation dates are right."""
    validation = dates.pairs(1000, dates.all_dates("validation"), seed=1)
    trainings = {}
    for name, make in {"ours": dates.model, "nn.Transformer": TorchTransformer}.items():
        seed(0)
        measured = {"measure": lambda model: teacher_forced(model, validation), "every": 50, "name": name}
        batches = dates.learning_batches(0, device())
        trainings[name] = lambda make=make, batches=batches, measured=measured: Training(
            make().to(device()), dates.loss, batches, **dates.SETTINGS, **measured
        )
    racers = {name: make() for name, make in trainings.items()}
    sizes = {name: sum(w.numel() for w in training.model.parameters()) for name, training in racers.items()}
    ms = race({name: training.one_step for name, training in racers.items()}, repeats=200)
    for name in racers:
        print(f"{name:15} {sizes[name]:,} parameters, {1000 / ms[name]:.0f} steps/s")
    print(f"a step of ours / of nn.Transformer: {ms['ours'] / ms['nn.Transformer']:.2f}")
    for name, make in trainings.items():
        seed(0)
        training = make()
        while training.step < training.steps and max(training.measured.values(), default=0) < 0.995:
            training.run(50)
        print(f"{name:15} 99.5 % after {training.step} steps and {training.seconds:.1f} s")


def bench_english():
    """Loading the English model, reading with it, and scoring all its heads."""
    folder = english.find_model()
    if folder is None:
        print("NOT MEASURED: the English model is not here, run `make model`")
        return
    encoder, tokenizer = english.load(folder), english.Tokenizer(folder)
    sentences = [" ".join(tokens[1:-1]) for tokens, _ in english.stored_maps()] * 3
    ids, lengths, _ = tokenizer(sentences)
    tokens, maps = english.read(encoder, tokenizer, sentences[0])

    with torch.no_grad():
        ms = race(
            {
                "load": lambda: english.load(folder),
                "one sentence": lambda: english.read(encoder, tokenizer, sentences[0]),
                "thirty sentences": lambda: encoder(ids, lengths),
                "scoring 72 heads on a sentence": lambda: heads.strengths(maps, tokens),
                "scoring all, ten sentences": lambda: heads.verdicts(heads.over_sentences(english.stored_maps())),
            },
            repeats=5,
        )
    print("\n".join(f"{name:32} {milliseconds:8.1f} ms" for name, milliseconds in ms.items()))


def bench_pruning():
    """A layer whole, with half of its heads at zero, and with half of them removed; and ranking a translator's."""
    whole = MultiHeadAttention(512, 8, bias=True).to(device())
    gated, small = copy.deepcopy(whole), pruning.remove_heads(copy.deepcopy(whole), range(4))
    pruning.switch_off(gated, range(4))
    x = torch.randn(4, 128, 512, device=device())
    with torch.no_grad():
        layers = {"whole": whole, "half at zero": gated, "half removed": small}
        ms = race({name: lambda layer=layer: layer(x) for name, layer in layers.items()}, repeats=31)
    for name in ("half at zero", "half removed"):
        print(f"{name} / whole, (4, 128, 512, 8): {ms[name] / ms['whole']:.2f}")
    model = dates.model().to(device()).eval()
    probe = sweep.DateProbe(model, dates.pairs(100, dates.all_dates("validation"), seed=4))
    layers = sweep.attentions(model)
    rankings = {
        "one run": probe.loss,
        "12 heads by gradient": lambda: pruning.gradient_importance(layers, probe.losses),
        "12 heads by ablation": lambda: pruning.ablation_importance(layers, probe.loss),
        "12 heads, greedy": lambda: pruning.greedy_order(layers, probe.loss),
    }
    ms = race(rankings, repeats=5)
    print("\n".join(f"{name:22} {ms[name] / ms['one run']:6.1f} runs" for name in rankings))


def main():
    bench_training()
    bench_english()
    bench_pruning()
    print(f"{device().type}, {torch.get_num_threads()} threads; ratios of medians, below 1 = ours is quicker")
    print(f"{'(B, T, d, h)':22}{'mask':8}{'pass':18}{'ours / nn.MultiheadAttention':30}ours fused / by hand")
    for B, T, d, h in SIZES:
        for masked in (False, True):
            for train in (False, True):
                with torch.set_grad_enabled(train):
                    roads = contestants(B, T, d, h, masked, train)
                    ms = {}
                    for pair in (("ours", "nn"), ("ours fused", "by hand")):
                        ms |= race({name: roads[name] for name in pair}, repeats=61)
                words = ("causal" if masked else "none", "forward+backward" if train else "forward")
                print(f"{(B, T, d, h)!s:22}{words[0]:8}{words[1]:18}", end="")
                print(f"{ms['ours'] / ms['nn']:<30.2f}{ms['ours fused'] / ms['by hand']:.2f}")


if __name__ == "__main__":
    main()
