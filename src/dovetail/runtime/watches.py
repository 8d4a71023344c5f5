"""The local copies of all kinds, and whether the controller sees the cluster at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metric, Metrics
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.kube.unreadable import Unreadable

FAILING = Metric(
    "dovetail_watch_failing_seconds",
    "gauge",
    "For how long a kind could neither be listed nor watched.",
    ("kind",),
)
# A server that is restarted, or a lease of credentials that is renewed, is back well before.
BLIND_SECONDS = 60.0
_LOOK = 10 * SECOND  # between two looks at all kinds


class Watches:
    """One informer per kind, whose failures are reported: in a gauge, in the log, and to probes.

    Without one kind the controller acts on a cluster that is not there any more: this makes it blind as a
    whole, while a failure of one object costs that object only. Of `optional` kinds there are none where the
    cluster lacks them, or does not let them be seen.
    """

    def __init__(
        self,
        client: Client,
        kinds: Iterable[type[Object]],
        take: Callable[[EventType, Object], None],
        *,
        clock: Clock,
        log: EventLog,
        metrics: Metrics,
        on_unreadable: Callable[[type[Object], Unreadable[Object] | None], None] = lambda _, __: None,
        optional: Collection[type[Object]] = (),
    ) -> None:
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._on_unreadable = on_unreadable
        self._optional = frozenset(optional)
        self._reported: dict[str, str] = {}  # kind -> why it fails, as the log says
        self._shown: dict[str, float] = {}  # kind -> what its gauge shows
        self._informers = {kind: self._informer(client, kind, take) for kind in kinds}

    def _informer(
        self, client: Client, kind: type[Object], take: Callable[[EventType, Object], None]
    ) -> Informer[Object]:
        def refused(why: str) -> None:
            self._log.record("watch.refused", what=kind.PLURAL, message=why)

        def restored(seen: int, listed: int) -> None:
            self._log.record("watch.restored", what=kind.PLURAL, seen=seen, listed=listed)

        return Informer(
            client,
            kind,
            take,
            on_refused=refused,
            on_restored=restored,
            on_unreadable=self._on_unreadable,
            optional=kind in self._optional,
        )

    def unreadable(self, kind: type[Object]) -> Mapping[str, Unreadable[Object]]:
        """The objects of the kind that cannot be read, by key."""
        return self._informers[kind].unreadable

    @property
    def synced(self) -> bool:
        """True iff every first list has arrived."""
        return all(informer.synced for informer in self._informers.values())

    async def wait_synced(self) -> None:
        """Return once every first list has arrived."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def run(self) -> None:
        """Keep all copies up to date, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for kind, informer in self._informers.items():
                tasks.create_task(informer.run(), name=f"watch {kind.PLURAL}")
            tasks.create_task(self._look(), name="watches that fail")

    def blind(self) -> str:
        """The kinds that were never listed, or that fail for over a minute, and why; "" if none is."""
        found = []
        for kind, informer in self._informers.items():
            seconds, why = informer.trouble
            if seconds > BLIND_SECONDS:
                found.append(f"{kind.PLURAL} cannot be watched for {seconds:.0f}s: {why}")
            elif not informer.synced:
                found.append(f"{kind.PLURAL}: the first list has not come yet")
        return "; ".join(found)

    def left_alone(self) -> str:
        """How many objects of which kinds cannot be read, with one of each; "" if all can."""
        found = []
        for kind, informer in self._informers.items():
            if informer.unreadable:
                example = next(iter(informer.unreadable))
                found.append(f"{kind.PLURAL}: {len(informer.unreadable)} cannot be read, such as {example}")
        return "; ".join(found)

    async def _look(self) -> None:
        while True:
            for kind, informer in self._informers.items():
                seconds, why = informer.trouble
                if self._shown.get(kind.KIND) != seconds:
                    self._shown[kind.KIND] = seconds
                    self._metrics.set(FAILING, seconds, kind=kind.KIND)
                if seconds <= BLIND_SECONDS:
                    self._reported.pop(kind.KIND, None)
                elif self._reported.get(kind.KIND) != why:
                    self._reported[kind.KIND] = why
                    self._log.record("watch.failing", what=kind.PLURAL, seconds=int(seconds), message=why)
            await self._clock.sleep(_LOOK)
