"""Nodes that exist or are on their way as arrays: what is left of them while a plan grows, and their pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress

import numpy as np

from dovetail.api.core import Toleration
from dovetail.model.arrays import Amounts, Axis, Mask
from dovetail.model.daemons import Daemon
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import ports_conflict, untolerated
from dovetail.model.pod_rules import Rules
from dovetail.model.ports import HostPort
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST
from dovetail.model.spread import NodeFilter
from dovetail.model.volumes import csi_volumes, volume_limit_error
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import SPREAD, Topology

_NOTHING: frozenset[str] = frozenset()


class Nodes:
    """Room, ports and volumes of N nodes. `capacity` is (N, R) and shrinks as pods are placed."""

    def __init__(self, problem: Problem, axis: Axis, daemons: Sequence[Daemon]) -> None:
        self.nodes = problem.nodes
        self.labels = [node.occupancy.labels for node in self.nodes]
        self.ports: list[tuple[HostPort, ...]] = [node.occupancy.ports for node in self.nodes]
        self.capacity: Amounts = self._free(axis, daemons)
        self._volumes: dict[int, dict[str, frozenset[str]]] = {}  # of nodes with any
        self._columns: dict[str, list[str]] = {}
        self._feasible: dict[tuple[Requirements, frozenset[str], tuple[Toleration, ...], bool], Mask] = {}
        for row, node in enumerate(self.nodes):
            for pod in node.occupancy.attached:
                self._attach(row, csi_volumes(pod, problem.volumes))
        self._before = (self.capacity.copy(), list(self.ports), _copied(self._volumes))
        self._most: list[int] = self.capacity.max(axis=0, initial=0).tolist()  # (R,) no node has more

    def reset(self) -> None:
        """As if nothing had been placed."""
        capacity, ports, volumes = self._before
        self.capacity, self.ports, self._volumes = capacity.copy(), list(ports), _copied(volumes)
        self._most = capacity.max(axis=0, initial=0).tolist()

    def feasible(self, wanted: Requirements, rules: Rules) -> Mask:
        """Nodes whose labels and taints suit, shape (N,)."""
        needed = rules.needed()
        key = (wanted, needed, rules.tolerations, rules.soft_taints)
        known = self._feasible.get(key)
        if known is None:

            def suits(node: ExistingNode) -> bool:
                return (
                    not untolerated(node.taints, rules.tolerations, soft=rules.soft_taints)
                    and needed <= node.occupancy.labels.by_key.keys()
                    and node.occupancy.labels.suits(wanted)
                )

            known = self._which(sorted(needed | wanted.by_key.keys()), suits)
            self._feasible[key] = known
        return known

    def candidates(self, wanted: Requirements, rules: Rules, vector: Amounts) -> list[int]:
        """Nodes that suit and have capacity, in order of preference."""
        if not self.nodes:
            return []
        asked, amounts = vector.nonzero()[0].tolist(), vector.tolist()
        if any(amounts[row] > self._most[row] for row in asked):
            return []
        fits = self.feasible(wanted, rules).copy()
        for row in asked:
            fits &= self.capacity[:, row] >= amounts[row]
        found: list[int] = fits.nonzero()[0].tolist()
        if not found:
            self._most = self.capacity.max(axis=0).tolist()
        return found

    def accepts(self, row: int, pod_class: PodClass) -> bool:
        """True iff the pod's host ports and volumes suit as well."""
        if pod_class.ports and ports_conflict(pod_class.ports, self.ports[row]):
            return False
        return not self.attach_error(row, pod_class)

    def attach_error(self, row: int, pod_class: PodClass) -> str:
        """'' iff the node can attach the pod's volumes, else why not."""
        limits, there = self.nodes[row].volume_limits, self._volumes.get(row, {})
        return volume_limit_error(pod_class.volumes, there, limits) if pod_class.volumes else ""

    def holds(self, row: int, pod_class: PodClass) -> int:
        """How many pods of the pod class fit, as far as one does."""
        if pod_class.ports or pod_class.volumes:
            return 1
        asked = pod_class.vector > 0
        return int(np.min(self.capacity[row][asked] // pod_class.vector[asked]))

    def column(self, key: str) -> list[str]:
        """Of each node its value of a label; its own name for the hostname."""
        if key not in self._columns:
            self._columns[key] = [at.name if key == HOSTNAME else at.labels.get(key, "") for at in self.nodes]
        return self._columns[key]

    def domain(self, row: int, key: str) -> str:
        """The node's value of a label; its own name for the hostname."""
        return self.column(key)[row]

    def place(self, row: int, pod_class: PodClass, count: int = 1) -> None:
        """Take the capacity of so many pods of a pod class."""
        self.capacity[row] -= count * pod_class.vector
        self.ports[row] = (*self.ports[row], *pod_class.ports)
        self._attach(row, pod_class.volumes)

    def _attach(self, row: int, volumes: Mapping[str, frozenset[str]]) -> None:
        for driver, items in volumes.items():
            used = self._volumes.setdefault(row, {})
            used[driver] = used.get(driver, _NOTHING) | items

    def _which(self, keys: Sequence[str], test: Callable[[ExistingNode], bool]) -> Mask:
        """The nodes that pass a test which looks at these labels and at taints only, (N,)."""
        known: dict[tuple[object, ...], bool] = {}
        found = []
        for node, labels in zip(self.nodes, self.labels, strict=True):
            seen = (node.taints, *(labels.by_key.get(key) for key in keys))
            if seen not in known:
                known[seen] = test(node)
            found.append(known[seen])
        return np.array(found, dtype=np.bool_)

    def _free(self, axis: Axis, daemons: Sequence[Daemon]) -> Amounts:
        """What is free, (N, R), with capacity for the daemons that are still to come."""
        rows = [node.free(axis.names) for node in self.nodes]
        capacity = np.array(rows, dtype=np.int64).reshape(len(rows), len(axis.names))
        if not daemons:
            return capacity
        present = axis.matrix([node.occupancy.daemons for node in self.nodes])
        expected = np.zeros_like(capacity)
        for daemon in daemons:
            keys = sorted({key for item in daemon.alternatives for key in item.by_key})
            expected[self._which(keys, daemon.comes_to)] += daemon.vector
        capacity -= np.maximum(expected - present, 0)
        return np.asarray(np.maximum(capacity, -LARGEST), dtype=np.int64)


def _copied(volumes: Mapping[int, dict[str, frozenset[str]]]) -> dict[int, dict[str, frozenset[str]]]:
    return {row: dict(used) for row, used in volumes.items()}


class Present:
    """What topology groups make of N existing nodes."""

    def __init__(self, nodes: Nodes, topology: Topology) -> None:
        self._nodes = nodes
        self._topology = topology
        self._counting: dict[NodeFilter, list[bool]] = {}
        self._domains: dict[tuple[str, NodeFilter], Mapping[str, None]] = {}

    def counts(self, index: int) -> Sequence[bool]:
        """Per node: does that spread group count pods on it?"""
        node_filter = self._topology.groups[index].id.node_filter
        known = self._counting.get(node_filter)
        if known is None:
            known = self._counting[node_filter] = [
                node_filter.accepts(labels, node.taints, frozenset())
                for labels, node in zip(self._nodes.labels, self._nodes.nodes, strict=True)
            ]
        return known

    def domains(self, index: int) -> Mapping[str, None]:
        """The domains of the nodes that a spread group counts, in the order of the nodes."""
        of = self._topology.groups[index].id
        known = self._domains.get((of.key, of.node_filter))
        if known is None:
            found = dict.fromkeys(compress(self._nodes.column(of.key), self.counts(index)))
            found.pop("", None)
            known = self._domains[of.key, of.node_filter] = found
        return known

    def count(self, repelling: Mapping[bytes, tuple[int, ...]]) -> None:
        """Count the pods that run; `repelling`: groups that some of them, by their rules, keep away."""
        groups, topology = self._topology.groups, self._topology
        known: dict[int, tuple[int, ...]] = {}  # by the identity of labels
        for row, node in enumerate(self._nodes.nodes if groups else ()):
            here = node.occupancy
            alike = here.alike if topology.may_count(here.tags) else ()
            for (namespace, labels, deleting), number in alike:
                if id(labels) not in known:
                    known[id(labels)] = topology.matching(namespace, labels)
                for index in known[id(labels)]:
                    group = groups[index]
                    if group.id.kind == SPREAD and (deleting or not self.counts(index)[row]):
                        continue
                    group.count(self._nodes.domain(row, group.id.key), number, matched=True, owner=False)
            for guard in here.guarded:
                for index in () if guard.pod.terminal else repelling[guard.rules]:
                    group = groups[index]
                    group.count(self._nodes.domain(row, group.id.key), 1, matched=False, owner=True)


def repelling(nodes: Sequence[ExistingNode], topology: Topology) -> dict[bytes, tuple[int, ...]]:
    """By rules of pods that run: the groups that they keep away from their domains. They are registered."""
    found: dict[bytes, tuple[int, ...]] = {}
    for node in nodes:
        for guard in node.occupancy.guarded:
            if guard.rules not in found:
                found[guard.rules] = topology.repelling(guard.pod)
    return found
