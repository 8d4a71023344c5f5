"""The API server's port as the controllers have it, watched: deletions of pods are judged by who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.base.eventlog import EventLog
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.slow import SlowClient
from dovetail.simulate.violations import Violation, Watchdog

Report = Callable[[Iterable[Violation]], None]


class AuditedClient(SlowClient):
    """Shows deletions of pods to the watchdog before they have their effect."""

    def __init__(
        self,
        server: MemoryServer,
        user: str,
        watchdog: Watchdog,
        report: Report,
        *,
        mean: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(server, user, mean=mean, seed=seed)
        self._watchdog = watchdog
        self._report = report

    async def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """See Client."""
        if kind is Pod:
            self._report(self._watchdog.pod_deletion(f"{namespace}/{name}", uid))
        await super().delete(
            kind,
            name,
            namespace,
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
        )


class AuditedLog:
    """The event log of the controllers: an unexpected error is a broken promise, though they caught it."""

    def __init__(self, log: EventLog, report: Report) -> None:
        self._log = log
        self._report = report

    def record(self, kind: str, /, **fields: object) -> None:
        """See EventLog."""
        self._log.record(kind, **fields)
        match kind:
            case "reconcile.panicked":
                subject = f"{fields['controller']} {fields['key']}".strip()
            case "input.left_out":
                subject = str(fields["about"])
            case _:
                return
        self._report((Violation("no reconcile panics", subject, str(fields["message"])),))
