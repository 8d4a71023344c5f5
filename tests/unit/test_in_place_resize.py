"""Pods that are resized in place take the larger of what they ask for and what they have been given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.redact import Names, redacted
from dovetail.cli.plan_input import read_cluster
from dovetail.disrupt.pods import unbound
from dovetail.explain.sizes import Owner, resized
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.resources import LARGEST, Resources, excess, pod_requests
from dovetail.reading import read
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations

Amounts = dict[str, str]


def _status(name: str, given: Amounts | None, allocated: Amounts | None = None) -> dict[str, Any]:
    resources = {} if given is None else {"resources": {"requests": given, "limits": {"cpu": "64"}}}
    return {
        "name": name,
        "image": "app:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-03-02T00:00:00Z"}},
        **resources,
        **({} if allocated is None else {"allocatedResources": allocated}),
    }


def _pod(
    asked: Amounts, *statuses: dict[str, Any], node: str = "node-1", reason: str = "", **spec: Any
) -> dict[str, Any]:
    pending = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
        "spec": {
            "containers": [{"name": "app", "image": "app:1", "resources": {"requests": asked}}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {"phase": "Running", "conditions": pending, "containerStatuses": list(statuses)},
    }


def _requests(document: dict[str, Any]) -> Resources:
    found = dict(pod_requests(decode(document, Pod)))
    assert found.pop("pods") == 1
    return found


@pytest.mark.parametrize(
    ("asked", "given", "allocated", "reason", "cpu"),
    [
        ("1", "1", "1", "", 1000),
        ("500m", "1", "1", "", 1000),  # it shrinks, and has not yet
        ("500m", "1", "500m", "", 1000),
        ("2", "1", "1", "", 2000),  # it grows: the room is its own already
        ("2", "1", "2", "InProgress", 2000),
        ("2", "1", "1", "Deferred", 2000),
        ("20", "1", "1", "Infeasible", 1000),  # the node never has so much
        ("20", "1", "2", "Infeasible", 2000),
        ("2", None, "9", "", 2000),  # servers before 1.33 did not say what is given
        ("2", "1", None, "", 2000),
    ],
)
def test_the_larger_counts(
    asked: str, given: str | None, allocated: str | None, reason: str, cpu: int
) -> None:
    amounts = [None if one is None else {"cpu": one} for one in (given, allocated)]
    document = _pod({"cpu": asked}, _status("app", amounts[0], amounts[1]), reason=reason)
    assert _requests(document) == {"cpu": cpu}
    # What waits for a node, and what comes in a pod's place, is as it is written.
    written = 500 if asked == "500m" else 1000 * int(asked)
    waiting = decode(_pod({"cpu": asked}, *document["status"]["containerStatuses"], node=""), Pod)
    for pod in (waiting, unbound(decode(document, Pod))):
        assert pod_requests(pod)["cpu"] == written


def test_each_resource_for_itself() -> None:
    document = _pod(
        {"cpu": "2", "memory": "1Gi"}, _status("app", {"cpu": "1", "memory": "2Gi"}, {"cpu": "1"})
    )
    assert _requests(document) == {"cpu": 2000, "memory": 2 << 30}


def test_sidecars_count_as_containers_and_init_containers_as_written() -> None:
    def first(name: str, **more: str) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": "100m"}}, **more}

    document = _pod(
        {"cpu": "1"},
        _status("app", {"cpu": "2"}),
        initContainers=[first("side", restartPolicy="Always"), first("migrate")],
    )
    document["status"]["initContainerStatuses"] = [
        _status("side", {"cpu": "300m"}),
        _status("migrate", {"cpu": "50"}),
    ]
    assert _requests(document) == {"cpu": 2300}


def test_a_pod_as_a_whole_and_its_overhead() -> None:
    document = _pod(
        {"cpu": "1"},
        _status("app", {"cpu": "2", "memory": "1Gi"}),
        resources={"requests": {"cpu": "3"}},
        overhead={"cpu": "100m"},
    )
    assert _requests(document) == {"cpu": 3100, "memory": 1 << 30}


@pytest.mark.parametrize("amount", ["1e30", "9223372036854775807", "-5", "1e-9"])
def test_whatever_stands_in_a_status(amount: str) -> None:
    document = _pod(
        {"cpu": "1"}, _status("app", {"cpu": amount}), _status("app", {"cpu": "2"}), _status("b", {})
    )
    assert 1000 <= _requests(document)["cpu"] < LARGEST
    assert not excess(decode(document, Pod))
    huge = _pod({"cpu": "1"}, _status("app", {"cpu": amount}))
    assert 1000 <= _requests(huge)["cpu"] < LARGEST


def test_room_on_nodes() -> None:
    there = decode(_pod({"cpu": "1"}, _status("app", {"cpu": "3"})), Pod)
    node = ExistingNode("node-1", {}, (), {"cpu": 4000, "pods": 10}, {"cpu": 4000, "pods": 10}, (there,))
    assert node.free(("cpu",)) == [1000]
    owner = Owner("Deployment", "shop", "web")
    after = resized(Problem((), (), (node,)), {owner: {"app": {"cpu": 500}}}, lambda _: owner)
    assert after.nodes[0].free(("cpu",)) == [3500]


def test_the_simulated_scheduler_sees_a_resize() -> None:
    made = Cluster()
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    made.set_node(decode({"metadata": {"name": "node-1"}, "status": {"allocatable": room}}, Node))
    feasibility = Feasibility(made, Nominations(made.view))
    waiting = _pod({"cpu": "2"}, node="")
    waiting["metadata"] = {"name": "new", "namespace": "shop", "uid": "uid-new"}
    found = []
    for asked, given in (("3", "3"), ("1", "3"), ("1", "1"), ("1", "2"), ("1", "1")):
        made.bind(decode(_pod({"cpu": asked}, _status("app", {"cpu": given})), Pod), "node-1")
        made.check()
        found.append([node.name for node in feasibility.judge(decode(waiting, Pod)).nodes])
    assert found == [[], [], ["node-1"], ["node-1"], ["node-1"]]


def test_of_a_dump_and_of_a_snapshot(tmp_path: Path) -> None:
    document = _pod({"cpu": "1"}, _status("app", {"cpu": "3"}, {"cpu": "2"}))
    document["spec"]["containers"][0]["env"] = [{"name": "SECRET", "value": "x"}]
    for clean in (lambda one: one, redacted, lambda one: Names(b"salt").hashed(redacted(one))):
        kept = clean(document)
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [kept]}))
        (pod,) = read_cluster(read([file])).pods
        assert pod_requests(pod)["cpu"] == 3000
    (status,) = redacted(document)["status"]["containerStatuses"]
    assert status.keys() == {"name", "resources", "allocatedResources"}


def test_replicas_share_what_they_are_given() -> None:
    one, other = (
        decode(_pod({"cpu": "1"}, _status("app", {"cpu": "3"}, {"cpu": "3"})), Pod).status.container_statuses[
            0
        ]
        for _ in range(2)
    )
    assert one.resources is not None
    assert other.resources is not None
    assert one.resources.requests is other.resources.requests is other.allocated_resources
