"""Events on pools about zones that the cloud has the cluster shifted away from."""

from __future__ import annotations

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context
from dovetail.model import labels
from dovetail.model.requirement import Requirements

PERIOD = MINUTE // 2


class ZonalShifts:
    """Looks every 30 s. A pool gets an event when a zone of its own is left and when it is there again."""

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
        left, back = sorted(now.items() - before.items()), sorted(before.items() - now.items())
        for pool in pools if left or back else ():
            own = self._zones(pool)
            for zone, key in left:
                if zone in own:
                    text = f"Zonal shift detected: offerings in zone {zone} ({key}) are unavailable"
                    await publish(pool, "Warning", "ZonalShiftActive", f"{text} for this NodePool")
            for zone, key in back:
                if zone in own:
                    text = f"Zonal shift cleared: offerings in zone {zone} ({key}) are restored"
                    await publish(pool, "Normal", "ZonalShiftCleared", f"{text} for this NodePool")

    def _zones(self, pool: NodePool) -> frozenset[str]:
        """To which its nodes may come: those of its class's subnets that it allows."""
        spec = pool.spec.template.spec
        allowed = Requirements.read(spec.requirements).get(labels.ZONE)
        node_class = self._context.state.get(EC2NodeClass, spec.node_class_ref.name)
        there = {item["zone"] for item in node_class.status.subnets} if node_class is not None else ()
        return frozenset(zone for zone in there if allowed.has(zone))
