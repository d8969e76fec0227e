"""Makes what lies beside it: `make sweep`.  About forty minutes of one core, shared among all that there are.

models.csv           one row for each trained model: two tasks, h = 1 … 32 at the same size, five seeds
curves.csv           what is right as heads are switched off one after the other, in four orders
subsets.safetensors  the model of lesson 07 with each of the 4,096 sets of its twelve heads off: how many are right
senses.csv           English sentences with a word of two senses, and which sense it has
english.csv          the share of triplets that the English model gets right as heads are switched off

Each result is written as it comes: stopped and started again, it goes on with what is missing.  Delete a file to
make it anew.  Ranking uses other texts than reporting: validation dates and test dates, say.  `make.py 1` trains one
model at a time.
"""

import csv
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from mha import english, heads, pruning, sweep
from mha.tasks import date_heads, dates, lookback
from mha.training import Training

HERE = Path(__file__).resolve().parent

SEEDS, DRAWS = range(5), range(5)
CURVES = {("lookback", 8), ("lookback", 16), ("dates", 4), ("dates", 8)}  # of these in all four orders
SETTINGS = [(task, h, seed) for seed in SEEDS for task in ("lookback", "dates") for h in sweep.HEADS]


def trained(task, num_heads, seed):
    """The training of lessons 02 and 07: the model as it began, as it ended, and what was right on the way."""
    torch.manual_seed(seed)
    if task == "lookback":
        model = lookback.Lookback(num_heads, K=4)
        loss, batches, options = lookback.loss, lambda step: lookback.batch(10**6 * seed + step), lookback.SETTINGS
    else:
        model = dates.model(num_heads)
        loss, batches, options = dates.loss, dates.learning_batches(seed), dates.SETTINGS
    untrained = {name: weight.clone() for name, weight in model.state_dict().items()}
    validation = probe(task, model, "validation")
    every = options["steps"] // 4
    training = Training(model, loss, batches, **options, every=every, measure=lambda _: validation.right()).run()
    return model, untrained, training.measured


def probe(task, model, part):
    """A model with texts that no training used: 1,000 to choose by (validation), 100 to rank heads, 500 to report."""
    if task == "lookback":
        seed, size = {"validation": (10**9, 1000), "rank": (2 * 10**9, 100), "test": (3 * 10**9, 500)}[part]
        return sweep.LookbackProbe(model, lookback.batch(seed, size))
    days, count, seed = {"validation": (part, 1000, 2), "rank": ("validation", 100, 4), "test": (part, 500, 4)}[part]
    return sweep.DateProbe(model, [(dates.write(*pair), pair[0].isoformat()) for pair in written(days, count, seed)])


def written(days, count, seed):
    return dates.draw(count, dates.all_dates(days), seed)


def likeness(task, model):
    """What each head has in common with the head most like it, mean over heads: by map, by what it adds."""
    texts, layers = probe(task, model, "rank"), sweep.attentions(model)
    _, maps = texts.run(need_weights=True)
    maps = [maps] if task == "lookback" else [layer for kind in ("encoder", "decoder", "cross") for layer in maps[kind]]
    by_map, by_output = [], []
    for layer, weights in zip(layers, maps, strict=True):
        asked = torch.ones(weights.size(0), weights.size(2), dtype=torch.bool)
        if task == "lookback":
            asked[:, : model.K] = False
        elif weights.size(2) == texts.source.size(1):
            asked = texts.source != 0
        by_map.append(pruning.nearest(pruning.maps_in_common(weights, asked)))
        added = pruning.outputs_by_head(layer, texts.run)
        by_output.append(pruning.nearest(pruning.outputs_in_common(added, asked)))
    return [torch.cat(found).mean().item() for found in (by_map, by_output)], maps


def strength(weights, visible, pattern):
    """Of every head, over all queries that have a key of the pattern: weights (B, h, T, S), bool (B, T, S) twice."""
    pattern = pattern & visible
    asked = pattern.any(dim=-1)
    score = (weights * pattern[:, None]).sum(dim=-1).transpose(1, 2)[asked].mean(dim=0)
    null = (pattern.sum(dim=-1) / visible.sum(dim=-1).clamp(min=1))[asked].mean()
    return (score - null) / (1 - null)


def census(task, model, maps):
    """How many heads look at one distance, at how many distances, and how many follow the field that is written."""
    texts = probe(task, model, "rank")
    T = lookback.LENGTH if task == "lookback" else texts.source.size(1)
    source = torch.ones(100, T, dtype=torch.bool) if task == "lookback" else texts.source != 0
    both = source[:, :, None] & source[:, None, :]
    sight = [both.tril()] if task == "lookback" else [both, torch.ones(100, 10, 10, dtype=torch.bool).tril()]
    at_distance, distances = 0, set()
    for number, (weights, visible) in enumerate(zip(maps, sight, strict=False)):  # of the layers of self-attention
        reach = range(-4, 5)
        shift = [torch.eye(weights.size(2), dtype=torch.bool).roll(k, 1) for k in reach]
        tables = [eye.triu(max(k, 0)) if k > 0 else eye.tril(min(k, 0)) for eye, k in zip(shift, reach, strict=True)]
        found = [strength(weights, visible, table) for table in tables if (table & visible).any()]
        best, which = torch.stack(found).max(dim=0)
        at_distance += int((best > heads.THRESHOLD).sum())
        distances |= {(number, int(k)) for k in which[best > heads.THRESHOLD]}
    if task == "lookback":
        return at_distance, len(distances), 0
    places = date_heads.kinds(written("validation", 100, 4))
    own, even = (
        date_heads.reading(weights, places).diagonal(dim1=1, dim2=2) for weights in (maps[2], date_heads.even(places))
    )
    follows = ((own - even) / (1 - even)).amin(dim=1) > heads.THRESHOLD
    return at_distance, len(distances), int(follows.sum())


def result(setting):
    """Train one model and measure it: its row of models.csv and its rows of curves.csv."""
    task, num_heads, seed = setting
    model, untrained, measured = trained(*setting)
    layers = sweep.attentions(model)
    with torch.no_grad():
        (by_map, by_output), maps = likeness(task, model)
        at_distance, distances, follow = census(task, model, maps)
        learned = {name: weight.clone() for name, weight in model.state_dict().items()}
        model.load_state_dict(untrained)
        null_map, null_output = likeness(task, model)[0]
        model.load_state_dict(learned)
    test, rank = probe(task, model, "test"), probe(task, model, "rank")
    whole, in_all = test.right(), len(layers) * num_heads
    rises = pruning.ablation_importance(layers, lambda: -test.right())
    at_once = 1 if in_all <= 24 else in_all // 8  # of many heads, several go before the rest is ranked again
    orders = {("greedy", 0): pruning.greedy_order(layers, rank.loss, at_once)}
    if (task, num_heads) in CURVES:
        orders["gradient", 0] = pruning.order_by(layers, pruning.gradient_importance(layers, rank.losses))
        orders["ablation", 0] = pruning.order_by(layers, pruning.ablation_importance(layers, rank.loss))
        orders |= {("random", draw): pruning.random_order(layers, 100 * seed + draw) for draw in DRAWS}
    counts = range(0, in_all + 1, at_once)
    curves = {name: pruning.curve(layers, order, test.right, counts) for name, order in orders.items()}
    kept = [in_all - off for off, right in zip(counts, curves["greedy", 0], strict=True) if right >= whole - 0.01]
    quarter, half, *_, last = [measured[step] for step in sorted(measured)[1:]]
    row = {
        "task": task, "heads": num_heads, "seed": seed, "quarter": quarter, "half": half, "validation": last,
        "test": whole, "spare": int((torch.cat(rises) <= 0.005).sum()), "needed": min(kept), "in_all": in_all,
        "maps": by_map, "outputs": by_output, "maps_null": null_map, "outputs_null": null_output,
        "at_distance": at_distance, "distances": distances, "follow": follow,
    }  # fmt: skip
    return row, [(task, num_heads, seed, *name, " ".join(f"{r:.3f}" for r in curves[name])) for name in curves]


def stored(name):
    """The rows of a file that is there, as text, without its header."""
    if not (HERE / name).exists():
        return []
    with open(HERE / name, encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def store(name, header, rows):
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


MODELS = (
    "task heads seed quarter half validation test spare needed in_all maps outputs maps_null outputs_null at_distance "
    "distances follow"
).split()


def add(row, curves):
    """Put one model's results into both files, in the order of the settings."""
    place = {setting: number for number, setting in enumerate(sorted(SETTINGS))}
    told = [f"{row[name]:.4f}" if isinstance(row[name], float) else str(row[name]) for name in MODELS]

    def key(line):
        return place[line[0], int(line[1]), int(line[2])], line[3:5] if len(line) == 6 else []

    store("curves.csv", "task heads seed order draw right".split(), sorted([*stored("curves.csv"), *curves], key=key))
    store("models.csv", MODELS, sorted([*stored("models.csv"), told], key=key))  # last: what is here, is complete


def train_models(workers):
    done = {(task, int(h), int(seed)) for task, h, seed, *_ in stored("models.csv")}
    left = [setting for setting in SETTINGS if setting not in done]
    store("curves.csv", "task heads seed order draw right".split(), [
        line for line in stored("curves.csv") if (line[0], int(line[1]), int(line[2])) in done
    ])  # fmt: skip
    with ProcessPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running = [pool.submit(result, setting) for setting in left]
        for future in tqdm(as_completed(running), total=len(left), desc="models"):
            row, curves = future.result()
            add(row, [[*map(str, line)] for line in curves])


def count_subsets():
    """For each of the 4,096 sets of heads that may be off, how many of 300 validation dates are right: uint16.

    Set number n has head i off where bit i of n is 1: encoder 0 to 3, then decoder, then cross-attention.
    """
    model = dates.model()
    model.load_state_dict(load_file(HERE.parent / "dates" / "model.safetensors"))
    layers = sweep.attentions(model.eval())
    texts = sweep.DateProbe(model, dates.pairs(300, dates.all_dates("validation"), seed=2))
    found = torch.zeros(4096, dtype=torch.int32)
    for number in tqdm(sorted(range(4096), key=lambda n: n % 16), desc="subsets"):
        off = [divmod(head, 4) for head in range(12) if number >> head & 1]
        with torch.no_grad(), pruning.all_off(layers, off):
            if number % 16 != getattr(model, "encoded", None):
                vars(model).pop("encode", None)
                memory, model.encoded = model.encode(texts.source), number % 16
                model.encode = lambda *_, memory=memory: memory  # the same for all sets with these encoder heads
            found[number] = round(300 * texts.right())
    save_file({"right": found.to(torch.uint16)}, HERE / "subsets.safetensors")


def english_orders(layers, rank):
    """Orders of the English model's heads by these words."""
    yield "gradient", 0, pruning.order_by(layers, pruning.gradient_importance(layers, rank.losses))
    yield "ablation", 0, pruning.order_by(layers, pruning.ablation_importance(layers, rank.loss))
    yield "greedy", 0, pruning.greedy_order(layers, rank.loss, at_once=12)
    for draw in DRAWS:
        yield "random", draw, pruning.random_order(layers, draw)


def prune_english():
    """Rank on every other word, report on the rest, then the other way round: each word is reported once."""
    folder = english.find_model()
    if folder is None:
        print("english.csv stays as it is: the English model is not here, `make model` fetches it")
        return
    encoder, tokenizer = english.load(folder), english.Tokenizer(folder)
    senses, layers = sweep.rows("senses"), sweep.attentions(encoder)
    words = list(dict.fromkeys(row["word"] for row in senses))
    halves = [
        sweep.SenseProbe(encoder, tokenizer, [row for row in senses if row["word"] in words[half::2]])
        for half in (0, 1)
    ]
    found = {}
    for rank, report in (halves, halves[::-1]):
        for order, draw, heads_off in tqdm(english_orders(layers, rank), total=3 + len(DRAWS), desc="english"):
            by_word = pruning.curve(layers, heads_off, report.by_word, counts=range(0, 73, 6))
            for off, shares in zip(range(0, 73, 6), by_word, strict=True):
                found.setdefault((order, draw, off), {}).update(zip(report.words, shares.tolist(), strict=True))
    rows = [[*name, *(f"{shares[word]:.3f}" for word in words)] for name, shares in found.items()]
    store("english.csv", ["order", "draw", "off", *words], rows)


if __name__ == "__main__":
    train_models(int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count())
    for name, make in (("subsets.safetensors", count_subsets), ("english.csv", prune_english)):
        if not (HERE / name).exists():
            make()
