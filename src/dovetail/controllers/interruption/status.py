"""Status checks of the cloud: an instance that keeps failing one is ended by force, for it cannot drain."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.interruption import Impairment
from dovetail.controllers.context import Context
from dovetail.controllers.interruption.act import UNHEALTHY, tell, tell_end
from dovetail.controllers.interruption.metrics import UNHEALTHY as COUNT
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, GRACEFUL, count_disrupted
from dovetail.controllers.nodeclaim.terminate import end_by_force
from dovetail.controllers.reconciler import every

PERIOD = MINUTE
TOLERATION = 120 * SECOND
# What the cloud merely announces leaves time to drain.
_ANNOUNCED = "event_status"


class InstanceStatus:
    """Asks the cloud every minute, with or without a queue."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Work for ever."""
        await every(self._context.clock, PERIOD, self.look)

    async def look(self) -> None:
        """Ask once, and end what has been impaired for too long."""
        context = self._context
        now = context.clock.now()
        claims = {claim.status.provider_id: claim for claim in context.state.all(NodeClaim)}
        for found in await context.provider.impairments():
            claim = claims.get(found.provider_id)
            announced = found.category == _ANNOUNCED
            if claim is None or claim.deleting or not (announced or now - found.since >= TOLERATION):
                continue
            with context.panics.alone("interruption.instancestatus", claim.metadata.name, claim):
                await self._end(claim, found, by_force=not announced)

    async def _end(self, claim: NodeClaim, found: Impairment, *, by_force: bool) -> None:
        context = self._context
        context.metrics.add(COUNT, category=found.category)
        context.log.record("interruption", message=found.category, instance=found.provider_id)
        await tell(context, claim, UNHEALTHY)
        await tell_end(context, claim)
        count_disrupted(context, claim, found.category, FORCEFUL if by_force else GRACEFUL)
        if by_force:
            await end_by_force(context, claim)
        else:
            await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
