"""Commands of disruption that would be begun now, found one after another and not carried out."""

from __future__ import annotations

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.methods import Method
from dovetail.controllers.disruption.views import node_views
from dovetail.controllers.observation.room import ObservedRoom
from dovetail.controllers.observation.tally import Tally
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Command, moved_pods

POLL = 10 * SECOND
REST = MINUTE - POLL  # after a search
_Key = tuple[str, str, tuple[str, ...], int]


class ObservedDisruption:
    """Searches again and again, with a rest of a minute. Within a search, nodes of commands that were found
    count as going: their pods need places, and budgets are used up by them. After it, all are back.

    The state that it is given is its own: no other reader may take those marks for true.
    """

    def __init__(
        self, context: Context, methods: tuple[Method, ...], tally: Tally, room: ObservedRoom
    ) -> None:
        self._context = context
        self._room = room
        self._methods = methods
        self._tally = tally
        self._known: frozenset[_Key] = frozenset()  # what the search before this one found

    async def run(self) -> None:
        """Search for ever. A search that fails counts for nothing."""
        clock = self._context.clock
        while True:
            await clock.sleep(POLL)
            if not self._context.state.synced():
                continue
            try:
                await self.search()
            except PlannerFailed as error:
                self._context.log.record("plan.failed", message=str(error))
            await clock.sleep(REST)

    async def search(self) -> None:
        """One search from the cluster as it is to its end."""
        found: list[Command] = []
        state = self._context.state
        await self._room.look()
        try:
            while not self._context.brakes.disruption_paused(None):
                command = await self._next(found)
                if command is None:
                    break
                found.append(command)
                state.mark(command.names())
                if _key(command) not in self._known:
                    self._tally.disrupted(command)
                    self._report(command)
        finally:
            state.unmark(name for command in found for name in command.names())
        self._known = frozenset(_key(command) for command in found)
        self._tally.searched(found)

    async def _next(self, found: list[Command]) -> Command | None:
        """The next command that holds after its quiet time, which one that is known has behind it."""
        for method in self._methods:
            decision = await method.decide(self._views(found))
            while decision.command is None and decision.more:
                await self._context.clock.sleep(POLL)
                decision = await method.decide(self._views(found))
            command = decision.command
            if command is not None:
                if _key(command) in self._known:
                    return command
                await self._context.clock.sleep(method.quiet)
                command = await method.validate(command, self._views(found))
                if command is not None:
                    return command
        return None

    def _views(self, found: list[Command]) -> tuple[NodeView, ...]:
        queued = {view.claim.metadata.name for command in found for view in command.candidates}
        return node_views(self._context, queued)

    def _report(self, command: Command) -> None:
        self._context.log.record(
            "observed.disruption",
            reason=command.reason,
            decision=command.decision,
            nodes=[view.name for view in command.candidates],
            replacements=[claim.instance_type for claim in command.replacements],
            pods=moved_pods(command),
            savings=command.savings,
        )


def _key(command: Command) -> _Key:
    names = tuple(sorted(command.names()))
    return command.reason, command.decision, names, len(command.replacements)
