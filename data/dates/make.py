"""Makes what lies beside it: `make checkpoints`.  About a quarter of an hour on two cores.

model.safetensors      the Transformer of lesson 07, after 1,200 steps, seed 0
snapshots.safetensors  its weights on two test dates while it learned
test.csv               test pairs, for people to read
heads.csv              what every cross head of sixty models does: h = 2, 4, 8, with and without head dropout, ten seeds
"""

import csv
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import save_file

from mha.pruning import drop_heads, mean_of_heads, switch_off
from mha.tasks import date_heads, dates
from mha.training import Training

HERE = Path(__file__).resolve().parent

LOOKED_AT = ("3 May 1979", "Sunday, February 29, 2032")
STEPS = (0, 50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1200)


def training(seed, num_heads=4, **options):
    """The training of lesson 07, not yet run."""
    torch.manual_seed(seed)
    learner = dates.model(num_heads)
    return Training(learner, dates.loss, dates.learning_batches(seed), **dates.SETTINGS, name=str(seed), **options)


def maps(model):
    """Weights on the dates that the lesson looks at: {name: (h, T, S)}."""
    tables_of = {}
    for number, text in enumerate(LOOKED_AT):
        source = dates.encode([text])
        symbols, _ = model.greedy(source, dates.START, 10)
        _, weights = model(source, dates.inputs(symbols))
        tables_of |= {f"{name} {number}": tables[0][0].half() for name, tables in weights.items()}
    return tables_of


def main_model():
    taught = training(0, every=50, snapshot=maps).run()
    save_file(taught.model.state_dict(), HERE / "model.safetensors")
    kept = {f"{step} {name}": table for step in STEPS for name, table in taught.snapshots[step].items()}
    save_file({name: table.contiguous() for name, table in kept.items()}, HERE / "snapshots.safetensors")


def roles(setting):
    """One row for each cross head of one model."""
    num_heads, dropout, seed = setting
    taught = training(seed, num_heads)
    model, cross = taught.model, taught.model.decoder[0].cross
    handle = drop_heads(cross, dropout)
    taught.run()
    handle.remove()
    written = dates.draw(1000, dates.all_dates("validation"), seed=2)
    examples = [(dates.write(*pair), pair[0].isoformat()) for pair in written]
    source, target = dates.encode([text for text, _ in examples]), dates.encode_dates([iso for _, iso in examples])
    with torch.no_grad():
        _, weights = model(source, dates.inputs(target))
    table, fields = weights["cross"][0], date_heads.kinds(written)
    read, fixed, copied = (
        date_heads.reading(table, fields),
        date_heads.positional(table),
        date_heads.copying(table, fields),
    )
    mean = mean_of_heads(cross, lambda: model(source, dates.inputs(target), need_weights=False))
    whole = dates.right(model, examples)
    rows = []
    for head in range(num_heads):
        row = {"heads": num_heads, "dropout": dropout, "seed": seed, "right": whole[0].item(), "head": head}
        for way, instead in (("zero", None), ("mean", mean)):
            with switch_off(cross, head, instead):
                lost = (whole - dates.right(model, examples)).tolist()
            row |= {
                f"{way}_loses_{what}": share for what, share in zip(("date", "year", "month", "day"), lost, strict=True)
            }
        for i, name in enumerate(dates.FIELDS[:3]):
            row[f"{name}_while_{name}"] = read[head, i, i].item()
        rows.append(row | {"positional": fixed[head].item(), "copies_year": copied[head].item()})
    print(setting, whole.tolist(), flush=True)
    return rows


def all_roles():
    settings = [(h, dropout, seed) for h in (8, 4, 2) for dropout in (0.0, 0.25) for seed in range(10)]
    with ProcessPoolExecutor(2) as pool:
        rows = [row for rows in pool.map(roles, settings) for row in rows]
    with open(HERE / "heads.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{v:.4f}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)


def test_pairs():
    with open(HERE / "test.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["written", "iso"])
        writer.writerows(dates.pairs(300, dates.all_dates("test"), seed=7))


if __name__ == "__main__":
    test_pairs()
    main_model()
    all_roles()
