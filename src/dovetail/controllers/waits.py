"""Since when pods wait for what, as this process saw it: it begins anew with each process."""

from __future__ import annotations

from collections.abc import Iterable


class Waits:
    """Instants in nanoseconds, by the pod's UID, and of the plans that are being made by their number."""

    def __init__(self) -> None:
        self.undecided: dict[str, int] = {}  # seen to fit nowhere, and in no plan yet
        self.promised: dict[str, int] = {}  # the first plan that had a place for it
        self.plans: dict[str, int] = {}
        self._decided: set[str] = set()

    def seen(self, uid: str, now: int) -> None:
        """The pod fits nowhere."""
        if uid not in self._decided:
            self.undecided.setdefault(uid, now)

    def decided(self, uids: Iterable[str], left_over: frozenset[str], now: int) -> None:
        """There is a plan about these pods; it has no place for those that are left over."""
        for uid in uids:
            self._decided.add(uid)
            self.undecided.pop(uid, None)
            if uid not in left_over:
                self.promised.setdefault(uid, now)

    def forget(self, uid: str) -> None:
        """The pod runs, or is gone."""
        self._decided.discard(uid)
        self.undecided.pop(uid, None)
        self.promised.pop(uid, None)
