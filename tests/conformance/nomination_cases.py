"""What kube-scheduler makes of `status.nominatedNodeName` that others set, and after which changes it tries a
pod again: cases, and what came of each.

`tests/cluster/test_nominations_on_a_server.py` plays them on the real one, `test_nominations.py` here on
the simulated one. A case is a list of steps. Pods come gated, in order; with their nominations in place
they are let go together, so that the scheduler knows of all nominations before it looks at any pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

# Priority classes: their values, and those whose pods preempt nothing.
PRIORITIES = {"low": -10, "high": 10, "patient": 0}
PATIENT = "patient"
TAINT = {"key": "coming", "effect": "NoSchedule"}
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
WAITS = "waits"  # refused by the scheduler, without a nomination; "waits for n1" has one


@dataclass(frozen=True)
class Node:
    """A node of that many CPUs joins; a tainted one takes no pods yet."""

    name: str
    cpu: int
    tainted: bool = False
    zone: str = "a"

    def document(self) -> Document:
        room = {"cpu": str(self.cpu), "memory": "64Gi", "pods": "30"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {HOST: self.name, **({ZONE: self.zone} if self.zone else {})},
            },
            "spec": {"taints": [TAINT] if self.tainted else []},
            "status": {"capacity": room, "allocatable": room},
        }


@dataclass(frozen=True)
class Open:
    """The node loses its taint."""

    node: str


@dataclass(frozen=True)
class Gone:
    """The node is deleted."""

    node: str


@dataclass(frozen=True)
class Pod:
    """A pod of that many CPUs. One that is PATIENT preempts nothing: it keeps its nomination when refused."""

    name: str
    cpu: int
    nominated: str = ""
    priority: str = ""
    app: str = "web"
    spec: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Document:
        main = {"name": "main", "image": "registry.k8s.io/pause:3.7"}
        spec: Document = {
            "terminationGracePeriodSeconds": 0,
            "schedulingGates": [{"name": "tests/wait"}],
            "containers": [{**main, "resources": {"requests": {"cpu": str(self.cpu)}}}],
            **self.spec,
        }
        if self.priority:
            spec["priorityClassName"] = self.priority
        labels = {"app": self.app}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "labels": labels},
            "spec": spec,
        }


@dataclass(frozen=True)
class Pods:
    """They are created, nominated, and let go, in this order."""

    pods: Sequence[Pod]


@dataclass(frozen=True)
class Nominate:
    """A client sets the nomination of a pod that waits, or takes it away ("")."""

    pod: str
    node: str


@dataclass(frozen=True)
class Delete:
    """The pod is deleted."""

    pod: str


@dataclass(frozen=True)
class Then:
    """Where the pods are in the end: a node's name, WAITS or "waits for NODE"."""

    pods: Mapping[str, str]


@dataclass(frozen=True)
class Says:
    """How in the end begins what the scheduler wrote of each pod: it counts the nodes as of its last try."""

    pods: Mapping[str, str]


Step = Node | Open | Gone | Pods | Nominate | Delete | Then | Says
Case = Sequence[Step]


def elsewhere(node: str) -> Document:
    """A rule that only a node of that name satisfies, which is never there: the pod waits for ever."""
    return {"nodeSelector": {HOST: node}}


def apart(app: str) -> Document:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(app: str) -> Document:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def port() -> Document:
    """One that no two pods of a node can have."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    main = {"name": "main", "image": "registry.k8s.io/pause:3.7", "ports": ports}
    return {"containers": [{**main, "resources": {"requests": {"cpu": "1"}}}]}


def tolerant(node: str) -> Document:
    """It may run on that node alone, even while the node is tainted."""
    return {"tolerations": [{"key": TAINT["key"], "operator": "Exists"}], "nodeSelector": {HOST: node}}


def spread(app: str, key: str = HOST) -> Document:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def classes() -> list[Document]:
    """The priority classes."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == PATIENT else "PreemptLowerPriority",
        }
        for name, value in PRIORITIES.items()
    ]


def holder(cpu: int, node: str = "n1", **more: Any) -> Pod:
    """A pod that is nominated to the node and keeps its nomination although it can never run there."""
    spec = {**elsewhere("never"), **more.pop("spec", {})}
    return Pod("holder", cpu, node, PATIENT, spec=spec, **more)


CASES: dict[str, Case] = {
    "each pod gets its node, although small ones come first": [
        Node("n1", 8, tainted=True),
        Node("n2", 8, tainted=True),
        Pods([Pod("s1", 2, "n2"), Pod("s2", 2, "n1"), Pod("s3", 2, "n2"), Pod("large", 6, "n1")]),
        Then({"s1": WAITS, "s2": WAITS, "s3": WAITS, "large": WAITS}),
        Nominate("s1", "n2"),
        Nominate("s2", "n1"),
        Nominate("s3", "n2"),
        Nominate("large", "n1"),
        Open("n1"),
        Open("n2"),
        Then({"s1": "n2", "s2": "n1", "s3": "n2", "large": "n1"}),
    ],
    "the nominated node is taken although another has more room": [
        Node("n1", 4),
        Node("n2", 16),
        Pods([Pod("a", 1, "n1"), Pod("b", 1, "n1")]),
        Then({"a": "n1", "b": "n1"}),
    ],
    "a node that is not there keeps no pod from room elsewhere": [
        Node("n1", 4),
        Pods([Pod("a", 1, "n9")]),
        Then({"a": "n1"}),
    ],
    "a failed attempt takes away a nomination to a node that is not there": [
        Node("n1", 1),
        Pods([Pod("a", 2, "n9")]),
        Then({"a": WAITS}),
    ],
    "without any node a nomination is taken away": [
        Pods([Pod("a", 2, "n9")]),
        Then({"a": WAITS}),
    ],
    "a failed attempt takes away a nomination to a tainted node": [
        Node("n1", 4, tainted=True),
        Pods([Pod("a", 2, "n1")]),
        Then({"a": WAITS}),
        Open("n1"),
        Then({"a": "n1"}),
    ],
    "a pod that preempts nothing keeps its nomination": [
        Node("n1", 4, tainted=True),
        Pods([Pod("a", 2, "n1", PATIENT)]),
        Then({"a": "waits for n1"}),
        Open("n1"),
        Then({"a": "n1"}),
    ],
    "even a pod that preempts nothing loses its nomination without any node": [
        Pods([Pod("a", 2, "n9", PATIENT)]),
        Then({"a": WAITS}),
    ],
    "a pod that does not fit its nominated node goes elsewhere": [
        Node("n1", 1),
        Node("n2", 4),
        Pods([Pod("a", 2, "n1")]),
        Then({"a": "n2"}),
    ],
    "a pod that fits neither its nominated node nor another loses its nomination": [
        Node("n1", 1),
        Pods([Pod("a", 2, "n1")]),
        Then({"a": WAITS}),
    ],
    "more pods than fit are nominated to one node: the first ones go elsewhere": [
        Node("n1", 4),
        Node("n2", 16),
        Pods([Pod("a", 2, "n1"), Pod("b", 2, "n1"), Pod("c", 2, "n1")]),
        Then({"a": "n2", "b": "n1", "c": "n1"}),
    ],
    "more pods than fit are nominated to the only node: each keeps the others away": [
        Node("n1", 4),
        Pods([Pod("a", 3, "n1"), Pod("b", 3, "n1")]),
        Then({"a": WAITS, "b": "n1"}),
    ],
    "room is kept from pods of equal priority": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2)]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "room is kept from pods of lower priority": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2, priority="low")]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "room is not kept from pods of higher priority": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2, priority="high")]),
        Then({"holder": "waits for n1", "a": "n1"}),
    ],
    "what a nomination leaves is free": [
        Node("n1", 4),
        Pods([holder(2), Pod("a", 2), Pod("b", 1)]),
        Then({"holder": "waits for n1", "a": "n1", "b": WAITS}),
    ],
    "the room of a nominated pod that is deleted is free": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2)]),
        Then({"holder": "waits for n1", "a": WAITS}),
        Delete("holder"),
        Then({"a": "n1"}),
    ],
    "room is free once the nomination is taken away": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2)]),
        Then({"holder": "waits for n1", "a": WAITS}),
        Nominate("holder", ""),
        Then({"holder": WAITS, "a": "n1"}),
    ],
    "room is free once the nomination names another node": [
        Node("n1", 4),
        Pods([holder(3), Pod("a", 2)]),
        Then({"holder": "waits for n1", "a": WAITS}),
        Nominate("holder", "n9"),
        Then({"holder": "waits for n9", "a": "n1"}),
    ],
    "a nomination that comes later keeps room as well": [
        Node("n1", 4),
        Pods([holder(3, node="")]),
        Then({"holder": WAITS}),
        Nominate("holder", "n1"),
        Pods([Pod("a", 2)]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod keeps pods away that must not be beside it": [
        Node("n1", 8),
        Pods([holder(1), Pod("a", 1, spec=apart("web"))]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod does not keep pods without rules away": [
        Node("n1", 8),
        Pods([holder(1, spec=apart("web"), app="db"), Pod("a", 1)]),
        Then({"holder": "waits for n1", "a": "n1"}),
    ],
    "a nominated pod keeps pods with any rule away that it must not be beside": [
        Node("n1", 8),
        Pods([holder(1, spec=apart("web"), app="db"), Pod("a", 1, spec=apart("cache"))]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod keeps pods without rules away once a running one does elsewhere": [
        Node("n1", 8),
        Node("n2", 2),
        Pods([Pod("other", 1, "n2", app="db", spec=apart("web"))]),
        Then({"other": "n2"}),
        Pods([holder(1, spec=apart("web"), app="db"), Pod("a", 1)]),
        Then({"other": "n2", "holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod is no neighbour yet": [
        Node("n1", 8),
        Pods([holder(1, app="db"), Pod("a", 1, spec=near("db"))]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod counts for spreads on its node": [
        Node("n1", 8),
        Node("n2", 1),
        Pods([holder(1), Pod("a", 2, spec=spread("web"))]),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a nominated pod counts for spreads on its node alone": [
        Node("n1", 8),
        Node("n2", 8),
        Node("n3", 1, zone="b"),
        Pods([holder(1), Pod("a", 2, spec=spread("web", ZONE))]),
        Then({"holder": "waits for n1", "a": "n2"}),
    ],
    "a node that goes takes no nomination with it": [
        Node("n1", 4),
        Node("n2", 4),
        Pods([holder(3), Pod("a", 2, spec=elsewhere("n1"))]),
        Then({"holder": "waits for n1", "a": WAITS}),
        Gone("n1"),
        Then({"holder": "waits for n1", "a": WAITS}),
        Node("n1", 4),
        Then({"holder": "waits for n1", "a": WAITS}),
    ],
    "a node that joins with a taint wakes no pod that taints alone keep off": [
        Node("n1", 4, tainted=True),
        Pods([Pod("a", 1)]),
        Says({"a": "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}),
        Node("n2", 4, tainted=True),
        Says({"a": "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}),
        Open("n2"),
        Then({"a": "n2"}),
    ],
    "a node that joins wakes a pod that lacks room if it would have room there, even behind a taint": [
        Node("n1", 1),
        Pods([Pod("a", 2)]),
        Says({"a": "0/1 nodes are available: 1 Insufficient cpu."}),
        Node("n2", 4, tainted=True),
        Says({"a": "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."}),
        Open("n2"),
        Then({"a": "n2"}),
    ],
    "taints that change wake all pods that anything but taints keeps off": [
        Node("n1", 1),
        Node("n2", 1, tainted=True),
        Pods([Pod("a", 2), Pod("b", 1, spec=elsewhere("n9"))]),
        Says({"a": "0/2 ", "b": "0/2 "}),
        Gone("n1"),
        Says({"a": "0/2 ", "b": "0/2 "}),
        Open("n2"),
        Says({"a": "0/1 ", "b": "0/1 "}),
    ],
    "a pod that leaves wakes those that lack room, not those that taints alone keep off": [
        Node("n1", 1, tainted=True),
        Pods([Pod("there", 1, spec=tolerant("n1")), Pod("a", 1)]),
        Then({"there": "n1", "a": WAITS}),
        Pods([Pod("b", 1, spec=tolerant("n1"))]),
        Says({"there": "", "a": "0/1 ", "b": "0/1 nodes are available: 1 Insufficient cpu."}),
        Node("n2", 1, tainted=True),
        Delete("there"),
        Then({"a": WAITS, "b": "n1"}),
        Says({"a": "0/1 nodes are available: 1 node(s) had untolerated taint(s).", "b": ""}),
    ],
    "a pod that comes to a node wakes those whose spreads count it": [
        Node("n1", 8),
        Node("n2", 8, tainted=True, zone="b"),
        Pods([Pod("there", 1)]),
        Then({"there": "n1"}),
        Pods([Pod("a", 1, spec=spread("web", ZONE))]),
        Says({"there": "", "a": "0/2 "}),
        Node("n3", 8, tainted=True, zone=""),
        Says({"there": "", "a": "0/2 "}),
        Pods([Pod("other", 1, app="db")]),
        Then({"there": "n1", "other": "n1", "a": WAITS}),
        Says({"there": "", "other": "", "a": "0/2 "}),
        Pods([Pod("more", 1)]),
        Then({"there": "n1", "other": "n1", "more": "n1", "a": WAITS}),
        Says({"there": "", "other": "", "more": "", "a": "0/3 "}),
    ],
    "a pod that comes to a node wakes those that must be near it": [
        Node("n1", 8),
        Pods([Pod("a", 1, spec=near("db"))]),
        Says({"a": "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."}),
        Pods([Pod("b", 1, app="db")]),
        Then({"a": "n1", "b": "n1"}),
    ],
    "any node that joins wakes a pod whose port is taken, or that must be near or apart from others": [
        Node("n1", 8),
        Pods([Pod("there", 1, spec=port())]),
        Then({"there": "n1"}),
        Pods([Pod("a", 1, spec=port()), Pod("b", 1, spec=near("db")), Pod("c", 1, spec=apart("web"))]),
        Says({"there": "", "a": "0/1 ", "b": "0/1 ", "c": "0/1 "}),
        Node("n2", 8, tainted=True),
        Says({"there": "", "a": "0/2 ", "b": "0/2 ", "c": "0/2 "}),
    ],
    "a nomination that is given up wakes no pod that taints alone keep off": [
        Node("n1", 4, tainted=True),
        Pods([holder(3), Pod("a", 1), Pod("b", 2, spec=tolerant("n1"))]),
        Says({"holder": "0/1 ", "a": "0/1 ", "b": "0/1 nodes are available: 1 Insufficient cpu."}),
        Node("n2", 1, tainted=True),
        Nominate("holder", ""),
        Then({"holder": WAITS, "a": WAITS, "b": "n1"}),
        Says({"holder": "0/1 ", "a": "0/1 ", "b": ""}),
    ],
    "a node that goes wakes no pod that lacks room": [
        Node("n1", 1),
        Node("n2", 1),
        Pods([Pod("a", 2)]),
        Says({"a": "0/2 nodes are available: 2 Insufficient cpu."}),
        Gone("n2"),
        Says({"a": "0/2 nodes are available: 2 Insufficient cpu."}),
    ],
    "a node that goes wakes those whose spreads it took part in": [
        Node("n1", 8),
        Node("n2", 8, tainted=True, zone="b"),
        Pods([Pod("there", 1)]),
        Then({"there": "n1"}),
        Pods([Pod("a", 1, spec=spread("web", ZONE))]),
        Says({"there": "", "a": "0/2 "}),
        Gone("n2"),
        Then({"there": "n1", "a": "n1"}),
    ],
}
