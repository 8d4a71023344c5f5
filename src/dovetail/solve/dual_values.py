"""What pods are worth and where there is room for them: what a search for cheaper nodes starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.left_out import left_out
from dovetail.model.problem import Problem
from dovetail.solve.budget import Work
from dovetail.solve.context import Desk
from dovetail.solve.instance.arrays import Amounts, Floats, Mask

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Appraisal:
    """S shapes of the problem's pods, N existing nodes, C offerings, R resources.

    `worth` (S,) is what a pod costs at best, in nano-dollars per hour: the shadow prices of a linear program
    over all pods. Whatever nodes are bought for some of them cost at least what the pods are worth together.
    """

    # Key of a pod -> its shape; without those that are in no plan, or take too much work to read.
    shape: dict[str, int]
    vectors: Amounts  # (S, R)
    worth: Floats  # (S,)
    room: Amounts  # (N, R) that is free on the nodes as they are
    hosts: Mask  # (S, N): nodes whose labels and taints suit, whatever their room
    feasible: Mask  # (S, C)
    column_room: Amounts  # (C, R)
    price: Amounts  # (C,) nano-dollars per hour

    def least(self, shapes: Sequence[int]) -> int | None:
        """The least that a node costs which holds a pod of each of these shapes; None if none is sold."""
        need = self.vectors[list(shapes)].sum(axis=0)
        fits = self.feasible[np.unique(shapes)].all(axis=0) & np.all(self.column_room >= need, axis=1)
        least = int(np.where(fits, self.price, _NEVER).min(initial=_NEVER))
        return None if least == _NEVER else least


def appraise(problem: Problem, work: Work) -> Appraisal:
    """The figures for all pods of a problem, its nodes as they are; without rules between pods."""
    pods = tuple(pod for pod in problem.pods if not left_out(pod, problem.volumes))
    desk = Desk(replace(problem, pods=pods), work)
    desk.appraise()
    world, shapes = desk.world, desk.world.shapes
    hosts = np.zeros((len(shapes), len(problem.nodes)), dtype=np.bool_)
    for shape in shapes:
        for level in shape.levels:
            for wanted in level.alternatives:
                hosts[shape.index] |= world.nodes.feasible(wanted, level.rules)
    width = len(world.axis.names)
    return Appraisal(
        shape={key: shape.index for shape in shapes for key in shape.pods},
        vectors=np.array([shape.vector for shape in shapes], dtype=np.int64).reshape(len(shapes), width),
        worth=np.array([shape.value for shape in shapes], dtype=np.float64),
        room=world.nodes.room.copy(),
        hosts=hosts,
        feasible=desk.feasible,
        column_room=desk.columns.room,
        price=desk.columns.price,
    )
