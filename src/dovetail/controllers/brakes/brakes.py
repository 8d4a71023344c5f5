"""All brakes of one operator: rates, and pools that are left alone for a while after launches in vain."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import Budget, NodePool
from dovetail.base.clock import HOUR, MINUTE, Clock
from dovetail.cluster.state import State
from dovetail.disrupt.budgets import budget_limit
from dovetail.disrupt.definitions import Definitions
from dovetail.disrupt.pause import Pause, pause_of
from dovetail.model import labels
from dovetail.units.duration import format_duration, parse_duration
from dovetail.units.timestamp import to_rfc3339

# From so many failures in a row on. Claims that were bought together fail together: that is one failure.
_FAILURES = 2
_FIRST = 5 * MINUTE
_LONGEST = HOUR


@dataclass(frozen=True, slots=True)
class _Streak:
    failures: int
    last: int  # ns since the epoch


class LaunchBackoff:
    """Counts failures in a row per pool. It is lost in a restart: then each pool has another try."""

    def __init__(self) -> None:
        self._streaks: dict[str, _Streak] = {}  # by the pool's uid

    def failed(self, pool: str, created: int, now: int) -> None:
        """A claim of the pool that was made at `created` came to nothing."""
        known = self._streaks.get(pool)
        if known is None or created >= known.last or known.last > now:
            self._streaks[pool] = _Streak(known.failures + 1 if known else 1, now)

    def reset(self, pool: str) -> None:
        """A node joined, or the pool is another one now."""
        self._streaks.pop(pool, None)

    def until(self, pool: str, now: int) -> tuple[int, int]:
        """(failures in a row, the instant before which nothing more is bought or 0).

        A failure later than `now` was before the clock was set back: it is unknown how long ago.
        """
        known = self._streaks.get(pool)
        if known is None or known.failures < _FAILURES or known.last > now:
            return (known.failures if known else 0), 0
        wait = min(_LONGEST, _FIRST << min(known.failures - _FAILURES, 10))
        return known.failures, known.last + wait


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` per `interval` nanoseconds, written as `50/10m`."""

    count: int
    interval: int

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Raises ValueError for what is no rate."""
        count, slash, interval = text.partition("/")
        if not slash or not count.isascii() or not count.isdigit() or int(count) < 1:
            raise ValueError(f"{text!r} is not a number of at least 1 and a duration, such as 50/10m")
        length = parse_duration(interval)
        if length <= 0:
            raise ValueError(f"{text!r} has no interval above 0; valid is 50/10m")
        return cls(int(count), length)

    def __str__(self) -> str:
        return f"{self.count} per {format_duration(self.interval)}"


class Window:
    """What happened within the last interval. Without a rate everything may happen."""

    def __init__(self, rate: Rate | None) -> None:
        self.rate = rate
        self._taken: deque[tuple[int, int]] = deque()  # (instant, how many)

    def allows(self, wanted: int, now: int) -> bool:
        """True iff `wanted` more may happen now. What is more than the rate may happen alone."""
        if self.rate is None or wanted <= 0:
            return True
        while self._taken and self._taken[0][0] + self.rate.interval <= now:
            self._taken.popleft()
        return not self._taken or sum(count for _, count in self._taken) + wanted <= self.rate.count

    def take(self, count: int, now: int) -> None:
        """It happens."""
        if self.rate is not None and count > 0:
            self._taken.append((now, count))

    def give_back(self, count: int) -> None:
        """So much of what was taken last did not happen."""
        while count > 0 and self._taken:
            instant, there = self._taken.pop()
            if there > count:
                self._taken.append((instant, there - count))
            count -= there


@dataclass(frozen=True, slots=True)
class BrakeOptions:
    """The settings. Everything is off by default but the backoff of failing pools and the guard.

    `forceful` is a number or percentage of a pool's nodes that may be on their way out when one more is to
    be ended by force. `confirmed` is the token of a mass termination that a person agreed to.
    """

    pause: Pause = field(default_factory=Pause)
    launches: Rate | None = None
    moves: Rate | None = None  # of pods, by voluntary disruption
    forceful: str = ""
    confirmed: str = ""


class Brakes:
    """Asked before anything is launched or disrupted. What it counts is lost in a restart."""

    def __init__(self, options: BrakeOptions, clock: Clock, state: State) -> None:
        self.options = options
        self.backoff = LaunchBackoff()
        self.agreed: set[str] = set()  # provider ids of instances without a claim whose end was confirmed
        # Deleted definitions that take more claims than may end unasked, as last looked at.
        self.lost: Definitions | None = None
        self._clock = clock
        self._state = state
        self._launches = Window(options.launches)
        self._moves = Window(options.moves)

    def launches_paused(self, pool: NodePool) -> str:
        """Why nothing is bought for the pool now, or ""."""
        if self.options.pause.launches or pause_of(pool).launches:
            return "launches are paused"
        now = self._clock.now()
        failures, until = self.backoff.until(pool.metadata.uid, now)
        if until > now:
            return f"{failures} launches in a row came to nothing, the next is tried at {to_rfc3339(until)}"
        return ""

    def disruption_paused(self, pool: NodePool | None) -> bool:
        """True iff no node of the pool is to be ended, unless the cloud takes it."""
        return self.options.pause.disruption or pause_of(pool).disruption

    def launch_refused(self, count: int) -> str:
        """Why so many more nodes may not be launched now, or ""."""
        if self._launches.allows(count, self._clock.monotonic()):
            return ""
        return f"the limit of launches, {self._launches.rate}, is reached"

    def launched(self, count: int) -> None:
        """So many claims are created."""
        self._launches.take(count, self._clock.monotonic())

    def not_launched(self, count: int) -> None:
        """So many of those did not come to be."""
        self._launches.give_back(count)

    def move_refused(self, pods: int) -> str:
        """Why so many more pods may not be moved voluntarily now, or ""."""
        if self._moves.allows(pods, self._clock.monotonic()):
            return ""
        return f"the limit of moved pods, {self._moves.rate}, is reached"

    def moved(self, pods: int) -> None:
        """So many pods are moved voluntarily."""
        self._moves.take(pods, self._clock.monotonic())

    def keeps(self, claim: NodeClaim) -> bool:
        """True iff the claim is deleted and its node stays as it is all the same: its definition was lost."""
        if not claim.deleting or self.lost is None or not self.lost.take(claim):
            return False
        return not self.begun(claim)

    def begun(self, claim: NodeClaim) -> bool:
        """True iff its node's end is under way already: whoever deletes a Node by hand means that one."""
        nodes = self._state.nodes_of(claim)
        return any(node.deleting for node in nodes) or (not nodes and bool(claim.status.node_name))

    def force_refused(self, claim: NodeClaim) -> str:
        """Why the claim may not be ended by force now, or "": others of its pool are on their way out."""
        if not self.options.forceful:
            return ""
        state = self._state
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        own = [item for item in state.machines() if item.pool == pool and item.initialized]
        going = sum(state.going(item) for item in own if claim.metadata.name not in item.names())
        limit = budget_limit(Budget(nodes=self.options.forceful), "", len(own), self._clock.now())
        return f"the forceful budget of {self.options.forceful} is used up" if going >= limit else ""
