"""One connection pool to one API server: requests, timeouts, credentials that run out.

The metrics have the names of the library that Karpenter is made with.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import aiohttp
import msgspec

from dovetail import __version__
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, InputError, TimedOut, Unauthorized, Unavailable
from dovetail.base.metrics import Metric, Metrics
from dovetail.kube.http import wire
from dovetail.kube.http.access import Access, Certificate, Proof
from dovetail.kube.http.rate import RateLimit

REQUESTS = Metric("client_go_request_total", "counter", "Requests to the API server.", ("code", "method"))
DURATION = Metric(
    "client_go_request_duration_seconds",
    "histogram",
    "How long the API server took to answer; of a watch, to begin it.",
    ("verb", "group", "version", "kind", "subresource"),
    tuple(round(0.001 * 1.5**power, 6) for power in range(20)),
)
NO_ANSWER = "<error>"


class Target(NamedTuple):
    """What a path names; `kind` is its plural, `name` is "" for all of them."""

    group: str
    version: str
    kind: str
    name: str
    subresource: str


def target(path: str) -> Target | None:
    """What a request is about; None for what is no object. Pure."""
    first, *parts = path.strip("/").split("/")
    if first == "api":
        parts.insert(0, "")
    elif first != "apis":
        return None
    if len(parts) < 3:
        return None
    group, version, *rest = parts
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    kind, name, subresource, *_ = (*rest, "", "")
    return Target(group, version, kind, name, subresource)


def verb(method: str, found: Target, *, watch: bool) -> str:
    """What is done to it. Pure."""
    if watch:
        return "WATCH"
    if method == "GET" and not found.name:
        return "LIST"
    return "CREATE" if method == "POST" else method


class RequestMetrics:
    """Counts every request in a Metrics, if there is one."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._metrics = metrics

    def ended(self, method: str, path: str, code: str, seconds: float, *, watch: bool) -> None:
        """The answer has begun to come, or there is none."""
        if self._metrics is None:
            return
        self._metrics.add(REQUESTS, code=code, method=method)
        found = target(path)
        if found is not None:
            self._metrics.observe(
                DURATION,
                seconds,
                verb=verb(method, found, watch=watch),
                group=found.group,
                version=found.version,
                kind=found.kind,
                subresource=found.subresource,
            )


CONNECT_SECONDS = 10
REQUEST_SECONDS = 60
PROMPT = 1.0  # seconds; an answer that took longer does not show the server's clock of now
_CONNECTIONS = 200
JSON = "application/json"
# Returns while writing is allowed; until then it waits.
Gate = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for; `body` is JSON of the type `content`. It leaves once the `gate` lets it."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Any = None
    content: str = JSON
    gate: Gate | None = None


class Transport:
    """An asynchronous context manager: leaving it closes every connection.

    `on_date` gets what the server's clock showed, nanoseconds since the Unix epoch, with every answer that
    came promptly.
    """

    def __init__(
        self,
        access: Access,
        limit: RateLimit,
        *,
        metrics: Metrics | None = None,
        on_date: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.access = access
        self._on_date = on_date
        self.refused = ""  # why the server takes no request from us; "" while it does
        self._requests = RequestMetrics(metrics)
        self._limit = limit
        self._agent = f"dovetail/{__version__}"
        self._session: aiohttp.ClientSession | None = None
        self._certificate: Certificate | None = None
        self._trusted = b""
        self._version: tuple[int, ...] | None = None  # of the file that was read from; None: read it again
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Transport:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, request: Request) -> bytes:
        """The body of the answer. Raises ApiError."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        async with self.open(request, timeout) as answer:
            body: bytes = await answer.read()
            return body

    @asynccontextmanager
    async def open(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, whose body is still to be read. Raises ApiError, also for what goes wrong meanwhile."""
        await self._limit.take()
        try:
            async with await self._send(request, timeout) as answer:
                yield answer
        except InputError as error:  # a token that cannot be read now, or a plugin that fails, may mend
            self.refused = str(error)
            raise Unauthorized(self.refused) from None
        except TimeoutError:
            raise TimedOut(f"no answer from {self.access.server} in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{self.access.server} does not answer: {_words(error)}") from None

    async def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """The answer, unless it is a refusal; new credentials are tried once."""
        answer = await self._once(request, timeout, await self.access.credentials.proof())
        if answer.status == 401:
            answer.release()
            renewed = await self.access.credentials.proof(renew=True)
            answer = await self._once(request, timeout, renewed)
        if answer.status == 401:
            answer.release()
            self.refused = f"{self.access.server} does not take these credentials: unknown, or expired"
            raise Unauthorized(f"{self.refused}; log in again, or renew the token")
        self.refused = ""
        if answer.status < 400:
            return answer
        async with answer:
            body = await answer.read()
            after = answer.headers.get("Retry-After", "")
        raise wire.refusal(answer.status, body, what=request.path, retry_after=after)

    async def _once(
        self, request: Request, timeout: aiohttp.ClientTimeout, proof: Proof
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise ApiError("the connection to the API server is closed")
        headers = {"User-Agent": self._agent, "Accept": JSON}
        if proof.token:
            headers["Authorization"] = f"Bearer {self._plain(proof.token)}"
        if request.body is not None:
            headers["Content-Type"] = request.content
        if request.gate is not None:  # last: turns, tokens and plugins may have taken a minute
            await request.gate()
        clock, code = asyncio.get_running_loop(), NO_ANSWER
        began = clock.time()
        try:
            answer = await self._session.request(
                request.method,
                self.access.server + request.path,
                params=request.query,
                data=None if request.body is None else msgspec.json.encode(request.body),
                headers=headers,
                timeout=timeout,
                ssl=self._context(proof.certificate),
                server_hostname=self.access.server_name or None,
                proxy=self.access.proxy or None,
                allow_redirects=False,
            )
            code = str(answer.status)
            if clock.time() - began <= PROMPT and (date := _date(answer.headers.get("Date", ""))) is not None:
                self._on_date(date)
            return answer
        finally:
            watch = bool(request.query and request.query.get("watch"))
            self._requests.ended(request.method, request.path, code, clock.time() - began, watch=watch)

    def _plain(self, token: str) -> str:
        if not (token.isascii() and token.isprintable()):
            remedy = "it must be one line of printable ASCII"
            raise InputError("the token cannot be sent", source=self.access.source, remedy=remedy)
        return token

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext:
        """One per certificate and authority, so that connections are shared.

        The authority's file is looked at each time, and read when it is another one: a server whose
        certificate another authority signed from one moment to the next is believed at the next connection.
        """
        version, trusted = self.access.version(), self._trusted  # seen first: what is written later is read
        if version is None or version != self._version:
            try:
                trusted = self.access.trusted()
            except InputError:
                if self._tls is None:
                    raise
                version = None  # it is being written: what was trusted is trusted until it can be read
        if self._tls is None or (certificate, trusted) != (self._certificate, self._trusted):
            self._tls = self.access.tls(certificate, trusted)
            self._certificate, self._trusted = certificate, trusted
        self._version = version
        return self._tls


def _date(text: str) -> int | None:
    """The instant of a Date header, taken for the middle of its second; None: it has none."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * SECOND + SECOND // 2
    except (ValueError, OverflowError):
        return None


def _words(error: BaseException) -> str:
    """What went wrong, in one line."""
    # Their own words show the insides of TLS.
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    text = " ".join(str(error).split())
    return text or type(error).__name__


async def check(transport: Transport) -> str:
    """The server's version, as "v1.36.3". Raises ApiError: it does not answer, or does not know us."""
    body = await transport.ask(Request("GET", "/version"))
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise Unavailable(f"{transport.access.server} is no API server") from None
    return str(found.get("gitVersion", ""))
