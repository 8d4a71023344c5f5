"""The history of a real cluster, as its watches report it, in the order in which the API server stored it.

Each kind has a watch of its own, and they are not in step. But versions count for the whole cluster: sorted
by them, changes of all kinds are in the order in which they were stored. So a history is kept whole, in a
file if need be, and judged afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Event
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.meta import Object
from dovetail.base.clock import Clock
from dovetail.base.errors import NotFound
from dovetail.kube.client import ChangeType, Client
from dovetail.simulate.violations.mirror import KINDS

_WATCHED: tuple[type[Object], ...] = (*sorted(KINDS, key=lambda kind: kind.KIND), Event)


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """A change of an object; `document` of DELETED is its last state."""

    at: int  # nanoseconds since the epoch, by the clock of the one that watches
    version: int
    change: ChangeType
    document: dict[str, Any]


class Deletion(msgspec.Struct, frozen=True, tag="deletion"):
    """The controllers asked for the deletion of a pod, and it was granted; an eviction is none."""

    at: int
    pod: str  # namespace/name


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """A promise that was seen broken elsewhere: in the controllers' log, or by how their process ended."""

    at: int
    rule: str
    subject: str
    message: str


class Quiet(msgspec.Struct, frozen=True, tag="quiet"):
    """From now on nothing is made to go wrong; `until` is when all must have come right."""

    at: int
    until: int


Entry = Stored | Deletion | Broken | Quiet


async def watch(
    client: Client, clock: Clock, keep: Callable[[Stored], None], ready: Callable[[], None]
) -> None:
    """Keep what is there and each change after it, for ever; `ready` is called once the watches begin.

    Raises ApiError where changes may have been missed: a history with a gap proves nothing.
    """
    versions: dict[type[Object], str] = {}
    for kind in _WATCHED:
        try:
            listing = await client.list(kind)
        except NotFound:
            if kind not in GANG_KINDS:  # of these a server has only those that are installed
                raise
            continue
        versions[kind] = listing.resource_version
        for item in (*listing.items, *(bad.salvaged for bad in listing.unreadable)):
            keep(_stored(clock, "ADDED", item, item.metadata.resource_version))
    ready()
    async with asyncio.TaskGroup() as tasks:
        for kind, version in versions.items():
            tasks.create_task(_follow(client, clock, kind, version, keep), name=f"watch {kind.PLURAL}")


async def _follow(
    client: Client, clock: Clock, kind: type[Object], version: str, keep: Callable[[Stored], None]
) -> None:
    async for event in client.watch(kind, resource_version=version):
        item = event.unreadable.salvaged if event.unreadable is not None else event.object
        if item is not None and event.type != "BOOKMARK":
            keep(_stored(clock, event.type, item, event.resource_version))


def _stored(clock: Clock, change: ChangeType, item: Object, version: str) -> Stored:
    return Stored(clock.now(), int(version), change, encode(item))


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Changes by version; all else by the time at which the changes before it were seen."""
    found = list(entries)
    stored = sorted((one for one in found if isinstance(one, Stored)), key=lambda one: one.version)
    others = sorted((one for one in found if not isinstance(one, Stored)), key=lambda one: one.at)
    result: list[Entry] = []
    now = 0
    for change in stored:
        now = max(now, change.at)
        while others and others[0].at < now:
            result.append(others.pop(0))
        result.append(change)
    return [*result, *others]


def write(path: Path, entries: Iterable[Entry]) -> None:
    """One JSON line each."""
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in entries))


def read(path: Path) -> list[Entry]:
    """What `write` wrote."""
    decoder = msgspec.json.Decoder(Entry)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
