"""The typed port over HTTP."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.base.errors import BadRequest, Expired
from dovetail.base.metrics import Metrics
from dovetail.base.streams import stream
from dovetail.kube.client import Listing, WatchEvent
from dovetail.kube.http import wire
from dovetail.kube.http.access import Access
from dovetail.kube.http.rate import BURST, QPS, RateLimit
from dovetail.kube.http.transport import JSON, Gate, Request, Transport
from dovetail.kube.http.watch import Watch
from dovetail.kube.unreadable import Unreadable

T = TypeVar("T", bound=Object)

PAGE = 500  # objects per page of a list
_MERGE, _LIST = "application/merge-patch+json", "application/json-patch+json"


class HttpClient:
    """kube.client.Client over HTTP. What it writes leaves once the `gate` lets it."""

    def __init__(self, transport: Transport, *, page: int = PAGE, gate: Gate | None = None) -> None:
        self.transport = transport
        self._gate = gate
        self._page = page
        # Only spreads load over time; nothing is decided by it.
        self._draw = stream(secrets.randbits(32), "api server", "watches")

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """See Client."""
        body = await self.transport.ask(Request("GET", wire.path(kind, namespace, name)))
        return wire.reader(kind).one(body)

    async def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """See Client. Asked for page by page, so that neither side holds a large list as text at once.

        Other tasks have their turn while a page is read.
        """
        query = _selectors(labels, fields)
        path, reader = wire.path(kind, namespace), wire.reader(kind)
        items: list[T] = []
        unreadable: list[Unreadable[T]] = []
        more = ""
        while True:
            limits = {"limit": str(self._page), **({"continue": more} if more else {})}
            try:
                body = await self.transport.ask(Request("GET", path, query | limits))
            except Expired:
                if not more:
                    raise
                # The version that the pages began with is gone meanwhile. One answer holds all there is.
                items, unreadable = [], []
                body = await self.transport.ask(Request("GET", path, query))
            for page in reader.slices(body):
                items += page.items
                unreadable += page.unreadable
                more = page.metadata.continues
                await asyncio.sleep(0)
            if not more:
                items.sort(key=lambda item: (item.metadata.namespace, item.metadata.name))
                return Listing(tuple(items), page.metadata.resource_version, tuple(unreadable))

    def watch(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """See Client."""
        query = {
            **_selectors(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
        }
        path = wire.path(kind, namespace)
        return Watch(self.transport, kind, path, query=query, draw=self._draw)

    async def create(self, obj: T) -> T:
        """See Client."""
        kind, document = type(obj), encode(obj)
        if kind.NAMESPACED:
            document["metadata"].setdefault("namespace", "default")
        path = wire.path(kind, document["metadata"].get("namespace", ""))
        body = await self._write("POST", path, document)
        return wire.reader(kind).one(body)

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json: Sequence[Mapping[str, Any]] | None = None,
        status: bool = False,
    ) -> T:
        """See Client."""
        if (merge is None) == (json is None):
            raise BadRequest("a patch is either a merge patch or a JSON patch")
        path = wire.path(kind, namespace, name, "status" if status else "")
        content = _MERGE if json is None else _LIST
        body = merge if json is None else list(json)
        answer = await self._write("PATCH", path, body, content)
        return wire.reader(kind).one(answer)

    async def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """See Client."""
        options: dict[str, Any] = {"propagationPolicy": propagation, **_precondition(uid)}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self._write("DELETE", wire.path(kind, namespace, name), options)

    async def evict(self, name: str, namespace: str, *, uid: str = "", resource_version: str = "") -> None:
        """See Client."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _precondition(uid, resource_version),
        }
        await self._write("POST", wire.path(Pod, namespace, name, "eviction"), body)

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """See Client."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._write("POST", wire.path(Pod, namespace, name, "binding"), body)

    def behind(self, gate: Gate) -> HttpClient:
        """This client, whose writes leave once the gate lets them."""
        return HttpClient(self.transport, page=self._page, gate=gate)

    async def _write(self, method: str, path: str, body: Any, content: str = JSON) -> bytes:
        return await self.transport.ask(Request(method, path, body=body, content=content, gate=self._gate))


@asynccontextmanager
async def connect(
    access: Access,
    *,
    qps: float = QPS,
    burst: int = BURST,
    metrics: Metrics | None = None,
    on_date: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[HttpClient]:
    """A client of that server, until the end of the block; reports its requests to `metrics`, and `on_date`
    what the server's clock shows."""
    async with Transport(access, RateLimit(qps, burst), metrics=metrics, on_date=on_date) as transport:
        yield HttpClient(transport)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _precondition(uid: str, resource_version: str = "") -> dict[str, Any]:
    given = {"uid": uid, "resourceVersion": resource_version}
    wanted = {name: value for name, value in given.items() if value}
    return {"preconditions": wanted} if wanted else {}
