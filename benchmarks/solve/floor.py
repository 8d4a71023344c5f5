"""The resource relaxation (z0): fractions of nodes hold fractions of pods. Computed apart from the solver.

min sum price_t n_t  with  sum_t y_st = demand_s,  sum_s need_sr y_st <= room_tr n_t, where a node of type t
holds at least one pod of shape s.
"""

from __future__ import annotations

from collections import Counter

import highspy
import numpy as np
import numpy.typing as npt

from dovetail.api.core import Pod
from dovetail.model.problem import Problem
from dovetail.model.resources import amounts

Array = npt.NDArray[np.float64]


def relaxation(problem: Problem) -> float:
    """Dollars per hour, for pods that nothing but resources constrains and a single pool without limits."""
    (pool,) = problem.pools
    demand = Counter(_needs(pod) for pod in problem.pods)
    names = sorted({name for needs in demand for name, _ in needs})
    offers: dict[tuple[int, ...], int] = {}
    for item in pool.instance_types:
        room = item.allocatable()
        prices = [
            offering.price
            for offering in item.offerings
            if offering.available and not pool.requirements.intersects(offering.requirements)
        ]
        if prices and not pool.requirements.intersects(item.requirements):
            vector = tuple(max(0, room.get(name, 0)) for name in names)
            offers[vector] = min(min(prices), offers.get(vector, min(prices)))
    vectors = np.array([[dict(shape).get(name, 0) for name in names] for shape in demand], dtype=np.float64)
    rooms, price = _undominated(offers)
    scale = np.maximum(vectors.max(axis=0), 1.0)
    return _optimum(vectors / scale, np.array(list(demand.values()), dtype=np.float64), rooms / scale, price)


def _needs(pod: Pod) -> tuple[tuple[str, int], ...]:
    (container,) = pod.spec.containers
    return tuple(sorted({**amounts(container.resources.requests), "pods": 1}.items()))


def _undominated(offers: dict[tuple[int, ...], int]) -> tuple[Array, Array]:
    """Rooms (T, R) and prices (T,) in dollars; another holds no less of anything for no more money."""
    kept: list[tuple[tuple[int, ...], int]] = []
    for room, price in sorted(offers.items(), key=lambda item: (item[1], [-value for value in item[0]])):
        if not any(all(a >= b for a, b in zip(other, room, strict=True)) for other, _ in kept):
            kept.append((room, price))
    rooms = np.array([room for room, _ in kept], dtype=np.float64)
    return rooms, np.array([price for _, price in kept], dtype=np.float64) / 1e9


def _optimum(needs: Array, demand: Array, room: Array, price: Array) -> float:
    """The linear program's value. Variables: pods of a shape on a type, where one fits; then nodes."""
    shapes, types, resources = len(needs), len(room), needs.shape[1]
    fits = np.all(needs[:, None, :] <= room[None, :, :], axis=2)
    shape, kind = np.nonzero(fits)
    pods, rows = len(shape), shapes + types * resources
    of_kind = shapes + np.arange(types)[:, None] * resources + np.arange(resources)
    index = np.concatenate([np.column_stack([shape, of_kind[kind]]).ravel(), of_kind.ravel()])
    value = np.concatenate([np.column_stack([np.ones(pods), needs[shape]]).ravel(), -room.ravel()])
    starts = np.concatenate(
        [np.arange(pods) * (resources + 1), pods * (resources + 1) + np.arange(types + 1) * resources]
    )
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = pods + types, rows
    model.col_cost_ = np.concatenate([np.zeros(pods), price])
    model.col_lower_ = np.zeros(pods + types)
    model.col_upper_ = np.full(pods + types, highspy.kHighsInf)
    model.row_lower_ = np.concatenate([demand, np.full(types * resources, -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate([demand, np.zeros(types * resources)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = index.astype(np.int32)
    model.a_matrix_.value_ = value
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the library has no annotations
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError("the relaxation has no optimum: some pod fits on no type")
    return float(solver.getObjectiveValue())
