"""What nodes are worth beside what their pods would cost on others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dovetail.disrupt.consolidation.appraisal import Appraisal, appraise
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.solve.budget import SolveBudget


class Prospects:
    """Judges nodes by the worth of their pods: what these would cost at best on nodes bought for them."""

    def __init__(self, question: Question, candidates: Iterable[Candidate], work: SolveBudget) -> None:
        some = tuple(candidates)
        pods = tuple(pod for candidate in some for pod in candidate.pods)
        self._question = question
        problem = replace(question.problem, pods=pods, devices=question.claims_anew(some))
        self.appraisal: Appraisal = appraise(problem, work)
        # All pods of these are known, as nearly always: each search asks about each node several times.
        complete = len(self.appraisal.pod_class) == len(pods)
        self._complete = {candidate.name: candidate.pods for candidate in some} if complete else {}

    @property
    def bound(self) -> int:
        """What all these pods cost at least, nano-dollars per hour."""
        worth = self.appraisal.dual_values()
        return int(sum(worth[one] for one in self.appraisal.pod_class.values()))

    def known(self, candidate: Candidate) -> bool:
        """False iff it has a pod that is in no plan with others: what that one is worth is unknown."""
        return self._complete.get(candidate.name) is candidate.pods or all(
            pod.key in self.appraisal.pod_class for pod in candidate.pods
        )

    def if_bought(self, candidate: Candidate) -> float:
        """The most that is saved if new nodes are bought for all its pods, with whichever others."""
        worth = self._for_sale(candidate).dual_values()
        return candidate.price - float(
            sum(worth[self.appraisal.pod_class[pod.key]] for pod in candidate.pods)
        )

    def wasted(self, candidate: Candidate) -> float:
        """What it costs beyond what its pods are worth."""
        worth, pod_class = self.appraisal.dual_values(), self.appraisal.pod_class
        return candidate.price - float(sum(worth[pod_class[pod.key]] for pod in candidate.pods))

    def in_vain(self, candidate: Candidate, coming: Iterable[str]) -> float:
        """The same for it and whichever others may be bought, once these pods (by key) are on it as well."""
        worth, pod_class = self._for_sale(candidate).dual_values(), self.appraisal.pod_class
        return self.if_bought(candidate) - float(sum(worth[pod_class[key]] for key in coming))

    def least(self, candidate: Candidate, pod_classes: Sequence[int]) -> int | None:
        """The least that one node costs which holds a pod of each of these; None if none is sold."""
        return self._for_sale(candidate).least(pod_classes)

    def _for_sale(self, candidate: Candidate) -> Appraisal:
        """On demand alone for a node that spot may not follow: a move to spot would be refused.

        Of 243 what-ifs about single nodes of a cluster on spot 233 were refused, nearly all for that.
        """
        return self.appraisal if self._question.replaceable(candidate) else self.appraisal.on_demand()
