"""Exercise 10.1: shared keys or values, one copy for each query head."""

import torch

from mha.exercises.exercise import Exercise, Mistake, random_tensor


def expand_kv_heads(kv, num_heads):
    shared_by = num_heads // kv.size(1)  # query heads for each key and value head
    return kv.repeat_interleave(shared_by, dim=1)


def numbered(B, kv_heads, S, d_k):
    """Numbers that say where they are from: text, key head, token, feature."""
    axes = torch.meshgrid(*(torch.arange(float(size)) for size in (B, kv_heads, S, d_k)), indexing="ij")
    return sum(1000 / 10**place * axis for place, axis in enumerate(axes))


# fmt: off
EXERCISE = Exercise(
    "10.1", expand_kv_heads, difficulty=1, minutes=4,
    cell="{:.0f}".format, legend=" (text, key head, token, feature: one digit each)",
    inputs=lambda: {
        f"kv ({B}, {kv_heads}, {S}, {d_k}) and {h} query heads": (numbered(B, kv_heads, S, d_k), h)
        for B, kv_heads, S, d_k, h in (
            (2, 2, 3, 4, 6), (2, 3, 4, 2, 6), (3, 1, 2, 2, 4), (2, 4, 3, 2, 4), (1, 2, 1, 3, 8),
        )
    },
    hints=(
        "How many query heads share one key head? num_heads, divided by what kv has on its head axis.",
        "With 6 query heads on 2 key heads, the order wanted is 0 0 0 1 1 1: each key head so many times in a row.",
        "torch.repeat_interleave repeats each in place, Tensor.repeat the whole row: 0 1 0 1 0 1.",
    ),
    mistakes=(
        Mistake("whole-row-repeated", "The key heads come as 0 1 0 1 …; wanted 0 0 … 1 1 …: query heads that share a "
            "key head are neighbours. Shapes are the same; Tensor.repeat copies the whole row, repeat_interleave each "
            "head in its place.", (".repeat_interleave(shared_by, dim=1)", ".repeat(1, shared_by, 1, 1)")),
        Mistake("tokens-repeated", "The tokens were repeated; the heads are axis 1.", ("dim=1", "dim=2")),
        Mistake("features-repeated", "The features were repeated; the heads are axis 1.", ("dim=1", "dim=3")),
        Mistake("texts-repeated", "The texts were repeated; the heads are axis 1.", ("dim=1", "dim=0")),
        Mistake("h-copies-of-each", "Each key head is there num_heads times; wanted num_heads in all, so each "
            "num_heads / h_kv times.", ("num_heads // kv.size(1)", "num_heads")),
        Mistake("as-many-as-key-heads", "Each key head is there h_kv times: that is how many there are, not how many "
            "query heads share one. Both are called “groups” somewhere.", ("num_heads // kv.size(1)", "kv.size(1)")),
        Mistake("counted-by-features", "You divided by another axis than the heads': kv is (B, h_kv, S, d_k), so its "
            "key heads are kv.size(1).", ("kv.size(1)", "kv.size(-1)")),
        Mistake("one-head-for-all", "All query heads got key head 0. That is multi-query attention, right where "
            "h_kv = 1; else each group of neighbours has its own.",
            ("kv.repeat_interleave(shared_by, dim=1)", "kv[:, :1].expand(-1, num_heads, -1, -1)")),
        Mistake("mean-for-all", "All query heads got the mean of the key heads; each has its own group's.",
            ("kv.repeat_interleave(shared_by, dim=1)", "kv.mean(dim=1, keepdim=True).expand(-1, num_heads, -1, -1)")),
        Mistake("not-merged", "The copies are on an axis of their own, (B, h_kv, n, S, d_k): join it with the head "
            "axis, flatten(1, 2).", (".repeat_interleave(shared_by, dim=1)",
            "[:, :, None].expand(-1, -1, shared_by, -1, -1)")),
        Mistake("nothing-repeated", "The keys came back as they were; wanted one for each query head.",
            (".repeat_interleave(shared_by, dim=1)", "")),
    ),
    right=(
        lambda kv, h: kv[:, [i * kv.size(1) // h for i in range(h)]],
        lambda kv, h: kv.unsqueeze(2).expand(-1, -1, h // kv.size(1), -1, -1).flatten(1, 2),
        lambda kv, h: torch.cat([kv[:, i : i + 1] for i in range(kv.size(1)) for _ in range(h // kv.size(1))], dim=1),
    ),
    fresh=lambda: [
        (random_tensor(1, *shape), h) for *shape, h in ((1, 2, 5, 3, 8), (2, 3, 1, 2, 6), (1, 1, 2, 1, 1))
    ],
)
