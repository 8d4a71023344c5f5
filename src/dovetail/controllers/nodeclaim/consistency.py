"""Tells of nodes that have less than was bought: an accelerator that is not there, memory that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, is_true
from dovetail.base.clock import MINUTE
from dovetail.base.errors import Conflict, NotFound
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED, write
from dovetail.controllers.reconciler import every
from dovetail.units.quantity import Quantity

CONSISTENT = "ConsistentStateFound"
PERIOD = 10 * MINUTE
FOUND = Condition(type=CONSISTENT, status="True")
_LEAST = 90  # percent of what was bought; estimates of memory are not better than that
_FAILED = ("ConsistencyCheckFailed", "Consistency Check Failed")


def shortfalls(claim: NodeClaim, node: Node) -> Iterator[str]:
    """What the node has less of than nine tenths, of what the claim requested. Pure."""
    for name, wanted in sorted(claim.spec.resources.requests.items()):
        bought = claim.status.capacity.get(name)
        if not wanted.nanos or bought is None or not bought.nanos:
            continue
        there = node.status.capacity.get(name, Quantity(0))
        if 100 * there.nanos < _LEAST * bought.nanos:
            share = f"{100 * there.nanos / bought.nanos:.1f}% of expected"
            yield f"expected {bought} of resource {name}, but found {there} ({share})"


class Consistency:
    """Looks at all initialized claims every ten minutes.

    The condition is False while something is missing. Most have it, True, from their initialization on.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Work for ever."""
        await every(self._context.clock, PERIOD, self.look)

    async def look(self) -> None:
        """Look once."""
        for claim in self._context.state.all(NodeClaim):
            with self._context.panics.alone("nodeclaim.consistency", claim.metadata.name, claim):
                await self._look_at(claim)

    async def _look_at(self, claim: NodeClaim) -> None:
        nodes = self._context.state.nodes_of(claim)
        if claim.deleting or len(nodes) != 1 or not is_true(claim.status.conditions, INITIALIZED):
            return
        found = tuple(shortfalls(claim, nodes[0]))
        for text in found:
            same = (claim.metadata.uid, text)
            await self._context.recorder.publish(
                claim, "Warning", "FailedConsistencyCheck", text, dedupe=same
            )
        reason, message = _FAILED
        failed = Condition(type=CONSISTENT, status="False", reason=reason, message=message)
        with suppress(Conflict, NotFound):  # it is looked at again
            await write(self._context, claim, failed if found else FOUND)
