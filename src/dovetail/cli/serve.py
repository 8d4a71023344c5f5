"""`dovetail serve`: the live page, and what the past cost as OpenCost answers it, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.base.errors import InputError
from dovetail.cli.cost_source import Source, under
from dovetail.cli.messages import note

if TYPE_CHECKING:
    from aiohttp import web

_LIVE = 120 * 10**9  # a record that was written to so lately is still being written


def serve(
    source: Path,
    *,
    port: int = 9003,
    host: str = "127.0.0.1",
    region: str | None = None,
    deadline: str | None = None,
    commitments: Path | None = None,
) -> None:
    """Serve a page of what ran and what it cost, and OpenCost's API, from a record, a log or a scenario.

    Read only, until Ctrl-C. The page is at /, its numbers at /data.json; /?window=7d is another span of a
    record. OpenCost's own web UI and whatever else reads OpenCost (/allocation, /allocation/compute, /assets)
    can be pointed at it. Windows such as 7d count from now while the record is being written, else from its
    end.

    Of a snapshot (`dovetail snapshot`, or manifests) the page shows what stands: nodes, why each stays, pods
    that wait and why, the proven least and the gap, and what would be bought and moved.

    Examples:

    - `dovetail serve /var/lib/dovetail/cost.db`
    - `dovetail serve examples/evening-rush --port 8000`
    - `dovetail serve cluster.json.gz --region us-east-1`
    - `curl 'http://127.0.0.1:9003/allocation?window=7d&aggregate=namespace&includeIdle=true'`

    Parameters
    ----------
    source
        A record that --cost-store made, a log, a snapshot, or a folder with a scenario.yaml, which is played
        first.
    port
        Where to listen.
    host
        The address to listen on; 0.0.0.0 for everyone.
    region
        Of a snapshot: where its nodes would be bought; its nodes' labels say so by default.
    commitments
        Of a record or a log: a file with savings plans, reserved instances and licences. Costs are what is
        paid under them, but on the page of a simulation, which shows what was played.
    deadline
        Of a snapshot: how long to look for each plan, such as 10s.
    """
    import asyncio

    from dovetail.cli.serve_snapshot import is_manifests

    if not 0 < port < 65_536:
        raise InputError(f"{port} is not a port", source="--port", remedy="give 1 to 65535")
    if is_manifests(source):
        routes = _snapshot_routes(source, region, deadline)
        if commitments is not None:
            raise InputError(
                "a snapshot has no bill", source="--commitments", remedy="give a record or a log"
            )
    elif region is not None or deadline is not None:
        raise InputError(
            "a snapshot alone is planned for", source="--region" if region is not None else "--deadline"
        )
    else:
        routes = _routes(source, commitments)
    asyncio.run(_serve(routes, host, port))


def _snapshot_routes(path: Path, region: str | None, deadline: str | None) -> list[web.RouteDef]:
    from dovetail.cli.serve_snapshot import read_snapshot
    from dovetail.runtime.process.costapi import cost_routes
    from dovetail.views.live.routes import snapshot_routes

    found = read_snapshot(path, region, deadline)

    def now() -> int:
        return found.at

    page = snapshot_routes(path.name, found.present, found.at, found.absent)
    return [*cost_routes(found, now), *page]


def _routes(path: Path, commitments: Path | None) -> list[web.RouteDef]:
    """Of what ran."""
    from dovetail.runtime.process.costapi import cost_routes
    from dovetail.simulate.scenario.commitments import read_terms
    from dovetail.views.live.routes import fixed_routes, past_routes
    from dovetail.views.report.facts import OF_A_LOG, OF_A_RECORD

    terms = None if commitments is None else read_terms(commitments)
    source = Source(path)
    paid = under(terms, source)

    def now() -> int:
        wall, end = time.time_ns(), source.span[1]
        return wall if wall - end < _LIVE else end - 1

    report = source.report()
    if report is not None:
        return [*cost_routes(paid, now), *fixed_routes(report["title"], report)]
    absent = OF_A_LOG if source.records else OF_A_RECORD
    return [
        *cost_routes(paid, now),
        *past_routes("Dovetail", paid, now, "", records=source.records, absent=absent),
    ]


async def _serve(routes: Sequence[web.RouteDef], host: str, port: int) -> None:
    # Help imports every command; an HTTP server is not theirs to pay for.
    import asyncio

    from aiohttp import web

    application = web.Application()
    application.add_routes(routes)
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
