"""A client that cannot write, for whoever only looks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn, TypeVar

from dovetail.api.meta import Object
from dovetail.base.errors import Forbidden
from dovetail.kube.client import Client, Listing, WatchEvent
from dovetail.kube.recorder import Recorder

T = TypeVar("T", bound=Object)


class ReadOnlyClient:
    """kube.client.Client whose writes raise Forbidden before anything leaves the process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """See Client."""
        return await self._client.get(kind, name, namespace)

    async def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """See Client."""
        return await self._client.list(kind, namespace, labels=labels, fields=fields)

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
        return self._client.watch(
            kind, namespace, resource_version=resource_version, labels=labels, fields=fields
        )

    async def create(self, *_: Any, **__: Any) -> NoReturn:
        """Raises Forbidden."""
        _refuse("create")

    async def patch(self, *_: Any, **__: Any) -> NoReturn:
        """Raises Forbidden."""
        _refuse("patch")

    async def delete(self, *_: Any, **__: Any) -> NoReturn:
        """Raises Forbidden."""
        _refuse("delete")

    async def evict(self, *_: Any, **__: Any) -> NoReturn:
        """Raises Forbidden."""
        _refuse("evict")

    async def bind(self, *_: Any, **__: Any) -> NoReturn:
        """Raises Forbidden."""
        _refuse("bind")


class SilentRecorder(Recorder):
    """A recorder for whoever only looks: no event is written."""

    async def publish(self, *_: object, **__: object) -> int:
        """See Recorder."""
        return 0


def _refuse(verb: str) -> NoReturn:
    raise Forbidden(f"an observer may not {verb} anything")
