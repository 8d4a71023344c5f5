"""The room that a plan leaves is shared out between the zones of pods that must be spread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_order import claim, node, pod, spread

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.workloads import DaemonSet
from dovetail.controllers.provisioning.even import evened
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.resources import pod_requests, total
from dovetail.testing.problems import instance_types, pool, scenario
from dovetail.testing.scenarios import to_problem

TYPE = "m.xlarge"  # of 8 CPUs, of which 7.92 are for pods
MARKET = to_problem(scenario([], [pool("general"), pool("other")], instance_types()))


def problem(*pods: Pod, **more: Any) -> Problem:
    return replace(MARKET, pods=pods, **more)


def bought(name: str, zone: str, *pods: Pod, **more: Any) -> PlannedClaim:
    found = claim(name, zone, *(one.metadata.name for one in pods))
    return replace(found, instance_types=(TYPE,), requests=total(map(pod_requests, pods)), **more)


def plain(name: str, cpu: str = "1", **spec: Any) -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "d", "labels": {"app": "plain"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return decode(document, Pod)


def full(*others: Pod, **more: Any) -> tuple[Problem, Plan]:
    """Node a holds spread pods of 4 CPUs and others of 3.9, node b spread ones of 4: 3.92 are left there."""
    webs = [pod(name, spread(ZONE), cpu="2") for name in "pqrs"]
    plan = Plan(claims=(bought("a", "a", *webs[:2], *others), bought("b", "b", *webs[2:])))
    return problem(*webs, *others, **more), plan


def where(plan: Plan) -> dict[str, str]:
    return {key.removeprefix("d/"): one.name for one in plan.claims for key in one.pods}


def test_a_pod_without_rules_goes_to_the_zone_with_more_room() -> None:
    others = plain("x", "1900m"), plain("y", "1500m"), plain("z", "500m")
    given, plan = full(*others)
    found = evened(given, plan)
    assert where(found) == {**where(plan), "x": "b"}  # 1.92 are free in a then, and 2.02 in b
    pods = {one.key: one for one in given.pods}
    for one in found.claims:
        assert one.requests == total(pod_requests(pods[key]) for key in one.pods)
        assert one.pods == tuple(sorted(one.pods))
    assert replace(found, claims=()) == replace(plan, claims=())


SOFT = spread(ZONE, "ScheduleAnyway")
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE}]}}
OPEN = [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1900m"}}}]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"topologySpreadConstraints": [SOFT]},
        {"affinity": APART},
        {"containers": OPEN},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_one_with_rules_of_its_own_stays(spec: dict[str, Any]) -> None:
    given, plan = full(plain("x", "1900m", **spec), plain("z", "1", nodeSelector={"disk": "ssd"}))
    assert evened(given, plan) == plan


TERM = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "plain"}}}
WISH = [{"weight": 1, "podAffinityTerm": TERM}]


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [spread(HOSTNAME, matchLabels={"app": "plain"})]},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": WISH}}},
    ],
)
def test_one_that_rules_of_others_count_stays(spec: dict[str, Any]) -> None:
    given, plan = full(plain("x", "1900m"), plain("z", "1500m"))
    assert evened(given, plan) != plan
    assert evened(replace(given, pods=(*given.pods, plain("judge", **spec))), plan) == plan


def test_one_that_running_pods_keep_away_stays() -> None:
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
    given, plan = full(plain("x", "1900m"), plain("z", "1500m"))
    guard = plain("guard", "1", affinity=rule, nodeName="old")
    assert evened(replace(given, nodes=(node("old", "b", guard),)), plan) == plan


@pytest.mark.parametrize("change", [{"pool": "other"}, {"taints": (object(),)}, {"instance_types": ()}])
def test_none_goes_to_a_node_of_another_sort_or_without_room(change: dict[str, Any]) -> None:
    given, plan = full(plain("x", "1900m"), plain("z", "1500m"))
    a, b = plan.claims
    changed = replace(plan, claims=(a, replace(b, **change)))
    assert evened(given, changed) == changed


def test_daemons_need_their_room() -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2100m"}}}]}}
    document = {"metadata": {"name": "agent", "namespace": "d"}, "spec": {"template": template}}
    given, plan = full(plain("x", "1900m"), plain("z", "1500m"))
    assert evened(given, plan) != plan
    assert evened(replace(given, daemonsets=(decode(document, DaemonSet),)), plan) == plan


def test_what_leaves_no_zone_room_for_half_a_pod_stays() -> None:
    given, plan = full(
        plain("x", "500m"), *(plain(f"z{n}", "1700m", nodeSelector={"a": "b"}) for n in range(2))
    )
    assert evened(given, plan) == plan
    given, plan = full(plain("x", "1"), plain("z", "2900m", nodeSelector={"a": "b"}))
    assert where(evened(given, plan))["x"] == "b"


def test_a_zone_without_such_pods_gives_what_it_has() -> None:
    webs = [pod(name, spread(ZONE), cpu="2") for name in "pq"]
    others = [plain(name, "1900m") for name in "xy"]
    plan = Plan(claims=(bought("a", "a", *webs, *others), bought("b", "b")))
    assert where(evened(problem(*webs, *others), plan)) == {"p": "a", "q": "a", "x": "b", "y": "b"}


def test_nothing_changes_without_pods_to_be_spread_or_in_one_zone() -> None:
    others = [plain(name, "1900m") for name in "xy"]
    plan = Plan(claims=(bought("a", "a", *others), bought("b", "b")))
    assert evened(problem(*others), plan) is plan
    given, plan = full(plain("x", "1900m"))
    a, b = plan.claims
    alone = replace(plan, claims=(a, replace(b, zone="a")))
    assert evened(given, alone) is alone
