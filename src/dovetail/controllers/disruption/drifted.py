"""The Drifted condition: the node is not what its pool and class would make now.

Its node gets a taint that asks pods to go elsewhere: a pod that has to leave one drifted node would otherwise
often come to the next one, and be moved again. A node that may not be replaced now takes pods as before.
"""

from __future__ import annotations

from dovetail.api.core import Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Object, condition, is_true
from dovetail.base.clock import MINUTE
from dovetail.base.errors import InstanceNotFound
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.avoided import ask_pods_elsewhere
from dovetail.controllers.disruption.consolidatable import remove_condition
from dovetail.controllers.disruption.moves import SteadyPools, same_but_moves
from dovetail.controllers.nodeclaim.status import LAUNCHED, write
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.budgets import allows_any
from dovetail.disrupt.command import DRIFTED
from dovetail.disrupt.drift import grown_up, pool_drift
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.taints import PREFER_NO_SCHEDULE

PERIOD = 5 * MINUTE
AVOIDED = Taint(key=labels.DRIFTED_TAINT, effect=PREFER_NO_SCHEDULE)


class Drifted:
    """Sets the condition with the first reason found, removes it when none is left; it is never False.

    The taint of the node follows it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # By key of a claim that is old enough: it, its pool, the types of that, and how it drifted from them.
        self._known: dict[str, tuple[NodeClaim, NodePool, tuple[InstanceType, ...], str]] = {}
        self._pools = SteadyPools()
        self.queue = context.queue(
            "nodeclaim.drift",
            self.reconcile,
            of=NodeClaim,
            on_failure=failure_log(context.log),
            rests=self._rests,
        )
        context.state.subscribe(self._notice)

    def _notice(
        self,
        kind: type[Object],
        _change: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        if kind is NodeClaim and old is not None and new is None:
            self._known.pop(old.key, None)
        if kind is NodePool and new is None:
            self._pools.keep({pool.metadata.name for pool in self._context.state.all(NodePool)})
        if isinstance(new, NodeClaim):
            if not isinstance(old, NodeClaim) or _launched(new) != _launched(old):
                self.queue.add(new.key)
        elif isinstance(new, NodePool | NodeClass) and (old is None or _differs(old, new)):
            for claim in self._context.state.all(NodeClaim):
                if _maker(claim, kind) == new.metadata.name:
                    self.queue.add(claim.key)

    async def reconcile(self, key: str) -> int | None:
        """Bring the condition up to date; what the cloud resolves may change at any time, so come back."""
        claim = self._context.state.get(NodeClaim, key)
        if claim is None or claim.deleting:
            return None
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None:
            return None
        reason = await self._reason(claim, pool) if _launched(claim) else ""
        present = condition(claim.status.conditions, DRIFTED)
        if reason and (present is None or present.reason != reason):
            found = Condition(type=DRIFTED, status="True", reason=reason, message=reason)
            await write(self._context, claim, found)
        elif not reason and present is not None:
            await remove_condition(self._context, claim, DRIFTED)
        node = self._context.state.node_of(claim)
        if node is not None:
            wanted = bool(reason) and self._replaceable(pool)
            await ask_pods_elsewhere(self._context, node, AVOIDED, wanted=wanted)
        return PERIOD

    def _rests(self, key: str) -> int | None:
        """A claim with nothing to write, where the cloud need not be asked: that may be true for days."""
        context = self._context
        claim = context.state.get(NodeClaim, key)
        if claim is None or claim.deleting or not _launched(claim):
            return None
        pool = context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None:
            return None
        node_class = context.node_class(pool.spec.template.spec.node_class_ref)
        known = context.provider.known_drift(claim, node_class) if node_class is not None else ""
        if known is None:  # so that its turn works out all of it
            return None
        reason = self._from_pool(claim, pool) or known
        present = condition(claim.status.conditions, DRIFTED)
        if reason != (present.reason if present is not None else ""):
            return None
        node = context.state.node_of(claim)
        wanted = bool(reason) and self._replaceable(pool)
        return PERIOD if node is None or (AVOIDED in node.spec.taints) == wanted else None

    def _replaceable(self, pool: NodePool) -> bool:
        """True iff, as things stand, the pool's budgets and pauses let a drifted node of it go."""
        if self._context.brakes.disruption_paused(pool):
            return False
        return allows_any(pool, DRIFTED, self._context.clock.now())

    async def _reason(self, claim: NodeClaim, pool: NodePool) -> str:
        context = self._context
        found = self._from_pool(claim, pool)
        node_class = context.node_class(pool.spec.template.spec.node_class_ref)
        if found or node_class is None:
            return found
        try:
            return await context.provider.drifted(claim, node_class)
        except InstanceNotFound:
            return ""  # garbage collection takes such claims

    def _from_pool(self, claim: NodeClaim, pool: NodePool) -> str:
        """See `pool_drift`."""
        # Before NodeOverlays: whatever these change, the same is offered.
        types, now = self._context.sold(pool), self._context.clock.now()
        steady = self._pools.of(pool)
        known = self._known.get(claim.key)
        if known is not None and known[0] is claim and known[1] is steady and known[2] is types:
            return known[3]
        found = pool_drift(claim, steady, types, now)
        if grown_up(claim, now):
            self._known[claim.key] = claim, steady, types, found
        return found


def _launched(claim: NodeClaim) -> bool:
    return is_true(claim.status.conditions, LAUNCHED)


def _differs(old: Object, new: Object) -> bool:
    """True iff more than a status changed: the spec, or the hash that is stamped on it afterwards.

    Of 4,049 looks at claims in seven minutes of falling traffic 3,495 were for nothing but the moves that
    each command of consolidation counts on the pool.
    """
    if isinstance(old, NodePool) and isinstance(new, NodePool):
        return not same_but_moves(old, new)
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.annotations != new.metadata.annotations
    )


def _maker(claim: NodeClaim, kind: type[Object]) -> str:
    if kind is NodePool:
        return claim.metadata.labels.get(labels.NODEPOOL, "")
    return claim.spec.node_class_ref.name
