"""OpenCost's API over HTTP: aiohttp's handlers around cost/api.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from dovetail.base.errors import InputError
from dovetail.cost.api import Past, answer

PATHS = (
    "/allocation",
    "/allocation/compute",
    "/allocation/summary",
    "/allocation/compute/summary",
    "/assets",
)
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def cost_routes(past: Past, now: Callable[[], int]) -> list[web.RouteDef]:
    """GET and HEAD of OpenCost's paths, one question at a time and beside the event loop."""
    turn = asyncio.Lock()

    async def handle(request: web.Request) -> web.Response:
        async with turn:
            try:
                reply = await asyncio.to_thread(answer, request.path, request.query, past, now())
            except InputError as error:
                return web.Response(text=f"{error.message}\n", status=500, headers=HEADERS)
        assert reply is not None
        headers = {**HEADERS, "Content-Type": reply.kind}
        return web.Response(body=reply.body, status=reply.status, headers=headers)

    return [web.get(prefix + path, handle) for prefix in ("", "/model") for path in PATHS]
