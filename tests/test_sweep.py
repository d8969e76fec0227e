"""Lesson 08's data: measured as it says, equal to what other lessons have of the same models, and read rightly."""

import csv
import itertools

import pytest
import torch
from safetensors.torch import load_file

from mha import explore, pruning, sweep
from mha.runtime import data_path
from mha.tasks import date_heads, dates, lookback


@pytest.fixture(scope="module")
def model():
    model = dates.model()
    model.load_state_dict(load_file(data_path("dates/model.safetensors")))
    return model.eval()


def pairs(count, part="validation", seed=2):
    return dates.pairs(count, dates.all_dates(part), seed=seed)


def test_a_date_is_right_exactly_where_greedy_decoding_gets_it_right(model):
    probe, layers = sweep.DateProbe(model, pairs(60)), sweep.attentions(model)
    assert [layer is part for layer, part in zip(layers, (model.encoder[0].attention,), strict=False)] == [True]
    assert layers[1:] == [model.decoder[0].attention, model.decoder[0].cross]
    for off in ([], [(0, 2)], [(2, 1)], [(1, 3), (2, 2)]):
        with pruning.all_off(layers, off):
            assert probe.right() == pytest.approx(dates.exact(model, pairs(60)))
    each = probe.losses()
    assert each.shape == (60,) and probe.loss() == pytest.approx(each.mean().item()) and type(probe.loss()) is float
    assert type(probe.right()) is float and len(probe.run(need_weights=True)[1]["cross"]) == 1
    assert probe.run()[1] is None or not any(probe.run()[1].values())
    alone = sweep.DateProbe(model, pairs(60)[:1]).losses()  # no text influences another's, but for rounding
    torch.testing.assert_close(alone, each[:1], atol=1e-5, rtol=1e-3)


def test_lookback_is_probed_as_in_lesson_02():
    learner, texts = lookback.two_by_hand(), lookback.batch(5, 40)
    probe = sweep.LookbackProbe(learner, texts)
    assert probe.right() == lookback.accuracy(learner, texts) == 1
    torch.testing.assert_close(probe.losses().mean(), lookback.loss(learner, texts))
    assert probe.losses().shape == (40,) and probe.run()[1] is None
    assert probe.run(need_weights=True)[1].shape == (40, 1, 16, 16)
    torch.testing.assert_close(probe.losses()[3], lookback.loss(learner, texts[3:4]))
    assert type(probe.loss()) is float and probe.loss() == pytest.approx(lookback.loss(learner, texts).item())


def test_the_stored_models_are_those_of_lessons_02_and_07():
    """Trained alike, so they score alike: on lookback to the last digit, on dates up to a date in a thousand or two."""
    with open(data_path("lookback/results.csv"), encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["K"], row["asking"], row["steps"]) == ("4", "every", "600")]
    for h in sweep.HEADS:
        theirs = sorted(float(row["right"]) for row in rows if int(row["heads"]) == h)
        assert sweep.by_heads("lookback", "validation")[h] == pytest.approx(theirs, abs=2e-3)
    theirs = date_heads.census(data_path("dates/heads.csv"))
    for h in (2, 4, 8):
        seeds = sorted({row["seed"]: row["right"] for row in theirs[h, 0.0] if row["seed"] < 5}.values())
        assert sweep.by_heads("dates", "validation")[h] == pytest.approx(seeds, abs=5e-3)


def test_the_sweep_is_whole():
    models = sweep.rows("models")
    wanted = set(itertools.product(sweep.TASKS, sweep.HEADS, range(5)))
    assert {(row["task"], row["heads"], row["seed"]) for row in models} == wanted and len(models) == len(wanted)
    for task, h in (("dates", 4), ("dates", 8), ("lookback", 8), ("lookback", 16)):
        curves = sweep.stored_curves(task, h)
        assert set(curves) == {"greedy", "ablation", "gradient", "random"}
        assert {tuple(table.shape) for table in curves.values()} == {(5, (3 if task == "dates" else 1) * h + 1)}
        for row in (row for row in models if (row["task"], row["heads"]) == (task, h)):
            may = sweep.may_go(curves["greedy"])[row["seed"]]
            assert row["needed"] == row["in_all"] - may


def test_what_may_go():
    curves = torch.tensor([[1, 0.995, 0.99, 0.98, 0.0], [0.9, 0.89, 0.91, 0.5, 0.0], [0.5, 0.4, 0.3, 0.2, 0.1]])
    assert sweep.may_go(curves) == [2, 2, 0] and sweep.may_go(curves, points=0.11) == [3, 2, 1]


def test_the_subsets_are_what_the_model_does(model):
    right, layers = sweep.subsets(), sweep.attentions(model)
    assert (
        right.shape == (4096,) and sweep.set_off(0) == [] and sweep.set_off(0b100000010001) == [(0, 0), (1, 0), (2, 3)]
    )
    probe = sweep.DateProbe(model, pairs(300))
    for number in (0, 4, 0b000101000000, 1234):
        with pruning.all_off(layers, sweep.set_off(number)):
            assert abs(300 * probe.right() - right[number].item()) <= 1  # machines may differ in one date
    size, count, gone = sweep.smallest_set(0.99)
    better = [n for n in range(4096) if right[n] >= 297 and 12 - n.bit_count() < size]
    assert count >= 297 and len(gone) == 12 - size and not better


@pytest.mark.parametrize("target", [0.5, 0.9, 0.95, 0.98, 0.99])
def test_the_smallest_set_is_the_best_of_the_smallest(target):
    right = sweep.subsets().tolist()
    good = [(12 - number.bit_count(), count) for number, count in enumerate(right) if count / 300 >= target]
    fewest = min(size for size, _ in good)
    size, count, gone = sweep.smallest_set(target)
    assert (size, count) == (fewest, max(count for size, count in good if size == fewest)) and type(count) is int
    assert right[sum(1 << 4 * layer + head for layer, head in gone)] == count


def test_a_set_that_just_misses_is_not_taken():
    best = max(count for number, count in enumerate(sweep.subsets().tolist()) if 12 - number.bit_count() == 9)
    assert sweep.smallest_set(best / 300)[0] <= 9 and sweep.smallest_set((best + 0.3) / 300)[0] != 9


def test_a_table_of_ones_own_is_read():
    assert [sweep._number(text) for text in ("-3", "12", "0.5", "-1e-3", "-", "bank")] == [
        -3,
        12,
        0.5,
        -1e-3,
        "-",
        "bank",
    ]
    table = [
        {"task": task, "heads": h, "right": h / 10 - n} for n, task in enumerate(("dates", "lookback")) for h in (4, 2)
    ]
    table += [{"task": "dates", "heads": 4, "right": 0.1}]
    assert sweep.by_heads("dates", "right", table) == {2: [0.2], 4: [0.1, 0.4]}


def test_a_point_lost_is_a_point_however_it_is_rounded():
    assert sweep.may_go(torch.tensor([[n / 100, (n - 1) / 100, (n - 2) / 100] for n in range(1, 101)])) == 100 * [1]


def test_english_curves_begin_and_end_together():
    counts, curves = sweep.english_curves()
    assert counts == list(range(0, 73, 6)) and {table.shape[1:] for table in curves.values()} == {(13, 20)}
    for table in curves.values():
        assert ((table >= 0) & (table <= 1)).all() and table.dtype == torch.float64
        assert torch.equal(table[:, [0, -1]], curves["greedy"][:, [0, -1]].expand(len(table), -1, -1))


class TwoSenses(torch.nn.Module):
    """Stands for the English model: the vector of a token is its number's row of a table."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(table)

    def forward(self, ids, lengths):
        return self.table[ids], []


def test_triplets_are_counted_by_word():
    senses = [{"word": word, "sense": sense, "text": f"{word} {n}"} for word in "ab" for sense in "xy" for n in (0, 1)]

    def tokenizer(texts):
        return torch.arange(len(texts))[:, None], [1] * len(texts), [[text[0]] for text in texts]

    east, north = [1.0, 0.0], [0.0, 1.0]
    apart = [east, east, north, north]  # a: senses lie apart
    table = torch.tensor([*apart, east, north, east, north])  # b: each sentence is like one of the other sense
    probe = sweep.SenseProbe(TwoSenses(table), tokenizer, senses)
    assert probe.words == ["a", "b"] and probe.by_word().tolist() == [1, 0] and probe.right() == 0.5
    assert probe.losses().shape == (8,) and (probe.losses()[:4] < probe.losses()[4:]).all()


def test_triplets_and_losses_are_those_of_a_count_one_by_one():
    """Of random vectors, with a word whose senses have three sentences and two, in any order."""
    torch.manual_seed(1)
    kinds = ["ax", "by", "ay", "ax", "bx", "ax", "by", "bx", "ay"]
    senses = [{"word": word, "sense": sense, "text": f"a {word}"} for word, sense in kinds]
    table = torch.nn.functional.normalize(torch.randn(18, 4), dim=-1)

    def tokenizer(texts):
        return torch.arange(18).view(9, 2), [2] * 9, [["the", text[-1]] for text in texts]

    probe = sweep.SenseProbe(TwoSenses(7 * table), tokenizer, senses)
    vectors = table[1::2]  # of the second token
    torch.testing.assert_close(probe.vectors(), vectors)
    hits, losses = {"a": [], "b": []}, []
    for i, (word, sense) in enumerate(kinds):
        same = [j for j in range(9) if j != i and kinds[j] == word + sense]
        others = [j for j in range(9) if kinds[j][0] == word and kinds[j][1] != sense]
        hits[word] += [float(vectors[i] @ vectors[j] > vectors[i] @ vectors[k]) for j in same for k in others]
        near, far = (torch.nn.functional.normalize(vectors[some].sum(dim=0), dim=0) for some in (same, others))
        losses.append(torch.log1p(torch.exp(10 * (vectors[i] @ far - vectors[i] @ near))))
    shares = [sum(found) / len(found) for found in hits.values()]
    assert probe.by_word().tolist() == pytest.approx(shares) and len(set(shares)) == 2 and 0 < min(shares) < 1
    assert type(probe.right()) is float and probe.right() == pytest.approx(sum(shares) / 2)
    torch.testing.assert_close(probe.losses(), torch.stack(losses))
    assert type(probe.loss()) is float and probe.loss() == pytest.approx(torch.stack(losses).mean().item())


def test_the_sentences_hold_their_words():
    senses = sweep.rows("senses")
    words = {}
    for row in senses:
        assert row["word"] in row["text"].lower().replace(".", " ").replace(",", " ").replace("?", " ").split()
        words.setdefault(row["word"], []).append(row["sense"])
    assert len(senses) == len({row["text"] for row in senses}) == 200 and len(words) == 20
    assert all(sorted(map(s.count, set(s))) == [5, 5] for s in words.values())


def test_a_budget_says_what_is_lacking():
    times = {h: 1.0 + h for h in sweep.HEADS}
    found = sweep.affordable("dates", 0.99, 4 * 8 * 2100, 2.5, times)
    assert found[4] == (sweep.by_heads("dates", "validation")[4][0], 4 * 4 * 2100, 2.5, [])
    worst = sweep.by_heads("dates", "validation")[1][0]
    assert sweep.affordable("dates", worst, 4 * 2100, 1, times)[1][3] == []  # what is just reached is enough
    assert sweep.table_bytes("lookback", 8) == 8 * 16 * 16 * 4 and sweep.table_bytes("dates", 8) == 8 * 2100 * 4
    assert sweep.affordable("dates", 2, 1, 0.5, times)[1][3] == ["quality", "memory", "time"]
    assert found[1][3] == ["quality"] and found[8][3] == ["time"] and found[16][3] == ["memory", "time"]


def test_the_switchboard_is_what_the_switches_do(model):
    view = explore.switchboard(model)
    assert "12 of 12 heads on: 100.0%" in view.table() and "3 May 1979 → 1979-05-03" in view.table()
    view.controls["encoder2"].value = True
    with pruning.all_off(sweep.attentions(model), [(0, 2)]):
        shares = dates.right(model, pairs(300)).tolist()
    for name, share in zip(("dates", "years", "months", "days"), shares, strict=True):
        assert f"{name:7}{share:7.1%}" in view.table()
    assert "less than 99 %" in view.html.value and "off: encoder 2" in view.table()
    view.controls["cross0"].value = True
    view.undo()
    assert not view.controls["cross0"].value and view.controls["encoder2"].value
    view.undo()
    view.undo()  # nothing is left to take back
    assert not any(view.controls[name].value for name in view.switches)
    view.controls["cross1"].value = view.controls["cross2"].value = True
    view.all_on()
    assert "12 of 12 heads on" in view.table()
    view.controls["best"].value = True
    assert "smallest known: 10 heads on" in view.html.value
