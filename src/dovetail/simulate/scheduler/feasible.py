"""Where a pod may go, asked of the filters once per kind of pod and state of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.model.filters import NodeView, feasible_nodes, unschedulable_message
from dovetail.simulate.scheduler.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Verdict:
    """The nodes that may take the pod, in order of name; without any, the scheduler's message."""

    nodes: tuple[NodeView, ...] = ()
    message: str = ""


class Feasibility:
    """Copies of a pod that fit nowhere get one examination, for as long as nothing changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Kinds of pods that fit nowhere -> the message; of the view's state `_version`.
        self._refused: dict[bytes, str] = {}
        self._version = -1

    def judge(self, pod: Pod) -> Verdict:
        """Ask all filters about all nodes."""
        view = self._cluster.view
        if self._version != view.version:
            self._refused.clear()
            self._version = view.version
        kind = _kind(pod)
        message = self._refused.get(kind)
        if message is None:
            names = feasible_nodes(pod, view)
            if names:
                return Verdict(nodes=tuple(view.nodes[name] for name in names))
            message = self._refused[kind] = unschedulable_message(pod, view)
        return Verdict(message=message)


def _kind(pod: Pod) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode(
        (meta.namespace, meta.labels, bool(meta.deletion_timestamp), encode(pod.spec)), order="deterministic"
    )
