"""Zones that the cluster is shifted away from: nothing is launched there until that is over."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.base.clock import MINUTE, Clock
from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instancetype.market import Sold
from dovetail.cloud.choice import Pool
from dovetail.model import labels

PERIOD = MINUTE // 2
_NO_PART = "not a managed resource"  # which comes as AccessDeniedException
_CAPACITY = (labels.ON_DEMAND, labels.SPOT, labels.RESERVED)


class Shifts:
    """The last answer; nothing of a cluster that takes no part in zonal shift."""

    def __init__(self, aws: Aws, cluster: str) -> None:
        self._aws = aws
        self._cluster = cluster
        self._arn = ""
        self._away: tuple[str, ...] = ()  # ids of zones
        self._known: tuple[tuple[str, ...], Sold] | None = None
        self._pools: frozenset[Pool] = frozenset()

    async def run(self, clock: Clock, failed: Callable[[AwsError], None]) -> None:
        """Ask every 30 s, for ever."""
        while True:
            try:
                await self.refresh()
            except AwsError as error:
                failed(error)
            await clock.sleep(PERIOD)

    async def refresh(self) -> None:
        """Ask. Raises AwsError; then the answer before stays."""
        if not self._arn:
            self._arn = (await self._aws.eks.describe_cluster(self._cluster)).arn
        try:
            self._away = tuple(await self._aws.zonal_shift.shifted(self._arn))
        except AwsError as error:
            if error.refusal is not Refusal.NOT_FOUND and _NO_PART not in error.message:
                raise
            self._away = ()

    def zones(self, sold: Sold) -> dict[str, str]:
        """Names and ids of the zones."""
        return {name: key for name, key in sorted(sold.zone_ids.items()) if key in self._away}

    def pools(self, sold: Sold) -> frozenset[Pool]:
        """Everything that is sold there; the same object until something changes."""
        if not self._away:
            return frozenset()
        if self._known is None or self._known[0] != self._away or self._known[1] is not sold:
            away = self.zones(sold)
            self._known = self._away, sold
            self._pools = frozenset(
                (capacity_type, name, zone)
                for name, zones in sold.zones.items()
                for zone in zones & away.keys()
                for capacity_type in _CAPACITY
            )
        return self._pools
