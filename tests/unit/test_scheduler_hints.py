"""After which changes the scheduler tries a pod again, by what refused it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.model.cluster_view import NodeView, PodFacts
from dovetail.model.filters import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
    VOLUME_ZONE,
)
from dovetail.model.volumes import VolumeIndex
from dovetail.simulate.scheduler.hints import after_binding, after_leaving, after_node, after_volumes

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TAINT = {"key": "coming", "effect": "NoSchedule"}
ALL = {
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_VOLUME_LIMITS,
    VOLUME_BINDING,
    VOLUME_ZONE,
    POD_TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
}


def node(
    cpu: int = 4,
    *,
    zone: str = "a",
    tainted: bool = False,
    cordoned: bool = False,
    labels: Mapping[str, str] = {},
) -> NodeView:
    """A node; without a zone it has no such label."""
    document = {
        "metadata": {"name": "n1", "labels": {HOST: "n1", **({ZONE: zone} if zone else {}), **labels}},
        "spec": {"taints": [TAINT] if tainted else [], "unschedulable": cordoned},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}},
    }
    return NodeView.of(decode(document, Node))


def facts(labels: Mapping[str, str] = {"app": "web"}, namespace: str = "default", **spec: Any) -> PodFacts:
    """A pod of two CPUs."""
    main = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "2"}}}
    document = {
        "metadata": {"name": "p", "namespace": namespace, "uid": "p", "labels": dict(labels)},
        "spec": {"containers": [main], **spec},
    }
    return PodFacts.of(decode(document, Pod), VolumeIndex())


def ports(number: int) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "pause", "ports": [{"containerPort": 80, "hostPort": number}]}]


def term(app: str, key: str = ZONE) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


SPREAD = {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term("web")}]}
NEAR = {"affinity": affinity("podAffinity", term("db"))}
APART = {"affinity": affinity("podAntiAffinity", term("web"))}
PLAIN, LOOKS = facts(), facts(nodeSelector={"team": "red"})
SPREADS, NEARS, APARTS = facts(**SPREAD), facts(**NEAR), facts(**APART)
RED = {"team": "red"}


@pytest.mark.parametrize(
    ("pod", "old", "new", "helped"),
    [
        pytest.param(
            PLAIN,
            None,
            node(),
            ALL - {INTER_POD_AFFINITY},
            id="one joins",
        ),
        pytest.param(
            PLAIN,
            None,
            node(tainted=True),
            ALL - {TAINT_TOLERATION, INTER_POD_AFFINITY},
            id="one joins with a taint",
        ),
        pytest.param(
            PLAIN,
            None,
            node(cordoned=True),
            ALL - {NODE_UNSCHEDULABLE, INTER_POD_AFFINITY},
            id="one joins that is cordoned",
        ),
        pytest.param(
            PLAIN,
            None,
            node(1),
            ALL - {NODE_RESOURCES_FIT, INTER_POD_AFFINITY},
            id="one joins that is too small",
        ),
        pytest.param(
            LOOKS,
            None,
            node(),
            ALL - {NODE_AFFINITY, INTER_POD_AFFINITY},
            id="one joins that is not meant",
        ),
        pytest.param(LOOKS, None, node(labels=RED), ALL - {INTER_POD_AFFINITY}, id="one joins that is meant"),
        pytest.param(
            SPREADS,
            None,
            node(zone=""),
            ALL - {POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY},
            id="one joins without the spread's label",
        ),
        pytest.param(
            SPREADS, None, node(), ALL - {INTER_POD_AFFINITY}, id="one joins with the spread's label"
        ),
        pytest.param(
            NEARS,
            None,
            node(zone=""),
            ALL - {INTER_POD_AFFINITY},
            id="one joins without the affinity's label",
        ),
        pytest.param(NEARS, None, node(), ALL, id="one joins with the affinity's label"),
        pytest.param(APARTS, None, node(zone=""), ALL, id="any joins for those that must be apart"),
        pytest.param(
            PLAIN,
            node(tainted=True),
            node(),
            ALL - {NODE_UNSCHEDULABLE, NODE_VOLUME_LIMITS},
            id="a taint goes",
        ),
        pytest.param(
            PLAIN,
            node(),
            node(tainted=True),
            ALL - {NODE_UNSCHEDULABLE, NODE_VOLUME_LIMITS, TAINT_TOLERATION},
            id="a taint comes",
        ),
        pytest.param(
            SPREADS,
            node(zone="", tainted=True),
            node(zone=""),
            ALL - {NODE_UNSCHEDULABLE, NODE_VOLUME_LIMITS, POD_TOPOLOGY_SPREAD},
            id="a taint goes from one without the spread's label",
        ),
        pytest.param(
            PLAIN,
            node(cordoned=True),
            node(),
            ALL - {TAINT_TOLERATION, NODE_VOLUME_LIMITS, POD_TOPOLOGY_SPREAD},
            id="a cordon goes",
        ),
        pytest.param(PLAIN, node(), node(cordoned=True), set(), id="a cordon comes"),
        pytest.param(PLAIN, node(1), node(4), {NODE_RESOURCES_FIT}, id="it grows to hold the pod"),
        pytest.param(PLAIN, node(4), node(5), {NODE_RESOURCES_FIT}, id="it grows"),
        pytest.param(PLAIN, node(0), node(1), set(), id="it grows and is too small"),
        pytest.param(PLAIN, node(5), node(4), set(), id="it shrinks"),
        pytest.param(
            LOOKS,
            node(),
            node(labels=RED),
            {NODE_AFFINITY, VOLUME_BINDING, VOLUME_ZONE},
            id="a label comes that is meant",
        ),
        pytest.param(
            LOOKS, node(labels=RED), node(), {VOLUME_BINDING, VOLUME_ZONE}, id="a label goes that is meant"
        ),
        pytest.param(
            SPREADS,
            node(),
            node(zone="b"),
            {POD_TOPOLOGY_SPREAD, VOLUME_BINDING, VOLUME_ZONE},
            id="the zone changes that is spread over",
        ),
        pytest.param(
            SPREADS,
            node(),
            node(zone=""),
            {POD_TOPOLOGY_SPREAD, VOLUME_BINDING, VOLUME_ZONE},
            id="the zone goes that is spread over",
        ),
        pytest.param(
            NEARS,
            node(zone=""),
            node(),
            {INTER_POD_AFFINITY, VOLUME_BINDING, VOLUME_ZONE},
            id="the zone comes to be near in",
        ),
        pytest.param(
            APARTS, node(zone=""), node(), {VOLUME_BINDING, VOLUME_ZONE}, id="the zone comes to be apart in"
        ),
        pytest.param(
            APARTS,
            node(),
            node(zone=""),
            {INTER_POD_AFFINITY, VOLUME_BINDING, VOLUME_ZONE},
            id="the zone goes to be apart in",
        ),
        pytest.param(SPREADS, node(), None, {POD_TOPOLOGY_SPREAD}, id="one goes with the spread's label"),
        pytest.param(SPREADS, node(zone=""), None, set(), id="one goes without the spread's label"),
    ],
)
def test_a_node_changes(pod: PodFacts, old: NodeView | None, new: NodeView | None, helped: set[str]) -> None:
    assert {by for by in ALL if after_node(pod, {by}, old, new)} == helped
    assert after_node(pod, ALL, old, new) == bool(helped)


WEB, DB = facts(), facts({"app": "db"})
ELSEWHERE = facts(namespace="other")


@pytest.mark.parametrize(
    ("pod", "other", "came", "left"),
    [
        pytest.param(PLAIN, WEB, set(), set(), id="nothing in common but room"),
        pytest.param(SPREADS, WEB, {POD_TOPOLOGY_SPREAD}, {POD_TOPOLOGY_SPREAD}, id="one that is counted"),
        pytest.param(SPREADS, DB, set(), set(), id="one that is not counted"),
        pytest.param(SPREADS, ELSEWHERE, set(), set(), id="one of another namespace"),
        pytest.param(NEARS, DB, {INTER_POD_AFFINITY}, set(), id="one to be near"),
        pytest.param(NEARS, WEB, set(), set(), id="one that need not be near"),
        pytest.param(
            facts(affinity=affinity("podAffinity", term("db"), term("web"))),
            DB,
            set(),
            set(),
            id="one that only one of two terms means",
        ),
        pytest.param(APARTS, WEB, set(), {INTER_POD_AFFINITY}, id="one to be apart from"),
        pytest.param(WEB, APARTS, set(), {INTER_POD_AFFINITY}, id="one that would be apart"),
        pytest.param(APARTS, DB, set(), set(), id="one that need not be apart"),
        pytest.param(
            facts(containers=ports(80)), facts(containers=ports(80)), set(), {NODE_PORTS}, id="the same port"
        ),
        pytest.param(
            facts(containers=ports(80)), facts(containers=ports(81)), set(), set(), id="another port"
        ),
    ],
)
def test_a_pod_comes_to_a_node_or_leaves_it(
    pod: PodFacts, other: PodFacts, came: set[str], left: set[str]
) -> None:
    assert {by for by in ALL if after_binding(pod, {by}, other, {})} == came
    assert {by for by in ALL if after_leaving(pod, {by}, other, {})} == left | {NODE_RESOURCES_FIT}


def test_volumes_change() -> None:
    assert {by for by in ALL if after_volumes({by})} == {VOLUME_BINDING, VOLUME_ZONE}
