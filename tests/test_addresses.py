"""Addresses: made, taken apart and written, for every place they have room for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha import addresses


@given(T=st.integers(1, 100), d=st.integers(1, 100), B=st.integers(1, 100), data=st.data())
def test_an_address_names_its_place(T, d, B, data):
    b, t, f = (data.draw(st.integers(0, size - 1)) for size in (B, T, d))
    one, many = addresses.make(T, d), addresses.make(T, d, B=b + 1)
    assert one.shape == (T, d) and many.shape == (b + 1, T, d) and one.dtype == torch.float32
    assert addresses.split(one[t, f].item()) == (0, t, f) and addresses.split(many[b, t, f].item()) == (b, t, f)
    assert addresses.label(one[t, f].item()) == f"{t}.{f}"
    assert addresses.label(many[b, t, f].item()) == (f"{b}:{t}.{f}" if b else f"{t}.{f}")


def test_no_two_places_have_one_number():
    assert addresses.make(100, 100, B=100).unique().numel() == 10**6
    for sizes, said in (
        ((101, 2), "101 tokens of 2"),
        ((2, 101), "2 tokens of 101"),
        ((3, 2, 101), "101 texts of 3 tokens of 2"),
    ):
        with pytest.raises(ValueError, match=f"^{said} features have no addresses: at most 100 of each$"):
            addresses.make(*sizes)


def test_what_is_no_address_is_written_as_a_number():
    assert [addresses.label(x) for x in (-1.0, 0.5, float("nan"), float("inf"))] == ["-1.00", "0.50", "nan", "inf"]
    with pytest.raises(ValueError, match="is no address"):
        addresses.split(-1.0)


def test_the_tokens_in_a_part_are_listed_once_in_order():
    assert addresses.tokens(addresses.make(6, 8).flip(0)[1:3]) == [3, 4]
