"""Many instances without a claim at once: more likely our knowledge is wrong than the fleet.

An etcd restored from a backup, a deleted CRD or a second cluster of the same name look just like that, and
must not cost the fleet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.model import labels

_ALWAYS = 5
_PERCENT = 10
_TTL = 15 * MINUTE
GUARDED = Metric(
    "dovetail_guarded_instances",
    "gauge",
    "Instances without a NodeClaim that are kept until somebody confirms their end.",
)
ALL = (GUARDED,)


def too_many(unclaimed: int, fleet: int) -> bool:
    """True iff so many of a fleet's instances are not ended without a confirmation."""
    return unclaimed > max(_ALWAYS, -(-fleet * _PERCENT // 100))


def token(provider_ids: Iterable[str]) -> str:
    """What confirms the end of exactly these instances."""
    return hashlib.sha256("\n".join(sorted(provider_ids)).encode()).hexdigest()[:8]


class TerminationGuard:
    """Keeps instances without a claim where they are too many, and tells how to confirm their end."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def holds(self, found: Sequence[str], fleet: int) -> bool:
        """True iff none of the machines with these provider ids may be ended now; `fleet` is how many run."""
        context = self._context
        wanted, pools = token(found), context.state.all(NodePool)
        given = [pool.metadata.annotations.get(labels.CONFIRM_TERMINATION, "") for pool in pools]
        tokens = {
            one.strip() for text in (*given, context.brakes.options.confirmed) for one in text.split(",")
        }
        held = too_many(len(found), fleet) and wanted not in tokens
        context.metrics.set(GUARDED, len(found) if held else 0)
        if not held:
            return False
        message = (
            f"{len(found)} of {fleet} instances have no NodeClaim and are kept; to end them, "
            f"set --confirm-termination {wanted} or annotate a NodePool with "
            f"{labels.CONFIRM_TERMINATION}={wanted}"
        )
        context.log.record("termination.guarded", instances=len(found), fleet=fleet, token=wanted)
        for pool in pools:
            await context.recorder.publish(pool, "Warning", "MassTerminationGuarded", message, ttl=_TTL)
        return True
