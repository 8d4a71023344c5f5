"""The compact model: how many nodes of each offering, and how many pods of each kind they hold together."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.arrays import Amounts, Floats, Mask
from dovetail.solve.budget import HALF, LITTLE, SolveBudget
from dovetail.solve.colgen.dual_feasible import shares
from dovetail.solve.colgen.highs import MOST_CELLS, NO_ENTRIES, Entries, integer_program, minimum
from dovetail.solve.colgen.pattern_mip import Pattern, Whole, most_nodes
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import LESS, PROGRAM
from dovetail.units.money import NANO_DOLLARS

_WHOLE_CELLS = 800  # items times offerings where pods are whole too, or shares of nodes are looked at


@dataclass(frozen=True, slots=True)
class Free:
    """G capacities that cost nothing, each there once: which may use them (S, G), and their size (G, R)."""

    feasible: Mask
    capacity: Amounts


def whole_nodes(
    pricing: PricingInstance,
    work: SolveBudget,
    free: Free | None = None,
    *,
    pods: bool = False,
    limit: float = float("inf"),
) -> Whole:
    """What the demand costs at least in whole nodes, and pods if `pods`; 0 where the market is too large.

    Plans that do not cost less than `limit`, in nano-dollars per hour, are not looked for. What nodes of one
    offering hold together is what their capacity is in sum: sharp where a plan has few nodes. Shares of
    nodes, as whole pods take them, make up for most of that. Where all pods find capacity on such nodes
    indeed, that is a plan.
    """
    size = pricing.feasible.size
    if size > (_WHOLE_CELLS if pods else MOST_CELLS) or not len(pricing.price) or not work.left:
        return Whole(0)
    feasible, capacity = pricing.feasible.T, pricing.capacity
    most = most_nodes(pricing.price, pricing.demand, limit)
    if free is not None:
        feasible = np.concatenate([feasible, free.feasible], axis=1)
        capacity = np.concatenate([capacity, free.capacity])
        most = np.concatenate([most, np.ones(len(free.capacity))])
    price = np.zeros(len(most))
    price[: len(pricing.price)] = pricing.price / NANO_DOLLARS
    scale = np.maximum(pricing.vectors.max(axis=0, initial=1), 1).astype(np.float64)
    takes = np.zeros((len(most), pricing.takes.shape[1]))
    takes[: len(pricing.price)] = pricing.takes / np.maximum(pricing.most, 1)
    needs, limits = pricing.vectors / scale, (takes, np.minimum(pricing.most, 1).astype(np.float64))
    demand = pricing.demand.astype(np.float64)
    extra = _shares(pricing, feasible) if size <= _WHOLE_CELLS else NO_ENTRIES
    sold = price, most
    model = compact_model(feasible, needs, capacity / scale, sold, demand, limits=limits, extra=extra)
    _in_whole_numbers(model, pricing.demand[np.nonzero(feasible)[0]], most, pods=pods)
    share = HALF if size <= _WHOLE_CELLS else LITTLE
    answer = minimum(model, work, share=share, below=limit * LESS / NANO_DOLLARS)
    bound = int(answer.bound * NANO_DOLLARS * (1 - PROGRAM)) if np.isfinite(answer.bound) else 0
    if answer.values is None:
        return Whole(bound)
    nodes = np.rint(answer.values[-len(most) :]).astype(np.int64)
    nodes[len(pricing.price) :] = 1
    return Whole(bound, _filled(pricing, work, needs, (feasible, capacity / scale), nodes))


def _in_whole_numbers(model: highspy.HighsLp, demand: Amounts, most: Floats, *, pods: bool) -> None:
    """Whole nodes, at most so many (K,), and pods if `pods`, of each variable no more than are asked for."""
    whole, parts = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    model.integrality_ = [whole if pods else parts] * len(demand) + [whole] * len(most)
    model.col_upper_ = np.concatenate([demand, most]).astype(np.float64)


def _shares(pricing: PricingInstance, feasible: Mask) -> Entries:
    """Rows for the model: shares of nodes that pods take. `feasible` (S, K): what is sold comes first."""
    kind_of, column_of = np.nonzero(feasible)
    columns, values = list[Amounts](), list[Floats]()
    for number in range(len(pricing.price)):
        mine = np.flatnonzero(column_of == number)
        for share in shares(pricing.vectors[kind_of[mine]], pricing.capacity[number]):
            some = np.flatnonzero(share)
            columns.append(np.append(mine[some], len(kind_of) + number))
            values.append(np.append(share[some], -1.0))
    row = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
    return (row, np.concatenate(columns), np.concatenate(values)) if columns else NO_ENTRIES


def _filled(
    pricing: PricingInstance, work: SolveBudget, needs: Floats, places: tuple[Mask, Floats], nodes: Amounts
) -> tuple[Pattern, ...]:
    """All pods on so many nodes (K,) of each column, the last of which are free capacities; () if that fails.

    `needs` (S, R) and `places`, that is which may be there (S, K) and their size (K, R), are of one scale.
    The program knows of no pairs that no clique covers.
    """
    feasible, capacity = places
    column = np.repeat(np.arange(len(nodes)), nodes)
    feasible = feasible[:, column]
    if feasible.size > _WHOLE_CELLS or not work.left:
        return ()
    every, demand = (np.zeros(len(column)), np.ones(len(column))), pricing.demand.astype(np.float64)
    model = compact_model(feasible, needs, capacity[column], every, demand)
    kind_of, node_of = np.nonzero(feasible)
    _in_whole_numbers(model, pricing.demand[kind_of], every[1], pods=True)
    answer = minimum(model, work)
    if answer.values is None:
        return ()
    counts = np.zeros(feasible.T.shape, dtype=np.int64)
    counts[node_of, kind_of] = np.rint(answer.values[: len(kind_of)])
    if pricing.clashes(counts, np.arange(len(needs))).any():
        return ()
    sold = len(pricing.price)
    return tuple(
        Pattern(counts[node], where if where < sold else where - sold, 1, free=where >= sold)
        for node, where in enumerate(column.tolist())
        if counts[node].any()
    )


def compact_model(
    feasible: Mask,
    needs: Floats,
    has: Floats,
    nodes: tuple[Floats, Floats],
    demand: Floats,
    *,
    limits: tuple[Floats, Floats] | None = None,
    extra: Entries = NO_ENTRIES,
) -> highspy.HighsLp:
    """Variables: pods per pod class and column that holds it, then nodes, of given price and number (K,).

    Rows: one per pod class, then one per column and resource (not positive), then one per limit: what a node
    of each column takes of it (K, L), and how much there is (L,); then those of `extra`, whose numbers start
    from 0 (not positive).
    """
    takes, most = limits or (np.zeros((len(has), 0)), np.zeros(0))
    pod_classes, columns, resources = len(needs), len(has), needs.shape[1]
    kind_of, column_of = np.nonzero(feasible)
    pods, of_nodes = len(kind_of), pod_classes + np.arange(columns * resources).reshape(columns, resources)
    of_limits = np.tile(pod_classes + of_nodes.size + np.arange(len(most)), (columns, 1))
    rows = np.column_stack([kind_of, of_nodes[column_of]]), np.hstack([of_nodes, of_limits])
    values = np.column_stack([np.ones(pods), needs[kind_of]]), np.hstack([-has, takes])
    lengths = np.repeat([resources + 1, resources + len(most)], [pods, columns])
    first, more = pod_classes + of_nodes.size + len(most), int(extra[0].max(initial=-1)) + 1
    entries = (
        np.concatenate([*(each.ravel() for each in rows), first + extra[0]]),
        np.append(np.repeat(np.arange(pods + columns), lengths), extra[1]),
        np.concatenate([*(each.ravel() for each in values), extra[2]]),
    )
    least = np.append(demand, np.full(first + more - pod_classes, -np.inf))
    above = np.concatenate([np.full(pod_classes, np.inf), np.zeros(of_nodes.size), most, np.zeros(more)])
    price, number = np.append(np.zeros(pods), nodes[0]), np.append(np.full(pods, np.inf), nodes[1])
    bounds = np.zeros(len(price)), number
    model = integer_program(price, bounds, (least, above), entries, ordered=not more)
    model.integrality_ = []
    return model
