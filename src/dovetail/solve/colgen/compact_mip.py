"""The compact model: how many nodes of each offering, and how many pods of each kind they hold together."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.arrays import Amounts, Floats, Mask
from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.budget import HALF, LITTLE, SolveBudget
from dovetail.solve.colgen.dual_feasible import shares
from dovetail.solve.colgen.highs import MOST_CELLS, integer_program, minimum
from dovetail.solve.colgen.pattern_mip import Pattern, Whole, most_nodes
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import LESS, PROGRAM

_WHOLE_CELLS = 800  # items times offerings where pods are whole too, or shares of nodes are looked at


@dataclass(frozen=True, slots=True)
class Free:
    """G capacities that cost nothing, each there once: who may use them (S, G), and their size (G, R)."""

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
    model = compact_model(feasible, needs, capacity / scale, (price, most), demand, limits=limits)
    if size <= _WHOLE_CELLS:
        model = _sharper(model, pricing, feasible)
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


def _sharper(model: highspy.HighsLp, pricing: PricingInstance, feasible: Mask) -> highspy.HighsLp:
    """The model with shares of nodes that whole pods take. `feasible` (S, K): what is sold comes first."""
    kind_of, column_of = np.nonzero(feasible)
    first = model.num_col_ - feasible.shape[1]
    columns: list[Amounts] = []
    values: list[Floats] = []
    for number in range(len(pricing.price)):
        mine = np.flatnonzero(column_of == number)
        for share in shares(pricing.vectors[kind_of[mine]], pricing.capacity[number]):
            some = np.flatnonzero(share)
            columns.append(np.append(mine[some], first + number))
            values.append(np.append(share[some], -1.0))
    row = np.repeat(np.arange(len(columns)) + model.num_row_, [len(each) for each in columns])
    starts = np.array(model.a_matrix_.start_)
    before = np.repeat(np.arange(model.num_col_), np.diff(starts))
    column = np.concatenate([before, *columns])
    row = np.concatenate([np.array(model.a_matrix_.index_), row])
    value = np.concatenate([np.array(model.a_matrix_.value_), *values])
    least = np.append(model.row_lower_, np.full(len(columns), -np.inf))
    most = np.append(model.row_upper_, np.zeros(len(columns)))
    limits = np.array(model.col_lower_), np.array(model.col_upper_)
    return integer_program(np.array(model.col_cost_), limits, (least, most), (row, column, value))


def _filled(
    pricing: PricingInstance, work: SolveBudget, needs: Floats, places: tuple[Mask, Floats], nodes: Amounts
) -> tuple[Pattern, ...]:
    """All pods on so many nodes (K,) of each column, the last of which are free capacities; () if that fails.

    `needs` (S, R) and `places`, which are who may be there (S, K) and their size (K, R), are of one scale.
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
) -> highspy.HighsLp:
    """Variables: pods per pod class and column that holds it, then nodes, of given price and number (K,).

    Rows: one per pod class, then one per column and resource (not positive), then one per limit: what a node
    of each column takes of it (K, L), and how much there is (L,).
    """
    takes, most = limits or (np.zeros((len(has), 0)), np.zeros(0))
    pod_classes, columns, resources = len(needs), len(has), needs.shape[1]
    kind_of, column_of = np.nonzero(feasible)
    pods = len(kind_of)
    rows = pod_classes + columns * resources
    base = pod_classes + column_of[:, None] * resources + np.arange(resources)[None, :]
    pod_index = np.concatenate([kind_of[:, None], base], axis=1)
    pod_value = np.concatenate([np.ones((pods, 1)), needs[kind_of]], axis=1)
    node_index = pod_classes + np.arange(columns)[:, None] * resources + np.arange(resources)[None, :]
    limit_index = np.tile(rows + np.arange(len(most)), (columns, 1))
    node_index = np.concatenate([node_index, limit_index], axis=1)
    node_value = np.concatenate([-has, takes], axis=1)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = pods + columns, rows + len(most)
    model.col_cost_ = np.concatenate([np.zeros(pods), nodes[0]])
    model.col_lower_ = np.zeros(pods + columns)
    model.col_upper_ = np.concatenate([np.full(pods, highspy.kHighsInf), nodes[1]])
    model.row_lower_ = np.concatenate([demand, np.full(rows - pod_classes + len(most), -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate(
        [np.full(pod_classes, highspy.kHighsInf), np.zeros(rows - pod_classes), most]
    )
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    nodes_from = pods * (resources + 1)
    starts = np.append(
        np.arange(0, nodes_from, resources + 1), nodes_from + np.arange(columns + 1) * node_index.shape[1]
    )
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([pod_index.ravel(), node_index.ravel()]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([pod_value.ravel(), node_value.ravel()])
    return model
