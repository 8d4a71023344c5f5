"""Events for status conditions that change on pools, overlays, classes and nodes."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Object, condition
from dovetail.controllers.conditions import Conditions
from dovetail.controllers.context import Context
from dovetail.kube.client import ChangeType

_Conditioned = NodePool | NodeOverlay | NodeClass | Node


class Transitions:
    """One event per transition; claims report theirs when they are written.

    Nodes are watched only while they are ours: their Ready condition is what users look for first.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: dict[str, tuple[Object, list[str]]] = {}
        self.queue = context.queue("status", self.reconcile, of=self._changed, concurrency=1)
        context.state.subscribe(self.notice, NodePool, NodeOverlay, NodeClass, Node)

    def notice(
        self,
        kind: type[Object],
        _: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        """Compare the conditions before and after."""
        if old is None or new is None or not isinstance(new, _Conditioned):
            return
        if isinstance(new, Node) and self._context.state.claim_of(new) is None:
            return
        before = old.status.conditions if isinstance(old, _Conditioned) else ()
        found = [(item.type, describe(item, before)) for item in new.status.conditions if moved(item, before)]
        if found:
            key = f"{kind.KIND}/{new.key}"
            waiting = self._pending.setdefault(key, (new, []))[1]
            waiting.extend(f"{name}\0{text}" for name, text in found)
            self.queue.add(key)

    def _changed(self, key: str) -> Object | None:
        return self._pending[key][0] if key in self._pending else None

    async def reconcile(self, key: str) -> int | None:
        """Write what waits for the object."""
        obj, waiting = self._pending.pop(key, (None, []))
        for line in waiting:
            reason, _, text = line.partition("\0")
            if obj is not None:
                dedupe = (obj.metadata.uid, text)
                await self._context.recorder.publish(obj, "Normal", reason, text, dedupe=dedupe)
        return None


def moved(item: Condition, before: Conditions) -> bool:
    """True iff the condition has another status than before; an absent one counts as Unknown. Pure."""
    old = condition(before, item.type)
    return item.status != (old.status if old is not None else "Unknown")


def describe(item: Condition, before: Conditions) -> str:
    """The event's message. Pure."""
    old = condition(before, item.type)
    text = f"Status condition transitioned, Type: {item.type}, "
    text += f"Status: {old.status if old is not None else 'Unknown'} -> {item.status}, Reason: {item.reason}"
    return f"{text}, Message: {item.message}" if item.message else text
