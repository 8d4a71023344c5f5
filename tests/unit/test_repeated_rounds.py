"""When a round of provisioning may repeat the answer of the one before, and when it must plan again."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Node, PersistentVolume, Pod, PodStatus
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import DaemonSet
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build
from dovetail.controllers.provisioning.repeat import Leftover, same_question
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import OUT_OF_TIME, Plan, Unschedulable
from dovetail.model.problem import Options, Problem
from dovetail.solve.solver import solve

REFERENCE = {"group": "example.com", "kind": "NodeClass", "name": "default"}
OPTIONS = Options(well_known=frozenset({labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE}))


def types(*, price: float = 0.1, available: bool = True) -> tuple[InstanceType, ...]:
    offering = {"price": price, "requirements": {labels.ZONE: "a", labels.CAPACITY_TYPE: "on-demand"}}
    name = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m.2"]}
    return parse_instance_types(
        [
            {
                "name": "m.2",
                "requirements": [name],
                "offerings": [{**offering, "available": available}],
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"},
            }
        ]
    )


def pool(limit: str = "0", weight: int = 0) -> NodePool:
    spec = {"template": {"spec": {"nodeClassRef": REFERENCE}}, "limits": {"cpu": limit}, "weight": weight}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return decode({"metadata": {"name": "default"}, "spec": spec, "status": status}, NodePool)


def pod(name: str, cpu: str = "1", node: str = "", **meta: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", **meta}
    return decode({"metadata": meta, "spec": {"containers": containers, "nodeName": node}}, Pod)


def node(name: str = "base", cpu: str = "1", **spec: Any) -> Node:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}, "capacity": {"cpu": cpu, "pods": "10"}}
    meta = {"name": name, "labels": {labels.HOSTNAME: name}}
    return decode({"metadata": meta, "spec": spec, "status": status}, Node)


def daemonset(cpu: str = "10m") -> DaemonSet:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    template = {"spec": {"containers": containers}}
    meta = {"name": "agent", "namespace": "kube-system", "resourceVersion": "1"}
    return decode({"metadata": meta, "spec": {"template": template}}, DaemonSet)


TYPES = types()
BOUND = pod("bound", node="base")
OBJECTS = ClusterObjects(
    pools=(pool(),), nodes=(node(),), pods=(BOUND, pod("waiting")), daemonsets=(daemonset(),)
)


def ask(
    objects: ClusterObjects = OBJECTS,
    *pending: Pod,
    types: tuple[InstanceType, ...] = TYPES,
    **options: Any,
) -> Problem:
    return build(objects, pending or (pod("waiting"),), lambda _: types, OPTIONS, **options)


def with_version(item: Pod, version: str) -> Pod:
    return replace(item, metadata=replace(item.metadata, resource_version=version))


def test_the_same_cluster_asks_the_same() -> None:
    assert same_question(ask(), ask())
    assert same_question(ask(), ask(types=types())), "equal types need not be the same objects"


@pytest.mark.parametrize(
    "objects",
    [
        changed(OBJECTS, pods=(replace(with_version(BOUND, "2"), status=PodStatus(phase="Running")),)),
        changed(OBJECTS, daemonsets=(replace(daemonset(), metadata=replace(daemonset().metadata)),)),
    ],
    ids=["a bound pod reports that it runs", "a daemon set is read anew"],
)
def test_what_no_plan_depends_on_is_no_reason_to_plan_again(objects: ClusterObjects) -> None:
    assert same_question(ask(), ask(objects))


def test_a_new_verdict_of_the_scheduler_is_no_reason_to_plan_again() -> None:
    again = replace(with_version(pod("waiting"), "7"), status=PodStatus(message="0/1 nodes are available"))
    assert same_question(ask(), ask(OBJECTS, again))


@pytest.mark.parametrize(
    "other",
    [
        ask(OBJECTS, pod("waiting"), pod("another")),
        ask(OBJECTS, pod("another")),
        ask(OBJECTS, pod("waiting", cpu="2")),
        ask(OBJECTS, pod("waiting", labels={"app": "web"})),
        ask(OBJECTS, pod("waiting", uid="of a pod made anew")),
        ask(changed(OBJECTS, nodes=())),
        ask(changed(OBJECTS, nodes=(node(), node("second")))),
        ask(changed(OBJECTS, nodes=(node(cpu="2"),))),
        ask(changed(OBJECTS, nodes=(node(unschedulable=True),))),
        ask(deleting=frozenset({"base"})),
        ask(changed(OBJECTS, pods=())),
        ask(changed(OBJECTS, pods=(pod("bound", cpu="500m", node="base"),))),
        ask(changed(OBJECTS, pools=())),
        ask(changed(OBJECTS, pools=(pool(limit="8"),))),
        ask(changed(OBJECTS, pools=(pool(weight=3),))),
        ask(changed(OBJECTS, daemonsets=())),
        ask(changed(OBJECTS, daemonsets=(daemonset("20m"),))),
        ask(changed(OBJECTS, volumes=(decode({"metadata": {"name": "v"}}, PersistentVolume),))),
        ask(types=types(price=0.2)),
        ask(types=types(available=False)),
        changed(ask(), options=Options()),
    ],
    ids=[
        "one more pod",
        "another pod",
        "a pod asks for more",
        "a pod's labels",
        "a pod of the same name",
        "a node went",
        "a node came",
        "a node grew",
        "a node was cordoned",
        "a node is going",
        "a pod left its node",
        "a bound pod shrank",
        "a pool went",
        "a pool's limit",
        "a pool's weight",
        "a daemon set went",
        "a daemon set asks for more",
        "a volume",
        "a price",
        "an offering that is short",
        "a setting",
    ],
)
def test_whatever_a_plan_may_depend_on_is_asked_anew(other: Problem) -> None:
    assert not same_question(ask(), other)
    assert not same_question(other, ask())


def test_a_promise_that_ran_out_is_asked_anew() -> None:
    promised = changed(OBJECTS, pods=(pod("first"), pod("waiting")))
    held = ask(promised, promised={"default/first": "base"})
    assert not same_question(held, ask(promised)), "its room is free again"
    assert not same_question(held, ask(promised, pod("first"), pod("waiting"))), "it waits again"


def test_only_a_plan_that_buys_nothing_is_recalled() -> None:
    memory = Leftover()
    assert memory.recall(ask()) is None
    left = solve(ask())
    assert left.unschedulable and not left.claims and not left.existing
    memory.keep(ask(), left)
    assert memory.recall(ask()) is left
    roomy = ask(changed(OBJECTS, pools=(pool(limit="8"),)))
    assert memory.recall(roomy) is None
    buying = solve(roomy)
    assert buying.claims
    memory.keep(roomy, buying)
    assert memory.recall(roomy) is None
    assert memory.recall(ask()) is None


def test_a_plan_that_finds_room_on_nodes_that_are_there_is_recalled() -> None:
    asked = ask(changed(OBJECTS, pods=(pod("waiting"),), nodes=(node(cpu="4"),)))
    placing = solve(asked)
    assert placing.existing and not placing.claims
    memory = Leftover()
    memory.keep(asked, placing)
    assert memory.recall(asked) is placing
    assert memory.recall(ask()) is None


def test_a_plan_that_there_was_no_time_for_is_made_again() -> None:
    problem = ask()
    leftover = Leftover()
    left = Unschedulable("default/waiting", OUT_OF_TIME, {"default": OUT_OF_TIME})
    leftover.keep(problem, Plan(unschedulable=(left,)))
    assert leftover.recall(problem) is None
