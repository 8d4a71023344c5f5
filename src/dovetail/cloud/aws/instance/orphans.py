"""Instances that an earlier process launched and did not live to write down: the next launches take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Ec2, Instance
from dovetail.cloud.aws.instance.instances import CLAIM, Instances, provider_id
from dovetail.model import labels

# EC2 itself tags every instance that comes of a launch template.
TEMPLATE = "aws:ec2launchtemplate:id"
_STARTING = ("pending", "running")
# Older ones would have joined, or never will.
_YOUNG = 15 * MINUTE
# By then whoever led before has written down what it had to write, or never will.
SETTLED = 15 * SECOND
# For so long the others wait for a claim that takes them.
KEPT = 2 * MINUTE


@dataclass(frozen=True, slots=True)
class Orphan:
    """An instance of no claim, and the name of the launch template that it comes of."""

    instance: Instance
    template: str

    @property
    def kind(self) -> tuple[str, ...]:
        """Equal for instances that the same launches would have given."""
        one = self.instance
        return self.template, one.instance_type, one.zone, self.capacity_type, one.reservation

    @property
    def capacity_type(self) -> str:
        one = self.instance
        return labels.SPOT if one.spot else labels.RESERVED if one.reservation else labels.ON_DEMAND


class Orphans:
    """Looked for once, before this process buys anything: what comes later is its own.

    An instance gets the name of its claim only after its node has joined. Until then nothing says which
    claim it was launched for; but a claim that would launch the very same one may have it.
    """

    def __init__(self, ec2: Ec2, instances: Instances, clock: Clock, cluster: str) -> None:
        self._ec2 = ec2
        self._instances = instances
        self._clock = clock
        self._templates = (Filter("tag:eks:eks-cluster-name", (cluster,)),)
        self._left: list[Orphan] = []
        self._promised: set[str] = set()  # provider ids of those that a claim is about to have
        self._owned: Callable[[], Collection[str]] = frozenset
        self._seen = 0  # when they were seen
        self._looking: asyncio.Task[None] | None = None

    async def look(self, owned: Callable[[], Collection[str]]) -> None:
        """Once; calls meanwhile wait. `owned` are provider ids that claims have. Raises AwsError."""
        if self._looking is None or (self._looking.done() and self._looking.exception() is not None):
            self._owned = owned
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="aws: orphans")
        await asyncio.shield(self._looking)

    def waiting(self) -> frozenset[str]:
        """Provider ids of those that a launch may still take."""
        if self._clock.monotonic() - self._seen > KEPT:
            self._left.clear()
        return frozenset(self._promised).union(_place(item.instance) for item in self._left)

    async def take(self, wanted: Callable[[Orphan], bool]) -> Instance | None:
        """One that is wanted, given to no other claim; None where there is none. Raises AwsError."""
        refused: set[tuple[str, ...]] = set()
        while (orphan := self._next(wanted, refused)) is not None:
            self._left.remove(orphan)
            place = _place(orphan.instance)
            self._promised.add(place)
            try:
                await self._clock.sleep(max(0, self._seen + SETTLED - self._clock.monotonic()))
                found = await self._instances.find(orphan.instance.id)
            finally:
                self._promised.discard(place)
            if found is not None and found.state in _STARTING and place not in self._owned():
                return found
        return None

    def _next(self, wanted: Callable[[Orphan], bool], refused: set[tuple[str, ...]]) -> Orphan | None:
        for orphan in self._left:
            if orphan.kind not in refused:
                if wanted(orphan):
                    return orphan
                refused.add(orphan.kind)
        return None

    async def _look(self) -> None:
        owned, now = self._owned(), self._clock.now()
        found = [
            item
            for item in await self._instances.all()
            if item.state in _STARTING
            and CLAIM not in item.tags
            and TEMPLATE in item.tags
            and now - item.launched < _YOUNG
            and _place(item) not in owned
        ]
        if found:
            names = {one.id: one.name for one in await self._ec2.describe_launch_templates(self._templates)}
            known = [(item, names.get(item.tags[TEMPLATE], "")) for item in found]
            self._left = [Orphan(item, name) for item, name in known if name]
        self._seen = self._clock.monotonic()


def _place(instance: Instance) -> str:
    return provider_id(instance.zone, instance.id)
