"""Taints with the effect PreferNoSchedule: nodes that go soon ask pods to go elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from dovetail.api.codec import encode
from dovetail.api.core import Node, Taint
from dovetail.api.meta import is_true
from dovetail.base.clock import MINUTE
from dovetail.base.errors import ApiError, NotFound
from dovetail.cluster.nodes import GOES_NEXT, OTHERS_FIRST
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.consolidatable import CONSOLIDATABLE
from dovetail.controllers.reconciler import Failure
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.consolidation.question import MOST_AVOIDED

_KEPT = 5 * MINUTE  # how long a node that is not quiet keeps it: it may go on as soon as it is quiet again


class Avoided:
    """The taint of nodes that consolidation takes next.

    A pod that leaves one node would otherwise often come to the emptiest one, which goes next, and be moved
    again. `_wanted` says when a node was last among them, by name; it is empty after a restart.
    """

    def __init__(self, context: Context, on_failure: Callable[[Failure], None]) -> None:
        self._context = context
        self._on_failure = on_failure
        self._wanted: dict[str, int] = {}

    async def follow(self, views: Sequence[NodeView], names: Sequence[str]) -> None:
        """These nodes go next, the first in front; what cannot be written is written the next time.

        Those that pods have just come to as well: others took the room there that the next command needs.
        """
        now = self._context.clock.now()
        quiet = {view.name for view in views if is_true(view.claim.status.conditions, CONSOLIDATABLE)}
        kept = {name: at for name, at in self._wanted.items() if name not in quiet and now - at < _KEPT}
        draining = any(view.going for view in views)
        self._wanted = dict.fromkeys(names[:MOST_AVOIDED], now) | kept
        for view in views:
            if view.node is None or view.going or view.queued:
                continue
            try:
                await ask_pods_elsewhere(
                    self._context, view.node, GOES_NEXT, wanted=view.name in self._wanted
                )
                if not draining:  # what an earlier process left behind
                    await ask_pods_elsewhere(self._context, view.node, OTHERS_FIRST, wanted=False)
            except ApiError as error:
                self._on_failure(Failure("disruption", view.name, error))


async def ask_pods_elsewhere(context: Context, node: Node, taint: Taint, *, wanted: bool) -> None:
    """Put the taint on the node, or take it off. Raises Conflict where others change the node."""
    if node.deleting or (taint in node.spec.taints) == wanted:
        return
    with suppress(NotFound):
        now = await context.read(Node, node.metadata.name)
        others = [other for other in now.spec.taints if other.key != taint.key]
        merge = {
            "metadata": {"resourceVersion": now.metadata.resource_version},
            "spec": {"taints": [encode(one) for one in (*others, *((taint,) if wanted else ()))]},
        }
        await context.client.patch(Node, node.metadata.name, merge=merge)
