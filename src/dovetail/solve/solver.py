"""The solver's door: Problem and a budget of counted work in, Plan out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.problem import Budget, Problem
from dovetail.model.requirement import Requirement
from dovetail.model.volumes import ignored_reason
from dovetail.solve.assemble import claim
from dovetail.solve.bounds.prove import Prover, prove
from dovetail.solve.bounds.relaxation import relax_shapes
from dovetail.solve.bounds.scope import Placement, scope_of
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.demand.topology import SPREAD, Group, GroupKey
from dovetail.solve.explain.event import Explainer
from dovetail.solve.packing.bins import Bin, narrowed
from dovetail.solve.packing.choose import choose
from dovetail.solve.packing.pack import Packing
from dovetail.solve.placing.assign import Assigner
from dovetail.solve.placing.even import Seat, surplus
from dovetail.solve.placing.items import Item, Unit
from dovetail.solve.plan import Cost, Plan, PlannedClaim, Proof, Unschedulable
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Mask
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World, lookup
from dovetail.solve.work import Stop, Work, never

_REOPENINGS = 3  # plans made anew because domains were opened
_ROUNDS = 8  # pods that limits left over are given this many further chances


def solve(problem: Problem, budget: Budget | None = None, *, stop: Stop = never) -> Plan:
    """A correct plan for the problem, as cheap as the budget allows. Pure: same input, same plan.

    Once `stop` returns True the best plan so far is returned; if it raises, the solve is given up.
    """
    broken = {pod.key: reason for pod in problem.pods if (reason := ignored_reason(pod, problem.volumes))}
    if broken:
        usable = tuple(pod for pod in problem.pods if pod.key not in broken)
        plan = solve(replace(problem, pods=usable), budget, stop=stop)
        hopeless = [Unschedulable(pod, reason) for pod, reason in broken.items()]
        return replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *hopeless), key=_by_pod)))
    opened: dict[GroupKey, tuple[str, ...]] = {}
    work = 0
    for _ in range(_REOPENINGS):
        search = _Search(problem, Work(budget or Budget(), stop), opened)
        plan = search.run()
        work += plan.work
        surprises = search.surprises()
        if not surprises:
            break
        # Nodes for other pods open domains that a spread must then count: plan again, knowing of them.
        opened = {**opened, **{key: (*opened.get(key, ()), *domains) for key, domains in surprises.items()}}
    return replace(plan, work=work)


class _Search:
    """One solve: what is decided so far. Invariant: every pod is in exactly one of bins, existing, left."""

    def __init__(self, problem: Problem, work: Work, opened: Mapping[GroupKey, tuple[str, ...]]) -> None:
        self.problem = problem
        self.world = World(problem, work, opened)
        self.free = self.world.nodes.room.copy()
        self.columns = Columns(self.world)
        self.limits = Limits(self.world, self.columns)
        self.existing: dict[int, list[Unit]] = {}
        self.bought: list[tuple[Bin, list[Unit]]] = []
        self.items: dict[str, Item] = {}  # pod -> what it was bought for as
        self.item_count = 0  # that nodes were bought for, so far
        self.taken_back = False  # True iff nodes for some pods could not be bought
        self.worth: dict[int, float] = {}  # of a pod per shape, where a packing found it out
        self.feasible: Mask = self._strict_feasibility()
        self.duals = relax_shapes(self.world, self.columns, self.feasible)
        for shape, worth in zip(self.world.shapes, self.duals.worth.tolist(), strict=True):
            shape.value = worth

    def run(self) -> Plan:
        world = self.world
        assigner = Assigner(world)
        pods = [(shape.index, name) for shape in world.shapes for name in shape.pods]
        waiting = pods
        for _ in range(_ROUNDS):
            assignment = assigner.run(waiting)
            for row, units in assignment.existing.items():
                self.existing.setdefault(row, []).extend(units)
            left = self._pack(assignment.items, assigner)
            waiting = sorted([*assignment.left, *left])
            if not left:
                break
        if self.taken_back:
            waiting = sorted([*waiting, *self._even_out(assigner)])
        self._keep_out()
        return self._plan(waiting)

    def _strict_feasibility(self) -> Mask:
        """Columns that could hold each shape if everything that can be given up were, (S, C)."""
        world = self.world
        rows = [self._shape_columns(shape) for shape in world.shapes]
        return np.array(rows, dtype=np.bool_).reshape(len(world.shapes), len(self.columns.price))

    def _shape_columns(self, shape: Shape) -> Mask:
        world = self.world
        parts = []
        for table in world.tables:
            held = np.zeros(len(table.offerings), dtype=np.bool_)
            for wanted in shape.required if shape.levels else ():
                if world.suits(table.index, wanted, shape.levels[-1].rules):
                    held |= world.columns(table.index, wanted, shape.vector)
            parts.append(held)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)

    def _pack(self, items: list[Item], assigner: Assigner) -> list[tuple[int, str]]:
        """Buy nodes for the items; the (shape, pod) pairs that none could be bought for."""
        if not items:
            return []
        self.item_count += len(items)
        choice = choose(self.world, self.columns, self.limits, items)
        self.limits = choice.limits
        for shape, worth in choice.worth.items():
            self.worth.setdefault(shape, worth)
        self._hand_out(items, choice.packing)
        return self._take_back(items, assigner)

    def _hand_out(self, items: list[Item], packing: Packing) -> None:
        """Give the bundles to the nodes; what is left stays in the items."""
        for made in packing.bins:
            units: list[Unit] = []
            for index, number in made.counts:
                taken, items[index].bundles = items[index].bundles[:number], items[index].bundles[number:]
                units.extend(unit for bundle in taken for unit in items[index].units(bundle))
                self.items.update((pod, items[index]) for bundle in taken for pod in bundle)
            self.bought.append((made, units))

    def _take_back(self, items: list[Item], assigner: Assigner) -> list[tuple[int, str]]:
        left: list[tuple[int, str]] = []
        for item in items:
            if not item.bundles:
                continue
            self.taken_back = True
            for kind in item.kinds:
                assigner.forget(item, kind, len(item.bundles))
                shape = kind[0]
                assigner.judge.closed.update((shape, pool) for pool in item.pools)
            left.extend((unit.shape, unit.pod) for bundle in item.bundles for unit in item.units(bundle))
        return left

    def _even_out(self, assigner: Assigner) -> list[tuple[int, str]]:
        """Give up pods that stand too far ahead of those that no node could be bought for."""
        shapes = self.world.shapes
        seats = [assigner.seat(row, unit) for row, units in self.existing.items() for unit in units]
        for _, units in self.bought:
            for unit in units:
                item = self.items[unit.pod]
                forget = partial(assigner.forget, item, (unit.shape, unit.level), 1)
                seats.append(Seat(unit, lookup(item.pins), forget))
        out = surplus(self.world.topology.groups, shapes, seats)
        left = [(seat.unit.shape, seat.unit.pod) for seat in seats if seat.unit.pod in out]
        staying_on = {
            row: [unit for unit in units if unit.pod not in out] for row, units in self.existing.items()
        }
        self.existing = {row: units for row, units in staying_on.items() if units}
        kept = []
        for made, units in self.bought:
            staying = [unit for unit in units if unit.pod not in out]
            gone = [shapes[unit.shape].vector for unit in units if unit.pod in out]
            if staying:
                kept.append(
                    (replace(made, vector=made.vector - sum(gone, np.zeros_like(made.vector))), staying)
                )
        self.bought = kept
        return left

    def surprises(self) -> dict[GroupKey, tuple[str, ...]]:
        """Domains that bought nodes open for certain and that break a spread which did not count on them."""
        found: dict[GroupKey, tuple[str, ...]] = {}
        for group in self._strained():
            fresh: set[str] = set()
            for made, _ in self.bought:
                fresh.update(self._domains(group, made) - group.universe.keys())
            if fresh:
                found[group.id] = tuple(sorted(fresh))
        return found

    def _keep_out(self) -> None:
        """Where the cloud may still choose, nodes stay out of domains that would break a spread."""
        for group in self._strained():
            for index, (made, units) in enumerate(self.bought):
                domains = self._domains(group, made)
                barred = sorted(domains - group.universe.keys())
                if barred and len(barred) < len(domains):
                    better = narrowed(self.world, made, Requirement.new(group.id.key, "NotIn", barred))
                    if better is not None:
                        self.bought[index] = (better, units)

    def _strained(self) -> list[Group]:
        """Spreads over zones and the like that one more, empty domain would break."""
        return [
            group
            for group in self.world.topology.groups
            if group.id.kind == SPREAD
            and group.id.key != HOSTNAME
            and max(group.matched.values(), default=0) > group.id.max_skew
        ]

    def _domains(self, group: Group, made: Bin) -> set[str]:
        """The domains that a node may come up in, if the group counts it at all."""
        world = self.world
        table = world.tables[made.pool]
        seat = table.base.add(*made.requirements)
        if not group.id.node_filter.accepts(seat, table.pool.taints, world.well_known):
            return set()
        values = table.domains(group.id.key)
        mask = world.columns(made.pool, made.requirements, made.vector)
        return {values[column] for column in np.flatnonzero(mask).tolist()} - {""}

    def _plan(self, left: list[tuple[int, str]]) -> Plan:
        world = self.world
        explainer = Explainer(world, self.limits)
        claims = self._claims()
        placed = {pod for item in claims for pod in item.pods}
        existing = {
            self.problem.nodes[row].name: tuple(sorted(unit.pod for unit in units))
            for row, units in sorted(self.existing.items())
        }
        placed.update(pod for pods in existing.values() for pod in pods)
        hourly = sum(item.price for item in claims)
        proof = self._proof(hourly) if hourly else Proof()
        return Plan(
            claims=claims,
            existing=dict(sorted(existing.items())),
            unschedulable=tuple(
                sorted((explainer.explain(world.shapes[shape], pod) for shape, pod in left), key=_by_pod)
            ),
            cost=Cost(hourly, min(hourly, proof.bound)),
            relaxed=dict(sorted(self._relaxed())),
            proof=proof,
            work=world.work.used,
        )

    def _claims(self) -> tuple[PlannedClaim, ...]:
        counts: dict[int, int] = {}
        claims = []
        for made, units in self.bought:
            number = counts.get(made.pool, 0)
            counts[made.pool] = number + 1
            name = f"{self.world.tables[made.pool].pool.name}-{number}"
            claims.append(claim(self.world, made, units, name))
        return tuple(sorted(claims, key=lambda item: item.name))

    def _relaxed(self) -> list[tuple[str, tuple[str, ...]]]:
        units = [unit for _, bought in self.bought for unit in bought]
        units += [unit for placed in self.existing.values() for unit in placed]
        shapes = self.world.shapes
        found = [(unit.pod, shapes[unit.shape].levels[unit.level].given_up) for unit in units]
        return [(pod, given_up) for pod, given_up in found if given_up]

    def _proof(self, hourly: int) -> Proof:
        """The best proof of what placing these pods costs at least."""
        placements: list[Placement] = [(unit, ()) for units in self.existing.values() for unit in units]
        placements += [(unit, self.items[unit.pod].pools) for _, units in self.bought for unit in units]
        scope = scope_of(self.world, self.columns, self.free, placements)
        shapes = self.world.shapes
        worth = np.array([self.worth.get(index, shapes[index].value) for index in scope.shapes])
        found = worth if self.worth else None
        same = len(self.worth) == self.item_count == len(scope.shapes)
        return prove(Prover(scope, self.world.work), found, hourly, same=same)


def _by_pod(item: Unschedulable) -> str:
    return item.pod
