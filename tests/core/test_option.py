"""Read lengths of time, parameters and numbers of bytes as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.core.option import nbytes_of, parameter, seconds
from workbench.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (5, 5.0),
        ("0.5", 0.5),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("90m", 5400.0),
        ("1h30m", 5400.0),
        ("1.5 h", 5400.0),
        ("7D", 604800.0),
    ],
)
def test_a_length_of_time_may_have_a_unit(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 parsecs", "1.2.3", "nan", "inf", True, None])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(InputError, match="is not a length of time"):
        seconds(text)


@given(st.floats(min_value=0, allow_infinity=False))
def test_a_number_of_seconds_is_itself(value):
    assert seconds(value) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr=0.1", ("lr", 0.1)),
        ("n = 3", ("n", 3)),
        ("name=digits", ("name", "digits")),
        ("layers=[1, 2]", ("layers", [1, 2])),
        ("flag=True", ("flag", True)),
        ("text='3'", ("text", "3")),
        ("formula=a=b", ("formula", "a=b")),
        ("empty=", ("empty", "")),
        ("pair=(1, 2)", ("pair", "(1, 2)")),
        ("by_number={1: 2}", ("by_number", "{1: 2}")),
    ],
)
def test_a_parameter_is_a_literal_or_else_text(text, expected):
    assert parameter(text) == expected


@pytest.mark.parametrize("text", ["lr", "=3", "1x=3", "a b=3", "class=3"])
def test_what_is_no_parameter_is_refused(text):
    with pytest.raises(InputError, match=r"is not a parameter; write --param name=value"):
        parameter(text)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("98MB", 98e6), ("25.6e6", 25.6e6), ("4 MiB", 4 << 20), ("1G", 1e9), ("1.5k", 1500), ("7", 7),
     ("2TiB", 2**41), ("9b", 9)],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text: str, nbytes: float) -> None:
    assert nbytes_of(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "many", "GB", "-3MB", "1XB", "1.2.3", ".", "nan", "5 pounds", "1 GB GB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a size; write a number with a unit"):
        nbytes_of(text)


@settings(derandomize=True, deadline=None, max_examples=examples(2_000))
@given(st.text(max_size=40))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert nbytes_of(text) >= 0
