"""Limits that several NodePools share: what is read, what nodes take, what may be launched within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.base.errors import InputError
from dovetail.cluster.shared_limits import Counting, read_shared_limits
from dovetail.controllers.shared_limits import admit
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import ExistingNode, Pool
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.shared_limits import (
    SharedLimit,
    counts_money,
    drawing,
    drawn_by,
    given_back,
    is_shared,
    rooms,
)
from dovetail.units.money import NANO_DOLLARS

CENT = NANO_DOLLARS // 100


def read(text: str) -> tuple[SharedLimit, ...]:
    return read_shared_limits(text, "limits.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("limits: [{name: a, limits: {cpu: 1500m}}]", (SharedLimit("a", (("cpu", 1500),)),)),
        (
            "limits: [{name: a, nodePools: [p, q], limits: {nodes: 3}}]",
            (SharedLimit("a", (("nodes", 3),), ("p", "q")),),
        ),
        (
            "limits: [{name: a, limits: {hourly-cost: 59.5}}]",
            (SharedLimit("a", (("hourly-cost", 5950 * CENT),)),),
        ),
        (
            "limits: [{name: a, limits: {hourly-cost: $60}}]",
            (SharedLimit("a", (("hourly-cost", 6000 * CENT),)),),
        ),
        (
            '{"limits": [{"name": "a", "limits": {"hourly-cost": "0"}}]}',
            (SharedLimit("a", (("hourly-cost", 0),)),),
        ),
        (
            "limits: [{name: a, limits: {nvidia.com/gpu: 20, memory: 1Gi}}]",
            (SharedLimit("a", (("memory", 2**30), ("nvidia.com/gpu", 20))),),
        ),
        ("limits: [{name: a, limits: {cpu: 1e30}}]", (SharedLimit("a", (("cpu", 2**62),)),)),
    ],
)
def test_what_is_read(text: str, expected: tuple[SharedLimit, ...]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("limits.yaml", None, "", "expected an object with limits"),
        ("limits: []", 1, "limits", "no limit is listed"),
        ("limits:\n- name: a\n", 2, "limits[0].limits", "Required value"),
        ("limits:\n- {name: a, limits: {}}\n", 2, "limits[0].limits", "nothing is limited"),
        ("limits:\n- {name: A b, limits: {cpu: 1}}\n", 2, "limits[0].name", "'A b' is no name of a limit"),
        ("limits:\n- name: a\n  limits: {cpu: -1}\n", 3, "limits[0].limits.cpu", "-1 is below zero"),
        ("limits:\n- name: a\n  limits: {cpu: much}\n", 3, "limits[0].limits.cpu", "must be a quantity"),
        (
            "limits:\n- name: a\n  limits: {hourly-cost: 1000001}\n",
            3,
            "limits[0].limits.hourly-cost",
            "1000001 is more than $1,000,000 an hour",
        ),
        (
            "limits:\n- name: a\n  pools: [x]\n  limits: {cpu: 1}\n",
            3,
            "limits[0].pools",
            "unknown field pools",
        ),
        (
            "limits:\n- {name: a, limits: {cpu: 1}}\n- {name: a, limits: {cpu: 2}}\n",
            3,
            "limits[1].name",
            "limits[0] has the name a as well",
        ),
        (
            "limits:\n- name: a\n  nodePools: [p]\n  nodePoolSelector: {}\n  limits: {cpu: 1}\n",
            4,
            "limits[0].nodePoolSelector",
            "nodePools and nodePoolSelector are both given",
        ),
        (
            "limits:\n- name: a\n  nodePoolSelector: {matchLabels: {team: [a]}}\n  limits: {cpu: 1}\n",
            3,
            "limits[0].nodePoolSelector.matchLabels.team",
            "must be of type string",
        ),
    ],
)
def test_what_is_refused_and_where(text: str, line: int | None, path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    fault = caught.value.faults[0]
    assert (fault.source, fault.line, fault.path) == ("limits.yaml", line, path)
    assert message in fault.message


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("", {"a", "b", "c"}),
        ("nodePools: [a, gone], ", {"a"}),
        ("nodePoolSelector: {matchLabels: {team: x}}, ", {"a", "b"}),
        ("nodePoolSelector: {matchExpressions: [{key: team, operator: NotIn, values: [x]}]}, ", {"c"}),
        ("nodePoolSelector: {}, ", {"a", "b", "c"}),
    ],
)
def test_which_pools_are_under_it(choice: str, expected: set[str]) -> None:
    found = read(f"limits: [{{name: l, {choice}limits: {{cpu: 1}}}}]")
    pools = {"a": {"team": "x"}, "b": {"team": "x"}, "c": {}}
    assert {name for name, carried in pools.items() if drawn_by(found, name, carried)} == expected


def kind(name: str, cpu: int, *prices: tuple[str, str, int]) -> InstanceType:
    """A type of so many CPUs, by zone and capacity type with a price in cents."""
    offerings = tuple(
        Offering(
            zone,
            sold_as,
            price * CENT,
            Requirements.from_labels({labels.ZONE: zone, labels.CAPACITY_TYPE: sold_as}),
        )
        for zone, sold_as, price in prices
    )
    own = Requirements.from_labels({labels.INSTANCE_TYPE: name})
    return InstanceType(name, own, offerings, {"cpu": cpu * 1000, "memory": cpu * 2**32})


SMALL = kind("small", 2, ("a", "on-demand", 10), ("b", "on-demand", 10), ("a", "spot", 3), ("b", "spot", 5))
LARGE = kind("large", 4, ("a", "on-demand", 20), ("b", "on-demand", 20), ("a", "spot", 6), ("b", "spot", 4))
HUGE = kind("huge", 64, ("a", "on-demand", 320), ("a", "spot", 9))
TYPES = (SMALL, LARGE, HUGE)
LIMITS = read("limits: [{name: l, limits: {cpu: 40, hourly-cost: 1}}]")
CPU, MONEY = "the shared limit l (cpu)", "the shared limit l (hourly-cost)"


def counting(types: tuple[InstanceType, ...] = TYPES, volumes: int = 0) -> Counting:
    return Counting(LIMITS, (), lambda name: (types, volumes) if name == "p" else ((), 0))


def claim(
    name: str = "p-1", *, sold_as: Sequence[str] = ("spot", "on-demand"), types: Sequence[str] = ()
) -> PlannedClaim:
    """A claim of these types, priced as the small one's cheapest offering."""
    listed = tuple(types or ("small", "large", "huge"))
    wanted = (
        Requirement.new(labels.INSTANCE_TYPE, "In", listed),
        Requirement.new(labels.CAPACITY_TYPE, "In", tuple(sold_as)),
    )
    cheapest = "spot" if "spot" in sold_as else "on-demand"
    price = 3 * CENT if cheapest == "spot" else 10 * CENT
    return PlannedClaim(
        name, "p", (name,), Requirements.of(wanted), listed, {}, "small", "a", cheapest, price, 320 * CENT
    )


def test_quotas_read_as_the_end_of_a_reason() -> None:
    assert dict(drawn_by(LIMITS, "p", {})) == {CPU: "cpu", MONEY: "hourly-cost"}
    assert counts_money(MONEY) and not counts_money(CPU)
    assert is_shared(CPU) and not is_shared("on-demand vCPUs")


def test_offerings_draw_what_they_are_and_what_they_cost() -> None:
    drawn = drawn_by(LIMITS, "p", {})
    found = drawing(TYPES, drawn, CENT)
    assert dict(found[1].offerings[3].draws) == {CPU: 4000, MONEY: 5 * CENT}
    overlaid = (replace(SMALL, offerings=(replace(SMALL.offerings[0], price=1, list_price=10 * CENT),)),)
    assert dict(drawing(overlaid, drawn, 0)[0].offerings[0].draws)[MONEY] == 10 * CENT  # what is billed
    assert drawing(TYPES, drawn, CENT) is found  # tables of the solver are kept by the object
    assert drawing(TYPES, (), CENT) is TYPES
    assert drawing((SMALL, LARGE, HUGE), drawn, CENT) is not found


def test_room_is_never_negative_but_for_what_goes() -> None:
    used = {CPU: 50_000, MONEY: 20 * CENT}
    assert rooms(LIMITS, used, {}) == {CPU: 0, MONEY: 80 * CENT}
    assert rooms(LIMITS, used, {CPU: 4000}) == {CPU: 4000, MONEY: 80 * CENT}


def test_nodes_that_go_give_back_what_they_take() -> None:
    carried = {labels.INSTANCE_TYPE: "large", labels.ZONE: "b", labels.CAPACITY_TYPE: "spot"}
    node = ExistingNode("n", carried, (), {}, {"cpu": 3900}, pool="p")
    drawn = drawn_by(LIMITS, "p", {})
    pool = Pool("p", None, Requirements(), {}, drawing(TYPES, drawn, CENT), shared=drawn)  # type: ignore[arg-type]
    left = {CPU: 100, MONEY: CENT, "vCPUs": 5}
    assert given_back(left, [pool], [node]) == {CPU: 4000, MONEY: 6 * CENT, "vCPUs": 5}
    assert given_back(left, [pool], [replace(node, pool="static")]) == left


def worst(found: Sequence[tuple[PlannedClaim, str]]) -> tuple[int, int]:
    """CPUs and cents that the claims which may be launched come up with at most, from the types alone."""
    cpu = cents = 0
    for one, why in found:
        if not why:
            zones, sold_as = one.requirements.get(labels.ZONE), one.requirements.get(labels.CAPACITY_TYPE)
            listed = [each for each in TYPES if one.requirements.get(labels.INSTANCE_TYPE).has(each.name)]
            cpu += max(each.capacity["cpu"] for each in listed) // 1000
            cents += max(
                offering.price // CENT
                for each in listed
                for offering in each.offerings
                if zones.has(offering.zone) and sold_as.has(offering.capacity_type)
            )
    return cpu, cents


@given(
    st.lists(
        st.tuples(
            st.sampled_from([("spot",), ("on-demand",), ("spot", "on-demand")]),
            st.sampled_from([("small",), ("small", "large"), ("small", "large", "huge")]),
        ),
        max_size=12,
    ),
    st.integers(0, 200),
    st.integers(0, 2000),
)
def test_whatever_the_cloud_chooses_is_within_the_room(
    kinds: list[tuple[tuple[str, ...], tuple[str, ...]]], cpu: int, cents: int
) -> None:
    claims = [claim(f"p-{at}", types=types, sold_as=sold_as) for at, (sold_as, types) in enumerate(kinds)]
    found = admit(counting(), claims, {CPU: cpu * 1000, MONEY: cents * CENT})
    assert [one.name for one, _ in found] == [one.name for one in claims]
    most = worst(found)
    assert most[0] <= cpu and most[1] <= cents
    for (one, why), asked in zip(found, claims, strict=True):
        assert why or asked.instance_type in one.instance_types  # what it is priced by is never lost
        assert not why or one is asked
    # No claim is refused that its price has room for.
    refused = [one for one, why in found if why]
    rest_cpu = cpu - 2 * (len(claims) - len(refused))
    rest = cents - sum(one.price // CENT for one, why in found if not why)
    assert all(rest_cpu < 2 or rest < one.price // CENT for one in refused)


def test_with_plenty_a_claim_is_left_as_it_is() -> None:
    asked = claim()
    ((found, why),) = admit(counting(), [asked], {CPU: 10**9, MONEY: 10**15})
    assert found is asked and not why


def test_a_claim_of_another_pool_is_none_of_its_business() -> None:
    asked = replace(claim(), pool="other")
    only = read("limits: [{name: l, nodePools: [p], limits: {cpu: 0}}]")
    found = Counting(only, [], lambda _: (TYPES, 0))
    assert admit(found, [asked], {CPU: 0}) == [(asked, "")]


def test_capacity_type_and_zone_are_settled_only_where_nothing_else_helps() -> None:
    ((found, _),) = admit(counting(), [claim()], {CPU: 4000, MONEY: 10 * CENT})
    assert found.instance_types == ("small",)
    assert not found.requirements.has(labels.ZONE)
    assert found.requirements.get(labels.CAPACITY_TYPE).values == {"spot", "on-demand"}
    ((found, _),) = admit(counting(), [claim()], {CPU: 4000, MONEY: 6 * CENT})
    assert (found.instance_types, found.worst) == (("small", "large"), 6 * CENT)
    assert found.requirements.get(labels.CAPACITY_TYPE).values == {"spot"}
    ((found, _),) = admit(counting(), [claim(types=("small", "large"))], {CPU: 4000, MONEY: 6 * CENT})
    assert (found.instance_types, found.worst) == (("small", "large"), 6 * CENT)  # all of them, as spot
    assert found.requirements.get(labels.CAPACITY_TYPE).values == {"spot"}
    ((found, _),) = admit(counting(), [claim()], {CPU: 4000, MONEY: 4 * CENT})
    assert (found.instance_types, found.worst) == (("small",), 3 * CENT)
    assert found.requirements.get(labels.ZONE).values == {"a"}


def test_a_claim_that_would_be_too_uniform_is_refused() -> None:
    asked = claim()
    several = Requirement.new(labels.INSTANCE_TYPE, "In", asked.instance_types, 3)
    asked = replace(
        asked, requirements=Requirements({**asked.requirements.by_key, labels.INSTANCE_TYPE: several})
    )
    ((found, why),) = admit(counting(), [asked], {CPU: 8000, MONEY: 400 * CENT})
    assert found is asked
    assert why == f"not enough is left of {CPU} for the minValues of node.kubernetes.io/instance-type"
