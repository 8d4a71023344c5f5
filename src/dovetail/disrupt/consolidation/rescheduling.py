"""Where the scheduler puts the pods of nodes that go: played pod by pod, in the order of their evictions.

A plan proves that there is room for all of them at once. The scheduler takes one pod after the other, as they
are made anew, and goes by its own scores: small ones took what the plan had left for a large one, or a pod
went beside its like where only one had room. For what was left over then a node was bought, and the next
command took that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from dovetail.api.core import Pod, Toleration
from dovetail.cluster.nodes import GOES_NEXT
from dovetail.disrupt.consolidation.churn import workload
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.pods import eviction_turn, unbound
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import Placement
from dovetail.model.problem import ExistingNode
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.model.scores import Occupancy, best_node
from dovetail.model.selector import NodeRule
from dovetail.solve.budget import SolveBudget

UNITS_PER_POD = 250  # of work: it takes 0.15 to 0.25 ms with 60 nodes, 0.5 with 600
_SORTED = 8  # of the nodes at most one in so many are put in order; of more it is faster to look at all
# What it asks for, on which nodes, what it tolerates; and which pod it is where more counts.
_Kind = tuple[tuple[tuple[str, int], ...], NodeRule, tuple[Toleration, ...], str]


class Rescheduling:
    """The nodes of the last question as the scheduler sees them, kept from one to the next.

    Invariant: `_known` are the nodes that `_view` holds, with their pods, and which of them are avoided; but
    for what was `_done`. The first `_settled` entries of that bind the pods of `_question` that were on their
    way already; all others are those of a play, and undone after it. `_open` are, by kind of pods, the nodes
    that would let one of them in, whatever runs elsewhere, with one to ask about, but for those to be asked
    anew.
    """

    def __init__(self) -> None:
        self._view = ClusterView()
        self._occupancy = Occupancy(self._view)
        self._known: dict[str, tuple[ExistingNode, bool]] = {}
        self._question: Question | None = None
        self._settled = 0
        self._done: list[tuple[Pod, str, int]] = []  # 1: it came to the node, -1: it went
        self._open: dict[_Kind, tuple[Placement, set[str], set[str]]] = {}
        self._turn: dict[str, int] = {}  # of each node in the question, in order

    def left_over(
        self, question: Question, leaving: Sequence[Candidate], work: SolveBudget
    ) -> frozenset[str]:
        """Names of those of these nodes of which a pod finds no room elsewhere once its turn comes."""
        work.spend(UNITS_PER_POD * sum(len(one.pods) for one in leaving))
        question, leaving = question.in_rows(leaving)
        evicted, left = self._all_evicted(question, leaving, together=len(leaving) == 1)
        self._undo(self._settled)
        lost = {pod.key for pod in left}
        return frozenset(name for name, pods in evicted.items() if any(pod.key in lost for pod in pods))

    def places(
        self, question: Question, leaving: Sequence[Candidate]
    ) -> Mapping[str, tuple[str, ...]] | None:
        """Which nodes take which pods of these, by key; None where one is left over."""
        bound = self.bound(question, leaving)
        if bound is None:
            return None
        keys = {pod.key for one in leaving for pod in one.pods}
        found: dict[str, tuple[str, ...]] = {}
        for pod, name in bound:
            if pod.key in keys:
                found[name] = (*found.get(name, ()), pod.key)
        return found

    def bound(self, question: Question, leaving: Sequence[Candidate]) -> Sequence[tuple[Pod, str]] | None:
        """Which node takes which pod, of those on their way too; None where one of these is left over."""
        question, leaving = question.in_rows(leaving)
        _, left = self._all_evicted(question, leaving, together=True)
        found = [(pod, name) for pod, name, sign in self._done if sign > 0]
        self._undo(self._settled)
        return None if left else found

    def leaves_room(
        self, question: Question, leaving: Sequence[Candidate], bound: Iterable[tuple[Pod, str]]
    ) -> bool:
        """True iff there is room for what CapacityBuffers keep once these pods were bound to these nodes."""
        question, leaving = question.in_rows(leaving)
        shut = self._begin(question, leaving)
        names = dict.fromkeys([*(one.name for one in leaving), *(name for _, name in bound)])
        homeless = [
            facts.pod
            for name in names
            for facts in tuple(self._view.nodes[name].pods.values())
            if facts.pod.metadata.uid in question.reserved
        ]
        for pod in homeless:
            self._unbind(pod, pod.spec.node_name)
        for one in leaving:
            self._evicted(one)
        for pod, name in bound:
            self._bind(pod, name)
        left = self._placed(sorted(map(unbound, homeless), key=_largest_first), shut)
        self._undo(self._settled)
        return not left

    def _all_evicted(
        self, question: Question, leaving: Sequence[Candidate], *, together: bool
    ) -> tuple[Mapping[str, Sequence[Pod]], Sequence[Pod]]:
        """The pods of each of these nodes, and those that are left over; `together` as in `_placed`."""
        shut = self._begin(question, leaving)
        evicted = {one.name: self._evicted(one) for one in leaving}
        return evicted, self._placed(_made_anew(evicted.values()), shut, together=together)

    def together(
        self, question: Question, candidates: Sequence[Candidate], work: SolveBudget
    ) -> tuple[Candidate, ...]:
        """As many of these nodes as can go together without a pod left over, in order. Greedy.

        Half of the work is left for a plan of theirs. One of which a pod is left over stays as it is, and
        pods of those after it may come there.
        """
        seen, going = question.in_rows(candidates)
        shut = self._begin(seen, going)
        gone, half = [], work.part(0.5)
        for one, as_seen in zip(candidates, going, strict=True):
            if not half.left:
                break
            work.spend(UNITS_PER_POD * len(one.pods))
            before = len(self._done)
            if self._placed(self._evicted(as_seen), shut, together=True):
                self._undo(before)
                shut.discard(one.name)
            else:
                gone.append(one)
        self._undo(self._settled)
        return tuple(gone)

    def _begin(self, question: Question, leaving: Sequence[Candidate]) -> set[str]:
        """Names of nodes that take no pods of these."""
        if question is not self._question:
            self._undo(0)
            self._follow(question)
            self._question = question
            self._placed(question.problem.pods, question.closed)
            self._settled = len(self._done)
        return {*question.closed, *(one.name for one in leaving)}

    def _placed(self, waiting: Sequence[Pod], shut: Set[str], *, together: bool = False) -> list[Pod]:
        """Bind each pod in turn, and those without room once more after others; the rest.

        `together`: all or none are to be bound. The first is the rest that no node lets in as it is, if
        none of the others matters to it but for the room it takes.
        """
        left, before = list(waiting), len(waiting) + 1
        if together and (stuck := self._stuck(waiting, shut)):
            return stuck
        while left and len(left) < before:
            before, turns, left = len(left), left, []
            for pod in turns:
                placement, names = self._letting_in(pod, shut)
                if not names and together:
                    return [pod]
                found = self._fitting(placement, names)
                if found:
                    self._bind(pod, best_node(pod, found, self._occupancy, 0, "rescheduling").name)
                else:
                    left.append(pod)
        return left

    def _stuck(self, waiting: Sequence[Pod], shut: Set[str]) -> list[Pod]:
        """The first of these pods that will find no room, as far as that is seen before any of them comes.

        Of 556 plays of nodes that stay (550 nodes, traffic falls) most end here, before anything is scored.
        """
        for pod in waiting:
            placement, names = self._letting_in(pod, shut)
            if not names:
                return [pod]
            if placement.local or placement.between:
                continue
            rules = placement.facts.spread
            others = (other.metadata for other in waiting if other is not pod)
            if any(rule.counts(one.namespace, one.labels) for one in others for rule in rules):
                continue  # once those came it may be let in elsewhere
            if all(placement.together(self._view.nodes[name]) for name in names):
                return [pod]
        return []

    def _evicted(self, candidate: Candidate) -> Sequence[Pod]:
        """Its pods count there no more; those that come in their place, in the order of their turns.

        Pods that would come to it now have to go on.
        """
        node, _ = self._known[candidate.name]
        there = {pod.key for pod in node.pods}
        coming = []
        for key, facts in tuple(self._view.nodes[node.name].pods.items()):
            self._unbind(facts.pod, node.name)
            coming += [facts.pod] * (key not in there)
        return sorted((*candidate.pods, *coming), key=lambda pod: eviction_turn(pod, node.allocatable))

    def _letting_in(self, pod: Pod, shut: Set[str]) -> tuple[Placement, Set[str]]:
        """Nodes that let it in, whatever runs elsewhere."""
        placement = Placement(pod, self._view)
        kind = _kind(placement.facts)
        if kind not in self._open:
            self._open[kind] = placement, set(), set(self._view.nodes)
        like, names, unknown = self._open[kind]
        for name in unknown - shut:  # of those that are shut nothing is asked: pods go there and come back
            unknown.discard(name)
            if _lets_in(like, self._view.nodes[name]):
                names.add(name)
        return placement, names - shut

    def _fitting(self, placement: Placement, names: Set[str]) -> list[NodeView]:
        if len(names) * _SORTED > len(self._turn):
            turns: Iterable[str] = (name for name in self._turn if name in names)
        else:
            turns = sorted(names, key=self._turn.__getitem__)
        nodes = [self._view.nodes[name] for name in turns]
        return nodes if placement.local else [node for node in nodes if not placement.together(node)]

    def check(self) -> None:
        """Assert the invariant; for tests."""
        assert len(self._done) == self._settled
        for placement, names, unknown in self._open.values():
            known = (one for one in self._view.nodes.values() if one.name not in unknown)
            assert names == {one.name for one in known if not placement.alone(one)}
        self._undo(0)
        self._question = None
        self._view.check()
        assert self._view.nodes.keys() == self._known.keys()
        for name, (node, avoided) in self._known.items():
            there = self._view.nodes[name]
            assert {pod.key for pod in node.pods} == there.pods.keys()
            assert (GOES_NEXT in there.taints) == avoided
        requested = {name: one for name, one in self._occupancy.requested.items() if any(one.values())}
        fresh = Occupancy(self._view).requested
        assert requested == {name: one for name, one in fresh.items() if any(one.values())}

    def _bind(self, pod: Pod, name: str) -> None:
        self._count(pod, name, 1)
        self._done.append((pod, name, 1))

    def _unbind(self, pod: Pod, name: str) -> None:
        self._count(pod, name, -1)
        self._done.append((pod, name, -1))

    def _undo(self, until: int) -> None:
        """What was done after so much."""
        while len(self._done) > until:
            pod, name, sign = self._done.pop()
            self._count(pod, name, -sign)

    def _count(self, pod: Pod, name: str, sign: int) -> None:
        if sign > 0:
            self._view.add_pod(pod, name)
        else:
            self._view.remove_pod(pod.key)
        self._occupancy.count(pod, name, sign)
        for _, names, unknown in self._open.values():
            names.discard(name)
            unknown.add(name)

    def _follow(self, question: Question) -> None:
        """Take in what is otherwise than in the last question."""
        problem = question.problem
        self._open.clear()
        self._turn = {node.name: turn for turn, node in enumerate(problem.nodes)}
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
                self._count(pod, node.name, 1)
            self._known[node.name] = now

    def _empty(self, name: str) -> None:
        for facts in tuple(self._view.nodes[name].pods.values()):
            self._count(facts.pod, name, -1)


def _made_anew(evicted: Iterable[Sequence[Pod]]) -> list[Pod]:
    """What comes in the place of these nodes' pods, in order: all at once that one controller makes.

    It makes all that it lacks in one go, in place of pods of nodes that go later as well. (Played one node
    after the other all 39 pods of four nodes found room, and a node was bought for two of them.)
    """
    pods = [pod for some in evicted for pod in some]
    turn = {key: at for at, key in enumerate(dict.fromkeys(map(workload, pods)))}
    return sorted(pods, key=lambda pod: turn[workload(pod)])


def _largest_first(pod: Pod) -> tuple[int, int, str]:
    asked = pod_requests(pod)
    return -asked.get(CPU, 0), -asked.get(MEMORY, 0), pod.key


def _seen(node: ExistingNode, avoided: bool) -> NodeView:
    seen = NodeView.planned(node)
    return replace(seen, taints=(*seen.taints, GOES_NEXT)) if avoided else seen


def _kind(facts: PodFacts) -> _Kind:
    spec = facts.pod.spec
    own = facts.pod.key if facts.ports or spec.volumes or spec.node_name else ""
    return tuple(facts.requests.items()), facts.node_rule, spec.tolerations, own


def _lets_in(placement: Placement, node: NodeView) -> bool:
    """As the filters say; most nodes are full, which is seen first."""
    used, room = node.used, node.allocatable
    for name, amount in placement.facts.requests.items():
        if 0 < amount > room.get(name, 0) - used.get(name, 0):
            return False
    return not placement.alone(node)
