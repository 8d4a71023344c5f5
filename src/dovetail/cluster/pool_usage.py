"""What the nodes of each pool add up to, kept by the change instead of summed for each look."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.cluster.nodes import Machine, capacity
from dovetail.cluster.state import State
from dovetail.cluster.usage import total
from dovetail.model.resources import Resources


class PoolUsage:
    """`usage_by_pool` of the machines of a state that stay.

    Invariant: `_parts` has every node that stays and every claim that does without a node, of a pool, with
    that pool and its capacity, but for those in `_changed`.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed = state.follow()
        self._parts: dict[tuple[type[Object], str], tuple[str, Resources]] = {}
        self._usage: dict[str, dict[str, int]] | None = {}  # None once a part has changed

    def now(self) -> dict[str, dict[str, int]]:
        """Pool name -> capacity, `nodes` included; the very same as the last time while nothing changes."""
        while self._changed:
            self._take(self._changed.popitem()[0])
        if self._usage is None:
            self._usage = total(self._parts.values())
        return self._usage

    def _take(self, name: str) -> None:
        """Something changed of the node or claim of that name; most often nothing that counts here."""
        state = self._state
        node, claim = state.get(Node, name), state.get(NodeClaim, name)
        self._put((Node, name), Machine(node, state.claim_of(node)) if node is not None else None)
        alone = claim is not None and state.node_of(claim) is None
        self._put((NodeClaim, name), Machine(None, claim) if alone else None)
        for joined in state.claims_of(node) if node is not None else ():
            self._put((NodeClaim, joined.metadata.name), None)

    def _put(self, of: tuple[type[Object], str], machine: Machine | None) -> None:
        part: tuple[str, Resources] | None = None
        if machine is not None and machine.pool and not self._state.going(machine):
            part = machine.pool, capacity(machine)
        if part == self._parts.get(of):
            return
        if part is None:
            del self._parts[of]
        else:
            self._parts[of] = part
        self._usage = None
