"""The disruption loop: ask the methods for a command, wait, validate it, have it carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, PlannerFailed
from dovetail.base.memo import by_identity
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.avoided import Avoided
from dovetail.controllers.disruption.execute import Execution
from dovetail.controllers.disruption.methods import Method
from dovetail.controllers.disruption.metrics import DisruptionMetrics
from dovetail.controllers.disruption.unanswered import Unanswered
from dovetail.controllers.disruption.views import Views
from dovetail.controllers.reconciler import Failure, failure_log
from dovetail.disrupt.candidates import NodeView, judge_alone
from dovetail.disrupt.command import Command, Decision, Note, moved_pods
from dovetail.disrupt.repair import BLOCKED

NAME = "disruption"
POLL = 10 * SECOND
IDLE = MINUTE  # budgets and annotations end with time, without anything else that changes
UNSYNCED_POLL = SECOND
TIMES = {"Unconsolidatable": 15 * MINUTE, BLOCKED: 15 * MINUTE}
TTL = 2 * MINUTE
POOL_BLOCKED_TTL = MINUTE


class Disruption:
    """Asks the methods in order every 10 s, at once again after one acted; not while unsynced.

    While nothing changes, they are asked once a minute. A node that cannot be judged, because of a bug that
    something about it sets off, stays, and counts as one that goes; the others are judged without it.
    """

    def __init__(self, context: Context, execution: Execution, methods: tuple[Method, ...]) -> None:
        self._context = context
        self._execution = execution
        self._methods = methods
        self._failed = failure_log(context.log)
        self._unanswered = Unanswered(context)
        self._metrics = DisruptionMetrics(context.metrics, context.log)
        self._idle: tuple[int, int] | None = None  # revision at which nothing was to be done, and the instant
        self._known_views = Views(context)
        self._avoided = Avoided(context, self._failed)
        self._seen: tuple[tuple[int, int, int], tuple[NodeView, ...]] | None = None
        self._said: dict[Note, int] = {}  # -> until when it need not be said again
        self._forgot = 0  # when they were looked through last, by the monotonic clock

    async def run(self) -> None:
        """Disrupt for ever."""
        clock = self._context.clock
        while True:
            if not self._context.state.synced() or not self._context.buffers.settled:
                await clock.sleep(UNSYNCED_POLL)
                continue
            acted = False
            if not self._resting():
                try:
                    acted = await self.turn()
                except ApiError as error:
                    self._idle = None
                    self._failed(Failure(NAME, "", error))
                except Exception as error:
                    self._idle = None
                    self._unanswered.failed((NAME,), error)
            await clock.sleep(0 if acted else POLL)

    def _resting(self) -> bool:
        known, now = self._idle, self._context.clock.monotonic()
        return known is not None and known[0] == self._context.state.revision and now - known[1] < IDLE

    async def turn(self) -> bool:
        """One pass over the methods; True iff one acted."""
        self._idle = None
        self._forget()
        await self._execution.tidy()
        if self._context.brakes.disruption_paused(None):
            await self._avoided.follow(self._views(), ())
            return False
        state, clock = self._context.state, self._context.clock
        idle: tuple[int, int] | None = state.revision, clock.monotonic()
        self._metrics.budgets(state.all(NodePool), self._views(), clock.now())
        for method in self._methods:
            views, asked = self._views(), clock.monotonic()
            decision = await self._asked(method, views)
            eligible, nominated = _counted(views)
            self._metrics.decided(method.reason, eligible, decision.command, clock.monotonic() - asked)
            for note in decision.notes:
                await self._report(note)
            if decision.next is not None:
                await self._avoided.follow(views, decision.next)
            # A nomination ends soon, and nothing else changes when it does.
            if decision.more or decision.soon or decision.command is not None or nominated:
                idle = None
            if decision.command is None:
                continue
            await clock.sleep(method.quiet)
            command = await self._validated(method, decision.command)
            if command is None:
                self._metrics.invalid(decision.command)
            elif not self._refused(command):
                self._metrics.begun(command)
                await self._execution.start(command)
                return True
        self._idle = idle
        return False

    async def _asked(self, method: Method, views: tuple[NodeView, ...]) -> Decision:
        """What the method decides; one without an answer has nothing to say for a while."""
        about = (f"nodes that are {method.reason}",)
        if self._unanswered.rests(about):
            return Decision(None, more=True)
        try:
            decision = await self._decided(method, views)
        except ApiError:
            raise
        except Exception as error:
            self._unanswered.failed(about, error)
            return Decision(None, more=True)
        self._unanswered.answered(about)
        return decision

    async def _decided(self, method: Method, views: tuple[NodeView, ...]) -> Decision:
        """What the method would do; a node that it cannot judge stays as it is, and the others are judged."""
        try:
            return await method.decide(views)
        except (ApiError, PlannerFailed):
            raise
        except Exception:
            sound = self._sound(views)
            if all(one is two for one, two in zip(sound, views, strict=True)):
                raise  # no node of its own makes it fail
        return await method.decide(sound)

    def _sound(self, views: tuple[NodeView, ...]) -> tuple[NodeView, ...]:
        """The nodes, those that cannot be judged as ones that go anyway."""
        panics, now = self._context.panics, self._context.clock.now()
        sound = []
        for view in views:
            with panics.alone(NAME, view.claim.metadata.name, view.claim):
                judge_alone(view, now)
                sound.append(view)
                continue
            sound.append(replace(view, pods=(), queued=True))
        return tuple(sound)

    async def _validated(self, method: Method, command: Command) -> Command | None:
        """What is left of the command; nothing where the method does not know."""
        try:
            return await method.validate(command, self._views())
        except ApiError:
            raise
        except Exception as error:
            self._unanswered.failed([view.name for view in command.candidates], error)
            return None

    def _refused(self, command: Command) -> bool:
        """True iff it would exceed a limit of launches or of moved pods; then it is decided anew later."""
        brakes, pods = self._context.brakes, moved_pods(command)
        # What is bought once a node is gone counts then.
        bought = 1 if command.terminate_first else len(command.replacements)
        why = brakes.launch_refused(bought) or brakes.move_refused(pods)
        if why:
            self._context.log.record("disruption.held", reason=command.reason, message=why)
            return True
        brakes.launched(len(command.replacements))
        brakes.moved(pods)
        return False

    def _views(self) -> tuple[NodeView, ...]:
        """The nodes as they are now; methods that are asked at once one after another share them."""
        context, taken = self._context, self._execution.taken
        key = (context.state.revision, context.clock.now(), len(taken))
        if self._seen is None or self._seen[0] != key:
            self._seen = (key, self._known_views.now(taken))
        return self._seen[1]

    async def _report(self, note: Note) -> None:
        """Say it, unless it was said lately: each turn has a note for nearly every node that stays."""
        now = self._context.clock.monotonic()
        if self._said.get(note, now) > now:
            return
        self._said[note] = await self._published(note)

    def _forget(self) -> None:
        """Reports that may be written again need not be known; looked through once a minute."""
        now = self._context.clock.monotonic()
        if now - self._forgot < MINUTE:
            return
        self._forgot = now
        self._said = {note: until for note, until in self._said.items() if until > now}

    async def _published(self, note: Note) -> int:
        """Write its events; until when (by the monotonic clock) another report of it would write none."""
        state, publish = self._context.state, self._context.recorder.publish
        severity: Literal["Normal", "Warning"] = "Warning" if note.reason == BLOCKED else "Normal"
        if note.on_pool:
            pool = state.get(NodePool, note.subject)
            if pool is None:
                return 0
            ttl = TIMES.get(note.reason, POOL_BLOCKED_TTL)
            return await publish(pool, severity, note.reason, note.message, ttl=ttl)
        claim = state.get(NodeClaim, note.subject)
        if claim is None:
            return 0
        ttl = TIMES.get(note.reason, TTL)
        until = await publish(claim, severity, note.reason, note.message, ttl=ttl)
        node = state.node_of(claim)
        if node is None:
            return 0
        return min(until, await publish(node, severity, note.reason, note.message, ttl=ttl))


@by_identity(4)
def _counted(views: tuple[NodeView, ...]) -> tuple[int, bool]:
    """How many nodes may go, blockers aside, and whether any is nominated; all methods share the views."""
    eligible = sum(view.initialized and not view.going for view in views)
    return eligible, any(view.nominated for view in views)
