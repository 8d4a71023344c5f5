"""What could be saved at each node at most, told without any what-if."""

from __future__ import annotations

from dataclasses import replace

from dovetail.disrupt.consolidation.question import Mover, Question
from dovetail.solve.budget import SolveBudget
from dovetail.solve.dual_values import Appraisal, appraise


class Prospects:
    """Judges nodes by the worth of their pods: what these would cost at best on nodes bought for them."""

    def __init__(self, question: Question, work: SolveBudget) -> None:
        pods = tuple(pod for mover in question.movers for pod in mover.pods)
        self.appraisal: Appraisal = appraise(replace(question.problem, pods=pods), work)
        self._worth: dict[str, float] = {
            key: float(self.appraisal.dual_values[shape]) for key, shape in self.appraisal.pod_class.items()
        }
        self.bound = int(
            sum(self._worth.values())
        )  # what all these pods cost at least, nano-dollars per hour

    def known(self, mover: Mover) -> bool:
        """False iff it has a pod that is in no plan with others: what that one is worth nothing tells."""
        return all(pod.key in self._worth for pod in mover.pods)

    def if_bought(self, mover: Mover) -> float:
        """The most that is saved if new nodes are bought for all its pods, with whichever others."""
        return mover.price - sum(self._worth[pod.key] for pod in mover.pods)
