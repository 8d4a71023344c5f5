"""Plans written down: claims, what was given up, and why pods are left over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dovetail.model.plan import OUT_OF_TIME, Cost, Plan, PlannedClaim, Proof, Unschedulable
from dovetail.solve.assemble import Assembler
from dovetail.solve.placing.items import Unit
from dovetail.solve.purchase import Purchase
from dovetail.solve.reasons import Explainer
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World


class Reasons:
    """Why pods have no place. `unheard`: (shape, pod) pairs that there was no time for."""

    def __init__(self, world: World, limits: Limits, unheard: frozenset[tuple[int, str]]) -> None:
        self._shapes = world.shapes
        self._explainer = Explainer(world, limits)
        self._unheard = unheard
        self._pools = {table.pool.name: OUT_OF_TIME for table in world.tables}

    def of(self, left: Iterable[tuple[int, str]]) -> tuple[Unschedulable, ...]:
        """The pods of these pairs with their reasons."""
        return tuple(sorted(map(self._one, left), key=by_pod))

    def _one(self, pair: tuple[int, str]) -> Unschedulable:
        if pair in self._unheard:
            return Unschedulable(pair[1], OUT_OF_TIME, self._pools)
        return self._explainer.explain(self._shapes[pair[0]], pair[1])


def claims_of(world: World, bought: Iterable[Purchase]) -> tuple[PlannedClaim, ...]:
    """A claim per node, counted up within its pool."""
    assembler = Assembler(world)
    counts: dict[int, int] = {}
    claims = []
    for purchase in bought:
        number = counts.get(purchase.made.pool, 0)
        counts[purchase.made.pool] = number + 1
        claims.append(assembler.claim(purchase, number))
    return tuple(sorted(claims, key=lambda item: item.name))


def written(
    world: World,
    placed: tuple[tuple[PlannedClaim, ...], Mapping[int, Sequence[Unit]], Sequence[Purchase]],
    missed: tuple[Unschedulable, ...],
    proof: Proof,
) -> Plan:
    """The plan. `placed`: claims, pods on nodes that exist, and what the claims are for."""
    claims, existing, bought = placed
    hourly = sum(item.price for item in claims)
    names = {
        world.problem.nodes[row].name: tuple(sorted(unit.pod for unit in some))
        for row, some in existing.items()
    }
    return Plan(
        claims=claims,
        existing=dict(sorted(names.items())),
        unschedulable=missed,
        cost=Cost(hourly, min(hourly, proof.bound)),
        relaxed=dict(sorted(_relaxed(world, existing, bought))),
        proof=proof,
        work=world.work.used,
    )


def _relaxed(
    world: World, existing: Mapping[int, Sequence[Unit]], bought: Sequence[Purchase]
) -> list[tuple[str, tuple[str, ...]]]:
    """(pod, preferences given up) of those that gave up any."""
    shapes = world.shapes
    units = [
        unit
        for purchase in bought
        for item, bundles in purchase.parts
        if any(shapes[shape].levels[level].gone for shape, level in item.kinds)
        for bundle in bundles
        for unit in item.units(bundle)
    ]
    units += [unit for placed in existing.values() for unit in placed]
    given_up: dict[tuple[int, int], tuple[str, ...]] = {}  # one value for all pods of a shape and level
    for shape, level in dict.fromkeys(unit[:2] for unit in units):
        given_up[shape, level] = shapes[shape].levels[level].given_up
    return [(unit.pod, words) for unit in units if (words := given_up[unit[:2]])]


def by_pod(item: Unschedulable) -> str:
    return item.pod
