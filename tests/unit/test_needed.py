"""What of a plan is still needed once it is there."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.controllers.provisioning.needed import needs_place, still_needed
from dovetail.model.plan import Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.requirement import Requirements


def pod(*, node: str = "", status: dict[str, Any] | None = None, **meta: Any) -> Pod:
    spec = {"nodeName": node or None, "containers": [{"name": "main"}]}
    whole = {"metadata": {"name": "p", "namespace": "d", **meta}, "spec": spec, "status": status or {}}
    return decode(whole, Pod)


DELETED = "2026-03-01T00:00:00Z"


@pytest.mark.parametrize(
    ("now", "moved", "needed"),
    [
        (pod(), False, True),
        (None, False, False),
        (pod(node="stays"), False, False),  # bound while the plan was made
        (pod(status={"phase": "Succeeded"}), False, False),
        (pod(deletionTimestamp=DELETED), False, False),
        (pod(status={"nominatedNodeName": "n"}), False, False),  # it evicts others for its room
        (
            pod(status={"nominatedNodeName": "n"}, annotations={"dovetail.dev/nominated-node": "n"}),
            False,
            True,
        ),
        (pod(node="goes"), False, True),  # bound, to a node that is on its way out since then
        (pod(node="goes"), True, True),
        (pod(node="goes", deletionTimestamp=DELETED), True, True),  # evicted: its successor needs the place
        (None, True, True),
        (pod(), True, True),  # a StatefulSet's successor has its name
        (pod(node="stays"), True, False),  # such a one is bound, or the node stays after all
        (pod(node="goes", status={"phase": "Failed"}), True, False),
    ],
)
def test_pods_that_need_a_place(now: Pod | None, moved: bool, needed: bool) -> None:
    assert needs_place(now, lambda name: name == "goes", moved=moved) is needed


def claim(name: str, price: int, *pods: str) -> PlannedClaim:
    return PlannedClaim(
        name=name,
        pool="general",
        pods=pods,
        requirements=Requirements(),
        instance_types=("m",),
        requests={},
        instance_type="m",
        zone="z",
        capacity_type="on-demand",
        price=price,
        worst=price,
    )


PLAN = Plan(
    claims=(claim("one", 5, "a", "b"), claim("two", 3, "c")),
    existing={"node": ("d", "e")},
    unschedulable=(Unschedulable("f", "too large"),),
    cost=Cost(8, 7),
)


def outline(plan: Plan) -> dict[str, str]:
    """Pods by where they are to go, and what it costs at most and at least."""
    places = {one.name: "".join(one.pods) for one in plan.claims}
    places |= {name: "".join(pods) for name, pods in plan.existing.items()}
    cost = {"cost": f"{plan.cost.hourly} {plan.cost.lower_bound}"}
    return places | {"left": "".join(plan.left)} | cost


@pytest.mark.parametrize(
    ("waiting", "asked", "left"),
    [
        ("abcdef", "abcdef", outline(PLAN)),
        ("bcf", "abcdef", {"one": "b", "two": "c", "left": "f", "cost": "8 7"}),
        ("abe", "abcdef", {"one": "ab", "node": "e", "left": "", "cost": "5 4"}),
        ("c", "abcdef", {"two": "c", "left": "", "cost": "3 2"}),
        ("f", "abcdef", {"left": "f", "cost": "0 0"}),
        ("", "abcdef", {"left": "", "cost": "0 0"}),
        # The places of all but these were only to be changed for them.
        ("abcde", "f", {"left": "", "cost": "0 0"}),
        ("abcde", "ef", {"one": "ab", "two": "c", "node": "de", "left": "", "cost": "8 7"}),
    ],
)
def test_what_is_left_of_a_plan(waiting: str, asked: str, left: dict[str, str]) -> None:
    assert outline(still_needed(PLAN, asked, lambda key: key in waiting)) == left


def test_a_plan_that_is_needed_whole_is_the_same() -> None:
    assert still_needed(PLAN, "abcdef", lambda _: True) == PLAN
