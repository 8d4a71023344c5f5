"""CapacityBuffers, behind the gate of that name: resolved after each change, told of in their conditions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.namespaces import LimitRange
from dovetail.api.workloads import Deployment, PodTemplate, ReplicaSet, StatefulSet
from dovetail.base.clock import SECOND
from dovetail.base.errors import NotFound
from dovetail.controllers.buffers import Kept
from dovetail.controllers.conditions import Stamp, document, set_condition
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.trigger import Batcher
from dovetail.kube.client import ChangeType
from dovetail.model.buffers import (
    PROVISIONING,
    READY_FOR_PROVISIONING,
    Resolution,
    Standing,
    replicas,
    resolve,
)

PERIOD = 30 * SECOND
_ROOM = "room"  # the one key of the second queue
# Placing all anew takes as long as there are nodes: about a hundredth of the time. With 5,000 nodes of
# 100,000 pods and 50 buffers of ten units it took 0.57 to 0.60 s of CPU (0.08 of it to build the question),
# 0.12 ms for each node; the first time 2.4 s.
_REST = SECOND // 100
_LONGEST_REST = PERIOD


class CapacityBuffers:
    """Says what each buffer keeps, and has its room looked at when something changed that may matter to it.

    Of a reference that no controller could ever resolve nothing is asked again before the next change.
    """

    def __init__(self, context: Context, batcher: Batcher) -> None:
        self._context = context
        self._batcher = batcher
        self._looked: int | None = None  # the state's revision at the last trigger
        self._rests_until = 0  # by the monotonic clock
        self.queue = context.queue("capacitybuffer", self.reconcile, of=CapacityBuffer)
        self.room = context.queue("capacitybuffer.room", self.look, concurrency=1)
        context.state.subscribe(self._notice, CapacityBuffer)
        context.state.subscribe(self._referred, PodTemplate, Deployment, StatefulSet, ReplicaSet)
        context.state.subscribe(self._changed, Pod, Node, NodeClaim, NodePool)
        context.buffers.subscribe(self._placed)
        self.room.add(_ROOM)

    def _placed(self) -> None:
        for key in self._context.buffers.pods():
            self.queue.add(key)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        """Also when its status changed: what another process wrote there may be wrong."""
        found = new or old
        if found is not None:
            self.queue.add(found.key)

    def _referred(self, kind: type[Object], _: ChangeType, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation:
            return
        found = new or old
        for buffer in self._context.state.all(CapacityBuffer):
            if found is not None and _refers(buffer, kind, found):
                self.queue.add(buffer.key)

    def _changed(self, _: type[Object], __: ChangeType, ___: Object | None, ____: Object | None) -> None:
        if self._context.buffers:
            self.room.add(_ROOM)

    async def reconcile(self, key: str) -> int | None:
        """Resolve the buffer, and write what changed of its status."""
        context = self._context
        buffer = context.state.get(CapacityBuffer, key)
        if buffer is None or buffer.deleting:
            if context.buffers.forget(key):
                self._trigger()
            return None
        found = resolve(buffer, context.state.get, context.state.all(LimitRange))
        if context.buffers.keep(Kept(buffer, found, replicas(buffer, found) if found.template else 0)):
            self._trigger()
        with suppress(NotFound):
            await self._write(buffer, found, context.buffers.standing(key))
        return PERIOD

    async def _write(self, buffer: CapacityBuffer, found: Resolution, standing: Standing | None) -> None:
        """Raises NotFound."""
        status = _status(
            buffer, found, standing, Stamp(self._context.clock.now(), buffer.metadata.generation)
        )
        if status != _written(buffer):
            merge = {"metadata": {"resourceVersion": buffer.metadata.resource_version}, "status": status}
            await self._context.client.patch(
                CapacityBuffer, buffer.metadata.name, buffer.metadata.namespace, merge=merge, status=True
            )

    async def look(self, _: str) -> int | None:
        """Have all room looked at, unless nothing changed; what has no place is tried again each 30 s."""
        context = self._context
        buffers, now = context.buffers, context.clock.monotonic()
        if not buffers and buffers.settled:
            return None
        if now < self._rests_until:
            return self._rests_until - now
        if self._looked != context.state.revision or buffers.short or not buffers.settled:
            self._trigger()
        return PERIOD

    def _trigger(self) -> None:
        """The provisioner looks at all buffers after its next round, which begins now."""
        context = self._context
        self._looked = context.state.revision
        rest = min(_LONGEST_REST, _REST * len(context.state.all(Node)))
        self._rests_until = context.clock.monotonic() + rest
        self._batcher.trigger(CapacityBuffer.KIND)


def _refers(buffer: CapacityBuffer, kind: type[Object], found: Object) -> bool:
    if buffer.metadata.namespace != found.metadata.namespace:
        return False
    template, scalable = buffer.spec.pod_template_ref, buffer.spec.scalable_ref
    if template is not None:
        return kind is PodTemplate and template.name == found.metadata.name
    return scalable is not None and (scalable.kind, scalable.name) == (kind.KIND, found.metadata.name)


def _status(
    buffer: CapacityBuffer, found: Resolution, standing: Standing | None, stamp: Stamp
) -> dict[str, Any]:
    """As a merge patch: what is None goes."""
    resolved = found.template is not None
    conditions = set_condition(
        buffer.status.conditions,
        READY_FOR_PROVISIONING,
        "True" if resolved else "False",
        stamp,
        reason=found.reason,
        message=found.message,
    )
    if standing is not None:
        conditions = set_condition(
            conditions,
            PROVISIONING,
            standing.status,
            stamp,
            reason=standing.reason,
            message=standing.message,
        )
    template = found.generation is not None and buffer.spec.pod_template_ref is not None
    return {
        "conditions": document(conditions),
        "podTemplateRef": encode(buffer.spec.pod_template_ref) if template else None,
        "podTemplateGeneration": found.generation if template else None,
        "provisioningStrategy": buffer.spec.provisioning_strategy or None if resolved else None,
        "replicas": replicas(buffer, found) if resolved else None,
    }


def _written(buffer: CapacityBuffer) -> dict[str, Any]:
    status = buffer.status
    return {
        "conditions": document(status.conditions),
        "podTemplateRef": None if status.pod_template_ref is None else encode(status.pod_template_ref),
        "podTemplateGeneration": status.pod_template_generation,
        "provisioningStrategy": status.provisioning_strategy or None,
        "replicas": status.replicas,
    }
