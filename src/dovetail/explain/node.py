"""A node's whole story: what fills it and how full, why it is of this type, and what else there was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.api.core import Pod
from dovetail.explain.aftermath import aftermath
from dovetail.explain.criteria import PoolView, distances
from dovetail.explain.miss import Miss, Offer
from dovetail.explain.wanted import Wanted
from dovetail.model import labels
from dovetail.model.arrays import Amounts
from dovetail.model.label_values import Requirement
from dovetail.model.occupancy import is_daemon
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests, subtract, total
from dovetail.model.shared_limits import given_back
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.pool_table import NODES

_CHEAPER = 5  # types that would be cheaper, but do not do


@dataclass(frozen=True, slots=True)
class Fill:
    """One resource of a node, in the units of model/resources."""

    name: str
    pods: int  # what its pods ask for, daemons left out
    daemons: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class Option:
    """A type that was looked at, in its cheapest offering. Invariant: `misses` is empty iff it would do."""

    offer: Offer
    misses: tuple[Miss, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeStory:
    """Everything there is to say of one node."""

    name: str
    pool: str  # '' if of none that is given
    planned: bool  # True iff it is to be bought
    offer: Offer | None  # None: type or price are not known
    pods: tuple[tuple[str, Resources], ...]  # (pod, requests), the largest first
    fill: tuple[Fill, ...]
    flexible: int = 1  # types that the cloud may choose from
    arriving: int = 0  # pods that the plan adds to a node that is there
    possible: tuple[Option, ...] = ()  # types that would hold the pods, cheapest first
    cheaper: tuple[Option, ...] = ()  # cheaper types that would not, the nearest first
    cut: bool = False  # True iff the time was over before all other types were looked at
    worth: int | None = None  # nano-dollars per hour that the proof counts for its pods


def node_names(problem: Problem, plan: Plan) -> list[str]:
    """The nodes that there is a story of."""
    return [claim.name for claim in plan.claims] + [node.name for node in problem.nodes]


def node_story(
    problem: Problem, plan: Plan, name: str, over: Callable[[], bool] = lambda: False
) -> NodeStory:
    """The story of a node that is there or planned, as far as there is time until `over`."""
    claim = next((item for item in plan.claims if item.name == name), None)
    if claim is not None:
        story = _planned(problem, plan, claim, over)
        return replace(story, cut=over())
    node = next(item for item in problem.nodes if item.name == name)
    return replace(_existing(problem, plan, node, over), cut=over())


def _planned(problem: Problem, plan: Plan, claim: PlannedClaim, over: Callable[[], bool]) -> NodeStory:
    its = set(claim.pods)
    pods = [pod for pod in problem.pods if pod.key in its]
    after = aftermath(problem, plan, tuple(pods))
    view = _view(after, claim.pool)
    wanted = _as_claimed(view, claim, pods)
    offer = Offer(claim.instance_type, claim.zone, claim.capacity_type, claim.price, claim.price_estimated)
    possible, cheaper = _options(view, _vector(view, pods), wanted, claim.price, over)
    worths = {pod: item.each for item in plan.proof.worth for pod in item.pods}
    return NodeStory(
        name=claim.name,
        pool=claim.pool,
        planned=True,
        offer=offer,
        pods=_largest_first(pods),
        fill=_fill(view, claim.instance_type, pods),
        flexible=len(claim.instance_types),
        possible=possible,
        cheaper=cheaper,
        worth=sum(worths.get(pod, 0) for pod in claim.pods) if plan.proof.worth else None,
    )


def _existing(problem: Problem, plan: Plan, node: ExistingNode, over: Callable[[], bool]) -> NodeStory:
    added = set(plan.existing.get(node.name, ()))
    arriving = [pod for pod in problem.pods if pod.key in added]
    running = [pod for pod in node.pods if not pod.terminal]
    daemons = [pod for pod in running if is_daemon(pod)]
    pods = [pod for pod in running if not is_daemon(pod)] + arriving
    taken = _total(daemons)
    asked = _total(pods)
    fill = tuple(
        Fill(name, asked.get(name, 0), taken.get(name, 0), node.allocatable.get(name, 0))
        for name in sorted({*asked, *taken})
    )
    found = NodeStory(
        name=node.name,
        pool=node.pool,
        planned=False,
        offer=None,
        pods=_largest_first(pods),
        fill=fill,
        arriving=len(arriving),
    )
    if all(pool.name != node.pool for pool in problem.pools):
        # Nothing would be bought in its place; what it costs may be known from what pools may buy.
        views = (_view(problem, pool.name) for pool in problem.pools if not over())
        offers = (_sold_as(view, node) for view in views)
        return replace(found, pool="", offer=next((offer for offer in offers if offer is not None), None))
    if over():
        return found
    view = _view(_without(aftermath(problem, plan, tuple(pods)), node), node.pool)
    offer = _sold_as(view, node)
    if offer is None:
        return found
    possible, cheaper = _options(view, _vector(view, pods), _as_placed(node, pods), offer.price, over)
    return replace(found, offer=offer, possible=possible, cheaper=cheaper)


def _without(problem: Problem, node: ExistingNode) -> Problem:
    """The problem as if the node were not there: what it takes of limits is free."""
    used = {**node.capacity, NODES: 1}
    pools = tuple(
        replace(pool, usage=subtract(pool.usage, used)) if pool.name == node.pool else pool
        for pool in problem.pools
    )
    kept = tuple(item for item in problem.nodes if item.name != node.name)
    commons = given_back(problem.commons, problem.pools, (node,))
    return replace(problem, nodes=kept, pools=pools, commons=commons)


def _view(problem: Problem, pool: str) -> PoolView:
    instance = Instance(problem, SolveBudget(Budget()))
    return PoolView(instance, next(table.index for table in instance.tables if table.pool.name == pool))


def _as_claimed(view: PoolView, claim: PlannedClaim, pods: list[Pod]) -> Wanted:
    """What the node's claim demands beyond its pool; of instance types, what the pods do."""
    demands = [
        item
        for item in claim.requirements
        if item.key != labels.INSTANCE_TYPE and view.base.by_key.get(item.key) != item
    ]
    named = [each.get(labels.INSTANCE_TYPE) for pod in pods for each in pod_requirements(pod)[:1]]
    demands += [item for item in dict.fromkeys(named) if not item.complement or item.values]
    return _wanted(Requirements.of(demands))


def _as_placed(node: ExistingNode, pods: list[Pod]) -> Wanted:
    """What the pods demand, each by the first alternative that the node meets; they stay in its zone."""
    here = Requirements.from_labels({labels.HOSTNAME: node.name, **node.labels})
    demands: list[Requirement] = []
    for pod in pods:
        ways = pod_requirements(pod)
        demands += next((way for way in ways if here.suits(way)), ())
    zone = node.labels.get(labels.ZONE)
    demands += [Requirement.new(labels.ZONE, "In", (zone,))] if zone else []
    return _wanted(Requirements.of(item for item in demands if item.key != labels.HOSTNAME))


def _wanted(demands: Requirements) -> Wanted:
    needed = frozenset(item.key for item in demands if not item.allows_absence())
    return Wanted(demands, Requirements(), needed, who="its pods need")


def _sold_as(view: PoolView, node: ExistingNode) -> Offer | None:
    """The offering that the node is, by its labels."""
    name, zone = node.labels.get(labels.INSTANCE_TYPE, ""), node.labels.get(labels.ZONE, "")
    capacity = labels.capacity_type(node.labels) or labels.ON_DEMAND
    for column, offering in enumerate(view.table.offerings):
        if (view.name(column), offering.zone, offering.capacity_type) == (name, zone, capacity):
            return view.offer(column)
    return None


def _options(
    view: PoolView, vector: Amounts, wanted: Wanted, price: int, over: Callable[[], bool]
) -> tuple[tuple[Option, ...], tuple[Option, ...]]:
    """Types that would do, cheapest first, and cheaper ones that would not, the nearest first."""
    if over():
        return (), ()
    rules = list(view.node_rules(vector, wanted))
    weights = distances(rules)
    order = np.lexsort((view.table.price, np.round(weights, 9)))
    seen: set[str] = set()
    possible: list[Option] = []
    short: list[Option] = []
    for column in order.tolist():
        if over():
            break
        if view.name(column) in seen or not view.priced(column):
            continue
        seen.add(view.name(column))
        misses = tuple(rule.miss(column) for rule in rules if not rule.holds[column])
        if not misses:
            possible.append(Option(view.offer(column)))
        elif view.table.price[column] < price and len(short) < _CHEAPER:
            short.append(Option(view.offer(column), misses))
    return tuple(possible), tuple(short)


def _fill(view: PoolView, kind: str, pods: list[Pod]) -> tuple[Fill, ...]:
    number = next(index for index, item in enumerate(view.table.types) if item.name == kind)
    total, daemons = _total(pods), view.instance.axis.mapping(view.daemons[number])
    allocatable = view.table.types[number].allocatable()
    return tuple(
        Fill(name, total.get(name, 0), daemons.get(name, 0), allocatable.get(name, 0))
        for name in sorted({*total, *daemons})
    )


def _vector(view: PoolView, pods: list[Pod]) -> Amounts:
    return view.instance.axis.vector(_total(pods))


def _total(pods: list[Pod]) -> dict[str, int]:
    return total(pod_requests(pod) for pod in pods)


def _largest_first(pods: list[Pod]) -> tuple[tuple[str, Resources], ...]:
    found = [(pod.key, pod_requests(pod)) for pod in pods]
    return tuple(sorted(found, key=lambda item: (-item[1].get(CPU, 0), -item[1].get(MEMORY, 0), item[0])))
