"""Where the scheduler binds pods that leave their nodes: played pod by pod, without a cluster around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.cluster.nodes import GOES_NEXT
from dovetail.model.cluster_view import NodeView
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.scores import best_node
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations


class Bindings:
    """Follows the nodes from one call to the next: the time that one takes is that of the nodes that changed,
    and of filters and scores for the pods that move.

    Invariant: `_at` says of each pod that the cluster has where it is.
    """

    def __init__(self, problem: Problem) -> None:
        self._cluster = Cluster()
        self._cluster.view.volumes = problem.volumes
        for name, tags in problem.namespaces.items():
            self._cluster.set_namespace(name, dict(tags))
        self._feasibility = Feasibility(self._cluster, Nominations(self._cluster.view))
        self._known: dict[str, ExistingNode] = {}
        self._avoided: frozenset[str] = frozenset()
        self._at: dict[str, str] = {}  # by pod key

    def __call__(
        self, nodes: Sequence[ExistingNode], moved: Sequence[Pod], avoided: Set[str]
    ) -> Mapping[str, str]:
        """The node of each pod that is `moved`, by key; where the scheduler has no place for one of them, all
        of them stay where the nodes have them. `avoided` nodes bear the taint of those that go next.
        """
        meant = self._follow(nodes, {pod.key for pod in moved})
        self._avoid(avoided)
        for pod in moved:
            found = self._feasibility.judge(pod).nodes
            if not found:
                for other in moved:
                    self._unbind(other.key)
                    self._bind(other, meant[other.key])
                return meant
            self._bind(pod, best_node(pod, found, self._cluster.occupancy, 0, "choice").name)
        return {pod.key: self._at[pod.key] for pod in moved}

    def _follow(self, nodes: Sequence[ExistingNode], moved: Set[str]) -> dict[str, str]:
        """Take in what changed, but for the pods that are `moved`: where the nodes have these."""
        there = {node.name for node in nodes}
        for name in self._known.keys() - there:
            self._cluster.drop_node(name)
            self._unbind_all(pod.key for pod in self._known.pop(name).pods)
        self._unbind_all(moved)
        meant = {}
        for node in nodes:
            if self._known.get(node.name) is node:
                continue
            if node.name not in self._known:
                self._cluster.set_view(NodeView.planned(node))
            self._known[node.name] = node
            for pod in node.pods:
                if pod.key in moved:
                    meant[pod.key] = node.name
                elif self._at.get(pod.key) != node.name:
                    self._unbind(pod.key)
                    self._bind(pod, node.name)
        return meant

    def _avoid(self, names: Set[str]) -> None:
        for name in (names ^ self._avoided) & self._known.keys():
            view = self._cluster.view.nodes[name]
            others = tuple(taint for taint in view.taints if taint != GOES_NEXT)
            taints = (*others, GOES_NEXT) if name in names else others
            self._cluster.set_view(replace(view, taints=taints))
        self._avoided = frozenset(names)

    def _bind(self, pod: Pod, name: str) -> None:
        self._cluster.bind(pod, name)
        self._at[pod.key] = name

    def _unbind(self, key: str) -> None:
        self._cluster.unbind(key)
        self._at.pop(key, None)

    def _unbind_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._unbind(key)
