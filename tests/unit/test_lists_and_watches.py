"""What an informer makes of what comes over HTTP: refusals, ends, and lists that take long to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dovetail.api.core import Pod
from dovetail.kube import informer
from dovetail.kube.http import watch as watches
from dovetail.kube.http import wire
from dovetail.kube.http.access import Access, Proof
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.informer import Informer

Document = dict[str, Any]


class NoProof:
    async def proof(self, *, renew: bool = False) -> Proof:  # noqa: ARG002 - as the port has it
        return Proof()


def pod(name: str, version: int, **spec: Any) -> Document:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}, "spec": spec}


def status(code: int, reason: str) -> Document:
    return {"kind": "Status", "message": "no", "reason": reason, "code": code}


def line(kind: str, item: Document) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


class Server:
    """Lists pods at the versions 10, 20, ...; watches answer with one item of the script each, then with all
    that is left to say, and stay open."""

    def __init__(self, script: list[bytes | int], items: list[Document] | None = None) -> None:
        self.lists = 0
        self.watched: list[str] = []  # from which versions
        self.over = asyncio.Event()
        self._script, self._items = script, items or []

    async def pods(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            meta = {"resourceVersion": str(10 * self.lists)}
            return web.json_response({"metadata": meta, "items": self._items})
        self.watched.append(request.query["resourceVersion"])
        if not self._script:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(line("ADDED", pod("last", 999)))
            await self.over.wait()
            return answer
        said = self._script.pop(0)
        if isinstance(said, int):
            return web.json_response(status(said, ""), status=said)
        return web.Response(body=said)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[HttpClient]:
    app = web.Application()
    app.router.add_get("/api/v1/pods", server.pods)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with connect(Access(f"http://127.0.0.1:{runner.addresses[0][1]}", NoProof())) as client:
            yield client
    finally:
        server.over.set()
        await runner.cleanup()


ONE = line("ADDED", pod("one", 11))
BOOKMARK = line("BOOKMARK", {"metadata": {"resourceVersion": "15"}})


@pytest.mark.parametrize(
    ("script", "lists", "watched", "seen", "refused"),
    [
        ([], 1, ["10"], ["last"], []),
        # It goes on where it was: the connection ended, however it did, or the server is away for a moment.
        ([ONE], 1, ["10", "11"], ["one", "last"], []),
        ([ONE + BOOKMARK], 1, ["10", "15"], ["one", "last"], []),
        ([ONE + b'{"type":"ADDED","obj'], 1, ["10", "11"], ["one", "last"], []),
        ([ONE + b"<html>\n"], 1, ["10", "11"], ["one", "last"], []),
        ([ONE, 503, 502, 429], 1, ["10", "11", "11", "11", "11"], ["one", "last"], []),
        ([ONE + line("ERROR", status(503, "ServiceUnavailable"))], 1, ["10", "11"], ["one", "last"], []),
        # It lists again: the version is too old, or one that a server which was set back has yet to reach.
        ([410], 2, ["10", "20"], ["last"], []),
        ([ONE + line("ERROR", status(410, "Expired"))], 2, ["10", "20"], ["one", "gone", "last"], []),
        ([504], 2, ["10", "20"], ["last"], []),
        ([ONE + line("ERROR", status(504, "Timeout"))], 2, ["10", "20"], ["one", "gone", "last"], []),
        ([500, 504], 3, ["10", "20", "30"], ["last"], []),
        ([line("ADJUSTED", pod("one", 11))], 2, ["10", "20"], ["last"], []),
        ([403, 403], 3, ["10", "20", "30"], ["last"], ["no", "no"]),
    ],
)
def test_what_ends_a_watch(
    script: list[bytes | int],
    lists: int,
    watched: list[str],
    seen: list[str],
    refused: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(informer, "_FIRST_PAUSE", 0.001)

    async def main() -> None:
        server, found, reasons = Server(list(script)), list[str](), list[str]()
        done = asyncio.Event()

        def event(kind: str, item: Pod) -> None:
            found.append(item.metadata.name if kind != "DELETED" else "gone")
            if item.metadata.name == "last":
                done.set()

        async with serving(server) as client:
            running = asyncio.create_task(Informer(client, Pod, event, on_refused=reasons.append).run())
            await asyncio.wait_for(done.wait(), 10)
            running.cancel()
        assert (server.lists, server.watched, found, reasons) == (lists, watched, seen, refused)

    asyncio.run(main())


def bad(number: int) -> Document:
    return pod(f"p-{number}", 5, tolerations="all")


def large(number: int) -> Document:
    return pod(f"p-{number}", 5, volumes=[{"name": f"v-{each}"} for each in range(2_000)])


@pytest.mark.parametrize(("make", "count", "most"), [(bad, 300, 1), (large, 60, 7)], ids=["bad", "large"])
def test_others_have_their_turn_while_a_list_is_read(
    make: Callable[[int], Document], count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a tenant may let a list hold, 10,000 pods that cannot be read, or pods of a megabyte each."""
    read, turns, known = 0, [0], wire.Reader.any

    def counted(reader: wire.Reader[Any], body: bytes | msgspec.Raw) -> object:
        nonlocal read
        read += 1
        return known(reader, body)

    async def others() -> None:
        while True:
            turns.append(read)
            await asyncio.sleep(0)

    async def main() -> None:
        async with serving(Server([], [make(number) for number in range(count)])) as client:
            running = asyncio.create_task(others())
            listing = await client.list(Pod)
            running.cancel()
        assert len(listing.items) + len(listing.unreadable) == count

    monkeypatch.setattr(wire.Reader, "any", counted)
    asyncio.run(main())
    assert turns[-1] >= count - most
    assert max(after - before for before, after in pairwise(turns)) <= most
