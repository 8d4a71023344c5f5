"""/metrics and /readyz over HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import aiohttp
import pytest

from dovetail.runtime.process.endpoints import serve


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_the_parts_arrive_in_their_order() -> None:
    parts = [f'dovetail_test{{number="{number}"}} 1\n'.encode() for number in range(5_000)]

    async def exposition() -> Sequence[bytes]:
        return parts

    async def ask() -> tuple[str, bytes]:
        port = free_port()
        async with (
            serve(
                metrics_port=port,
                probe_port=0,
                exposition=exposition,
                ready=lambda: "",
                remarks=lambda: "",
            ),
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            return answer.headers["Content-Type"], await answer.read()

    kind, text = asyncio.run(ask())
    assert kind.startswith("text/plain; version=")
    assert text == b"".join(parts)


@pytest.mark.parametrize(
    ("missing", "remarks", "answer"),
    [
        ("", "", (200, "ok")),
        ("", "pods: 1 cannot be read", (200, "ok; pods: 1 cannot be read")),
        ("pods cannot be watched", "pods: 1 cannot be read", (503, "pods cannot be watched")),
    ],
)
def test_what_costs_some_objects_is_told_by_one_that_is_ready(
    missing: str, remarks: str, answer: tuple[int, str]
) -> None:
    async def exposition() -> Sequence[bytes]:
        return ()

    async def ask() -> tuple[int, str]:
        port = free_port()
        async with (
            serve(
                metrics_port=0,
                probe_port=port,
                exposition=exposition,
                ready=lambda: missing,
                remarks=lambda: remarks,
            ),
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/readyz") as found,
        ):
            return found.status, await found.text()

    assert asyncio.run(ask()) == answer
