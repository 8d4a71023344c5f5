"""Durations: Go's notation, "Never", and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.units.duration import format_duration, parse_duration, parse_nillable

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30 * SECOND),
        ("5m", 300 * SECOND),
        ("720h", 2_592_000 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("30m1h", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("100ms", SECOND // 10),
        ("1us", 1000),
        ("1µs", 1000),
        ("7ns", 7),
        ("-1m", -60 * SECOND),
        ("+1m", 60 * SECOND),
        ("2562047h", 2_562_047 * 3600 * SECOND),
        # Go's longest: what is longer is as long as that.
        ("99999999h", 2**63 - 1),
        ("-99999999h", -(2**63)),
        ("2562047h47m16.854775808s", 2**63 - 1),
        ("9" * 5000 + "h", 2**63 - 1),
        ("0" * 5000 + "1s", SECOND),
        ("0." + "1" * 5000 + "s", 111_111_111),
        ("1h" * 5000, 5000 * 3600 * SECOND),
    ],
)
def test_read(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "1 h", "h", ".s", "1d", "1h-1m", "never", "1H", "1h1", "١s", "1s\0", "\ud800", "9" * 5000],
)
def test_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30s, 5m, 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "hint"), [("1d", "24h"), ("30", "30s"), ("7d", "168h")])
def test_guess_of_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=rf"did you mean {hint}\?"):
        parse_duration(text)


def test_never() -> None:
    assert parse_nillable("Never") is None
    assert parse_nillable("0s") == 0
    with pytest.raises(ValueError, match="did you mean 'Never'"):
        parse_nillable("never")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100_000_000, "100ms"),
        (90 * SECOND, "1m30s"),
        (3600 * SECOND + SECOND // 2, "1h0m0.5s"),
        (-60 * SECOND, "-1m0s"),
        (2_592_000 * SECOND, "720h0m0s"),
    ],
)
def test_written(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_round_trip(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
