"""Pools whose launches keep coming to nothing are left alone for a while, longer every time."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.base.clock import HOUR, MINUTE

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

        A failure later than `now` was before the clock was set back: nothing tells how long ago.
        """
        known = self._streaks.get(pool)
        if known is None or known.failures < _FAILURES or known.last > now:
            return (known.failures if known else 0), 0
        wait = min(_LONGEST, _FIRST << min(known.failures - _FAILURES, 10))
        return known.failures, known.last + wait
