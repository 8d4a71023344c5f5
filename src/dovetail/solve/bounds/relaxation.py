"""The linear relaxation over resources: what every pod is worth, and every resource of a node."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.bounds.kinds import kinds_of
from dovetail.solve.bounds.rates import best_rates
from dovetail.solve.highs import quiet_solver
from dovetail.solve.packing.compact import Free, compact_model
from dovetail.solve.supply.columns import Columns, Floats, undominated
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.masks import share
from dovetail.solve.supply.world import World

_MOST_CELLS = 20_000  # of the relaxation: pods' shapes times columns


@dataclass(frozen=True, slots=True)
class Duals:
    """Worth of a pod per shape (S,), and worth of resources per column that was looked at (K, R)."""

    worth: Floats
    resources: Floats
    feasible: Mask  # (S, K) of those columns
    charged: Floats  # (R,) nano-dollars per hour of the optimum that are paid for each resource


def relax(
    feasible: Mask,
    room: Amounts,
    price: Amounts,
    vectors: Amounts,
    demand: Amounts,
    *,
    free: Free | None = None,
) -> Duals:
    """Solve the relaxation: fractions of nodes, pods of a shape in fractions. All columns are given.

    `feasible` (S, C), `room` (C, R), `price` (C,), `vectors` (S, R), `demand` (S,).
    """
    shapes, resources = vectors.shape
    sold = len(price)
    if free is not None:
        feasible = np.concatenate([feasible, free.feasible], axis=1)
        room = np.concatenate([room, free.room])
        price = np.concatenate([price, np.zeros(len(free.room), dtype=np.int64)])
    if not shapes or not len(price):
        none = np.zeros((len(price), resources))
        return Duals(np.zeros(shapes), none, feasible, np.zeros(resources))
    kinds = kinds_of(feasible, room, vectors, demand)
    some = _thin(kinds.feasible[:, :sold], room[:sold], price[:sold], kinds.vectors)
    kept = np.concatenate([some, np.arange(sold, len(price))])
    room, price = room[kept], price[kept]
    scale = np.maximum(vectors.max(axis=0, initial=1), 1).astype(np.float64)
    has = np.maximum(room, 0) / scale
    most = np.where(kept < sold, highspy.kHighsInf, 1.0)
    nodes = (price.astype(np.float64) / NANO_DOLLARS, most)
    model = compact_model(kinds.feasible[:, kept], kinds.vectors / scale, has, nodes, kinds.demand)
    solution, bought = _solve(model, len(price))
    duals = np.maximum(-solution[len(kinds.demand) :].reshape(len(price), resources), 0.0) * NANO_DOLLARS
    worth = _worth(vectors / scale, duals, feasible[:, kept], demand)
    charged = (bought[:, None] * has * duals)[: len(some)].sum(axis=0)
    return Duals(worth, duals / scale, feasible[:, kept], charged)


def relax_shapes(world: World, columns: Columns, feasible: Mask) -> Duals:
    """The relaxation for all pods of a world. Reserved capacity is left out: it is scarce, not cheap.

    `feasible` is (shapes, columns).
    """
    vectors = np.array([shape.vector for shape in world.shapes], dtype=np.int64)
    vectors = vectors.reshape(len(world.shapes), len(world.axis.names))
    feasible = feasible & ~columns.reserved
    demand = np.array([len(shape.pods) for shape in world.shapes], dtype=np.int64)
    demand[~feasible.any(axis=1)] = 0
    kept = undominated(feasible, columns.room, columns.price, columns.reserved)
    world.work.spend(int(feasible[:, kept].sum()))
    return relax(feasible[:, kept], columns.room[kept], columns.price[kept], vectors, demand)


def most_held(duals: Duals, feasible: Mask, room: Amounts) -> Floats:
    """A worth that no load of each column's node exceeds, (C,), whatever the duals are."""
    held = np.maximum(room, 0) @ duals.resources.T
    # Prices of resources are valid for a column iff they were valid for every shape it can hold.
    lacks = ~duals.feasible & (duals.worth > 0)[:, None]
    some = _different(np.concatenate([feasible, lacks], axis=1))
    valid = np.where(share(feasible[some].T, lacks[some]), np.inf, held)
    fallback = np.maximum(room, 0) @ duals.resources.max(axis=0, initial=0.0)
    result: Floats = np.minimum(valid.min(axis=1, initial=np.inf), fallback)
    return result


def _different(rows: Mask) -> list[int]:
    """One of each kind of rows."""
    bits = np.packbits(rows, axis=1)
    return list({held.tobytes(): index for index, held in enumerate(bits)}.values())


def _thin(feasible: Mask, room: Amounts, price: Amounts, vectors: Floats) -> npt.NDArray[np.int64]:
    """Columns for the relaxation: all that matter, or if too many the cheapest per pod of each shape."""
    useful = best_rates(feasible, room, price)
    allowed = max(16, _MOST_CELLS // max(1, len(feasible)))
    if len(useful) <= allowed:
        return useful
    chosen: dict[int, None] = {}
    share = np.max(vectors[:, None, :] / np.maximum(room[useful], 1)[None, :, :], axis=2)
    cost = np.where(feasible[:, useful], share * price[useful], np.inf)
    order = np.argsort(cost, axis=1, kind="stable")
    for depth in range(order.shape[1]):
        for column in order[:, depth].tolist():
            chosen.setdefault(column)
        if len(chosen) >= allowed:
            break
    return useful[np.array(sorted(chosen), dtype=np.int64)]


def _worth(needs: Floats, duals: Floats, feasible: Mask, demand: Amounts) -> Floats:
    """What a pod of each shape takes, at the resources' prices, on the column where that is least, (S,).

    So no set of pods that fits on a column is worth more than its room. 0 for shapes that nobody asks for.
    """
    cost = np.where(feasible, needs @ duals.T, np.inf).min(axis=1, initial=np.inf)
    worth: Floats = np.where((demand > 0) & np.isfinite(cost), cost, 0.0)
    return worth


def _solve(model: highspy.HighsLp, columns: int) -> tuple[Floats, Floats]:
    """(duals of the rows, nodes per column); zeros where there is no optimum."""
    solver = quiet_solver()
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    duals = np.array(solution.row_dual, dtype=np.float64)
    nodes = np.array(solution.col_value, dtype=np.float64)[-columns:]
    if len(duals) != model.num_row_ or len(nodes) != columns:
        return np.zeros(model.num_row_), np.zeros(columns)
    return duals, nodes
