"""What launches of all classes draw on together: vCPUs of the account's quotas, addresses of subnets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE, Clock
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instancetype.market import Sold
from dovetail.cloud.aws.launchtemplate.template import Stage
from dovetail.cloud.aws.quota.quotas import Addresses, Group, Quotas, addresses, family, vcpus
from dovetail.cloud.aws.subnet import SubnetBook
from dovetail.cloud.provider import NodeClassResolution
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering, affordable
from dovetail.model.requirement import Requirement, Requirements

LOOK = MINUTE  # between looks while instances come and go
IDLE = 5 * MINUTE  # and while they do not
QUOTAS = HOUR
_APPEARS = MINUTE  # how long EC2 may fail to show what was launched
_REMEMBERED = 128  # lists of names of one set of types: claims of a burst name few
_COUNTED = Filter("instance-state-name", ("pending", "running"))


class _Drawing:
    """What launches of these types draw on, and those of them that claims name."""

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        self.types = types
        self.most: dict[str, int] = {}  # by name, what the largest of them takes
        for one in (offering for item in types for offering in item.offerings):
            for name, amount in one.draws:
                self.most[name] = max(amount, self.most.get(name, 0))
        self._named: dict[Requirement, tuple[InstanceType, ...]] = {}

    def named(self, names: Requirement) -> tuple[InstanceType, ...]:
        """Those that these are the names of."""
        found = self._named.get(names)
        if found is None:
            if len(self._named) >= _REMEMBERED:
                self._named.clear()
            found = self._named[names] = tuple(item for item in self.types if names.has(item.name))
        return found


class Commons:
    """What is left, as AWS last had it, less what was launched since. What cannot be read has no end."""

    def __init__(self, aws: Aws, clock: Clock, book: SubnetBook, sold: Callable[[], Sold]) -> None:
        self._aws = aws
        self._clock = clock
        self._book = book
        self._sold = sold
        self._quotas: Quotas = {}
        self._quotas_asked: int | None = None
        self._running: Counter[Group] = Counter()  # vCPUs
        self._counted = False
        self._since: dict[str, tuple[Group, int, int]] = {}  # by instance: what, vCPUs, when it was launched
        self._sums: Counter[Group] | None = None  # of their vCPUs; None: to be added up anew
        self._drawn: dict[str, tuple[Addresses, ...]] = {}  # by class
        self._looked: int | None = None
        self._moved = True  # instances came or went since the last look
        self._drawing = _Drawing(())  # of the types that were asked about last

    async def run(self, failed: Callable[[AwsError], None]) -> None:
        """Look again and again, for ever."""
        while True:
            await self._clock.sleep(LOOK)
            await self.refresh(failed)

    async def refresh(self, failed: Callable[[AwsError], None]) -> None:
        """Look again if it is time. A right that is not given leaves quotas unknown."""
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < (LOOK if self._moved else IDLE):
            return
        self._looked, self._moved = now, False
        try:
            await self._read_quotas()
            if self._quotas:
                await self._count()
            else:
                self._since, self._sums = (
                    {},
                    None,
                )  # nothing is reckoned with it, and nothing else would end it
            await self._book.refresh()
        except AwsError as error:
            failed(error)

    def resolved(self, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage) -> None:
        """The subnets that nodes of the class may go to."""
        ipv6 = ":" in (stage.cluster.dns_ip or "")
        drawn = addresses(node_class.spec, found.subnets, ipv6=ipv6)
        self._drawn[node_class.metadata.name] = drawn
        self._book.learn(found.subnets)

    def forget(self, node_class: str) -> None:
        """The class of that name is gone, and with it the subnets that no other one has."""
        self._drawn.pop(node_class, None)
        kept = {subnet for zones in self._drawn.values() for one in zones for subnet in one.subnets}
        self._book.keep_only(kept)

    def drawn(self, node_class: EC2NodeClass) -> tuple[Addresses, ...]:
        """What a launch for the class takes, per zone; nothing before it was resolved."""
        return self._drawn.get(node_class.metadata.name, ())

    def each(self, node_class: EC2NodeClass) -> int:
        """How many addresses a launch for the class takes."""
        return max((one.each for one in self.drawn(node_class)), default=1)

    def launched(self, identifier: str, instance_type: str, offering: Offering) -> None:
        """An instance was launched just now."""
        spot = offering.capacity_type == labels.SPOT
        group = labels.SPOT if spot else labels.ON_DEMAND, family(instance_type)
        size = self._size(instance_type)
        if self._sums is not None:
            self._sums[group] += size
        if identifier in self._since:
            self._sums = None
        self._since[identifier] = group, size, self._clock.monotonic()
        self._moved = True

    def ended(self) -> None:
        """An instance goes: what it took comes back before long."""
        self._moved = True

    def left(self) -> dict[str, int]:
        """Name -> what is left, where that is known."""
        since = self._sums
        if since is None:
            since = self._sums = Counter()
            for group, size, _ in self._since.values():
                since[group] += size
        found = {
            vcpus(group): max(0, quota - self._running[group] - since[group])
            for group, quota in (self._quotas if self._counted else {}).items()
        }
        for one in (each for zones in self._drawn.values() for each in zones):
            free = [self._book.free(subnet) for subnet in one.subnets]
            known = [max(0, each) // one.each * one.each for each in free if each is not None]
            if len(known) == len(free):
                found[one.name] = sum(known)
            # No launch draws on one subnet of several, but whoever adds addresses wants to know where.
            rests = zip(one.subnets, free, strict=True)
            found |= {f"addresses of {subnet}": max(0, rest) for subnet, rest in rests if rest is not None}
        return found

    def reachable(self, types: tuple[InstanceType, ...], claim: NodeClaim) -> tuple[InstanceType, ...]:
        """The types that the claim names, where there is enough left; as they are if there is for none."""
        if self._drawing.types is not types:
            self._drawing = _Drawing(types)
        names, left = Requirements.read(claim.spec.requirements).get(labels.INSTANCE_TYPE), self.left()
        named = self._drawing.named(names)
        if all(left.get(name, most) >= most for name, most in self._drawing.most.items()):
            return named  # there is enough for any of them
        found = tuple(_reachable(item, left) for item in named)
        return found if any(one.launchable for item in found for one in item.offerings) else named

    async def _read_quotas(self) -> None:
        now = self._clock.monotonic()
        if self._quotas_asked is not None and now - self._quotas_asked < QUOTAS:
            return
        self._quotas_asked = now
        try:
            self._quotas = await self._aws.quotas.vcpus()
        except AwsError as error:
            # An isolated VPC may have no way to Service Quotas.
            if error.refusal not in (Refusal.UNAUTHORIZED, Refusal.UNREACHABLE):
                self._quotas_asked = None
                raise

    async def _count(self) -> None:
        """All instances of the account in the region count, whoever started them."""
        found = await self._aws.ec2.describe_instances((_COUNTED,))
        running: Counter[Group] = Counter()
        for item in found:
            kind = labels.SPOT if item.spot else labels.ON_DEMAND
            running[kind, family(item.instance_type)] += self._size(item.instance_type)
        seen, now = {item.id for item in found}, self._clock.monotonic()
        self._running, self._counted = running, True
        self._since = {
            key: value for key, value in self._since.items() if key not in seen and now - value[2] < _APPEARS
        }
        self._sums = None

    def _size(self, instance_type: str) -> int:
        record = self._sold().records.get(instance_type)
        return record.vcpus if record is not None else 0


def _reachable(item: InstanceType, left: Mapping[str, int]) -> InstanceType:
    if all(affordable(one, left) for one in item.offerings):
        return item
    return replace(
        item,
        offerings=tuple(
            one if affordable(one, left) else replace(one, available=False) for one in item.offerings
        ),
    )
