"""Makes what lies beside it, `make checkpoints`: accuracy on repeats by setting and seed, and one model to look into.

results.csv             share right by layers, heads, width, steps and the periods trained on
formation.csv           ten models of two layers while they learn: accuracy, and the strengths of the two kinds
composition.csv         the same ten models, each with one thing taken away or exchanged
model.safetensors       the first of them, which lesson 09 looks into
snapshots.safetensors   its weights on two texts while it learned, float16

Ten minutes on one core.  Rows of results.csv are written as they come: started again, it goes on with what is missing.
"""

import csv
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import save_file

from mha import heads
from mha.pruning import switch_off
from mha.tasks import repeats
from mha.training import Training

HERE = Path(__file__).resolve().parent

COLUMNS = ("layers", "heads", "width", "steps", "first", "last", "seed")
SETTINGS = [
    *product([2], [2], [32], [400], [4], [12], range(10)),
    *product([2], [1], [32], [400], [4], [12], range(5)),
    *product([1], [4], [32], [400, 1600], [4], [12], range(5)),
    *product([1], [8], [64], [1600], [4], [12], range(5)),
    *product([1], [4], [32], [400], [8], [8], range(5)),
    *product([2], [2], [32], [400], [8], [8], range(5)),
]
WATCHED = [setting for setting in SETTINGS if setting[:2] == (2, 2) and setting[4] == 4]
STEPS = (0, 40, 80, 100, 120, 140, 160, 180, 200, 240, 300, 400)  # of the snapshots
UNSEEN = repeats.batch(10**9, 1000)
SCORED = repeats.batch(2 * 10**9, 40)  # other texts, for strengths


def strengths(model):
    """{kind: (texts, layers, heads)} on the texts kept for it."""
    with torch.no_grad():
        maps = torch.stack(model(SCORED)[1], dim=1)  # (B, layers, h, T, T)
    return heads.over_sentences(zip(map(repeats.letters, SCORED), maps, strict=True), causal=True)


def look(model):
    """Accuracy, each first-layer head's strength as previous-token head, each second-layer head's as induction head."""
    found = strengths(model)
    return [
        repeats.accuracy(model, UNSEEN),
        *found["previous"].mean(axis=0)[0].tolist(),
        *found["induction"].mean(axis=0)[1].tolist(),
    ]


def snapshot(model):
    """Weights on the first two of the texts kept for strengths: (2 texts, layers, h, T, T)."""
    return torch.stack(model(SCORED[:2])[1], dim=1).half()


def trained(setting, **options):
    layers, num_heads, width, steps, first, last, seed = setting
    torch.manual_seed(seed)
    model = repeats.Repeats(layers, num_heads, width)
    batches = lambda step: repeats.batch(10**6 * seed + step, periods=(first, last))  # noqa: E731
    settings = repeats.SETTINGS | {"steps": steps, "every": 20} | options
    return Training(model, repeats.loss, batches, **settings).run()


def taken_away(model):
    """What is left, right and strength, when something is taken away: [(what, right, induction strength), …].

    The previous-token head is the first-layer head with the highest strength of that kind.
    """
    head = int(strengths(model)["previous"].mean(axis=0)[0].argmax())
    rows = [("nothing", model)]
    for way in ("zero", "another text"):
        for paths in ("q", "k", "v", "qv", "qvd"):
            rows.append((f"{paths} from {way}", repeats.Patched(model, head, paths, way)))
    found = [(name, repeats.accuracy(one, UNSEEN), _induction(one)) for name, one in rows]
    for layer, number in product(range(2), range(2)):
        name = {(0, head): "previous head", (0, 1 - head): "other head"}.get((layer, number), f"second {number}")
        with switch_off(model.layers[layer], number):
            found.append((f"without {name}", repeats.accuracy(model, UNSEEN), _induction(model)))
    for shift in (-1, 1):
        moved = repeats.Patched(model, head, "k", f"shifted {shift}")
        found.append((f"keys shifted {shift}", repeats.accuracy(moved, UNSEEN), repeats.names(moved, UNSEEN, shift)))
    return found


def _induction(model):
    return float(strengths(model)["induction"].mean(axis=0)[1].max())


def stored():
    """What results.csv holds already: {setting: [right, right on all periods]}."""
    if not (HERE / "results.csv").exists():
        return {}
    with open(HERE / "results.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {tuple(int(row[c]) for c in COLUMNS): [row["right"], row["right_all"], row["right_longer"]] for row in rows}


def write(name, header, rows):
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([header, *rows])


def main():
    found, formed, composed = stored(), [], []
    for setting in SETTINGS:
        if setting in found and setting not in WATCHED:
            continue
        watched = setting in WATCHED
        kept = {"measure": lambda model: repeats.accuracy(model, UNSEEN), "snapshot": look} if watched else {}
        taught = trained(setting, **kept)
        periods = setting[4:6]
        own = repeats.batch(10**9, 1000, periods)
        tests = own, UNSEEN, repeats.batch(10**9 + 1, 1000, (13, 16))
        found[setting] = [f"{repeats.accuracy(taught.model, texts):.4f}" for texts in tests]
        print(setting, *found[setting], flush=True)
        write("results.csv", [*COLUMNS, "right", "right_all", "right_longer"], [[*s, *v] for s, v in found.items()])
        if watched:
            seed = setting[-1]
            formed += [[seed, step, *(f"{v:.4f}" for v in values)] for step, values in taught.snapshots.items()]
            composed += [[seed, name, *(f"{v:.4f}" for v in rest)] for name, *rest in taken_away(taught.model)]
    if composed:
        write(
            "formation.csv", ["seed", "step", "right", "previous 0", "previous 1", "induction 0", "induction 1"], formed
        )
        write("composition.csv", ["seed", "what", "right", "strength"], composed)
        main_model()


def main_model():
    """The model that the lesson looks into, and its weights while it learned."""
    taught = trained(WATCHED[0], snapshot=snapshot)
    save_file(taught.model.state_dict(), HERE / "model.safetensors")
    kept = {str(step): taught.snapshots[step].contiguous() for step in STEPS}
    save_file({"texts": SCORED[:2].clone(), **kept}, HERE / "snapshots.safetensors")


if __name__ == "__main__":
    main()
