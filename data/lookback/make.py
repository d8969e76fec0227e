"""Makes results.csv beside it, `make checkpoints`: accuracy on lookback by heads, steps and seed.  Ten minutes."""

import csv
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from mha.tasks import lookback  # noqa: E402
from mha.training import Training  # noqa: E402


def result(setting):
    steps, num_heads, seed = setting
    torch.manual_seed(seed)
    model = lookback.Lookback(num_heads)
    options = lookback.SETTINGS | {"steps": steps, "every": steps}
    Training(model, lookback.loss, lambda step: lookback.batch(10**6 * seed + step), **options).run()
    right = lookback.accuracy(model, lookback.batch(10**9, 1000))
    print(setting, right, flush=True)
    return {"steps": steps, "heads": num_heads, "seed": seed, "right": f"{right:.4f}"}


if __name__ == "__main__":
    settings = itertools.product((6000, 600), (32, 16, 8, 4, 2, 1), range(5))
    with ProcessPoolExecutor(2) as pool:
        rows = sorted(pool.map(result, settings), key=lambda row: (row["steps"], row["heads"], row["seed"]))
    with open(HERE / "results.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
