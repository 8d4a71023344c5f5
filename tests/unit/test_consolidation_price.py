"""What replacements may be launched as: never as the node that goes, and spot for spot with many types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.consolidation.price import Refused, Same, affordable, worst_price
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirement, Requirements

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


def candidate(kind: str, zone: str = "a", capacity: str = SPOT) -> Candidate:
    return Candidate(f"{kind}-{zone}", "p", (kind, zone, capacity), PRICES[kind], 1.0, ())


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
    leaving = [candidate("t28"), candidate("t10"), candidate("t10", "b")]
    with pytest.raises(Same) as caught:
        affordable(question(SPOT), leaving, [claim("t00"), claim("t10", "b")])
    assert caught.value.names == {"t10-b"}


def test_nothing_that_goes_is_listed_for_what_comes() -> None:
    leaving = [candidate("t20", capacity=ON_DEMAND), candidate("t05", capacity=ON_DEMAND)]
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
    candidates = [candidate(kind) for kind in leaving]
    claims = [claim(kind, "b") for kind in coming]
    if fine:
        bought = affordable(question(SPOT), candidates, claims)
        assert all(len(each.instance_types) <= 15 or len(candidates) >= 2 * len(claims) for each in bought)
    else:
        with pytest.raises(Refused, match="SpotToSpotConsolidation requires 15 cheaper"):
            affordable(question(SPOT), candidates, claims)


def test_spot_after_nodes_on_demand_needs_no_fifteen() -> None:
    leaving = [candidate("t14", capacity=ON_DEMAND), candidate("t14", capacity=ON_DEMAND)]
    assert affordable(question(SPOT), leaving, [claim("t10", "b"), claim("t10", "b")])
    # A node on demand more does not help the node that was spot before.
    with pytest.raises(Refused, match="15 cheaper"):
        affordable(question(SPOT), [leaving[0], candidate("t14")], [claim("t10", "b"), claim("t10", "b")])
    alone = replace(question(SPOT), spot_to_spot=False)
    with pytest.raises(Refused, match="SpotToSpotConsolidation is disabled"):
        affordable(alone, [candidate("t29")], [claim("t00", "b")])


@pytest.mark.parametrize(("short", "fine"), [(-1, True), (0, True), (1, False)])
def test_what_saves_exactly_the_least_is_bought(short: int, fine: bool) -> None:
    """A node of $0.39 must save $0.0078 (2%): one that costs the rest may follow, a dearer one may not."""
    ceiling = PRICES["t29"] * 98 // 100
    sold = InstanceType("same", NONE, (Offering("b", ON_DEMAND, ceiling + short, NONE),), {})
    pool = Pool("p", NodeClassRef(group="", kind="", name=""), NONE, {}, (sold,))
    wanted = claim("t00", "b", ON_DEMAND)
    wanted = replace(wanted, instance_types=("same",), instance_type="same", price=ceiling + short)
    asked, leaving = Question(Problem((), (pool,)), (), {}), [candidate("t29", capacity=ON_DEMAND)]
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
    Offering("a", labels.RESERVED, 1, NONE, reservation_capacity=1),
    Offering("b", labels.RESERVED, 2, NONE),
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


BOTH = (SPOT, ON_DEMAND)


def sold(*offers: tuple[str, str, str, int], **values: Requirement) -> tuple[InstanceType, ...]:
    """Types of these offers: name, zone, capacity type, price in cents."""
    by_name: dict[str, list[Offering]] = {}
    for name, zone, capacity, cents in offers:
        by_name.setdefault(name, []).append(Offering(zone, capacity, cents * CENT, NONE))
    return tuple(
        InstanceType(name, Requirements.of([values[name]]) if name in values else NONE, tuple(offerings), {})
        for name, offerings in by_name.items()
    )


def asked_of(kinds_sold: tuple[InstanceType, ...], **more: Any) -> Question:
    pool = Pool("p", NodeClassRef(group="", kind="", name=""), NONE, {}, kinds_sold)
    return Question(Problem((), (pool,)), (), {}, **more)


def wanted(
    *names: str, cents: int, capacity: tuple[str, ...] = (ON_DEMAND,), zones: str = "a", **more: Any
) -> PlannedClaim:
    """A claim of the first of these types, at that price."""
    fixed = [
        Requirement.new(labels.ZONE, "In", list(zones)),
        Requirement.new(labels.CAPACITY_TYPE, "In", list(capacity)),
        Requirement.new(labels.INSTANCE_TYPE, "In", list(names), more.pop("least", None)),
        *more.pop("rules", ()),
    ]
    made = PlannedClaim(
        "p-0", "p", (), Requirements.of(fixed), names, {}, names[0], zones[0], capacity[0], cents * CENT, 0
    )
    return replace(made, **more)


def leaves(
    cents: int, kind: str = "gone", capacity: str = ON_DEMAND, least: int = 1, zone: str = "z"
) -> Candidate:
    """A node at that price; what follows it must be `least` cents cheaper."""
    minimum = Minimum(0.0, least * CENT)
    return Candidate(f"{kind}-{cents}", "p", (kind, zone, capacity), cents * CENT, 1.0, (), minimum)


def test_a_claim_lists_what_costs_no_more_than_the_ceiling_even_at_worst() -> None:
    offers = [
        ("x", "a", ON_DEMAND, 40),
        ("y", "a", ON_DEMAND, 49),
        ("z", "a", ON_DEMAND, 50),
        ("w", "a", ON_DEMAND, 30),
        ("w", "b", ON_DEMAND, 60),
    ]
    asked = asked_of(sold(*offers))
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", "y", "z", cents=40)])
    assert bought.instance_types == ("x", "y")
    assert (bought.price, bought.worst) == (40 * CENT, 49 * CENT)
    assert bought.requirements.get(labels.INSTANCE_TYPE).values == {"x", "y"}
    (bought,) = affordable(asked, [leaves(50)], [wanted("w", "y", cents=30)])
    assert (bought.instance_types, bought.instance_type, bought.zone) == (("w", "y"), "w", "a")
    # In another zone a type may cost more.
    (bought,) = affordable(asked, [leaves(50)], [wanted("w", "y", cents=30, zones="ab")])
    assert (bought.instance_types, bought.instance_type) == (("y",), "y")
    assert (bought.price, bought.zone) == (49 * CENT, "a")


def test_what_is_not_sold_there_is_not_listed() -> None:
    asked = asked_of(sold(("x", "a", ON_DEMAND, 40), ("y", "b", ON_DEMAND, 30)))
    (bought,) = affordable(asked, [leaves(50)], [wanted("y", "x", cents=40)])
    assert bought.instance_types == ("x",)
    with pytest.raises(Refused, match=r"^Can't replace with a cheaper node$"):
        affordable(asked, [leaves(50)], [wanted("y", cents=30)])


def test_the_cheapest_is_named_by_price_then_by_name() -> None:
    offers = [
        ("x", "b", SPOT, 20),
        ("x", "a", SPOT, 20),
        ("x", "a", ON_DEMAND, 20),
        ("v", "a", ON_DEMAND, 20),
        ("u", "a", ON_DEMAND, 21),
    ]
    asked = asked_of(sold(*offers))
    claims = [wanted("u", "v", "x", cents=20, capacity=(ON_DEMAND,))]
    (bought,) = affordable(asked, [leaves(50)], claims)
    assert (bought.instance_type, bought.price) == ("v", 20 * CENT)
    claims = [wanted("x", cents=20, capacity=(SPOT,), zones="ab")]
    (bought,) = affordable(asked, [leaves(50)], claims)
    assert (bought.zone, bought.capacity_type, bought.worst) == ("a", SPOT, 20 * CENT)
    assert not bought.price_estimated


def test_an_estimated_price_is_reported() -> None:
    offering = Offering("a", ON_DEMAND, 20 * CENT, NONE, estimated=True)
    asked = asked_of((InstanceType("x", NONE, (offering,), {}),))
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", cents=20)])
    assert bought.price_estimated


def test_volumes_and_surcharges_count_for_each_type() -> None:
    asked = asked_of(sold(("x", "a", ON_DEMAND, 20), ("y", "a", ON_DEMAND, 26), ("z", "a", ON_DEMAND, 27)))
    extra: dict[str, Any] = {"volumes": 3 * CENT, "surcharge": 20 * CENT}
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", "y", "z", cents=43, **extra)])
    assert bought.instance_types == ("x", "y")
    assert (bought.price, bought.worst) == (43 * CENT, 49 * CENT)


@pytest.mark.parametrize(
    ("count", "cents", "text"),
    [
        (1, 50, "^Can't replace with a cheaper node$"),
        (2, 25, "^Can't remove without creating 2 candidates$"),
        (3, 17, "^Can't remove without creating 3 candidates$"),
    ],
)
def test_what_is_too_dear_together_is_reported(count: int, cents: int, text: str) -> None:
    asked = asked_of(sold(("x", "a", ON_DEMAND, cents)))
    with pytest.raises(Refused, match=text):
        affordable(asked, [leaves(50)], [wanted("x", cents=cents)] * count)


def test_what_may_be_lost_to_dearer_types_is_shared_by_price() -> None:
    offers = [(f"t{cents}", "a", ON_DEMAND, cents) for cents in (10, 20, 29, 30, 59, 60, 61)]
    asked = asked_of(sold(*offers))
    candidates = [leaves(50, least=5), leaves(50, "other", least=5)]
    names = [name for name, *_ in offers]
    claims = [wanted(*names, cents=10), wanted(*names[1:], cents=20)]
    one, two = affordable(asked, candidates, claims)
    assert one.instance_types == ("t10", "t20", "t29", "t30")  # a third of 90 cents
    assert two.instance_types == ("t20", "t29", "t30", "t59", "t60")


def test_what_costs_nothing_may_be_followed_by_all_that_is_cheap_enough() -> None:
    asked = asked_of(sold(("x", "a", ON_DEMAND, 0), ("y", "a", ON_DEMAND, 49)))
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", "y", cents=0)])
    assert bought.instance_types == ("x", "y")


MIXED = [("x", "a", SPOT, 10), ("x", "a", ON_DEMAND, 45), ("y", "a", SPOT, 12), ("y", "a", ON_DEMAND, 70)]


def test_what_is_cheap_because_it_is_spot_is_pinned_to_spot() -> None:
    """On demand `y` would cost more than the node that goes."""
    asked = asked_of(sold(*MIXED))
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", "y", cents=10, capacity=BOTH)])
    assert bought.requirements.get(labels.CAPACITY_TYPE).values == {SPOT}
    assert bought.instance_types == ("x", "y") and bought.worst == 12 * CENT
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", "y", cents=45)])
    assert bought.requirements.get(labels.CAPACITY_TYPE).values == {ON_DEMAND}
    assert bought.instance_types == ("x",)
    (bought,) = affordable(asked, [leaves(50)], [wanted("x", cents=10, capacity=(SPOT,))])
    assert bought.requirements.get(labels.CAPACITY_TYPE).values == {SPOT}


def test_of_several_that_go_one_on_demand_is_enough_to_pin_what_comes() -> None:
    asked = asked_of(sold(*MIXED), spot_to_spot=False)
    candidates = [leaves(50, "one", SPOT), leaves(50, "two")]
    (bought,) = affordable(asked, candidates, [wanted("x", "y", cents=10, capacity=BOTH)])
    assert bought.requirements.get(labels.CAPACITY_TYPE).values == {SPOT}
    with pytest.raises(Refused, match="SpotToSpotConsolidation is disabled"):
        affordable(asked, candidates[:1], [wanted("x", "y", cents=10, capacity=BOTH)])
    (bought,) = affordable(asked, candidates[:1], [wanted("x", cents=45)])  # on demand is no question of spot
    assert bought.instance_types == ("x",)


def test_one_for_several_of_its_type_must_be_cheaper_than_each_of_them() -> None:
    """One of the nodes could have stayed instead."""
    offers = [("x", "a", ON_DEMAND, 30), ("y", "a", ON_DEMAND, 40), ("z", "a", ON_DEMAND, 29)]
    asked = asked_of(sold(*offers))
    candidates = [leaves(35, "x"), leaves(30, "x"), leaves(40, "y")]
    with pytest.raises(Refused, match="cheaper node"):
        affordable(asked, candidates, [wanted("x", "y", cents=30)])
    (bought,) = affordable(asked, candidates, [wanted("z", "x", "y", cents=29)])
    assert bought.instance_types == ("z",)
    # Two claims, or a single node, are another matter.
    one, two = affordable(asked, candidates, [wanted("x", "y", cents=30), wanted("x", "y", cents=30)])
    assert "y" in one.instance_types and "y" in two.instance_types
    (bought,) = affordable(asked, [leaves(45, "x")], [wanted("x", "y", cents=30)])
    assert bought.instance_types == ("x", "y")


def test_least_values_hold_after_prices_are_compared() -> None:
    family = "karpenter.k8s.aws/instance-family"

    def of(name: str) -> Requirement:
        return Requirement.new(family, "In", [name])

    offers = [("x", "a", ON_DEMAND, 20), ("y", "a", ON_DEMAND, 30), ("z", "a", ON_DEMAND, 60)]
    asked = asked_of(sold(*offers, x=of("m"), y=of("c"), z=of("r")))
    for least in (1, 2, 3):
        rules = [Requirement.new(family, "In", ["m", "c", "r"], least)]
        claims = [wanted("x", "y", "z", cents=20, rules=rules)]
        if least < 3:
            (bought,) = affordable(asked, [leaves(50)], claims)
            assert bought.instance_types == ("x", "y")
            assert bought.requirements.get(family).min_values == least
        else:
            text = f"^Filtering by price: minValues requirement is not met for label {family}$"
            with pytest.raises(Refused, match=text):
                affordable(asked, [leaves(50)], claims)


@pytest.mark.parametrize(
    ("listed", "least", "kept"), [(20, None, 15), (15, None, 15), (20, 18, 18), (20, 3, 15), (14, None, None)]
)
def test_a_spot_node_that_follows_one_lists_fifteen_or_as_many_as_it_must(
    listed: int, least: int | None, kept: int | None
) -> None:
    names = [f"k{number:02}" for number in range(listed)]
    values = {name: Requirement.new(labels.INSTANCE_TYPE, "In", [name]) for name in names}
    asked = asked_of(
        sold(*((name, "a", SPOT, 10 + number) for number, name in enumerate(names)), **values),
        spot_to_spot=True,
    )
    claims = [wanted(*names, cents=10, capacity=(SPOT,), least=least)]
    if kept is None:
        with pytest.raises(Refused, match=r"to consolidate, got 14$"):
            affordable(asked, [leaves(50, capacity=SPOT)], claims)
    else:
        (bought,) = affordable(asked, [leaves(50, capacity=SPOT)], claims)
        assert bought.instance_types == tuple(names[:kept])
        found = bought.requirements.get(labels.INSTANCE_TYPE)
        assert (found.values, found.min_values) == (frozenset(names[:kept]), least)


@pytest.mark.parametrize(
    ("spot", "on_demand", "claims_on_spot", "strict"),
    [
        (2, 0, 2, True),
        (2, 0, 1, False),  # half as many
        (3, 0, 2, True),
        (2, 1, 3, True),  # one of them follows the node on demand
        (2, 1, 2, False),
        (2, 2, 4, True),
        (2, 2, 3, False),
        (0, 3, 2, False),
        (0, 1, 2, False),
    ],
)
def test_which_spot_nodes_count_as_followers_of_spot_nodes(
    spot: int, on_demand: int, claims_on_spot: int, strict: bool
) -> None:
    asked = asked_of(sold(("x", "a", SPOT, 1)), spot_to_spot=True)
    candidates = [leaves(50, f"s{number}", SPOT) for number in range(spot)]
    candidates += [leaves(50, f"d{number}") for number in range(on_demand)]
    claims = [wanted("x", cents=1, capacity=(SPOT,))] * claims_on_spot
    if strict:
        with pytest.raises(Refused, match=r"got 1$"):
            affordable(asked, candidates, claims)
    else:
        assert len(affordable(asked, candidates, claims)) == claims_on_spot


def test_each_claim_is_compared_with_one_node_that_goes() -> None:
    asked = asked_of(sold(("x", "a", ON_DEMAND, 10)))
    twins = [replace(leaves(50, "x", zone="a"), name=f"x-{number}") for number in range(3)]
    with pytest.raises(Same) as caught:
        affordable(asked, twins, [wanted("x", cents=10), wanted("x", cents=10)])
    assert caught.value.names == {"x-0", "x-1"}
    assert str(caught.value) == "Can't replace with a cheaper node"


def test_only_spot_nodes_need_many_types() -> None:
    names = [f"k{number:02}" for number in range(15)]
    cheap = [(name, "a", SPOT, 10 + number) for number, name in enumerate(names)]
    asked = asked_of(sold(*cheap, ("x", "a", ON_DEMAND, 10)), spot_to_spot=True)
    claims = [wanted(*names, cents=10, capacity=(SPOT,)), wanted("x", cents=10)]
    spot, on_demand = affordable(asked, [leaves(90, capacity=SPOT)], claims)
    assert (len(spot.instance_types), on_demand.instance_types) == (15, ("x",))


def test_a_node_alone_may_be_followed_by_its_own_type_at_its_own_price() -> None:
    """Elsewhere, and where nothing has to be saved; of several it could have been the one that stays."""
    asked = asked_of(sold(("x", "a", ON_DEMAND, 30)))
    (bought,) = affordable(asked, [leaves(30, "x", least=0)], [wanted("x", cents=30)])
    assert bought.instance_types == ("x",)
    with pytest.raises(Refused, match="cheaper node"):
        affordable(asked, [leaves(30, "x"), leaves(35, "x")], [wanted("x", cents=30)])


def test_prices_are_those_of_each_claims_zones_and_capacity_types() -> None:
    offers = [("x", "a", ON_DEMAND, 20), ("x", "b", ON_DEMAND, 40), ("x", "a", SPOT, 5)]
    asked = asked_of(sold(*offers))
    candidates = [leaves(90), leaves(90, "other")]
    claims = [wanted("x", cents=20), wanted("x", cents=40, zones="b")]
    assert [each.worst for each in affordable(asked, candidates, claims)] == [20 * CENT, 40 * CENT]
    claims = [wanted("x", cents=20), wanted("x", cents=5, capacity=(SPOT,))]
    assert [each.worst for each in affordable(asked, candidates, claims)] == [20 * CENT, 5 * CENT]


def test_what_is_cheaper_than_a_node_that_goes_may_still_cost_too_much() -> None:
    asked = asked_of(sold(("w", "a", ON_DEMAND, 30), ("x", "a", ON_DEMAND, 39), ("y", "a", ON_DEMAND, 45)))
    candidates = [leaves(50, "x", least=20), leaves(10, "v", least=0)]
    (bought,) = affordable(asked, candidates, [wanted("w", "x", "y", cents=30)])
    assert bought.instance_types == ("w", "x")


def test_a_type_is_not_listed_where_one_of_its_offers_is_the_node_that_goes() -> None:
    offers = [("x", "a", ON_DEMAND, 20), ("x", "b", ON_DEMAND, 20), ("y", "a", ON_DEMAND, 10)]
    (bought,) = affordable(
        asked_of(sold(*offers)), [leaves(50, "x", zone="a")], [wanted("y", "x", cents=10, zones="ab")]
    )
    assert bought.instance_types == ("y",)


def test_least_values_of_types_hold_as_well() -> None:
    values = {name: Requirement.new(labels.INSTANCE_TYPE, "In", [name]) for name in "xyz"}
    asked = asked_of(
        sold(("x", "a", ON_DEMAND, 20), ("y", "a", ON_DEMAND, 30), ("z", "a", ON_DEMAND, 60), **values)
    )
    assert affordable(asked, [leaves(50)], [wanted("x", "y", "z", cents=20, least=2)])
    with pytest.raises(Refused, match=f"not met for label {labels.INSTANCE_TYPE}"):
        affordable(asked, [leaves(50)], [wanted("x", "y", "z", cents=20, least=3)])
