"""Which subnet a launch goes to: per zone the one with the most free addresses, promised ones excepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from dovetail.base.clock import MINUTE, Clock
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Ec2
from dovetail.cloud.provider import ResolvedSubnet
from dovetail.cloud.unavailable import UNAVAILABLE_FOR

REFRESH = MINUTE


class SubnetBook:
    """Free addresses as EC2 last had them, less what was promised since."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._free: dict[str, int] = {}
        self._asked: dict[str, int] = {}  # per subnet: when
        self._promised: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()  # by launches since
        self._full: dict[str, int] = {}  # subnets that had no address: avoided until then

    async def choose(
        self, subnets: Iterable[ResolvedSubnet], zones: Collection[str], pods: int
    ) -> Mapping[str, str]:
        """The subnet per zone, with `pods` addresses promised in each. Raises AwsError."""
        wanted = [item for item in subnets if item.zone in zones]
        await self._refresh(wanted)
        now = self._clock.monotonic()
        best: dict[str, str] = {}
        for item in sorted(wanted, key=lambda one: one.id):
            if self._full.get(item.id, 0) > now:
                continue
            if item.zone not in best or self._left(item.id) > self._left(best[item.zone]):
                best[item.zone] = item.id
        self._promised.update(dict.fromkeys(best.values(), pods))
        return best

    def settle(self, promised: Mapping[str, str], pods: int, taken: str, each: int) -> None:
        """The launch is over: only those of the subnet `taken` stay promised; "" for none.

        The launch itself takes `each` addresses; the rest is for pods.
        """
        self._promised.subtract(dict.fromkeys(promised.values(), pods))
        if taken:
            self._promised[taken] += pods
            self._taken[taken] += each

    def learn(self, subnets: Iterable[ResolvedSubnet]) -> None:
        """Of subnets that were never asked about, what is known already."""
        for item in subnets:
            if item.free is not None:
                self._free.setdefault(item.id, item.free)

    def free(self, subnet: str) -> int | None:
        """Addresses that no launch has taken; None where nothing is known of the subnet."""
        known = self._free.get(subnet)
        return None if known is None else known - self._taken[subnet]

    async def refresh(self) -> None:
        """Ask anew about all that are known. Raises AwsError."""
        if self._free:
            await self._ask(tuple(sorted(self._free)))

    def keep_only(self, subnets: Collection[str]) -> None:
        """No class has any other subnet now; what was promised to launches under way stays."""
        for known in (self._free, self._asked, self._taken, self._full):
            for gone in [subnet for subnet in known if subnet not in subnets]:
                del known[gone]
        for gone in [key for key, count in self._promised.items() if key not in subnets and not count]:
            del self._promised[gone]

    def full(self, subnets: Iterable[str]) -> None:
        """They refused a launch for want of addresses."""
        self._full.update(dict.fromkeys(subnets, self._clock.monotonic() + UNAVAILABLE_FOR))

    def _left(self, subnet: str) -> int:
        return self._free.get(subnet, 0) - self._promised[subnet]

    async def _refresh(self, subnets: Iterable[ResolvedSubnet]) -> None:
        now = self._clock.monotonic()
        due = tuple(
            item.id for item in subnets if item.id not in self._asked or now - self._asked[item.id] >= REFRESH
        )
        if due:
            await self._ask(due)

    async def _ask(self, subnets: tuple[str, ...]) -> None:
        self._asked.update(dict.fromkeys(subnets, self._clock.monotonic()))
        before = self._taken.copy()
        for found in await self._ec2.describe_subnets((Filter("subnet-id", subnets),)):
            self._free[found.id] = found.free_addresses
            self._promised[found.id] = 0
            self._taken[found.id] -= before[found.id]
