"""Scale-down as Cluster Autoscaler decides it: how full a node is, which pods hold it, whether the others
find a place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from dovetail.api.core import Node, Pod, Taint
from dovetail.api.meta import OwnerReference
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import HOUR, SECOND
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.resources import CPU, MEMORY, amounts, pod_requests
from dovetail.model.selector import Selector
from dovetail.simulate.clusterautoscaler.rotation import Rotation
from dovetail.units.timestamp import parse_rfc3339

_MIRROR = "kubernetes.io/config.mirror"
_PREFIX = "cluster-autoscaler.kubernetes.io/"
_SAFE = f"{_PREFIX}safe-to-evict"
_SAFE_VOLUMES = f"{_PREFIX}safe-to-evict-local-volumes"
_DAEMON = f"{_PREFIX}daemonset-pod"
_EXTRA = 30 * SECOND  # beyond its grace a pod that is terminating still counts for so long
TO_BE_DELETED = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule")
_REPLICATED = frozenset({"ReplicaSet", "ReplicationController", "Job", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that decide which pods hold a node, by their defaults."""

    skip_system_pods: bool = True
    skip_local_storage: bool = True
    skip_custom_controllers: bool = True
    min_replicas: int = 0
    system_pod_timeout: int = HOUR  # nanoseconds


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares of the allocatable amounts; `resource` is the one that decides, `share` its share."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    share: float


def utilization(
    node: Node,
    pods: Sequence[Pod],
    now: int,
    *,
    gpu: str = "",
    ignore_daemons: bool = False,
    ignore_mirrors: bool = False,
) -> Utilization:
    """How full a node is, by requests. `gpu` names the resource by which alone a GPU node is judged.

    Pods that are ignored count neither as used nor as allocatable, and neither do those that should have
    ended. Raises ValueError for a node that does not say how much cpu or memory it has.
    """
    ignored = [
        pod for pod in pods if (ignore_daemons and _is_daemon(pod)) or (ignore_mirrors and _is_mirror(pod))
    ]
    counted = [pod for pod in pods if pod not in ignored and not _lingers(pod, now)]
    allocatable = amounts(node.status.allocatable)
    if gpu:
        whole = allocatable.get(gpu, 0)
        share = _used(counted, gpu) / whole if whole else 0.0
        return Utilization(0.0, 0.0, share, gpu, share)
    shares = {}
    for name in (CPU, MEMORY):
        if name not in allocatable:
            raise ValueError(f"failed to get {name} from {node.metadata.name}")
        if not allocatable[name]:
            raise ValueError(f"{name} is 0 at {node.metadata.name}")
        whole = allocatable[name] - _used(ignored, name)
        shares[name] = _used(counted, name) / whole
    deciding = CPU if shares[CPU] > shares[MEMORY] else MEMORY
    return Utilization(shares[CPU], shares[MEMORY], 0.0, deciding, shares[deciding])


def _used(pods: Iterable[Pod], name: str) -> int:
    return sum(pod_requests(pod).get(name, 0) for pod in pods)


def _lingers(pod: Pod, now: int) -> bool:
    """True iff the pod is terminating for longer than it was given."""
    deleted = pod.metadata.deletion_timestamp
    if not deleted:
        return False
    return parse_rfc3339(deleted) + pod.spec.termination_grace_period_seconds * SECOND + _EXTRA < now


def _is_mirror(pod: Pod) -> bool:
    return _MIRROR in pod.metadata.annotations


def _is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller()
    return (owner is not None and owner.kind == "DaemonSet") or pod.metadata.annotations.get(
        _DAEMON
    ) == "true"


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first pod that holds a node, the name of the rule, and what Cluster Autoscaler says of it."""

    pod: Pod
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Drain:
    """The pods of a node that can be emptied."""

    move: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()  # which have to end by themselves first


# Spec.replicas by (kind, namespace, name) of a controller, None where it says none. What has no key is gone.
Controllers = Mapping[tuple[str, str, str], int | None]


@dataclass(frozen=True, slots=True)
class DrainContext:
    """What the rules look at besides the pod. Without `controllers` whether they exist is not looked up."""

    now: int
    flags: Flags = field(default_factory=Flags)
    budgets: Sequence[tuple[PodDisruptionBudget, int]] = ()  # with the disruptions that each allows
    controllers: Controllers | None = None


_OK, _WAIT, _SKIP = "ok", "wait", "skip"
_Answer = str | tuple[str, str] | None  # one of the three, (reason, error) of a pod that blocks, or undecided


def drain(pods: Iterable[Pod], context: DrainContext) -> Drain | Blocked:
    """What becomes of the pods of a node that is to go. The first pod that blocks, in their order, decides.
    O(pods x budgets).
    """
    move: list[Pod] = []
    daemons: list[Pod] = []
    awaited: list[Pod] = []
    for pod in pods:
        answer = next((found for rule in _RULES if (found := rule(pod, context)) is not None), _OK)
        if isinstance(answer, tuple):
            return Blocked(pod, *answer)
        if answer == _WAIT:
            awaited.append(pod)
        elif answer == _OK:
            (daemons if _is_daemon(pod) else move).append(pod)
    return Drain(tuple(move), tuple(daemons), tuple(awaited))


def _mirror(pod: Pod, _context: DrainContext) -> _Answer:
    return _SKIP if _is_mirror(pod) else None


def _long_gone(pod: Pod, context: DrainContext) -> _Answer:
    return _SKIP if _lingers(pod, context.now) else None


# Kind -> (its words, the resource as the API names it).
_LOOKED_UP = {
    "ReplicationController": (
        "replication controller for {} is not available, err: {}",
        'replicationcontroller "{}" not found',
    ),
    "ReplicaSet": (
        "replication controller for {} is not available, err: {}",
        'replicaset.apps "{}" not found',
    ),
    "StatefulSet": ("statefulset for {} is not available: err: {}", 'statefulset.apps "{}" not found'),
    "Job": ("job for {} is not available: err: {}", 'job.batch "{}" not found'),
    "DaemonSet": ("daemonset for {} is not present, err: {}", 'daemonset.apps "{}" not found'),
}
_REPLICATING = ("ReplicaSet", "ReplicationController")


def _controller(pod: Pod, context: DrainContext) -> _Answer:
    owner = pod.metadata.controller()
    if context.controllers is None or owner is None or not context.flags.skip_custom_controllers:
        return None
    if owner.kind not in _LOOKED_UP:
        return None
    return _of_controller(pod, owner, context.controllers, context.flags.min_replicas)


def _of_controller(pod: Pod, owner: OwnerReference, known: Controllers, least: int) -> _Answer:
    words, missing = _LOOKED_UP[owner.kind]
    key = (owner.kind, pod.metadata.namespace, owner.name)
    if key not in known:
        return "ControllerNotFound", words.format(pod.key, missing.format(owner.name))
    replicas = known[key]
    if owner.kind in _REPLICATING and replicas is not None and replicas < least:
        text = f"replication controller for {pod.key} has too few replicas spec: {replicas} min: {least}"
        return "MinReplicasReached", text
    return None


def _daemon(pod: Pod, _context: DrainContext) -> _Answer:
    return _OK if _is_daemon(pod) else None


def _declared_safe(pod: Pod, _context: DrainContext) -> _Answer:
    return _OK if pod.metadata.annotations.get(_SAFE) == "true" else None


def _finished(pod: Pod, _context: DrainContext) -> _Answer:
    phase, restarts = pod.status.phase, pod.spec.restart_policy
    over = phase == "Failed" or (phase == "Succeeded" and restarts in ("Never", "OnFailure"))
    return _OK if over else None


def _awaited(pod: Pod, _context: DrainContext) -> _Answer:
    return _WAIT if pod.metadata.annotations.get(_SAFE) == "on-completion" else None


def _replicated(pod: Pod, context: DrainContext) -> _Answer:
    owner = pod.metadata.controller()
    if owner is not None and (owner.kind in _REPLICATED or not context.flags.skip_custom_controllers):
        return None
    return "NotReplicated", f"{pod.key} is not replicated"


def _system(pod: Pod, context: DrainContext) -> _Answer:
    if pod.metadata.namespace != "kube-system" or not context.flags.skip_system_pods:
        return None
    if any(_covers(budget, pod) for budget, _ in context.budgets):
        return None
    created = pod.metadata.creation_timestamp
    if created and parse_rfc3339(created) + context.flags.system_pod_timeout < context.now:
        return _OK
    name = pod.metadata.name
    text = f"non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}"
    return "UnmovableKubeSystemPod", text


def _declared_unsafe(pod: Pod, _context: DrainContext) -> _Answer:
    if pod.metadata.annotations.get(_SAFE) != "false":
        return None
    return "NotSafeToEvictAnnotation", f"pod annotated as not safe to evict present: {pod.metadata.name}"


def _local_storage(pod: Pod, context: DrainContext) -> _Answer:
    if not context.flags.skip_local_storage:
        return None
    safe = pod.metadata.annotations.get(_SAFE_VOLUMES, "").split(",")
    for volume in pod.spec.volumes:
        directory = volume.empty_dir
        local = volume.host_path is not None or (directory is not None and directory.medium != "Memory")
        if local and volume.name not in safe:
            return "LocalStorageRequested", f"pod with local storage present: {pod.metadata.name}"
    return None


def _budget(pod: Pod, context: DrainContext) -> _Answer:
    if any(allowed < 1 and _covers(budget, pod) for budget, allowed in context.budgets):
        return "NotEnoughPdb", f"not enough pod disruption budget to move {pod.key}"
    return None


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace:
        return False
    return Selector.read(budget.spec.selector).matches(pod.metadata.labels)


_RULES: tuple[Callable[[Pod, DrainContext], _Answer], ...] = (
    _mirror,
    _long_gone,
    _controller,
    _daemon,
    _declared_safe,
    _finished,
    _awaited,
    _replicated,
    _system,
    _declared_unsafe,
    _local_storage,
    _budget,
)


@dataclass(frozen=True, slots=True)
class Removal:
    """Whether a node can go. `reason` is "" if so; `blocked` says who holds it."""

    node: str
    reason: str = ""
    drain: Drain = field(default_factory=Drain)
    blocked: Blocked | None = None


class Removals:
    """Looks at nodes one by one; with `keep`, what was moved off a node that can go stays moved.

    `view` belongs to it. The pods of each node are given in `pods`, in the order in which rules look at them.
    """

    def __init__(
        self,
        view: ClusterView,
        pods: Mapping[str, Sequence[Pod]],
        destinations: Collection[str],
        context: DrainContext,
        *,
        keep: bool = False,
    ) -> None:
        self._view = view
        self._pods = {name: list(found) for name, found in pods.items()}
        self._destinations = dict.fromkeys(destinations)
        self._context = context
        self._allowed = [allowed for _, allowed in context.budgets]
        self._rotation = Rotation(view)
        self._keep = keep

    def judge(self, name: str) -> Removal:
        """Whether this node can go now. O(pods of the node x nodes) filters."""
        node = self._view.nodes.get(name)
        if node is None:
            return Removal(name, "NoNodeInfo")
        context = self._context
        budgets = [(budget, self._allowed[i]) for i, (budget, _) in enumerate(context.budgets)]
        verdict = drain(
            self._pods.get(name, ()),
            DrainContext(context.now, context.flags, budgets, context.controllers),
        )
        if isinstance(verdict, Blocked):
            return Removal(name, "BlockedByPod", blocked=verdict)
        before = (node, [facts.pod for facts in node.pods.values()])
        moved = self._move(name, verdict.move)
        if moved is None or not self._keep:
            self._restore(*before)
        if moved is None:
            return Removal(name, "NoPlaceToMovePods")
        if self._keep:
            self._destinations.pop(name, None)
            self._use_budgets(verdict.move)
            for pod, there in moved:
                self._pods.setdefault(there, []).append(pod)
            self._pods[name] = []
        return Removal(name, drain=verdict)

    def _move(self, name: str, pods: Sequence[Pod]) -> list[tuple[Pod, str]] | None:
        """Empty the node, which stays as a tainted shell so that spreads still count it, and place its pods
        elsewhere.
        """
        shell = self._view.nodes[name]
        for key in list(shell.pods):
            self._view.remove_pod(key)
        self._view.set_node(replace(shell, taints=(*shell.taints, TO_BE_DELETED)))
        moved = []
        for pod in pods:
            there = self._rotation.place(
                _unbound(pod), lambda other: other != name and other in self._destinations
            )
            if there is None:
                return None
            moved.append((pod, there))
        return moved

    def _restore(self, node: NodeView, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self._view.remove_pod(pod.key)
        self._view.set_node(replace(node))
        for pod in pods:
            self._view.add_pod(pod, node.name)

    def _use_budgets(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            for i, (budget, _) in enumerate(self._context.budgets):
                if _covers(budget, pod):
                    self._allowed[i] -= 1


def _unbound(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
