"""Counts and durations of what comes and goes: claims, nodes, pods, status conditions."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Object, condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import DRAINED, INSTANCE_TERMINATING
from dovetail.controllers.transitions import moved
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.devices import claims_devices
from dovetail.units.timestamp import parse_rfc3339

_SECONDS = (
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    20.0,
    30.0,
    45.0,
    60.0,
    90.0,
    120.0,
    180.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
)
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_LIVES = (
    *(15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 4 * _HOUR, 8 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 3 * _DAY, 5 * _DAY, 7 * _DAY, 10 * _DAY, 15 * _DAY, 20 * _DAY, 25 * _DAY, 30 * _DAY),
)
_POOL, _PLACE = ("nodepool",), ("nodepool", "zone")
CLAIMS = Metric(
    "karpenter_nodeclaims_terminated_total",
    "counter",
    "NodeClaims that are gone.",
    ("nodepool", "capacity_type", "zone"),
)
CLAIM_END = Metric(
    "karpenter_nodeclaims_termination_duration_seconds",
    "histogram",
    "From the deletion of a NodeClaim until it is gone.",
    _POOL,
    _SECONDS,
)
INSTANCE_END = Metric(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "histogram",
    "From the first request to end an instance until it is gone.",
    _POOL,
    _SECONDS,
)
NODES_CREATED = Metric("karpenter_nodes_created_total", "counter", "Nodes that registered.", _PLACE)
NODES_TERMINATED = Metric("karpenter_nodes_terminated_total", "counter", "Nodes that are gone.", _PLACE)
NODES_DRAINED = Metric("karpenter_nodes_drained_total", "counter", "Nodes that were emptied.", _POOL)
NODE_END = Metric(
    "karpenter_nodes_termination_duration_seconds",
    "histogram",
    "From the deletion of a node until it is gone.",
    _POOL,
    _SECONDS,
)
NODE_LIFE = Metric(
    "karpenter_nodes_lifetime_duration_seconds", "histogram", "How old nodes became.", _POOL, _LIVES
)
POD_BOUND = Metric(
    "karpenter_pods_bound_duration_seconds",
    "histogram",
    "From the creation of a pod until it has a node.",
    ("dynamic_resources",),
    _SECONDS,
)
PROMISED_BOUND = Metric(
    "karpenter_pods_provisioning_bound_duration_seconds",
    "histogram",
    "From the first plan with a place for a pod until it has a node.",
    ("dynamic_resources",),
    _SECONDS,
)
PROMISED_STARTED = Metric(
    "karpenter_pods_provisioning_startup_duration_seconds",
    "histogram",
    "From the first plan with a place for a pod until it runs.",
    (),
    _SECONDS,
)
POD_STARTED = Metric(
    "karpenter_pods_startup_duration_seconds",
    "histogram",
    "From the creation of a pod until it runs.",
    (),
    _SECONDS,
)


def dynamic_resources(pod: Pod) -> str:
    """Whether the pod asks for devices by claims, as labels have it."""
    return "true" if claims_devices(pod) else "false"


def _changes(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_status_condition_transitions_total"
    return Metric(name, "counter", f"Changes of status conditions of {kind}s.", ("type", "status", "reason"))


def _lasted(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_status_condition_transition_seconds"
    text = f"How long a status condition of a {kind} was another before it changed to this one."
    return Metric(name, "histogram", text, ("type", "status"), _SECONDS)


def _ended(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_termination_duration_seconds"
    return Metric(name, "histogram", f"From the deletion of a {kind} until it is gone.", (), _SECONDS)


CLAIM_CHANGES, CLAIM_LASTED, CLAIM_GONE = _changes("NodeClaim"), _lasted("NodeClaim"), _ended("NodeClaim")
POOL_CHANGES, POOL_LASTED, POOL_GONE = _changes("NodePool"), _lasted("NodePool"), _ended("NodePool")
NODE_CHANGES, NODE_LASTED, NODE_GONE = _changes("Node"), _lasted("Node"), _ended("Node")
OVERLAY_CHANGES, OVERLAY_LASTED = _changes("NodeOverlay"), _lasted("NodeOverlay")
OVERLAY_GONE = _ended("NodeOverlay")
EC2_CHANGES, EC2_LASTED, EC2_GONE = _changes("EC2NodeClass"), _lasted("EC2NodeClass"), _ended("EC2NodeClass")
KWOK_CHANGES, KWOK_LASTED = _changes("KWOKNodeClass"), _lasted("KWOKNodeClass")
KWOK_GONE = _ended("KWOKNodeClass")
_OF = {
    "NodeClaim": (CLAIM_CHANGES, CLAIM_LASTED, CLAIM_GONE),
    "NodePool": (POOL_CHANGES, POOL_LASTED, POOL_GONE),
    "Node": (NODE_CHANGES, NODE_LASTED, NODE_GONE),
    "NodeOverlay": (OVERLAY_CHANGES, OVERLAY_LASTED, OVERLAY_GONE),
    "EC2NodeClass": (EC2_CHANGES, EC2_LASTED, EC2_GONE),
    "KWOKNodeClass": (KWOK_CHANGES, KWOK_LASTED, KWOK_GONE),
}
_Conditioned = NodeClaim | NodePool | NodeOverlay | NodeClass | Node
KEPT = 10 * MINUTE  # so that whoever reads the metrics once a minute, or less often, sees how it ended


class Lifetimes:
    """Sees every change; what was there when the process began is not counted.

    The series of a NodePool, its claims and nodes end some time after the last of them.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("metrics.nodepool", self.reconcile, concurrency=1)
        context.state.subscribe(self.notice)

    def notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        """Count what it means."""
        if old is None:
            return
        if isinstance(old, Pod):
            if isinstance(new, Pod):
                self._pod(old, new)
            else:
                self._context.waits.forget(old.metadata.uid)
            return
        if not isinstance(old, _Conditioned):
            return
        if new is None:
            self._gone(old)
        elif isinstance(new, _Conditioned):
            self._conditions(old, new)
            if isinstance(new, Node) and labels.REGISTERED not in old.metadata.labels:
                self._registered(new)

    def _pod(self, old: Pod, new: Pod) -> None:
        metrics, waits = self._context.metrics, self._context.waits
        age = self._since(new.metadata.creation_timestamp)
        promised = waits.promised.get(new.metadata.uid)
        known = (self._context.clock.now() - promised) / SECOND if promised is not None else None
        if new.spec.node_name and not old.spec.node_name:
            metrics.observe(POD_BOUND, age, dynamic_resources=dynamic_resources(new))
            if known is not None:
                metrics.observe(PROMISED_BOUND, known, dynamic_resources=dynamic_resources(new))
        if old.status.phase == "Pending" and new.status.phase == "Running":
            metrics.observe(POD_STARTED, age)
            if known is not None:
                metrics.observe(PROMISED_STARTED, known)
            waits.forget(new.metadata.uid)

    def _registered(self, node: Node) -> None:
        if labels.REGISTERED in node.metadata.labels:
            self._context.metrics.add(NODES_CREATED, nodepool=_pool(node), zone=_zone(node))

    def _gone(self, item: _Conditioned) -> None:
        metrics, pool = self._context.metrics, _pool(item)
        ended = self._since(item.metadata.deletion_timestamp)
        if isinstance(item, NodeClaim):
            self._context.ended.pop(item.metadata.uid, None)
            kind = item.metadata.labels.get(labels.CAPACITY_TYPE, "")
            metrics.add(CLAIMS, nodepool=pool, capacity_type=kind, zone=_zone(item))
            metrics.observe(CLAIM_END, ended, nodepool=pool)
            asked = condition(item.status.conditions, INSTANCE_TERMINATING)
            if asked is not None and asked.status == "True" and asked.last_transition_time:
                metrics.observe(INSTANCE_END, self._since(asked.last_transition_time), nodepool=pool)
        elif isinstance(item, Node):
            if not pool:
                return  # not counted here
            metrics.add(NODES_TERMINATED, nodepool=pool, zone=_zone(item))
            metrics.observe(NODE_END, ended, nodepool=pool)
            metrics.observe(NODE_LIFE, self._since(item.metadata.creation_timestamp), nodepool=pool)
        elif isinstance(item, NodePool):
            self._context.brakes.backoff.reset(item.metadata.uid)
            self._context.forget_prices(pool := item.metadata.name)
        if pool and self._context.state.get(NodePool, pool) is None:
            self.queue.add_after(pool, KEPT)
        metrics.observe(_OF[item.KIND][2], ended)

    async def reconcile(self, pool: str) -> None:
        """Remove the series of the NodePool, if nothing of it is left."""
        state = self._context.state
        claims, nodes = state.all(NodeClaim), state.all(Node)
        if state.get(NodePool, pool) is None and pool not in map(_pool, (*claims, *nodes)):
            self._context.metrics.forget("nodepool", pool)

    def _conditions(self, old: _Conditioned, new: _Conditioned) -> None:
        if isinstance(new, Node) and not _pool(new):
            return
        metrics, (changes, lasted, _) = self._context.metrics, _OF[new.KIND]
        for item in _moved(old, new):
            metrics.add(changes, type=item.type, status=item.status, reason=item.reason)
            before = condition(old.status.conditions, item.type)
            if before is not None and before.last_transition_time:
                passed = self._since(before.last_transition_time)
                metrics.observe(lasted, passed, type=item.type, status=item.status)
            if isinstance(new, NodeClaim) and (item.type, item.status) == (DRAINED, "True"):
                metrics.add(NODES_DRAINED, nodepool=_pool(new))

    def _since(self, text: str) -> float:
        """Seconds since an instant; 0 where there is none."""
        return max(0, self._context.clock.now() - parse_rfc3339(text)) / SECOND if text else 0.0


def _moved(old: _Conditioned, new: _Conditioned) -> Iterator[Condition]:
    if old.status.conditions is not new.status.conditions:
        yield from (item for item in new.status.conditions if moved(item, old.status.conditions))


def _pool(item: Object) -> str:
    return item.metadata.labels.get(labels.NODEPOOL, "")


def _zone(item: Object) -> str:
    return item.metadata.labels.get(labels.ZONE, "")
