"""Readiness of node classes that select nothing: they are ready as they are."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import Object
from dovetail.controllers.conditions import Stamp, document, set_ready
from dovetail.controllers.context import Context


class PlainReadiness:
    """Writes Ready once per generation."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclass", self.reconcile, of=context.state.node_class)
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow new generations of classes."""
        same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        if issubclass(kind, NodeClass) and new is not None and not same:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Write the condition, if it is missing."""
        node_class = self._context.state.node_class(key)
        if node_class is None or node_class.deleting:
            return None
        stamp = Stamp(self._context.clock.now(), node_class.metadata.generation)
        conditions = set_ready(node_class.status.conditions, (), stamp)
        if conditions != node_class.status.conditions:
            merge = {"status": {"conditions": document(conditions)}}
            await self._context.client.patch(type(node_class), key, merge=merge, status=True)
        return None
