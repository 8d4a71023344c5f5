"""What every call to the fake goes through: it is noted, and may be denied, throttled or slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.base.clock import SECOND, Clock
from dovetail.base.streams import stream
from dovetail.cloud.aws.errors import AwsError

_MILLISECOND = SECOND // 1000


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: so many calls at once, and so many more each second."""

    size: int
    refill: float


# EC2's documented defaults per account and region (request throttling of the EC2 API reference). The first
# prefix that fits counts; services without a row are not throttled here.
EC2_BUCKETS: Mapping[str, Bucket] = {
    "ec2:RunInstances": Bucket(5, 2),
    "ec2:CreateTags": Bucket(100, 10),
    "ec2:TerminateInstances": Bucket(100, 5),
    "ec2:Describe": Bucket(100, 20),
    "ec2:": Bucket(50, 5),
}
_CODES = {"ec2": ("UnauthorizedOperation", "RequestLimitExceeded"), "iam": ("AccessDenied", "Throttling")}
_USUAL_CODES = ("AccessDeniedException", "ThrottlingException")


@dataclass(frozen=True, slots=True)
class GateOptions:
    """`denied` are actions such as "ec2:CreateFleet"; latencies in ms, drawn evenly; `buckets` by prefix."""

    denied: frozenset[str] = frozenset()
    fastest: int = 0
    slowest: int = 0
    buckets: Mapping[str, Bucket] = field(default_factory=dict)


class Gate:
    """The door to all services of one account. `calls` counts every call that came, by action."""

    def __init__(self, clock: Clock, seed: int, options: GateOptions) -> None:
        self.calls: Counter[str] = Counter()
        self.options = options
        self._clock = clock
        self._seed = seed
        self._levels: dict[str, tuple[float, int]] = {}  # per bucket: tokens left at an instant

    async def enter(self, service: str, action: str) -> None:
        """Return once the call has its turn. Raises AwsError."""
        name = f"{service}:{action}"
        self.calls[name] += 1
        if self.options.slowest:
            draws = stream(self._seed, f"{name}/{self.calls[name]}", "latency")
            delay = draws.randint(self.options.fastest, self.options.slowest)
            await self._clock.sleep(delay * _MILLISECOND)
        denied, throttled = _CODES.get(service, _USUAL_CODES)
        if name in self.options.denied:
            raise AwsError(action, denied, f"You are not authorized to perform this operation: {name}")
        if not self._take(name):
            raise AwsError(action, throttled, "Request limit exceeded.")

    def _take(self, name: str) -> bool:
        """A token of the action's bucket; Describe calls and others have one per action, as in EC2."""
        prefix = next((prefix for prefix in self.options.buckets if name.startswith(prefix)), None)
        if prefix is None:
            return True
        bucket, now = self.options.buckets[prefix], self._clock.now()
        left, at = self._levels.get(name, (float(bucket.size), now))
        left = min(float(bucket.size), left + (now - at) / SECOND * bucket.refill)
        self._levels[name] = (left - 1 if left >= 1 else left, now)
        return left >= 1
