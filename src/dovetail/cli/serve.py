"""`dovetail serve`: the live page, and what the past cost as OpenCost answers it, over HTTP."""

from __future__ import annotations

import time
from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.cli.cost_source import Source
from dovetail.cli.messages import note

_LIVE = 120 * 10**9  # a record that was written to so lately is still being written


def serve(source: Path, *, port: int = 9003, host: str = "127.0.0.1") -> None:
    """Serve a page of what ran and what it cost, and OpenCost's API, from a record, a log or a scenario.

    Read only, until Ctrl-C. The page is at /, its numbers at /data.json; /?window=7d is another span of a
    record. OpenCost's own web UI and whatever else reads OpenCost (/allocation, /allocation/compute, /assets)
    can be pointed at it. Windows such as 7d count from now while the record is being written, else from its
    end.

    Examples:

    - `dovetail serve /var/lib/dovetail/cost.db`
    - `dovetail serve examples/evening-rush --port 8000`
    - `curl 'http://127.0.0.1:9003/allocation?window=7d&aggregate=namespace&includeIdle=true'`

    Parameters
    ----------
    source
        A record that --cost-store made, a log, or a folder with a scenario.yaml, which is played first.
    port
        Where to listen.
    host
        The address to listen on; 0.0.0.0 for everyone.
    """
    import asyncio

    if not 0 < port < 65_536:
        raise InputError(f"{port} is not a port", source="--port", remedy="give 1 to 65535")
    asyncio.run(_serve(Source(source), host, port))


async def _serve(source: Source, host: str, port: int) -> None:
    # Help imports every command; an HTTP server is not theirs to pay for.
    import asyncio

    from aiohttp import web

    from dovetail.runtime.process.costapi import cost_routes
    from dovetail.views.live.routes import fixed_routes, past_routes

    def now() -> int:
        wall, end = time.time_ns(), source.span[1]
        return wall if wall - end < _LIVE else end - 1

    application = web.Application()
    application.add_routes(cost_routes(source, now))
    report = source.report()
    title = "Dovetail" if report is None else report["title"]
    application.add_routes(
        past_routes(title, source, now, "") if report is None else fixed_routes(title, report)
    )
    runner = web.AppRunner(application, access_log=None, handle_signals=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        note(f"the page is on http://{host}:{port}/, OpenCost's API on /allocation and /assets")
        await asyncio.Event().wait()
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}", source="--port", remedy="give another"
        ) from None
    finally:
        await runner.cleanup()
