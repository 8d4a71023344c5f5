"""Questions of disruption without an answer: reported once with the cause, asked again ever less often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.base.clock import HOUR, MINUTE
from dovetail.base.errors import PlannerFailed, in_one_line
from dovetail.base.metrics import Metrics
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.metrics import FAILED

FIRST_REST = MINUTE
LONGEST_REST = HOUR
_MANY = 4096  # questions remembered; those that failed first are forgotten first


@dataclass(frozen=True, slots=True)
class _Failure:
    cause: str
    rest: int  # nanoseconds
    until: int  # by the monotonic clock


class Unanswered:
    """Which questions failed. A question is named by what it would disrupt, so that it costs only that."""

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._log = context.log
        self._metrics: Metrics = context.metrics
        self._panics = context.panics
        self._known: dict[tuple[str, ...], _Failure] = {}

    def rests(self, about: Iterable[str]) -> str:
        """Why the question is not to be asked now; "" where it may be."""
        known = self._known.get(tuple(sorted(about)))
        return known.cause if known is not None and self._clock.monotonic() < known.until else ""

    def failed(self, about: Iterable[str], error: Exception) -> str:
        """Note that the question raised; answers the cause in one line.

        It rests for a minute, twice as long after each further failure, at most an hour. What the planner did
        not foresee is an unexpected error like any other.
        """
        key = tuple(sorted(about))
        if isinstance(error, PlannerFailed):
            cause = str(error)
        else:
            cause = in_one_line(error)
            self._panics.caught("disruption", ", ".join(key), error)
        before = self._known.pop(key, None)
        rest = min(LONGEST_REST, 2 * before.rest) if before is not None else FIRST_REST
        if before is None or before.cause != cause:
            self._log.record("plan.failed", message=f"no answer about {', '.join(key)}: {cause}")
        self._metrics.add(FAILED, controller="disruption")
        self._known[key] = _Failure(cause, rest, self._clock.monotonic() + rest)
        while len(self._known) > _MANY:
            del self._known[next(iter(self._known))]
        return cause

    def answered(self, about: Iterable[str]) -> None:
        """The question has an answer now: an earlier failure is forgotten."""
        if self._known:
            self._known.pop(tuple(sorted(about)), None)
