"""When placing anew what is not bound cannot be cheaper than buying for some pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_order import claim

from dovetail.controllers.provisioning.provision import clearly_dearer, may_be_placed_anew
from dovetail.model.plan import Cost, Plan


def plan(*prices: int) -> Plan:
    """A node for each price."""
    claims = tuple(replace(claim(f"c{n}", "z", f"p{n}"), price=price) for n, price in enumerate(prices))
    return Plan(claims=claims, cost=Cost(sum(prices), 1))


@pytest.mark.parametrize(
    ("first", "other", "dearer"),
    [
        ((10, 10, 10), (10,), False),  # of three nodes work may leave none
        ((10, 10, 10, 10), (10,), True),
        ((10,) * 7, (10, 10, 10), False),
        ((10,) * 8, (10, 10, 10), True),
        ((40, 40), (10, 10, 10), True),
        ((50,), (5, 5, 40), False),
        ((10,), (10, 10), False),
        ((), (10,), False),
    ],
)
def test_work_is_spent_where_it_may_make_the_plan_cheaper(
    first: tuple[int, ...], other: tuple[int, ...], dearer: bool
) -> None:
    assert clearly_dearer(plan(*first), plan(*other)) is dearer


@pytest.mark.parametrize(("pods", "may"), [(0, False), (1, True), (4_000, True), (4_001, False)])
def test_thousands_of_pods_keep_their_places(pods: int, may: bool) -> None:
    assert may_be_placed_anew(pods) is may
