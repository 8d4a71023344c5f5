"""The Node objects that kwok plays, over the API server's port."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.core import Node
from dovetail.cloud.kwok.machine import PLAYED
from dovetail.kube.client import Client


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
