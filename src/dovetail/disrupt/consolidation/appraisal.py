"""What pods are worth and where there is capacity for them: what a search for cheaper nodes starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dovetail.devices.demand import in_rows
from dovetail.model.arrays import ENDLESS, Amounts, Floats, Mask
from dovetail.model.left_out import left_out
from dovetail.model.problem import Problem
from dovetail.solve.bound.relaxation import relax_classes
from dovetail.solve.budget import SolveBudget
from dovetail.solve.search_state import SolveContext


@dataclass(frozen=True, slots=True)
class Appraisal:
    """S pod classes of the problem's pods, N existing nodes, C offerings, R resources.

    `dual_values()` (S,) is what a pod costs at best, in nano-dollars per hour: the shadow prices of a linear
    program over all pods, worked out when first asked for. Whatever nodes are bought for some of them cost at
    least what the pods are worth together.
    """

    # Key of a pod -> its pod class; without those that are in no plan, or take too much work to read.
    pod_class: dict[str, int]
    vectors: Amounts  # (S, R)
    dual_values: Callable[[], Floats]  # (S,)
    capacity: Amounts  # (N, R) that is free on the nodes as they are
    hosts: Mask  # (S, N): nodes whose labels and taints suit, whatever their capacity
    feasible: Mask  # (S, C)
    column_room: Amounts  # (C, R)
    price: Amounts  # (C,) nano-dollars per hour
    on_demand: Callable[[], Appraisal]  # the same with spot not for sale; worked out when first asked for

    def least(self, pod_classes: Sequence[int]) -> int | None:
        """The least that a node costs which holds a pod of each of these pod classes; None if none is
        sold.
        """
        need = self.vectors[list(pod_classes)].sum(axis=0)
        fits = self.feasible[np.unique(pod_classes)].all(axis=0) & np.all(self.column_room >= need, axis=1)
        least = int(np.where(fits, self.price, ENDLESS).min(initial=ENDLESS))
        return None if least == ENDLESS else least


def appraise(problem: Problem, work: SolveBudget) -> Appraisal:
    """The figures for all pods of a problem, its nodes as they are; without rules between pods.

    What claims for devices take of a node is among its resources.
    """
    problem = in_rows(problem)
    pods = tuple(pod for pod in problem.pods if not left_out(pod, problem.volumes))
    context = SolveContext(replace(problem, pods=pods), work)
    instance, pod_classes = context.instance, context.instance.pod_classes
    hosts = np.zeros((len(pod_classes), len(problem.nodes)), dtype=np.bool_)
    for pod_class in pod_classes:
        for level in pod_class.levels:
            for wanted in level.alternatives:
                hosts[pod_class.index] |= instance.nodes.feasible(wanted, level.rules)
    shape = len(pod_classes), len(instance.axis.names)

    @cache
    def dual_values() -> Floats:
        context.appraise()
        return np.array([pod_class.value for pod_class in pod_classes], dtype=np.float64)

    @cache
    def on_demand() -> Appraisal:
        sold = context.feasible & ~context.columns.spot
        duals = cache(lambda: relax_classes(instance, context.columns, sold).dual_values)
        return replace(everything, feasible=sold, dual_values=duals)

    everything = Appraisal(
        pod_class={key: pod_class.index for pod_class in pod_classes for key in pod_class.pods},
        vectors=np.array([one.vector for one in pod_classes], dtype=np.int64).reshape(shape),
        dual_values=dual_values,
        capacity=instance.nodes.capacity.copy(),
        hosts=hosts,
        feasible=context.feasible,
        column_room=context.columns.capacity,
        price=context.columns.price,
        on_demand=on_demand,
    )
    return everything
