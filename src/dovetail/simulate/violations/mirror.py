"""What the watchdog knows of the cluster: typed objects and the scheduler's view of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dovetail.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.api.workloads import CSINode, PodDisruptionBudget, StorageClass
from dovetail.kube.memory import store
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.gangs import Group, Groups, marked
from dovetail.model.resources import Resources, amounts

# What the rules look at.
KINDS: frozenset[type[Object]] = frozenset(
    (
        Pod,
        Node,
        NodeClaim,
        NodePool,
        Namespace,
        PodDisruptionBudget,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CSINode,
        *GANG_KINDS,
    )
)
DISRUPTION_REASON = "DisruptionReason"
T = TypeVar("T", bound=Object)
Index = dict[str, dict[str, None]]


@dataclass(frozen=True, slots=True)
class Change:
    """One stored change. `new` is None iff the object was deleted, `old` iff it was created."""

    now: int  # nanoseconds since the epoch
    new: Object | None
    old: Object | None

    @property
    def about(self) -> Object:
        """The object as it is now, or as it was last."""
        known = self.new or self.old
        assert known is not None
        return known

    def of(self, kind: type[T]) -> tuple[T | None, T | None] | None:
        """(new, old) if the change is of this kind."""
        if not isinstance(self.about, kind):
            return None
        new = self.new if isinstance(self.new, kind) else None
        return new, self.old if isinstance(self.old, kind) else None


def read_change(stored: store.Change[Any], now: int) -> Change | None:
    """None for kinds that no rule looks at."""
    if stored.after.kind not in KINDS:
        return None
    old = stored.before.view if stored.before is not None else None
    if stored.type == "DELETED":
        return Change(now, None, old or stored.after.view)
    return Change(now, stored.after.view, old)


class Usage:
    """What the claims of each pool that stay use together, kept by the change: a sum over all of them for
    each launch is a square.

    Invariant: `counted` has every claim that stays, and `used` is their sum by pool; "nodes" counts them.
    """

    def __init__(self) -> None:
        self.counted: dict[str, tuple[str, Resources]] = {}  # by key of a claim: its pool, what it uses
        self._used: dict[str, dict[str, int]] = {}

    def count(self, claim: NodeClaim, *, stays: bool) -> None:
        """The claim stays as it is now, or does not any more."""
        pool, wanted = claim.metadata.labels.get(labels.NODEPOOL, ""), None
        if stays:
            wanted = (pool, {**amounts(claim.status.capacity), "nodes": 1})
        known = self.counted.get(claim.key)
        if known == wanted:
            return
        for entry, sign in ((known, -1), (wanted, 1)):
            if entry is not None:
                total = self._used.setdefault(entry[0], {})
                for name, amount in entry[1].items():
                    total[name] = total.get(name, 0) + sign * amount
        if wanted is None:
            del self.counted[claim.key]
        else:
            self.counted[claim.key] = wanted

    def of(self, pool: str) -> Resources:
        """What the pool's claims that stay use."""
        return self._used.get(pool, {})


@dataclass(slots=True)
class Mirror:
    """The cluster as of the last change, kept by `apply`."""

    clock_now: Callable[[], int]
    several: Callable[[], bool] = lambda: False  # True while an old leader acts beside the new one
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    claims: dict[str, NodeClaim] = field(default_factory=dict)
    pools: dict[str, NodePool] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    view: ClusterView = field(default_factory=ClusterView)
    volume_limits: dict[str, dict[str, int]] = field(default_factory=dict)  # node -> CSI driver -> volumes
    moved: dict[str, int] = field(default_factory=dict)  # node -> when it or its pods last changed
    ended: set[str] = field(default_factory=set)  # provider ids of instances that are gone
    bound: dict[str, int] = field(default_factory=dict)  # pod -> when it got its node
    overlapped: dict[str, int] = field(default_factory=dict)  # claim of two leaders' time -> when it was made
    shrunk: dict[str, int] = field(default_factory=dict)  # controller -> when it lost a pod kept off spot
    marked: dict[str, int] = field(default_factory=dict)  # node -> when its spec or readiness last changed
    usage: Usage = field(default_factory=Usage)
    groups: Groups = field(default_factory=Groups)  # which pods need each other
    _group_objects: dict[tuple[type[Object], str], Object] = field(default_factory=dict)
    # Invariant: the keys of `nodes` and `claims` by the instance that they name, and of claims by their pool.
    _nodes_of: Index = field(default_factory=dict)
    _claims_of: Index = field(default_factory=dict)
    _members: Index = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view.namespaces = self.namespaces

    def apply(self, change: Change) -> None:
        """Take over one change."""
        known = change.about
        match known:
            case Pod():
                _keep(self.pods, change)
                self._pod(change)
                if known.metadata.annotations.get(labels.OFF_SPOT) == "true" and _ends(change):
                    owner = known.metadata.controller()
                    self.shrunk[owner.uid if owner is not None else ""] = change.now
            case Node():
                _keep(self.nodes, change)
                _index(self._nodes_of, change, lambda node: node.spec.provider_id)
                self._node(change)
                self._recount(change)
            case NodeClaim():
                _keep(self.claims, change)
                _index(self._claims_of, change, lambda claim: claim.status.provider_id)
                _index(self._members, change, lambda claim: claim.metadata.labels.get(labels.NODEPOOL, ""))
                if change.new is None:
                    self.overlapped.pop(known.key, None)
                elif change.old is None and self.several():
                    self.overlapped[known.key] = change.now
                self.usage.count(known, stays=change.new is not None and self._stays(known))
            case NodePool():
                _keep(self.pools, change)
            case PodDisruptionBudget():
                _keep(self.budgets, change)
            case Namespace():
                self.namespaces[known.key] = known.metadata.labels if change.new else {}
            case _ if isinstance(known, GANG_KINDS):
                self._group_objects.pop((type(known), known.key), None)
                if change.new is not None:
                    self._group_objects[type(known), known.key] = change.new
                self.groups = Groups(self._group_objects.values())
            case _:
                self._volume(known, gone=change.new is None)

    def mates(self, pod: Pod) -> tuple[Group | None, list[Pod]]:
        """The gang of the pod, and all pods of it that have not failed, itself among them."""
        group = self.groups.of(pod)
        if group is None:
            return None, []
        namespace = pod.metadata.namespace
        some = (one for one in self.pods.values() if one.metadata.namespace == namespace and marked(one))
        return group, [one for one in some if one.status.phase != "Failed" and self.groups.of(one) == group]

    def claim_of(self, node: Node) -> NodeClaim | None:
        """The claim whose instance the node is."""
        names = self._claims_of.get(node.spec.provider_id, ()) if node.spec.provider_id else ()
        return self.claims[min(names)] if names else None

    def node_of(self, claim: NodeClaim) -> Node | None:
        """The node of the claim's instance."""
        names = self._nodes_of.get(claim.status.provider_id, ()) if claim.status.provider_id else ()
        return self.nodes[min(names)] if names else None

    def machines(self, pool: str) -> list[tuple[NodeClaim, Node | None]]:
        """The pool's claims by name, each with its node if there is one."""
        claims = (self.claims[name] for name in sorted(self._members.get(pool, ())))
        return [(claim, self.node_of(claim)) for claim in claims]

    def _recount(self, change: Change) -> None:
        """A node changed, and with it whether its claim stays."""
        instances = {node.spec.provider_id for node in (change.old, change.new) if isinstance(node, Node)}
        for instance in instances - {""}:
            for name in self._claims_of.get(instance, ()):
                self.usage.count(self.claims[name], stays=self._stays(self.claims[name]))

    def _stays(self, claim: NodeClaim) -> bool:
        node = self.node_of(claim)
        if claim.deleting or is_true(claim.status.conditions, DISRUPTION_REASON):
            return False
        return node is None or not (
            node.deleting or any(item.key == labels.DISRUPTED_TAINT for item in node.spec.taints)
        )

    def _pod(self, change: Change) -> None:
        pod, old = change.new, change.old
        was = old if isinstance(old, Pod) else None
        if not isinstance(pod, Pod) or pod.terminal or not pod.spec.node_name:
            if was is not None and was.spec.node_name:
                self.bound.pop(was.key, None)
                self.view.remove_pod(was.key)
                self.moved[was.spec.node_name] = change.now
            return
        if was is None or _placing(pod) != _placing(was):
            self.bound.setdefault(pod.key, change.now)
            self.view.add_pod(pod)
            self.moved[pod.spec.node_name] = change.now

    def _node(self, change: Change) -> None:
        known = change.about
        self.moved[known.key] = change.now
        if isinstance(change.new, Node):
            old = change.old
            if isinstance(old, Node) and (old.spec, ready(old)) != (change.new.spec, ready(change.new)):
                self.marked[known.key] = change.now
            self.view.set_node(NodeView.of(change.new, self.volume_limits.get(known.key)))
        else:
            self.view.remove_node(known.key)

    def _volume(self, known: Object, *, gone: bool) -> None:
        index = self.view.volumes
        match known:
            case PersistentVolumeClaim():
                index = replace(index, claims=_with(index.claims, known, gone))
            case PersistentVolume():
                index = replace(index, volumes=_with(index.volumes, known, gone))
            case StorageClass():
                index = replace(index, classes=_with(index.classes, known, gone))
            case CSINode():
                counts = {item.name: item.allocatable.count for item in known.spec.drivers}
                limits = {name: count for name, count in counts.items() if count is not None}
                self.volume_limits[known.key] = limits
                if known.key in self.view.nodes:
                    self.view.nodes[known.key].volume_limits = limits
        self.view.volumes = index


def ready(node: Node) -> bool:
    """True iff the kubelet says so."""
    return is_true(node.status.conditions, "Ready")


def owned_by(pod: Pod, kind: str) -> bool:
    """True iff an owner of that kind made the pod."""
    return any(owner.kind == kind for owner in pod.metadata.owner_references)


def _placing(pod: Pod) -> tuple[object, ...]:
    """What the scheduler's view of a bound pod depends on."""
    return pod.spec, pod.metadata.labels, pod.deleting, pod.terminal


def _ends(change: Change) -> bool:
    """True iff the pod counts from now on as one that goes, or is gone."""
    (new, old) = change.of(Pod) or (None, None)
    goes = new is None or new.deleting or new.terminal
    return goes and old is not None and not old.deleting and not old.terminal


def _keep(table: dict[str, T], change: Change) -> None:
    if change.new is None:
        table.pop(change.about.key, None)
    else:
        table[change.about.key] = change.new  # type: ignore[assignment]  # the caller matched the kind


def _index(index: Index, change: Change, place: Callable[[Any], str]) -> None:
    key, old, new = change.about.key, change.old, change.new
    before, now = place(old) if old is not None else None, place(new) if new is not None else None
    if before is not None and before != now:
        index.get(before, {}).pop(key, None)
        if not index.get(before, True):
            del index[before]
    if now is not None:
        index.setdefault(now, {})[key] = None


def _with(table: Mapping[str, T], item: T, gone: bool) -> Mapping[str, T]:
    rest = {key: value for key, value in table.items() if key != item.key}
    return rest if gone else {**rest, item.key: item}
