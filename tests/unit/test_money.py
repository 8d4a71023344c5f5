"""Nano-dollars in code, dollars in texts."""

from __future__ import annotations

import pytest

from dovetail.units.money import HOURS_A_MONTH, dollars, monthly, parse_dollars


@pytest.mark.parametrize(("text", "nanos"), [("0.35", 350_000_000), ("$2", 2 * 10**9), ("0.0000000019", 1)])
def test_amounts_are_rounded_down(text: str, nanos: int) -> None:
    assert parse_dollars(text) == nanos


@pytest.mark.parametrize("text", ["", "many", "-1", "NaN", "1e7"])
def test_what_is_no_price_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        parse_dollars(text)


def test_no_amount_is_over_a_million_dollars_an_hour() -> None:
    assert parse_dollars("$1000000") == 10**15
    with pytest.raises(ValueError, match=r"'1000000.01' is more than \$1,000,000"):
        parse_dollars("1000000.01")


def test_a_month_is_that_of_the_calculator_of_aws() -> None:
    assert HOURS_A_MONTH * 12 == 365 * 24
    assert (dollars(1_500_000_000), monthly(1_000_000_000)) == (1.5, 730.0)
