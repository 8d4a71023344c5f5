"""How much a solve may still do: counted work, and whatever else may end it early."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.model.problem import Budget

# Asked now and then: True once the solve should come to an end. In production a deadline or a cancellation.
Stop = Callable[[], bool]


def never() -> bool:
    """Nothing but the counted work ends the solve: plans are the same on every machine."""
    return False


def until(instant: int, now: Callable[[], int]) -> Stop:
    """Ends the solve once `now()` has reached the instant. Both count nanoseconds of one monotonic clock."""
    return lambda: now() >= instant


class Work:
    """Counts what was done. Once the budget is used up or `stop` says so, everybody finishes greedily.

    Invariant: `left` never becomes True again once it was False.
    """

    def __init__(self, budget: Budget, stop: Stop = never) -> None:
        self.used = 0
        self._budget = budget.work
        self._stop = stop
        self._stopped = False

    def spend(self, units: int) -> None:
        self.used += units

    @property
    def left(self) -> bool:
        self._stopped = self._stopped or self.used >= self._budget or self._stop()
        return not self._stopped

    @property
    def rest(self) -> int:
        """Units of the budget that are left."""
        return max(0, self._budget - self.used)

    def after(self, share: float) -> int:
        """What `used` will be when that share of the budget's rest has been spent."""
        return self.used + int(max(0, self._budget - self.used) * share)
