"""Whether a fault happens now."""

from __future__ import annotations

import random
from collections import Counter

from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog
from dovetail.base.streams import stream
from dovetail.simulate.faults.plan import Fault, Faults


class Dice:
    """Draws for each call; counts what happened and writes it into the log.

    There is one stream per kind of fault and kind of call, so that one kind never shifts another's luck. A
    fault that has not happened in the first three quarters of its time happens at the next occasion: whoever
    names it wants to see it.
    """

    def __init__(self, faults: Faults, seed: int, clock: Clock, log: EventLog) -> None:
        self.faults = faults
        self.seed = seed
        self.fired: Counter[str] = Counter()
        self._clock = clock
        self._log = log
        self._by_kind: dict[str, tuple[Fault, ...]] = {}
        for fault in faults.faults:
            self._by_kind[fault.kind] = (*self._by_kind.get(fault.kind, ()), fault)
        self._seen: set[int] = set()  # numbers of the faults that happened
        self._streams: dict[tuple[str, str], random.Random] = {}

    def hit(self, kind: str, call: str, subject: str = "") -> Fault | None:
        """The fault of that kind that happens to this call, if one does; `call` names the kind of call."""
        faults = self._by_kind.get(kind)
        if faults is None:
            return None
        now = self._clock.now()
        for fault in faults:
            if not fault.since <= now < fault.until:
                continue
            late = now >= fault.since + (fault.until - fault.since) * 3 // 4
            if (late and fault.number not in self._seen) or self.stream(kind, call).random() < fault.rate:
                self._seen.add(fault.number)
                self.happened(kind, subject or call)
                return fault
        return None

    def stream(self, kind: str, call: str) -> random.Random:
        """The draws for one kind of fault and of call, from where they stand."""
        found = self._streams.get((kind, call))
        if found is None:
            found = self._streams[kind, call] = stream(self.seed, call, f"fault {kind}")
        return found

    def happened(self, kind: str, subject: str) -> None:
        """A fault has happened to the subject."""
        self.fired[kind] += 1
        self._log.record("fault", fault=kind, subject=subject)
