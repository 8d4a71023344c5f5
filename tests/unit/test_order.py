"""Pods that are alike get their places in the order in which the scheduler comes to them."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.controllers.provisioning import order
from dovetail.controllers.provisioning.order import in_turn
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.requirement import Requirements


def spread(key: str, must: str = "DoNotSchedule", **selector: Any) -> dict[str, Any]:
    labels = selector or {"matchLabels": {"app": "web"}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": must, "labelSelector": labels}


def pod(name: str, *rules: dict[str, Any], app: str = "web", node: str = "", cpu: str = "1") -> Pod:
    spec = {
        "nodeName": node or None,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        "topologySpreadConstraints": list(rules),
    }
    return decode({"metadata": {"name": name, "namespace": "d", "labels": {"app": app}}, "spec": spec}, Pod)


def claim(name: str, zone: str, *pods: str) -> PlannedClaim:
    return PlannedClaim(
        name=name,
        pool="general",
        pods=tuple(f"d/{one}" for one in pods),
        requirements=Requirements(),
        instance_types=("m",),
        requests={},
        instance_type="m",
        zone=zone,
        capacity_type="on-demand",
        price=1,
        worst=1,
    )


def node(name: str, zone: str, *pods: Pod) -> ExistingNode:
    return ExistingNode(name, {ZONE: zone}, (), {}, {}, pods)


def sequence(plan: Plan, names: str) -> str:
    """Where each pod of these one-letter names goes, by the last letter of the claim or node."""
    where = {pod: one.name[-1] for one in plan.claims for pod in one.pods}
    where |= {pod: name[-1] for name, pods in plan.existing.items() for pod in pods}
    return "".join(where[f"d/{name}"] for name in names)


@pytest.mark.parametrize(
    ("rules", "arrived", "bound", "wanted"),
    [
        ((spread(ZONE),), "pqrstu", (), "abcaba"),
        ((spread(ZONE),), "utsrqp", (), "abacba"),  # the last one came first
        ((spread(ZONE),), "", (), "abcaba"),  # a restart: nothing is known but their names
        ((spread(ZONE),), "pqrstu", ("a", "b"), "cababa"),  # c is emptiest
        ((spread(HOSTNAME),), "pqrstu", (), "abcaba"),
        (
            (spread(ZONE, matchExpressions=[{"key": "app", "operator": "Exists"}]),),
            "pqrstu",
            ("a", "b"),
            "cababa",
        ),
        ((spread(ZONE, "ScheduleAnyway"),), "pqrstu", (), "aaabbc"),  # the scheduler never refuses it
        ((), "pqrstu", (), "aaabbc"),
    ],
)
def test_pods_that_are_alike_take_the_emptiest_domain_in_turn(
    rules: tuple[dict[str, Any], ...], arrived: str, bound: tuple[str, ...], wanted: str
) -> None:
    pods = [pod(name, *rules) for name in "pqrstu"]
    nodes = tuple(node(f"n-{zone}", f"z-{zone}", pod(f"old-{zone}", node=f"n-{zone}")) for zone in bound)
    plan = Plan(claims=(claim("x-a", "z-a", *"pqr"), claim("x-b", "z-b", *"st"), claim("x-c", "z-c", "u")))
    found = in_turn(Problem(tuple(pods), (), nodes), plan, [f"d/{name}" for name in arrived])
    assert sequence(found, "pqrstu") == wanted
    assert [len(one.pods) for one in found.claims] == [3, 2, 1]


def test_places_on_nodes_that_are_there_are_handed_out_as_well() -> None:
    pods = [pod(name, spread(ZONE)) for name in "pqrs"]
    plan = Plan(claims=(claim("x-a", "z-a", *"pq"),), existing={"n-b": ("d/r", "d/s")})
    found = in_turn(Problem(tuple(pods), (), (node("n-b", "z-b"),)), plan, [f"d/{name}" for name in "pqrs"])
    assert sequence(found, "pqrs") == "abab"


def test_only_pods_that_are_alike_change_places() -> None:
    large = [pod(name, spread(ZONE), cpu="4") for name in "rs"]
    other = [pod(name, spread(ZONE), app="other") for name in "tu"]
    pods = [pod(name, spread(ZONE)) for name in "pq"] + large + other
    plan = Plan(claims=(claim("x-a", "z-a", *"prt"), claim("x-b", "z-b", *"qsu")))
    found = in_turn(Problem(tuple(pods), ()), plan, ["d/q", "d/p", "d/r", "d/s", "d/u", "d/t"])
    assert sequence(found, "qp") == sequence(found, "rs") == sequence(found, "ut") == "ab"


@pytest.mark.parametrize(
    ("rules", "ordered"),
    [
        ((spread(ZONE),), True),
        ((spread(ZONE),) * 40, False),  # a tenant may write as many as it likes
        ((spread(ZONE, matchExpressions=[{"key": "app", "operator": "In", "values": ["web"]}]),), True),
        (
            (
                spread(
                    ZONE,
                    matchExpressions=[{"key": "app", "operator": "NotIn", "values": [*map(str, range(99))]}],
                ),
            ),
            False,
        ),
    ],
)
def test_what_would_take_too_long_stays_as_it_is(
    rules: tuple[dict[str, Any], ...], ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "MOST_STEPS", 50)
    pods = tuple(pod(name, *rules) for name in "pqrs")
    plan = Plan(claims=(claim("x-a", "z-a", *"pq"), claim("x-b", "z-b", *"rs")))
    nodes = (node("n-a", "z-a"), node("n-b", "z-b"))
    found = in_turn(Problem(pods, (), nodes), plan, ())
    assert (found != plan) is ordered
