"""What instance types and their offerings are taken to be."""

from __future__ import annotations

import pytest

from dovetail.model.offering import InstanceType, Offering, affordable
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST


def offering(**more: object) -> Offering:
    return Offering("a", "on-demand", 1, Requirements(), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("draws", "left", "enough"),
    [
        ((), {}, True),
        ((("quota", 8),), {}, True),  # no end is known of it
        ((("quota", 8),), {"quota": 8}, True),
        ((("quota", 8),), {"quota": 7}, False),
        ((("quota", 8), ("addresses", 1)), {"quota": 8, "addresses": 0}, False),
        ((("quota", 8), ("addresses", 1)), {"quota": 0, "addresses": 1}, False),
    ],
)
def test_an_instance_takes_its_share_of_all_that_it_draws_on(
    draws: tuple[tuple[str, int], ...], left: dict[str, int], enough: bool
) -> None:
    assert affordable(offering(draws=draws), left) is enough


def test_an_offering_is_ordinary_unless_it_says_otherwise() -> None:
    plain = offering()
    assert affordable(plain, {})
    assert (plain.available, plain.estimated) == (True, False)
    assert (plain.reservation_id, plain.reservation_capacity, plain.draws) == ("", 0, ())


def test_a_full_reservation_is_available_and_starts_nothing() -> None:
    assert offering().launchable
    assert not offering(available=False).launchable
    for left, available, launchable in ((2, True, True), (0, True, False), (2, False, False)):
        held = Offering("a", "reserved", 1, Requirements(), available, "cr-1", left)
        assert held.launchable is launchable


@pytest.mark.parametrize("memory", [LARGEST - 1, LARGEST, 2**63, 10**30])
def test_no_capacity_is_beyond_what_can_be_planned_with(memory: int) -> None:
    found = InstanceType("m", Requirements(), (), {"cpu": 4000, "memory": memory})
    assert found.capacity["cpu"] == 4000
    assert found.capacity["memory"] == LARGEST - 1


def test_a_capacity_that_can_be_planned_with_is_kept_as_it_is() -> None:
    given = {"cpu": 4000, "memory": 2**33}
    assert InstanceType("m", Requirements(), (), given).capacity is given
