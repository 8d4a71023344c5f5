"""Events on pools about zones that the cloud has the cluster shifted away from."""

from __future__ import annotations

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context

PERIOD = MINUTE // 2


class ZonalShifts:
    """Looks every 30 s. A pool gets an event when a zone is left and when it is there again."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, str] = {}

    async def run(self) -> None:
        """Work for ever."""
        while True:
            await self._context.clock.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Say what changed."""
        now = dict(self._context.provider.supply.shifted_zones())
        before, self._known = self._known, now
        publish, pools = self._context.recorder.publish, self._context.state.all(NodePool)
        for pool in pools:
            for zone, key in sorted(now.items() - before.items()):
                text = f"Zonal shift detected: offerings in zone {zone} ({key}) are unavailable"
                await publish(pool, "Warning", "ZonalShiftActive", f"{text} for this NodePool")
            for zone, key in sorted(before.items() - now.items()):
                text = f"Zonal shift cleared: offerings in zone {zone} ({key}) are restored"
                await publish(pool, "Normal", "ZonalShiftCleared", f"{text} for this NodePool")
