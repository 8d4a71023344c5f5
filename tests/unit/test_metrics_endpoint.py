"""/metrics over HTTP: many parts arrive as one text."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import aiohttp

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
            serve(metrics_port=port, probe_port=0, exposition=exposition, ready=lambda: ""),
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            return answer.headers["Content-Type"], await answer.read()

    kind, text = asyncio.run(ask())
    assert kind.startswith("text/plain; version=")
    assert text == b"".join(parts)
