"""Conditions of a NodePool: its rules hold, its class is ready, its nodes register."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.runtime import validate_node_pool
from dovetail.api.meta import Object, condition, is_true
from dovetail.base.clock import HOUR
from dovetail.controllers.conditions import READY, Conditions, Stamp, document, set_condition, set_ready
from dovetail.controllers.context import Context
from dovetail.controllers.nodepool.registrationhealth import REGISTRATION, RegistrationHealth
from dovetail.disrupt.faults import pool_faults

VALIDATION = "ValidationSucceeded"


def validation(pool: NodePool, conditions: Conditions, stamp: Stamp) -> Conditions:
    """The conditions with the verdict on the pool in place."""
    messages = validate_node_pool(pool)
    if not messages:
        return set_condition(conditions, VALIDATION, "True", stamp)
    return set_condition(
        conditions,
        VALIDATION,
        "False",
        stamp,
        reason="NodePoolValidationFailed",
        message="; ".join(messages),
    )


CLASS_READY = "NodeClassReady"
_TELL_AGAIN = HOUR // 2  # events are gone after an hour


class NodePoolReadiness:
    """Writes all conditions of pools, on changes of the pool and of its class."""

    def __init__(self, context: Context, health: RegistrationHealth) -> None:
        self._context = context
        self._health = health
        self.queue = context.queue("nodepool.readiness", self.reconcile, of=NodePool)
        context.state.subscribe(self.notice, NodePool, NodeClass)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow pools, and classes for the pools that refer to them.

        Pools also when only their status changed: it may have been judged by a class that was not known yet.
        """
        if isinstance(new, NodePool):
            self.queue.add(new.key)
        elif isinstance(old, NodePool):
            self._health.reset(old.metadata.uid)
            self._context.brakes.backoff.reset(old.metadata.uid)
        elif issubclass(kind, NodeClass):
            name = (new or old or Object()).metadata.name
            for pool in self._context.state.all(NodePool):
                if pool.spec.template.spec.node_class_ref.name == name:
                    self.queue.add(pool.key)

    async def reconcile(self, key: str) -> int | None:
        """Write the conditions, if they changed."""
        pool = self._context.state.get(NodePool, key)
        if pool is None or pool.deleting:
            return None
        again = await self._report_faults(pool)
        stamp = Stamp(self._context.clock.now(), pool.metadata.generation)
        node_class = self._context.node_class(pool.spec.template.spec.node_class_ref)
        generation = node_class.metadata.generation if node_class else 0
        conditions = validation(pool, pool.status.conditions, stamp)
        conditions = class_ready(node_class, conditions, stamp)
        conditions = set_ready(conditions, (VALIDATION, CLASS_READY), stamp)
        if self._renewed(pool, generation):
            self._health.reset(pool.metadata.uid)
            self._context.brakes.backoff.reset(pool.metadata.uid)
            conditions = set_condition(
                conditions,
                REGISTRATION,
                "Unknown",
                stamp,
                reason="AwaitingReconciliation",
                message="object is awaiting reconciliation",
            )
        if conditions == pool.status.conditions and generation == pool.status.node_class_observed_generation:
            return again
        merge = {
            "metadata": {"resourceVersion": pool.metadata.resource_version},
            "status": {"conditions": document(conditions), "nodeClassObservedGeneration": generation},
        }
        await self._context.client.patch(NodePool, key, merge=merge, status=True)
        return again

    async def _report_faults(self, pool: NodePool) -> int | None:
        """What cannot be read is reported as long as it is there; launches go on. When to report it again."""
        faults = tuple(pool_faults(pool))
        for one in faults:
            same = (pool.metadata.uid, one.place)
            await self._context.recorder.publish(pool, "Warning", one.reason, one.message, dedupe=same)
        return _TELL_AGAIN if faults else None

    def _renewed(self, pool: NodePool, class_generation: int) -> bool:
        """True iff the pool or its class changed since its registrations were judged last."""
        known = condition(pool.status.conditions, REGISTRATION)
        return (
            known is None
            or known.observed_generation != pool.metadata.generation
            or pool.status.node_class_observed_generation != class_generation
        )


def being_judged(pool: NodePool, node_class: NodeClass | None) -> bool:
    """True iff it is not known yet whether the pool may buy: it is new, or its class is. Pure."""
    ready = condition(pool.status.conditions, READY)
    if ready is None or ready.status == "True" or node_class is None or node_class.deleting:
        return ready is None
    found = condition(node_class.status.conditions, READY)
    if found is None or found.status == "Unknown":
        return True
    return found.status == "True" and not is_true(pool.status.conditions, CLASS_READY)


def class_ready(node_class: NodeClass | None, conditions: Conditions, stamp: Stamp) -> Conditions:
    """NodeClassReady from the class. Pure."""
    status, reason, message = _verdict(node_class)
    return set_condition(conditions, CLASS_READY, status, stamp, reason=reason, message=message)


def _verdict(node_class: NodeClass | None) -> tuple[str, str, str]:
    if node_class is None:
        return "False", "NodeClassNotFound", "NodeClass not found on cluster"
    if node_class.deleting:
        return "False", "NodeClassTerminating", "NodeClass is Terminating"
    ready = condition(node_class.status.conditions, READY)
    if ready is None or ready.status == "Unknown":
        return "False", "NodeClassReadinessUnknown", "Node Class Readiness Unknown"
    if ready.status == "False":
        return "False", ready.reason, ready.message
    return "True", "", ""
