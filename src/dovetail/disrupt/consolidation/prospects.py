"""What could be saved at each node at most, told without any what-if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dovetail.disrupt.consolidation.question import Mover, Question
from dovetail.solve.appraise import Appraisal, appraise
from dovetail.solve.plan import Plan
from dovetail.solve.work import Work


class Prospects:
    """Judges nodes by the worth of their pods: what these would cost at best on nodes bought for them."""

    def __init__(self, question: Question, work: Work) -> None:
        pods = tuple(pod for mover in question.movers for pod in mover.pods)
        self.appraisal: Appraisal = appraise(replace(question.problem, pods=pods), work)
        self._hosted = self._hosting(question)
        self._rows = {node.name: row for row, node in enumerate(question.problem.nodes)}
        self._worth: dict[str, float] = {
            key: float(self.appraisal.worth[shape]) for key, shape in self.appraisal.shape.items()
        }
        self.bound = int(
            sum(self._worth.values())
        )  # what all these pods cost at least, nano-dollars per hour

    def sharpen(self, plan: Plan) -> None:
        """Take over the worths of a plan's proof for its pods, if they come to more."""
        found = {
            pod: float(item.each) for item in plan.proof.worth for pod in item.pods if pod in self._worth
        }
        if sum(found.values()) > sum(self._worth[pod] for pod in found):
            self._worth.update(found)

    def if_bought(self, mover: Mover) -> float:
        """The most that is saved if new nodes are bought for all its pods, with whichever others."""
        return mover.price - sum(self._worth[pod.key] for pod in mover.pods)

    def alone(self, mover: Mover) -> float:
        """What is saved if one node is bought for those of its pods that fit nowhere else, or none."""
        row = self._rows[mover.name]
        shape = self.appraisal.shape
        homeless = [pod.key for pod in mover.pods if not self._elsewhere(shape[pod.key], row)]
        if not homeless:
            return float(mover.price)
        least = self.appraisal.least(homeless)
        return float("-inf") if least is None else float(mover.price - least)

    def _elsewhere(self, shape: int, row: int) -> bool:
        count, rows = self._hosted[shape]
        return count > 1 or (count == 1 and row not in rows)

    def _hosting(self, question: Question) -> Mapping[int, tuple[int, tuple[int, ...]]]:
        """Per shape: on how many nodes one more pod has room, and the first of them."""
        figures = self.appraisal
        nodes = question.problem.nodes
        open_ = np.array([node.initialized and node.name not in question.closed for node in nodes], np.bool_)
        found = {}
        for shape in range(len(figures.vectors)):
            fits = figures.hosts[shape] & open_ & np.all(figures.room >= figures.vectors[shape], axis=1)
            rows = np.flatnonzero(fits)
            found[shape] = (len(rows), tuple(rows[:1].tolist()))
        return found
