"""Reports objects that cannot be read: what they cost, only the log, events and metrics can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.api.meta import Object
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metric, Metrics
from dovetail.controllers.panics import Panics
from dovetail.kube.unreadable import Unreadable

UNREADABLE = Metric(
    "dovetail_unreadable_objects",
    "gauge",
    "Objects that the API server has and that cannot be read.",
    ("kind",),
)
EVENT = "Unreadable"
_REMEMBERED = 1_000  # objects and causes that were reported


class Unreadables:
    """One log line and one event per object and cause; `count` says how many there are of a kind now."""

    def __init__(
        self,
        log: EventLog,
        metrics: Metrics,
        panics: Panics,
        count: Callable[[type[Object]], Mapping[str, Any]],
    ) -> None:
        self._log = log
        self._metrics = metrics
        self._panics = panics
        self._count = count
        self._reported: dict[tuple[str, str], None] = {}

    def notice(self, kind: type[Object], found: Unreadable[Any] | None) -> None:
        """An object cannot be read; None: one can be again, or is gone."""
        self._metrics.set(UNREADABLE, len(self._count(kind)), kind=kind.KIND)
        if found is None:
            return
        about: Object = found.salvaged
        found_here = about.metadata.uid, found.cause
        if found_here in self._reported:
            return
        self._reported[found_here] = None
        if len(self._reported) > _REMEMBERED:
            del self._reported[next(iter(self._reported))]
        self._log.record("object.unreadable", object=f"{kind.KIND} {found.key}", message=found.cause)
        self._panics.warn(
            about, EVENT, f"cannot be read, and is left alone until it is changed: {found.cause}"
        )
