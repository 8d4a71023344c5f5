"""Metrics and health over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from dovetail.base.errors import InputError

# "" when all is well, else what is not.
Probe = Callable[[], str]


@asynccontextmanager
async def serve(
    *,
    metrics_port: int,
    probe_port: int,
    exposition: Callable[[], Awaitable[Sequence[bytes]]],
    ready: Probe,
    remarks: Probe,
    observed: Callable[[], str] | None = None,
    costs: Sequence[web.RouteDef] = (),
    cost_port: int = 0,
) -> AsyncIterator[None]:
    """Answer until the end of the block: /metrics on one port, /healthz and /readyz on another, costs too.

    What `ready` says is missing makes it not ready; `remarks` are told by one that is ready all the same.
    `observed` is text that the first port has as well, under its name. A port of 0 serves nothing.
    Raises InputError for a port that is taken.
    """

    async def metrics(request: web.Request) -> web.StreamResponse:
        # In parts: a large cluster has many megabytes, and nothing shall wait for them.
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST})
        parts = await exposition()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        await response.write_eof()
        return response

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        missing = ready()
        if missing:
            return web.Response(text=missing, status=503)
        beside = remarks()
        return web.Response(text=f"ok; {beside}" if beside else "ok")

    async def table(_: web.Request) -> web.Response:
        return web.Response(text=observed() if observed is not None else "")

    figures = [web.get("/metrics", metrics)]
    if observed is not None:
        figures.append(web.get("/observed", table))
    runners: list[web.AppRunner] = []
    try:
        for port, flag, routes in (
            (metrics_port, "--metrics-port", figures),
            (probe_port, "--health-probe-port", [web.get("/healthz", healthz), web.get("/readyz", readyz)]),
            (cost_port, "--cost-api-port", list(costs)),
        ):
            if port:
                runners.append(await _listen(port, flag, routes))
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


async def _listen(port: int, flag: str, routes: list[web.RouteDef]) -> web.AppRunner:
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
    except OSError as error:
        await runner.cleanup()
        raise InputError(
            f"cannot listen on port {port}: {error.strerror}", source=flag, remedy="give another port, or 0"
        ) from None
    return runner
