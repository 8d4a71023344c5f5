"""The scheduler's queue: which pod is tried next, and when a pod that fitted nowhere is tried again."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.base.clock import MINUTE, SECOND

_FIRST_BACKOFF = SECOND
_LONGEST_BACKOFF = 10 * SECOND
# A pod that nothing woke for so long is tried again anyway.
_LEFTOVER = 5 * MINUTE


@dataclass(slots=True)
class _Entry:
    """A pod that is waiting, and where: due now, being tried, waiting for a change, or for its back-off."""

    pod: Pod
    arrival: int  # sequence number of its first arrival: the order among equal priorities
    attempts: int = 0
    failed_at: int = 0  # instant of the latest attempt that failed
    retry_at: int = 0  # end of its back-off
    place: str = "active"  # active | tried | stuck | backoff


class SchedulingQueue:
    """Pods by priority, then age. Instants are nanoseconds and come from the caller.

    A failed pod is stuck until `wake`; woken within its back-off (1 s doubling to 10 s) it waits for
    the end of that first. Entries of the heaps are skipped when their pod has moved on.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}  # by pod uid
        self._active: list[tuple[int, int, str]] = []  # (-priority, arrival, uid)
        self._backoff: list[tuple[int, int, str]] = []  # (retry_at, arrival, uid)
        # The entries whose place is "stuck", by uid; in order of `failed_at`, as time never goes back.
        self._stuck: dict[str, _Entry] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pod: Pod) -> Pod | None:
        """A new pod, or the present state of one that waits already; answers what was known of that."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            known, entry.pod = entry.pod, pod
            return known
        self._arrivals += 1
        entry = _Entry(pod, self._arrivals)
        self._entries[pod.metadata.uid] = entry
        self._activate(entry)
        return None

    def remove(self, uid: str) -> Pod | None:
        """The pod is bound or gone; answers it if it waited."""
        self._stuck.pop(uid, None)
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
                entry.attempts += 1
                return entry.pod
        return None

    def failed(self, uid: str, now: int, *, again: bool = False) -> Pod | None:
        """The pod that was popped fits nowhere; answers its present state, None if it is gone by now.

        `again`: no change is waited for, only its back-off.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        entry.failed_at = now
        entry.retry_at = now + min(_FIRST_BACKOFF << min(entry.attempts - 1, 10), _LONGEST_BACKOFF)
        if again:
            self._back_off(entry)
        else:
            entry.place = "stuck"
            self._stuck[uid] = entry
        return entry.pod

    def wake(self, now: int, concerns: Callable[[Pod], bool]) -> None:
        """Something changed: the stuck pods whom it concerns may fit now."""
        for uid, entry in [item for item in self._stuck.items() if concerns(item[1].pod)]:
            del self._stuck[uid]
            if entry.retry_at <= now:
                self._activate(entry)
            else:
                self._back_off(entry)

    def next_due(self) -> int | None:
        """When the queue should be asked again without a change from outside; None when never."""
        oldest = next(iter(self._stuck.values()), None)
        waits = [oldest.failed_at + _LEFTOVER] if oldest is not None else []
        while self._backoff and not self._is_current(self._backoff[0]):
            heapq.heappop(self._backoff)
        if self._backoff:
            waits.append(self._backoff[0][0])
        return min(waits, default=None)

    def _release(self, now: int) -> None:
        while self._backoff and self._backoff[0][0] <= now:
            item = heapq.heappop(self._backoff)
            if self._is_current(item):
                self._activate(self._entries[item[2]])
        for uid, entry in list(self._stuck.items()):
            if entry.failed_at + _LEFTOVER > now:
                break
            del self._stuck[uid]
            self._activate(entry)

    def _is_current(self, item: tuple[int, int, str]) -> bool:
        entry = self._entries.get(item[2])
        return entry is not None and entry.place == "backoff" and entry.retry_at == item[0]

    def _back_off(self, entry: _Entry) -> None:
        entry.place = "backoff"
        heapq.heappush(self._backoff, (entry.retry_at, entry.arrival, entry.pod.metadata.uid))

    def _activate(self, entry: _Entry) -> None:
        entry.place = "active"
        heapq.heappush(self._active, (-entry.pod.spec.priority, entry.arrival, entry.pod.metadata.uid))
