"""What replacements may be launched as: never as the node that goes, and spot for spot with many types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.consolidation.price import Refused, Same, affordable, worst_price
from dovetail.disrupt.consolidation.question import Mover, Question
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.plan import PlannedClaim

CENT = 10_000_000
SPOT, ON_DEMAND = labels.SPOT, labels.ON_DEMAND
PRICES = {f"t{number:02}": (10 + number) * CENT for number in range(30)}  # t00 costs $0.10, t29 $0.39
NONE = Requirements({})


def kinds(capacity: str) -> tuple[InstanceType, ...]:
    return tuple(
        InstanceType(name, NONE, tuple(Offering(zone, capacity, price, NONE) for zone in ("a", "b")), {})
        for name, price in PRICES.items()
    )


def question(capacity: str) -> Question:
    sold = Pool("p", NodeClassRef(group="", kind="", name=""), NONE, {}, kinds(capacity))
    return Question(Problem((), (sold,)), (), {}, spot_to_spot=True)


def mover(kind: str, zone: str = "a", capacity: str = SPOT) -> Mover:
    return Mover(f"{kind}-{zone}", "p", (kind, zone, capacity), PRICES[kind], 1.0, ())


def claim(first: str, zone: str = "a", capacity: str = SPOT) -> PlannedClaim:
    """A node of that type or any dearer one."""
    names = tuple(name for name in PRICES if name >= first)
    wanted = Requirements.of(
        [
            Requirement.new(labels.ZONE, "In", [zone]),
            Requirement.new(labels.CAPACITY_TYPE, "In", [capacity]),
            Requirement.new(labels.INSTANCE_TYPE, "In", list(names)),
        ]
    )
    price = PRICES[first]
    return PlannedClaim("p-0", "p", (), wanted, names, {}, first, zone, capacity, price, PRICES["t29"])


def test_a_node_that_would_be_bought_again_may_as_well_stay() -> None:
    leaving = [mover("t28"), mover("t10"), mover("t10", "b")]
    with pytest.raises(Same) as caught:
        affordable(question(SPOT), leaving, [claim("t00"), claim("t10", "b")])
    assert caught.value.names == {"t10-b"}


def test_nothing_that_goes_is_listed_for_what_comes() -> None:
    leaving = [mover("t20", capacity=ON_DEMAND), mover("t05", capacity=ON_DEMAND)]
    bought = affordable(
        question(ON_DEMAND), leaving, [claim("t00", capacity=ON_DEMAND), claim("t00", "b", ON_DEMAND)]
    )
    assert "t05" not in bought[0].instance_types
    assert "t05" in bought[1].instance_types  # in another zone


@pytest.mark.parametrize(
    ("leaving", "coming", "fine"),
    [
        (["t16"], ["t00"], True),
        (["t14"], ["t00"], False),  # fourteen types are cheaper by the least that must be saved
        (["t14", "t14"], ["t00", "t00"], False),
        (["t05", "t06", "t07"], ["t08", "t09"], False),
        (["t29", "t29"], ["t00", "t01"], True),
        (["t05", "t06"], ["t04"], True),  # half as many
    ],
)
def test_spot_follows_spot_only_with_fifteen_types(leaving: list[str], coming: list[str], fine: bool) -> None:
    movers = [mover(kind) for kind in leaving]
    claims = [claim(kind, "b") for kind in coming]
    if fine:
        bought = affordable(question(SPOT), movers, claims)
        assert all(len(each.instance_types) <= 15 or len(movers) >= 2 * len(claims) for each in bought)
    else:
        with pytest.raises(Refused, match="SpotToSpotConsolidation requires 15 cheaper"):
            affordable(question(SPOT), movers, claims)


def test_spot_after_nodes_on_demand_needs_no_fifteen() -> None:
    leaving = [mover("t14", capacity=ON_DEMAND), mover("t14", capacity=ON_DEMAND)]
    assert affordable(question(SPOT), leaving, [claim("t10", "b"), claim("t10", "b")])
    # A node on demand more does not help the node that was spot before.
    with pytest.raises(Refused, match="15 cheaper"):
        affordable(question(SPOT), [leaving[0], mover("t14")], [claim("t10", "b"), claim("t10", "b")])
    alone = replace(question(SPOT), spot_to_spot=False)
    with pytest.raises(Refused, match="SpotToSpotConsolidation is disabled"):
        affordable(alone, [mover("t29")], [claim("t00", "b")])


@pytest.mark.parametrize(("short", "fine"), [(-1, True), (0, True), (1, False)])
def test_what_saves_exactly_the_least_is_bought(short: int, fine: bool) -> None:
    """A node of $0.39 must save $0.0078 (2%): one that costs the rest may follow, a dearer one may not."""
    ceiling = PRICES["t29"] * 98 // 100
    sold = InstanceType("same", NONE, (Offering("b", ON_DEMAND, ceiling + short, NONE),), {})
    pool = Pool("p", NodeClassRef(group="", kind="", name=""), NONE, {}, (sold,))
    wanted = claim("t00", "b", ON_DEMAND)
    wanted = replace(wanted, instance_types=("same",), instance_type="same", price=ceiling + short)
    asked, leaving = Question(Problem((), (pool,)), (), {}), [mover("t29", capacity=ON_DEMAND)]
    if fine:
        (bought,) = affordable(asked, leaving, [wanted])
        assert (bought.price, bought.worst) == (ceiling + short, ceiling + short)
    else:
        with pytest.raises(Refused, match="Can't replace with a cheaper node"):
            affordable(asked, leaving, [wanted])


OFFERED = (
    Offering("a", SPOT, 3, NONE),
    Offering("b", SPOT, 4, NONE),
    Offering("a", ON_DEMAND, 9, NONE),
    Offering("b", ON_DEMAND, 10, NONE),
    Offering("a", labels.RESERVED, 1, NONE),
    Offering("b", labels.RESERVED, 2, NONE, available=False),
    Offering("c", ON_DEMAND, 5, NONE),
)


@pytest.mark.parametrize(
    ("zones", "capacities", "worst"),
    [
        # The cloud is asked for reserved capacity first, then for spot: what it costs on demand says nothing.
        ("abc", (labels.RESERVED, SPOT, ON_DEMAND), 1),
        ("abc", (SPOT, ON_DEMAND), 4),
        ("a", (SPOT, ON_DEMAND), 3),
        ("abc", (ON_DEMAND,), 10),
        ("c", (SPOT, ON_DEMAND), 5),
        ("b", (labels.RESERVED, SPOT, ON_DEMAND), 4),  # what is sold out is not bought
        ("c", (SPOT,), None),
    ],
)
def test_the_worst_price_is_that_of_the_capacity_that_is_asked_for_first(
    zones: str, capacities: tuple[str, ...], worst: int | None
) -> None:
    wanted = Requirements.of(
        [
            Requirement.new(labels.ZONE, "In", list(zones)),
            Requirement.new(labels.CAPACITY_TYPE, "In", list(capacities)),
        ]
    )
    assert worst_price(InstanceType("t", NONE, OFFERED, {}), wanted) == worst
