"""What NodeOverlays make of the types that controllers see, and of the marks on claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.runtime import validate_node_overlay
from dovetail.base.errors import CreateFailed
from dovetail.cloud.provider import as_sold
from dovetail.cloud.unavailable import without
from dovetail.controllers.overlays import Overlays
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.overlays import INVALID, Overlaid, Supply, Verdict, evaluate
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST
from dovetail.units.money import DEAREST, NANO_DOLLARS

HALF = {"priceAdjustment": "-50%"}


def overlay(name: str = "a", **spec: Any) -> NodeOverlay:
    return decode({"metadata": {"name": name}, "spec": spec}, NodeOverlay)


def kind(name: str, *prices: int) -> InstanceType:
    offerings = tuple(
        Offering(zone, labels.ON_DEMAND, price, Requirements.from_labels({labels.ZONE: zone}))
        for zone, price in zip("abc", prices, strict=False)
    )
    terms = Requirements.from_labels({labels.INSTANCE_TYPE: name})
    return InstanceType(name, terms, offerings, {"cpu": 2_000})


TYPES = (kind("m5.large", 100, 120), kind("c5.large", 80))


def found(*overlays: NodeOverlay, types: tuple[InstanceType, ...] = TYPES) -> Overlaid:
    return evaluate(overlays, [Supply("general", {labels.NODEPOOL: "general"}, types)])


def claim(pool: str) -> NodeClaim:
    spec = {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}
    stamped = {labels.NODEPOOL: pool} if pool else {}
    return decode({"metadata": {"name": "c", "labels": stamped}, "spec": spec}, NodeClaim)


def test_a_pool_has_no_types_and_launches_wait_until_it_was_evaluated() -> None:
    shared = Overlays(enabled=True)
    assert shared.types("general", TYPES) == ()
    with pytest.raises(CreateFailed, match="NodePool general was not evaluated"):
        shared.of(claim("general"))
    shared.swap(found())
    assert shared.types("general", TYPES) is TYPES
    assert shared.of(claim("general"))(TYPES) is TYPES
    assert shared.types("new", TYPES) == ()


def test_the_same_types_are_answered_until_something_changes() -> None:
    shared = Overlays(enabled=True)
    shared.swap(found(overlay(**HALF)))
    first = shared.types("general", TYPES)
    assert [[one.price for one in each.offerings] for each in first] == [[50, 60], [40]]
    assert shared.types("general", TYPES) is first
    dearer = (kind("m5.large", 200, 120), TYPES[1])
    assert shared.types("general", dearer)[0].offerings[0].price == 100, "what changed since is adjusted too"
    shared.swap(found())
    assert shared.types("general", TYPES) is TYPES


def test_claims_without_a_pool_and_shut_gates_have_no_overlays() -> None:
    shared = Overlays(enabled=True)
    shared.swap(found(overlay(**HALF)))
    assert shared.of(claim("")) is as_sold
    shut = Overlays()
    shut.swap(found(overlay(**HALF)))
    assert shut.types("general", TYPES) is TYPES
    assert shut.of(claim("general")) is as_sold
    assert shut.marks("general", ["m5.large"]) == {}


def test_claims_are_marked_for_what_changed_of_the_types_that_they_may_become() -> None:
    large = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}]
    shared = Overlays(enabled=True)
    shared.swap(found(overlay(requirements=large, **HALF), overlay("b", capacity={"x.io/a": "1"})))
    assert shared.marks("general", ["c5.large"]) == {labels.CAPACITY_OVERLAID: "true"}
    assert shared.marks("general", ["m5.large", "c5.large"]) == {
        labels.PRICE_OVERLAID: "true",
        labels.CAPACITY_OVERLAID: "true",
    }
    assert shared.marks("other", ["m5.large"]) == shared.marks("general", ["z"]) == {}


def test_amounts_beyond_all_measure_stay_within_what_the_solver_takes() -> None:
    result = found(overlay(price="9" * 400, capacity={"x.io/a": "1E"})).types("general", TYPES)
    assert {one.price for each in result for one in each.offerings} == {DEAREST * NANO_DOLLARS}
    assert {each.capacity["x.io/a"] for each in result} == {LARGEST - 1}


NAMED = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["p9.large"]}
ELSEWHERE = {"key": labels.ZONE, "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("spec", "sold"),
    [
        ({"price": "2", "requirements": [NAMED]}, True),
        ({"priceAdjustment": "+2", "requirements": [NAMED]}, False),
        ({"price": "2", "requirements": [NAMED, ELSEWHERE]}, False),
        ({"price": "2"}, False),
    ],
)
def test_what_has_no_price_is_sold_at_an_absolute_one_of_types_that_are_named(
    spec: dict[str, Any], sold: bool
) -> None:
    (bare,) = kind("p9.large", 0).offerings
    preview = replace(kind("p9.large"), offerings=(replace(bare, available=False, unpriced=True),))
    (after,) = found(overlay(**spec), types=(preview,)).types("general", (preview,))
    assert after.offerings[0].available == sold
    assert after.offerings[0].unpriced != sold
    # What refused a launch stays away for its time.
    (refused,) = without((preview,), frozenset({(labels.ON_DEMAND, "p9.large", "a")}))
    (after,) = found(overlay(**spec), types=(preview,)).types("general", (refused,))
    assert not after.offerings[0].available


def test_an_absolute_price_is_no_estimate() -> None:
    (guessed,) = (replace(one, estimated=True) for one in kind("m5.large", 100).offerings)
    types = (replace(kind("m5.large"), offerings=(guessed,)),)
    for spec, estimated in ((HALF, True), ({"price": "2"}, False)):
        (after,) = found(overlay(**spec), types=types).types("general", types)
        assert after.offerings[0].estimated == estimated


@pytest.mark.parametrize("spec", [{"price": "dear"}, {"price": "NaN"}, {"priceAdjustment": "+1e999999999"}])
def test_a_price_that_is_no_number_costs_its_overlay_alone(spec: dict[str, str]) -> None:
    result = found(overlay("b", **spec), overlay("a", **HALF))
    (text,) = spec.values()
    assert result.verdicts["b"] == Verdict(INVALID, f"invalid value: {text} in price, restricted")
    assert result.types("general", TYPES)[1].offerings[0].price == 40


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        ({"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]}, []),
        ({"capacity": {"nvidia.com/gpu": "2", "amd.com/gpu": "1"}}, []),
        (
            {"requirements": [{"key": "a", "operator": "Gt", "values": ["x"]}], "capacity": {"pods": "1"}},
            [
                "invalid value: key a with operator Gt must have a single positive integer value "
                "in requirements, restricted",
                "invalid capacity: pods in resource, restricted",
            ],
        ),
        (
            {"requirements": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]},
            ["invalid value: using label kubernetes.io/hostname is not allowed"],
        ),
    ],
)
def test_what_only_the_controller_can_refuse(spec: dict[str, Any], messages: list[str]) -> None:
    told = validate_node_overlay(overlay(**spec))
    assert len(told) == len(messages)
    assert all(text.startswith(message) for text, message in zip(told, messages, strict=True))
