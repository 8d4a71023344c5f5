"""Where the scheduler puts the pods of nodes that go: played pod by pod, in the order of their evictions.

A plan proves that there is room for all of them at once. The scheduler takes one pod after the other, as they
are made anew, and goes by its own scores: small ones took what the plan had left for a large one, or a pod
went beside its like where only one had room. For what was left over then a node was bought, and the next
command took that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.api.core import Pod
from dovetail.cluster.nodes import GOES_NEXT
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.pods import eviction_turn
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import Placement
from dovetail.model.problem import ExistingNode
from dovetail.model.resources import pod_requests
from dovetail.model.scores import Occupancy, best_node


class Rescheduling:
    """The nodes of the last question as the scheduler sees them, kept from one to the next.

    Invariant: `_known` are the nodes that `_view` holds, with their pods, and which of them are avoided.
    """

    def __init__(self) -> None:
        self._view = ClusterView()
        self._occupancy = Occupancy(self._view)
        self._known: dict[str, tuple[ExistingNode, bool]] = {}

    def left_over(self, question: Question, leaving: Sequence[Candidate]) -> frozenset[str]:
        """Keys of those pods of these nodes that no other node has room for once their turn comes."""
        self._follow(question)
        gone = {one.name for one in leaving}
        shut = gone | question.closed
        there = [one for one in self._view.nodes.values() if one.name not in shut]
        away = [(facts.pod, name) for name in gone for facts in self._view.nodes[name].pods.values()]
        for pod, name in away:
            self._unbind(pod, name)
        turns = [pod for one in leaving for pod in self._evicted(one)]
        bound = dict[str, tuple[Pod, str]]()
        left = list(question.problem.pods) + turns  # those on their way already come first
        before = len(left) + 1
        while left and len(left) < before:
            before, waiting, left = len(left), left, []
            for pod in waiting:
                found = self._fitting(pod, there)
                if found:
                    name = best_node(pod, found, self._occupancy, 0, "rescheduling").name
                    self._bind(pod, name)
                    bound[pod.key] = pod, name
                else:
                    left.append(pod)
        for pod, name in bound.values():
            self._unbind(pod, name)
        for pod, name in away:
            self._bind(pod, name)
        return frozenset(pod.key for pod in turns if pod.key not in bound)

    def check(self) -> None:
        """Assert the invariant; for tests."""
        self._view.check()
        assert self._view.nodes.keys() == self._known.keys()
        for name, (node, avoided) in self._known.items():
            there = self._view.nodes[name]
            assert {pod.key for pod in node.pods} == there.pods.keys()
            assert (GOES_NEXT in there.taints) == avoided
        requested = {name: one for name, one in self._occupancy.requested.items() if any(one.values())}
        fresh = Occupancy(self._view).requested
        assert requested == {name: one for name, one in fresh.items() if any(one.values())}

    def _evicted(self, candidate: Candidate) -> Sequence[Pod]:
        room = self._known[candidate.name][0].allocatable
        return sorted(candidate.pods, key=lambda pod: eviction_turn(pod, room))

    def _fitting(self, pod: Pod, there: Iterable[NodeView]) -> list[NodeView]:
        wanted = [(name, amount) for name, amount in pod_requests(pod).items() if amount > 0]
        roomy = [
            node
            for node in there
            if all(
                node.used.get(name, 0) + amount <= node.allocatable.get(name, 0) for name, amount in wanted
            )
        ]
        if not roomy:
            return roomy
        placement = Placement(pod, self._view)
        return [node for node in roomy if not placement.examine(node)]

    def _bind(self, pod: Pod, name: str) -> None:
        self._view.add_pod(pod, name)
        self._occupancy.count(pod, name, 1)

    def _unbind(self, pod: Pod, name: str) -> None:
        self._view.remove_pod(pod.key)
        self._occupancy.count(pod, name, -1)

    def _follow(self, question: Question) -> None:
        """Take in what is otherwise than in the last question."""
        problem = question.problem
        if problem.volumes != self._view.volumes or problem.namespaces != self._view.namespaces:
            self._view = ClusterView(namespaces=problem.namespaces, volumes=problem.volumes)
            self._occupancy, self._known = Occupancy(self._view), {}
        there = {node.name for node in problem.nodes}
        for name in [name for name in self._known if name not in there]:
            self._empty(name)
            self._view.remove_node(name)
            del self._known[name]
        for node in problem.nodes:
            now = node, node.name in question.avoided
            known = self._known.get(node.name)
            if known is not None and known[0] is node and known[1] == now[1]:
                continue
            if known is not None:
                self._empty(node.name)
            self._view.set_node(_seen(*now))
            for pod in node.pods:
                self._bind(pod, node.name)
            self._known[node.name] = now

    def _empty(self, name: str) -> None:
        for facts in tuple(self._view.nodes[name].pods.values()):
            self._unbind(facts.pod, name)


def _seen(node: ExistingNode, avoided: bool) -> NodeView:
    return NodeView(
        name=node.name,
        labels={labels.HOSTNAME: node.name, **node.labels},
        allocatable=node.allocatable,
        taints=(*node.taints, GOES_NEXT) if avoided else node.taints,
        volume_limits=node.volume_limits,
    )
