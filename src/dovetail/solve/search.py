"""One pass of a solve: pods to domains, domains to nodes, nodes to a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from dovetail.model.plan import Proof
from dovetail.solve.assign.assigner import Assigner, Rations
from dovetail.solve.assign.items import Assignment, Item, Unit
from dovetail.solve.assign.spread_quotas import Seat, binding, surplus
from dovetail.solve.assign.strategies import Policy, turns
from dovetail.solve.assign.topology_rules import Opened, restart
from dovetail.solve.bound.scope import Placement
from dovetail.solve.bound.topology_mip import small
from dovetail.solve.build.builder import Latecomers, Move, Mover, berths_of
from dovetail.solve.build.opened_domains import Openings, merged
from dovetail.solve.build.plan_state import Part, Purchase, Standing
from dovetail.solve.build.write import Reasons, claims_of, written
from dovetail.solve.colgen.generation import Told
from dovetail.solve.context import Desk
from dovetail.solve.instance.instance import lookup
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.choose import choose
from dovetail.solve.pack.destroy_repair import MANY_NODES
from dovetail.solve.pack.greedy import Packing
from dovetail.solve.search_state import Answer, Case

_ROUNDS = 8  # further chances for pods that limits left over
_FEW = 64  # items; with more, a search for a proof in whole numbers has no chance
PER_UNIT = 10  # of the work that is counted, moving pods one by one takes so much more
_FEW_PODS = 64  # with more, moving them one by one takes too long
_OTHER = 0.5  # of the time left, kept for plans that place more pods
_PROOF = 0.4  # of the work left, kept for it
_PROOF_TIED = 0.65  # the same where rules tie pods together: their domains matter more than their nodes
_FORESEEN = 3  # times that pods get their domains anew because others will open some


@dataclass(frozen=True, slots=True)
class Moved:
    """What comes of a move: pods left over, preferences given up, nano-dollars per hour, nodes."""

    rank: tuple[int, int, int, int]
    written: Callable[[], Answer]


class Search:
    """One pass: what is decided so far. Invariant: every pod is in exactly one of bought, existing, left."""

    def __init__(self, desk: Desk, opened: Opened, policy: Policy) -> None:
        self.world = desk.world
        self.columns = desk.columns
        self._desk = desk
        self.opened = opened
        self.policy = policy
        restart(self.world, opened, seen=policy.seen)
        self.free = self.world.nodes.room.copy()
        self.limits = Limits(self.world, self.columns)
        self.assigner = Assigner(self.world, policy)
        self.items: list[Item] = []  # that nodes were bought for, so far
        self.existing: dict[int, list[Unit]] = {}
        self.bought: list[Purchase] = []
        self.taken_back = False  # True iff nodes for some pods could not be bought
        self.emptier: list[int] = []  # positions of bought nodes of which pods were taken back
        self.grown = False  # True iff some pods were put on nodes that were bought for others, or the like
        self.unheard: list[tuple[int, str]] = []  # that there was no time for
        self.worth: dict[int, float] = {}  # of a pod per shape, where a packing found it out
        # Where rules tie pods together, whole nodes prove little.
        self._tied = any(shape.involved for shape in self.world.shapes)
        self._told: Told | None = None  # what the last packing proved

    def run(self) -> Answer:
        assignment, late = self._first_assignment(), False
        for _ in range(_ROUNDS):
            self.unheard += assignment.unheard
            for row, units in assignment.existing.items():
                self.existing.setdefault(row, []).extend(units)
            left = self._pack(assignment.items, short=bool(assignment.left))
            waiting = sorted([*assignment.left, *left])
            self.world.work.bought()
            if not left or (late and self.world.work.late):
                break
            late = self.world.work.late  # one more chance, then no more
            waiting = self._heard(waiting)
            assignment = self.assigner.run(waiting, self._rations())
        if self.taken_back:
            waiting = sorted([*waiting, *self._even_out()])
        if (waiting or self.unheard) and not self.world.work.late:
            waiting, self.unheard = self._late(sorted([*waiting, *self.unheard])), []
        openings = Openings(self.world)
        self.bought = openings.kept_out(self.bought)
        return self._answer(sorted([*waiting, *self.unheard]), openings)

    def _rations(self) -> Rations | None:
        """Of pools with limits, where time is short: else buying nodes tells who is refused."""
        return Rations(self.world, self.limits.remaining) if self.world.work.short else None

    def _heard(self, waiting: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Those of the pods that there is time for, if it is over: all of some shapes, most pods first."""
        work = self.world.work
        if not work.late:
            return waiting
        pods = Counter(shape for shape, _ in waiting)
        before = len(self.world.shapes) - len({shape for shape, _ in self.unheard})
        most = work.rounds * before
        if most >= len(pods):
            return waiting
        some = {shape for shape, _ in pods.most_common(int(most))}
        self.unheard += [pair for pair in waiting if pair[0] not in some]
        return [pair for pair in waiting if pair[0] in some]

    def move(self, move: Move) -> Moved:
        """The plan that a move makes; what comes of it is told before it is written."""
        standing = Standing(self.world, self.limits, self.opened, seen=self.policy.seen)
        standing.count({}, [])
        mover = Mover(standing, self.columns, move)
        seated = {pod for berth in move.berths for *_, pods in berth.pods for pod in pods}
        seated.update(pod for _, pod in move.loose)
        before = self.world.work.used
        waiting = mover.run_all(self._without(seated))
        self.world.work.spend((self.world.work.used - before) * PER_UNIT)
        self.existing, self.grown = mover.existing, True
        self.bought = [site.purchase for site in standing.sites]
        levels = [self.world.shapes[unit.shape].levels[unit.level] for unit in self._units()]
        given_up = sum(level.lost for level in levels)
        price = sum(purchase.made.price for purchase in self.bought)

        def written() -> Answer:
            openings = Openings(self.world)
            self.bought = openings.kept_out(self.bought)
            return self._answer(waiting, openings, named=True)

        return Moved((len(waiting), given_up, price, len(self.bought)), written)

    def _without(self, pods: Collection[str]) -> list[tuple[int, str]]:
        """The (shape, pod) pairs of all others."""
        return [(shape.index, pod) for shape in self.world.shapes for pod in shape.pods if pod not in pods]

    def _units(self) -> list[Unit]:
        """All pods that have a place."""
        units = [unit for placed in self.existing.values() for unit in placed]
        return [*units, *(unit for purchase in self.bought for _, unit in purchase.units())]

    def _first_assignment(self) -> Assignment:
        """Domains for all pods, those that nodes for others will open counted in."""
        pods, held = turns(self.world, self.policy)
        assignment = self.assigner.run(pods, self._rations())
        for _ in range(_FORESEEN):
            fresh = Openings(self.world).foreseen(assignment.items)
            if not fresh:
                break
            self.opened = merged(self.opened, fresh)
            restart(self.world, self.opened, seen=self.policy.seen)
            self.assigner = Assigner(self.world, self.policy)
            assignment = self.assigner.run(pods, self._rations())
        self.world.work.begun()
        return replace(assignment, left=[*assignment.left, *held])

    def _pack(self, items: list[Item], *, short: bool) -> list[tuple[int, str]]:
        """Buy nodes for the items; the pods that none is for. If `short`, time is kept for another plan."""
        if not items:
            return []
        self.items += items
        work = self.world.work
        if work.left or (self.limits.any and not work.late):  # limits may need opinions of what to leave over
            self._desk.appraise()
        share = self._spared(items)
        with self.world.work.sparing(share, of_time=max(share, _OTHER if short else 0.0)):
            choice = choose(self.world, self.columns, self.limits, items)
            self._desk.hurried |= share > 0 and not self.world.work.left
        self.limits, self._told = choice.limits, choice.told
        self.worth = {**choice.worth, **self.worth}
        return self._take_back(items, self._hand_out(items, choice.packing))

    def _spared(self, items: list[Item]) -> float:
        """The share of the work that packing leaves to the proof."""
        if len(items) > _FEW:
            return 0.0
        if not self._tied:
            return _PROOF
        shapes = sorted({shape for item in items for shape, _ in item.kinds})
        solved = self._desk.between.spent > 0
        return _PROOF_TIED if not solved and small(self._desk.feasible[shapes], self.world.work) else 0.0

    def _hand_out(self, items: list[Item], packing: Packing) -> list[int]:
        """Give the bundles to the nodes; how many of each item found one."""
        given = [0] * len(items)
        for made in packing.bins:
            parts: list[Part] = []
            for index, number in made.counts:
                bundles = items[index].bundles[given[index] : given[index] + number]
                given[index] += number
                parts.append((items[index], bundles))
            self.bought.append(Purchase(made, tuple(parts)))
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
                self.assigner.judge.closed.update((kind[0], pool) for pool in item.pools)
            left.extend((unit.shape, unit.pod) for bundle in bundles for unit in item.units(bundle))
        return left

    def _late(self, left: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Try the pods that are left over once more, now that all others have their nodes."""
        standing = Standing(self.world, self.limits, self.opened, seen=self.policy.seen)
        standing.count(self.existing, self.bought)
        latecomers = Latecomers(standing, self.columns, self.existing)
        for position in self.emptier:
            latecomers.shrink(standing.sites[position])
        still = latecomers.run(left)
        self.existing = latecomers.existing
        self.bought = [site.purchase for site in standing.sites]
        self.grown = len(still) < len(left)
        return still

    def _even_out(self) -> list[tuple[int, str]]:
        """Give up pods that stand too far ahead of those that no node could be bought for."""
        shapes, seats = self.world.shapes, seats_of(self.assigner, self.existing, self.bought)
        out = surplus(self.world.topology.groups, shapes, seats)
        if not out:
            return []
        staying = {
            row: [unit for unit in units if unit.pod not in out] for row, units in self.existing.items()
        }
        self.existing = {row: units for row, units in staying.items() if units}
        bought, self.bought = self.bought, []
        for purchase in bought:
            kept = purchase.without(out, shapes)
            if kept is not None:
                if kept is not purchase:
                    self.emptier.append(len(self.bought))
                self.bought.append(kept)
            else:
                made = purchase.made
                self.limits.give_back(made)
        return [(seat.unit.shape, seat.unit.pod) for seat in seats if seat.unit.pod in out]

    def _answer(self, left: list[tuple[int, str]], openings: Openings, *, named: bool = False) -> Answer:
        world, case = self.world, self._case()
        claims = claims_of(world, self.bought)
        hourly = sum(item.price for item in claims)
        # What rules about several pods prove takes long; first it must be clear who has a place.
        quick = self._tied and bool(self._desk.stranded(pod for _, pod in left))
        proof, better = case.proof(hourly, quick=quick) if hourly else (Proof(), None)
        # Other nodes might have room for pods that are left over.
        stuck = not left or not (world.nodes.nodes or any(self._desk.feasible[at].any() for at, _ in left))
        if better is not None and stuck:
            self.bought, self.existing, self.limits = better.bought, better.existing, better.limits
            claims = claims_of(world, self.bought)
        reasons = Reasons(world, self.limits, frozenset(self.unheard))
        plan = written(world, (claims, self.existing, self.bought), reasons.of(left), proof)
        pods = sum(len(place.pods) for place in case.placed)
        berths = tuple(berths_of(self.existing, self.bought)) if pods <= _FEW_PODS else ()
        surprises = merged(openings.surprises(self.bought), openings.overtaken(self.existing, self.bought))
        if self.policy.seen:
            surprises = merged(surprises, openings.unseen(self.bought, left, named=named))
        return Answer(plan, surprises, case, not quick, berths, tuple(left))

    def _case(self) -> Case:
        placements = [
            Placement(unit.shape, unit.level, (), (unit.pod,))
            for units in self.existing.values()
            for unit in units
        ]
        placements += [place for purchase in self.bought for place in purchase.placements()]
        return Case(
            self._desk,
            self.free,
            tuple(placements),
            binding=self.limits.refused(),
            worth=self.worth,
            told=self._told,
            same=not self.grown and len(self.worth) == len(self.items),
            tied=self._tied or len(self.bought) > MANY_NODES,
        )


def seats_of(
    assigner: Assigner, existing: Mapping[int, Sequence[Unit]], bought: Sequence[Purchase]
) -> list[Seat]:
    """The places of all pods that a rule might take back, on nodes that exist first."""
    groups, shapes = assigner.world.topology.groups, assigner.world.shapes
    tied = {
        (shape.index, level)
        for shape in shapes
        for level in range(len(shape.levels))
        if binding(groups, shape, level)
    }
    seats = [
        assigner.seat(row, unit)
        for row, units in existing.items()
        for unit in units
        if (unit.shape, unit.level) in tied
    ]
    for item, bundles in chain.from_iterable(purchase.parts for purchase in bought):
        if tied.isdisjoint(item.kinds):
            continue
        domain_of = lookup(item.place)
        for unit in chain.from_iterable(map(item.units, bundles)):
            forget = partial(assigner.forget, item, (unit.shape, unit.level), 1)
            seats.append(Seat(unit, domain_of, forget))
    return seats
