"""The API server's clock counts where it differs from the machine's."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

import pytest
from aiohttp import web

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.kube.http.access import Access, Proof
from dovetail.kube.http.client import connect
from dovetail.kube.http.transport import check
from dovetail.runtime.process.clock import ServerClock, WallClock

START = 1_772_409_600 * SECOND


class NoProof:
    async def proof(self, *, renew: bool = False) -> Proof:  # noqa: ARG002 - as the port has it
        return Proof()


@pytest.mark.parametrize(
    ("received", "reported"),
    [
        ([], []),
        ([SECOND, -2 * SECOND, SECOND], []),  # as good as equal
        ([HOUR, HOUR + SECOND, HOUR - 2 * SECOND], [HOUR]),  # reported once
        ([3 * SECOND, SECOND, 2 * SECOND], [3 * SECOND]),  # no setting to and fro
        ([-HOUR, 0], [-HOUR, 0]),  # the machine was set meanwhile
        ([HOUR, 2 * HOUR], [HOUR, 2 * HOUR]),
    ],
)
def test_a_difference_counts_from_when_it_is_received(received: list[int], reported: list[int]) -> None:
    seen: list[int] = []
    clock = ServerClock(WallClock(lambda: START, lambda: MINUTE), seen.append)
    for difference in received:
        clock.set_from(START + difference)
    assert seen == reported
    assert clock.now() == START + (reported[-1] if reported else 0)
    assert clock.monotonic() == MINUTE, "what is measured here is measured by the machine"


@pytest.mark.parametrize(
    ("date", "differences"),
    [
        (formatdate(START / SECOND, usegmt=True), [START + SECOND // 2]),
        ("yesterday", []),
        ("", []),
        ("Mon, 02 Mar 99999 00:00:00 GMT", []),
    ],
)
def test_answers_carry_the_servers_time(date: str, differences: list[int]) -> None:
    async def version(_: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.34.0"}, headers={"Date": date})

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/version", version)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        seen: list[int] = []
        try:
            access = Access(f"http://127.0.0.1:{runner.addresses[0][1]}", NoProof())
            async with connect(access, on_date=seen.append) as client:
                assert await check(client.transport) == "v1.34.0"
        finally:
            await runner.cleanup()
        assert seen == differences

    asyncio.run(main())
