"""The two tasks: what they ask, and that no date has two meanings."""

import csv
import datetime
import re
from collections import Counter

import pytest
import torch
from babel.dates import format_date
from safetensors.torch import load_file

from mha.runtime import data_path
from mha.tasks import dates, lookback
from mha.transformer import Transformer

# Look back.


def test_lookback_asks_for_the_tokens_before():
    tokens = lookback.batch(3, size=2)
    wanted = lookback.wanted(tokens)
    assert tokens.shape == (2, 16) and wanted.shape == (2, 12, 4)
    for t in range(4, 16):
        assert wanted[0, t - 4].tolist() == [tokens[0, t - back].item() for back in (1, 2, 3, 4)]
    assert torch.equal(lookback.batch(3, 2), tokens) and not torch.equal(lookback.batch(4, 2), tokens)
    assert tokens.min() >= 0 and lookback.batch(0, 1000).unique().numel() == lookback.VOCABULARY


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8, 16, 32])
def test_lookback_models_have_one_size_and_do_not_see_the_future(num_heads):
    model = lookback.Lookback(num_heads)
    assert sum(weight.numel() for weight in model.parameters()) == 7360
    tokens = lookback.batch(0, 3)
    scores, weights = model(tokens, need_weights=True)
    assert scores.shape == (3, 12, 4, 16) and weights.shape == (3, num_heads, 16, 16)
    torch.testing.assert_close(model(tokens), scores)
    other = tokens.clone()
    other[:, 10] = (other[:, 10] + 1) % 16
    moved = (model(other) - scores).abs().amax(dim=(0, 2, 3)) > 1e-6
    assert not moved[: 10 - 4].any() and moved[10 - 4]


def test_lookback_accuracy_counts_only_what_is_all_right():
    class Known(torch.nn.Module):
        def forward(self, tokens):
            scores = torch.nn.functional.one_hot(lookback.wanted(tokens), 16).float()
            scores[:, 0, 3] = scores[:, 0, 3].roll(1, dims=-1)  # one of four outputs wrong at the first place
            return scores

    assert lookback.accuracy(Known(), lookback.batch(0, 5)) == pytest.approx(11 / 12)
    assert lookback.loss(Known(), lookback.batch(0, 5)) > 0


@pytest.mark.parametrize("K", [1, 2, 4, 15])
def test_lookback_takes_any_k_that_leaves_a_token_to_ask(K):
    tokens, model = lookback.batch(3, size=2), lookback.Lookback(2, K=K)
    wanted = lookback.wanted(tokens, K)
    assert wanted.shape == (2, 16 - K, K) and model(tokens).shape == (2, 16 - K, K, 16)
    for t in range(K, 16):
        assert wanted[1, t - K].tolist() == tokens[1, t - K : t].flip(0).tolist()
    assert lookback.loss(model, tokens) > 0 and 0 <= lookback.accuracy(model, tokens) <= 1


@pytest.mark.parametrize("K", [0, 16])
def test_lookback_refuses_a_k_that_leaves_none(K):
    with pytest.raises(ValueError, match=f"K={K} tokens before a position: wanted 1 to 15"):
        lookback.Lookback(1, K=K)


def test_lookback_where_only_the_last_place_asks():
    class Known(torch.nn.Module):
        def forward(self, tokens):
            scores = 9 * torch.nn.functional.one_hot(lookback.wanted(tokens, 2), 16).float()
            scores[:, :-1] = 0  # it knows nothing anywhere else
            scores[0, -1, 1] = scores[0, -1, 1].roll(1, dims=-1)  # and in one text of four is wrong there, too
            return scores

    tokens = lookback.batch(0, 4)
    assert lookback.accuracy(Known(), tokens, only_last=True) == 0.75
    assert lookback.accuracy(Known(), tokens) < 0.1
    right, wrong = -torch.tensor([9.0, 0.0] + [0.0] * 14).log_softmax(dim=0)[:2]
    expected = ((7 * right + wrong) / 8).item()  # of 4 × 2 outputs at the last place
    assert lookback.loss(Known(), tokens, only_last=True).item() == pytest.approx(expected)


def test_one_head_set_by_hand_is_right_for_every_pair_at_every_place():
    """Every ordered pair of tokens before every position: 256 × 14, and at random."""
    model = lookback.two_by_hand()
    assert type(model) is lookback.Lookback and model.attention.num_heads == 1
    assert sum(weight.numel() for weight in model.parameters()) == 7360 - 2 * 16 * 33
    pairs = torch.cartesian_prod(torch.arange(16), torch.arange(16)).repeat(1, 8)  # (256, 16): each text u w u w …
    assert lookback.accuracy(model, pairs) == 1 and lookback.accuracy(model, lookback.batch(1, 2000)) == 1
    _, weights = model(pairs, need_weights=True)
    strength = 1 + pairs / 16
    for t in range(2, 16):
        shares = strength[:, t - 2 : t] / strength[:, t - 2 : t].sum(dim=-1, keepdim=True)
        torch.testing.assert_close(weights[:, 0, t, t - 2 : t], shares)


def test_the_stored_one_head_model_is_the_one_of_the_table():
    model = lookback.Lookback(1, K=2)
    model.load_state_dict(load_file(data_path("lookback/one_head.safetensors")))
    with open(data_path("lookback/results.csv"), encoding="utf-8") as file:
        (row,) = (r for r in csv.DictReader(file) if list(r.values())[:5] == ["2", "every", "6000", "1", "0"])
    assert lookback.accuracy(model, lookback.batch(10**9, 1000)) == pytest.approx(float(row["right"]), abs=0.002)


# Dates.

SOME = datetime.date(1979, 5, 3)  # it was a Thursday


def test_formats_are_many_and_written_as_people_do():
    every = (*dates.FORMATS, *dates.HELD_OUT_FORMATS)
    assert len(dates.FORMATS) >= 40 and len(set(every)) == len(every)
    written = {dates.write(SOME, form) for form in every}
    later = datetime.date(1979, 9, 27)
    assert len({(dates.write(SOME, form), dates.write(later, form)) for form in every}) == len(every)
    for text in ("1979-05-03", "3.5.1979", "5/3/79", "the 3rd of May, 1979", "Thursday, May 3, 1979", "3 May '79"):
        assert text in written
    ends = [dates.fields(datetime.date(2000, 1, day))["th"] for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert ends == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 30th 31st".split()


def test_two_digit_years_are_those_of_the_c_library():
    for year in (1968, 1969, 2068, 2069):
        date = datetime.date(year, 5, 3)
        text = dates.write(date, "{d}.{m}.{yy}")
        assert (text is not None) == (datetime.datetime.strptime(f"{year % 100:02}", "%y").year == year)
    for form in dates.FORMATS:
        if "{yy}" not in form:
            assert dates.write(datetime.date(1900, 1, 1), form)


def test_no_string_has_two_meanings():
    """Every date of two centuries in every format, held-out ones too, as the model reads it."""
    meanings, written = {}, 0
    for date in dates.all_dates():
        pieces = dates.fields(date)
        short = 1969 <= date.year <= 2068
        for form in (*dates.FORMATS, *dates.HELD_OUT_FORMATS):
            if short or "{yy}" not in form:
                text = form.format(**pieces).lower()
                assert meanings.setdefault(text, date) == date, f"{text}: {date} and {meanings[text]}"
                written += 1
    assert written > 3_000_000 and len(meanings) > 2_500_000


@pytest.mark.parametrize("year", [1900, 1979, 2000, 2024, 2099])
def test_weekdays_and_names_are_those_of_babel(year):
    for date in dates.all_dates(first=datetime.date(year, 1, 1), last=datetime.date(year, 12, 31)):
        written = {dates.write(date, form) for form in dates.FORMATS} - {None}
        for width in ("short", "medium", "long", "full"):  # y is the calendar year; Y, the year of the week, is a trap
            text = format_date(date, width, locale="en_US").replace("\u202f", " ")
            assert (width == "short" and not 1969 <= year <= 2068) or text in written, text
        for width in ("long", "full"):
            text = format_date(date, width, locale="en_GB")
            assert text in written, text
        assert dates.fields(date)["dddd"] == format_date(date, "EEEE", locale="en")


def test_the_week_year_is_not_the_year():
    date = datetime.date(2021, 1, 1)
    assert format_date(date, "Y", locale="en_GB") == "2020" and dates.fields(date)["yyyy"] == "2021"


def test_the_parts_are_disjoint_and_do_not_move():
    parts = {name: dates.all_dates(name) for name in ("train", "validation", "test")}
    assert sum(map(len, parts.values())) == len(set().union(*parts.values())) == len(dates.all_dates()) == 73049
    assert {name: len(found) for name, found in parts.items()} == SIZES
    assert dates.part(SOME) == "test"
    for found in parts.values():  # each year and each month is in every part
        assert len({date.year for date in found}) == 200 and len({date.month for date in found}) == 12


SIZES = {"train": 65751, "validation": 3609, "test": 3689}


def test_pairs_are_drawn_evenly_and_again_the_same():
    found = dates.pairs(6000, dates.all_dates("train"), seed=3)
    assert found == dates.pairs(6000, dates.all_dates("train"), seed=3)
    assert found != dates.pairs(6000, dates.all_dates("train"), seed=4)
    shapes = Counter(re.sub(r"\d+", "0", re.sub(r"[A-Za-z]+", "a", text)) for text, _ in found)
    assert len(shapes) > 20 and len(found) == 6000
    for text, iso in found[:200]:
        date = datetime.date.fromisoformat(iso)
        assert text in {dates.write(date, form) for form in dates.FORMATS} and dates.part(date) == "train"


def test_encoding_and_its_refusals():
    source = dates.encode(["3 May 1979", "  3  MAY 1979 ", "5/3/79"])
    assert source.shape == (3, 10) and torch.equal(source[0], source[1]) and source[2].tolist()[6:] == [0] * 4
    assert dates.decode(dates.encode_dates(["1979-05-03"])) == ["1979-05-03"]
    longest = max(len(dates.write(datetime.date(2000, 9, 27), form)) for form in dates.FORMATS)
    assert longest < dates.LONGEST
    for text, words in (("", "got 0"), ("x" * 41, "got 41"), ("3 Mai 1979 §", "never seen §"), ("   ", "got 0")):
        with pytest.raises(ValueError, match=words):
            dates.encode([text])


def test_the_decoder_is_given_what_came_before():
    target = dates.encode_dates(["1979-05-03"])
    assert dates.inputs(target).tolist() == [[dates.START, *target[0, :-1].tolist()]]


def test_batches_depend_on_their_number_alone_and_waste_little():
    examples = dates.pairs(1000, dates.all_dates("train"))
    batches = dates.Batches(examples, size=32, seed=1)
    first = [batches(step) for step in (0, 40, 7, 31)]
    again = dates.Batches(examples, size=32, seed=1)
    for step, (source, target) in zip((31, 7, 40, 0), reversed(first), strict=True):
        assert torch.equal(again(step)[0], source) and torch.equal(again(step)[1], target)
    rows = [row for step in range(31) for row in dates.decode(batches(step)[1])]
    assert len(rows) == 31 * 32 and Counter(rows) <= Counter(iso for _, iso in examples)
    assert not torch.equal(batches(0)[0], batches(31)[0][:, : batches(0)[0].size(1)])
    padding = sum((batches(step)[0] == 0).sum().item() for step in range(31)) / sum(
        batches(step)[0].numel() for step in range(31)
    )
    assert padding < 0.1
    text = {dates.decode(t[None])[0]: s for s, t in zip(*batches(3), strict=True)}
    for written, iso in examples:
        if iso in text and dates.encode([written]).size(1) == (text[iso] != 0).sum():
            assert torch.equal(text[iso][text[iso] != 0], dates.encode([written])[0])


def test_exact_counts_whole_dates():
    class Parrot(Transformer):
        def greedy(self, source, start, steps):
            return dates.encode_dates(["1979-05-03"] * len(source)), None

    examples = [("3 May 1979", "1979-05-03"), ("4 May 1979", "1979-05-04"), ("5/3/79", "1979-05-03")]
    model = Parrot(len(dates.SOURCE) + 1, 12, 8, 2, 8)
    assert dates.exact(model, examples) == pytest.approx(2 / 3)
    for size in (1, 2, 500):
        assert dates.right(model, examples, size).tolist() == pytest.approx([2 / 3, 1, 1, 2 / 3])
