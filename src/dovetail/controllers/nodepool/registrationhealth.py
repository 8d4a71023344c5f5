"""Whether a pool's nodes join the cluster: NodeRegistrationHealthy. It informs, and holds nothing up."""

from __future__ import annotations

from collections import deque

SLOTS = 4


class RegistrationHealth:
    """The last four outcomes of launches per pool.

    Unhealthy from two failures on: the share is of all four slots, even while fewer outcomes are known.
    """

    def __init__(self) -> None:
        self._outcomes: dict[str, deque[bool]] = {}

    def record(self, pool_uid: str, *, registered: bool) -> bool:
        """Add an outcome; answers whether the pool is healthy with it."""
        outcomes = self._outcomes.setdefault(pool_uid, deque(maxlen=SLOTS))
        outcomes.append(registered)
        return self.healthy(pool_uid)

    def healthy(self, pool_uid: str) -> bool:
        """True iff fewer than half of the slots hold a failure."""
        outcomes = self._outcomes.get(pool_uid, ())
        return 2 * sum(not registered for registered in outcomes) < SLOTS

    def reset(self, pool_uid: str) -> None:
        """Forget the pool's outcomes: the pool or its class is another one now."""
        self._outcomes.pop(pool_uid, None)
