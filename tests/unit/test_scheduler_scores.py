"""The scores by which the scheduler prefers one feasible node to another."""

from __future__ import annotations

import random
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.model import labels
from dovetail.model.filters import feasible_nodes
from dovetail.model.scores import total_scores
from dovetail.simulate.scheduler.cluster import Cluster

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


def node(name: str, zone: str, cpu: str = "4", **spec: Any) -> Node:
    marks = {labels.HOSTNAME: name, labels.ZONE: zone, "name": name}
    room = {"cpu": cpu, "memory": "16Gi", "pods": "30"}
    return decode(
        {"metadata": {"name": name, "labels": marks}, "spec": spec, "status": {"allocatable": room}}, Node
    )


def pod(name: str, cpu: str = "1", *, owned: bool = False, **spec: Any) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": "4Gi"}}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    if owned:
        meta["ownerReferences"] = [OWNER]
    return decode({"metadata": meta, "spec": {"containers": [{"resources": resources}], **spec}}, Pod)


def best(cluster: Cluster, one: Pod) -> list[str]:
    """The nodes with the highest score."""
    cluster.check()
    nodes = [cluster.view.nodes[name] for name in feasible_nodes(one, cluster.view)]
    scores = total_scores(one, nodes, cluster.occupancy)
    return [item.name for item, score in zip(nodes, scores, strict=True) if score == max(scores)]


def cluster(*nodes: Node) -> Cluster:
    made = Cluster()
    for item in nodes:
        made.set_node(item)
    return made


def test_the_emptier_node_is_better() -> None:
    it = cluster(node("a", "z1"), node("b", "z1"))
    it.bind(pod("p1"), "a")
    assert best(it, pod("p2")) == ["b"]
    it.bind(pod("p2"), "b")
    assert best(it, pod("p3")) == ["a", "b"]
    it.unbind("default/p1")
    assert best(it, pod("p3")) == ["a"]


def test_pods_of_one_owner_spread_over_zones() -> None:
    it = cluster(node("a", "z1"), node("b", "z1"), node("c", "z2"))
    it.bind(pod("p1", owned=True), "a")
    # b is as empty as c, but in the zone of p1.
    assert best(it, pod("p2", owned=True)) == ["c"]


def test_preferred_node_affinity_outweighs_a_little_load() -> None:
    it = cluster(node("a", "z1"), node("b", "z1"))
    it.bind(pod("p1", cpu="100m"), "b")
    term = {"matchExpressions": [{"key": "name", "operator": "In", "values": ["b"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": term}]}
    assert best(it, pod("p2", affinity={"nodeAffinity": preferred})) == ["b"]


def test_soft_taints_are_avoided() -> None:
    it = cluster(node("a", "z1", taints=[{"key": "old", "effect": "PreferNoSchedule"}]), node("b", "z1"))
    it.bind(pod("p1"), "b")
    assert best(it, pod("p2")) == ["b"]
    tolerating = pod("p3", tolerations=[{"key": "old", "operator": "Exists"}])
    assert best(it, tolerating) == ["a"]


def test_soft_spread_and_affinity() -> None:
    it = cluster(node("a", "z1"), node("b", "z2"))
    it.bind(pod("p1", cpu="100m"), "a")
    selector = {"matchLabels": {"app": "web"}}
    spread = {"maxSkew": 1, "topologyKey": labels.ZONE, "labelSelector": selector}
    spread["whenUnsatisfiable"] = "ScheduleAnyway"
    assert best(it, pod("p2", topologySpreadConstraints=[spread])) == ["b"]
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": labels.ZONE, "labelSelector": selector}}
    near = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert best(it, pod("p3", affinity=near)) == ["a"]
    # What a running pod wants of others counts as well.
    it.bind(pod("p3", cpu="100m", affinity=near), "b")
    assert best(it, pod("p4", cpu="1")) == ["b"]


def test_what_is_remembered_follows_every_change() -> None:
    """Scores and counts per domain are those of a scheduler that has only just seen everything."""
    draw = random.Random(1)
    it, nodes, bound = Cluster(), dict[str, Node](), dict[str, tuple[Pod, str]]()
    selector = {"matchLabels": {"app": "web"}}
    hard = {"maxSkew": 9, "topologyKey": labels.ZONE, "labelSelector": selector}
    hard["whenUnsatisfiable"] = "DoNotSchedule"
    asked = [
        pod("a", owned=True),
        pod("b", cpu="300m", topologySpreadConstraints=[hard]),
        pod("c", topologySpreadConstraints=[{**hard, "whenUnsatisfiable": "ScheduleAnyway"}]),
    ]
    for step in range(300):
        name = f"n{draw.randrange(6)}"
        if draw.random() < 0.25:
            if name in nodes and draw.random() < 0.4:
                del nodes[name]
                it.drop_node(name)
            else:
                nodes[name] = node(name, draw.choice("xyz"), cpu=draw.choice("48"))
                it.set_node(nodes[name])
        elif bound and draw.random() < 0.4:
            key = draw.choice(sorted(bound))
            del bound[key]
            it.unbind(key)
        else:
            one = pod(f"p{step}", cpu="100m", owned=True)
            bound[one.key] = one, name
            it.bind(one, name)
        fresh = Cluster()
        for item in nodes.values():
            fresh.set_node(item)
        for one, place in bound.values():
            fresh.bind(one, place)
        for one in asked:
            names = feasible_nodes(one, it.view)
            assert names == feasible_nodes(one, fresh.view)
            scores, anew = (
                total_scores(one, [made.view.nodes[name] for name in names], made.occupancy)
                for made in (it, fresh)
            )
            assert scores == anew
        it.check()
