"""Whether a pool's nodes join the cluster: NodeRegistrationHealthy. It informs, and holds nothing up."""

from __future__ import annotations

from collections import deque

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.controllers.conditions import Stamp, document, set_condition
from dovetail.controllers.context import Context
from dovetail.model import labels
from dovetail.units.timestamp import parse_rfc3339

SLOTS = 4
REGISTRATION = "NodeRegistrationHealthy"
FAILED = ("RegistrationFailed", "Failed to register node")


class RegistrationHealth:
    """The last four outcomes of launches per pool.

    Unhealthy from two failures on: the share is of all four slots, even while fewer outcomes are known.
    """

    def __init__(self) -> None:
        self._outcomes: dict[str, deque[bool]] = {}
        self._failures: dict[str, tuple[str, str]] = {}  # reason and message of the last failure

    def record(self, pool_uid: str, *, registered: bool, failure: tuple[str, str] = FAILED) -> None:
        """Add an outcome, and the reason and message of one that is a failure."""
        if not registered:
            self._failures[pool_uid] = failure
        self._outcomes.setdefault(pool_uid, deque(maxlen=SLOTS)).append(registered)

    def healthy(self, pool_uid: str) -> bool | None:
        """False iff at least half of the slots hold a failure; True or None otherwise.

        None says that the outcomes prove nothing: there are none, or the last of them is a failure. Only a
        node that joined shows that nodes can join.
        """
        outcomes = self._outcomes.get(pool_uid)
        if not outcomes:
            return None
        if 2 * sum(not registered for registered in outcomes) >= SLOTS:
            return False
        return True if outcomes[-1] else None

    def failure(self, pool_uid: str) -> tuple[str, str]:
        """Reason and message of the pool's last failure."""
        return self._failures.get(pool_uid, FAILED)

    def reset(self, pool_uid: str) -> None:
        """Forget the pool's outcomes: the pool or its class is another one now, or the pool is gone."""
        self._outcomes.pop(pool_uid, None)
        self._failures.pop(pool_uid, None)


class RegistrationObserver:
    """Counts claims that registered or never did, and writes the pool's condition."""

    def __init__(self, context: Context, health: RegistrationHealth) -> None:
        self._context = context
        self._health = health
        self.queue = context.queue("nodepool.registrationhealth", self.reconcile, of=NodePool)

    def notice(self, claim: NodeClaim, registered: bool) -> None:
        """A claim's launch came to its outcome."""
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        pool = self._context.state.get(NodePool, name)
        if pool is None:
            return
        reason = FAILED if registered else failure(claim)
        self._health.record(pool.metadata.uid, registered=registered, failure=reason)
        backoff = self._context.brakes.backoff
        if registered:
            backoff.reset(pool.metadata.uid)
        else:
            created = parse_rfc3339(claim.metadata.creation_timestamp)
            backoff.failed(pool.metadata.uid, created, self._context.clock.now())
        self.queue.add(name)

    async def reconcile(self, key: str) -> int | None:
        """Write the condition, if it changed."""
        pool = self._context.state.get(NodePool, key)
        if pool is None or pool.deleting:
            return None
        now = self._context.clock.now()
        _, until = self._context.brakes.backoff.until(pool.metadata.uid, now)
        if until > now:
            message = f"Nothing is bought for now: {self._context.brakes.launches_paused(pool)}"
            await self._context.recorder.publish(pool, "Warning", "LaunchBackoff", message)
        healthy = self._health.healthy(pool.metadata.uid)
        if healthy is None:
            return None
        stamp = Stamp(self._context.clock.now(), pool.metadata.generation)
        reason, message = ("", "") if healthy else self._health.failure(pool.metadata.uid)
        status = "True" if healthy else "False"
        conditions = set_condition(
            pool.status.conditions, REGISTRATION, status, stamp, reason=reason, message=message
        )
        if conditions != pool.status.conditions:
            merge = {
                "metadata": {"resourceVersion": pool.metadata.resource_version},
                "status": {"conditions": document(conditions)},
            }
            await self._context.client.patch(NodePool, key, merge=merge, status=True)
        return None


def failure(claim: NodeClaim) -> tuple[str, str]:
    """Reason and message: why it was not launched, or that its node never came. Pure."""
    launched = condition(claim.status.conditions, "Launched")
    if launched is not None and launched.status != "True" and launched.reason:
        return launched.reason, launched.message
    return FAILED
