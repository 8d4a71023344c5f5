"""`dovetail top`: the nodes of a cluster, what fills them, what they cost, and what comes next."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cyclopts import Parameter

from dovetail.base.errors import ApiError, DovetailError, InputError

if TYPE_CHECKING:
    from dovetail.cli.top_flags import Flags
    from dovetail.views.top.board import Board
    from dovetail.views.top.feed import Feed

_LEAST = 15.0  # seconds between two looks at the controller's metrics


def top(
    *,
    node_selector: str | None = None,
    node_sort: str | None = None,
    resources: str | None = None,
    extra_labels: str | None = None,
    disable_pricing: Annotated[bool | None, Parameter(negative="")] = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    log: Path | None = None,
    at: str = "",
    metrics: str = "",
    timezone: str = "UTC",
) -> None:
    """Watch the nodes of a cluster: their pods, their cost, why each stays, and what comes next.

    Figures, words and flags are those of eks-node-viewer. Beside its table there are the claims that have no
    node yet, pending pods and why they wait, and what comes next: budgets, drift, age. Nothing is written.
    Where standard output is no terminal, it is one look, as plain text. What eks-node-viewer's own file says,
    ~/.eks-node-viewer, counts where a flag does not: NAME=VALUE lines, names as below without dashes.

    Examples:

    - `dovetail top`
    - `dovetail top --resources cpu,memory --extra-labels topology.kubernetes.io/zone`
    - `dovetail top --node-selector karpenter.sh/capacity-type=spot --node-sort karpenter.sh/nodepool`
    - `dovetail top --log events.jsonl --at 2026-03-02T21:00:00Z`

    Parameters
    ----------
    node_selector
        Show only the nodes that this label selector matches.
    node_sort
        KEY=asc or KEY=dsc; KEY is creation, a label, or eks-node-viewer/node-cpu-usage and the like. As in
        eks-node-viewer, creation=dsc is the oldest first, and the default.
    resources
        Names of resources, with commas between them: each has its own usage. cpu by default.
    extra_labels
        Labels of nodes to show beside them, with commas between them.
    disable_pricing
        Show no prices.
    kubeconfig
        The kubeconfig file to use. Otherwise KUBECONFIG, the pod's service account, or ~/.kube/config.
    context
        The context of the kubeconfig; its current one by default.
    log
        Instead of a cluster, the log of `dovetail run` (its nodes), or what `dovetail simulate --events`
        wrote (all of it). It is followed while it grows.
    at
        With --log: as it was at this instant, such as 2026-03-02T21:00:00Z.
    metrics
        Where the controller serves its metrics, such as http://localhost:8080/metrics: the proven least that
        the pods could cost is asked there.
    timezone
        How times are shown, such as Asia/Seoul.
    """
    import asyncio

    from dovetail.cli.run import first
    from dovetail.cli.top_flags import Flags, with_file
    from dovetail.cloud.catalog.lookup import catalogue_price
    from dovetail.views.top.board import Board
    from dovetail.views.top.feed import LogFeed

    given = Flags(node_selector, node_sort, resources, extra_labels, disable_pricing, kubeconfig, context)
    flags = with_file(given, kubeconfig="KUBECONFIG" not in os.environ)
    settings = flags.settings()
    zone = _zone(timezone)
    if metrics and not metrics.startswith(("http://", "https://")):
        raise InputError(
            f"{metrics!r} is no address", source="--metrics", remedy="such as http://localhost:8080/metrics"
        )
    board = Board(settings, catalogue_price)
    live = sys.stdout.isatty()
    if log is not None:
        if kubeconfig is not None or context:
            raise InputError(
                "only one of --log and --kubeconfig can be shown", remedy="leave one of them out"
            )
        feed = LogFeed(log, _instant(at))
        if live:
            asyncio.run(_show(board, feed, zone))
        else:
            feed.read(board)
            _print(board, feed.now())
        return
    if at:
        raise InputError("only a log knows the past", source="--at", remedy="give --log FILE as well")
    try:
        asyncio.run(_cluster(board, flags, metrics, zone, live=live))
    except* DovetailError as group:
        raise _with_remedy(first(group)) from None


def _with_remedy(error: DovetailError) -> DovetailError:
    """What a server has against it is something that the user can mend."""
    if not isinstance(error, ApiError):
        return error
    return InputError(
        f"the API server does not answer as it should: {error}",
        remedy="see that `kubectl get nodes` works with the same kubeconfig and context",
    )


async def _cluster(board: Board, flags: Flags, metrics: str, zone: ZoneInfo, *, live: bool) -> None:
    # Help imports every command; an HTTP client is not theirs to pay for.
    import asyncio

    from dovetail.kube.http.client import connect
    from dovetail.kube.http.kubeconfig import locate
    from dovetail.kube.readonly import ReadOnlyClient
    from dovetail.views.top.board import Board
    from dovetail.views.top.feed import ClusterFeed, look

    access = locate(os.environ, kubeconfig=flags.kubeconfig, context=flags.context or "")
    async with connect(access) as http, asyncio.TaskGroup() as tasks:
        client = ReadOnlyClient(http)
        least = _Least(metrics)
        if metrics:
            await least.ask()
        if not live:
            await look(client, board)
            board.least = least.known
            _print(board, time.time_ns())
            return
        await look(client, Board())  # an API server that refuses is reported on the terminal as it is
        asking = tasks.create_task(least.keep()) if metrics else None
        await _show(board, ClusterFeed(client, access.server, time.time_ns, lambda: least.known), zone)
        if asking is not None:
            asking.cancel()


class _Least:
    """What the controller's metrics say of cost and proven least."""

    def __init__(self, url: str) -> None:
        self.known: tuple[int, int] | None = None
        self._url = url

    async def ask(self) -> None:
        """Raises InputError when there is no answer."""
        import aiohttp

        from dovetail.views.top.feed import read_least

        try:
            timeout = aiohttp.ClientTimeout(total=_LEAST)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._url) as answer:
                answer.raise_for_status()
                self.known = read_least(await answer.text())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise InputError(
                f"cannot read {self._url}: {error or type(error).__name__}",
                source="--metrics",
                remedy="give the controller's own address, such as http://localhost:8080/metrics",
            ) from None

    async def keep(self) -> None:
        """Ask for ever; what does not answer any more leaves what is known."""
        import asyncio

        while True:
            await asyncio.sleep(_LEAST)
            try:
                await self.ask()
            except InputError:
                continue


async def _show(board: Board, feed: Feed, zone: ZoneInfo) -> None:
    from dovetail.cli.terminal import application_of

    application = application_of()
    shown = application(board, feed, zone)
    await shown.run_async()
    if shown.failure is not None:
        raise shown.failure


def _print(board: Board, now: int) -> None:
    """One look, as plain text: the nodes, then every other pane that has something to say."""
    from dovetail.views.top import beyond, text
    from dovetail.views.top.panes import PANES

    lines = [*text.head(board), beyond.gap(board), ""]
    rows = board.rows(now)
    table = []
    for row in rows:
        first, *more = text.lines(row, board, now)
        table += [[*first, *(() if board.partial else (beyond.mark(board, row, now),))], *more]
    lines += text.aligned(table) if rows else ["No nodes."]
    for pane in PANES[1:]:
        items = pane.items(board, now)
        if items:
            cells = [[str(cell) for cell in pane.cells(board, item, now)] for item in items]
            lines += ["", f"{pane.title} ({len(items)})", *text.aligned([list(pane.headings(board)), *cells])]
    print("\n".join(lines))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"{name!r} is no time zone", source="--timezone", remedy="such as Asia/Seoul"
        ) from None


def _instant(given: str) -> int | None:
    from dovetail.units.timestamp import parse_rfc3339

    try:
        return parse_rfc3339(given) if given else None
    except ValueError as error:
        raise InputError(str(error), source="--at") from None
