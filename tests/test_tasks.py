"""The two tasks: what they ask, that no date has two meanings, and what is read from a date's heads."""

import csv
import datetime
import math
import re
from collections import Counter

import pytest
import torch
from babel.dates import format_date
from safetensors.torch import load_file

from mha.runtime import data_path
from mha.tasks import date_heads, dates, lookback
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
    scores, weights = model(tokens)
    assert scores.shape == (3, 12, 4, 16) and weights.shape == (3, num_heads, 16, 16)
    fused, none = model(tokens, need_weights=False)
    torch.testing.assert_close(fused, scores)
    assert none is None
    other = tokens.clone()
    other[:, 10] = (other[:, 10] + 1) % 16
    moved = (model(other)[0] - scores).abs().amax(dim=(0, 2, 3)) > 1e-6
    assert not moved[: 10 - 4].any() and moved[10 - 4]


def test_lookback_accuracy_counts_only_what_is_all_right():
    class Known(torch.nn.Module):
        def forward(self, tokens, need_weights=True):
            scores = torch.nn.functional.one_hot(lookback.wanted(tokens), 16).float()
            scores[:, 0, 3] = scores[:, 0, 3].roll(1, dims=-1)  # one of four outputs wrong at the first place
            return scores, None

    assert lookback.accuracy(Known(), lookback.batch(0, 5)) == pytest.approx(11 / 12)
    assert lookback.loss(Known(), lookback.batch(0, 5)) > 0


@pytest.mark.parametrize("K", [1, 2, 4, 15])
def test_lookback_takes_any_k_that_leaves_a_token_to_ask(K):
    tokens, model = lookback.batch(3, size=2), lookback.Lookback(2, K=K)
    wanted = lookback.wanted(tokens, K)
    assert wanted.shape == (2, 16 - K, K) and model(tokens)[0].shape == (2, 16 - K, K, 16)
    for t in range(K, 16):
        assert wanted[1, t - K].tolist() == tokens[1, t - K : t].flip(0).tolist()
    assert lookback.loss(model, tokens) > 0 and 0 <= lookback.accuracy(model, tokens) <= 1


@pytest.mark.parametrize("K", [0, 16])
def test_lookback_refuses_a_k_that_leaves_none(K):
    with pytest.raises(ValueError, match=f"K={K} tokens before a position: wanted 1 to 15"):
        lookback.Lookback(1, K=K)


def test_lookback_where_only_the_last_place_asks():
    class Known(torch.nn.Module):
        def forward(self, tokens, need_weights=True):
            scores = 9 * torch.nn.functional.one_hot(lookback.wanted(tokens, 2), 16).float()
            scores[:, :-1] = 0  # it knows nothing anywhere else
            scores[0, -1, 1] = scores[0, -1, 1].roll(1, dims=-1)  # and in one text of four is wrong there, too
            return scores, None

    tokens = lookback.batch(0, 4)
    assert lookback.accuracy(Known(), tokens, only_last=True) == 0.75
    assert lookback.accuracy(Known(), tokens) < 0.1
    right, wrong = -torch.tensor([9.0, 0.0] + [0.0] * 14).log_softmax(dim=0)[:2]
    expected = ((7 * right + wrong) / 8).item()  # of 4 × 2 outputs at the last place
    assert lookback.loss(Known(), tokens, only_last=True).item() == pytest.approx(expected)
    everywhere = (13 * math.log(16) + expected) / 14  # at the 13 places before, each of 16 tokens is as likely
    assert lookback.loss(Known(), tokens).item() == pytest.approx(everywhere)
    assert type(lookback.accuracy(Known(), tokens)) is float


def test_one_head_set_by_hand_is_right_for_every_pair_at_every_place():
    """Every ordered pair of tokens before every position: 256 × 14, and at random."""
    model = lookback.two_by_hand()
    assert type(model) is lookback.Lookback and model.attention.num_heads == 1
    assert sum(weight.numel() for weight in model.parameters()) == 7360 - 2 * 16 * 33
    pairs = torch.cartesian_prod(torch.arange(16), torch.arange(16)).repeat(1, 8)  # (256, 16): each text u w u w …
    assert lookback.accuracy(model, pairs) == 1 and lookback.accuracy(model, lookback.batch(1, 2000)) == 1
    _, weights = model(pairs)
    strength = 1 + pairs / 16
    for t in range(2, 16):
        shares = strength[:, t - 2 : t] / strength[:, t - 2 : t].sum(dim=-1, keepdim=True)
        torch.testing.assert_close(weights[:, 0, t, t - 2 : t], shares)


def test_the_stored_one_head_model_is_the_one_of_the_table():
    model = lookback.Lookback(1, K=2)
    model.load_state_dict(load_file(data_path("lookback/one_head.safetensors")))
    with open(data_path("lookback/results.csv"), encoding="utf-8") as file:
        (row,) = (r for r in csv.DictReader(file) if list(r.values())[:5] == ["2", "every", "6000", "1", "7"])
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
    for text, words in (
        ("", "got 0"),
        ("x" * 41, "got 41"),
        ("3 Mai 1979 §", "never seen “§”: it knows a to z, 0 to 9"),
        ("10:30, März", "never seen “: ä”"),
        ("3 May\x07 1979", r"never seen “'\\x07'”"),
        ("   ", "got 0"),
    ):
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
    other = dates.Batches(examples, size=32, seed=2)
    assert Counter(dates.decode(other(0)[1])) != Counter(dates.decode(batches(0)[1]))
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
            assert (start, steps) == (dates.START, 10)
            return dates.encode_dates(["1979-05-03"] * len(source)), None

    examples = [("3 May 1979", "1979-05-03"), ("4 May 1979", "1979-05-04"), ("5/3/79", "1979-05-03")]
    model = Parrot(len(dates.SOURCE) + 1, 12, 8, 2, 8)
    examples += [("3 June 1979", "1979-06-03"), ("3 May 1980", "1980-05-03"), ("4 May 2079", "2079-05-04")]
    examples += [("5 May 1979", "1979-05-05")]
    exact = dates.exact(model, examples)
    assert type(exact) is float and exact == pytest.approx(2 / 7)
    for size in (1, 2, 500):
        assert dates.right(model, examples, size).tolist() == pytest.approx([2 / 7, 5 / 7, 6 / 7, 4 / 7])


def test_loss_is_the_mean_of_what_each_true_symbol_costs():
    torch.manual_seed(0)
    model = dates.model(2, 16).eval()
    assert sum(weight.numel() for weight in dates.model().parameters()) == 126_412
    source, target = dates.encode(["3 May 1979", "5/4/80"]), dates.encode_dates(["1979-05-03", "1980-05-04"])
    costs = []
    for text, symbols in zip(source, target.tolist(), strict=True):
        for t, symbol in enumerate(symbols):  # written one after the other, after the true ones
            scores, _ = model(text[None], torch.tensor([[dates.START, *symbols[:t]]]))
            costs.append(-scores[0, -1].log_softmax(dim=0)[symbol].item())
    assert dates.loss(model, (source, target)).item() == pytest.approx(sum(costs) / 20, abs=1e-5)


def test_quotes_and_dashes_of_phones_are_those_of_keyboards():
    for typed, plain in (("3 May ’79", "3 May '79"), ("3 May ‘79", "3 May '79"), ("1979–05—03", "1979-05-03")):
        assert dates.clean(typed) == plain.lower() and torch.equal(dates.encode([typed]), dates.encode([plain]))


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("3 May 1979", ""),
        ("3 may 79", ""),
        ("19790503", ""),
        ("5/3/79", ""),
        ("99/99/9999", ""),
        ("3 may 32", ""),
        ("3 may 0012", ""),
        ("2024", "month day"),
        ("79", "month day"),
        ("31", "day year"),
        ("march 2024", "day"),
        ("may 79", "day"),
        ("05/2024", "day"),
        ("3 march", "year"),
        ("5/3", "year"),
        ("may", "day year"),
        ("the", "month day year"),
    ],
)
def test_what_a_date_lacks_is_named(text, lacks):
    assert dates.missing(text) == lacks.split()


@pytest.mark.parametrize(
    ("text", "iso", "says"),
    [
        ("3 mai 1979", "1979-03-03", "never learned the word “mai”"),
        ("3 march", "2033-03-03", "this has no year"),
        ("2024", "2024-02-02", "this has no month and no day"),
        ("3 May 1879", "2019-05-03", "1879 is none of them"),
        ("29 February 2100", "2000-02-29", "2100 is none of them"),
        ("31 Feb 1999", "1999-02-31", "there is no such day as 1999-02-31"),
        ("3.5.1979", "1979-??-03", "there is no such day"),
        ("Friday, May 3, 1979", "1979-05-03", "1979-05-03 is a Thursday, not a Friday"),
        ("Fri May 3 1979", "1979-05-03", "1979-05-03 is a Thursday, not a Friday"),
        ("Thu May 3 1979", "1979-05-03", "none of the 48 formats"),
        ("2024/3/7", "2024-03-07", "none of the 48 formats that it has learned writes 2024-03-07 in this way"),
        ("3 May 1979", "1979-05-04", "none of the 48 formats that it has learned writes 1979-05-04 in this way"),
    ],
)
def test_a_guess_is_called_one_with_its_reason(text, iso, says):
    assert says in dates.caution(text, iso)


def test_what_a_learned_format_writes_is_no_guess():
    for form in dates.FORMATS:
        for day in (SOME, datetime.date(2024, 12, 31)):
            text = dates.write(day, form)
            assert dates.caution(text.upper(), day.isoformat()) is None
            assert dates.caution(text, (day + datetime.timedelta(days=1)).isoformat())
    for form in dates.HELD_OUT_FORMATS:
        assert dates.caution(dates.write(SOME, form), SOME.isoformat())


@pytest.fixture(scope="module")
def taught():
    """The Transformer that lesson 07 reads."""
    model = dates.model()
    model.load_state_dict(load_file(data_path("dates/model.safetensors")))
    return model.eval()


def test_of_what_people_type_nothing_wrong_passes_unmarked(taught):
    with open(data_path("dates/typed.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 150 and len({row["typed"] for row in rows}) == len(rows)
    count = Counter()
    for row in rows:
        count[row["kind"]] += 1
        try:
            source = dates.encode([row["typed"]])
        except ValueError:
            assert row["kind"] != "learned", row
            continue
        answer, doubt, why = dates.translate(taught, row["typed"])
        marked = why is not None
        assert dates.encode_dates([answer]).tolist() == taught.greedy(source, dates.START, 10)[0].tolist()
        assert doubt == pytest.approx(dates.doubts(taught, [row["typed"]]).item(), abs=1e-5)
        assert marked == (row["kind"] != "learned"), (row, answer)
        assert marked or answer == row["wanted"], (row, answer)
        if row["kind"] == "none":
            assert not row["wanted"]
        else:
            datetime.date.fromisoformat(row["wanted"])
    assert count["learned"] > 50 and count["other"] > 50 and count["none"] > 50
    assert {"2024", "yyyy-mm-dd", "Christmas 2020", "3 mai 1979", "29 February 2100"} <= {row["typed"] for row in rows}


def test_doubt_is_what_the_ten_probabilities_leave():
    class Known(Transformer):
        def greedy(self, source, start, steps):
            return None, torch.tensor([[0.5] * 2 + [1.0] * 8, [1.0] * 10])

    model = Known(len(dates.SOURCE) + 1, 12, 8, 2, 8)
    assert dates.doubts(model, ["3 May 1979", "4 May 1979"]).tolist() == [0.75, 0.0]


def test_the_model_learns_from_forty_thousand_training_dates(monkeypatch):
    made, asked = dates.pairs, []
    monkeypatch.setattr(dates, "pairs", lambda count, *others: asked.append(count) or made(200, *others))
    batches = dates.learning_batches(seed=3)
    assert asked == [40_000] and batches.size == 64
    expected = dates.Batches(made(200, dates.all_dates("train"), 3), 64, 3)
    assert all(torch.equal(a, b) for a, b in zip(batches(1), expected(1), strict=True))


# Reading the heads: exact values on maps made by hand.

FORM = "{d}/{yyyy}/{m}"
HAND = [(SOME, FORM), (datetime.date(1980, 11, 12), FORM)]  # 3/1979/5 and 12/1980/11


def hand_made():
    """Weights (2, 1, 10, 10) of one head on the two dates of HAND, uneven everywhere, nothing on padding."""
    weights = torch.zeros(2, 1, 10, 10)
    for row, length in enumerate((8, 10)):
        weights[row, 0, :, :length] = torch.arange(1.0, 10 * length + 1).view(10, length)
    return weights / weights.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("size", [1, 2, 500])
def test_maps_are_those_of_the_model_however_many_texts_at_once(size):
    torch.manual_seed(0)
    model = Transformer(len(dates.SOURCE) + 1, 12, 16, 2, 32, layers=2).eval()
    source, target = dates.encode(["3 May 1979", "5/3/79", "3.5.1979"]), dates.encode_dates(["1979-05-03"] * 3)
    found, (_, wanted) = date_heads.maps(model, source, target, size), model(source, dates.inputs(target))
    assert set(found) == {"encoder", "decoder", "cross"}
    for name, table in found.items():
        torch.testing.assert_close(table, wanted[name][0])
        assert not table.requires_grad
    with pytest.raises(ValueError, match="shorter"):
        date_heads.maps(model, source, target[:2], 1)


def test_each_character_has_its_field_and_its_digit():
    assert date_heads.fields_of(SOME, FORM) == [2, 3, 0, 0, 0, 0, 3, 1]
    assert date_heads.digits_of(SOME, FORM) == [6, 7, 0, 1, 2, 3, 7, 4]
    assert date_heads.fields_of(SOME, "{ddd} {th} {mon} '{yy}") == [3] * 4 + [2] * 3 + [3] + [1] * 3 + [3] * 2 + [0] * 2
    assert date_heads.digits_of(SOME, "{ddd} {th} {mon} '{yy}") == [7] * 4 + [6, 7, 7, 7, 4, 4, 4, 7, 7, 2, 3]
    assert date_heads.digits_of(datetime.date(1980, 11, 12), "{dd}.{mm}") == [5, 6, 7, 4, 4]
    wanted = [[2, 3, 0, 0, 0, 0, 3, 1, -1, -1], [2, 2, 3, 0, 0, 0, 0, 3, 1, 1]]
    assert date_heads.kinds(HAND).tolist() == wanted
    assert date_heads.kinds(HAND, date_heads.digits_of)[1].tolist() == [5, 6, 7, 0, 1, 2, 3, 7, 4, 4]


def test_reading_is_a_sum_over_the_field_and_a_mean_over_its_symbols_and_texts():
    weights, fields = hand_made(), date_heads.kinds(HAND)
    read = date_heads.reading(weights, fields)
    assert read.shape == (1, 3, 4)
    rows = {0: (0, 1, 2, 3), 1: (5, 6), 2: (8, 9)}
    for field, written in rows.items():
        for other in range(4):
            masses = [weights[b, 0, t][fields[b] == other].sum().item() for b in range(2) for t in written]
            assert read[0, field, other].item() == pytest.approx(sum(masses) / len(masses))
    torch.testing.assert_close(read.sum(dim=-1), torch.ones(1, 3))


def test_looking_keeps_the_written_symbols_apart():
    weights, digits = hand_made(), date_heads.kinds(HAND, date_heads.digits_of)
    mass = date_heads.looking(weights, digits, 8)
    assert mass.shape == (1, 10, 8)
    assert mass[0, 4, 5].item() == pytest.approx(weights[1, 0, 4, 0].item() / 2)  # only one of the two has D1
    assert mass[0, 7, 4].item() == pytest.approx((weights[0, 0, 7, 7] + weights[1, 0, 7, 8:].sum()).item() / 2)


def test_copying_follows_the_years_own_digits():
    weights, fields = hand_made(), date_heads.kinds(HAND)
    digits = [weights[0, 0, i, 2 + i].item() for i in range(4)] + [weights[1, 0, i, 3 + i].item() for i in range(4)]
    assert date_heads.copying(weights, fields).tolist() == pytest.approx([sum(digits) / 8])
    two = torch.cat([weights, 0 * weights], dim=1)
    assert date_heads.copying(two, fields).tolist() == pytest.approx([sum(digits) / 8, 0])
    short = (SOME, "{yy}/{d}/{m}")
    both = torch.cat([fields, torch.nn.functional.pad(date_heads.kinds([short]), (0, 4), value=-1)])
    more = torch.cat([weights, torch.ones(1, 1, 10, 10)])
    assert date_heads.copying(more, both).tolist() == pytest.approx(
        [sum(digits) / 8]
    )  # years of two digits are left out


def test_positional_is_the_largest_of_the_mean_table_from_either_end():
    fields = date_heads.kinds(HAND)
    first, last, mixed = (torch.zeros(2, 1, 10, 10) for _ in range(3))
    first[:, :, :, 2] = 1
    last[0, :, :, 7], last[1, :, :, 9] = 1, 1
    mixed[0, :, :, 2], mixed[1, :, :4, 2], mixed[1, :, 4:, 3] = 1, 1, 1
    for weights, front, end in ((first, 1, 0.5), (last, 0.5, 1), (mixed, (4 + 6 / 2) / 10, (4 / 2 + 6 / 2) / 10)):
        assert date_heads.positional(weights).item() == pytest.approx(front)
        assert date_heads.positional(date_heads.from_the_end(weights, fields)).item() == pytest.approx(end)
    assert date_heads.positional(torch.cat([first, last], dim=1)).tolist() == pytest.approx([1, 0.5])  # head by head
    turned = date_heads.from_the_end(hand_made(), fields)
    assert torch.equal(turned[0, :, :, 2:], hand_made()[0, :, :, :8]) and not turned[0, :, :, :2].any()
    assert torch.equal(turned[1], hand_made()[1])


def test_the_null_looks_at_all_characters_alike():
    null = date_heads.even(date_heads.kinds(HAND))
    assert null.shape == (2, 1, 10, 10)
    for row, length in enumerate((8, 10)):
        assert null[row, 0, 4].tolist() == pytest.approx([1 / length] * length + [0] * (10 - length))


def test_points_lost_have_an_interval():
    before, after = torch.ones(400, 4, dtype=torch.bool), torch.ones(400, 4, dtype=torch.bool)
    after[:100, 0], before[:4, 1] = False, False
    points, margin = date_heads.lost(before, after)
    assert points.tolist() == pytest.approx([25, -1, 0, 0])
    assert margin[0].item() == pytest.approx(196 * math.sqrt(0.25 * 0.75 / 399), rel=1e-4) and margin[2] == 0


def test_an_exchange_changes_what_is_read_at_one_place_alone():
    torch.manual_seed(0)
    model = dates.model(2, 16).eval()
    seen = []
    handle = model.decoder[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1].clone()))
    date_heads.exchange(model, "13 May 1979", "14 June 1979", 1)
    handle.remove()
    own, other = (model.encode(dates.encode([text]), need_weights=False)[0] for text in ("13 May 1979", "14 June 1979"))
    assert len(seen) == 10 and all(torch.equal(memory, seen[0]) for memory in seen)
    assert torch.equal(seen[0][:, 1], other[:, 1])
    torch.testing.assert_close(seen[0][:, [0, *range(2, 11)]], own[:, [0, *range(2, 11)]])
    assert not torch.allclose(own[:, 1], other[:, 1]) and not model.norm_memory._forward_hooks


def test_days_are_exchanged_where_both_texts_have_the_place(taught):
    late, early = datetime.date(2078, 12, 19), datetime.date(2078, 12, 29)
    second = date_heads.DIGITS.index("D2")
    done = date_heads.exchanged_days(
        taught, [(late, "{d} {mon} {yyyy}"), (early, "{yyyy} {mon} {d}")], second, lambda day: day // 10
    )
    assert done == [("2078-12-19", "2078-12-01", "2078-12-01")]  # the other has its day at the end
    (row,) = date_heads.exchanged_days(taught, [(late, "{yyyy}-{mm}-{dd}")], second, lambda day: day + 5)
    assert row == ("2078-12-19", "2078-12-24", "2078-12-14")  # its own first digit, the other's second


def test_the_census_counts_heads_and_models():
    groups = date_heads.census(data_path("dates/heads.csv"))
    assert [len(rows) for rows in groups.values()] == [20, 40, 80, 20, 40, 80]
    roles = date_heads.roles()
    assert date_heads.counted(groups, roles["its loss breaks the year alone"])[1] == (9, 40, 9, 10)
    assert date_heads.counted(groups, roles["its loss breaks the day alone"])[1] == (9, 40, 9, 10)
    assert date_heads.counted(groups, date_heads.roles("mean")["redundant"])[1] == (7, 40, 6, 10)
    shown = [row for row in groups[4, 0.0] if row["seed"] == 0]  # the model that lesson 07 reads
    assert [row["zero_loses_date"] for row in shown] == [0.0, 0.536, 0.118, 0.01]
    row = dict.fromkeys(groups[4, 0.0][0], 0.0) | {"zero_loses_day": 0.03, "mean_loses_month": 0.5}
    assert roles["its loss breaks the day alone"](row | {"zero_loses_year": 0.007})
    assert not roles["its loss breaks the day alone"](row | {"zero_loses_year": 0.008})
    assert not roles["its loss breaks the day alone"](row | {"zero_loses_day": 0.02})
    assert date_heads.roles("mean")["its loss breaks the month alone"](row)
    assert roles["redundant"](row) and not roles["redundant"](row | {"zero_loses_date": 0.006})
    reads = row | {"year_while_year": 0.4, "month_while_month": 0.4, "day_while_day": 0.9, "copies_year": 0.9}
    assert roles["reads only the day"](reads) and not roles["copies only the year"](reads)
    assert not roles["follows whatever is written"](reads)
    assert roles["copies only the year"](reads | {"day_while_day": 0.4})
    assert not roles["copies only the year"](reads | {"day_while_day": 0.4, "month_while_month": 0.6})
    assert roles["copies only the year"](reads | {"day_while_day": 0.4, "year_while_year": 0.6})
    for name in date_heads.OWN[:2]:
        assert not roles["reads only the day"](reads | {name: 0.6})
    assert roles["follows whatever is written"](reads | dict.fromkeys(date_heads.OWN, 0.6))


def test_wilsons_interval():
    low, high = date_heads.share_interval(0, 10)
    assert low == 0 and high == pytest.approx(0.2775, abs=1e-3)
    assert date_heads.share_interval(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-3)
