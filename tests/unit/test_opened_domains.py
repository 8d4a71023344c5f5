"""Domains that have no node until the plan buys one there: no pod may have relied on their absence."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model import labels
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.problems import (
    TYPES,
    ZONES,
    Document,
    both,
    instance_types,
    node,
    pod,
    pool,
    rules,
    scenario,
)
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

SMALL = (250, 512)
OVER_ZONES = rules("kafka", "kafka")["spread over zones"]
OVER_HOSTS = rules("kafka", "kafka")["spread over hosts"]
OVER_CAPACITY_TYPES = rules("kafka", "kafka")["spread over capacity types"]


class Cluster:
    """A stateful set whose disks lie in zones: some of its pods run, others wait."""

    def __init__(self, rule: Document) -> None:
        self.rule = rule
        self.nodes: list[Document] = []
        self.bound: list[Document] = []
        self.waiting: list[Document] = []
        self.claims: list[Document] = []
        self.volumes: list[Document] = []

    def node(self, zone: str, pods: int, *, cpus: int = 4) -> str:
        """A node with so many of its pods."""
        name = f"node-{len(self.nodes)}"
        self.nodes.append(node(name, zone, cpus))
        for _ in range(pods):
            there = pod(f"old-{len(self.bound)}", "kafka", SMALL, self.rule)
            there["spec"]["nodeName"] = name
            self.bound.append(there)
        return name

    def wait(self, name: str, zone: str = "", *, app: str = "kafka", rule: Document | None = None) -> None:
        """A pod that waits, with a disk in that zone if one is named."""
        found = pod(name, app, SMALL, self.rule if rule is None else rule)
        self.waiting.append(found)
        if not zone:
            return
        found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        meta: Document = {"name": name, "namespace": "default", "annotations": done}
        self.claims.append({"metadata": meta, "spec": {"storageClassName": "gp3", "volumeName": name}})
        place = [{"key": labels.ZONE, "operator": "In", "values": [zone]}]
        reach: dict[str, Any] = {"required": {"nodeSelectorTerms": [{"matchExpressions": place}]}}
        disk = {"driver": "ebs.csi.aws.com", "volumeHandle": name}
        spec = {"csi": disk, "nodeAffinity": reach, "storageClassName": "gp3"}
        self.volumes.append({"metadata": {"name": name}, "spec": spec})

    def problem(self, *, sold: tuple[str, ...] = ZONES, limits: Document | None = None) -> Problem:
        """Nodes can be bought in the zones that are `sold`."""
        gone = [(kind, zone, how) for kind in TYPES for zone in ZONES for how in ("spot", "on-demand")]
        types = instance_types(frozenset(one for one in gone if one[1] not in sold))
        found = scenario(
            self.waiting, [pool("general", limits=limits)], types, nodes=self.nodes, bound=self.bound
        )
        found["storageClasses"] = [
            {
                "metadata": {"name": "gp3"},
                "provisioner": "ebs.csi.aws.com",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ]
        found["volumeClaims"], found["volumes"] = self.claims, self.volumes
        return to_problem(found)


def opened_by_its_own_pods() -> Problem:
    """Two in b, one in a; of three more the one in c makes c a zone with one pod: b gets no third."""
    cluster = Cluster(both(OVER_ZONES, OVER_HOSTS))
    cluster.node("zone-a", 1)
    cluster.node("zone-b", 1)
    cluster.node("zone-b", 1)
    for name, zone in (("in-a", "zone-a"), ("in-b", "zone-b"), ("in-c", "zone-c"), ("in-b-too", "zone-b")):
        cluster.wait(name, zone)
    return cluster.problem()


def opened_by_other_pods() -> Problem:
    """Two in c, where alone there are nodes; another pod's node opens b, where none of them is."""
    cluster = Cluster(both(OVER_ZONES, OVER_HOSTS))
    cluster.node("zone-c", 1)
    cluster.node("zone-c", 1)
    cluster.wait("third", "zone-c")
    cluster.wait("other", "zone-b", app="web", rule=rules("web", "web")["one per host"])
    return cluster.problem(sold=("zone-b", "zone-c"))


def opened_on_an_existing_node() -> Problem:
    """Three on demand, and room for more; but one gets a spot node, and then three are the most there."""
    cluster = Cluster(both(OVER_HOSTS, OVER_CAPACITY_TYPES))
    for pods in (1, 1, 1, 0):
        cluster.node("zone-a", pods)
    cluster.wait("one")
    cluster.wait("two")
    return cluster.problem(limits={"nodes": "5"})


@pytest.mark.parametrize(
    "problem", [opened_by_its_own_pods(), opened_by_other_pods(), opened_on_an_existing_node()]
)
def test_no_pod_relies_on_a_domain_that_the_plan_opens(problem: Problem) -> None:
    assert verify(problem, solve(problem, Budget(work=100_000))) == ()
