"""Where a pod may go, asked of the filters once per kind of pod and state of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.model.filters import NodeView, Placement, feasible_nodes, unschedulable_message
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.nominations import Nominations


@dataclass(frozen=True, slots=True)
class Verdict:
    """The nodes that may take the pod, in order of name; without any, the scheduler's message."""

    nodes: tuple[NodeView, ...] = ()
    message: str = ""


class Feasibility:
    """Copies of a pod that fit nowhere get one examination, for as long as nothing changes."""

    def __init__(self, cluster: Cluster, nominations: Nominations) -> None:
        self._cluster = cluster
        self._nominations = nominations
        # Kinds of pods that fit nowhere -> the message; of the state `_version` of view and nominations.
        self._refused: dict[tuple[bytes, str], str] = {}
        self._version = (-1, -1)

    def judge(self, pod: Pod) -> Verdict:
        """Ask all filters about the pod's nominated node; about all nodes if it may not run there."""
        view, name = self._cluster.view, pod.status.nominated_node_name
        ahead = self._nominations.ahead_of(pod)
        if name in view.nodes and not Placement(pod, view).examine(view.nodes[name], ahead.get(name, ())):
            return Verdict(nodes=(view.nodes[name],))
        version = (view.version, self._nominations.version)
        if self._version != version:
            self._refused.clear()
            self._version = version
        kind = (_kind(pod), name if name in view.nodes else "")
        message = self._refused.get(kind)
        if message is None:
            names = feasible_nodes(pod, view, ahead)
            if names:
                return Verdict(nodes=tuple(view.nodes[name] for name in names))
            message = self._refused[kind] = unschedulable_message(pod, view, ahead)
        return Verdict(message=message)


def _kind(pod: Pod) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode(
        (meta.namespace, meta.labels, bool(meta.deletion_timestamp), encode(pod.spec)), order="deterministic"
    )
