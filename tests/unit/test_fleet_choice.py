"""Which offerings a fleet request asks for, and in what order they are tried."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.cloud.choice import MOST_TYPES, Choice, Request, choose, too_few
from dovetail.cloud.simulated.cloud import attempts, depth
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirement, Requirements
from dovetail.units.money import NANO_DOLLARS


def offering(zone: str, capacity_type: str, price: float, **more: Any) -> Offering:
    """An offering at `price` dollars per hour."""
    terms = (
        Requirement.new(labels.ZONE, "In", (zone,)),
        Requirement.new(labels.CAPACITY_TYPE, "In", (capacity_type,)),
    )
    return Offering(zone, capacity_type, round(price * NANO_DOLLARS), Requirements.of(terms), **more)


def kind(name: str, *offerings: Offering, cpu: int = 4000, **capacity: int) -> InstanceType:
    """A type with these offerings."""
    return InstanceType(
        name=name,
        requirements=Requirements.of((Requirement.new(labels.INSTANCE_TYPE, "In", (name,)),)),
        offerings=offerings,
        capacity={"cpu": cpu, "memory": 1 << 33, "pods": 58, **capacity},
    )


SMALL = kind(
    "small",
    offering("a", "on-demand", 0.2),
    offering("b", "on-demand", 0.2),
    offering("a", "spot", 0.08),
    cpu=2000,
)
LARGE = kind("large", offering("a", "on-demand", 0.4), offering("b", "spot", 0.1), cpu=8000)


class TestFleet:
    """Which offerings a request asks for, and in what order."""

    def ask(
        self, types: list[InstanceType], cpu: int = 1000, **allowed: tuple[str, ...]
    ) -> list[tuple[str, str, str]]:
        keys = {"capacity_type": labels.CAPACITY_TYPE, "zone": labels.ZONE}
        terms = Requirements.of(Requirement.new(keys[key], "In", values) for key, values in allowed.items())
        return [one.pool for one in choose(types, Request(terms, {"cpu": cpu})).candidates()]

    def test_only_what_fits_and_is_available(self) -> None:
        dear = kind("dear", offering("a", "on-demand", 1.0, available=False), cpu=32_000)
        assert self.ask([SMALL, LARGE, dear], 3000, capacity_type=("on-demand",)) == [
            ("on-demand", "large", "a")
        ]
        with pytest.raises(InsufficientCapacity):
            self.ask([SMALL, LARGE, dear], 9000)

    def test_spot_before_on_demand(self) -> None:
        assert {pool[0] for pool in self.ask([SMALL, LARGE])} == {"spot"}
        assert {pool[0] for pool in self.ask([SMALL, LARGE], capacity_type=("on-demand",))} == {"on-demand"}

    def test_reserved_before_all_and_the_roomiest_per_zone(self) -> None:
        held = [
            offering("a", "reserved", 0.00001, reservation_id=name, reservation_capacity=left)
            for name, left in (("cr-1", 1), ("cr-2", 5))
        ]
        both = kind("both", offering("a", "spot", 0.01), *held)
        found = choose([SMALL, both], Request(Requirements(), {})).candidates()
        assert [(one.pool, one.offering.reservation_id) for one in found] == [
            (("reserved", "both", "a"), "cr-2")
        ]

    def test_exotic_types_only_when_there_is_nothing_else(self) -> None:
        metal = kind("m5.metal", offering("a", "on-demand", 0.01))
        gpu = kind("g5.large", offering("a", "on-demand", 0.01), **{"nvidia.com/gpu": 1})
        assert self.ask([metal, gpu, SMALL], capacity_type=("on-demand",)) == [
            ("on-demand", "small", "a"),
            ("on-demand", "small", "b"),
        ]
        assert [pool[1] for pool in self.ask([metal, gpu])] == ["g5.large", "m5.metal"]

    def test_spot_dearer_than_on_demand_is_left_out_when_both_are_allowed(self) -> None:
        dear = kind("dear", offering("a", "spot", 0.3), offering("b", "spot", 0.15))
        assert self.ask([SMALL, dear]) == [("spot", "small", "a"), ("spot", "dear", "b")]
        assert len(self.ask([SMALL, dear], capacity_type=("spot",))) == 3

    def test_min_values_keep_exotic_and_dear_ones(self) -> None:
        dear = kind("dear.metal", offering("a", "spot", 0.3))
        varied = Requirements.of((Requirement.new(labels.INSTANCE_TYPE, "Exists", (), 2),))
        found = choose([SMALL, dear], Request(varied, {})).candidates()
        assert [one.pool[1] for one in found] == ["small", "dear.metal"]

    def test_too_little_variety_is_reported(self) -> None:
        varied = Requirements.of((Requirement.new(labels.INSTANCE_TYPE, "Exists", (), 3),))
        with pytest.raises(CreateFailed, match="minValues") as caught:
            choose([SMALL, LARGE], Request(varied, {}))
        assert caught.value.reason == "InstanceTypeResolutionFailed"

    def test_at_most_sixty_types_the_cheapest(self) -> None:
        many = [kind(f"t{i:03}", offering("a", "on-demand", 1 - i / 1000)) for i in range(100)]
        found = self.ask(many)
        assert len(found) == MOST_TYPES
        assert found[0][1] == "t099"
        assert found[-1][1] == "t040"

    def test_on_demand_goes_to_the_lowest_price(self) -> None:
        found = choose(
            [LARGE, SMALL],
            Request(Requirements.of((Requirement.new(labels.CAPACITY_TYPE, "In", ("on-demand",)),)), {}),
        ).candidates()
        prices = [one.offering.price for one in attempts(found, 1, "claim", lambda _: None)]
        assert prices == sorted(prices)
        first = {next(attempts(found, seed, "claim", lambda _: None)).offering.zone for seed in range(20)}
        assert first == {"a", "b"}, "zones of one price take turns"

    def test_spot_weighs_price_and_depth(self) -> None:
        pools = [kind(f"t{i:02}", offering("a", "spot", 0.1 + i / 1000)) for i in range(30)]
        found = choose(pools, Request(Requirements(), {})).candidates()
        order = list(attempts(found, 7, "claim", lambda _: None))
        assert len(order) == len(found)
        deepest = max(depth(7, one.pool) for one in found)
        enough = [one for one in found if 2 * depth(7, one.pool) >= deepest]
        assert order[0] is min(enough, key=lambda one: one.offering.price)
        shallow = next(attempts(found, 7, "claim", lambda pool: 0 if pool == order[0].pool else None))
        assert shallow is not order[0]


def wanting(*capacity: str) -> Requirements:
    return Requirements.of((Requirement.new(labels.CAPACITY_TYPE, "In", capacity),))


@pytest.mark.parametrize(
    ("chosen", "types", "allowed", "worth_a_word"),
    [
        ("on-demand", 4, ("spot", "on-demand"), True),
        ("on-demand", 5, ("spot", "on-demand"), False),  # enough to choose from
        ("on-demand", 4, ("on-demand",), False),  # spot would not do
        ("spot", 4, ("spot", "on-demand"), False),
        ("reserved", 1, ("spot", "on-demand", "reserved"), False),
    ],
)
def test_a_launch_on_demand_of_few_types_that_spot_would_do_for_is_worth_a_word(
    chosen: str, types: int, allowed: tuple[str, ...], worth_a_word: bool
) -> None:
    choice = Choice(tuple(kind(f"type-{number}") for number in range(types)), chosen)
    assert too_few(choice, wanting(*allowed)) is worth_a_word


def reserved(zone: str, price: float, name: str, left: int = 1, terms: str = "default") -> Offering:
    """An offering of a reservation; `terms` is its kind."""
    mark = Requirement.new(labels.AWS + "capacity-reservation-type", "In", (terms,))
    plain = offering(zone, "reserved", price, reservation_id=name, reservation_capacity=left)
    return Offering(
        zone,
        "reserved",
        plain.price,
        Requirements.of((*plain.requirements, mark)),
        reservation_id=name,
        reservation_capacity=left,
    )


def ids(*types: InstanceType) -> list[tuple[str, str, str]]:
    """Type, zone and reservation of each offering that a request asks for."""
    found = choose(types, Request(wanting("reserved", "on-demand"), {"cpu": 1000})).candidates()
    return [(one.instance_type.name, one.offering.zone, one.offering.reservation_id) for one in found]


def test_reservations_of_the_kind_that_has_the_cheapest_are_asked_for_alone() -> None:
    dear = kind("dear", reserved("a", 0.2, "cr-1"), offering("a", "on-demand", 0.01))
    block = kind("block", reserved("a", 0.1, "cb-1", terms="capacity-block"), reserved("b", 0.3, "cr-2"))
    assert ids(dear, block) == [("block", "a", "cb-1")]
    block = kind("block", reserved("a", 0.3, "cb-1", terms="capacity-block"), reserved("b", 0.3, "cr-2"))
    assert ids(dear, block) == [("dear", "a", "cr-1"), ("block", "b", "cr-2")]


def test_a_capacity_block_is_launched_into_alone_and_the_cheapest() -> None:
    terms = "capacity-block"
    first = kind("first", reserved("a", 0.3, "cb-1", terms=terms), reserved("b", 0.2, "cb-2", terms=terms))
    other = kind("other", reserved("b", 0.4, "cb-2", terms=terms), reserved("a", 0.5, "cb-4", terms=terms))
    assert ids(first, other) == [("first", "b", "cb-2")]
    assert ids(other, first) == [("first", "b", "cb-2")]


def test_the_roomiest_reservation_counts_by_type_and_zone() -> None:
    one = kind(
        "one", reserved("a", 0.1, "cr-1", 2), reserved("a", 0.1, "cr-2", 3), reserved("b", 0.1, "cr-3")
    )
    two = kind("two", reserved("a", 0.1, "cr-4", 9), reserved("a", 0.1, "cr-5", 9))
    assert ids(one, two) == [("one", "a", "cr-2"), ("one", "b", "cr-3"), ("two", "a", "cr-4")]


@pytest.mark.parametrize(
    "accelerator", ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron"]
)
def test_accelerators_are_taken_only_where_there_is_nothing_else(accelerator: str) -> None:
    exotic = kind("exotic", offering("a", "on-demand", 0.1), **{accelerator: 1})
    usual = kind("usual", offering("a", "on-demand", 0.9))
    assert ids(exotic, usual) == [("usual", "a", "")]
    assert ids(exotic) == [("exotic", "a", "")]


def test_spot_that_costs_as_much_as_the_cheapest_on_demand_is_kept() -> None:
    types = kind(
        "one", offering("a", "on-demand", 0.2), offering("a", "spot", 0.2), offering("b", "spot", 0.21)
    )
    found = choose([types], Request(wanting("spot", "on-demand"), {"cpu": 1000}))
    assert [(one.zone, one.capacity_type) for one in found.types[0].offerings] == [
        ("a", "on-demand"),
        ("a", "spot"),
    ]


def test_a_claim_gets_only_the_types_that_it_names() -> None:
    wanted = Requirements.of((Requirement.new(labels.INSTANCE_TYPE, "NotIn", ("small",)),))
    found = choose([SMALL, LARGE], Request(wanted, {"cpu": 1000}))
    assert [item.name for item in found.types] == ["large"]


def test_variety_is_asked_of_every_key_that_has_a_least_number() -> None:
    keys = (labels.ARCH, labels.INSTANCE_TYPE)
    free = Requirement.new(labels.ARCH, "Exists", ())
    several = Requirement.new(labels.INSTANCE_TYPE, "Exists", (), 3)
    assert keys[0] < keys[1]  # the one without comes first
    with pytest.raises(CreateFailed, match="is 3, but the 2 cheapest instance types have 2"):
        choose([SMALL, LARGE], Request(Requirements.of((free, several)), {"cpu": 1000}))
