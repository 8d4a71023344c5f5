"""Telling observers what happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from dovetail.kube.memory.store import Change

Observer = Callable[[Change[Any]], object]


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
                told = self._untold.popleft()
                for observer in self.observers:
                    observer(told)
        finally:
            self._telling = False

    def check(self) -> None:
        """Assert that nobody missed anything."""
        assert self._telling or not self._untold
