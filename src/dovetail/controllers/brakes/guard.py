"""Many instances without a claim at once: more likely our knowledge is wrong than the fleet.

An etcd restored from a backup, a deleted CRD or a second cluster of the same name look just like that, and
must not cost the fleet. `hold` keeps nodes for a while that would have to be ended by force now.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.disrupt.confirmation import token, too_many
from dovetail.model import labels

HELD_POLL = MINUTE
_HELD_TTL = 15 * MINUTE


async def held(context: Context, claim: NodeClaim, reason: str) -> bool:
    """True iff a pause or the forceful budget keeps the claim for now; an event on it says so."""
    name = claim.metadata.labels.get(labels.NODEPOOL, "")
    if context.brakes.disruption_paused(context.state.get(NodePool, name)):
        why = "disruption is paused"
    else:
        why = context.brakes.force_refused(claim)
    if not why:
        # The next one may be asked about before this one's end is seen.
        context.state.mark((claim.metadata.name,))
        return False
    message = f"NodeClaim is {reason}, but {why}"
    await context.recorder.publish(
        claim, "Normal", "DisruptionBlocked", message, dedupe=(claim.metadata.uid, why), ttl=_HELD_TTL
    )
    return True


_TTL = 15 * MINUTE
GUARDED = Metric(
    "dovetail_guarded_instances",
    "gauge",
    "Instances without a NodeClaim that are kept until their end is confirmed.",
)
ALL = (GUARDED,)


def confirmed(context: Context) -> set[str]:
    """The tokens that were given, in a setting or on a NodePool."""
    pools = context.state.all(NodePool)
    given = [pool.metadata.annotations.get(labels.CONFIRM_TERMINATION, "") for pool in pools]
    return {one.strip() for text in (*given, context.brakes.options.confirmed) for one in text.split(",")}


class TerminationGuard:
    """Keeps instances without a claim where they are too many, and says how to confirm their end."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._announced = ""  # the token in the last message, while it holds

    async def kept(self, found: Sequence[str], fleet: int) -> frozenset[str]:
        """Which of the machines with these provider ids may not be ended now; `fleet` is how many run.

        What was confirmed stays so while one after the other goes.
        """
        context, agreed = self._context, self._context.brakes.agreed
        if token(found) in confirmed(context):
            agreed.update(found)
        agreed.intersection_update(found)
        left = [one for one in found if one not in agreed]
        held, wanted = too_many(len(left), fleet), token(left)
        context.metrics.set(GUARDED, len(left) if held else 0)
        if not held:
            self._announced = ""
            return frozenset()
        message = (
            f"{len(left)} of {fleet} instances have no NodeClaim and are kept; to end them, "
            f"set --confirm-termination {wanted} or annotate a NodePool with "
            f"{labels.CONFIRM_TERMINATION}={wanted}"
        )
        if wanted != self._announced:
            context.log.record("termination.guarded", message=message)
        self._announced = wanted
        for pool in context.state.all(NodePool):
            await context.recorder.publish(pool, "Warning", "MassTerminationGuarded", message, ttl=_TTL)
        return frozenset(left)
