"""The controller on a real cluster, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp import web

from dovetail import __version__
from dovetail.api.codec import encode
from dovetail.api.core import Node
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.base.metrics import Metric
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.catalog.lookup import catalogue_price
from dovetail.cloud.interruption import InterruptionQueue
from dovetail.cloud.kwok import KwokCloud, default_types, read_types
from dovetail.cloud.kwok.machine import PLAYED
from dovetail.cloud.listed import ListedCloud
from dovetail.cloud.provider import Provider
from dovetail.cloud.repair_policies import written
from dovetail.cluster.state import DEVICE_KINDS
from dovetail.cost.commitments import UnderTerms
from dovetail.cost.store import Store, StoreFile
from dovetail.kube.client import Client
from dovetail.kube.http.access import Access
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import locate
from dovetail.kube.http.transport import Gate, Transport
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.runtime.figures.figures import ClusterFigures
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.runtime.observation import Observation
from dovetail.runtime.operator import CostBook, Operator, Ports
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.runtime.process.aws import Connected, connected
from dovetail.runtime.process.clock import ServerClock, WallClock
from dovetail.runtime.process.costapi import cost_routes
from dovetail.runtime.process.election import Candidate, Election, Fence
from dovetail.runtime.process.endpoints import serve
from dovetail.runtime.process.greet import greet, has_definitions, serves
from dovetail.runtime.process.lines import Lines
from dovetail.runtime.process.logs import JsonLines
from dovetail.runtime.process.options import Options, Page, WebhookOptions
from dovetail.runtime.usage import METRICS_SERVER, MetricsServer, Prometheus, UsageSource

if TYPE_CHECKING:
    from dovetail.runtime.process.conversion import ConversionWebhook


class ApiNodes:
    """See cloud.kwok.cloud.NodeObjects."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def all(self) -> Sequence[Node]:
        """See NodeObjects."""
        return (await self._client.list(Node, labels=f"{PLAYED}=fake")).items

    async def create(self, node: Node) -> None:
        """See NodeObjects."""
        await self._client.create(node)

    async def delete(self, name: str) -> None:
        """See NodeObjects."""
        await self._client.delete(Node, name)

    async def set_boot(self, name: str, boot: str) -> None:
        """See NodeObjects."""
        await self._client.patch(Node, name, merge={"status": {"nodeInfo": {"bootID": boot}}}, status=True)


SYSTEM_NAMESPACE = "kube-system"
_DIFFERENCE = Metric(
    "dovetail_clock_difference_seconds",
    "gauge",
    "By how much the API server's clock, which counts, is ahead of the controller's; 0 if by 2 s at most.",
)
_KNOWN_WITHIN = MINUTE
_BUILD = Metric("karpenter_build_info", "gauge", "What runs: always 1", ("version",))
_LEADER = Metric("leader_election_master_status", "gauge", "1 while this process leads", ("name",))


class _Stopped(Exception):
    """The end was asked for while AWS was waited for."""


class Process:
    """Composes everything that one process has. `run` returns once it was asked to stop."""

    def __init__(self, options: Options, access: Access) -> None:
        self._options = options
        self._access = access
        self._clock = ServerClock(WallClock(), self._differs)
        self._metrics = PrometheusMetrics()
        self._log = JsonLines(self._clock, options.log_level, sys.stdout, sys.stderr, self._metrics)
        self._metrics.set(_BUILD, 1, version=__version__)
        self._metrics.set(_DIFFERENCE, 0)
        self._running: Operator | Observation | None = None
        self._transport: Transport | None = None
        self._figures: ClusterFigures | None = None  # of the one that leads
        self._planner: ProcessPlanner | None = None
        self._types: tuple[InstanceType, ...] = ()
        self._webhook: ConversionWebhook | None = None
        self._obstacle = ""  # what keeps it from leading
        self._page: Page | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve, then lead and operate, or observe. Raises InputError, LeadershipLost."""
        options = self._options
        self._types = self._read_types()
        kinds = (ListedCloud if options.provider == "aws" else KwokCloud).node_class_kinds
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                connect(
                    self._access,
                    qps=options.qps,
                    burst=options.burst,
                    metrics=self._metrics,
                    on_date=self._clock.set_from,
                )
            )
            self._transport = client.transport
            version = await greet(client.transport)
            if options.webhook is not None:
                # First of all: without it the server may not be able to answer what is asked next.
                self._webhook = await stack.enter_async_context(self._converting(client, options.webhook))
            await self._defined(client, kinds)
            self._log_line("starting", version=__version__, server=self._access.server, kubernetes=version)
            if options.without_effect:
                self._log_line("settings without effect here", settings=list(options.without_effect))
            if options.settings.dynamic_resources and not await serves(client.transport, DEVICE_KINDS):
                self._without_devices()
            if options.settings.default_constraints:
                self._log_line(
                    "scheduler-config is set: applying these default topology spread constraints",
                    constraints=list(map(encode, options.settings.default_constraints)),
                )
            if options.settings.repair_policies:
                self._log_line(
                    "repair-policies is set: nodes are past help by these",
                    policies=list(map(written, options.settings.repair_policies)),
                )
            await stack.enter_async_context(
                serve(
                    metrics_port=options.metrics_port,
                    probe_port=options.probe_port,
                    exposition=self._exposition,
                    ready=self._missing,
                    remarks=self._remarks,
                    observed=self._table if options.observe else None,
                    costs=self._cost_routes(),
                    cost_port=options.cost_port,
                )
            )
            if options.observe:
                await self._observe(client, self._cloud(client))
            else:
                fence = Fence(self._clock) if options.elect else None
                try:
                    await self._operate(client, fence, stack)
                except* _Stopped:
                    self._log_line("stopping")

    def _without_devices(self) -> None:
        """The server does not know claims for devices: the pods that have some wait, as by default."""
        self._options = replace(
            self._options, settings=replace(self._options.settings, dynamic_resources=False)
        )
        self._log.write(
            "error",
            "controller",
            "pods that claim devices are left alone: the API server does not serve resource.k8s.io/v1",
            remedy="use Kubernetes 1.34 or newer, or start with --ignore-dra-requests=true",
        )

    @contextlib.asynccontextmanager
    async def _converting(
        self, client: HttpClient, webhook_options: WebhookOptions
    ) -> AsyncIterator[ConversionWebhook]:
        # Its library of certificates is loaded by those alone that serve them.
        from dovetail.runtime.process.conversion import ConversionWebhook

        webhook = ConversionWebhook(
            client, self._clock, self._log, self._metrics, webhook_options, self._namespace()
        )
        async with webhook.serving():
            yield webhook

    async def _defined(self, client: HttpClient, kinds: Iterable[tuple[str, str]]) -> None:
        """Raises InputError. A webhook that has just begun may be known to the server a little later."""
        until = self._clock.monotonic() + _KNOWN_WITHIN
        while True:
            try:
                await has_definitions(client.transport, kinds)
                return
            except InputError as error:
                early = self._webhook is not None and self._clock.monotonic() < until
                if not early or "conversion webhook" not in error.message:
                    raise
            await self._clock.sleep(SECOND)

    async def _operate(
        self, client: HttpClient, fence: Fence | None, stack: contextlib.AsyncExitStack
    ) -> None:
        """Lead, then act. With warm-up, what is acted on is watched from the start.

        Whatever changes something, in the cluster or in the cloud, passes the fence.
        """
        ready = await self._composed(client, fence, stack) if self._options.warm_up else None
        async with asyncio.TaskGroup() as tasks:
            watching: asyncio.Task[None] | None = None
            if ready is not None:
                self._running = ready[0]
                watching = tasks.create_task(ready[0].watch(), name="watches")
            async with self._leading(client, fence) as election:
                if not self._stop.is_set():
                    lease = tasks.create_task(election.keep(), name="lease") if election else None
                    operator, also = ready or await self._composed(client, fence, stack)
                    self._running = operator
                    self._figures = operator.figures
                    Lines(operator.state, self._log)
                    acting = operator.act() if watching is not None else operator.run()
                    await self._until_stopped(acting, *(part() for part in also))
                    self._log_line("stopping")
                    if lease is not None:
                        lease.cancel()
            if watching is not None:
                watching.cancel()

    async def _composed(
        self, client: HttpClient, fence: Fence | None, stack: contextlib.AsyncExitStack
    ) -> tuple[Operator, list[Callable[[], Coroutine[Any, Any, None]]]]:
        """The operator, and what its provider does besides."""
        gate = fence.wait if fence is not None else None
        client = client.behind(gate) if gate is not None else client
        aws = await stack.enter_async_context(self._aws(client, gate))
        cloud = aws.cloud if aws is not None else self._cloud(client)
        queue = aws.queue if aws is not None else None
        ports = await self._ports(client, cloud, queue, stack)
        operator = Operator(ports, self._options.settings)
        if self._page is not None:
            operator.state.subscribe(self._page.changed)
        return operator, [aws.cloud.run] if aws is not None else []

    async def _ports(
        self,
        client: HttpClient,
        cloud: Provider,
        queue: InterruptionQueue | None,
        stack: contextlib.AsyncExitStack,
    ) -> Ports:
        """With a planner and a record of costs, which end with the stack."""
        self._planner = planner = await stack.enter_async_context(ProcessPlanner(self._log))
        return Ports(
            client,
            cloud,
            self._clock,
            self._log,
            planner,
            self._metrics,
            queue,
            forgiving=True,
            costs=self._cost_book(client, stack),
        )

    def _cost_routes(self) -> Sequence[web.RouteDef]:
        path, pages = self._options.cost_store, self._options.pages
        if path is None:
            return ()
        record, terms, now = StoreFile(path), self._options.cost_terms, self._clock.now
        past = record if terms is None else UnderTerms(record, terms)
        if pages is not None:
            self._page = pages(past, now)
            self._log.listener = self._page.logged
        return [*cost_routes(past, now), *(self._page.routes if self._page is not None else ())]

    def _cost_book(self, client: HttpClient, stack: contextlib.AsyncExitStack) -> CostBook | None:
        """The record that is written to, if one is wanted."""
        options = self._options
        if options.cost_store is None:
            return None
        store = Store.open(options.cost_store, write=True)
        stack.callback(store.close)
        source: UsageSource | None = None
        if options.cost_usage:
            asked = options.cost_usage
            source = MetricsServer(client.transport) if asked == METRICS_SERVER else Prometheus(asked)
        return CostBook(store, options.cost_retention, self._listed_price, source)

    def _listed_price(self, stamped: Mapping[str, str]) -> int | None:
        """Of a node of no pool."""
        wanted = tuple(
            stamped.get(key, "") for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        )
        own = (
            offering.price
            for item in self._types
            for offering in item.offerings
            if (item.name, offering.zone, offering.capacity_type) == wanted
        )
        return next(own, None) or catalogue_price(stamped)

    async def _exposition(self) -> Sequence[bytes]:
        own = self._metrics.exposition()
        return (own,) if self._figures is None else (own, *(await self._figures.text()))

    def _cloud(self, client: HttpClient) -> Provider:
        options = self._options
        if options.provider == "aws":
            return ListedCloud(reboots=options.reboots)
        return KwokCloud(self._clock, ApiNodes(client), self._types)

    def _read_types(self) -> tuple[InstanceType, ...]:
        """Those of kwok; what is wrong with a file of them is reported before anything else."""
        if self._options.provider != "kwok":
            return ()
        given = self._options.instance_types
        return read_types(given) if given else default_types()

    @contextlib.asynccontextmanager
    async def _aws(self, client: HttpClient, gate: Gate | None) -> AsyncIterator[Connected | None]:
        """The provider that acts on AWS, if that is the one."""
        options = self._options
        if options.aws is None:
            yield None
            return
        gates = options.settings.gates
        async with connected(
            options.aws,
            client.transport,
            self._clock,
            self._log,
            os.environ,
            metrics=self._metrics,
            reserved_capacity=gates.reserved_capacity,
            spot=options.settings.spot_range,
            patience=self._wait_for_aws,
            gate=gate,
        ) as found:
            yield found

    async def _wait_for_aws(self, error: AwsError, nanoseconds: int) -> None:
        """Log why, and wait. Raises _Stopped."""
        self._log.write(
            "error",
            "controller",
            "AWS answers no call at the moment, asking again",
            error=str(error),
            after=f"{nanoseconds / SECOND:g}s",
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(nanoseconds / SECOND):
                await self._stop.wait()
                raise _Stopped

    async def _observe(self, client: HttpClient, cloud: Provider) -> None:
        """Without the lease: an observer acts on nothing, and there may be any number."""
        options = self._options
        async with contextlib.AsyncExitStack() as stack:
            ports = await self._ports(client, cloud, None, stack)
            self._running = seen = Observation(ports, options.settings, self._report, options.tell_every)
            if self._page is not None:
                seen.state.subscribe(self._page.changed)
            self._log_line("observing: nothing is written to the cluster")
            await self._until_stopped(seen.run())
            seen.tally.settle()
            self._report()
            self._log_line("stopping")

    def _report(self) -> None:
        """The figures so far: a line for machines, and a table where a person looks on."""
        assert isinstance(self._running, Observation)
        self._log.write("info", "observer", "observed so far", **self._running.tally.figures())
        if sys.stderr.isatty():
            sys.stderr.write(self._running.table())

    def _table(self) -> str:
        seen = self._running
        return seen.table() if isinstance(seen, Observation) else ""

    async def _until_stopped(
        self, acting: Coroutine[Any, Any, None], *also: Coroutine[Any, Any, None]
    ) -> None:
        """All for ever, or until one fails or the end is asked for."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(acting, name="operator")]
            running += [tasks.create_task(one, name="provider") for one in also]
            await self._stop.wait()
            for task in running:
                task.cancel()

    @contextlib.asynccontextmanager
    async def _leading(self, client: HttpClient, fence: Fence | None) -> AsyncIterator[Election | None]:
        """Within the block this process leads, unless it was asked to stop before."""
        options = self._options
        if fence is None:
            yield None
            return
        identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        who = Candidate(self._namespace(), options.lease, identity)
        lease = f"{who.namespace}/{who.name}"

        def waiting(holder: str) -> None:
            self._log_line(
                "another controller leads, waiting for its lease",
                lease=lease,
                holder=holder,
                remedy="scale the other one to 0 replicas to take over from it",
            )

        def refused(why: str) -> None:
            self._obstacle = f"the lease {lease} cannot be taken: {why}" if why else ""
            if why:
                remedy = "give the rights of the chart's Role, and a name that a lease may have"
                self._log.write(
                    "error", "controller", "cannot take the lease", lease=lease, error=why, remedy=remedy
                )

        election = Election(client, self._clock, who, waiting, refused, fence)
        self._metrics.set(_LEADER, 0, name=options.lease)
        if await self._unless_stopped(election):
            self._metrics.set(_LEADER, 1, name=options.lease)
            self._log_line("leading", lease=lease, holder=identity)
        try:
            yield election
        finally:
            await election.release()

    async def _unless_stopped(self, election: Election) -> bool:
        leading = asyncio.ensure_future(election.lead())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leading, stopped):
            task.cancel()
        await asyncio.gather(leading, stopped, return_exceptions=True)
        return not self._stop.is_set()

    def _namespace(self) -> str:
        """Karpenter's own: where this pod is, or where Karpenter is usually installed."""
        given = self._options.lease_namespace or os.environ.get("SYSTEM_NAMESPACE", "")
        return given or (self._access.namespace if self._access.in_cluster else SYSTEM_NAMESPACE)

    def _missing(self) -> str:
        """One that waits for the lease is ready: it will act as soon as it leads."""
        running = self._running
        if self._transport is not None and self._transport.refused:
            return self._transport.refused
        if self._obstacle:
            return self._obstacle
        if self._webhook is not None and self._webhook.missing:
            return self._webhook.missing
        return "" if running is None else running.watches.blind()

    def _remarks(self) -> str:
        """What costs some objects, and not the controller as a whole: no reason to take it out of service."""
        found = [] if self._running is None else [self._running.watches.left_alone()]
        if self._planner is not None and self._planner.failing:
            found.append(f"the last plan failed: {self._planner.failing}")
        return "; ".join(filter(None, found))

    def _differs(self, nanoseconds: int) -> None:
        self._metrics.set(_DIFFERENCE, nanoseconds / SECOND)
        self._log_line(
            "the API server's clock differs from this machine's: its time counts",
            **{"server-ahead": f"{nanoseconds / SECOND:.0f}s"},
        )

    def _log_line(self, message: str, **fields: object) -> None:
        self._log.write("info", "controller", message, **fields)


async def run(options: Options) -> None:
    """Run the controller until SIGTERM or SIGINT. Raises InputError, LeadershipLost."""
    access = locate(os.environ, kubeconfig=options.kubeconfig, context=options.context)
    await Process(options, access).run()
