"""How often pods are moved: no more moves of a workload's pods within 24 h than it has pods."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from dovetail.api.core import Pod
from dovetail.base.clock import HOUR, SECOND
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

WINDOW = 24 * HOUR
# A pod that had to move anyway, because its node drifted or expired, rests for so long where it came to.
# Counted with the moves of the day it kept a cluster that was renewed, and lost half of its pods half an hour
# later, at up to 2.6 times its bound.
REST = HOUR
# Since the command: replacements have so long at most to come up, and draining begins then.
_ARRIVAL = HOUR
# On a NodePool: which pods were moved off its nodes, so that a restart does not forget it.
MOVED_PODS = "dovetail.dev/moved-pods"
_UNKNOWN = 2**63 - 1  # later than any instant
_KEY = 12  # last characters of a UID: 48 random bits
_FORCED = " forced"  # after the instant, in the annotation
_LONGEST = 100_000  # characters; annotations of one object may have 256 KiB together


@by_identity(MOST_PODS)
def workload(pod: Pod) -> str:
    """What makes the pod anew when it goes: its controller, or the pod itself if it has none, by UID.

    The pod that comes in another's place has another name, so moves are counted by workload.
    """
    owner = pod.metadata.controller()
    return (owner.uid if owner is not None else pod.metadata.uid)[-_KEY:]


@dataclass(frozen=True, slots=True)
class Moves:
    """Workload -> how many more of its pods may be moved; any number of those that are not named.

    `resting` are pods (by UID) that had to move within the hour: they stay where they are. `forced` is True
    iff any had to within two.
    Nothing is left for replacing nodes once half of all moves were made, unless it saves as much as deletions
    do when the load falls: most replacements save little of that.
    """

    deleting: Mapping[str, int] = field(default_factory=dict)
    replacing: Mapping[str, int] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """Pods that were moved off nodes of a pool at one instant (nanoseconds): workload -> how many."""

    pool: str
    at: int
    moved: Mapping[str, int]
    forced: bool = False  # not to save money: the nodes had to go

    @property
    def until(self) -> int:
        """The instant from which it does not count any more."""
        return self.at + (_ARRIVAL + REST if self.forced else WINDOW)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod came by a move at that instant (nanoseconds); `forced` as in Entry."""

    at: int
    forced: bool = False


class Present:
    """The pods that there are, by workload: when they came, with their UIDs, in order of these.

    Kept up to date by what changes: of the pods of a large cluster few do from one decision to the next.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.came: dict[str, list[tuple[int, str]]] = {}
        self.add(pods)

    def add(self, pods: Iterable[Pod]) -> None:
        """These are there as well."""
        for pod in pods:
            insort(self.came.setdefault(workload(pod), []), (_created(pod), pod.metadata.uid))

    def remove(self, pods: Iterable[Pod]) -> None:
        """These, which were added, are there no more."""
        for pod in pods:
            key = workload(pod)
            some = self.came[key]
            del some[bisect_left(some, (_created(pod), pod.metadata.uid))]
            if not some:
                del self.came[key]


class Ledger:
    """Which moves were made in the last 24 h, and which had to be made lately. Instants never go back."""

    def __init__(self, per_pod: int) -> None:
        self._per_pod = per_pod
        self._entries: list[Entry] = []

    def record(self, pool: str, pods: Iterable[Pod], now: int, *, forced: bool = False) -> Entry:
        """These pods are moved now."""
        entry = Entry(pool, now, Counter(map(workload, pods)), forced)
        self._entries.append(entry)
        return entry

    def find(self, pool: str, pods: Iterable[Pod], since: int) -> Entry | None:
        """The record of these very moves, if they were made at `since` or later."""
        moved = Counter(map(workload, pods))
        made = (entry for entry in self._entries if entry.pool == pool and entry.at >= since)
        return next((entry for entry in made if Counter(entry.moved) == moved), None)

    def take_back(self, entry: Entry) -> None:
        """They were not moved after all."""
        if entry in self._entries:
            self._entries.remove(entry)

    def give_back(self, pool: str, pods: Iterable[Pod], since: int) -> None:
        """These pods of the pool's nodes are still where they were at `since`, whatever was recorded then."""
        back = Counter(map(workload, pods))
        for place, entry in enumerate(self._entries):
            if entry.pool == pool and entry.at >= since:
                given = Counter(entry.moved) & back
                self._entries[place] = replace(entry, moved=Counter(entry.moved) - given)
                back -= given

    def left(self, present: Present, now: int) -> Moves:
        """How many more may be made, given all pods that there are.

        Of the moves that were made those count which pods that are still there may have made: what came in
        place of a moved pod is younger than the move. Where the load fell, others are gone with it.
        Moves that were forced leave as many as there were: the very pods rest for an hour instead.
        """
        self._forget(now)
        came = present.came
        made: Counter[str] = Counter()
        for entry in (one for one in self._entries if not one.forced):
            for key, count in entry.moved.items():
                there = came.get(key, ())
                made[key] += min(count, len(there) - bisect_left(there, (entry.at,)))
        most = {key: self._per_pod * len(some) for key, some in came.items()}
        left = {key: max(0, count - made[key]) for key, count in most.items()}
        half = {key: count if 2 * made[key] <= most[key] else 0 for key, count in left.items()}
        forced = any(entry.forced for entry in self._entries)
        return Moves(left, half, self._resting(came, now), forced)

    def same_until(self) -> int:
        """The instant up to which `left` says the same of the same pods, unless moves are recorded.

        0 where that is not known: of moves that were forced each pod rests for an hour of its own.
        """
        if any(entry.forced for entry in self._entries):
            return 0
        return min((entry.until for entry in self._entries), default=_UNKNOWN)

    def lately(self, present: Present, now: int) -> Mapping[str, Arrival]:
        """Of all pods that there are those that came by a move within the hour, by UID."""
        self._forget(now)
        if not any(now - entry.at < _ARRIVAL + REST for entry in self._entries):
            return {}
        found = self._came(present.came, present.came, now)
        return {uid: Arrival(at, entry.forced) for entry, at, uid in found}

    def _resting(self, present: Mapping[str, Sequence[tuple[int, str]]], now: int) -> frozenset[str]:
        forced = {key for entry in self._entries if entry.forced for key in entry.moved}
        return frozenset(uid for entry, _, uid in self._came(present, forced, now) if entry.forced)

    def _came(
        self, present: Mapping[str, Sequence[tuple[int, str]]], keys: Container[str], now: int
    ) -> Iterator[tuple[Entry, int, str]]:
        """Pods of these workloads that came by a move within the hour: the move, when they came, their UIDs.

        Each is taken to have come by the latest move that may have brought it, the oldest first.
        """
        moved = {key for entry in self._entries for key in entry.moved if key in keys}
        young = {key: list(present.get(key, ())) for key in moved}
        for entry in sorted(self._entries, key=lambda entry: -entry.at):
            for key in filter(young.__contains__, entry.moved):
                came = [one for one in young[key] if 0 <= one[0] - entry.at < _ARRIVAL][: entry.moved[key]]
                young[key] = sorted({*young[key]}.difference(came))
                yield from ((entry, instant, uid) for instant, uid in came if now - instant < REST)

    def text(self, pool: str, now: int) -> str:
        """What is known of the pool's nodes, for `read`; the oldest is left out where it is too much."""
        self._forget(now)
        document: dict[str, Counter[str]] = {}
        for entry in self._entries:
            if entry.pool == pool:
                key = to_rfc3339(entry.at) + (_FORCED if entry.forced else "")
                document.setdefault(key, Counter()).update(entry.moved)
        while len(text := json.dumps(document, separators=(",", ":"))) > _LONGEST:
            del document[min(document)]
        return text

    def read(self, pool: str, text: str, now: int) -> None:
        """Add what `text` holds; nothing where it cannot be read, and nothing that is still to come."""
        try:
            found = [
                Entry(
                    pool,
                    parse_rfc3339(instant.removesuffix(_FORCED)),
                    {str(key): int(count) for key, count in moved.items()},
                    instant.endswith(_FORCED),
                )
                for instant, moved in json.loads(text).items()
            ]
        except (ValueError, TypeError, AttributeError):
            return
        self._entries += [entry for entry in found if entry.at <= now]

    def _forget(self, now: int) -> None:
        self._entries = [entry for entry in self._entries if now < entry.until]


def rests_since(pods: Iterable[Pod], resting: Set[str]) -> int:
    """When the last of those that rest came (nanoseconds); 0 if none does."""
    if not resting:
        return 0
    return max((_created(pod) for pod in pods if pod.metadata.uid in resting), default=0)


def _created(pod: Pod) -> int:
    """The end of the second that its timestamp names: it came at some moment of it. Late if unknown."""
    stamp = pod.metadata.creation_timestamp
    return parse_rfc3339(stamp) + SECOND if stamp else _UNKNOWN


class MoveBudget:
    """What disruption budgets of pools and the limit on moves still allow, while nodes are put together."""

    def __init__(self, allowed: Mapping[str, int], moves: Mapping[str, int]) -> None:
        self._allowed = dict(allowed)
        self._moves = dict(moves)

    def holds(self, pool: str, workloads: Mapping[str, int]) -> bool:
        """True iff a node of the pool may go as well that has so many pods of each workload."""
        if self._allowed.get(pool, 0) < 1:
            return False
        return all(self._moves.get(key, count) >= count for key, count in workloads.items())

    def take(self, pool: str, workloads: Mapping[str, int]) -> None:
        """It goes."""
        self._allowed[pool] -= 1
        for key, count in workloads.items():
            if key in self._moves:
                self._moves[key] -= count
