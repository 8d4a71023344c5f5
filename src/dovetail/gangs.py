"""All or nothing: a plan that buys nothing for gangs of which not enough pods have a place.

The solver knows no gangs: it is asked, what it answers is looked at, and without the pods of gangs that came
out broken it is asked again, so that others get their room. Where several gangs broke each other, they are
then tried again beside what has a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.api.core import Pod
from dovetail.model.gangs import Gang
from dovetail.model.plan import OUT_OF_TIME, Plan, Unschedulable
from dovetail.model.problem import Ask, Problem, Questions

# Plans without ever more gangs that come out broken, before all of them are left out.
MOST_BROKEN = 3
# Plans with some of them once more, half of them first: then as many fewer as are broken again.
MOST_TRIED = 4

Key = tuple[str, str]  # kind and name of a gang
_NOTHING = "nothing is bought for it"


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why nothing is bought for a gang: `cause` is what keeps those waiting that have no place."""

    gang: Gang
    text: str
    cause: str = ""
    pools: Mapping[str, str] = field(default_factory=dict)

    def left(self) -> Iterator[Unschedulable]:
        """Its pods, all of which have no place."""
        if self.cause == OUT_OF_TIME:
            yield from (Unschedulable(pod, OUT_OF_TIME, self.pools) for pod in self.gang.pods)
            return
        reason = f"{self.text}; of the others: {self.cause}" if self.cause else self.text
        yield from (Unschedulable(pod, reason, self.pools, self.text) for pod in self.gang.pods)


def whole_gangs(problem: Problem, work: int, ask: Ask) -> Plan:
    """A plan with a place for enough pods of each gang, or for none that the gang still lacks.

    The bound of its cost holds for the pods that have a place, as that of any plan. Asks for one plan where
    no gang is broken, and for MOST_BROKEN + MOST_TRIED + 2 at most.
    """
    asking = _Asking(problem, Questions(work, ask))
    gangs = tuple(_here(problem))
    out = {gang.key: _short(gang) for gang in gangs if gang.short}
    whole = tuple(gang for gang in gangs if not gang.short)
    plan = asking.without(out.values())
    first = broken = _broken(plan, whole)
    for _ in range(MOST_BROKEN):
        if not broken:
            break
        out |= broken
        plan = asking.without(out.values())
        broken = _broken(plan, [gang for gang in whole if gang.key not in out])
    if broken:
        out |= {gang.key: out.get(gang.key) or _crowded(gang) for gang in whole}
        plan = asking.without(out.values())
    if len(first) > 1:
        plan, out = _once_more(asking, whole, plan, out, _in_turn(problem, first.values()))
    left = [*plan.unschedulable]
    for one in out.values():
        left += one.left()
    left.sort(key=lambda item: item.pod)
    return replace(plan, unschedulable=tuple(left), work=asking.used)


def _once_more(
    asking: _Asking, whole: Sequence[Gang], plan: Plan, out: dict[Key, _Broken], waiting: list[Gang]
) -> tuple[Plan, dict[Key, _Broken]]:
    """The plan and what is out of it, after those that wait were tried again, in this order."""
    size = max(1, len(waiting) // 2)
    for _ in range(MOST_TRIED):
        if not waiting:
            break
        some = {gang.key: gang for gang in waiting[:size]}
        rest = {key: one for key, one in out.items() if key not in some}
        tried = asking.without(rest.values())
        fits = not _broken(tried, [gang for gang in whole if gang.key not in rest])
        if fits and _keeps(plan, tried, some.values()):
            plan, out, waiting = tried, rest, waiting[size:]
        elif size == 1:
            waiting = waiting[1:]
        size = max(1, size // 2)
    return plan, out


class _Asking:
    """Asks about the problem without some gangs."""

    def __init__(self, problem: Problem, questions: Questions) -> None:
        self._problem = problem
        self._questions = questions

    def without(self, broken: Iterable[_Broken]) -> Plan:
        out = {pod for one in broken for pod in one.gang.pods}
        pods = tuple(pod for pod in self._problem.pods if pod.key not in out)
        return self._questions.plan(replace(self._problem, pods=pods, gangs=()))

    @property
    def used(self) -> int:
        return self._questions.used


def _here(problem: Problem) -> Iterable[Gang]:
    """The gangs as far as they are asked about: part of one may be on nodes that a plan just bought."""
    asked = {pod.key for pod in problem.pods}
    there: set[str] | None = None
    for gang in problem.gangs:
        here = tuple(pod for pod in gang.pods if pod in asked)
        if not here:
            continue
        if len(here) == len(gang.pods):
            yield gang
            continue
        if there is None:
            there = {pod.key for node in problem.nodes for pod in node.pods}
        placed = len(there.intersection(gang.pods) - set(here))
        if gang.minimum > placed:
            yield replace(gang, pods=here, minimum=gang.minimum - placed, placed=gang.placed + placed)


def _short(gang: Gang) -> _Broken:
    there = gang.placed + len(gang.pods)
    return _Broken(
        gang, f"gang {gang.name}: {there} of the {gang.wanted} pods that it needs are there; {_NOTHING}"
    )


def _crowded(gang: Gang) -> _Broken:
    return _Broken(
        gang, f"gang {gang.name}: no plan was found that has a place for the whole of it; {_NOTHING}"
    )


def _broken(plan: Plan, gangs: Iterable[Gang]) -> dict[Key, _Broken]:
    """Those of which too few pods have a place."""
    left = {one.pod: one for one in plan.unschedulable}
    found: dict[Key, _Broken] = {}
    for gang in gangs:
        over = [left[pod] for pod in gang.pods if pod in left]
        if len(gang.pods) - len(over) >= gang.minimum:
            continue
        found[gang.key] = _of(gang, over)
    return found


def _of(gang: Gang, over: list[Unschedulable]) -> _Broken:
    causes = Counter(one.reason for one in over)
    cause, _ = min(causes.items(), key=lambda item: (item[0] != OUT_OF_TIME, -item[1], item[0]))
    pools = next(one.pools for one in over if one.reason == cause)
    total = gang.placed + len(gang.pods)
    text = f"gang {gang.name}: {total - len(over)} of {total} pods can be placed (it needs {gang.wanted})"
    return _Broken(gang, f"{text}; {_NOTHING}", cause, pools)


def _in_turn(problem: Problem, broken: Iterable[_Broken]) -> list[Gang]:
    """As gang schedulers take them: the highest priority first, then the one that came first."""
    pods: dict[str, Pod] = {pod.key: pod for pod in problem.pods}

    def turn(gang: Gang) -> tuple[int, str, str]:
        own = [pods[key] for key in gang.pods]
        first = min(pod.metadata.creation_timestamp for pod in own)
        return -max(pod.spec.priority for pod in own), first, gang.name

    return sorted((one.gang for one in broken), key=turn)


def _keeps(plan: Plan, other: Plan, some: Iterable[Gang]) -> bool:
    """True iff the other plan, which has some more gangs, has places for all that have one in the plan."""
    more = {pod for gang in some for pod in gang.pods}
    return set(other.left) - more <= set(plan.left)
