"""Makes what lies beside it, `make checkpoints`: accuracy on lookback by setting and seed, and one model to look into.

Twenty minutes of training on two cores.  Each result is written as it comes: stopped and started again, it goes on
with what is missing.  Delete results.csv to train all of it anew.  `python -m data.lookback.make 1` trains one model
at a time.
"""

import csv
import functools
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import save_file

from mha.tasks import lookback
from mha.training import Training

HERE = Path(__file__).resolve().parent

COLUMNS = ("K", "asking", "steps", "heads", "seed")
SETTINGS = [
    *product([4], ["every"], [6000, 600], [32, 16, 8, 4, 2, 1], range(5)),
    *product([2], ["every"], [600], [2, 1], range(10)),
    *product([2], ["every"], [6000], [1], range(10)),
    *product([4], ["last"], [600, 6000], [1], range(10)),
    *product([4], ["every"], [25000], [1], range(10)),
]
KEPT = (2, "every", 6000, 1, 7)  # the model that the lesson looks into: one of three at 1.0000


def result(setting):
    """Train one model; the share right on 1,000 texts that no training used."""
    K, asking, steps, num_heads, seed = setting
    torch.manual_seed(seed)
    model = lookback.Lookback(num_heads, K=K)
    loss = functools.partial(lookback.loss, only_last=asking == "last")
    options = lookback.SETTINGS | {"steps": steps, "every": steps}
    Training(model, loss, lambda step: lookback.batch(10**6 * seed + step), **options).run()
    right = lookback.accuracy(model, lookback.batch(10**9, 1000), only_last=asking == "last")
    if setting == KEPT:
        save_file({name: weight.half() for name, weight in model.state_dict().items()}, HERE / "one_head.safetensors")
    return setting, f"{right:.4f}"


def stored():
    """What results.csv holds already: {setting: right}."""
    if not (HERE / "results.csv").exists():
        return {}
    with open(HERE / "results.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {tuple(row[c] if c == "asking" else int(row[c]) for c in COLUMNS): row["right"] for row in rows}


def store(found):
    with open(HERE / "results.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, "right"])
        writer.writerows([*setting, right] for setting, right in sorted(found.items()))


if __name__ == "__main__":
    found = stored()
    if not (HERE / "one_head.safetensors").exists():
        found.pop(KEPT, None)
    with ProcessPoolExecutor(int(sys.argv[1]) if len(sys.argv) > 1 else 2) as pool:
        for done in as_completed(pool.submit(result, setting) for setting in SETTINGS if setting not in found):
            setting, right = done.result()
            print(setting, right, flush=True)
            found[setting] = right
            store(found)
