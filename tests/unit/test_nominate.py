"""Which patches a pod's nomination takes, and which nodes open together."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cluster.nodes import Machine
from dovetail.controllers.provisioning.causes import leans, open_to
from dovetail.controllers.provisioning.nominate import (
    nomination,
    up,
)
from dovetail.controllers.provisioning.planned import planned_turn
from dovetail.controllers.provisioning.turns import TURN, Turns
from dovetail.model.labels import NOMINATED, OPENS, REGISTERED

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
MINE = {"annotations": {NOMINATED: "n1"}}


def pod(name: str = "p", spec: dict[str, Any] | None = None, nominated: str = "", **meta: Any) -> Pod:
    status = {"nominatedNodeName": nominated} if nominated else {}
    document = {"metadata": {"name": name, "namespace": "default", "uid": name, **meta}, "spec": spec or {}}
    return decode({**document, "status": status}, Pod)


def node(name: str, *taints: str, registered: bool = True) -> Node:
    marks = {REGISTERED: "true"} if registered else {}
    held = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return decode({"metadata": {"name": name, "labels": marks}, "spec": {"taints": held}}, Node)


def machine(name: str, *taints: str) -> Machine:
    return Machine(node(name, *taints), None)


def unchanged(now: str | None) -> list[dict[str, Any]]:
    found = {"/metadata/uid": "p", "/spec/nodeName": None, "/status/nominatedNodeName": now}
    return [{"op": "test", "path": path, "value": value} for path, value in found.items()]


MARK = "/metadata/annotations/dovetail.dev~1nominated-node"
STATUS = "/status/nominatedNodeName"
FIRST = [
    *unchanged(None),
    {"op": "test", "path": "/metadata/annotations", "value": None},
    {"op": "add", "path": "/metadata/annotations", "value": {NOMINATED: "n1"}},
    {"op": "add", "path": STATUS, "value": "n1"},
]


@pytest.mark.parametrize(
    ("given", "wanted", "operations"),
    [
        (pod(), "n1", FIRST),
        (pod(), "", []),
        (pod(nominated="n1", **MINE), "n1", []),
        (
            pod(nominated="n1", **MINE),
            "n2",
            [
                *unchanged("n1"),
                {"op": "add", "path": MARK, "value": "n2"},
                {"op": "add", "path": STATUS, "value": "n2"},
            ],
        ),
        (
            pod(nominated="n1", **MINE),
            "",
            [*unchanged("n1"), {"op": "remove", "path": STATUS}, {"op": "remove", "path": MARK}],
        ),
        # The scheduler took it away.
        (
            pod(**MINE),
            "n1",
            [*unchanged(None), *({"op": "add", "path": p, "value": "n1"} for p in (MARK, STATUS))],
        ),
        (pod(**MINE), "", [*unchanged(None), {"op": "remove", "path": MARK}]),
        # The scheduler's own, for a pod that evicts others.
        (pod(nominated="n9"), "n1", []),
        (pod(nominated="n9", **MINE), "n1", []),
        (pod(nominated="n9"), "", []),
        (pod(spec={"nodeName": "n3"}), "n1", []),
        (pod(deletionTimestamp="2026-03-02T00:00:00Z"), "n1", []),
    ],
)
def test_a_nomination(given: Pod, wanted: str, operations: list[dict[str, Any]]) -> None:
    assert list(nomination(given, wanted)) == operations


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (machine("n1"), True),
        (machine("n1", "dovetail.dev/opening"), True),
        (machine("n1", "team"), True),
        (machine("n1", "dovetail.dev/opening", "node.kubernetes.io/not-ready"), False),
        (
            Machine(None, decode({"metadata": {"name": "c"}, "spec": {"nodeClassRef": CLASS}}, NodeClaim)),
            False,
        ),
    ],
)
def test_a_node_is_up_when_no_taint_is_left_that_goes(found: Machine, answer: bool) -> None:
    assert up(found) is answer


def test_a_taint_closes_a_node_to_pods_that_do_not_tolerate_it() -> None:
    tolerant = pod(spec={"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert open_to(pod(), node("n1"))
    assert not open_to(pod(), node("n1", "team"))
    assert open_to(tolerant, node("n1", "team"))
    assert not open_to(tolerant, node("n1", "team", "dovetail.dev/opening"))


def alike(owner: str, rule: dict[str, Any], name: str = "p", **more: str) -> Pod:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    node = {"nodeName": more["node"]} if "node" in more else {}
    return pod(name, {**rule, **node}, more.get("nominated", ""), ownerReferences=[reference])


def spread(key: str, must: str = "DoNotSchedule") -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": must}]}


def test_nodes_of_pods_that_are_spread_over_zones_open_with_all_others() -> None:
    assert leans(alike("web", spread(ZONE)))


@pytest.mark.parametrize("rule", [{}, spread(HOST), spread(ZONE, "ScheduleAnyway")])
def test_other_nodes_open_alone(rule: dict[str, Any]) -> None:
    assert not leans(alike("web", rule))


def test_of_pods_that_are_alike_one_that_was_refused_waits_for_those_nominated_to_the_same_node() -> None:
    turns = Turns()
    waiting = [alike("web", spread(ZONE), name) for name in "abc"]
    ready = [alike("web", spread(ZONE), name, nominated="n1") for name in "abc"]
    bound = [alike("web", spread(ZONE), name, node="n1") for name in "abc"]
    for before, after in zip(waiting, ready, strict=True):
        assert turns.follow(None, before) == turns.follow(before, after) == ()

    assert turns.follow(ready[0], waiting[0]) == ()
    assert turns.wait(waiting[0], "n1", 10) == TURN
    assert turns.wait(waiting[0], "n1", 11) == TURN - 1  # since it was asked first
    assert turns.wait(waiting[0], "n2", 10) == 0
    assert turns.follow(ready[1], waiting[1]) == ()
    assert turns.wait(waiting[1], "n1", 20) == TURN
    assert turns.follow(ready[2], bound[2]) == ("default/a", "default/b")
    assert turns.wait(waiting[0], "n1", 30) == 0

    for before, after in zip(waiting[:2], ready[:2], strict=True):
        assert turns.follow(before, after) == ()
    assert turns.follow(ready[0], waiting[0]) == ()
    assert turns.wait(waiting[0], "n1", 5 * TURN) == TURN
    assert turns.follow(waiting[0], None) == ()
    assert turns.follow(ready[1], None) == ("default/a",)


def test_the_turn_is_left_to_others_for_a_while_only() -> None:
    turns = Turns()
    one, other = (alike("web", spread(HOST), name, nominated="n1") for name in "ab")
    turns.follow(None, one)
    turns.follow(None, other)
    refused = alike("web", spread(HOST), "a")
    turns.follow(one, refused)
    assert turns.wait(refused, "n1", 0) == TURN
    assert turns.wait(refused, "n1", TURN) == 0
    turns.follow(refused, one)  # nominated once more, and refused once more
    turns.follow(one, refused)
    assert turns.wait(refused, "n1", 3 * TURN) == TURN


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (alike("web", {}, "a"), alike("web", {}, "b", nominated="n1")),
        (alike("web", spread(ZONE, "ScheduleAnyway"), "a"), alike("web", spread(ZONE), "b", nominated="n1")),
        (alike("web", spread(ZONE), "a"), alike("batch", spread(ZONE), "b", nominated="n1")),
        (pod("a", spread(ZONE)), pod("b", spread(ZONE), nominated="n1")),
    ],
)
def test_pods_that_do_not_keep_each_other_out_do_not_wait(one: Pod, other: Pod) -> None:
    turns = Turns()
    turns.follow(None, other)
    assert turns.wait(one, "n1", 0) == 0


@pytest.mark.parametrize(
    ("mark", "turn"), [("1", 1), ("24", 24), ("", 0), ("-1", 0), ("1.5", 0), ("²", 0), ("9" * 5_000, 0)]
)
def test_a_turn_that_is_no_number_is_not_known(mark: str, turn: int) -> None:
    claim = decode(
        {"metadata": {"name": "c", "annotations": {OPENS: mark}}, "spec": {"nodeClassRef": CLASS}}, NodeClaim
    )
    assert planned_turn(Machine(None, claim)) == turn
    assert planned_turn(machine("n1")) == 0
