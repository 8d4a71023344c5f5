"""Shows the provider how much memory its machines turn out to have: estimates leave some on the table."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.meta import Object
from dovetail.controllers.context import Context
from dovetail.model import labels
from dovetail.model.resources import MEMORY, amounts


class Discovery:
    """Looks at every node once it is initialized, and at all that are there when a process starts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.state.subscribe(self.notice, Node)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow nodes that can take pods from now on."""
        if kind is not Node or not isinstance(new, Node) or not _initialized(new):
            return
        if isinstance(old, Node) and _initialized(old) and old.status.capacity == new.status.capacity:
            return
        claim = self._context.state.claim_of(new)
        memory = amounts(new.status.capacity).get(MEMORY, 0)
        if claim is not None and claim.status.image_id and memory > 0:
            name = claim.metadata.labels.get(labels.INSTANCE_TYPE, "")
            self._context.provider.supply.discovered(name, claim.status.image_id, memory)


def _initialized(node: Node) -> bool:
    return node.metadata.labels.get(labels.INITIALIZED) == "true"
