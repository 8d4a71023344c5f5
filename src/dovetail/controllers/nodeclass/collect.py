"""Deletes instance profiles that were made for a class or a role that is gone."""

from __future__ import annotations

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context
from dovetail.model import labels

PERIOD = 30 * MINUTE
_KEY = "instance profiles"


class ProfileCollection:
    """Machines keep their profile as long as they run, even if their class has another one by now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclass.garbagecollection", self.reconcile)
        self.queue.add_after(_KEY, PERIOD)

    async def reconcile(self, _: str) -> int | None:
        """Take away those that are not in use."""
        state = self._context.state
        if state.synced():
            in_use = {item.status.instance_profile for item in state.all(EC2NodeClass)}
            in_use |= {
                item.metadata.annotations.get(labels.INSTANCE_PROFILE, "") for item in state.all(NodeClaim)
            }
            await self._context.provider.classes.tidy(frozenset(in_use - {""}))
        return PERIOD
