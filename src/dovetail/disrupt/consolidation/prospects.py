"""What could be saved at each node at most, estimated without any what-if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.solve.appraisal import Appraisal, appraise
from dovetail.solve.budget import SolveBudget


class Prospects:
    """Judges nodes by the worth of their pods: what these would cost at best on nodes bought for them."""

    def __init__(self, question: Question, work: SolveBudget) -> None:
        pods = tuple(pod for candidate in question.candidates for pod in candidate.pods)
        self._spot_to_spot = question.spot_to_spot
        self.appraisal: Appraisal = appraise(replace(question.problem, pods=pods), work)
        # What all these pods cost at least, nano-dollars per hour.
        self.bound = int(sum(self.appraisal.dual_values[one] for one in self.appraisal.pod_class.values()))

    def known(self, candidate: Candidate) -> bool:
        """False iff it has a pod that is in no plan with others: what that one is worth is unknown."""
        return all(pod.key in self.appraisal.pod_class for pod in candidate.pods)

    def replaceable(self, candidate: Candidate) -> bool:
        """False for a spot node where spot may not follow spot."""
        return self._spot_to_spot or not candidate.spot

    def if_bought(self, candidate: Candidate) -> float:
        """The most that is saved if new nodes are bought for all its pods, with whichever others."""
        worth = self._for_sale(candidate).dual_values
        return candidate.price - float(
            sum(worth[self.appraisal.pod_class[pod.key]] for pod in candidate.pods)
        )

    def least(self, candidate: Candidate, pod_classes: Sequence[int]) -> int | None:
        """The least that one node costs which holds a pod of each of these; None if none is sold."""
        return self._for_sale(candidate).least(pod_classes)

    def _for_sale(self, candidate: Candidate) -> Appraisal:
        """On demand alone for a node that spot may not follow: a move to spot would be refused.

        Of 243 what-ifs about single nodes of a cluster on spot 233 were refused, nearly all for that.
        """
        return self.appraisal if self.replaceable(candidate) else self.appraisal.on_demand()
