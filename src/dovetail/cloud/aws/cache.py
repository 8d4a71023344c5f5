"""Answers of AWS that are good for a while: many classes ask the same, every minute."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

from dovetail.base.clock import Clock

T = TypeVar("T")


class Memo:
    """Remembers answers by key. A call while the same question is under way waits for its answer.

    Errors are not remembered. An answer is as old as its question: what changed in between may be missing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Hashable, tuple[int, Any]] = {}  # key -> when it was asked, answer
        self._asking: dict[Hashable, asyncio.Lock] = {}

    async def get(self, key: Hashable, ttl: int, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, at most `ttl` nanoseconds old. Raises what `ask` raises."""
        async with self._asking.setdefault(key, asyncio.Lock()):
            now = self._clock.monotonic()
            known = self._known.get(key)
            if known is not None and now - known[0] < ttl:
                return cast("T", known[1])
            answer = await ask()
            self._known[key] = (now, answer)
            return answer

    def forget(self, *keys: Hashable) -> None:
        """Ask again next time."""
        for key in keys:
            self._known.pop(key, None)

    def forget_about(self, subject: str) -> None:
        """Drop answers to questions that begin with it; locks of such that are under way go with `sweep`."""
        for key in [key for key in self._known if isinstance(key, tuple) and key[:1] == (subject,)]:
            del self._known[key]
            if not self._asking[key].locked():
                del self._asking[key]

    def sweep(self, ttl: int) -> None:
        """Drop answers that are older than any use for them."""
        old = self._clock.monotonic() - ttl
        for key in [key for key, (asked, _) in self._known.items() if asked < old]:
            del self._known[key]
        # Questions that were never answered have no other end.
        for key in [key for key in self._asking if key not in self._known]:
            if not self._asking[key].locked():
                del self._asking[key]
