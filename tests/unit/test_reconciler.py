"""The controllers' work queue in virtual time."""

from __future__ import annotations

import asyncio

from dovetail.base.clock import SECOND
from dovetail.base.errors import Conflict
from dovetail.controllers.reconciler import Reconciler
from dovetail.simulate.clock import VirtualClock, run_virtual


def test_the_queue_retries_conflicts_and_keeps_one_reconcile_per_key() -> None:
    async def main(clock: VirtualClock) -> list[tuple[int, str]]:
        calls: list[tuple[int, str]] = []
        running: set[str] = set()

        async def reconcile(key: str) -> int | None:
            assert key not in running
            running.add(key)
            calls.append((clock.now() // 1_000_000, key))
            await clock.sleep(SECOND)
            running.discard(key)
            if key == "conflict" and len([call for call in calls if call[1] == key]) < 3:
                raise Conflict("try again")
            return 10 * SECOND if key == "periodic" and clock.now() < 15 * SECOND else None

        queue = Reconciler("test", clock, reconcile)
        task = asyncio.get_running_loop().create_task(queue.run())
        for key in ("conflict", "periodic", "twice"):
            queue.add(key)
        await clock.sleep(SECOND // 2)
        queue.add("twice")
        await clock.sleep(60 * SECOND)
        task.cancel()
        return calls

    calls = run_virtual(main)
    assert [instant for instant, key in calls if key == "conflict"] == [0, 1005, 2015]
    assert [instant for instant, key in calls if key == "periodic"] == [0, 11_000, 22_000]
    assert [instant for instant, key in calls if key == "twice"] == [0, 1000]
