"""Following a kind of objects through the client, for the simulated parts of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dovetail.api.meta import Object
from dovetail.kube.client import Client, EventType

T = TypeVar("T", bound=Object)


async def follow(client: Client, kind: type[T], handle: Callable[[EventType, T], None]) -> None:
    """Call `handle` with every object that is there and then with every change, in order, for ever.

    The simulated parts read their watches at the instant of the change, so none ever falls behind.
    """
    listing = await client.list(kind)
    for item in listing.items:
        handle("ADDED", item)
    async for event in client.watch(kind, resource_version=listing.resource_version):
        if event.object is not None:
            handle(event.type, event.object)
