"""How much a solve may still do: counted work, and whatever else may end it early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dovetail.base.clock import SECOND
from dovetail.model.problem import WORK_PER_SECOND, Budget

# Asked now and then: the share of the time that is over, 0 to 1, or just False or True. From 1 on, the solve
# comes to its end. In production a deadline.
Stop = Callable[[], float]


def never() -> bool:
    """Nothing but the counted work ends the solve: plans are the same on every machine."""
    return False


# What one step may take of what is left, of the work or the time, so that those after it have their share: a
# step beside the way, one of two, and the one that matters most.
LITTLE, HALF, MOST = 0.2, 0.5, 0.7
SOME = 0.05  # of the pod classes, or of all bundles: to plan so many takes next to no time
LEAST = 20_000  # units for pods that are left over and for following an answer, however little is left

# How much is done in one unit of work.
CELLS = 500  # numbers compared or added up, all in one operation
FILLED = 25  # items times nodes, or as many counts, in a step of several operations
LABELS = 5  # partial patterns grown by an item
# Units of what takes the same however little there is to do.
ENTRY = 4  # a pattern priced, a factor of a program written down
STEP = 10  # a simplex iteration, an item put into partial patterns
SWEEP = 300  # a linear program of one offering, a step of filling all offerings

# What comes once the time is over (a greedy end, the proof, claims, reasons) takes some times as long as the
# beginning (encoding, a relaxation), and another round for pods that limits left over about twice as
# long as it took to find domains for all. Measured on large problems.
_END = 3.0
_AGAIN = 2.0
_MOST = 0.55  # of the whole time: more is never kept back
# Where there is no time for all pods, the rest is left over. In the least time, nodes for some and all that
# comes after them take about so many times as long as encoding and finding domains for them, and more with
# many copies of a pod, beside what a plan without nodes takes: 0.7 times with five, 0.9 with 25, 1.2 with 50,
# on crowds of 8,000 to 50,000 pods; what cannot be tried takes some time too. With sizes told apart, 1.6 to
# 2.2 times in all (1.1 to 1.5 when encoding took longer: of 50,000 pods 16,000 had no time then). Writing a
# plan down takes so many times as long as encoding, without and with pods that have a node: 0.4 to 1.1.
_PROOF = 2.0  # times as long as encoding: the cheap proofs
_SCOPE = 4.0  # times as long as it takes to work out what they are about: the same, of thousands of classes
_NODES, _COPY, _COPIES, _CLOSING, _WRITING = 0.8, 0.01, 50, 0.3, 0.4
_STEPWISE = 0.3  # where thousands of a class are placed one by one, each on a node of another: 0.3 and 0.6
_PACKING = 2.0
# Of many different pods, only so many are read as takes this share of the time left: the least plan for them
# takes five times as long in all (measured on thousands with spreads and anti-affinity).
_READING = 0.15


class Deadline:
    """Ends the solve so that its plan is there when `now()` reaches the instant.

    Both count nanoseconds of one monotonic clock. The solve must begin right away: the time until it asks for
    the first time, or until `checker`, tells how much is to be kept back for its end.
    """

    def __init__(self, instant: int, now: Callable[[], int]) -> None:
        self._now = now
        self._begun = now()
        self._whole = max(0, instant - self._begun)
        self._kept = 0.0
        self._first = self._placing = 0.0  # what encoding took, and finding domains for all pods
        self._asked = self._judged = False
        self.cut = False  # True iff the solve ended since a better plan would not come in time
        self._known: float | None = None  # what a plan takes after encoding, once there is one
        self._proving = 0.0  # what the cheap proofs take, once one was begun

    def __call__(self) -> float:
        """The share of the time that is over."""
        passed = self._now() - self._begun
        if not self._asked:
            self._asked, self._first = True, passed
            self._keep(_END * passed)
        return passed / (self._whole - self._spared) if self._whole else 1.0

    def checker(self) -> None:
        """Pods have their domains now: keep back what another round would take."""
        if not self._judged:
            self._judged = True
            self()
            self._placing = self._now() - self._begun - self._first
            self._keep(self._kept + _AGAIN * self._placing)

    def turns(self, copies: float) -> Callable[[float, float, bool], bool]:
        """For one go at finding domains, with so many pods per class: asked before each step with the share
        of the classes that had their turn, of all classes those that got domains for some pods, and whether a
        class, or one of the first, takes many steps; the answer is whether another one would make the plan
        late. Pods that get none take no time for nodes.
        """
        begun, most = self._now(), _NODES + _COPY * min(copies, _COPIES)
        before, last, spent = 0.0, begun, 0

        def over(done: float, got: float, stepwise: bool) -> bool:
            nonlocal before, last, spent
            now = self._now()
            spent += now - last if got > before else 0
            before, last = got, now
            nodes = _STEPWISE if stepwise else most
            rest = _CLOSING * self._first + nodes * (got * self._first + spent)
            return done >= SOME and now - self._begun + rest > self._whole

        return over

    def safe(self) -> None:
        """There is a plan. No more is kept back for the end of the next one than this one took with all that
        comes after encoding: until then it was a guess."""
        if self._known is None:
            self._known = self._now() - self._begun - self._first

    def unsafe(self) -> None:
        """That plan does not count any more."""
        self._known = None

    @property
    def short(self) -> bool:
        """True iff no more than the least that a plan takes will be done, as far as encoding tells."""
        return self._known is None and _END * self._first >= _MOST * self._whole

    def reading(self) -> Callable[[], bool]:
        """Asked while classes are read: whether that took so much as leaves what a plan for them takes."""
        end = self._now() + _READING * (self._begun + self._whole - self._now())
        return lambda: self._now() > end

    def closing(self, times: float) -> Callable[[float], bool]:
        """Asked on the way with the share of the pods that have a node: whether there is only time to write a
        plan for these down, and for what takes so many times as long as the way until then. Some get one
        in any case."""
        begun, last = self._now(), self._begun + self._whole - _CLOSING * self._first

        def over(share: float) -> bool:
            now = self._now()
            return share >= SOME and now + times * (now - begun) + share * _WRITING * self._first >= last

        return over

    @property
    def hasty(self) -> bool:
        """True iff nodes for all pods, with their sizes told apart, would make the first plan late, as far as
        what it took until now tells."""
        return self._known is None and (1 + _PACKING) * (self._now() - self._begun) > self._whole

    @property
    def late(self) -> bool:
        """True iff there is only time to hand over a plan that is there."""
        return self._now() - self._begun >= _LATE * self._whole

    def provable(self, *, scoped: bool = False) -> bool:
        """True iff there is time for the cheap proofs, of which it is known what they are about if `scoped`,
        and to write the plan down if there is none yet.
        """
        proof = self._proving if scoped else max(_PROOF * self._first, self._proving)
        closing = _CLOSING * self._first if self._known is None else 0.0
        return self._now() - self._begun + proof + closing < self._whole

    @property
    def halfway(self) -> bool:
        """True iff there is a plan, and what it took after encoding is more than what is left."""
        return self._known is not None and self._now() - self._begun + self._known > self._whole

    @contextmanager
    def scoping(self) -> Iterator[None]:
        """In there it is worked out what a proof is about, which tells how long it will take."""
        begun = self._now()
        yield
        self._proving = _SCOPE * (self._now() - begun)

    @property
    def _spared(self) -> float:
        return self._kept if self._known is None else min(self._kept, self._known)

    def _keep(self, much: float) -> None:
        self._kept = min(much, _MOST * self._whole)

    @property
    def another(self) -> bool:
        """True iff one more plan, made in as little time as can be, would still be there in time."""
        return self._now() - self._begun + self._placing + _END * self._first < self._whole

    @property
    def seconds(self) -> float:
        """Until the solve comes to its end, at least 0: for libraries that look at a clock of their own."""
        return max(0.0, (self._whole - self._spared - (self._now() - self._begun)) / SECOND)


_LATE = 0.97  # of the whole time: what is not finished by then is given up, if there is a plan
_LOOK = 1_000  # units of work between two looks


# Units by whose end a solve has gone through all of its phases once, then again with more, and so on. With a
# stage of 30,000 before them, plans of 30,000 units were 1 % cheaper, and those of 300,000 up to 20 %
# dearer. Where there is work for a second, the first stage is that long: with 300,000 units before it, part
# of which is repeated, 91 of 100 small problems on a region's types came within 2 % of their bounds with it
# instead of 94.
_STAGES = tuple(each * 10**power for power in range(5, 15) for each in (3, 10))


class Late(Exception):
    """The budget is used up, and there is a plan already."""


class SolveBudget:
    """Counts what was done. Once the budget is used up or `stop` says so, every pod finishes greedily.

    Invariant: `left` never becomes True again once it was False, but at the end of `sparing` and in `safe`.
    """

    def __init__(self, budget: Budget, stop: Stop = never) -> None:
        self.used = 0
        self.over = 0.0  # share of the time that had passed at the last question; falls in `safe` alone
        self._budget = budget.work
        self._stop = stop
        # Where no clock ends the solve one that stands still, so that there is always time.
        self.clock = stop if isinstance(stop, Deadline) else Deadline(1 << 62, int)
        self._kept = 0, 0.0  # units and share of the time that are spared for later
        self._frugal = False  # True iff no more is done than a plan needs
        self._safe = False  # True iff there is a plan to fall back on
        self._whole = budget.work  # of which a stage may have less, or end beyond it
        self._free = 0  # units that are not taken out of the budget
        self.tally: Counter[str] = Counter()  # of what was found and tried, for the trace of a solve
        self.wanting = False  # True iff something was left undone in a stage that more work might do
        self._asked = 0  # units that were spent at the last look whether it is late

    def spend(self, units: int) -> None:
        """Raises Late where there is a plan to fall back on and no time for another, or where a stage would
        have gone on, were there more work.
        """
        self.used += units
        if self._safe and self.used >= self._whole + self._free < self._budget:
            raise Late
        if self._safe and self.used >= self._asked:
            self._asked = self.used + _LOOK
            if self.clock.late:
                raise Late

    @contextmanager
    def frugally(self) -> Iterator[None]:
        """In there, as if the work were used up: the first plan is the same whatever the budget, and is not
        taken out of it."""
        frugal, self._frugal = self._frugal, True
        before = self.used
        try:
            yield
        finally:
            self._frugal = frugal
            self._free += self.used - before
            self._budget += self.used - before

    def stages(self) -> Iterator[None]:
        """For each stage, which begins there. What a stage does depends on no more than those before it, so a
        solve with more work begins as one with less does, if both have work for less than a second, or both
        for more. One that the budget's end falls into is given up there, and not begun where the end is near.
        """
        first = True
        for end in _STAGES:
            begun = self.used - self._free
            if end <= begun or end < self._free:  # less than the first plan took is too little
                continue
            if end < WORK_PER_SECOND <= self._whole:
                continue
            if not (first or self.wanting):  # it would do the same again
                break
            # Column generation takes ten times as long as the first plan or longer: with less it is given up.
            # Nor is more proven then; else a bit more work, for a stage that is given up, would prove less.
            if self._whole - begun < min(LITTLE * (end - begun), 10 * self._free if first else end):
                self._budget = self.used if first else self._budget
                break
            self._budget, first, self.wanting = end + self._free, False, False
            yield
        self._budget = min(self._budget, self._whole + self._free)

    @property
    def frugal(self) -> bool:
        """True iff no more is to be done than a plan needs, whatever is left."""
        return self._frugal

    def safe(self) -> None:
        """There is a plan: what would be late from now on is given up by Late; a clock keeps less back."""
        self._safe = True
        if isinstance(self._stop, Deadline):
            self._stop.safe()
            self.over = self._stop()

    def unsafe(self) -> None:
        """That plan does not count any more, or is all that there is time for."""
        self._safe = False
        self._budget = min(self._budget, self._whole + self._free)
        self.clock.unsafe()

    @contextmanager
    def sparing(self, share: float, of_time: float | None = None) -> Iterator[None]:
        """In there, that share of what is left now is not touched; the same of the time if not said."""
        kept = self._kept
        rest = 0.0 if self.time_over else max(0.0, 1 - self.over - kept[1])
        time = share if of_time is None else of_time
        self._kept = kept[0] + int(self.rest * share), kept[1] + rest * time
        try:
            yield
        finally:
            self._kept = kept

    @property
    def left(self) -> bool:
        return self.until(self._budget - self._kept[0])

    def until(self, end: float) -> bool:
        """True iff `used` is below that, and there is budget; what is asked is wanting if not."""
        left = self.used < min(end, self._budget - self._kept[0]) and not self.slice_over
        self.wanting |= not left
        return left and not self._frugal

    @property
    def slice_over(self) -> bool:
        """True iff the time is over but for what is spared, whatever work is left."""
        return self.time_over or self.over >= 1 - self._kept[1]

    @property
    def time_over(self) -> bool:
        """True iff the time is over, whatever work is left: only what a plan needs is still done."""
        if self.over < 1:
            self.over = max(self.over, self._stop())
        return self.over >= 1

    @property
    def another(self) -> bool:
        """True iff there is time for one more plan, though perhaps for no more than what a plan needs."""
        return not self.time_over or (isinstance(self._stop, Deadline) and self._stop.another)

    @property
    def seconds(self) -> float:
        """Of the clock that ends the solve, until then; infinite where only counted work ends it."""
        return self._stop.seconds if isinstance(self._stop, Deadline) else float("inf")

    def closing(self, times: float = 0.0, *, otherwise: bool = False) -> Callable[[float], bool]:
        """See Deadline; `otherwise` is the answer where there is a plan already, or no clock."""
        if self._safe or not isinstance(self._stop, Deadline):
            return lambda _: otherwise
        return self._stop.closing(times)

    @property
    def short(self) -> bool:
        """True iff a clock leaves no time for more than a plan needs, whether or not it is over yet."""
        return self.time_over or self.clock.short

    @property
    def rest(self) -> int:
        """Units of the budget that are left."""
        return 0 if self._frugal else max(0, self._budget - self._kept[0] - self.used)

    def after(self, share: float) -> int:
        """What `used` will be when that share of the budget's rest has been spent."""
        return self.used + int(self.rest * share)

    def part(self, share: float) -> Part:
        """That share of what is left, of the work and of the time."""
        rest = 0.0 if self.time_over else 1 - self.over
        return Part(self, self.after(share), self.over + rest * share)


@dataclass(frozen=True, slots=True)
class Part:
    """What one step of a solve may do, so that the steps after it have their share."""

    work: SolveBudget
    used: int
    over: float

    @property
    def left(self) -> bool:
        """Never True again once it was False."""
        return self.work.until(self.used if self.work.over < self.over else 0)
