"""Cluster objects to a Problem: what a solver is asked, built from what the API server holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from dovetail.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.api.workloads import CSINode, DaemonSet, PodDisruptionBudget, StorageClass
from dovetail.base.errors import in_one_line
from dovetail.cluster import nodes as existing
from dovetail.cluster.shared_limits import Counting, Sold
from dovetail.cluster.usage import usage_by_pool
from dovetail.model import labels
from dovetail.model.gangs import Gang, Groups, gangs_of
from dovetail.model.offering import InstanceType
from dovetail.model.problem import ExistingNode, Options, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements, pod_requirements
from dovetail.model.resources import add, amounts, excess
from dovetail.model.shared_limits import drawing, rooms
from dovetail.model.volumes import VolumeIndex

T = TypeVar("T")
Item = TypeVar("Item", bound="Object | existing.Machine")


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that cannot be understood and is left out of the problem, and what it raised."""

    about: Object
    cause: str  # one line


OnFault = Callable[[Fault], None]
Standing = Callable[[str], tuple[Pod, ...]]
NodeOf = Callable[[existing.Machine, tuple[Pod, ...], Mapping[str, int]], ExistingNode]


def isolated(
    items: Iterable[Item], read: Callable[[Item], T], on_fault: OnFault | None
) -> Iterator[tuple[Item, T]]:
    """Each item with what is read of it. One that raises goes to `on_fault`; without that it raises."""
    for item in items:
        try:
            found = read(item)
        except Exception as error:
            if on_fault is None:
                raise
            about = item.subject if isinstance(item, existing.Machine) else item
            on_fault(Fault(about, in_one_line(error)))
        else:
            yield item, found


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Everything of a cluster that a decision may depend on. Order carries no meaning."""

    pools: tuple[NodePool, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()  # pending ones may be among them
    daemonsets: tuple[DaemonSet, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    groups: Groups = field(default_factory=Groups)  # which pods need each other


def _free(_: NodePool) -> int:
    return 0


def build(
    objects: ClusterObjects,
    pending: tuple[Pod, ...],
    instance_types: Callable[[NodePool], tuple[InstanceType, ...]],
    options: Options,
    deleting: frozenset[str] = frozenset(),
    *,
    lingering: frozenset[str] = frozenset(),
    replaced: frozenset[str] = frozenset(),
    promised: Mapping[str, str] | None = None,
    moving: Iterable[tuple[Pod, str]] = (),
    require_ready: bool = True,
    node_class_kinds: tuple[tuple[str, str], ...] | None = None,
    volume_price: Callable[[NodePool], int] = _free,
    commons: Mapping[str, int] | None = None,
    on_fault: OnFault | None = None,
    node_of: NodeOf = existing.existing_node,
    standing: Standing | None = None,
    settled: Callable[[], Iterable[Pod]] = tuple,
) -> Problem:
    """What to ask the solver about `pending`.

    `deleting` names nodes and claims on their way out: nothing is placed there and they use no limit.
    `lingering` names those of them that stay for now, because pods there may not be evicted yet: until they
    are gone the scheduler counts their zones, and their pods, where pods must be spread; shared limits count
    them as well. `replaced` names those of `deleting` in whose place the answer comes: of shared limits it
    may take what they take, even where these are exceeded.
    `promised` names, per key of a pod without a node, the machine that an earlier plan gave it: its room
    there is taken. So is that of `moving`: pods that run elsewhere still, each with the machine that what
    comes in its place goes to. `require_ready` False takes pools without conditions as ready.
    `node_class_kinds` are the provider's own (group, kind) pairs; None means that all are. `volume_price` is
    what the volumes of a node of a pool cost, in nano-dollars per hour. `commons` are as the provider knows
    them. Pods of `pending` are left out of where `objects` has them.

    `node_of` makes a node of a machine, its pods and its volume limits. `standing` answers the pods of a node
    that have not ended, in order of key, and under "" those without a node, from an index over
    `objects.pods`; these are gone through where there is none. `settled` answers pods of gangs that need no
    place and are on none of its nodes.

    An object that raises while it is read goes to `on_fault` and is left out: a pool of which that is so buys
    nothing; a machine of which, or of whose pods, that is so takes no pods. Without `on_fault` it raises.
    """
    waiting = {pod.key for pod in pending}
    bound = _bound(waiting, promised or {}, moving, standing or _standing(objects.pods))
    machines = existing.join(objects.nodes, objects.claims, node_class_kinds)
    staying, full, away = [], [], []
    for item in machines:
        if replaced and replaced.intersection(item.names()):
            away.append(item)
        if not item.deleting and not deleting.intersection(item.names()):
            staying.append(item)
        elif lingering.intersection(item.names()):
            full.append(item)
    attachable = {
        item.metadata.name: found for item, found in isolated(objects.csi_nodes, _attachable, on_fault)
    }
    understood = list(
        isolated(
            staying,
            lambda item: node_of(item, bound(item.name), attachable.get(item.name, {})),
            on_fault,
        )
    )
    nodes = [node for _, node in understood]
    last = {item.name for item, _ in understood if existing.underutilized(item.node)}
    nodes += (
        node
        for _, node in isolated(
            full,
            lambda item: existing.full_node(item, bound(item.name)),
            on_fault,
        )
    )
    counting = Counting(
        options.shared_limits, objects.pools, _sold(objects.pools, instance_types, volume_price)
    )
    left = dict(commons or {})
    if options.shared_limits:
        going = [item for item in full if item not in away]
        freed = counting.used(away)
        used = counting.used((*(machine for machine, _ in understood), *going))
        left |= rooms(options.shared_limits, add(used, freed), freed)
    usage = usage_by_pool(machine for machine, _ in understood)
    usable = _usable(objects.pools, require_ready, node_class_kinds)
    pools = [
        found
        for _, found in isolated(
            usable,
            lambda pool: _pool(
                pool, instance_types(pool), usage.get(pool.metadata.name, {}), volume_price(pool), counting
            ),
            on_fault,
        )
    ]
    return Problem(
        pods=pending,
        pools=tuple(pool for pool in pools if pool.instance_types),
        nodes=tuple(sorted(nodes, key=lambda node: (not node.initialized, node.name in last, node.name))),
        daemonsets=tuple(
            item
            for item, runs in isolated(sorted(objects.daemonsets, key=lambda item: item.key), _runs, on_fault)
            if runs
        ),
        namespaces={item.metadata.name: item.metadata.labels for item in objects.namespaces},
        volumes=VolumeIndex.of(objects.volume_claims, objects.volumes, objects.storage_classes),
        options=options,
        commons=left,
        gangs=_gangs(pending, objects.groups, nodes, settled, on_fault) if options.gangs else (),
    )


def _gangs(
    pending: tuple[Pod, ...],
    groups: Groups,
    nodes: Iterable[ExistingNode],
    settled: Callable[[], Iterable[Pod]],
    on_fault: OnFault | None,
) -> tuple[Gang, ...]:
    read = tuple(pod for pod, _ in isolated(pending, groups.of, on_fault))
    return gangs_of(read, groups, (node.pods for node in nodes), settled)


def _standing(pods: tuple[Pod, ...]) -> Standing:
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        if not pod.terminal:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    return lambda node: tuple(by_node.get(node, ()))


def _bound(
    waiting: Set[str], promised: Mapping[str, str], moving: Iterable[tuple[Pod, str]], standing: Standing
) -> Standing:
    """The pods that a node has or will have, in order of key, without those that wait for a place."""
    names = {key.rpartition("/")[2] for key in waiting}  # most pods of a node are ruled out by their names
    coming: dict[str, list[Pod]] = {}
    coming_from = ((pod, promised.get(pod.key, "")) for pod in (standing("") if promised else ()))
    for pod, node in chain(coming_from, moving):
        if node and pod.key not in waiting:
            settled = replace(pod, spec=replace(pod.spec, node_name=node))
            coming.setdefault(node, []).append(settled)

    def bound(node: str) -> tuple[Pod, ...]:
        there = standing(node)
        if waiting and any(pod.metadata.name in names and pod.key in waiting for pod in there):
            there = tuple(pod for pod in there if pod.key not in waiting)
        more = coming.get(node)
        return tuple(sorted((*there, *more), key=lambda pod: pod.key)) if more else there

    return bound


def well_known_keys(instance_types: Iterable[InstanceType]) -> frozenset[str]:
    """The keys that these types and their offerings define, and those that every provider defines."""
    keys = set(labels.WELL_KNOWN)
    for item in instance_types:
        keys.update(item.requirements.by_key)
        for offering in item.offerings:
            keys.update(offering.requirements.by_key)
    return frozenset(keys)


def pool_labels(pool: NodePool) -> dict[str, str]:
    """The labels that a node of the pool carries for certain: its template's, its pool's and its class's."""
    template = pool.spec.template
    reference = template.spec.node_class_ref
    return {
        **template.metadata.labels,
        labels.NODEPOOL: pool.metadata.name,
        f"{reference.group}/{reference.kind.lower()}": reference.name,
    }


def pool_requirements(pool: NodePool) -> Requirements:
    """What must hold of a node of the pool: its requirements, and the labels that it carries for certain."""
    wanted = Requirements.read(pool.spec.template.spec.requirements)
    return wanted.add(*Requirements.from_labels(pool_labels(pool)))


def _runs(daemonset: DaemonSet) -> bool:
    """False for one whose pods ask for more than any node has: nothing is kept for what runs nowhere.

    Raises ValueError for rules on nodes that are not understood.
    """
    pod = Pod(spec=daemonset.spec.template.spec)
    pod_requirements(pod)
    return not excess(pod)


def _usable(
    pools: tuple[NodePool, ...], require_ready: bool, kinds: tuple[tuple[str, str], ...] | None
) -> list[NodePool]:
    """Those that may buy, in the order in which they are asked."""
    usable = [
        pool
        for pool in pools
        if pool.spec.replicas is None
        and not pool.deleting
        and existing.managed(pool.spec.template.spec.node_class_ref, kinds)
        and (not require_ready or is_true(pool.status.conditions, "Ready"))
    ]
    usable.sort(key=lambda pool: pool.metadata.name, reverse=True)
    usable.sort(key=lambda pool: pool.spec.weight, reverse=True)
    return usable


def _sold(
    pools: Iterable[NodePool],
    instance_types: Callable[[NodePool], tuple[InstanceType, ...]],
    volume_price: Callable[[NodePool], int],
) -> Sold:
    by_name = {pool.metadata.name: pool for pool in pools}

    def sold(name: str) -> tuple[tuple[InstanceType, ...], int]:
        pool = by_name.get(name)
        return (instance_types(pool), volume_price(pool)) if pool is not None else ((), 0)

    return sold


def _pool(
    pool: NodePool,
    types: tuple[InstanceType, ...],
    usage: Mapping[str, int],
    volumes: int,
    counting: Counting,
) -> Pool:
    template = pool.spec.template
    drawn = counting.drawn(pool.metadata.name)
    stamped = pool_labels(pool)
    return Pool(
        name=pool.metadata.name,
        node_class_ref=template.spec.node_class_ref,
        requirements=pool_requirements(pool).add(*_partitions(types)),
        labels=stamped,
        instance_types=drawing(types, drawn, volumes),
        annotations=template.metadata.annotations,
        taints=template.spec.taints,
        startup_taints=template.spec.startup_taints,
        weight=pool.spec.weight,
        limits=amounts(pool.spec.limits) if pool.spec.limits else None,
        usage=usage,
        volumes=volumes,
        shared=drawn,
    )


def _partitions(types: tuple[InstanceType, ...]) -> tuple[Requirement, ...]:
    """In which partitions of the class's placement group nodes may come: the same whatever their type."""
    found = types[0].requirements.by_key.get(labels.PARTITION) if types else None
    return (found,) if found is not None else ()


def _attachable(node: CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable.count is not None
    }
