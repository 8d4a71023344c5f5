"""The embedded API server passes the suite of all twins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from api_server import ApiServerSuite, Check, Run

from dovetail.kube.memory import MemoryServer


class WallClock:
    """The suite measures no time, so any instant will do."""

    def now(self) -> int:
        return 1_772_485_200_000_000_000

    def monotonic(self) -> int:
        return 0

    async def sleep(self, nanoseconds: int) -> None:
        await asyncio.sleep(nanoseconds / 1e9)


class Embedded:
    """A Plane whose controllers work when they are waited for."""

    def __init__(self) -> None:
        self.server = MemoryServer(WallClock())
        self.client = self.server.client()

    async def eventually(self, check: Callable[[], Awaitable[None]]) -> None:
        self.settle()
        await check()

    async def too_old(self) -> str:
        version = str(self.server.store.version - 1)
        self.server.compact()
        return version

    def settle(self) -> None:
        """Let garbage collection and disruption budgets catch up."""
        self.server.collector.collect()
        self.server.disruption.sync()
        self.server.check()


@pytest.fixture
def run() -> Run:
    async def main(check: Check) -> None:
        plane = Embedded()
        await check(plane)
        plane.settle()

    return lambda check: asyncio.run(main(check))


class TestEmbeddedServer(ApiServerSuite):
    """See ApiServerSuite."""
