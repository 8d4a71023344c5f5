"""Where nothing is nominated: of plans, the one that costs least once the scheduler has filled its nodes.

The nodes open in the order in which the pods find most room (see `openings`), so that is played before they
are bought. What is left then would be a second plan's. So it is bought at once, and with it the plan is made
anew for some of the nodes: those with the most room for the money, or those that open last, with what they
hold. That is played again, and so on while it costs less. Of nine bursts for which the best order left pods
over, the first plan's nodes and a second plan's cost 1.136 of the first plan, and this one's 1.080.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.api.core import Pod
from dovetail.base.streams import stream
from dovetail.controllers.provisioning.by_queue import DRAWS, PARTS, ByQueue, Followed
from dovetail.controllers.provisioning.causes import leans, leans_on
from dovetail.controllers.provisioning.openings import (
    FEW_PODS,
    MOST_NODES,
    MOST_PODS,
    PLAYS,
    STEPS,
    Filled,
    Openings,
    resolver,
)
from dovetail.controllers.provisioning.planned import planned_node
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY, add, fits, pod_requests, subtract, total

ROUNDS = 4  # of plans made anew, at most: nine bursts needed two
# Nodes that are bought anew at once, beside what is left: 24 bursts of up to 50 pods came to $24.17 an hour,
# with two at most to 24.30, with one to 24.42.
MOST_ANEW = 4
# Steps of plays in all (see `openings`): 3 s of a core between others' turns at most; 154 pods take 0.8. With
# 400,000 nothing was made anew for 136 pods under rules: each play takes 4,500, and 13 were left over.
MOST_STEPS = 1_000_000
UNORDERED = 4  # plays of nodes that open as they come
WAVES = 102  # percent of what these are expected to cost: what is left over waits for another wave
MOST_BESIDE = 500  # nodes that are there, with which openings are not played

# Asks the solver, with little work: the questions are about some of the pods.
Ask = Callable[[Problem], Awaitable[Plan]]


@dataclass(frozen=True, slots=True)
class _Played:
    """A plan, what becomes of it, and what it costs with a second plan for what is left."""

    plan: Plan
    nodes: Mapping[str, ExistingNode]  # by claim, the node that it becomes
    filled: Filled
    hourly: int

    @property
    def rank(self) -> tuple[int, int]:
        return self.hourly, len(self.filled.left)


class Refit:
    """Of one problem. `pause` is awaited between two plays, which take some ten milliseconds each."""

    def __init__(
        self, problem: Problem, queue: Sequence[str], ask: Ask, pause: Callable[[], Awaitable[None]]
    ) -> None:
        """`queue` has the keys of the pods in the order in which the scheduler tries them."""
        self._problem = problem
        self._ask = ask
        self._pause = pause
        self._asked = {pod.key: pod for pod in problem.pods}
        age = {key: number for number, key in enumerate(queue)}
        self._queue = sorted(problem.pods, key=lambda pod: (age.get(pod.key, len(age)), pod.key))
        self._there = [node for node in problem.nodes if not node.in_flight]
        self._resolve = resolver()
        self._steps = MOST_STEPS  # that are left

    async def better(self, plan: Plan) -> Plan:
        """The plan, or one that is expected to cost less; its claims in the order in which they open. Where
        less is expected if these open as they come, it is the plan as it was.
        """
        if not self._worth_it(plan):
            return plan
        best = await self._played(plan, PLAYS)
        found, few = [best], len(self._problem.pods) <= FEW_PODS
        if best.filled.left:
            others = await self._by_queue(plan)
            # Of many pods the plan that costs more at first was never the cheaper one in the end.
            if few or not others or best.rank <= min(one.rank for one in others):
                best = await self._improved(best)
            found = [best, *others]
        best, expected = await self._surest(found)
        if not few and await self._as_they_come(plan) * WAVES < expected * 100:
            return plan
        return _in_order(best)

    async def _surest(self, found: Sequence[_Played]) -> tuple[_Played, int]:
        """What costs least if nodes may have a little more memory than planned as well, and what it costs.

        How much an instance has is not known before one of its type was there, and plans count on little. Of
        a plan for 532 pods 29 of 4 GiB were on a node that was to take 28; that left no CPUs for others, and
        60 pods were left over in the end.
        """
        best, least = found[0], 0
        for one in sorted(found, key=lambda one: one.rank):
            if least and one.hourly >= least:
                break
            nodes = {name: _roomier(node) for name, node in one.nodes.items()}
            filled = Openings(self._view(nodes.values()), self._to_play(one.plan), nodes).play(
                one.filled.turns
            )
            await self._pause()
            hourly = max(one.hourly, one.plan.cost.hourly + await self._more(one.plan, nodes, filled))
            if not least or hourly < least:
                best, least = one, hourly
        return best, least

    async def _improved(self, best: _Played) -> _Played:
        """The same with some of its nodes made anew, for as long as that costs less."""
        for number in range(ROUNDS):
            if not best.filled.left:
                break
            found = [one async for one in self._anew(best, str(number))]
            following = min(found, key=lambda one: one.rank, default=best)
            if following.rank >= best.rank:
                break
            best = following
        return best

    async def _by_queue(self, plan: Plan) -> list[_Played]:
        """Plans that are made for the order of the queue."""
        pods, claims = self._to_play(plan), list(plan.claims)
        size = max(1, -(-len(pods) // PARTS))
        for number in range(0, len(pods), size):
            part = sorted(pods[number : number + size], key=lambda pod: pod.key)
            claims += (await self._ask(replace(self._problem, pods=tuple(part)))).claims
        drawing = ByQueue(self._problem, self._view(()), pods, claims, self._asked)
        found = list[_Played]()
        for number in range(DRAWS):
            drawn = drawing.draw(number)
            await self._pause()
            if drawn is not None and (made := self._made(plan, drawn)) is not None:
                found.append(await self._played(made, 1, [claim.name for claim in made.claims]))
        return found

    def _made(self, plan: Plan, drawn: Followed) -> Plan | None:
        """The plan with what was drawn instead; None where a claim has no type that holds its pods."""
        on = defaultdict[str, list[str]](list)
        for key, name in drawn.at.items():
            on[name].append(key)
        claims = [self._holding(claim, on[claim.name]) for claim in drawn.claims]
        held = [claim for claim in claims if claim is not None]
        return self._with(plan, held, on) if len(held) == len(claims) else None

    async def _as_they_come(self, plan: Plan) -> int:
        """What the plan is expected to cost if its nodes open as they come, those on which pods lean together
        once all are there.

        The others are taken to come in two halves: while the scheduler waits to try a pod again, some come.
        hosts-380 is expected at $15.9/h so, at 17.8 if they come one by one, and came to 15.4 and 15.7.
        """
        nodes = self._nodes(plan)
        leaning = {key for key, pod in self._asked.items() if leans(pod)}
        together = [one.name for one in plan.claims if not leaning.isdisjoint(one.pods)]
        others = [name for name in nodes if name not in together]
        chance, costs = stream(0, "openings", "as they come"), list[int]()
        for _ in range(UNORDERED):
            view = self._view(nodes[name] for name in together)
            openings = Openings(view, self._to_play(plan), together)
            coming = chance.sample(others, len(others))
            halves = coming[: len(coming) // 2], coming[len(coming) // 2 :]
            filled = openings.come(
                [[(NodeView.planned(nodes[n]), nodes[n].pods) for n in half] for half in halves]
            )
            await self._pause()
            costs.append(plan.cost.hourly + await self._more(plan, nodes, filled))
        return sum(costs) // len(costs)

    def _nodes(self, plan: Plan) -> Mapping[str, ExistingNode]:
        """By claim, the node that it becomes."""
        return {one.name: planned_node(self._problem, one, self._asked) for one in plan.claims}

    def _view(self, nodes: Iterable[ExistingNode]) -> ClusterView:
        """What is there, and these nodes."""
        view = ClusterView((), self._problem.namespaces, self._problem.volumes, self._resolve)
        for node in (*self._there, *nodes):
            view.set_node(NodeView.planned(node))
            for pod in node.pods:
                view.add_pod(pod, node.name)
        return view

    def _to_play(self, plan: Plan) -> list[Pod]:
        """The pods that go to nodes which are bought, in the order of the queue."""
        away = {node.name for node in self._problem.nodes if node.in_flight}
        elsewhere = {key for name in away for key in plan.existing.get(name, ())}
        elsewhere.update(one.pod for one in plan.unschedulable)
        return [pod for pod in self._queue if pod.key not in elsewhere]

    async def _more(self, plan: Plan, nodes: Mapping[str, ExistingNode], filled: Filled) -> int:
        """What a second plan costs for the pods that are left."""
        if not filled.left:
            return 0
        second = await self._ask(self._question(filled.left, nodes, filled, nodes))
        worst = sum(one.price for one in plan.claims)  # for a pod that has no place even then
        return second.cost.hourly + worst * len(second.unschedulable)

    def _worth_it(self, plan: Plan) -> bool:
        """Not where all is clear, where too much would have to be played, or where pools want a choice of
        types, which claims would not have any more.
        """
        few = len(self._problem.pods) <= MOST_PODS and len(self._there) <= MOST_BESIDE
        choosy = any(one.min_values is not None for claim in plan.claims for one in claim.requirements)
        return 1 < len(plan.claims) <= MOST_NODES and few and not choosy

    async def _played(self, plan: Plan, plays: int, given: Sequence[str] = ()) -> _Played:
        """What becomes of the plan in the best order, the `given` one first, and with what is left of it
        bought as well.
        """
        nodes, pods = self._nodes(plan), self._to_play(plan)
        openings = Openings(self._view(nodes.values()), pods, nodes)
        filled = Filled((), {}, tuple(pods))
        for found in openings.search(given, plays, min(STEPS * plays // PLAYS, self._steps)):
            filled = found
            await self._pause()
        self._steps -= openings.steps
        hourly = plan.cost.hourly + await self._more(plan, nodes, filled)
        return _Played(plan, nodes, filled, hourly)

    def _question(
        self,
        pods: Iterable[Pod],
        nodes: Mapping[str, ExistingNode],
        filled: Filled,
        kept: Iterable[str],
    ) -> Problem:
        """About these pods, with the `kept` ones of the nodes as they were filled."""
        on = defaultdict[str, list[Pod]](list)
        for key, name in filled.at.items():
            on[name].append(self._asked[key])
        bought = [nodes[name] for name in kept]
        known = (*self._problem.nodes, *bought)
        full = tuple(replace(node, pods=(*node.pods, *on[node.name])) for node in known)
        pools = tuple(
            _used(pool, [node for node in bought if node.pool == pool.name]) for pool in self._problem.pools
        )
        asked = tuple(sorted(pods, key=lambda pod: pod.key))
        return replace(self._problem, pods=asked, nodes=full, pools=pools)

    async def _anew(self, played: _Played, tag: str) -> AsyncIterator[_Played]:
        """Plans in which some of the nodes are others, that may cost less."""
        for number, going in enumerate(self._goers(played)):
            if self._steps <= 0:
                return
            kept = [name for name in played.nodes if name not in going]
            gone = [self._asked[key] for key, name in played.filled.at.items() if name in going]
            question = self._question((*gone, *played.filled.left), played.nodes, played.filled, kept)
            part = await self._ask(question)
            plan = self._joined(played, kept, part, f"{tag}-{number}")
            if plan is not None and plan.cost.hourly <= played.hourly:
                yield await self._played(plan, PLAYS // 3, played.filled.turns)

    def _goers(self, played: _Played) -> Iterator[frozenset[str]]:
        """Sets of nodes to do without: none, those with the most room for the money, those that open last."""
        order = played.filled.turns
        roomy = sorted(order, key=lambda name: -self._idle(played, name))
        known = set[frozenset[str]]()
        for number in range(min(MOST_ANEW, len(order)) + 1):
            for some in (roomy[:number], order[len(order) - number :]):
                found = frozenset(some)
                if found not in known and len(known) < len(order) * 2 + 1:
                    known.add(found)
                    yield found

    def _idle(self, played: _Played, name: str) -> float:
        """What is paid for room that is left on the node."""
        node = played.nodes[name]
        price = next(one.price for one in played.plan.claims if one.name == name)
        there = (self._asked[key] for key, at in played.filled.at.items() if at == name)
        used = total(map(pod_requests, (*node.pods, *there)))
        shares = (1 - used.get(what, 0) / max(1, node.allocatable.get(what, 0)) for what in (CPU, MEMORY))
        return price * min(shares)

    def _joined(self, played: _Played, kept: Sequence[str], part: Plan, tag: str) -> Plan | None:
        """The plan with the kept claims as they were filled, and those of the other plan; None where a pod
        has no place in it, or a kept claim no type that holds its pods.
        """
        plan, filled = played.plan, played.filled
        if part.unschedulable or part.relaxed:
            return None
        on = defaultdict[str, list[str]](list)
        for key, name in filled.at.items():
            on[name].append(key)
        for name, keys in part.existing.items():
            on[name].extend(keys)
        claims: list[PlannedClaim] = []
        for claim in plan.claims:
            if claim.name in kept:
                changed = self._holding(claim, on[claim.name])
                if changed is None:
                    return None
                claims.append(changed)
        claims += [replace(claim, name=f"{claim.pool}-{tag}-{n}") for n, claim in enumerate(part.claims)]
        work = plan.work + part.work
        return replace(self._with(plan, claims, on), work=work)

    def _with(self, plan: Plan, claims: Sequence[PlannedClaim], on: Mapping[str, Sequence[str]]) -> Plan:
        """The plan with these claims, and these pods on nodes that are there."""
        there = {node.name for node in self._there}
        existing = {name: keys for name, keys in plan.existing.items() if name not in there}
        for node in self._problem.nodes:
            if node.name in on:
                existing[node.name] = tuple(sorted({*existing.get(node.name, ()), *on[node.name]}))
        hourly = sum(claim.price for claim in claims)
        cost = Cost(hourly, min(plan.cost.lower_bound, hourly))
        return replace(plan, claims=tuple(claims), existing=existing, cost=cost)

    def _pins(self, claim: PlannedClaim, keys: Sequence[str]) -> Requirements:
        """What must be as planned for these pods, which are others than the claim was for: what they select,
        and zones where they lean on these.
        """
        pods = [self._asked[key] for key in keys if key not in claim.pods]
        asked = {one.key for pod in pods for some in pod_requirements(pod) for one in some}
        asked = asked.union(*map(leans_on, pods)) - {labels.HOSTNAME}
        tags = planned_node(self._problem, claim, self._asked).labels if asked else {}
        return Requirements.of(
            Requirement.new(key, "In", (tags[key],)) for key in sorted(asked & tags.keys())
        )

    def _holding(self, claim: PlannedClaim, keys: Sequence[str]) -> PlannedClaim | None:
        """The claim for these pods: those of its types that hold them."""
        before = total(pod_requests(self._asked[key]) for key in claim.pods)
        after = total(pod_requests(self._asked[key]) for key in keys)
        requests = add(subtract(claim.requests, before), after)
        types, pins = _types(self._problem, claim.pool), self._pins(claim, keys)
        names = tuple(
            name
            for name in claim.instance_types
            if fits(requests, types[name].allocatable()) and types[name].requirements.overlaps(pins)
        )
        if claim.instance_type not in names:
            return None
        requirements = claim.requirements.add(*pins)
        if len(names) < len(claim.instance_types):
            requirements = requirements.add(Requirement.new(labels.INSTANCE_TYPE, "In", names))
        prices = (
            one.price
            for name in names
            for one in types[name].offerings
            if one.available and requirements.overlaps(one.requirements)
        )
        return replace(
            claim,
            pods=tuple(sorted(keys)),
            requests=requests,
            instance_types=names,
            requirements=requirements,
            worst=max(prices) + claim.volumes + claim.surcharge,
        )


def _in_order(played: _Played) -> Plan:
    claims = {one.name: one for one in played.plan.claims}
    order = (replace(claims[name], opens=number) for number, name in enumerate(played.filled.turns, 1))
    return replace(played.plan, claims=tuple(order))


def _roomier(node: ExistingNode) -> ExistingNode:
    """With as much more memory than planned as simulated nodes have at most: 0.4 to 1.6 %."""
    memory = node.allocatable.get(MEMORY, 0)
    return replace(node, allocatable={**node.allocatable, MEMORY: memory + memory // 64})


def _types(problem: Problem, pool: str) -> dict[str, InstanceType]:
    found = next(one for one in problem.pools if one.name == pool)
    return {one.name: one for one in found.instance_types}


def _used(pool: Pool, bought: Sequence[ExistingNode]) -> Pool:
    """The pool with these nodes counted against its limits."""
    if not bought or pool.limits is None:
        return pool
    return replace(
        pool, usage=add(pool.usage, total((*(n.capacity for n in bought), {"nodes": len(bought)})))
    )
