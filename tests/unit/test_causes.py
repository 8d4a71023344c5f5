"""Why a pod is not where its plan put it."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.controllers.provisioning.causes import cause

RULE = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "a"}}}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


def spread(when: str) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{**RULE, "maxSkew": 1, "whenUnsatisfiable": when}]}


def pod(cpu: str = "1", **spec: Any) -> Pod:
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": cpu}}}
    return decode(
        {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container], **spec}}, Pod
    )


def node(*taints: dict[str, Any], pods: str = "10") -> Node:
    status = {"allocatable": {"cpu": "4", "pods": pods}}
    return decode({"metadata": {"name": "n"}, "spec": {"taints": list(taints)}, "status": status}, Node)


OPENING = {"key": "dovetail.dev/opening", "effect": "NoSchedule"}
SOFT = {"key": "dovetail.dev/drifted", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("asks", "meant", "there", "expected"),
    [
        pytest.param(pod(), None, (), "taint", id="no node yet"),
        pytest.param(pod(), node(OPENING), (), "taint", id="not open yet"),
        pytest.param(pod(), node(SOFT), (), "score", id="a taint that only asks"),
        pytest.param(pod(tolerations=[{"operator": "Exists"}]), node(OPENING), (), "score", id="tolerated"),
        pytest.param(pod(), node(), (pod("3"),), "score", id="room for just it"),
        pytest.param(pod(), node(), (pod("3100m"),), "order", id="too little room"),
        pytest.param(pod(), node(pods="1"), (pod("1"),), "order", id="too many pods"),
        pytest.param(pod(), node(), (pod("4", priority=1),), "priority", id="of a higher priority"),
        pytest.param(pod(priority=1), node(), (pod("4", priority=1),), "order", id="of the same priority"),
        pytest.param(pod(**spread("DoNotSchedule")), node(), (), "spread", id="must be spread"),
        pytest.param(pod(**spread("ScheduleAnyway")), node(), (), "score", id="would be spread"),
        pytest.param(pod(**spread("DoNotSchedule")), node(), (pod("4"),), "order", id="room first"),
        *(
            pytest.param(pod(affinity={kind: {HARD: [RULE]}}), node(), (), "affinity", id=kind)
            for kind in ("podAffinity", "podAntiAffinity")
        ),
        pytest.param(pod(affinity={"podAntiAffinity": {}}), node(), (), "score", id="no rule in it"),
    ],
)
def test_cause(asks: Pod, meant: Node | None, there: tuple[Pod, ...], expected: str) -> None:
    assert cause(asks, meant, there) == expected
