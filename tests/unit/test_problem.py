"""Cluster objects to a Problem, and the solver at its edges."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import CSINode, DaemonSet
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.index import PodIndex
from dovetail.cluster.problem import ClusterObjects, Fault, build, well_known_keys
from dovetail.model import labels
from dovetail.model.problem import Budget, ExistingNode, Options, Problem
from dovetail.model.resources import LARGEST
from dovetail.solve.solver import solve
from dovetail.verify import verify

REFERENCE = {"group": "example.com", "kind": "NodeClass", "name": "default"}
TYPES = parse_instance_types(
    [
        {
            "name": f"m.{cpus}",
            "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [f"m.{cpus}"]}],
            "offerings": [
                {"price": cpus * 0.05, "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: "on-demand"}}
                for zone in "ab"
            ],
            "capacity": {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "50"},
        }
        for cpus in (2, 4, 8)
    ]
)


def pool(name: str = "default", **changes: Any) -> NodePool:
    ready = [{"type": "Ready", "status": "True"}]
    spec = {"template": {"spec": {"nodeClassRef": REFERENCE}}, **changes.pop("spec", {})}
    return decode(
        {"metadata": {"name": name}, "spec": spec, "status": {"conditions": ready}, **changes}, NodePool
    )


def pod(name: str, cpu: str = "1", **spec: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    meta = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return decode({"metadata": meta, "spec": {"containers": containers, **spec}}, Pod)


def claim(name: str, **status: Any) -> NodeClaim:
    meta = {"name": name, "labels": {labels.NODEPOOL: "default"}}
    wanted = [
        {"key": labels.ZONE, "operator": "In", "values": ["a"]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m.2", "m.4"]},
    ]
    spec = {
        "nodeClassRef": REFERENCE,
        "requirements": wanted,
        "startupTaints": [{"key": "s", "effect": "NoSchedule"}],
    }
    return decode({"metadata": meta, "spec": spec, "status": status}, NodeClaim)


def problem(objects: ClusterObjects, *pods: Pod, **options: Any) -> Problem:
    return build(objects, pods, lambda _: TYPES, Options(well_known=well_known_keys(TYPES)), **options)


def test_pools_that_may_not_launch_are_left_out() -> None:
    unready = pool("unready", status={})
    static = pool("static", spec={"replicas": 2})
    objects = ClusterObjects(pools=(pool(), unready, static, pool("heavy", spec={"weight": 5})))
    assert [item.name for item in problem(objects).pools] == ["heavy", "default"]
    assert [item.name for item in problem(objects, require_ready=False).pools] == [
        "heavy",
        "unready",
        "default",
    ]
    assert problem(objects, node_class_kinds=(("other.com", "NodeClass"),)).pools == ()


def test_a_claim_without_a_node_is_in_flight_with_what_is_certain_of_it() -> None:
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "50"}
    launched = claim("new-1", providerID="x:///1", capacity=capacity, allocatable=capacity)
    objects = ClusterObjects(pools=(pool(),), claims=(launched, claim("not-launched")))
    asked = problem(objects, pod("p"))
    (node,) = asked.nodes
    assert node.in_flight and not node.initialized
    assert node.labels[labels.ZONE] == "a"
    assert labels.INSTANCE_TYPE not in node.labels
    assert node.taints == ()
    assert asked.pools[0].usage == {"cpu": 4000, "memory": 16 * 2**30, "pods": 50, "nodes": 1}
    assert solve(asked).existing == {"new-1": ("default/p",)}


@pytest.mark.parametrize(("lingering", "zones"), [(frozenset(), []), (frozenset({"old"}), ["b"])])
def test_zones_of_nodes_that_stay_on_their_way_out_count(lingering: frozenset[str], zones: list[str]) -> None:
    """The scheduler sees such a node, empty or not, and refuses to crowd another zone meanwhile."""

    def node(name: str, zone: str) -> Node:
        status = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "50"}}
        return decode({"metadata": {"name": name, "labels": {labels.ZONE: zone}}, "status": status}, Node)

    over_zones = {
        "maxSkew": 1,
        "topologyKey": labels.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    there = pod("there", nodeName="stays", topologySpreadConstraints=[over_zones])
    objects = ClusterObjects(pools=(pool(),), nodes=(node("stays", "a"), node("old", "b")), pods=(there,))
    new = pod("new", topologySpreadConstraints=[over_zones])
    asked = problem(objects, new, deleting=frozenset({"old"}), lingering=lingering)
    plan = solve(asked)
    assert not verify(asked, plan)
    assert [claim.zone for claim in plan.claims] == zones
    assert plan.existing == ({} if zones else {"stays": ("default/new",)})


def test_an_index_over_the_pods_gives_the_same_nodes() -> None:
    """On a node are the pods that run there and those promised to it, without what has ended or waits."""
    ended = replace(pod("ended", nodeName="n1"), status=replace(pod("x").status, phase="Succeeded"))
    pods = (
        pod("b", nodeName="n1"),
        ended,
        pod("moves", nodeName="n1"),
        pod("a"),
        pod("c"),
        pod("elsewhere", nodeName="n2"),
    )
    node = decode({"metadata": {"name": "n1"}}, Node)
    index = PodIndex()
    for item in pods:
        index.move(None, item)
    objects = ClusterObjects(nodes=(node,), pods=pods)
    promised = {"default/a": "n1", "default/c": "n3", "default/ended": "n1"}
    found = [
        build(objects, (pod("moves"),), lambda _: TYPES, Options(), promised=promised, standing=standing)
        for standing in (None, index.standing)
    ]
    assert found[0] == found[1]
    assert [(item.metadata.name, item.spec.node_name) for item in found[1].nodes[0].pods] == [
        ("a", "n1"),
        ("b", "n1"),
    ]


def test_nothing_is_placed_on_a_node_that_is_on_its_way_out() -> None:
    objects = ClusterObjects(pools=(pool(),), claims=(claim("old", providerID="x:///1"),))
    asked = problem(objects, pod("p"), deleting=frozenset({"old"}), lingering=frozenset({"old"}))
    plan = solve(asked)
    assert (plan.existing, len(plan.claims)) == ({}, 1)
    assert asked.pools[0].usage == {}, "it uses no limit"


def test_an_uninitialized_node_fills_its_gaps_from_its_claim() -> None:
    promised = {"cpu": "4", "memory": "16Gi", "pods": "50"}
    node = decode(
        {
            "metadata": {"name": "n1", "labels": {labels.NODEPOOL: "default", labels.REGISTERED: "true"}},
            "spec": {
                "providerID": "x:///1",
                "taints": [
                    {"key": "s", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
                    {"key": "own", "effect": "NoSchedule"},
                ],
            },
            "status": {"capacity": {"cpu": "4", "pods": "0"}, "allocatable": {"cpu": "3"}},
        },
        Node,
    )
    objects = ClusterObjects(
        nodes=(node,), claims=(claim("c1", providerID="x:///1", capacity=promised, allocatable=promised),)
    )
    (found,) = problem(objects).nodes
    assert found.allocatable == {"cpu": 3000, "memory": 16 * 2**30, "pods": 50}
    assert [taint.key for taint in found.taints] == ["own"]
    assert problem(objects, deleting=frozenset({"c1"})).nodes == ()


@pytest.mark.parametrize("work", [0, 1, 1_000, 5_000_000])
def test_a_plan_is_whole_whatever_the_budget(work: int) -> None:
    pods = tuple(pod(f"p{number}", cpu=f"{1 + number % 3}") for number in range(30))
    asked = problem(ClusterObjects(pools=(pool(),)), *pods)
    plan = solve(asked, Budget(work))
    assert sum(len(item.pods) for item in plan.claims) == 30
    assert verify(asked, plan) == ()
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_nothing_to_do_costs_nothing() -> None:
    assert solve(problem(ClusterObjects(pools=(pool(),)))).cost.hourly == 0


def test_reasons_are_given_per_pool() -> None:
    asked = problem(ClusterObjects(pools=(pool(),)), pod("huge", cpu="10000"))
    (left,) = solve(asked).unschedulable
    assert left.pools["default"].startswith("no instance type has enough resources")
    (left,) = solve(problem(ClusterObjects(), pod("p"))).unschedulable
    assert left.reason


def test_a_missing_volume_claim_is_a_reason() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    asked = problem(ClusterObjects(pools=(pool(),)), pod("p", volumes=[volume]), pod("q"))
    plan = solve(asked)
    assert [(item.pod, "not found" in item.reason) for item in plan.unschedulable] == [("default/p", True)]
    assert plan.claims[0].pods == ("default/q",)


class Hostile:
    """A part of an object that raises whatever is read of it."""

    def __getattr__(self, name: str) -> Any:
        raise ArithmeticError(f"hostile {name}")


def bad(kind: type[Any], **spoilt: Any) -> Any:
    return replace(decode({"metadata": {"name": "bad", "namespace": "a"}}, kind), **spoilt)


# Where it stands among the cluster's objects, and what raises while it is read.
SPOILT: dict[str, tuple[str, Any]] = {
    "node": ("nodes", replace(decode({"metadata": {"name": "bad"}}, Node), status=Hostile())),
    "daemonset": ("daemonsets", bad(DaemonSet, spec=Hostile())),
    "csi node": ("csi_nodes", bad(CSINode, spec=Hostile())),
    "pool": ("pools", replace(pool("bad"), spec=replace(pool().spec, limits=Hostile()))),
}


@pytest.mark.parametrize(("field", "item"), SPOILT.values(), ids=SPOILT)
def test_an_object_that_raises_is_left_out_alone(field: str, item: Any) -> None:
    good = ClusterObjects(pools=(pool(),))
    faults: list[Fault] = []
    spoilt = dataclasses.replace(good, **{field: (*getattr(good, field), item)})
    found = problem(spoilt, pod("web"), on_fault=faults.append)
    assert found == problem(good, pod("web"))
    assert [(fault.about, fault.cause[:24]) for fault in faults] == [(item, "ArithmeticError: hostile")]
    assert len(solve(found).claims) == 1
    with pytest.raises(ArithmeticError):
        problem(spoilt, pod("web"))


def test_a_pool_whose_types_cannot_be_read_buys_nothing() -> None:
    def types(of: NodePool) -> Any:
        if of.metadata.name == "bad":
            raise KeyError("price")
        return TYPES

    faults: list[Fault] = []
    objects = ClusterObjects(pools=(pool("bad"), pool()))
    found = build(objects, (pod("web"),), types, Options(), on_fault=faults.append)
    assert [item.name for item in found.pools] == ["default"]
    assert [(fault.about.metadata.name, fault.cause) for fault in faults] == [("bad", "KeyError: 'price'")]


def test_nothing_is_bought_to_spare_a_node_that_goes_next_but_it_is_filled_last() -> None:
    def node(name: str, *taints: str) -> Node:
        spec = {"taints": [{"key": key, "effect": "PreferNoSchedule"} for key in taints]}
        room = {"cpu": "2", "memory": "8Gi", "pods": "50"}
        return decode(
            {"metadata": {"name": name}, "spec": spec, "status": {"capacity": room, "allocatable": room}},
            Node,
        )

    objects = ClusterObjects(
        nodes=(
            node("n1", labels.UNDERUTILIZED_TAINT),
            node("n2", "own"),
            node("n3", labels.OTHERS_FIRST_TAINT),
        ),
        pools=(pool(),),
    )
    asked = problem(objects, *(pod(name) for name in "abc"))
    assert [(one.name, [taint.key for taint in one.taints]) for one in asked.nodes] == [
        ("n2", ["own"]),
        ("n3", []),
        ("n1", []),
    ]
    plan = solve(asked)
    assert {name: len(pods) for name, pods in plan.existing.items()} == {"n3": 2, "n1": 1}
    assert not plan.claims


def test_a_node_tells_what_is_free_of_whichever_resources_are_asked_for() -> None:
    bound = pod("a", cpu="3", nodeName="n")
    room = {"cpu": 2_000, "memory": 8 << 30}
    node = ExistingNode("n", {}, (), room, room, pods=(bound,))
    cpu, both, unknown = ("cpu",), ("cpu", "memory"), ("memory", "x")
    for _ in range(2):
        assert node.free(both) == [-1_000, 7 << 30]
        assert node.free(cpu) == [-1_000]
        assert node.free(unknown) == [7 << 30, 0]
    endless = dataclasses.replace(node, allocatable={"cpu": 2 * LARGEST})
    assert endless.free(cpu) == [LARGEST]
    full = node.without_room()
    assert full.free(both) == [-3_000, -(1 << 30)]
    assert full.occupancy is node.occupancy and full.labels is node.labels


def test_pods_that_are_counted_alike_are_one_object_on_all_nodes() -> None:
    here, there = (
        ExistingNode(name, {}, (), {}, {}, pods=(pod("a", nodeName=name), pod("b", nodeName=name)))
        for name in ("n", "m")
    )
    ((one, number),) = here.occupancy.alike
    assert number == 2 and one[:2] == ("default", {"app": "web"})
    assert there.occupancy.alike[0][0] is one
