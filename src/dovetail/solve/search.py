"""One pass of a solve: pods to domains, domains to nodes, nodes to a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import methodcaller

from dovetail.model.arrays import ENDLESS
from dovetail.model.plan import Cost, Plan, PlannedClaim, Proof
from dovetail.solve.assign.assigner import Assigner, LimitQuotas
from dovetail.solve.assign.items import Assignment, Item, Unit
from dovetail.solve.assign.spread_quotas import Seat, binding, surplus
from dovetail.solve.assign.strategies import Strategy, turns
from dovetail.solve.assign.topology_rules import Opened, restart
from dovetail.solve.bound.scope import Placement
from dovetail.solve.bound.topology_mip import small
from dovetail.solve.budget import HALF, MOST, SOME
from dovetail.solve.build.builder import Construction, Move, PlanBuilder, target_nodes_of
from dovetail.solve.build.opened_domains import OpenedDomains, merged
from dovetail.solve.build.plan_state import Part, PlannedNode, PlanState
from dovetail.solve.build.write import Reasons, claims_of, written
from dovetail.solve.colgen.generation import MarketProof
from dovetail.solve.instance.instance import lookup
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.greedy import Packing
from dovetail.solve.pack.multistart import choose
from dovetail.solve.pack.refine import MANY_NODES
from dovetail.solve.search_state import Answer, Case, SolveContext
from dovetail.solve.tolerances import FEW, MANY, TRIES

_PROOF = 0.4  # of the work left, kept for it where no rules tie pods together
PER_UNIT = 10  # of the work that is counted, moving pods one by one takes so much more


@dataclass(frozen=True, slots=True)
class Moved:
    """What comes of a move: pods left over, preferences given up, nano-dollars per hour, nodes."""

    rank: tuple[int, int, int, int]
    written: Callable[[], Answer]


class Search:
    """One pass: what is decided so far. Invariant: every pod is in exactly one of bought, existing, left."""

    def __init__(self, context: SolveContext, opened: Opened, strategy: Strategy) -> None:
        self.instance = context.instance
        self.columns = context.columns
        self._context = context
        self.opened = opened
        self.strategy = strategy
        restart(self.instance, opened, seen=strategy.seen)
        self.free = self.instance.nodes.capacity.copy()
        self.limits = Limits(self.instance, self.columns)
        self.assigner = Assigner(self.instance, strategy)
        self.existing: dict[int, list[Unit]] = {}
        self.bought: list[PlannedNode] = []
        self.taken_back = False  # True iff nodes for some pods could not be bought
        self.emptier: list[int] = []  # positions of bought nodes of which pods were taken back
        self.not_attempted: list[tuple[int, str]] = []  # that there was no time for
        self.dual_values: dict[int, float] = {}  # of a pod per pod class, where a packing found it out
        # Where rules tie pods together, whole nodes prove little.
        self._tied = any(pod_class.involved for pod_class in self.instance.pod_classes)
        self._market: MarketProof | None = None  # what the last packing proved
        self._buys = context.instance.problem.buys

    def run(self) -> Answer:
        assignment, last_chance = self._first_assignment(), False
        for _ in range(TRIES):
            self.not_attempted += assignment.not_attempted
            for row, units in assignment.existing.items():
                self.existing.setdefault(row, []).extend(units)
            left = self._pack(assignment.items, short=bool(assignment.left))
            waiting = sorted([*assignment.left, *left])
            if not left or not self._buys or (last_chance and self.instance.work.time_over):
                break
            last_chance = self.instance.work.time_over
            assignment = self.assigner.run(waiting, self._limit_quotas())
        if self.taken_back:
            waiting = sorted([*waiting, *self._even_out()])
        if (waiting or self.not_attempted) and not self.instance.work.time_over and (self._buys or not left):
            waiting, self.not_attempted = self._time_over(sorted([*waiting, *self.not_attempted])), []
        opened_domains = OpenedDomains(self.instance)
        self.bought = opened_domains.kept_out(self.bought)
        return self._answer(sorted([*waiting, *self.not_attempted]), opened_domains)

    def bounded(self) -> Plan:
        """What pods must cost on nodes of the pools that are meant for them, or of any where those may be
        full; none is given a place."""
        assignment = self._first_assignment()
        placed = list(_placements(assignment.existing, ()))
        for item in assignment.items:
            pools = self.instance.tiers[-1] if self.limits.any else item.pools
            for kind, pods in zip(item.kinds, zip(*item.bundles, strict=True), strict=True):
                placed.append(Placement(*kind, pools, pods))
        proof, _ = replace(self._case(), placed=lambda: placed).proof(ENDLESS, quick=True)
        return Plan(cost=Cost(0, proof.bound), proof=proof)

    def _limit_quotas(self) -> LimitQuotas | None:
        """Of pools with limits, where time is short: else buying nodes tells which pods are refused."""
        return LimitQuotas(self.instance, self.limits.remaining) if self.instance.work.short else None

    def move(self, move: Move) -> Moved:
        """The plan that a move makes; what comes of it is known before it is written."""
        plan_state = PlanState(self.instance, self.limits, self.opened, seen=self.strategy.seen)
        plan_state.count({}, [])
        builder = PlanBuilder(plan_state, self.columns, {}, most=move.most)
        seated = {pod for target_node in move.target_nodes for *_, pods in target_node.pods for pod in pods}
        seated.update(pod for _, pod in move.loose)
        before = self.instance.work.used
        waiting = Construction(builder, move).run(self._without(seated))
        self.instance.work.spend((self.instance.work.used - before) * PER_UNIT)
        self.existing, self.bought = builder.existing, builder.bought
        classes, placed = self.instance.pod_classes, _placements(self.existing, self.bought)
        given_up = sum(classes[one.pod_class].levels[one.level].lost * len(one.pods) for one in placed)
        price = sum(planned.made.price for planned in self.bought)

        def written() -> Answer:
            opened_domains = OpenedDomains(self.instance)
            self.bought = opened_domains.kept_out(self.bought)
            return self._answer(waiting, opened_domains, named=True)

        return Moved((len(waiting), given_up, price, len(self.bought)), written)

    def _without(self, pods: Collection[str]) -> list[tuple[int, str]]:
        """The (pod class, pod) pairs of all others."""
        return [
            (pod_class.index, pod)
            for pod_class in self.instance.pod_classes
            for pod in pod_class.pods
            if pod not in pods
        ]

    def _first_assignment(self) -> Assignment:
        """Domains for all pods that the strategy knows any for."""
        pods, held = turns(self.instance, self.strategy)
        assignment = self.assigner.run(pods, self._limit_quotas())
        self.instance.work.clock.checker()
        return replace(assignment, left=[*assignment.left, *held])

    def _pack(self, items: list[Item], *, short: bool) -> list[tuple[int, str]]:
        """Buy nodes for the items; the pods that none is for. If `short`, time is kept for another plan."""
        if not items or not self._buys:
            units = (unit for item in items for bundle in item.bundles for unit in item.units(bundle))
            return [(unit.pod_class, unit.pod) for unit in units]
        work = self.instance.work
        # Limits may need opinions of what to leave over.
        if work.left or (self.limits.tight and not work.time_over):
            self._context.appraise()
        share = self._spared(items)
        with self.instance.work.sparing(share, of_time=max(share, HALF if short else 0.0)):
            choice = choose(self.instance, self.columns, self.limits, items, self._context.begun)
            self._context.slice_over |= share > 0 and not self.instance.work.left
        self.limits, self._market = choice.limits, choice.market
        self.dual_values = {**choice.dual_values, **self.dual_values}
        left = self._take_back(items, self._hand_out(items, choice.packing))
        self.not_attempted += left if choice.cut else []
        return [] if choice.cut else left

    def _spared(self, items: list[Item]) -> float:
        """The share of the work that packing leaves to the proof."""
        if len(items) > FEW:
            return SOME if self._tied and len(items) > MANY else 0.0
        if not self._tied:
            return _PROOF
        pod_classes = sorted({pod_class for item in items for pod_class, _ in item.kinds})
        bound = self._context.topology_bound
        few = not bound.spent and small(self._context.feasible[pod_classes], self.instance.work)
        return MOST if few or bound.unfinished else 0.0

    def _hand_out(self, items: list[Item], packing: Packing) -> list[int]:
        """Give the bundles to the nodes; how many of each item found one."""
        given = [0] * len(items)
        for made in packing.candidates:
            parts: list[Part] = []
            for index, number in made.counts:
                parts.append((items[index], items[index].bundles[given[index] : given[index] + number]))
                given[index] += number
            self.bought.append(PlannedNode(made, tuple(parts)))
        return given

    def _take_back(self, items: list[Item], given: list[int]) -> list[tuple[int, str]]:
        """Forget the pods that no node could be bought for, and close the pools that they were for."""
        left: list[tuple[int, str]] = []
        for item, number in zip(items, given, strict=True):
            bundles = item.bundles[number:]
            if not bundles:
                continue
            self.taken_back = True
            for kind in item.kinds:
                self.assigner.forget(item, kind, len(bundles))
                self.assigner.checker.closed.update((kind[0], pool) for pool in item.pools)
            left.extend((unit.pod_class, unit.pod) for bundle in bundles for unit in item.units(bundle))
        return left

    def _time_over(self, left: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Try the pods that are left over once more, now that all others have their nodes."""
        hopeless = [pair for pair in left if not self._context.placeable(pair[0])]
        left = [pair for pair in left if self._context.placeable(pair[0])]
        if not left:
            return hopeless
        plan_state = PlanState(self.instance, self.limits, self.opened, seen=self.strategy.seen)
        plan_state.count(self.existing, self.bought)
        builder = PlanBuilder(plan_state, self.columns, self.existing)
        for position in self.emptier:
            builder.shrink(plan_state.sites[position])
        still = builder.insert(left)
        self.existing, self.bought = builder.existing, builder.bought
        return [*still, *hopeless]

    def _even_out(self) -> list[tuple[int, str]]:
        """Give up pods that stand too far ahead of those that no node could be bought for."""
        pod_classes, seats = self.instance.pod_classes, seats_of(self.assigner, self.existing, self.bought)
        out = surplus(self.instance.topology.groups, pod_classes, seats)
        if not out:
            return []
        staying = {
            row: [unit for unit in units if unit.pod not in out] for row, units in self.existing.items()
        }
        self.existing = {row: units for row, units in staying.items() if units}
        bought, self.bought = self.bought, []
        for planned in bought:
            kept = planned.without(out, pod_classes)
            if kept is not None:
                if kept is not planned:
                    self.emptier.append(len(self.bought))
                self.bought.append(kept)
            else:
                self.limits.give_back(planned.made)
        return [(seat.unit.pod_class, seat.unit.pod) for seat in seats if seat.unit.pod in out]

    def _answer(
        self, left: list[tuple[int, str]], opened_domains: OpenedDomains, *, named: bool = False
    ) -> Answer:
        case, claims = self._case(), claims_of(self.instance, self.bought)
        hourly = sum(item.price for item in claims)
        self._context.topology_bound.nodes = partial(map, methodcaller("pods"), self.bought)
        answer = partial(self._unproven, case, left, opened_domains, named)
        if not named and self._context.welcome(len(left), hourly):
            # The proof may come to the end of the budget; the plan counts all the same.
            self._context.found(answer(claims, Proof()))
        # What rules about several pods prove takes long; first it must be clear which pods have a place.
        quick = self._tied and any(map(self._context.placeable, dict.fromkeys(at for at, _ in left)))
        proof, better = case.proof(hourly, quick=quick) if hourly else (Proof(), None)
        # Other nodes might have capacity for pods that are left over.
        open_ = self.instance.nodes.nodes or any(self._context.placeable(at) for at, _ in left)
        if better is not None and not (left and open_):
            self.bought, self.existing, self.limits = better.bought, better.existing, better.limits
            claims = claims_of(self.instance, self.bought)
        return replace(answer(claims, proof), proven=not quick and not self.instance.work.frugal)

    def _unproven(
        self,
        case: Case,
        left: list[tuple[int, str]],
        opened_domains: OpenedDomains,
        named: bool,
        claims: tuple[PlannedClaim, ...],
        proof: Proof,
    ) -> Answer:
        """What is decided by now, with that proof; not all was tried to prove something."""
        # What fits on nothing needs no time to be known.
        untried = frozenset(pair for pair in self.not_attempted if self._context.placeable(pair[0]))
        reasons = Reasons(self.instance, self.limits, untried)
        plan = written(self.instance, (claims, self.existing, self.bought), reasons.of(left), proof)
        pods = sum(len(claim.pods) for claim in claims) + sum(map(len, self.existing.values()))
        target_nodes = tuple(target_nodes_of(self.existing, self.bought)) if pods <= FEW else ()
        surprises = merged(
            opened_domains.surprises(self.bought), opened_domains.overtaken(self.existing, self.bought)
        )
        if self.strategy.seen:
            surprises = merged(surprises, opened_domains.unseen(self.bought, left, named=named))
        return Answer(plan, surprises, case, False, target_nodes, tuple(left))

    def _case(self) -> Case:
        placed, refusing = partial(_placements, self.existing, self.bought), self.limits.refusing()
        tied = self._tied or len(self.bought) > MANY_NODES
        return Case(self._context, self.free, placed, refusing, self.dual_values, self._market, tied)


def _placements(existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]) -> Iterator[Placement]:
    """All pods that have a place."""
    for unit in chain.from_iterable(existing.values()):
        yield Placement(unit.pod_class, unit.level, (), (unit.pod,))
    for planned in bought:
        yield from planned.placements()


def seats_of(
    assigner: Assigner, existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]
) -> list[Seat]:
    """The places of all pods that a rule might take back, on nodes that exist first."""
    groups, pod_classes = assigner.instance.topology.groups, assigner.instance.pod_classes
    tied = {
        (pod_class.index, level)
        for pod_class in pod_classes
        for level in range(len(pod_class.levels))
        if binding(groups, pod_class, level)
    }
    seats = [
        assigner.seat(row, unit)
        for row, units in existing.items()
        for unit in units
        if (unit.pod_class, unit.level) in tied
    ]
    for item, bundles in chain.from_iterable(planned.parts for planned in bought):
        if tied.isdisjoint(item.kinds):
            continue
        domain_of = lookup(item.place)
        for unit in chain.from_iterable(map(item.units, bundles)):
            forget = partial(assigner.forget, item, (unit.pod_class, unit.level), 1)
            seats.append(Seat(unit, domain_of, forget))
    return seats
