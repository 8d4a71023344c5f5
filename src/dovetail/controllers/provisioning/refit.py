"""Where nothing is nominated: of plans, the one that costs least once the scheduler has filled its nodes.

The nodes open in the order in which the pods find most room (see `openings`), so that is played before they
are bought. What is left then would be a second plan's. So it is bought at once, and with it the plan is made
anew for some of the nodes: those with the most room for the money, or those that open last, with what they
hold. That is played again, and so on while it costs less. Of nine bursts for which the best order left pods
over, the first plan's nodes and a second plan's cost 1.136 of the first plan, and this one's 1.080.

Of more than a few pods the nodes of the plan, or of one on larger nodes, open at once, and those for what is
left over then open after them. That is sooner, and cheaper where pods are spread: zones-454 came to $15.20 an
hour with nodes that open as they come, to 15.36 in the order of the queue, and comes to 13.64.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from dovetail.api.core import Pod
from dovetail.base.streams import stream
from dovetail.controllers.provisioning.by_queue import BIASES, DRAWS, PARTS, ByQueue, Followed
from dovetail.controllers.provisioning.causes import leans_on
from dovetail.controllers.provisioning.exchange import owner_of
from dovetail.controllers.provisioning.openings import (
    FEW_PODS,
    MOST_AT_ONCE,
    MOST_NODES,
    MOST_NODES_AT_ONCE,
    MOST_PODS,
    PLAYS,
    STEPS,
    Filled,
    Openings,
    one_by_one,
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
# Of nodes that open at once. Which is best differs: zones-454 is expected at $15.05 an hour with any, and at
# 13.64 with 16; five-hundred at 16.67, and 16.45 with 8; rolling-530 at 17.92, and 19.09 with 16.
LEAST_CPUS = (0, 8, 16)
# Where a third of the pods is left over when nodes open at once, more nodes do not help: Deployments that
# keep away from each other's nodes are on all of them (293 of 532 pods, and 163 with 42 further nodes).
MOST_LEFT = 3
# Percent of what nodes that open one by one cost, up to which they open at once: 500 pods wait 25 s less.
AT_ONCE = 102
# Work for a question, in 50 ms of it: most are about some of the pods. zones-454 on nodes of 16 CPUs at least
# is planned at $14.25 an hour with little, at 13.03 with more.
LITTLE_WORK, MORE_WORK = 1, 6
# How nodes may turn out, of their memory in thousandths of a percent beyond what plans count on, as simulated
# ones do; draws for each plan, where a play takes 50 ms at most, and orders that are tried in each. As much
# more on all nodes passed a plan for 102 pods that leaves one or two over in each of six draws.
MORE_MEMORY = 200, 1_500
DRAWS_OF_MEMORY, DRAWN_PLAYS = 4, 12
MOST_BESIDE = 500  # nodes that are there, with which openings are not played

Ask = Callable[[Problem, int], Awaitable[Plan]]  # the solver, with so much work


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


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What was played, and what it costs in the mean of draws; `worst` is the one that leaves most over."""

    played: _Played
    hourly: int
    worst: _Played


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
        self._draws = DRAWS_OF_MEMORY if len(problem.pods) <= MOST_PODS else 1

    async def better(self, plan: Plan) -> Plan:
        """The plan, or one that is expected to cost less; its claims in the order in which they open."""
        if not self._worth_it(plan):
            return plan
        pods, found = len(self._problem.pods), list[_Played]()
        if pods > FEW_PODS:
            found += await self._at_once(plan)
        if pods <= MOST_PODS and len(plan.claims) <= MOST_NODES:
            found += await self._one_by_one(plan, min((one.hourly for one in found), default=0))
        return _in_order(await self._surest(found)) if found else plan

    async def _one_by_one(self, plan: Plan, known: int) -> list[_Played]:
        """Plans whose nodes open one after the other: where another is `known` at that cost, those that come
        to less by AT_ONCE, as pods wait longer for them.
        """
        best = await self._played(plan, PLAYS)
        found, few = [best], len(self._problem.pods) <= FEW_PODS
        if best.filled.left:
            others = await self._by_queue(plan, known)
            # Of many pods the plan that costs more at first was never the cheaper one in the end.
            if few or best.rank <= min((one.rank for one in others), default=best.rank):
                best = await self._improved(best)
            found = [best, *others]
        return [one if few else self._alike_at_once(one) for one in found if _much_less(one, known)]

    def _alike_at_once(self, played: _Played) -> _Played:
        """The same with nodes opened at once that would be filled alike, where that leaves no more over: each
        opening of one takes as long as the scheduler needs to try all pods.
        """
        nodes, content = played.nodes, defaultdict[str, Counter[object]](Counter)
        for key, name in played.filled.at.items():
            content[name][owner_of(self._asked[key])] += 1
        types = {one.name: (one.instance_type, one.taints) for one in played.plan.claims}
        runs = groupby(played.filled.turns, lambda name: (types[name], content[name]))
        groups = tuple(tuple(names) for _, names in runs)
        filled = Openings(self._view(nodes.values()), self._to_play(played.plan), nodes).play(groups)
        return replace(played, filled=filled) if filled.weight <= played.filled.weight else played

    async def _at_once(self, plan: Plan) -> list[_Played]:
        """Plans whose nodes open at once, and with them others for what is left over then, which open one
        after the other later: of the plan itself, and of ones on larger nodes.

        Scores even pods out over many nodes that are all open, and so mix pods that ask for CPUs with others
        that ask for memory, as a cheap plan does, where one node after the other would be filled with those
        of one Deployment.
        """
        found = list[_Played]()
        for least in LEAST_CPUS:
            start = await self._on_larger(plan, least) if least else plan
            most = min((one.hourly for one in found), default=2 * plan.cost.hourly)
            if start is not None and (played := await self._with_rest(start, most)) is not None:
                found.append(played)
        return found

    async def _on_larger(self, plan: Plan, least: int) -> Plan | None:
        """A plan on nodes of so many CPUs at least; None where that leaves pods over."""
        pools = []
        for pool in self._problem.pools:
            large = tuple(one for one in pool.instance_types if one.capacity.get(CPU, 0) >= least * 1000)
            pools.append(replace(pool, instance_types=large or pool.instance_types))
        found = await self._ask(replace(self._problem, pools=tuple(pools)), MORE_WORK)
        if found.relaxed or len(found.unschedulable) > len(plan.unschedulable):
            return None
        return replace(found, cost=replace(found.cost, lower_bound=plan.cost.lower_bound))

    async def _with_rest(self, plan: Plan, most: int) -> _Played | None:
        """The plan's nodes at once, and others for what is left over; None where that costs more than `most`,
        or pods are still left over in the end.
        """
        ends = [0]  # of the plan's nodes, and of those of each round, which open at once as well
        for number in range(ROUNDS):
            ends.append(len(plan.claims))
            if plan.cost.hourly > most or ends[-1] - ends[1] > MOST_NODES:
                break
            nodes, pods = self._nodes(plan), self._to_play(plan)
            openings = Openings(self._view(nodes.values()), pods, nodes)
            names = tuple(nodes)
            groups = tuple(names[start:end] for start, end in pairwise(ends))
            filled = await self._paused(openings.playing(groups))
            self._steps -= openings.steps
            played = _Played(plan, nodes, filled, plan.cost.hourly)
            if not filled.left:
                return played
            if len(filled.left) * MOST_LEFT > len(pods) or self._steps <= 0:
                break
            part = await self._ask(self._question(filled.left, nodes, filled, nodes), LITTLE_WORK)
            joined = self._joined(played, names, part, f"rest-{number}")
            if joined is None:
                break
            plan = joined
        return None

    async def _surest(self, found: Sequence[_Played]) -> _Played:
        """What costs least in the mean of what memory nodes may turn out to have, with what it lacks then.

        How much an instance has is not known before one of its type was there, and plans count on little.
        Where more fits on a node than planned, others are shut out of the next one: of a plan for 532 pods 29
        of 4 GiB were on a node that was to take 28, and 60 pods were left over in the end.
        """
        best: _Weighed | None = None
        known = set[tuple[int, int]]()
        for one in sorted(found, key=lambda one: one.rank):
            if best is not None and one.hourly >= best.hourly:
                break
            # Draws of plans by the queue often come to the same one, with other names.
            kind = one.plan.cost.hourly, len(one.nodes)
            if kind not in known:
                known.add(kind)
                best = await self._weighed(one, best.hourly if best is not None else 0) or best
        assert best is not None  # the first is weighed to the end
        return await self._with_what_lacks(best)

    async def _weighed(self, played: _Played, most: int) -> _Weighed | None:
        """None as soon as it shows that it costs as much as the `most`, 0 being no limit, or more."""
        drawn, hourly, least = list[_Played](), 0, played.plan.cost.hourly
        for number in range(self._draws):
            drawn.append(await self._drawn(played, number))
            hourly += drawn[-1].hourly
            if most and hourly + least * (self._draws - number - 1) >= most * self._draws:
                return None
        return _Weighed(played, hourly // self._draws, max(drawn, key=lambda one: one.filled.weight))

    async def _drawn(self, played: _Played, number: int) -> _Played:
        """What becomes of it with nodes of other memory, another one for each number."""
        nodes, plan = {name: _roomier(node, number) for name, node in played.nodes.items()}, played.plan
        openings = Openings(self._view(nodes.values()), self._to_play(plan), nodes)
        filled = await self._paused(openings.playing(played.filled.groups))
        if filled.left and len(self._problem.pods) <= FEW_PODS:
            for found in openings.search(filled.turns, DRAWN_PLAYS):  # as is done when they are up
                filled = found
                await self._pause()
        return _Played(plan, nodes, filled, plan.cost.hourly + await self._more(plan, nodes, filled))

    async def _with_what_lacks(self, best: _Weighed) -> _Played:
        """The same with nodes for what is left over in the draw in which that is most: a second plan would
        buy them later.
        """
        most = best.hourly * AT_ONCE // 100
        for number in range(ROUNDS):
            if best.played.filled.left or not best.worst.filled.left:
                break
            following = await self._relieved(best, f"more-{number}")
            weighed = await self._weighed(following, most) if following is not None else None
            if weighed is None:
                break
            best = weighed
        return best.played

    async def _relieved(self, best: _Weighed, tag: str) -> _Played | None:
        """With nodes for these pods, which open last; None where some have no place on such, or a claim would
        be left without pods.
        """
        plan, worst, groups = best.played.plan, best.worst, best.played.filled.groups
        question = self._question(worst.filled.left, worst.nodes, worst.filled, worst.nodes)
        part = await self._ask(question, LITTLE_WORK)
        gone = {key for claim in part.claims for key in claim.pods}
        kept = [self._holding(one, [key for key in one.pods if key not in gone]) for one in plan.claims]
        held = [claim for claim in kept if claim is not None and claim.pods]
        if not gone or part.relaxed or part.unschedulable or len(held) < len(kept):
            return None
        more = [replace(one, name=f"{one.pool}-{tag}-{n}") for n, one in enumerate(part.claims)]
        made = replace(self._with(plan, [*held, *more], {}), work=plan.work + part.work)
        nodes = self._nodes(made)
        openings = Openings(self._view(nodes.values()), self._to_play(made), nodes)
        filled = await self._paused(openings.playing((*groups, *one_by_one(one.name for one in more))))
        return _Played(made, nodes, filled, made.cost.hourly + await self._more(made, nodes, filled))

    async def _paused(self, playing: Generator[None, None, Filled]) -> Filled:
        """What the play comes to, with pauses."""
        try:
            while True:
                next(playing)
                await self._pause()
        except StopIteration as end:
            filled: Filled = end.value
        await self._pause()
        return filled

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

    async def _by_queue(self, plan: Plan, known: int) -> list[_Played]:
        """Plans for the order of the queue; only a few, if none of these costs much less than known."""
        pods, claims = self._to_play(plan), list(plan.claims)
        size = max(1, -(-len(pods) // PARTS))
        for number in range(0, len(pods), size):
            part = sorted(pods[number : number + size], key=lambda pod: pod.key)
            claims += (await self._ask(replace(self._problem, pods=tuple(part)), LITTLE_WORK)).claims
        drawing = ByQueue(self._problem, self._view(()), pods, claims, self._asked)
        found = list[_Played]()
        for number in range(DRAWS):
            if known and number == len(BIASES) and not any(_much_less(one, known) for one in found):
                break
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
        second = await self._ask(self._question(filled.left, nodes, filled, nodes), LITTLE_WORK)
        worst = sum(one.price for one in plan.claims)  # for a pod that has no place even then
        return second.cost.hourly + worst * len(second.unschedulable)

    def _worth_it(self, plan: Plan) -> bool:
        """Not where all is clear, where too much would have to be played, or where pools want a choice of
        types, which claims would not have any more.
        """
        few = len(self._problem.pods) <= MOST_AT_ONCE and len(self._there) <= MOST_BESIDE
        choosy = any(one.min_values is not None for claim in plan.claims for one in claim.requirements)
        return 1 < len(plan.claims) <= MOST_NODES_AT_ONCE and few and not choosy

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
            part = await self._ask(question, LITTLE_WORK)
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
            if one.launchable and requirements.overlaps(one.requirements)
        )
        return replace(
            claim,
            pods=tuple(sorted(keys)),
            requests=requests,
            instance_types=names,
            requirements=requirements,
            worst=max(prices) + claim.volumes + claim.surcharge,
        )


def _much_less(played: _Played, known: int) -> bool:
    """True iff it is worth waiting for instead of what is known at that cost, 0 being nothing."""
    return not known or played.hourly * AT_ONCE <= known * 100


def _in_order(played: _Played) -> Plan:
    claims, filled = {one.name: one for one in played.plan.claims}, played.filled
    order = (
        replace(claims[name], opens=number) for number, names in enumerate(filled.groups, 1) for name in names
    )
    return replace(played.plan, claims=tuple(order))


def _roomier(node: ExistingNode, number: int) -> ExistingNode:
    """With so much more memory than planned as nodes of its type have in that draw."""
    memory, kind = node.allocatable.get(MEMORY, 0), node.labels.get(labels.INSTANCE_TYPE, "")
    share = stream(number, kind, "memory of a draw").randrange(*MORE_MEMORY)
    more = node.capacity.get(MEMORY, 0) * share // 100_000
    return replace(node, allocatable={**node.allocatable, MEMORY: memory + more})


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
