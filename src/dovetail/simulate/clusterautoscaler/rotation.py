"""Trying nodes in turn, as Cluster Autoscaler's simulations do: each search goes on behind the last hit."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.core import Pod
from dovetail.model.cluster_view import ClusterView
from dovetail.model.filters import Placement


class Rotation:
    """Where the next search begins; one for all searches of a simulation, over all nodes of the view."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._next = 0

    def place(self, pod: Pod, allowed: Callable[[str], bool]) -> str | None:
        """Bind the pod to the first allowed node that takes it; its name, or None. O(nodes) filters."""
        names = list(self._view.nodes)
        placement = Placement(pod, self._view)
        for step in range(len(names)):
            name = names[(self._next + step) % len(names)]
            if allowed(name) and not placement.examine(self._view.nodes[name]):
                self._next = (self._next + step + 1) % len(names)
                self._view.add_pod(pod, name)
                return name
        return None
