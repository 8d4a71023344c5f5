"""Instants: RFC 3339 and back, and what lies beyond its years."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

SECOND = 1_000_000_000
FIRST, LAST = -62_135_596_800, 253_402_300_799


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-02T21:00:00+09:00", 1_772_452_800),
        ("2026-03-02t12:00:00z", 1_772_452_800),  # as a CustomResourceDefinition lets it pass
        ("0001-01-01T00:00:00Z", FIRST),
        ("0000-12-31T23:59:59Z", FIRST),
        ("9999-12-31T23:59:59Z", LAST),
        ("9999-12-31T23:59:59-14:00", LAST + 14 * 3600),
        ("10000-01-01T13:59:59Z", LAST),  # so Go writes the one above
        ("9" * 5000 + "-01-01T00:00:00Z", LAST),
    ],
)
def test_read(text: str, seconds: int) -> None:
    assert parse_rfc3339(text) == seconds * SECOND


@pytest.mark.parametrize(
    "text", ["", "now", "2026-03-02", "2026-13-02T00:00:00Z", "2026-03-02T21:00:00", "\0"]
)
def test_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 2026-03-02T21:00:00Z"):
        parse_rfc3339(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (FIRST, "0001-01-01T00:00:00Z"),
        (FIRST - 1, "0001-01-01T00:00:00Z"),
        (LAST + 1, "9999-12-31T23:59:59Z"),
        (10**30, "9999-12-31T23:59:59Z"),
        (-(10**30), "0001-01-01T00:00:00Z"),
    ],
)
def test_written(seconds: int, text: str) -> None:
    assert to_rfc3339(seconds * SECOND) == text


@given(st.integers(FIRST, LAST))
def test_round_trip(seconds: int) -> None:
    assert parse_rfc3339(to_rfc3339(seconds * SECOND)) == seconds * SECOND
