"""Provisioning: batch pods that fit nowhere, plan, buy what the plan says, nominate the pods, log it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, PlannerFailed
from dovetail.cloud.unready import why_unready
from dovetail.cluster.nodes import Machine
from dovetail.cluster.problem import Fault
from dovetail.cluster.state import Versions, fingerprint
from dovetail.controllers.context import Context
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.buy import Buyer
from dovetail.controllers.provisioning.dealt import dealt
from dovetail.controllers.provisioning.even import evened
from dovetail.controllers.provisioning.fairness import Ledger, Turn, WaitingList, settled, take_turn
from dovetail.controllers.provisioning.important import LITTLE, by_priority, in_order
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.keep import RoomKeeper
from dovetail.controllers.provisioning.makeroom import RoomMaker
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.controllers.provisioning.needed import needs_place, still_needed
from dovetail.controllers.provisioning.newpools import NewPools
from dovetail.controllers.provisioning.openings import in_queue
from dovetail.controllers.provisioning.order import in_turn
from dovetail.controllers.provisioning.pods import NOT_FOR_US
from dovetail.controllers.provisioning.realised import Realised
from dovetail.controllers.provisioning.refit import Refit
from dovetail.controllers.provisioning.remarks import Remarks, failed, nominate
from dovetail.controllers.provisioning.repeat import Leftover
from dovetail.controllers.provisioning.sturdy import (
    LONGER,
    cheaper,
    may_cost_less,
    second_question,
    sturdier,
)
from dovetail.controllers.provisioning.trigger import Batcher, Window
from dovetail.controllers.provisioning.vain import Vain
from dovetail.model.devices import claims_devices
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Options, Pool, Problem
from dovetail.model.requirement import Requirements

NONE_LEFT = "NodePool requirements filtered out all compatible available instance types"
MIN_VALUES = " due to minValues incompatibility"


class Offers:
    """Finds what is wrong with a pool's choice; remembers the answer while pool and types stay the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Requirements, tuple[InstanceType, ...], str]] = {}

    def keep_only(self, pools: Iterable[Pool]) -> None:
        """Forget all others: they are gone, or sell nothing now."""
        self._known = {pool.name: self._known[pool.name] for pool in pools if pool.name in self._known}

    def fault(self, pool: Pool, *, strict_min_values: bool) -> str:
        """ "" iff the pool could launch something now, else the message of its event."""
        known = self._known.get(pool.name)
        if known is not None and known[0] == pool.requirements and known[1] is pool.instance_types:
            return known[2]
        message = _fault(pool, strict_min_values)
        self._known[pool.name] = (pool.requirements, pool.instance_types, message)
        return message


def _fault(pool: Pool, strict_min_values: bool) -> str:
    left = [item for item in pool.instance_types if _offers(item, pool.requirements)]
    if not left:
        return NONE_LEFT
    if strict_min_values:
        for requirement in pool.requirements:
            wanted = requirement.min_values
            if wanted is not None and _distinct(left, requirement.key) < wanted:
                return NONE_LEFT + MIN_VALUES
    return ""


def _offers(item: InstanceType, requirements: Requirements) -> bool:
    """Full reservations count: pods that wait for one are told so."""
    if item.requirements.intersects(requirements):
        return False
    return any(
        offering.available and not offering.requirements.intersects(requirements)
        for offering in item.offerings
    )


def _distinct(types: list[InstanceType], key: str) -> int:
    return len({value for item in types for value in item.requirements.get(key).values})


_ALTERNATIVES = 3


def launch_decision(
    problem: Problem, plan: Plan, snapshot: str, bought: Sequence[tuple[str, PlannedClaim]]
) -> dict[str, Any]:
    """The fields of a `decision` record; prices in nano-dollars per hour, `bought` by the claims' names."""
    types = {pool.name: {item.name: item for item in pool.instance_types} for pool in problem.pools}
    return {
        "what": "launch",
        "reason": "pending pods",
        "snapshot": snapshot,
        "pods": len(problem.pods),
        "hourly": plan.cost.hourly,
        "lowerBound": plan.cost.lower_bound,
        "claims": [
            {
                "claim": name,
                "pool": one.pool,
                "pods": list(one.pods),
                "instanceType": one.instance_type,
                "zone": one.zone,
                "capacityType": one.capacity_type,
                "price": one.price,
                "alternatives": list(islice(_alternatives(one, types.get(one.pool, {})), _ALTERNATIVES)),
            }
            for name, one in bought
        ],
    }


def _alternatives(planned: PlannedClaim, types: dict[str, InstanceType]) -> Iterator[dict[str, Any]]:
    """Other types that would have done, the cheapest first, each at its cheapest allowed offering."""
    for name in planned.instance_types:
        if name == planned.instance_type or name not in types:
            continue
        prices = [
            offering.price
            for offering in types[name].offerings
            if offering.launchable and not offering.requirements.intersects(planned.requirements)
        ]
        if prices:
            yield {"instanceType": name, "price": min(prices) + planned.volumes + planned.surcharge}


def clearly_dearer(first: Plan, plan: Plan) -> bool:
    """True iff this first plan costs so much more than the other plan that more work cannot make up for it.

    Of plans that place anew all that is not bound, work took a third off those for 20 nodes, and two nodes of
    three off the smallest.
    """
    dearest = max((claim.price for claim in plan.claims), default=0)
    return first.cost.hourly > _TIMES * plan.cost.hourly + dearest


def may_be_placed_anew(pods: int) -> bool:
    """True iff a plan for so many pods that wait for their places may be better than those are.

    In a burst of 10,000 pods four rounds placed 4,199 to 5,922 anew, for 1.6 to 26 times the cost of what was
    to be spared, one of them with a second's work as well.
    """
    return 0 < pods <= _MOST_ANEW


NO_TYPES_TTL = MINUTE
NOT_UNDERSTOOD_TTL = 5 * MINUTE
_FIRST = SECOND // 20  # for first plans: of 2,059 pods beside 600 nodes one takes 0.04 s
_TIMES = 2  # as dear: see `clearly_dearer`
_MOST_ANEW = 4_000  # see `may_be_placed_anew`
# Of its deadline, for placing anew. Of 29 such plans of a day, with a quarter of it, 16 ended by themselves
# within 168,000 units, and of the 13 others one cost less than the first plan: $0.015 an hour.
_ANEW = 6


@dataclass(frozen=True, slots=True)
class ProvisioningOptions:
    """How plans are made: `deadline` is how long the solver may look for a cheaper one, in nanoseconds."""

    solver: Options = field(default_factory=Options)
    deadline: int = SECOND
    on_plan: Callable[[Problem, Plan], None] | None = None
    plain: bool = False  # carry plans out as they come: a rival asks no second question
    nominates: bool = True  # pods are nominated, so that room may be made for them


class Provisioner:
    """One loop: wait for a batch, plan on a frozen view, act. Nothing else buys for pending pods."""

    def __init__(
        self, context: Context, batcher: Batcher, planner: Planner, options: ProvisioningOptions
    ) -> None:
        self._context = context
        self._batcher = batcher
        self._planner = planner
        self._options = options
        self._faults: list[Fault] = []  # of the round
        self._intake = Intake(context, options.solver, self._faults.append)
        self._offers = Offers()
        self._leftover = Leftover()
        self._remarks = Remarks(context.log)
        self._metrics = ProvisioningMetrics(context.metrics, context.waits)
        self._realised = Realised(context)
        self._buyer = Buyer(context, self._metrics)
        self._keeper = RoomKeeper(context, self._intake, self._buyer, self._asked_for_buffers)
        self._limited: frozenset[str] = frozenset()  # pools whose limits kept pods of the last round waiting
        self.room = RoomMaker(context, enabled=options.nominates and not options.plain)
        self._new_pools = NewPools(context)
        self._vain = Vain(context)
        self._waiting = WaitingList()
        self._ledger = Ledger()

    async def run(self) -> None:
        """Provision for ever."""
        while True:
            window = await self._batcher.wait()
            try:
                await self._synced()
                await self.provision(window)
                await self._keeper.keep(self._limited)
            except (ApiError, PlannerFailed) as error:
                # The pods are still pending: whatever failed, their triggers come again.
                if isinstance(error, PlannerFailed):
                    self._context.log.record("plan.failed", message=str(error))
                await self._context.clock.sleep(SECOND)

    async def provision(self, window: Window) -> None:
        """Plan once for the pods that wait now and whose turn it is, and act on the plan.

        A round that would only repeat the one before is not in the log; its pods get their events again.
        """
        self._faults.clear()
        self._limited = frozenset()
        places = self._intake.places() | self._put_off()
        waiting, ignored, resting = await self._pending(places)
        candidates = self._waiting.candidates(waiting, self._intake.gangs(waiting))
        turn, self._ledger = take_turn(candidates, self._ledger, self._context.clock.now())
        self._metrics.set_aside(later=len(turn.later), failed=len(turn.aside), resting=resting)
        await self._publish_aside(turn)
        if not turn.pods:
            self._metrics.round(ignored, 0)
            await self._report_faults()
            return
        pods = tuple(pod for pod in waiting if pod.key in turn.pods)
        moved = frozenset(pod.key for pod in pods if self._bound(pod.key))
        problem = self._intake.problem(pods, places)
        await self._report_faults()
        versions = self._context.state.versions()
        plan = self._leftover.recall(problem)
        if plan is None:
            self._context.log.record(
                "batch", opened=window.opened, closed=window.closed, pods=[pod.key for pod in pods]
            )
        await self._check_offers(problem.pools)
        if plan is None:
            self._remarks.on_problem(problem)
            plan = await self._by_priority(problem, await self._solve(problem, turn, waiting))
            plan = await self._sturdier(problem, plan)
            plan = await self._refitted(problem, plan)
            self._leftover.keep(problem, plan)
            self._remarks.on_plan(problem, plan)
        self._settle(turn, "", waiting, plan)
        self._limited = frozenset(name for item in plan.unschedulable for name in item.limiting)
        self._metrics.round(ignored, len(plan.unschedulable))
        # Pods that went while the plan was made have nothing more that would end what is noted of them.
        there = [pod for pod in pods if self._context.state.get(Pod, pod.key) is not None]
        self._metrics.decided(there, plan, window.triggers, self._context.clock.now())
        lost = plan.claims and any(self._context.state.displaced(pod) for pod in there)
        if lost:
            problem, plan = await self._rearranged(problem, plan, there, places)
        plan = self._needed(plan, pods, moved, places)
        if lost and plan.claims and self.room.enabled:
            problem, plan = await self._with_room_made(problem, plan)
            plan = self._needed(plan, pods, moved, places)
        plan = in_turn(problem, dealt(problem, evened(problem, plan)), self._context.state.arrived())
        await self._act(problem, plan, versions, places)

    def _put_off(self) -> dict[str, str]:
        """Pods that keep a place without room until others are bound or gone: they are looked at again."""
        found = self._intake.crowded() | self.room.awaited()
        for key in found:
            pod = self._context.state.get(Pod, key)
            if pod is not None:
                self._batcher.trigger(pod.metadata.uid)
        return found

    async def _synced(self) -> None:
        state = self._context.state
        await self._buyer.look()
        while not state.synced():
            await self._context.clock.sleep(SECOND)
            await state.settle()
        await self._new_pools.judged()

    async def _pending(self, places: Mapping[str, str]) -> tuple[tuple[Pod, ...], int, int]:
        """Pods without a node or a promise of one, and those that must move; events for the others.

        Also the number of those that are ignored, and of those that rest.
        """
        pending, left_out = self._intake.waiting(places)
        self._remarks.on_ignored(left_out)
        for pod, reason in left_out:
            if reason != NOT_FOR_US:
                await failed(self._context, pod.key, reason)
        pending, resting = self._vain.look(pending, self._intake.gangs(pending))
        for one in resting:
            await failed(self._context, one.pod.key, one.message)
        return (*pending, *self._intake.moving()), len(left_out), len(resting)

    async def _check_offers(self, pools: tuple[Pool, ...]) -> None:
        self._offers.keep_only(pools)
        strict = self._options.solver.strict_min_values
        found = {pool.name: self._offers.fault(pool, strict_min_values=strict) for pool in pools}
        faults = {name: message for name, message in found.items() if message}
        self._remarks.on_pools(faults)
        for name, message in faults.items():
            subject = self._context.state.get(NodePool, name)
            if subject is not None:
                await self._context.recorder.publish(
                    subject, "Warning", "NoCompatibleInstanceTypes", message, ttl=NO_TYPES_TTL
                )

    async def _publish_aside(self, turn: Turn) -> None:
        now = self._context.clock.now()
        for key, entry in turn.aside.items():
            wait = max(1, -(-(entry.until - now) // SECOND))
            await failed(
                self._context,
                key,
                f"{entry.cause}; it is tried again alone in {wait} s",
            )

    async def _report_faults(self) -> None:
        """What the round could not understand: in the log, the figures and an event on the object."""
        faults = {(fault.about.KIND, fault.about.key): fault for fault in self._faults}
        self._remarks.on_faults(faults.values())
        self._metrics.inputs_left_out(Counter(kind for kind, _ in faults))
        for fault in faults.values():
            if isinstance(fault.about, Pod):
                continue  # one that no plan can be made for gets a FailedScheduling event
            message = f"Left out of plans, it cannot be understood ({fault.cause})"
            await self._context.recorder.publish(
                fault.about, "Warning", "NotUnderstood", message, ttl=NOT_UNDERSTOOD_TTL
            )

    def _settle(self, turn: Turn, failure: str, waiting: tuple[Pod, ...], plan: Plan | None = None) -> None:
        """Note how the turn ended; what has to have its turn at once triggers the next round."""
        left, late = (frozenset(plan.left), frozenset(plan.untried)) if plan else (frozenset(), frozenset())
        self._ledger = settled(self._ledger, turn, failure, self._context.clock.now(), left, late)
        uids = {pod.key: pod.metadata.uid for pod in waiting}
        again = set(turn.pods if failure and self._ledger.suspects else ())
        again.update(pod for pod in late if turn.kind_of[pod] not in self._ledger.aside)
        if self._ledger.suspects or turn.later or again:
            for key in (*sorted(again), *turn.later) or sorted(uids):
                self._batcher.trigger(uids[key])

    async def _rearranged(
        self, problem: Problem, plan: Plan, pods: Sequence[Pod], places: Mapping[str, str]
    ) -> tuple[Problem, Plan]:
        """The plan, or a cheaper one that may also move the places of pods which earlier plans gave them.

        What an earlier plan wrote is void once the scheduler filled its nodes otherwise: before another node
        is bought for a pod that lost its place, all that is not bound is placed anew into what is there or
        coming. On plan's problem the pods that have a place stand still.
        """
        placed = tuple(pod for pod in self._context.state.pods_on("") if pod.key in places)
        if not may_be_placed_anew(len(placed)) or self._options.plain:
            return problem, plan
        whole = self._intake.problem((*pods, *placed), {})
        try:
            first, spent = await self._ask(whole, _FIRST)
            self._solved(whole, first, spent)
            if clearly_dearer(first, plan):
                return problem, plan
            other = await self._planned(whole, self._options.deadline // _ANEW)
        except PlannerFailed:
            return problem, plan
        left = {item.pod for item in plan.unschedulable}
        worse = any(item.pod not in left for item in other.unschedulable)
        return (problem, plan) if worse or other.cost.hourly >= plan.cost.hourly else (whole, other)

    def _needed(
        self, plan: Plan, pods: Sequence[Pod], moved: Collection[str], places: Mapping[str, str]
    ) -> Plan:
        """What of the plan these pods need by now; `moved` are the keys of those that were bound before."""
        state, again = self._context.state, self._intake.places()

        def needs(key: str) -> bool:
            given = key in again and key not in places  # the room that it had lost is there again
            return not given and needs_place(state.get(Pod, key), self._goes, moved=key in moved)

        found = still_needed(plan, [pod.key for pod in pods], needs)
        if len(found.claims) < len(plan.claims):
            kept = {claim.name for claim in found.claims}
            spared = [claim for claim in plan.claims if claim.name not in kept]
            self._context.log.record(
                "plan.overtaken",
                claims=len(spared),
                pods=[key for claim in spared for key in claim.pods],
                hourly=plan.cost.hourly - found.cost.hourly,
            )
        return found

    async def _with_room_made(self, problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
        """Without what need not be bought, as room is made on nodes that are there.

        What else such a node was for is planned anew: it may need less, or none.
        """
        helped = await self.room.make_room(problem, plan)
        if not helped:
            return problem, plan
        rest = still_needed(plan, [pod.key for pod in problem.pods], lambda key: key not in helped)
        if all(helped.isdisjoint(claim.pods) or helped.issuperset(claim.pods) for claim in plan.claims):
            return problem, rest
        pods = {pod.key: pod for pod in problem.pods if pod.key not in helped}
        given = self._intake.places() | self._put_off()
        places = {key: name for key, name in given.items() if key not in pods}
        again = self._intake.problem(tuple(pods.values()), places)
        try:
            return again, await self._planned(again)
        except PlannerFailed:
            return problem, rest

    def _bound(self, key: str) -> bool:
        pod = self._context.state.get(Pod, key)
        return pod is not None and bool(pod.spec.node_name)

    def _goes(self, name: str) -> bool:
        """True iff the node of that name is on its way out, or gone."""
        state = self._context.state
        node = state.get(Node, name)
        return node is None or state.going(Machine(node, state.claim_of(node)))

    async def _by_priority(self, problem: Problem, plan: Plan) -> Plan:
        """The plan, or where limits bind one that has places for the pods that come first."""
        if self._options.plain:
            return plan
        questions = by_priority(problem, plan)
        try:
            question = next(questions)
            while True:
                if question.thorough:
                    found = await self._planned(question.problem)
                else:
                    found, _ = await self._ask(question.problem, LITTLE)
                question = questions.send(found)
        except StopIteration as end:
            best: Plan = end.value
            return best
        except PlannerFailed:
            return plan

    async def _sturdier(self, problem: Problem, plan: Plan) -> Plan:
        """The plan, or a cheaper one that takes longer, or one on larger nodes of which more comes true."""
        if self._options.plain:
            return plan
        try:
            if self._options.nominates and may_cost_less(problem, plan):
                plan = cheaper(problem, plan, await self._planned(problem, LONGER * self._options.deadline))
            question = second_question(problem, plan)
            if question is not None:
                plan = sturdier(problem, plan, await self._planned(question))
        except PlannerFailed:
            pass
        return plan

    async def _refitted(self, problem: Problem, plan: Plan) -> Plan:
        """Where pods are not nominated: the plan, or one that is expected to cost less."""
        if self._options.nominates or self._options.plain or any(map(claims_devices, problem.pods)):
            return plan

        async def ask(question: Problem, work: int) -> Plan:
            return (await self._ask(question, work * LITTLE))[0]

        async def pause() -> None:
            await asyncio.sleep(0)

        queue = [pod.key for pod in in_queue(self._context.state.pods_on(""))]
        refit = Refit(problem, queue, ask, pause)
        try:
            other = await refit.better(plan)
        except PlannerFailed:
            return plan
        if other.cost.hourly != plan.cost.hourly:
            if self._options.on_plan is not None:
                self._options.on_plan(problem, other)
            self._solved(problem, other, 0)
        return other

    async def _solve(self, problem: Problem, turn: Turn, waiting: tuple[Pod, ...]) -> Plan:
        try:
            return await self._planned(problem)
        except PlannerFailed as error:
            self._settle(turn, str(error), waiting)
            raise

    async def _planned(self, problem: Problem, deadline: int = 0) -> Plan:
        plan, spent = await self._ask(problem, deadline or self._options.deadline)
        if self._options.on_plan is not None:
            self._options.on_plan(problem, plan)
        self._solved(problem, plan, spent)
        return plan

    def _solved(self, problem: Problem, plan: Plan, spent: int) -> None:
        self._context.log.record(
            "solve",
            pods=len(problem.pods),
            claims=len(plan.claims),
            work=plan.work,
            seconds=spent / SECOND,
            hourly=plan.cost.hourly,
            lowerBound=plan.cost.lower_bound,
            unschedulable=len(plan.unschedulable),
        )

    async def _asked_for_buffers(self, problem: Problem) -> Plan:
        """A plan for virtual pods, which is not worth the time that pods may be waiting for."""
        plan, _ = await self._ask(problem, self._options.deadline // _ANEW)
        if self._options.on_plan is not None:
            self._options.on_plan(problem, plan)
        return plan

    async def _ask(self, problem: Problem, deadline: int) -> tuple[Plan, int]:
        """The plan, and how many nanoseconds it took."""
        clock = self._context.clock
        asked = clock.monotonic()
        number = self._metrics.asked(len(problem.pods), clock.now())
        plan: Plan | None = None
        spent = 0
        try:
            plan = await self._planner.plan(problem, deadline)
            spent = clock.monotonic() - asked
        finally:
            self._metrics.answered(number, plan, spent)
        return plan, spent

    async def _act(self, problem: Problem, plan: Plan, versions: Versions, places: Mapping[str, str]) -> None:
        for name in sorted(plan.existing):
            news = tuple(pod for pod in plan.existing[name] if places.get(pod) != name)
            await nominate(self._context, news, name)
        bought: list[tuple[str, PlannedClaim]] = []
        try:
            if plan.claims:
                await self._buyer.buy(in_order(problem, plan.claims), bought)
        finally:
            if bought:
                self._remember(problem, plan, fingerprint(versions), bought)
        for left in plan.unschedulable:
            if left.untried:
                continue  # it was not looked at yet: the next round is its own
            # Without any pool that took part, what keeps the pools from it is the reason.
            reason = left.reason if left.pools else left.reason + self._unready()
            await failed(self._context, left.pod, reason)

    def _unready(self) -> str:
        """ " (POOL: why it is not ready; ...)", or "" where all pools are."""
        faults = []
        for pool in sorted(self._context.state.all(NodePool), key=lambda pool: pool.metadata.name):
            if paused := self._context.brakes.launches_paused(pool):
                faults.append(f"{pool.metadata.name}: {paused}")
                continue
            ready = condition(pool.status.conditions, "Ready")
            if ready is None or ready.status == "True":
                continue
            node_class = self._context.node_class(pool.spec.template.spec.node_class_ref)
            faults.append(f"{pool.metadata.name}: {why_unready(ready, pool, node_class)}")
        return f" ({'; '.join(faults)})" if faults else ""

    def _remember(
        self, problem: Problem, plan: Plan, snapshot: str, bought: list[tuple[str, PlannedClaim]]
    ) -> None:
        self._context.log.record("decision", **launch_decision(problem, plan, snapshot, bought))
        self._realised.bought(snapshot, bought)
        self._vain.bought(bought)
        self._vain.bought_for(problem.gangs, plan)
