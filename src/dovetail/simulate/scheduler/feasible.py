"""Where a pod may go. The filters say so of as many nodes as one attempt looks at.

The scheduler keeps room on a node for pods that wait and are nominated to it, whatever nominated them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Pod, PodSpec
from dovetail.base.memo import by_identity
from dovetail.base.streams import stream
from dovetail.model.filters import (
    ClusterView,
    Examination,
    NodeView,
    Nominated,
    Placement,
    PodFacts,
    Reasons,
    examine_all,
    no_preemption,
)
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.preemption import Preemption, Refusal, preempt
from dovetail.simulate.scheduler.sampling import enough, named_nodes

_KINDS = 128  # of pods, of which is remembered what nodes are to them
_FEW = 16


class Nominations:
    """By node, which need not exist. `version` goes up with what may matter to other pods."""

    def __init__(self, view: ClusterView) -> None:
        self.version = 0
        self._view = view
        self._by_node: dict[str, dict[str, Pod]] = {}  # node -> pod uid -> pod
        self._node_of: dict[str, str] = {}  # pod uid -> node
        # Per node what follows from its pods and from the volumes: the least priority -> those that have it.
        self._facts: dict[str, dict[int, tuple[PodFacts, ...]]] = {}
        self._volumes = view.volumes

    def __len__(self) -> int:
        return len(self._node_of)

    def set(self, pod: Pod, node: str) -> None:
        """The pod is nominated to that node; "" for none."""
        self.drop(pod.metadata.uid)
        if node:
            self._node_of[pod.metadata.uid] = node
            self._by_node.setdefault(node, {})[pod.metadata.uid] = pod
            self._changed(node)

    def drop(self, uid: str) -> None:
        """The pod waits no more, or its nomination was taken away."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]
            self._changed(node)

    def _changed(self, node: str) -> None:
        self._facts.pop(node, None)
        self.version += node in self._view.nodes

    def ahead_of(self, pod: Pod, node: str) -> tuple[PodFacts, ...]:
        """The others of the pod's priority or a higher one that are nominated to the node."""
        if node not in self._by_node:
            return ()
        if self._volumes is not self._view.volumes:
            self._facts.clear()
            self._volumes = self._view.volumes
        least, known = pod.spec.priority, self._facts.setdefault(node, {})
        if least not in known:
            pods = (one for one in self._by_node[node].values() if one.spec.priority >= least)
            known[least] = tuple(map(self._view.facts, pods))
        if self._node_of.get(pod.metadata.uid) != node:
            return known[least]
        return tuple(one for one in known[least] if one.pod.metadata.uid != pod.metadata.uid)

    def below(self, priority: int, node: str) -> tuple[Pod, ...]:
        """Those nominated to the node that have a lower priority."""
        return tuple(pod for pod in self._by_node.get(node, {}).values() if pod.spec.priority < priority)

    def check(self) -> None:
        """Assert the invariant; for tests."""
        found = {uid: node for node, pods in self._by_node.items() for uid in pods}
        assert found == self._node_of
        assert all(self._by_node.values())


@dataclass(slots=True)
class _Known:
    """What the filters of one node said of a kind of pods. Holds for that node with those pods."""

    node: NodeView
    used: object
    alone: Reasons | None = None
    nominated: Sequence[PodFacts] = ()
    beside: Reasons | None = None


class _Repeated(Placement):
    """A pod whose like was placed before: only nodes that changed since then are examined anew.

    For pods without volumes: what those are bound to changes without any change of a node.
    """

    def __init__(self, pod: Pod, view: ClusterView, known: dict[str, _Known]) -> None:
        super().__init__(pod, view)
        self._known = known

    def alone(self, node: NodeView) -> Reasons:
        """See Placement."""
        known = self._of(node)
        if known.alone is None:
            known.alone = super().alone(node)
        return known.alone

    def beside(self, node: NodeView, nominated: Sequence[PodFacts]) -> Reasons:
        """See Placement."""
        known = self._of(node)
        if known.beside is None or known.nominated is not nominated:
            known.nominated, known.beside = nominated, super().alone(node.with_more(nominated))
        return known.beside

    def _of(self, node: NodeView) -> _Known:
        known = self._known.get(node.name)
        if known is None or known.node is not node or known.used is not node.used:
            known = self._known[node.name] = _Known(node, node.used)
        return known


@dataclass(frozen=True, slots=True)
class Verdict:
    """The nodes that may take the pod, of those looked at, in order of name; without any, the scheduler's
    message, and what has to go for the pod. `keeps`: True iff its nomination stays as it is.
    """

    nodes: tuple[NodeView, ...] = ()
    message: str = ""
    keeps: bool = False
    preemption: Preemption | None = None


class Feasibility:
    """Copies of a pod that fit nowhere get one examination, for as long as nothing changes.

    `seed` is of the choice among equals where pods have to go; without one nothing is looked for.
    """

    def __init__(self, cluster: Cluster, nominations: Nominations, seed: int | None = None) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._seed = seed
        # Kinds of pods that fit nowhere, and for which none can go -> that verdict; of the state `_version`
        # of view and nominations.
        self._refused: dict[tuple[bytes, str], Verdict] = {}
        self._version = (-1, -1)
        # By kind of pods what is known of the nodes for them; what was asked about longest ago is forgotten.
        self._known: dict[bytes, dict[str, _Known]] = {}
        self._start = 0  # where in the list of nodes the next attempt begins

    def judge(self, pod: Pod) -> Verdict:
        """Ask all filters about the pod's nominated node; about others if it may not run there."""
        view, name = self._cluster.view, pod.status.nominated_node_name
        ahead = partial(self._nominations.ahead_of, pod)
        alike = _kind(pod)
        placement = self._placement(pod, alike)
        if name in view.nodes and not placement.examine(view.nodes[name], ahead(name)):
            return Verdict(nodes=(view.nodes[name],))
        version = (view.version, self._nominations.version)
        if self._version != version:
            self._refused.clear()
            self._version = version
        kind = (alike, name if name in view.nodes else "")
        known = self._refused.get(kind)
        if known is not None:
            return known
        found = self._search(placement, ahead)
        if names := found.feasible:
            return Verdict(nodes=tuple(view.nodes[name] for name in names))
        outcome = self._preempt(pod, found, ahead)
        if isinstance(outcome, Preemption):
            return Verdict(message=found.message(""), preemption=outcome)
        verdict = self._refused[kind] = Verdict(message=found.message(outcome.text), keeps=outcome.keeps)
        return verdict

    def _placement(self, pod: Pod, kind: bytes) -> Placement:
        view = self._cluster.view
        if pod.spec.volumes:
            return Placement(pod, view)
        known = self._known.pop(kind, {})
        if len(known) > 2 * len(view.nodes) + _FEW:
            known = {name: one for name, one in known.items() if name in view.nodes}
        self._known[kind] = known
        if len(self._known) > _KINDS:
            del self._known[next(iter(self._known))]
        return _Repeated(pod, view, known)

    def _search(self, placement: Placement, ahead: Nominated) -> Examination:
        """Go round the nodes until enough may take the pod and one more would; all of them if none may."""
        view, listed = self._cluster.view, self._cluster.order.names
        names = listed
        if (named := named_nodes(placement.facts.node_rule)) is not None:
            names = sorted(named & view.nodes.keys())
        if placement.nowhere or not names:
            return examine_all(placement.facts.pod, view, ahead)
        first, most, feasible = self._start % len(names), enough(len(names)), 0
        found: dict[str, Reasons] = {}
        for name in (*names[first:], *names[:first]):
            reasons = placement.examine(view.nodes[name], ahead(name))
            if not reasons:
                if feasible == most:
                    break
                feasible += 1
            found[name] = reasons
        self._start = (self._start + len(found)) % len(listed)
        if named is not None and not feasible:
            return examine_all(placement.facts.pod, view, ahead)  # the message counts the others too
        return Examination(dict(sorted(found.items())))

    def _preempt(self, pod: Pod, found: Examination, ahead: Nominated) -> Preemption | Refusal:
        cluster = self._cluster
        lowest = min(cluster.priorities, default=pod.spec.priority)
        if self._seed is None or lowest >= pod.spec.priority:
            keeps = bool(found.reasons) and pod.spec.preemption_policy == "Never"
            return Refusal(no_preemption(pod, found), keeps=keeps)
        draw = stream(self._seed, pod.key, "preemption")
        return preempt(pod, found, cluster.view, ahead, tuple(cluster.budgets.values()), draw)


def _kind(pod: Pod) -> bytes:
    meta = pod.metadata
    own = (meta.namespace, meta.labels, bool(meta.deletion_timestamp))
    return msgspec.json.encode(own, order="deterministic") + _spec(pod.spec)


@by_identity(8_192)
def _spec(spec: PodSpec) -> bytes:
    return msgspec.json.encode(encode(spec), order="deterministic")
