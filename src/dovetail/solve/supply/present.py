"""Pods that run already, as rules between pods count them, and the domains that existing nodes show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.model.problem import ExistingNode
from dovetail.solve.demand.topology import SPREAD, NodeFilter, Topology
from dovetail.solve.supply.nodes import Nodes


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
            rows = [row for row, counted in enumerate(self.counts(index)) if counted]
            found = dict.fromkeys(self._nodes.domain(row, of.key) for row in rows)
            found.pop("", None)
            known = self._domains[of.key, of.node_filter] = found
        return known

    def count(self, repelling: Mapping[bytes, tuple[int, ...]]) -> None:
        """Count the pods that run; `repelling`: groups that some of them, by their rules, keep away."""
        groups, topology = self._topology.groups, self._topology
        for row, node in enumerate(self._nodes.nodes if groups else ()):
            here = node.occupancy
            for namespace, labels, deleting in here.counted if topology.may_count(here.tags) else ():
                for index in topology.matching(namespace, labels):
                    group = groups[index]
                    if group.id.kind == SPREAD and (deleting or not self.counts(index)[row]):
                        continue
                    group.count(self._nodes.domain(row, group.id.key), 1, matched=True, owner=False)
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
