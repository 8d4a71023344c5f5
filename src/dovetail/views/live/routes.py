"""The live page over HTTP: read only, nothing from outside, no script but its own files."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from dovetail.base.errors import InputError
from dovetail.cost.api import Past
from dovetail.cost.window import Window, parse_window
from dovetail.views.page.document import SCRIPTS, STYLES, embedded, linked, part
from dovetail.views.report.facts import facts_report

Data = Callable[[Mapping[str, str]], dict[str, Any]]
_REPORT = "dovetail.views.report"
_SCRIPT = "report.js"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_KINDS = {"js": "text/javascript", "css": "text/css"}


def page_routes(title: str, data: Data, revision: Callable[[], str]) -> list[web.RouteDef]:
    """GET and HEAD of /, its data as JSON, and its parts.

    `data` answers a query and raises ValueError for one that is wrong; `revision` changes when there is more
    to tell.
    """
    turn = asyncio.Lock()  # one at a time, and beside the event loop
    assets = {name: part(name) for name in (*STYLES, *SCRIPTS)} | {_SCRIPT: part(_SCRIPT, _REPORT)}

    async def made(request: web.Request) -> dict[str, Any]:
        async with turn:
            try:
                found = await asyncio.to_thread(data, request.query)
            except ValueError as error:
                raise web.HTTPBadRequest(text=f"{error}\n", headers=HEADERS) from None
            except InputError as error:
                raise web.HTTPServiceUnavailable(text=f"{error.message}\n", headers=HEADERS) from None
            return found | {"revision": revision()}

    async def page(request: web.Request) -> web.Response:
        text = linked(title, part("report.html", _REPORT), _SCRIPT, await made(request))
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def numbers(request: web.Request) -> web.Response:
        return web.Response(
            text=embedded(await made(request)), content_type="application/json", headers=HEADERS
        )

    async def newest(_: web.Request) -> web.Response:
        return web.Response(text=revision(), headers=HEADERS)

    async def asset(request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(text=assets[name], content_type=kind, headers=HEADERS)

    return [
        web.get("/", page),
        web.get("/data.json", numbers),
        web.get("/revision", newest),
        *(web.get(f"/{name}", asset) for name in assets),
    ]


def past_routes(title: str, past: Past, now: Callable[[], int], usual: str) -> list[web.RouteDef]:
    """The page of a record of costs. `usual` is the window where the query has none, "" all that is known."""

    def data(query: Mapping[str, str]) -> dict[str, Any]:
        start, end = past.span
        if end <= start:
            raise InputError("the record has nothing in it yet")
        text = query.get("window", usual)
        window = parse_window(text, now()) if text else Window(start, end)
        if window.length <= 0 or window.start >= end or window.end <= start:
            window = Window(start, end)
        return facts_report(title, past.read(window.start, window.end), window)

    return page_routes(title, data, lambda: _digest(past.span[1]))


def fixed_routes(title: str, data: dict[str, Any]) -> list[web.RouteDef]:
    """The page of what does not change any more, such as a simulation that has been played."""
    return page_routes(title, lambda _: data, lambda: "1")


def _digest(end: int) -> str:
    """Tells of more once a minute: who watches would otherwise see the page made anew all the time."""
    return hashlib.sha256(str(end // (60 * 10**9)).encode()).hexdigest()[:16]
