"""The compact model: how many nodes of each offering, and how many pods of each kind they hold together."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.packing.integer import minimum
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

_MOST_CELLS = 800  # offerings times kinds; in whole numbers more take too long
_QUESTION, _PER_VARIABLE = 250, 4  # units of work between two questions of the integer program
_SLACK = 1e-7  # share by which the solver's bound is lowered for its tolerances


@dataclass(frozen=True, slots=True)
class Free:
    """G rooms that cost nothing, each there once: who may use them (S, G), and their size (G, R)."""

    feasible: Mask
    room: Amounts


def whole_nodes(goods: Market, work: Work, free: Free | None = None) -> int:
    """Nano-dollars per hour that the demand costs at least, in whole nodes and whole pods.

    What nodes of one offering hold together is what their room is in sum: sharp where a plan has few nodes.
    0 where the market is too large to be tried.
    """
    if goods.feasible.size > _MOST_CELLS or not len(goods.price) or not work.left:
        return 0
    feasible, room, most = goods.feasible.T, goods.room, np.full(len(goods.price), highspy.kHighsInf)
    if free is not None:
        feasible = np.concatenate([feasible, free.feasible], axis=1)
        room = np.concatenate([room, free.room])
        most = np.concatenate([most, np.ones(len(free.room))])
    price = np.zeros(len(most))
    price[: len(goods.price)] = goods.price / NANO_DOLLARS
    scale = np.maximum(goods.vectors.max(axis=0, initial=1), 1).astype(np.float64)
    model = compact_model(
        feasible, goods.vectors / scale, room / scale, (price, most), goods.demand.astype(float)
    )
    model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
    bound = minimum(model, work, check=_QUESTION + _PER_VARIABLE * model.num_col_).bound
    return int(bound * NANO_DOLLARS * (1 - _SLACK)) if np.isfinite(bound) else 0


def compact_model(
    feasible: Mask, needs: Floats, has: Floats, nodes: tuple[Floats, Floats], demand: Floats
) -> highspy.HighsLp:
    """Variables: pods per shape and column that holds it, then nodes, of given price and number (K,).

    Rows: one per shape, then one per column and resource (not positive).
    """
    shapes, columns, resources = len(needs), len(has), needs.shape[1]
    shape_of, column_of = np.nonzero(feasible)
    pods = len(shape_of)
    rows = shapes + columns * resources
    base = shapes + column_of[:, None] * resources + np.arange(resources)[None, :]
    pod_index = np.concatenate([shape_of[:, None], base], axis=1)
    pod_value = np.concatenate([np.ones((pods, 1)), needs[shape_of]], axis=1)
    node_index = shapes + np.arange(columns)[:, None] * resources + np.arange(resources)[None, :]
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = pods + columns, rows
    model.col_cost_ = np.concatenate([np.zeros(pods), nodes[0]])
    model.col_lower_ = np.zeros(pods + columns)
    model.col_upper_ = np.concatenate([np.full(pods, highspy.kHighsInf), nodes[1]])
    model.row_lower_ = np.concatenate([demand, np.full(rows - shapes, -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate([np.full(shapes, highspy.kHighsInf), np.zeros(rows - shapes)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    starts = np.concatenate(
        [np.arange(pods) * (resources + 1), pods * (resources + 1) + np.arange(columns + 1) * resources]
    )
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([pod_index.ravel(), node_index.ravel()]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([pod_value.ravel(), -has.ravel()])
    return model
