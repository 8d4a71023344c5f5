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

from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.meta import Meta, OwnerReference
from dovetail.controllers.provisioning.openings import (
    MOST_NODES,
    MOST_PODS,
    PLAYS,
    STEPS,
    Filled,
    Openings,
    resolver,
)
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement
from dovetail.model.resources import CPU, MEMORY, PODS, add, fits, pod_requests, quantities, subtract, total

ROUNDS = 4  # of plans made anew, at most: nine bursts needed two
# Nodes that are bought anew at once, beside what is left: 24 bursts of up to 50 pods came to $24.17 an hour,
# with two at most to 24.30, with one to 24.42.
MOST_ANEW = 4
# Steps of plays in all (see `openings`): 3 s of a core between others' turns at most; 154 pods take 0.8. With
# 400,000 nothing was made anew for 136 pods under rules: each play takes 4,500, and 13 were left over.
MOST_STEPS = 1_000_000
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
        """The plan, or one that is expected to cost less; its claims in the order in which they open."""
        if not self._worth_it(plan):
            return plan
        best = await self._played(plan, PLAYS)
        for number in range(ROUNDS):
            if not best.filled.left:
                break
            found = [one async for one in self._anew(best, str(number))]
            following = min(found, key=lambda one: one.rank, default=best)
            if following.rank >= best.rank:
                break
            best = following
        return _in_order(best)

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
        nodes = {one.name: planned_node(self._problem, one, self._asked) for one in plan.claims}
        view = ClusterView((), self._problem.namespaces, self._problem.volumes, self._resolve)
        for node in (*self._there, *nodes.values()):
            view.set_node(view_of(node))
            for pod in node.pods:
                view.add_pod(pod, node.name)
        away = {node.name for node in self._problem.nodes if node.in_flight}
        elsewhere = {key for name in away for key in plan.existing.get(name, ())}
        elsewhere.update(one.pod for one in plan.unschedulable)
        pods = [pod for pod in self._queue if pod.key not in elsewhere]
        openings = Openings(view, pods, nodes)
        filled = Filled((), {}, tuple(pods))
        for found in openings.search(given, plays, min(STEPS * plays // PLAYS, self._steps)):
            filled = found
            await self._pause()
        self._steps -= openings.steps
        hourly = plan.cost.hourly
        if filled.left:
            second = await self._ask(self._question(filled.left, nodes, filled, nodes))
            worst = sum(one.price for one in plan.claims)  # for a pod that has no place even then
            hourly += second.cost.hourly + worst * len(second.unschedulable)
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
        existing = {
            name: keys for name, keys in plan.existing.items() if name not in {n.name for n in self._there}
        }
        for node in self._problem.nodes:
            if on[node.name]:
                existing[node.name] = tuple(sorted({*existing.get(node.name, ()), *on[node.name]}))
        hourly = sum(claim.price for claim in claims)
        cost = Cost(hourly, min(plan.cost.lower_bound, hourly))
        return replace(plan, claims=tuple(claims), existing=existing, cost=cost, work=plan.work + part.work)

    def _holding(self, claim: PlannedClaim, keys: Sequence[str]) -> PlannedClaim | None:
        """The claim for these pods: those of its types that hold them."""
        before = total(pod_requests(self._asked[key]) for key in claim.pods)
        after = total(pod_requests(self._asked[key]) for key in keys)
        requests = add(subtract(claim.requests, before), after)
        types = _types(self._problem, claim.pool)
        names = tuple(name for name in claim.instance_types if fits(requests, types[name].allocatable()))
        if claim.instance_type not in names:
            return None
        requirements = claim.requirements
        if len(names) < len(claim.instance_types):
            requirements = requirements.add(Requirement.new(labels.INSTANCE_TYPE, "In", names))
        pods = tuple(sorted(keys))
        return replace(claim, pods=pods, requests=requests, instance_types=names, requirements=requirements)


def _in_order(played: _Played) -> Plan:
    claims = {one.name: one for one in played.plan.claims}
    order = (replace(claims[name], opens=number) for number, name in enumerate(played.filled.turns, 1))
    return replace(played.plan, claims=tuple(order))


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


def planned_node(problem: Problem, claim: PlannedClaim, asked: Mapping[str, Pod]) -> ExistingNode:
    """The node that the cloud makes of the claim if it has its cheapest offering, with its daemons."""
    pool = next(item for item in problem.pools if item.name == claim.pool)
    kind = next(item for item in pool.instance_types if item.name == claim.instance_type)
    offering = next(
        one for one in kind.offerings if (one.zone, one.capacity_type) == (claim.zone, claim.capacity_type)
    )
    tags = {**kind.requirements.labels(), **offering.requirements.labels(), **claim.labels}
    tags |= {labels.NODEPOOL: claim.pool, labels.HOSTNAME: claim.name}
    room, pods = kind.allocatable(), daemons(claim, asked)
    return ExistingNode(claim.name, tags, claim.taints, room, kind.capacity, pods, claim.pool)


def daemons(claim: PlannedClaim, asked: Mapping[str, Pod]) -> tuple[Pod, ...]:
    """So many pods as the claim has room for beside its own; the first asks for all that is left for them.

    Scores go by the shares of a node that are in use: less of everything is not the same. A pod of a plan for
    41 pods on five nodes was expected to have room, and 12 of them on other nodes than they went to.
    """
    left = subtract(claim.requests, total(pod_requests(asked[key]) for key in claim.pods))
    none = {CPU: 0, MEMORY: 0}
    each = none | {name: amount for name, amount in left.items() if name != PODS and amount > 0}
    found = []
    for number in range(left.get(PODS, 0)):
        requests = quantities(none if number else each)
        owner = OwnerReference(
            api_version="apps/v1", kind="DaemonSet", name="daemons", uid="", controller=True
        )
        meta = Meta(name=f"{claim.name}-{number}", namespace="kube-system", owner_references=(owner,))
        container = Container(resources=ResourceRequirements(requests=requests))
        found.append(Pod(metadata=meta, spec=PodSpec(node_name=claim.name, containers=(container,))))
    return tuple(found)


def view_of(node: ExistingNode) -> NodeView:
    """The node as the scheduler sees it, without its pods."""
    return NodeView(
        name=node.name,
        labels={labels.HOSTNAME: node.name, **node.labels},
        allocatable=node.allocatable,
        taints=node.taints,
        volume_limits=node.volume_limits,
    )
