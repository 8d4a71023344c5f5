"""The live page over HTTP: read only, nothing from outside, no script but its own files."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cloud.catalog.lookup import catalogue_price
from dovetail.cost.api import Past
from dovetail.cost.facts import Facts
from dovetail.cost.window import Window, parse_window
from dovetail.runtime.process.options import Page
from dovetail.views.history import Record
from dovetail.views.live.present import Present
from dovetail.views.page.document import SCRIPTS, STYLES, embedded, linked, part
from dovetail.views.report.facts import Absent, facts_report

Data = Callable[[Mapping[str, str]], dict[str, Any]]
_REPORT = "dovetail.views.report"
_LIVE = "dovetail.views.live"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_KINDS = {"js": "text/javascript", "css": "text/css"}


def page_routes(
    title: str, data: Data, revision: Callable[[], str], present: Present | None = None
) -> list[web.RouteDef]:
    """GET and HEAD of /, its data as JSON, and its parts; of what is so now besides, where that is known.

    `data` answers a query and raises ValueError for one that is wrong; `revision` changes when there is more
    to show.
    """
    turn = asyncio.Lock()  # one at a time, and beside the event loop
    scripts = {"shell.js": _LIVE, "present.js": _LIVE, "report.js": _REPORT}
    assets = {name: part(name) for name in (*STYLES, *SCRIPTS)}
    assets |= {name: part(name, package) for name, package in scripts.items()}

    def asked(query: Mapping[str, str]) -> dict[str, Any]:
        if present is None:
            return data(query)
        now, found = present.data(), data(query)
        series = found["series"]
        lines = {**series["lines"], **present.lines(series["t"])}
        return found | {"present": now, "series": {**series, "lines": lines}}

    async def made(ask: Data, request: web.Request) -> dict[str, Any]:
        async with turn:
            try:
                return await asyncio.to_thread(ask, request.query)
            except ValueError as error:
                raise web.HTTPBadRequest(text=f"{error}\n", headers=HEADERS) from None
            except InputError as error:
                raise web.HTTPServiceUnavailable(text=f"{error.message}\n", headers=HEADERS) from None

    # The page is there at once; what it shows is asked for by it, which takes a while where there is much.
    shell = linked(title, part("shell.html", _LIVE) + part("report.html", _REPORT), ("shell.js",), {})

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=shell, content_type="text/html", headers=HEADERS)

    def numbers(ask: Data) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            text = embedded(await made(ask, request))
            return web.Response(text=text, content_type="application/json", headers=HEADERS)

        return handle

    async def newest(_: web.Request) -> web.Response:
        return web.Response(text=revision(), headers=HEADERS)

    async def asset(request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(text=assets[name], content_type=kind, headers=HEADERS)

    return [
        web.get("/", page),
        web.get("/data.json", numbers(lambda query: asked(query) | {"revision": revision()})),
        web.get("/revision", newest),
        *(web.get(f"/{name}", asset) for name in assets),
        *(
            ()
            if present is None
            else (
                web.get("/present.json", numbers(lambda _: present.data())),
                web.get("/pods.json", numbers(present.pods)),
            )
        ),
    ]


def past_routes(
    title: str,
    past: Past,
    now: Callable[[], int],
    usual: str,
    present: Present | None = None,
    *,
    records: Sequence[Record] = (),
    absent: Absent = (),
) -> list[web.RouteDef]:
    """The page of a record of costs. `usual` is the window where the query has none, "" all that is known.

    `records` and `absent`: see `facts_report`.
    """

    def data(query: Mapping[str, str]) -> dict[str, Any]:
        start, end = past.span
        if end <= start and present is not None:  # it begins with the first write, 15 s after the start
            window = Window(now() - MINUTE, now())
            return facts_report(title, Facts(start=window.start, end=window.end), window)
        if end <= start:
            raise InputError("the record has nothing in it yet")
        text = query.get("window", usual)
        window = parse_window(text, now()) if text else Window(start, end)
        if window.length <= 0 or window.start >= end or window.end <= start:
            window = Window(start, end)
        return facts_report(title, past.read(window.start, window.end), window, records, absent)

    return page_routes(title, data, lambda: _digest(past.span[1]), present)


def snapshot_routes(title: str, present: Present, at: int, absent: Absent) -> list[web.RouteDef]:
    """The page of one instant (nanoseconds since the epoch), which has no past."""
    window = Window(at - MINUTE, at)
    data = facts_report(title, Facts(start=window.start, end=at), window, absent=absent)
    data |= {"verdict": "", "about": "from a snapshot", "tiles": [], "past": False}
    return page_routes(title, lambda _: data, lambda: "1", present)


def controllers_page(past: Past, now: Callable[[], int]) -> Page:
    """The controller's own: its record of costs, and what is so now."""
    present = Present(now, catalogue_price)
    return Page(past_routes("Dovetail", past, now, "24h", present), present.changed, present.logged)


def fixed_routes(title: str, data: dict[str, Any]) -> list[web.RouteDef]:
    """The page of what does not change any more, such as a simulation that has been played."""
    return page_routes(title, lambda _: data, lambda: "1")


def _digest(end: int) -> str:
    """Has news once a minute at most: an open page would otherwise be made anew all the time."""
    return hashlib.sha256(str(end // (60 * 10**9)).encode()).hexdigest()[:16]
