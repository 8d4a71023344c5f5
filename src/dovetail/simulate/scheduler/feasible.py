"""Where a pod may go. The filters say so of as many nodes as one attempt looks at.

The scheduler keeps room on a node for pods that wait and are nominated to it, whatever nominated them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Pod, PodSpec
from dovetail.base.memo import by_identity
from dovetail.base.streams import stream
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import (
    Examination,
    Nominated,
    Placement,
    Reasons,
    examine_all,
    no_preemption,
    no_victims,
    refusal,
)
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.preemption import Preemption, preempt
from dovetail.simulate.scheduler.sampling import enough

_KINDS = 128  # of pods, of which is remembered what nodes are to them
_CHANGES = 8_192  # of nodes, that are kept at least
_FEW = 8  # nodes among as many times that are put in turn by themselves


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
        self._view.on_change(node)

    def look(self) -> None:
        """Take in that volumes changed: what follows from the pods may have, on all nodes that have any."""
        if self._volumes is not self._view.volumes:
            self._volumes = self._view.volumes
            for node in self._by_node:
                self._changed(node)

    def node_of(self, pod: Pod) -> str:
        """To which node the pod is nominated; "" for none."""
        return self._node_of.get(pod.metadata.uid, "")

    def ahead_of(self, pod: Pod, node: str) -> tuple[PodFacts, ...]:
        """The others of the pod's priority or a higher one that are nominated to the node."""
        found = self.from_priority(pod.spec.priority, node)
        if self._node_of.get(pod.metadata.uid) != node:
            return found
        return tuple(one for one in found if one.pod.metadata.uid != pod.metadata.uid)

    def from_priority(self, least: int, node: str) -> tuple[PodFacts, ...]:
        """Those of that priority or a higher one that are nominated to the node."""
        if node not in self._by_node:
            return ()
        self.look()
        known = self._facts.setdefault(node, {})
        if least not in known:
            pods = (one for one in self._by_node[node].values() if one.spec.priority >= least)
            known[least] = tuple(map(self._view.facts, pods))
        return known[least]

    def below(self, priority: int, node: str) -> tuple[Pod, ...]:
        """Those nominated to the node that have a lower priority."""
        return tuple(pod for pod in self._by_node.get(node, {}).values() if pod.spec.priority < priority)

    def check(self) -> None:
        """Assert the invariant; for tests."""
        found = {uid: node for node, pods in self._by_node.items() for uid in pods}
        assert found == self._node_of
        assert all(self._by_node.values())


class _Changes:
    """Names of nodes in the order in which something of them changed, as far as they are kept."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        """How many there were so far."""
        return self._dropped + len(self._names)

    def note(self, name: str) -> None:
        """Something of the node changed."""
        self._names.append(name)
        if len(self._names) > 2 * _CHANGES:
            del self._names[:_CHANGES]
            self._dropped += _CHANGES

    def since(self, end: int) -> frozenset[str] | None:
        """Those after so many; None where not all of them are kept."""
        return frozenset(self._names[end - self._dropped :]) if end >= self._dropped else None


class _Kind:
    """What the filters of each node alone say of a kind of pods, beside those that are nominated there.

    Invariant: each node is in one of `refused`, `open` and `unknown`; `counts` is of the values of `refused`.
    """

    def __init__(self, nodes: Iterable[str], end: int) -> None:
        self.refused: dict[str, Reasons] = {}
        self.counts: Counter[Reasons] = Counter()
        self.open: set[str] = set()  # nothing there alone refuses them
        self.unknown: set[str] = set(nodes)  # to be asked
        self.end = end  # as of how many changes

    def forget(self, name: str, *, there: bool) -> None:
        """Something of the node changed, or it is gone."""
        self.open.discard(name)
        reasons = self.refused.pop(name, None)
        if reasons is not None:
            self.counts[reasons] -= 1
            if not self.counts[reasons]:
                del self.counts[reasons]
        if there:
            self.unknown.add(name)
        else:
            self.unknown.discard(name)

    def learn(self, name: str, reasons: Reasons) -> None:
        """The answer of a node that was unknown."""
        self.unknown.discard(name)
        if reasons:
            self.refused[name] = reasons
            self.counts[reasons] += 1
        else:
            self.open.add(name)


@dataclass(frozen=True, slots=True)
class _Found:
    """The nodes that may take the pod; without any, what each says that is not among those of the kind's
    `refused`, and those of these for which it says it in their place.
    """

    feasible: Sequence[str]
    reasons: Mapping[str, Reasons]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The nodes that may take the pod, of those looked at, in order of name; without any, the scheduler's
    message, the filters that refuse the pod on any node, and what has to go for the pod. `keeps`: True iff
    its nomination stays as it is.
    """

    nodes: tuple[NodeView, ...] = ()
    message: str = ""
    by: frozenset[str] = frozenset()
    keeps: bool = False
    preemption: Preemption | None = None


class Feasibility:
    """Copies of a pod that fit nowhere get one examination, for as long as nothing changes; of nodes that
    changed alone the filters are asked anew what no other node matters to.

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
        self._kinds: dict[bytes, _Kind] = {}
        self._changes = _Changes()
        # By node, with the pods that are nominated there, of a least priority: each kind of pods asks of it.
        self._filled: dict[str, dict[int, NodeView]] = {}
        cluster.view.on_change = self._changed
        self._start = 0  # where in the list of nodes the next attempt begins
        self._places: tuple[Sequence[str], dict[str, int]] = ((), {})  # a list of nodes, and where each is

    def _changed(self, name: str) -> None:
        self._changes.note(name)
        self._filled.pop(name, None)

    def judge(self, pod: Pod) -> Verdict:
        """Ask all filters about the pod's nominated node; about others if it may not run there."""
        view, name = self._cluster.view, pod.status.nominated_node_name
        ahead = partial(self._nominations.ahead_of, pod)
        if name in view.nodes and not Placement(pod, view).examine(view.nodes[name], ahead(name)):
            return Verdict(nodes=(view.nodes[name],))
        version = (view.version, self._nominations.version)
        if self._version != version:
            self._refused.clear()
            self._version = version
        alike = kind_of(pod)
        known = self._refused.get((alike, name if name in view.nodes else ""))
        if known is not None:
            return known
        placement = Placement(pod, view)
        named = placement.named
        names = self._cluster.order.names if named is None else sorted(named & view.nodes.keys())
        if placement.nowhere or not names:
            verdict = self._refusal(pod, examine_all(pod, view, ahead), ahead)
        else:
            kind = self._known(pod, alike, names)
            found = self._search(placement, kind, names, ahead)
            if found.feasible:
                return Verdict(nodes=tuple(view.nodes[name] for name in sorted(found.feasible)))
            if named is not None:  # the message counts the others too
                verdict = self._refusal(pod, examine_all(pod, view, ahead), ahead)
            elif self._may_evict(pod):
                reasons = sorted({**kind.refused, **found.reasons}.items())
                verdict = self._refusal(pod, Examination(dict(reasons)), ahead)
            else:
                counts = kind.counts + Counter(found.reasons.values())
                counts.subtract(kind.refused[name] for name in found.reasons.keys() & kind.refused.keys())
                counts = +counts
                text = refusal(counts, no_victims(pod, counts))
                verdict = Verdict(
                    message=text, by=_filters(counts), keeps=pod.spec.preemption_policy == "Never"
                )
        if verdict.preemption is None:
            self._refused[alike, name if name in view.nodes else ""] = verdict
        return verdict

    def _known(self, pod: Pod, alike: bytes, names: Sequence[str]) -> _Kind:
        """What is known of these nodes for the pod's kind, those that changed since being unknown.

        Nothing is kept of pods with volumes: what those are bound to changes without any change of a node.
        """
        self._nominations.look()
        kind, nodes = self._kinds.pop(alike, None), self._cluster.view.nodes
        since = self._changes.since(kind.end) if kind is not None else None
        if kind is None or since is None:
            kind = _Kind(names, self._changes.end)
        for name in since or ():
            kind.forget(name, there=name in nodes)
        kind.end = self._changes.end
        if names is self._cluster.order.names and not pod.spec.volumes:
            self._kinds[alike] = kind
            if len(self._kinds) > _KINDS:
                del self._kinds[next(iter(self._kinds))]
        return kind

    def _search(self, placement: Placement, kind: _Kind, names: Sequence[str], ahead: Nominated) -> _Found:
        """Go round the nodes until enough may take the pod and one more would; all of them if none may."""
        pod, nodes, nominations = placement.facts.pod, self._cluster.view.nodes, self._nominations
        first, most = self._start % len(names), enough(len(names))
        own = nominations.node_of(pod)  # what is nominated there is another for the pod than for its kind
        feasible: list[str] = []
        reasons: dict[str, Reasons] = {}
        seen = len(names)
        for place, name in self._in_turn(kind, names, first, own):
            node = nodes[name]
            others = nominations.from_priority(pod.spec.priority, name)
            if name in kind.unknown:
                kind.learn(name, placement.alone(self._with(node, pod.spec.priority, others)))
            if name != own and name in kind.refused:
                continue
            found = placement.examine(node, ahead(name)) if name == own else placement.together(node, others)
            if found:
                reasons[name] = found
            elif len(feasible) == most:
                seen = place
                break
            else:
                feasible.append(name)
        self._start = (self._start + seen) % len(self._cluster.order.names)
        return _Found(feasible, reasons)

    def _with(self, node: NodeView, priority: int, others: Sequence[PodFacts]) -> NodeView:
        """The node as if those ran there that are nominated to it, of at least that priority."""
        if not others:
            return node
        known = self._filled.setdefault(node.name, {})
        if priority not in known:
            known[priority] = node.with_more(others)
        return known[priority]

    def _in_turn(self, kind: _Kind, names: Sequence[str], first: int, own: str) -> Iterable[tuple[int, str]]:
        """The nodes that the kind's state does not answer for, from the first on, with their places."""
        asked = kind.open | kind.unknown
        if own in kind.refused:
            asked.add(own)
        if len(asked) * _FEW > len(names):
            return (
                (place, name) for place, name in enumerate((*names[first:], *names[:first])) if name in asked
            )
        if self._places[0] is not names:
            self._places = names, {name: place for place, name in enumerate(names)}
        places, count = self._places[1], len(names)
        return sorted(((places[name] - first) % count, name) for name in asked)

    def _may_evict(self, pod: Pod) -> bool:
        """True iff others may have to go for the pod."""
        lowest = min(self._cluster.priorities, default=pod.spec.priority)
        return self._seed is not None and lowest < pod.spec.priority

    def _refusal(self, pod: Pod, found: Examination, ahead: Nominated) -> Verdict:
        cluster, by = self._cluster, _filters(found.reasons.values())
        if self._seed is None or not self._may_evict(pod):
            keeps = bool(found.reasons) and pod.spec.preemption_policy == "Never"
            return Verdict(message=found.message(no_preemption(pod, found)), by=by, keeps=keeps)
        draw = stream(self._seed, pod.key, "preemption")
        outcome = preempt(pod, found, cluster.view, ahead, tuple(cluster.budgets.values()), draw)
        if isinstance(outcome, Preemption):
            return Verdict(message=found.message(""), by=by, preemption=outcome)
        return Verdict(message=found.message(outcome.text), by=by, keeps=outcome.keeps)


def _filters(found: Iterable[Reasons]) -> frozenset[str]:
    return frozenset(reason.by for reasons in found for reason in reasons)


def kind_of(pod: Pod) -> bytes:
    """The same for pods to which filters say the same, but for nominations."""
    meta = pod.metadata
    own = (meta.namespace, meta.labels, bool(meta.deletion_timestamp))
    return msgspec.json.encode(own, order="deterministic") + _spec(pod.spec)


@by_identity(8_192)
def _spec(spec: PodSpec) -> bytes:
    return msgspec.json.encode(encode(spec), order="deterministic")
