"""Drivers of devices on nodes: what a node's type promises is published as slices once the node is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from dovetail.api.core import Node
from dovetail.api.devices import Device, DeviceAttribute, ResourcePool, ResourceSlice, ResourceSliceSpec
from dovetail.api.meta import Meta, OwnerReference, is_true
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.model.devices import DeviceId, TemplateDevices

STARTS = 5 * SECOND  # from a ready node to its devices: an assumption, as a driver's pod has to start there
_VERSION = DeviceAttribute(version="1.0.0")  # what devices share that no type promises a value of


class Drivers:
    """Publishes slices, and makes them the node's: they go with it. `promised` says which devices it has."""

    def __init__(self, client: Client, clock: Clock, promised: Callable[[Node], TemplateDevices]) -> None:
        self._client = client
        self._clock = clock
        self._promised = promised
        self._published: dict[str, set[str]] = {}  # by UID of a node: drivers that have, or are about to
        self._starting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follow nodes, for ever."""
        await Informer(self._client, Node, self._node_changed).run()

    def _node_changed(self, change: EventType, node: Node) -> None:
        uid = node.metadata.uid
        if change == "DELETED":
            self._published.pop(uid, None)
            return
        if node.deleting or not is_true(node.status.conditions, "Ready"):
            return
        done = self._published.setdefault(uid, set())
        found = self._promised(node)
        for driver in found.drivers:
            if driver not in done:
                done.add(driver)
                task = asyncio.get_running_loop().create_task(self._publish(node, driver, found))
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)

    async def _publish(self, node: Node, driver: str, found: TemplateDevices) -> None:
        await self._clock.sleep(STARTS)
        for item in slices(node, driver, found):
            with suppress(AlreadyExists):
                await self._client.create(item)


def slices(node: Node, driver: str, found: TemplateDevices) -> Iterator[ResourceSlice]:
    """What the driver publishes on the node. Pools are the node's own: a type's name is one of many nodes."""
    own = [item for item in found.slices if item.driver == driver]
    meta = node.metadata
    owner = OwnerReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid, controller=True)
    bound: dict[DeviceId, dict[str, DeviceAttribute]] = {}
    for binding in found.bindings:
        for identity in binding.devices:
            bound.setdefault(identity, {})[binding.attribute] = _VERSION
    for number, item in enumerate(own):

        def published(device: Device, pool: str = item.pool) -> Device:
            more = bound.get(DeviceId(driver, pool, device.name), {})
            return replace(device, attributes={**more, **device.attributes})

        yield ResourceSlice(
            metadata=Meta(name=f"{meta.name}-{driver}-{number}", owner_references=(owner,)),
            spec=ResourceSliceSpec(
                driver=driver,
                pool=ResourcePool(
                    name=f"{meta.name}/{item.pool}",
                    generation=1,
                    resource_slice_count=sum(one.pool == item.pool for one in own),
                ),
                node_name=meta.name,
                devices=tuple(map(published, item.devices)),
                shared_counters=item.shared_counters,
            ),
        )
