"""Telling observers what happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from dovetail.kube.memory.store import Change

Document = dict[str, Any]
Observer = Callable[[str, Document, Document | None], None]


class Journal:
    """Observers learn of every change in order, even of those that one of them makes while being told."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self._untold: deque[Change[Any]] = deque()
        self._telling = False

    def tell(self, change: Change[Any]) -> None:
        """Tell everybody; a change made meanwhile is told after the present one."""
        self._untold.append(change)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._tell_all(self._untold.popleft())
        finally:
            self._telling = False

    def _tell_all(self, change: Change[Any]) -> None:
        before = change.before.document if change.before is not None else None
        for observer in self.observers:
            observer(change.type, change.after.document, before)

    def check(self) -> None:
        """Assert that nobody missed anything."""
        assert self._telling or not self._untold
