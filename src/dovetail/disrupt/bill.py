"""The money question of a whole cluster: what it costs now, what its pods must cost, and where the rest goes.

Pure. Nodes of NodePools can go; where no node is of one, all can, as on the day before NodePools take over.
The others stay as they are, and so do their pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from dovetail.api.core import Pod
from dovetail.api.meta import Meta, OwnerReference
from dovetail.api.workloads import DaemonSet
from dovetail.disrupt.consolidation.judge import judged
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import Refused
from dovetail.disrupt.consolidation.question import Candidate, Finding, Move, Question
from dovetail.disrupt.consolidation.search import search
from dovetail.disrupt.pods import eviction_cost, owned_by, reschedulable, unbound
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import pod_requirements
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests, subtract, total
from dovetail.solve.budget import SolveBudget

Solve = Callable[[Problem], Plan]
_PODS_A_SECOND = 6_000  # of one turn of a search for moves, at best: in less time it finds nothing
_GROUP = "eks.amazonaws.com/nodegroup"


@dataclass(frozen=True, slots=True)
class Price:
    """Of a node, all parts of it, in nano-dollars per hour; `on_demand` is the same machine's on demand.

    `listed` is what the cloud asks for the instance alone, whatever NodeOverlays say.
    """

    hourly: int
    on_demand: int
    estimated: bool = False
    listed: int = 0


Prices = Mapping[str, Price]  # by name of node; what is not there is unknown


@dataclass(frozen=True, slots=True)
class Parts:
    """What money buys, in nano-dollars per hour; the three make up the cost.

    A node's price is shared by the resource (CPU or memory) of which most is asked for. `listed` is what is
    `used`, had its nodes been bought on demand.
    """

    used: int = 0
    daemons: int = 0
    unused: int = 0
    listed: int = 0

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.used + other.used,
            self.daemons + other.daemons,
            self.unused + other.unused,
            self.listed + other.listed,
        )

    @property
    def cost(self) -> int:
        return self.used + self.daemons + self.unused


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of a NodePool, of a managed group, or of neither. Shares are of what pods may use, 0 to 1."""

    name: str
    nodes: int
    unpriced: int
    parts: Parts
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Repacking:
    """What moving pods between the nodes that are there, and replacing some, comes to.

    `looked` of the `nodes` that can go either go or are known to stay. `complete` is True iff the search
    came to its end; else what it found is there to be had, and more may be.
    """

    saving: int  # nano-dollars per hour
    pods: int  # that move, each counted once
    nodes_gone: int
    nodes_bought: int
    looked: int
    nodes: int
    complete: bool
    moves: tuple[Move, ...] = ()  # one after another; later ones may be of nodes that earlier ones bought


@dataclass(frozen=True, slots=True)
class Fresh:
    """The movable pods on the cheapest new nodes found, in nano-dollars per hour.

    `least` is what any nodes for them cost at least. The difference between what they cost now and `cost` is
    packing + types + spot + daemons.
    """

    cost: int
    least: int
    packing: int
    types: int
    spot: int
    daemons: int


@dataclass(frozen=True, slots=True)
class Bill:
    """Nano-dollars per hour. `now` are all priced nodes; `movable` is the part of it that could change.

    `fresh` is None iff the search for new nodes did not come to `untried` of the `pods` that can move.
    """

    groups: tuple[Group, ...]
    now: Parts
    movable: Parts
    kept: int  # nodes that stay as they are
    pods: int
    untried: int
    homeless: tuple[str, ...]  # pods that run now, and that the NodePools have no place for
    fresh: Fresh | None

    @property
    def cost(self) -> int:
        return self.now.cost

    @property
    def unused(self) -> float:
        """The share of the money that buys what no pod asked for."""
        return self.now.unused / self.now.cost if self.now.cost else 0.0


def bill(problem: Problem, prices: Prices, plan: Plan) -> Bill:
    """`plan` answers `anew(problem)`."""
    movable = movable_nodes(problem)
    groups = _groups(problem.nodes, prices)
    moved = [node for node in problem.nodes if node.name in movable]
    now = sum((group.parts for group in groups), Parts())
    share = sum((parts(node, prices[node.name]) for node in moved if node.name in prices), Parts())
    asked = anew(problem)
    return Bill(
        groups=groups,
        now=now,
        movable=share,
        kept=len(problem.nodes) - len(moved),
        pods=len(asked.pods),
        untried=len(plan.untried),
        homeless=plan.refused,
        fresh=None if plan.untried else _fresh(share, asked, plan),
    )


def _fresh(now: Parts, asked: Problem, plan: Plan) -> Fresh:
    wanted = {pod.key: pod for pod in asked.pods}
    after = sum((_planned(claim, asked, wanted) for claim in plan.claims), Parts())
    return Fresh(
        cost=plan.cost.hourly,
        least=plan.cost.lower_bound,
        packing=now.unused - after.unused,
        types=now.listed - after.listed,
        spot=(now.used - after.used) - (now.listed - after.listed),
        daemons=now.daemons - after.daemons,
    )


def movable_nodes(problem: Problem) -> frozenset[str]:
    """Names of the nodes that can go."""
    pools = {pool.name for pool in problem.pools}
    ours = frozenset(node.name for node in problem.nodes if node.pool in pools)
    return ours or frozenset(node.name for node in problem.nodes if not node.in_flight)


def anew(problem: Problem) -> Problem:
    """The pods of movable nodes are to be placed, as if the nodes had never been. Pending ones are not."""
    return without(problem, movable_nodes(problem))


def without(problem: Problem, going: frozenset[str]) -> Problem:
    """The pods of these nodes are to be placed, on those that stay or on new ones. Pending ones are not."""
    away = [node for node in problem.nodes if node.name in going]
    pods = tuple(unbound(pod) for node in away for pod in node.pods if reschedulable(pod))
    return replace(
        problem,
        pods=pods,
        nodes=tuple(node for node in problem.nodes if node.name not in going),
        pools=tuple(replace(pool, usage=_left(pool, away)) for pool in problem.pools),
    )


def _left(pool: Pool, away: Sequence[ExistingNode]) -> Resources:
    gone = [{**node.capacity, "nodes": 1} for node in away if node.pool == pool.name]
    return subtract(pool.usage, total(gone)) if gone else pool.usage


def _groups(nodes: Iterable[ExistingNode], prices: Prices) -> tuple[Group, ...]:
    found: dict[str, list[ExistingNode]] = {}
    for node in nodes:
        found.setdefault(node.pool or node.labels.get(_GROUP, ""), []).append(node)
    return tuple(_group(name, found[name], prices) for name in sorted(found))


def _group(name: str, nodes: Sequence[ExistingNode], prices: Prices) -> Group:
    room = total(node.allocatable for node in nodes)
    asked = total(pod_requests(pod) for node in nodes for pod in node.pods)
    priced = [node for node in nodes if node.name in prices]
    return Group(
        name,
        len(nodes),
        len(nodes) - len(priced),
        sum((parts(node, prices[node.name]) for node in priced), Parts()),
        *(
            asked.get(resource, 0) / room[resource] if room.get(resource) else 0.0
            for resource in (CPU, MEMORY)
        ),
    )


def parts(node: ExistingNode, price: Price) -> Parts:
    """What its price buys."""
    daemons = [pod for pod in node.pods if owned_by(pod, "DaemonSet") or owned_by(pod, "Node")]
    names = {pod.key for pod in daemons}
    others = (pod_requests(pod) for pod in node.pods if pod.key not in names)
    return _shared(price, total(others), total(map(pod_requests, daemons)), node.allocatable)


def _planned(claim: PlannedClaim, problem: Problem, asked: Mapping[str, Pod]) -> Parts:
    """Of a node to buy, whose pods `asked` has by key."""
    pods = total(pod_requests(asked[key]) for key in claim.pods)
    daemons = {name: max(0, amount - pods.get(name, 0)) for name, amount in claim.requests.items()}
    return _shared(bought_price(claim, problem), pods, daemons, _kind(claim, problem).allocatable())


def bought_price(claim: PlannedClaim, problem: Problem) -> Price:
    """Of a node to buy."""
    kind, offer = _kind(claim, problem), (claim.zone, claim.capacity_type)
    listed = on_demand(kind, claim.zone, claim.instance_price)
    asked = (one.list_price for one in kind.offerings if (one.zone, one.capacity_type) == offer)
    extra = claim.price - claim.instance_price
    of_cloud = next(asked, 0) or claim.instance_price
    return Price(claim.price, extra + listed, claim.price_estimated, of_cloud)


def _kind(claim: PlannedClaim, problem: Problem) -> InstanceType:
    pool = next(pool for pool in problem.pools if pool.name == claim.pool)
    return next(item for item in pool.instance_types if item.name == claim.instance_type)


def on_demand(kind: InstanceType, zone: str, otherwise: int) -> int:
    """What the type costs on demand in the zone, in nano-dollars per hour; `otherwise` if not sold there."""
    found = (
        one.price
        for one in kind.offerings
        if (one.zone, one.capacity_type) == (zone, labels.ON_DEMAND) and one.price
    )
    return next(found, otherwise)


def _shared(price: Price, pods: Resources, daemons: Resources, room: Resources) -> Parts:
    """A price among its pods and daemons by what they ask for, of `room`."""
    both = total((pods, daemons))
    shares = {name: both.get(name, 0) / room[name] for name in (CPU, MEMORY) if room.get(name, 0) > 0}
    if not shares:
        return Parts(unused=price.hourly)
    most = max(shares, key=lambda name: shares[name])
    full = min(1.0, shares[most])
    ours = pods.get(most, 0) / both[most] if both.get(most) else 0.0
    used = round(price.hourly * full * ours)
    kept = round(price.hourly * full * (1 - ours))
    return Parts(used, kept, price.hourly - used - kept, round(price.on_demand * full * ours))


def repack(
    problem: Problem, prices: Prices, what_if: Solve, work: SolveBudget, fresh: Plan | None = None
) -> Repacking | None:
    """Move after move as consolidation finds them, with no budget but work; None where nothing is priced.

    `what_if` plans each move that is tried. Once `work` is used up, it is left at what was found. `fresh`
    answers `anew(problem)`: where the search found nothing in time, all nodes for new ones are a move too.
    """
    movable = movable_nodes(problem)
    standing = replace(problem, pods=())
    costs = {name: price.hourly for name, price in prices.items() if name in movable}
    if not costs:
        return None
    names = count()
    origins = frozenset(costs)
    moved: set[str] = set()
    saving = bought = 0
    moves: list[Move] = []
    turn = Turn()
    pods = sum(len(node.pods) for node in problem.nodes if node.name in costs)
    while work.left and work.seconds > pods / _PODS_A_SECOND:
        turn = _next(standing, costs, what_if, work)
        if turn.move is None:
            break
        saving += turn.move.saving
        moves.append(turn.move)
        moved |= {pod.key for one in turn.move.candidates for pod in one.pods}
        standing = applied(standing, turn.move, costs, names)
        bought += len(turn.move.claims) - sum(one.name not in origins for one in turn.move.candidates)
    if not moves and not turn.complete and fresh is not None and origins == movable:
        try:
            move = _all_at_once(standing, costs, fresh)
        except Refused:
            pass
        else:
            return Repacking(
                move.saving,
                len({pod.key for one in move.candidates for pod in one.pods}),
                len(origins),
                len(move.claims),
                len(origins),
                len(origins),
                complete=False,
                moves=(move,),
            )
    gone = origins - costs.keys()
    looked = len(origins) if turn.complete else len(gone) + len(origins & turn.stay)
    return Repacking(saving, len(moved), len(gone), bought, looked, len(origins), turn.complete, tuple(moves))


@dataclass(frozen=True, slots=True)
class Turn:
    """One search for a move. `stay` are nodes that it knows to stay; `complete` iff there is no move; `next`
    as the finding has it.
    """

    move: Move | None = None
    stay: frozenset[str] = frozenset()
    complete: bool = False
    next: tuple[str, ...] | None = None


def _next(problem: Problem, costs: Mapping[str, int], what_if: Solve, work: SolveBudget) -> Turn:
    return searched(_freely(problem, costs), Memory(), what_if, work, 0)


def _freely(problem: Problem, costs: Mapping[str, int]) -> Question:
    """Which of the nodes with a price should go, if nothing held them back?"""
    candidates = tuple(candidate(node, costs[node.name]) for node in problem.nodes if node.name in costs)
    pools = {one.pool for one in candidates}
    return Question(problem, candidates, dict.fromkeys(pools, len(candidates)), spot_to_spot=True)


def _all_at_once(problem: Problem, costs: Mapping[str, int], fresh: Plan) -> Move:
    """All nodes that can go for those of the plan; raises Refused."""
    asked = _freely(problem, costs)
    return judged(asked, asked.candidates, asked.without(asked.candidates), fresh)


def searched(asked: Question, memory: Memory, what_if: Solve, work: SolveBudget, now: int) -> Turn:
    """What consolidation finds. `now` in nanoseconds, for what `memory` keeps from one turn to the next."""
    known = {one.name for one in asked.candidates}
    asking = search(asked, memory, work, now)
    hurried: list[set[str]] = []  # sets of nodes whose what-if was not planned to the end: that says nothing
    try:
        question = next(asking)
        while True:
            plan = what_if(question)
            if plan.untried:
                hurried.append(known - {node.name for node in question.nodes})
            question = asking.send(plan)
    except StopIteration as done:
        finding: Finding = done.value
    alone = (names for names in hurried if len(names) == 1)
    stay = frozenset(refusal.name for refusal in finding.refusals).difference(*alone)
    complete = finding.move is None and finding.complete and not hurried
    return Turn(finding.move, stay, complete, finding.next)


def candidate(node: ExistingNode, price: int) -> Candidate:
    """The node as one that may go."""
    pods = tuple(pod for pod in node.pods if reschedulable(pod))
    offer = tuple(
        node.labels.get(key, "") for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
    )
    cost = sum(max(0.0, eviction_cost(pod)) for pod in pods)
    return Candidate(
        node.name, node.pool, (offer[0], offer[1], offer[2]), price, cost, tuple(map(unbound, pods))
    )


def applied(
    problem: Problem,
    move: Move,
    costs: dict[str, int],
    names: Iterator[int],
    renewed: Callable[[Pod], Pod] = lambda pod: pod,
) -> Problem:
    """As it is after the move; `costs` gets the new nodes in place of those that go.

    `renewed` makes of a pod the one that comes in its place.
    """
    pods = {pod.key: renewed(pod) for one in move.candidates for pod in one.pods}
    gone = {one.name for one in move.candidates}
    away = [node for node in problem.nodes if node.name in gone]
    stay = [
        replace(node, pods=(*node.pods, *(pods[key] for key in move.places[node.name] if key in pods)))
        if node.name in move.places
        else node
        for node in problem.nodes
        if node.name not in gone
    ]
    for name in gone:
        costs.pop(name, None)
    for claim in move.claims:
        node = _bought(problem, claim, f"{claim.name}+{next(names)}", pods)
        node = replace(node, pods=(*node.pods, *map(renewed, _daemons(problem.daemonsets, node))))
        costs[node.name] = claim.price
        stay.append(node)
    pools = tuple(replace(pool, usage=_left(pool, away)) for pool in problem.pools)
    return replace(problem, nodes=tuple(stay), pools=pools)


def _bought(problem: Problem, claim: PlannedClaim, name: str, pods: Mapping[str, Pod]) -> ExistingNode:
    pool = next(pool for pool in problem.pools if pool.name == claim.pool)
    kind = _kind(claim, problem)
    fixed = {
        key: next(iter(one.values))
        for key, one in kind.requirements.by_key.items()
        if len(one.values) == 1 and not one.complement
    }
    stamped = {
        **fixed,
        **pool.labels,
        **claim.labels,
        labels.INSTANCE_TYPE: claim.instance_type,
        labels.ZONE: claim.zone,
        labels.CAPACITY_TYPE: claim.capacity_type,
        labels.HOSTNAME: name,
    }
    there = tuple(pods[key] for key in claim.pods if key in pods)
    return ExistingNode(name, stamped, claim.taints, kind.allocatable(), kind.capacity, there, claim.pool)


def _daemons(daemonsets: Iterable[DaemonSet], node: ExistingNode) -> Iterator[Pod]:
    """Those that a node will run: what they ask for is no room for others."""
    for owner in daemonsets:
        meta, template = owner.metadata, owner.spec.template
        by = OwnerReference(
            api_version=owner.API_VERSION, kind=owner.KIND, name=meta.name, uid=meta.uid, controller=True
        )
        pod = Pod(
            metadata=Meta(
                name=f"{meta.name}-{node.name}",
                namespace=meta.namespace,
                labels=template.metadata.labels,
                owner_references=(by,),
            ),
            spec=template.spec,
        )
        if node.lets_in(pod_requirements(pod), template.spec.tolerations):
            yield pod
