"""Consolidation: drives the search for cheaper nodes and turns what it finds into commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.memo import by_identity
from dovetail.cluster.nodes import underutilized
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.metrics import count_timeout
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.unanswered import Unanswered
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.disrupt.allowance import allowances, blocked_notes, within
from dovetail.disrupt.budgets import allows_any
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import UNDERUTILIZED, Command, Decision, Note, Weighed
from dovetail.disrupt.consolidation.balanced import BALANCED, totals
from dovetail.disrupt.consolidation.candidates import (
    candidate_of,
    candidates,
    closed,
    fresh,
    restless,
)
from dovetail.disrupt.consolidation.chain import MOST_NODES, still
from dovetail.disrupt.consolidation.judge import judged, scored
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import Refused
from dovetail.disrupt.consolidation.question import Candidate, Finding, Move, Question
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.disrupt.consolidation.search import QUICK, Asking, search
from dovetail.disrupt.minimum import spare
from dovetail.disrupt.pods import budgets_among
from dovetail.model.devices import claims_devices
from dovetail.model.plan import Plan, Unschedulable
from dovetail.model.problem import Budget, Problem
from dovetail.solve.budget import SolveBudget

_TURN = Budget.within(3 * SECOND)
_IDLE = MINUTE  # budgets begin and end, and pods may be moved again, without anything else that changes
# A search takes 0.16 ms for each node, so it is the same share of a core however many there are: a rest of a
# minute at most made it a fifth of all CPU of an hour of 5,000 nodes.
_LONGEST_REST = 5 * MINUTE
# After a move was found: where load falls the next search then finds more that can go together.
_LONGEST_REST_BETWEEN = MINUTE
_Sight = tuple[object, ...]
_MANY = 16_384  # nodes whose candidates are remembered


@dataclass(frozen=True, slots=True)
class _Idle:
    """Where nothing was to be gained, when that was seen, and what was said of nodes that stay."""

    sight: _Sight
    at: int
    revision: int  # of the state
    timed: _Sight | None  # see `_timed`
    notes: tuple[Note, ...]

    def lasts(self, sight: _Sight, revision: int, timed: _Sight | None) -> bool:
        """True iff all is as it was, whatever the time is now."""
        return timed is not None and (revision, timed, sight) == (self.revision, self.timed, self.sight)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How moves are searched for, and what makes a plan one: Dovetail's own, or a rival's in a simulation.

    `rest`, in nanoseconds, follows a search that found nothing, for each node, up to `_LONGEST_REST`: each
    search looks at all of them, and where pods come or go all the time something is otherwise at each look.
    (A day's rising traffic, 630 nodes, 22 minutes: 17 searches of 48, a sixth of all CPU, one move of five
    less.)
    `reschedules`: what buys nothing is only done if the scheduler should find room for all of the pods.
    """

    search: Callable[[Question, Memory, SolveBudget, int], Asking] = search
    judge: Callable[[Question, Sequence[Candidate], Problem, Plan], Move] = judged
    rest: int = SECOND // 10
    reschedules: bool = True


@dataclass(frozen=True, slots=True)
class ConsolidationOptions:
    """`surcharge` is what a node costs by the settings beside its own price, in nano-dollars per hour.

    `deadline` is how long the solver may look for the plan that is carried out, in nanoseconds.
    """

    minimum: Minimum = field(default_factory=Minimum)
    surcharge: int = 0
    spot_to_spot: bool = False
    deadline: int = SECOND
    moves_per_pod: int = 1  # within 24 h
    strategy: Strategy = field(default_factory=Strategy)


class Consolidation:
    """Moves pods of underused and dear nodes to fewer or cheaper ones."""

    reason = UNDERUTILIZED
    quiet = 15 * SECOND

    def __init__(
        self,
        context: Context,
        planner: Planner,
        intake: Intake,
        moves: MoveBook,
        options: ConsolidationOptions,
    ) -> None:
        self._context = context
        self._planner = planner
        self._intake = intake
        self._options = options
        self._memory = Memory()
        self._moves = moves
        self._unanswered = Unanswered(context)
        self._idle: _Idle | None = None
        self._rests_until = 0  # by the monotonic clock

        def candidate(view: NodeView) -> Candidate:
            return candidate_of(view, options.minimum, options.surcharge)

        # Views of machines of which nothing changed are the same: so are the candidates.
        self._candidate = by_identity(_MANY)(candidate)

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """See the protocol."""
        if self._context.clock.monotonic() < self._rests_until:
            return Decision(None, more=True)
        now, sight = self._context.clock.now(), self._sight(views)
        idle, revision = self._idle, self._context.state.revision
        if idle is not None and now - idle.at < _IDLE and sight == idle.sight:
            return Decision(None)
        timed = self._timed(views)
        if idle is not None and idle.lasts(sight, revision, timed) and self._memory.holds(now):
            self._idle = replace(idle, at=now)
            return Decision(None, idle.notes)
        found, notes = self._candidates(views)
        if not found:
            self._idle = _Idle(sight, now, revision, timed, notes)
            return Decision(None, notes, ())
        question, blocked = self._question(views, found)
        notes += blocked
        finding = await self._driven(
            question, self._options.strategy.search(question, self._memory, SolveBudget(_TURN), now)
        )
        if finding.cut:
            count_timeout(self._context.metrics, finding.cut)
        claims = {view.name: view.claim.metadata.name for view in views}
        reported = [Note(claims[item.name], "Unconsolidatable", item.text) for item in finding.refusals]
        if finding.move is None:
            notes = *notes, *reported
            self._idle = _Idle(sight, now, revision, timed, notes) if finding.complete else None
            if finding.complete:
                self._rest(len(views), _LONGEST_REST)
            return Decision(None, notes, self._next(finding, views), more=not finding.complete)
        self._idle = None
        self._rest(len(views), _LONGEST_REST_BETWEEN)
        others = tuple((len(one.candidates), len(one.claims), one.saving) for one in finding.others)
        weighed = Weighed(others, finding.tried, finding.hourly, finding.bound)
        command = _command(finding.move, views, weighed)
        text = f"Consolidation candidate: {command.describe()}"
        reported += [Note(claims[view.name], "ConsolidationCandidate", text) for view in command.candidates]
        reported += _approvals(command)
        return Decision(command, (*notes, *reported), self._next(finding, views))

    def _rest(self, nodes: int, longest: int) -> None:
        """No search for as long as one of so many nodes is followed by, from its end on."""
        rest = min(longest, nodes * self._options.strategy.rest)
        self._rests_until = self._context.clock.monotonic() + rest

    def _next(self, finding: Finding, views: tuple[NodeView, ...]) -> tuple[str, ...]:
        """Nodes that go next, as before where nothing new is known; only where budgets ever let any go."""
        now = self._context.clock.now()
        pools = {
            pool.metadata.name
            for pool in self._context.state.all(NodePool)
            if allows_any(pool, UNDERUTILIZED, now)
        }
        there = {view.name: view for view in views if view.pool_name in pools}
        if finding.next is None:
            return tuple(name for name, view in there.items() if underutilized(view.node))
        return tuple(name for name in finding.next if name in there)

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """The command as it would be now: the same nodes, all free to go, and no more in their place."""
        question, _ = self._question(views, self._candidates(views)[0])
        by_name = {candidate.name: candidate for candidate in question.candidates}
        names = [view.name for view in command.candidates]
        still = [view for view in views if view.name in set(names) & by_name.keys()]
        taken, _ = within(still, question.allowed)
        if len(taken) < len(names):
            await self._rejected(command, "churn" if len(still) < len(names) else "budget")
            return None
        move = await self._still(question, [by_name[name] for name in names], command)
        if move is None:
            fleeting = bool(question.problem.pods)
            leaving = tuple(by_name[name] for name in names)
            self._memory.reject(leaving, self._context.clock.now(), fleeting=fleeting)
            await self._rejected(command, "scheduling")
            return None
        return _command(move, views, command.weighed)

    async def _still(self, question: Question, leaving: list[Candidate], command: Command) -> Move | None:
        """The move as it would be now; None where there is none any more, or it buys more than before."""
        bought = len(command.replacements)
        if command.places:
            with suppress(Refused):
                kept = still(question, leaving, command.places, command.replacements)
                if kept is not None:
                    return kept
            if bought:
                return None  # it was for the pods of other nodes as well that this one was bought
        if not bought and self._options.strategy.reschedules:
            move = self._rescheduled(question, leaving)
            if move is None or not any(claims_devices(pod) for one in leaving for pod in one.pods):
                return move  # of devices the allocator has the last word
        problem = question.without(leaving, quiet=not bought)
        plan = await self._plan(question, problem, self._options.deadline)
        with suppress(Refused):
            move = self._options.strategy.judge(question, leaving, problem, plan)
            if len(move.claims) <= bought:
                return move
        return None

    def _rescheduled(self, question: Question, leaving: Sequence[Candidate]) -> Move | None:
        """The move of these nodes that buys nothing, to where the scheduler should place their pods.

        No plan says more: where it has room and the scheduler would leave a pod over, the nodes stay.
        """
        places = self._memory.rescheduling.places(question, leaving)
        with suppress(Refused):
            return scored(question, leaving, Plan(existing=places), ()) if places is not None else None
        return None

    async def _rejected(self, command: Command, why: str) -> None:
        text = f"Consolidation rejected: {command.describe(why)}"
        publish = self._context.recorder.publish
        for view in command.candidates:
            await publish(view.claim, "Normal", "ConsolidationRejected", text)
            if view.node is not None:
                await publish(view.node, "Normal", "ConsolidationRejected", text)

    def _sight(self, views: tuple[NodeView, ...]) -> _Sight:
        """All that a decision depends on, the time excepted: equal ones are compared in milliseconds."""
        state = self._context.state
        pools = state.all(NodePool)
        return (
            views,
            pools,
            tuple(self._context.instance_types(pool) for pool in pools),
            state.all(PodDisruptionBudget),
            state.pods_on(""),
            state.default_spreads(),
        )

    def _timed(self, views: tuple[NodeView, ...]) -> _Sight | None:
        """What a decision depends on beside the state, most of which changes with time alone.

        None where the state says more as time goes by: of pods that wait or come from nodes that go, and of
        pods that are not to be disrupted for a while.
        """
        context, state = self._context, self._context.state
        if state.pods_on("") or any(view.protected for view in views):
            return None
        if state.leaving():
            return None
        pools = state.all(NodePool)
        return (
            allowances(pools, views, UNDERUTILIZED, context.clock.now()),
            self._moves.left(views),
            fresh(views, context.clock.now()),
            self._lately(views),
            context.provider.supply.left(),
            tuple(context.brakes.launches_paused(pool) for pool in pools),
        )

    def _candidates(self, views: tuple[NodeView, ...]) -> tuple[tuple[Candidate, ...], tuple[Note, ...]]:
        """The nodes that may go, and why others stay."""
        budgets = budgets_among(self._context.state.all(PodDisruptionBudget))
        return candidates(views, budgets, self._context.clock.now(), self._candidate)

    def _question(
        self, views: tuple[NodeView, ...], found: tuple[Candidate, ...]
    ) -> tuple[Question, tuple[Note, ...]]:
        """Costs as much as the cluster is large: only worth it where nodes may go at all."""
        options = self._options
        allowed = allowances(
            self._context.state.all(NodePool), views, UNDERUTILIZED, self._context.clock.now()
        )
        wanted = sorted({candidate.pool for candidate in found})
        places = self._intake.places()
        waiting, _ = self._intake.waiting(places)
        moving = self._intake.moving()
        problem = self._intake.problem((*waiting, *moving), places)
        spreads = self._context.state.default_spreads()
        if spreads.constraints:
            found = tuple(replace(candidate, pods=spreads.given(candidate.pods)) for candidate in found)
        moves = self._moves.left(views)
        all_of_them = totals(views, options.surcharge)
        question = Question(
            problem,
            found,
            allowed,
            moves,
            closed(views),
            restless(views),
            options.spot_to_spot,
            frozenset(pod.key for pod in moving),
            frozenset(pod.key for pod in moving if self._context.state.moves_to(pod) is not None),
            all_of_them,
            fresh(views, self._context.clock.now()),
            self._lately(views),
            spare(self._context.state.all(NodePool), views),
            frozenset(view.name for view in views if underutilized(view.node)),
            self._context.buffers.uids(),
        )
        return question, blocked_notes(wanted, allowed, UNDERUTILIZED)

    def _lately(self, views: tuple[NodeView, ...]) -> frozenset[str]:
        """Pods (by UID) that were moved within the hour to save money, where it is asked for them."""
        if len(views) > MOST_NODES or not self._moves.left(views).forced:
            return frozenset()
        return frozenset(uid for uid, one in self._moves.lately(views).items() if not one.forced)

    async def _plan(self, question: Question, problem: Problem, deadline: int) -> Plan:
        """The solver's plan; where it has none, one in which no pod has a place, so that the nodes stay."""
        staying = {node.name for node in problem.nodes}
        names = [node.name for node in question.problem.nodes if node.name not in staying]
        cause = self._unanswered.rests(names)
        if not cause:
            try:
                plan = await self._planner.plan(problem, deadline)
            except Exception as error:
                cause = self._unanswered.failed(names, error)
            else:
                self._unanswered.answered(names)
                return plan
        reason = f"no plan could be made ({cause})"
        return Plan(unschedulable=tuple(Unschedulable(pod.key, reason) for pod in problem.pods))

    async def _driven(self, question: Question, asking: Asking) -> Finding:
        """Answer what the search asks until it has found something, or nothing."""
        try:
            problem = next(asking)
            while True:
                problem = asking.send(await self._plan(question, problem, QUICK))
        except StopIteration as end:
            found: Finding = end.value
            return found


def _approvals(command: Command) -> list[Note]:
    """What pools with the policy Balanced said: on the node if there is one, else on the pools."""
    found = [score for score in command.scores if score.policy == BALANCED]
    if len(command.candidates) == 1:
        name = command.candidates[0].claim.metadata.name
        return [Note(name, "ConsolidationApproved", str(score)) for score in found]
    return [Note(score.pool, "ConsolidationApproved", str(score), on_pool=True) for score in found]


def _command(move: Move, views: Sequence[NodeView], weighed: Weighed | None) -> Command:
    by_name = {view.name: view for view in views}
    leaving = tuple(by_name[candidate.name] for candidate in move.candidates)
    places = move.places if move.kept else {}
    claims = {claim.name for claim in move.claims}
    used = tuple(name for name in move.places if name not in claims)
    return Command(UNDERUTILIZED, leaving, move.claims, used, move.scores, weighed, places)
