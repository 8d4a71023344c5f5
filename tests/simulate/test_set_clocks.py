"""The machine's time of day is set, by an hour or a year, while the controllers work: no pod waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from operated import START, Operated, pod, pool

from dovetail.api.core import Pod
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.reconciler import Reconciler
from dovetail.runtime.operator import Ports
from dovetail.runtime.process.clock import ServerClock
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

YEAR = 8766 * HOUR


class SetClock:
    """The clock of a machine that is set by hand."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.offset = 0

    def now(self) -> int:
        return self._clock.now() + self.offset

    def monotonic(self) -> int:
        return self._clock.monotonic()

    async def sleep(self, nanoseconds: int) -> None:
        await self._clock.sleep(nanoseconds)


class Dated:
    """The client, whose server states its time with every answer."""

    def __init__(self, client: Any, on_answer: Callable[[], None]) -> None:
        self._client = client
        self._on_answer = on_answer

    def __getattr__(self, name: str) -> Any:
        self._on_answer()
        return getattr(self._client, name)


class OnSetClock(Operated):
    """The operator's machine has a clock that is set."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.own = SetClock(clock)
        super().__init__(clock, **options)

    def ports(self) -> Ports:
        corrected = ServerClock(self.own)
        client = Dated(self.client, lambda: corrected.set_from(self.clock.now()))
        return replace(super().ports(), clock=corrected, client=client)


@pytest.mark.parametrize("jump", [-YEAR, -HOUR, HOUR, YEAR])
@pytest.mark.parametrize("after", [1_500_000_000, 70 * SECOND])  # within the batching window; all is quiet
def test_pods_come_up_as_quickly_as_ever(jump: int, after: int) -> None:
    async def main(clock: VirtualClock) -> None:
        world = OnSetClock(clock)
        world.start()
        world.create(node_class(), pool())
        await clock.sleep(10 * SECOND)
        world.create(pod("first"))
        await clock.sleep(after)
        world.own.offset = jump
        world.create(pod("second", "1500m"))
        await clock.sleep(2 * MINUTE)
        pods = (await world.client.list(Pod)).items
        assert [one.status.phase for one in pods] == ["Running", "Running"]

    run_virtual(main, start=START)


@pytest.mark.parametrize("jump", [-YEAR, -HOUR, HOUR])
def test_what_is_to_be_done_in_a_while_is_done_then(jump: int) -> None:
    async def main(clock: VirtualClock) -> None:
        own, seen = SetClock(clock), []

        async def reconcile(_: str) -> None:
            seen.append(clock.monotonic())

        queue = Reconciler("test", own, reconcile)
        running = asyncio.ensure_future(queue.run())
        queue.add_after("a", 10 * SECOND)
        own.offset = jump  # before its timer has begun to wait
        await clock.sleep(SECOND)
        queue.add_after("b", MINUTE)
        await clock.sleep(2 * MINUTE)
        assert seen == [10 * SECOND, 61 * SECOND]
        running.cancel()

    run_virtual(main, start=START)
