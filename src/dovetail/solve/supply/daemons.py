"""What daemons take of every node: resources and host ports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dovetail.api.core import Pod, Taint
from dovetail.api.workloads import DaemonSet
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.problem import ExistingNode
from dovetail.model.requirement import pod_requirements
from dovetail.model.resources import pod_requests
from dovetail.solve.demand.match import untolerated
from dovetail.solve.supply.encode import Amounts, Axis, PoolTable


class Daemon:
    """One DaemonSet's pod, as every node that it matches will run it."""

    def __init__(self, daemonset: DaemonSet, axis: Axis) -> None:
        template = daemonset.spec.template
        pod = Pod(metadata=daemonset.metadata, spec=template.spec)
        self.vector = axis.vector(pod_requests(pod))
        self.ports = host_ports(pod)
        self.alternatives = pod_requirements(pod)
        self.tolerations = template.spec.tolerations

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """True iff no hard taint keeps it away."""
        return untolerated(taints, self.tolerations, soft=False) is None

    def comes_to(self, node: ExistingNode) -> bool:
        """True iff the node runs it, or will."""
        return self.tolerates(node.taints) and any(
            node.occupancy.labels.suits(item) for item in self.alternatives
        )


def reserve(
    table: PoolTable, daemons: Sequence[Daemon], well_known: frozenset[str]
) -> tuple[Amounts, tuple[HostPort, ...]]:
    """What daemons take per type, shape (T, R), and the ports that some of them take on the pool's nodes."""
    taken = np.zeros_like(table.room)
    ports: set[HostPort] = set()
    for daemon in daemons:
        if not daemon.tolerates(table.pool.taints):
            continue
        runs = np.zeros(len(table.types), dtype=np.bool_)
        for item in daemon.alternatives:
            if table.base.suits(item, well_known):
                runs |= table.type_mask(item)
        taken[runs] += daemon.vector
        if runs.any():
            ports.update(daemon.ports)
    return taken, tuple(sorted(ports))
