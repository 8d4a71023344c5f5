"""Pods of a node that is drained go to the places that are kept for them, to one node after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import OTHERS_FIRST
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.avoided import ask_pods_elsewhere
from dovetail.controllers.nodeclaim.register import lacks_only_opening

# A turn is over by then, whatever pods a budget holds or whatever comes late: others need not wait for them.
_LONGEST_TURN = 10 * SECOND


@dataclass(frozen=True, slots=True)
class _Turns:
    """Nodes with kept places; that at `at` has had its turn since `since`, none once all had theirs."""

    nodes: tuple[str, ...]
    since: int
    at: int = 0

    @property
    def current(self) -> str:
        return self.nodes[self.at] if self.at < len(self.nodes) else ""


class PlacesInTurn:
    """While pods go to one node, the others that have places for pods of the same node ask for none.

    What comes in place of a pod is bound within milliseconds, before it can be nominated, and all other
    nodes ask pods to go elsewhere: of several that do not, the scheduler takes the one that it likes best.
    Of five pods of one node for four others one was bound elsewhere, and what should go next had no room.
    Nodes that are drained at the same time have their turns one after the other.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turns: dict[str, _Turns] = {}  # by the name of the node that is drained

    async def due(self, node: str, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        """Those of its pods that may be evicted now. Raises ApiError where a node cannot be written to."""
        kept = {pod.key: machine.name for pod, machine in self._context.state.kept_places()}
        places = {pod.key: kept[pod.key] for pod in pods if pod.key in kept}
        turns = self._turns.get(node)
        if turns is None:
            if len(set(places.values())) < 2:
                return tuple(pods)
            if any(other.current for other in self._turns.values()):
                return tuple(pod for pod in pods if pod.key not in places)
            closed = sorted(dict.fromkeys(places.values()), key=self._closed)
            turns = _Turns(tuple(closed), self._context.clock.now())
        self._turns[node] = turns = self._moved_on(turns, frozenset(places.values()))
        await self._ask(turns)
        return tuple(pod for pod in pods if not turns.current or places.get(pod.key) in (None, turns.current))

    async def end(self, node: str) -> None:
        """It is gone."""
        turns = self._turns.pop(node, None)
        if turns is not None:
            await self._ask(replace(turns, at=len(turns.nodes)))

    def _moved_on(self, turns: _Turns, wanted: Collection[str]) -> _Turns:
        """The turn goes on as long as pods are to go there, or what comes in their place is not bound."""
        now, state = self._context.clock.now(), self._context.state
        while turns.current:
            machine = state.staying(turns.current)
            goes_on = machine is not None and (turns.current in wanted or state.coming(machine))
            if goes_on and now - turns.since < _LONGEST_TURN:
                break
            turns = replace(turns, at=turns.at + 1, since=now)
        return turns

    async def _ask(self, turns: _Turns) -> None:
        for name in turns.nodes:
            machine = self._context.state.staying(name)
            if machine is not None and machine.node is not None and not self._closed(name):
                wanted = turns.current not in ("", name)
                await ask_pods_elsewhere(self._context, machine.node, OTHERS_FIRST, wanted=wanted)

    def _closed(self, name: str) -> bool:
        """True iff no pod can be bound there yet."""
        machine = self._context.state.staying(name)
        if machine is None or machine.claim is None:
            return False
        return not machine.initialized or lacks_only_opening(self._context.state, machine.node, machine.claim)
