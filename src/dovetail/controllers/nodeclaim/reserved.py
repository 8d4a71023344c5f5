"""Claims in reserved capacity: what becomes of them when their reservation ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.base.errors import ApiError, CloudError, NotFound
from dovetail.cloud.provider import Instance
from dovetail.cluster.nodes import managed
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, count_disrupted
from dovetail.model import labels

PERIOD = MINUTE
_NAME = "capacityreservation"
EXPIRING = "capacity_reservation_expiring"
_KINDS = (labels.AWS + "capacity-reservation-type", labels.AWS + "capacity-reservation-interruptible")


@dataclass(frozen=True, slots=True)
class Relabelled:
    """A claim whose machine runs in other capacity than its labels say. None takes a label away."""

    claim: NodeClaim
    labels: dict[str, str | None]


def expiring(claims: Iterable[NodeClaim], classes: Iterable[EC2NodeClass]) -> list[NodeClaim]:
    """Claims in blocks of capacity that end soon: EC2 takes the machines back, drained or not."""
    ending = {
        item.get("id")
        for node_class in classes
        for item in node_class.status.capacity_reservations
        if item.get("state") == "expiring"
    }
    return [
        claim
        for claim in claims
        if not claim.deleting and claim.metadata.labels.get(labels.RESERVATION_ID) in ending
    ]


def moved(claims: Iterable[NodeClaim], instances: Iterable[Instance]) -> Iterator[Relabelled]:
    """Claims whose machine left its reservation, or is in another one."""
    there = {item.provider_id: item for item in instances}
    for claim in claims:
        marks = claim.metadata.labels
        found = there.get(claim.status.provider_id)
        if found is None or marks.get(labels.CAPACITY_TYPE) != labels.RESERVED:
            continue
        if found.capacity_type != labels.RESERVED:
            gone: dict[str, str | None] = dict.fromkeys((labels.RESERVATION_ID, *_KINDS))
            yield Relabelled(claim, {labels.CAPACITY_TYPE: found.capacity_type, **gone})
        elif found.reservation_id != marks.get(labels.RESERVATION_ID):
            yield Relabelled(claim, {labels.RESERVATION_ID: found.reservation_id})


class ReservedClaims:
    """Looks every minute, while there are claims in reserved capacity."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Work for ever."""
        while True:
            await self._context.clock.sleep(PERIOD)
            try:
                await self.look()
            except (ApiError, CloudError) as error:
                self._context.log.record(
                    "reconcile.failed", controller=_NAME, key="reserved", message=str(error)
                )

    async def look(self) -> None:
        """Relabel what moved, end what ends."""
        claims = self._reserved()
        if not claims:
            return
        for item in moved(claims, await self._context.provider.list()):
            with self._context.panics.alone(_NAME, item.claim.metadata.name, item.claim):
                await self._relabel(item)
        for claim in expiring(self._reserved(), self._context.state.all(EC2NodeClass)):
            try:
                await self._context.client.delete(NodeClaim, claim.metadata.name)
            except NotFound:
                continue
            count_disrupted(self._context, claim, EXPIRING, FORCEFUL)

    def _reserved(self) -> Sequence[NodeClaim]:
        kinds = self._context.provider.node_class_kinds
        return [
            claim
            for claim in self._context.state.all(NodeClaim)
            if claim.metadata.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
            and managed(claim.spec.node_class_ref, kinds)
        ]

    async def _relabel(self, item: Relabelled) -> None:
        merge = {"metadata": {"labels": item.labels}}
        client, name = self._context.client, item.claim.metadata.name
        for node in self._context.state.nodes_of(item.claim):
            await client.patch(Node, node.metadata.name, merge=merge)
        await client.patch(NodeClaim, name, merge=merge)
