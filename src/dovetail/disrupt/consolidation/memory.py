"""What searches found out, so that nothing is looked at twice that cannot have changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.base.clock import MINUTE
from dovetail.disrupt.consolidation.irreplaceable_spot import Market
from dovetail.disrupt.consolidation.price import UNSETTLED
from dovetail.disrupt.consolidation.question import Candidate, Finding, Question
from dovetail.disrupt.consolidation.reserves import Reserves
from dovetail.model.problem import Pool

REJECTED = "A second look found no such plan"
REMEMBERED = 5 * MINUTE  # how long a verdict about one node holds although other nodes change


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why a node stays, as of `at` (nanoseconds) and with what was on it then.

    It holds for as long as none of the `restless` is quiet: their room did not count, or decided.
    """

    content: tuple[object, ...]
    text: str
    at: int
    restless: frozenset[str]


class Memory:
    """Belongs to one controller. Verdicts about sets of nodes hold for the very same question only.

    Invariant: `_finding` is that of `_question`. `_borrowed` is the oldest instant of the
    verdicts that it rests on although they were passed when something else was asked; None without such.
    """

    def __init__(self) -> None:
        self._question: Question | None = None
        self._finding: Finding | None = None
        self._quiet: frozenset[str] = frozenset()  # nodes of the question that take pods
        self._sets: dict[tuple[str, ...], str] = {}
        self._alone: dict[str, _Verdict] = {}
        self._borrowed: int | None = None
        self.market = Market()
        self.rescheduling = Reserves()

    def holds(self, now: int) -> bool:
        """False once a verdict of earlier times that the last answer rests on is too old."""
        return self._borrowed is None or now - self._borrowed < REMEMBERED

    def recall(self, question: Question, now: int) -> Finding | None:
        """What was found when the same was asked before, if the search was at its end then.

        Not once a verdict of earlier times that it rests on is too old: that may have changed.
        """
        if not self.holds(now):
            self._finding, self._borrowed = None, None
        if question != self._question:
            if self._question is None or _offers(question) != _offers(self._question):
                self._alone.clear()
            self._question, self._finding, self._borrowed = question, None, None
            self._sets.clear()
            present = frozenset(node.name for node in question.problem.nodes)
            self._quiet = present - question.restless - question.closed
            self._forget(present)
        return self._finding

    def _forget(self, present: frozenset[str]) -> None:
        self._alone = {name: item for name, item in self._alone.items() if name in present}

    def keep(self, finding: Finding) -> None:
        """The answer to the question that was recalled last."""
        self._finding = finding if finding.complete else None

    def refused(self, candidates: tuple[Candidate, ...], now: int, *, quiet: bool = False) -> str:
        """Why these nodes cannot go together; "" if that was not tried. `quiet`: onto quiet nodes alone."""
        text = self._sets.get(_names(candidates), "")
        if text or len(candidates) > 1:
            return "" if quiet and text == UNSETTLED else text
        known = self._alone.get(candidates[0].name)
        if known is None or known.content != candidates[0].content or now - known.at >= REMEMBERED:
            return ""
        if (quiet and known.text == UNSETTLED) or not known.restless.isdisjoint(self._quiet):
            return ""
        self._borrowed = known.at if self._borrowed is None else min(self._borrowed, known.at)
        return known.text

    def refuse(
        self,
        candidates: tuple[Candidate, ...],
        text: str,
        now: int,
        *,
        fleeting: bool,
        restless: frozenset[str] = frozenset(),
    ) -> None:
        """These nodes cannot go together, for that reason.

        `fleeting`: because of pods that need a place anyway, so that it says nothing about later questions.
        `restless`: as long as none of these nodes is quiet.
        """
        self._sets[_names(candidates)] = text
        if len(candidates) == 1 and not fleeting:
            self._alone[candidates[0].name] = _Verdict(candidates[0].content, text, now, restless)

    def reject(self, candidates: tuple[Candidate, ...], now: int, *, fleeting: bool) -> None:
        """A second look found no such move of these nodes: it is not proposed again while all is as it was.

        54 looks within an hour each proposed the same one that the second refuted, and nothing else went.
        """
        self.refuse(candidates, REJECTED, now, fleeting=fleeting)
        self._finding = None


def _offers(question: Question) -> tuple[Pool, ...]:
    """What may be bought, without what has been."""
    return tuple(replace(pool, usage={}) for pool in question.problem.pools)


def _names(candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    return tuple(sorted(candidate.name for candidate in candidates))
