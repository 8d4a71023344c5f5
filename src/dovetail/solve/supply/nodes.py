"""Existing and in-flight nodes as arrays, and what is left of them while a plan grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.api.core import Pod, Toleration
from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import pod_requests
from dovetail.model.volumes import csi_volumes, volume_limit_error
from dovetail.solve.demand.match import ports_conflict, untolerated
from dovetail.solve.demand.rules import Rules
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.supply.daemons import Daemon
from dovetail.solve.supply.encode import Amounts, Axis, Mask

_NOTHING: frozenset[str] = frozenset()


class Nodes:
    """Room, ports and volumes of N nodes. `room` is (N, R) and shrinks as pods are placed."""

    def __init__(self, problem: Problem, axis: Axis, daemons: Sequence[Daemon]) -> None:
        self.nodes = problem.nodes
        self.room: Amounts = np.zeros((len(self.nodes), len(axis.names)), dtype=np.int64)
        self.ports: list[tuple[HostPort, ...]] = []
        self.labels: list[Requirements] = []
        self._volumes: list[dict[str, frozenset[str]]] = []
        self._feasible: dict[tuple[Requirements, frozenset[str], tuple[Toleration, ...], bool], Mask] = {}
        self._index = problem.volumes
        for row, node in enumerate(self.nodes):
            named = {HOSTNAME: node.name, **node.labels}
            self.labels.append(Requirements.from_labels(named))
            self.room[row] = self._free(node, self.labels[row], axis, daemons)
            self.ports.append(tuple(port for pod in node.pods for port in host_ports(pod)))
            self._volumes.append({})
            for pod in node.pods:
                self._attach(row, csi_volumes(pod, self._index))
        self._before = (self.room.copy(), list(self.ports), [dict(used) for used in self._volumes])

    def reset(self) -> None:
        """As if nothing had been placed."""
        room, ports, volumes = self._before
        self.room, self.ports, self._volumes = room.copy(), list(ports), [dict(used) for used in volumes]

    def feasible(self, wanted: Requirements, rules: Rules) -> Mask:
        """Nodes whose labels and taints suit, shape (N,)."""
        needed = rules.needed()
        key = (wanted, needed, rules.tolerations, rules.soft_taints)
        known = self._feasible.get(key)
        if known is None:
            suits = [
                not untolerated(node.taints, rules.tolerations, soft=rules.soft_taints)
                and needed <= labels.by_key.keys()
                and not labels.compatible(wanted)
                for node, labels in zip(self.nodes, self.labels, strict=True)
            ]
            known = np.array(suits, dtype=np.bool_)
            self._feasible[key] = known
        return known

    def candidates(self, wanted: Requirements, rules: Rules, vector: Amounts) -> list[int]:
        """Nodes that suit and have room, in order of preference."""
        if not self.nodes:
            return []
        fits = self.feasible(wanted, rules).copy()
        for row in np.flatnonzero(vector).tolist():
            fits &= self.room[:, row] >= vector[row]
        return [int(row) for row in np.flatnonzero(fits).tolist()]

    def accepts(self, row: int, shape: Shape) -> bool:
        """True iff the pod's host ports and volumes suit as well."""
        if shape.ports and ports_conflict(shape.ports, self.ports[row]):
            return False
        return not self.attach_error(row, shape)

    def attach_error(self, row: int, shape: Shape) -> str:
        """'' iff the node can attach the pod's volumes, else why not."""
        limits = self.nodes[row].volume_limits
        return volume_limit_error(shape.volumes, self._volumes[row], limits) if shape.volumes else ""

    def holds(self, row: int, shape: Shape) -> int:
        """How many pods of the shape fit, as far as one does."""
        if shape.ports or shape.volumes:
            return 1
        asked = shape.vector > 0
        return int(np.min(self.room[row][asked] // shape.vector[asked]))

    def domain(self, row: int, key: str) -> str:
        """The node's value of a label; its own name for the hostname."""
        if key == HOSTNAME:
            return self.nodes[row].name
        return self.nodes[row].labels.get(key, "")

    def place(self, row: int, shape: Shape, count: int = 1) -> None:
        """Take the room of so many pods of a shape."""
        self.room[row] -= count * shape.vector
        self.ports[row] = (*self.ports[row], *shape.ports)
        self._attach(row, shape.volumes)

    def _attach(self, row: int, volumes: Mapping[str, frozenset[str]]) -> None:
        used = self._volumes[row]
        for driver, items in volumes.items():
            used[driver] = used.get(driver, _NOTHING) | items

    @staticmethod
    def _free(node: ExistingNode, labels: Requirements, axis: Axis, daemons: Sequence[Daemon]) -> Amounts:
        used = np.zeros(len(axis.names), dtype=np.int64)
        present = np.zeros_like(used)
        for pod in node.pods:
            vector = axis.vector(pod_requests(pod))
            used += vector
            if _is_daemon(pod):
                present += vector
        expected = np.zeros_like(used)
        for daemon in daemons:
            if daemon.runs_on(labels, node.taints, _NOTHING):
                expected += daemon.vector
        room: Amounts = axis.vector(node.allocatable) - used - np.maximum(expected - present, 0)
        return room


def _is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller()
    return owner is not None and owner.kind == "DaemonSet"
