"""The scheduler's queue: which pod is tried next, and when a pod that fitted nowhere is tried again."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import takewhile

from dovetail.api.core import Pod
from dovetail.base.clock import MINUTE, SECOND

_FIRST_BACKOFF = SECOND
_LONGEST_BACKOFF = 10 * SECOND
# A pod that nothing woke for so long is tried again anyway.
_LEFTOVER = 5 * MINUTE


# What pods have in common that any change helps alike: their kind, and what refused them.
Cause = tuple[Hashable, frozenset[str]]
_UNKNOWN: Cause = ("", frozenset())  # after an error: no filter refused the pod


@dataclass(slots=True)
class _Entry:
    """A pod that is waiting, and where: due now, being tried, waiting for a change, or for its back-off."""

    pod: Pod
    arrival: int  # number of its arrival, or of its latest return: the order among equal priorities
    refusals: int = 0
    errors: int = 0  # since the latest refusal
    failed_at: int = 0  # instant of the latest attempt that failed
    retry_at: int = 0  # end of its back-off
    place: str = "active"  # active | tried | stuck | backoff | error
    cause: Cause = _UNKNOWN  # of the latest refusal


class SchedulingQueue:
    """Pods by priority, then age. Instants are nanoseconds and come from the caller.

    A failed pod is stuck until a change that helps its kind, which is asked about once for all of them. Woken
    within its back-off (1 s doubling to 10 s, to the end of that second) it waits for the end of that, or
    until no other pod is due. Only after an error the whole back-off is waited for. Entries of the heaps are
    skipped when their pod has moved on.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}  # by pod uid
        self._active: list[tuple[int, int, str]] = []  # (-priority, arrival, uid)
        self._backoff: list[tuple[int, int, int, str]] = []  # (retry_at in seconds, -priority, arrival, uid)
        self._errors: list[tuple[int, int, int, str]] = []  # the same
        # The entries whose place is "stuck", by uid; in order of `failed_at`, as time never goes back.
        self._stuck: dict[str, _Entry] = {}
        self._alike: dict[Cause, dict[str, _Entry]] = {}  # the same ones; none is empty
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pod: Pod) -> Pod | None:
        """A new pod, or the present state of one that waits already; answers what was known of that."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            known, entry.pod = entry.pod, pod
            return known
        entry = _Entry(pod, self._number())
        self._entries[pod.metadata.uid] = entry
        self._activate(entry)
        return None

    def remove(self, uid: str) -> Pod | None:
        """The pod is bound or gone; answers it if it waited."""
        self._unstick(uid)
        entry = self._entries.pop(uid, None)
        return entry.pod if entry is not None else None

    def pop(self, now: int) -> Pod | None:
        """The next pod to try, which stays the queue's until `failed` or `remove`; None when none is due."""
        self._release(now)
        while self._active:
            _, _, uid = heapq.heappop(self._active)
            entry = self._entries.get(uid)
            if entry is not None and entry.place == "active":
                entry.place = "tried"
                return entry.pod
        while self._backoff:
            item = heapq.heappop(self._backoff)
            if self._is_current(item, "backoff"):
                entry = self._entries[item[-1]]
                entry.place = "tried"
                return entry.pod
        return None

    def present(self, pod: Pod) -> Pod:
        """The pod that was popped as it is now; as it was if it is gone."""
        entry = self._entries.get(pod.metadata.uid)
        return entry.pod if entry is not None else pod

    def failed(self, uid: str, now: int, cause: Cause = _UNKNOWN, *, again: bool = False) -> Pod | None:
        """The pod that was popped fits nowhere; answers its present state, None if it is gone by now.

        `again`: no change is waited for, only its back-off.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        entry.failed_at = now
        entry.arrival = self._number()
        entry.errors = entry.errors + 1 if again else 0
        entry.refusals += not again
        times = min((entry.errors or entry.refusals) - 1, 10)
        entry.retry_at = now + min(_FIRST_BACKOFF << times, _LONGEST_BACKOFF)
        if again:
            self._put_off(entry, "error", self._errors)
        else:
            entry.place, entry.cause = "stuck", cause
            self._stuck[uid] = entry
            self._alike.setdefault(cause, {})[uid] = entry
        return entry.pod

    def wake(self, now: int, concerns: Callable[[Pod, frozenset[str]], bool]) -> None:
        """Something changed: the stuck pods that it concerns may fit now. It is asked about one of each kind,
        and what refused it; what no filter refused may always fit.
        """
        for (_, by), alike in list(self._alike.items()):
            if not by or concerns(next(iter(alike.values())).pod, by):
                self._wake(now, list(alike))

    def wake_one(self, uid: str, now: int) -> None:
        """The pod itself changed."""
        if uid in self._stuck:
            self._wake(now, [uid])

    def _unstick(self, uid: str) -> None:
        entry = self._stuck.pop(uid, None)
        if entry is not None:
            alike = self._alike[entry.cause]
            del alike[uid]
            if not alike:
                del self._alike[entry.cause]

    def _wake(self, now: int, uids: Iterable[str]) -> None:
        for uid in uids:
            entry = self._stuck[uid]
            self._unstick(uid)
            if _over(entry.retry_at, now):
                self._activate(entry)
            else:
                self._put_off(entry, "backoff", self._backoff)

    def next_due(self) -> int | None:
        """When the queue, which has no pod now, should be asked again without a change; None when never."""
        oldest = next(iter(self._stuck.values()), None)
        waits = [oldest.failed_at + _LEFTOVER] if oldest is not None else []
        while self._errors and not self._is_current(self._errors[0], "error"):
            heapq.heappop(self._errors)
        if self._errors:
            waits.append((self._errors[0][0] + 1) * SECOND)
        return min(waits, default=None)

    def _number(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _release(self, now: int) -> None:
        for place, heap in (("backoff", self._backoff), ("error", self._errors)):
            while heap and heap[0][0] < now // SECOND:
                item = heapq.heappop(heap)
                if self._is_current(item, place):
                    self._activate(self._entries[item[-1]])
        oldest = takewhile(lambda entry: entry.failed_at + _LEFTOVER <= now, self._stuck.values())
        for entry in tuple(oldest):
            self._unstick(entry.pod.metadata.uid)
            self._activate(entry)

    def _is_current(self, item: tuple[int, int, int, str], place: str) -> bool:
        entry = self._entries.get(item[-1])
        return entry is not None and entry.place == place and entry.arrival == item[2]

    def _put_off(self, entry: _Entry, place: str, heap: list[tuple[int, int, int, str]]) -> None:
        entry.place = place
        uid, priority = entry.pod.metadata.uid, entry.pod.spec.priority
        heapq.heappush(heap, (entry.retry_at // SECOND, -priority, entry.arrival, uid))

    def _activate(self, entry: _Entry) -> None:
        entry.place = "active"
        heapq.heappush(self._active, (-entry.pod.spec.priority, entry.arrival, entry.pod.metadata.uid))


def _over(instant: int, now: int) -> bool:
    """True iff it was in an earlier second: the scheduler looks at back-offs when a second begins."""
    return instant // SECOND < now // SECOND
