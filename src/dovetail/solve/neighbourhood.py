"""A plan made better by moves: the pods of one or two nodes, or a single one, look for other places.

First for pods that are left over although they could be placed alone, then to save money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from dovetail.model.labels import SPOT
from dovetail.solve.assign.strategies import Policy
from dovetail.solve.assign.topology_rules import Opened, matters
from dovetail.solve.bound.topology_model import Berth
from dovetail.solve.build.builder import Move, opened_by, turns_of
from dovetail.solve.context import Desk
from dovetail.solve.search import PER_UNIT, Search
from dovetail.solve.search_state import Answer

_SHARE = 0.5  # of the work left
_LEAST = 20_000  # units that are spent in any case for pods that are left over
_FOLLOW, _FOLLOW_LEAST = 0.15, 10_000  # the same two for following an answer
_NEAR = 0.001  # gap that is not worth a move
_Pods = tuple[tuple[int, str], ...]  # (shape, pod)


def rearranged(desk: Desk, answer: Answer) -> Answer:
    """The answer, or a better one."""
    work, best = desk.world.work, answer
    stranded = bool(desk.stranded(best.plan.left))
    enough = work.used + max(_LEAST if stranded else 0, int(_SHARE * work.rest))
    found: Answer | None = answer
    while found is not None and (stranded or best.plan.cost.gap >= _NEAR):
        found = _improved(desk, best, enough)
        best = found or best
        stranded = bool(desk.stranded(best.plan.left))
    return best


def followed(desk: Desk, berths: tuple[Berth, ...], known: Answer) -> Answer | None:
    """The plan that comes nearest to an answer; pods whom rules keep from their nodes in it go elsewhere.

    None where it is no better than what is known, or once the time is over.
    """
    work, best, best_way, last = desk.world.work, None, None, None
    enough = max(_FOLLOW_LEAST, int(_FOLLOW * work.rest))
    moves = [Move(berths, turns=turns, most=enough // PER_UNIT) for turns in turns_of(berths)]
    views: list[tuple[Opened, Policy]] = [({}, Policy())]
    if matters(desk.world):
        fresh = opened_by(desk.world, berths)
        views += [(opened, Policy(seen=True)) for opened in ([fresh, {}] if fresh else [{}])]
    enough += work.used
    for way in ((move, *view) for view in views for move in moves):
        if last is not None and work.used > enough:
            break
        last, moved = way, Search(desk, *way[1:]).move(way[0])
        if best is None or moved.rank < best.rank:
            best, best_way = moved, way
    if best is None or best_way is None or best.rank >= known.standing or work.late:
        return None
    if best_way is not last:
        best = Search(desk, *best_way[1:]).move(best_way[0])
    return best.written()


def _improved(desk: Desk, best: Answer, enough: int) -> Answer | None:
    """What the first move that pays makes; None if none does."""
    work = desk.world.work
    lost = set(desk.stranded(best.plan.left))
    waiting = tuple((shape, pod) for shape, pod in best.left if shape in lost)
    for move in _moves(best.berths, waiting):
        if work.late or work.used > enough:
            return None
        moved = Search(desk, {}, Policy()).move(move)
        if moved.rank < best.standing:
            written = moved.written()
            if written.rank < best.rank and _fair(best, written) and (lost or _as_free(desk, best, written)):
                return written.proved()
    return None


def _fair(before: Answer, after: Answer) -> bool:
    """True iff no pod loses its place to others; who is left over of a shape does not matter."""
    return Counter(shape for shape, _ in after.left) <= Counter(shape for shape, _ in before.left)


def _as_free(desk: Desk, before: Answer, after: Answer) -> bool:
    """True iff the cloud has as many types to choose from on spot nodes, as far as spot diversity asks."""
    most = desk.world.problem.options.spot_diversity
    then, now = (
        sorted(
            min(most, len(claim.instance_types))
            for claim in answer.plan.claims
            if claim.capacity_type == SPOT
        )
        for answer in (before, after)
    )
    return all(few >= fewest for fewest, few in zip(then, now, strict=False))


def _moves(berths: Sequence[Berth], waiting: _Pods) -> Iterator[Move]:
    """Those worth a try: single nodes first."""
    numbers = range(len(berths))
    if waiting:
        for number in numbers:
            yield _emptied(berths, (number,), waiting)
            for pods in berths[number].pods:
                if len(berths[number].pods) > 1 or len(pods[2]) > 1:
                    yield _without(berths, number, (pods[0], pods[2][-1]), waiting)
        for pair in combinations(numbers, 2):
            yield _emptied(berths, pair, waiting)
        return
    bought = [number for number in numbers if berths[number].row < 0]
    for number in bought:
        yield _emptied(berths, (number,), ())
    for pair in combinations(bought, 2):
        yield _emptied(berths, pair, ())


def _emptied(berths: Sequence[Berth], some: tuple[int, ...], waiting: _Pods) -> Move:
    """All pods of some nodes leave, those of the largest requests first in finding places."""
    stay = tuple(berth for number, berth in enumerate(berths) if number not in some)
    leaving = sorted(
        (shape, pod) for number in some for shape, _, pods in berths[number].pods for pod in pods
    )
    rows = {(berths[n].row, pod) for n in some for *_, pods in berths[n].pods for pod in pods}
    return Move(stay, (*waiting, *leaving), left_rows=frozenset(rows) if waiting else frozenset())


def _without(berths: Sequence[Berth], number: int, leaving: tuple[int, str], waiting: _Pods) -> Move:
    """One pod leaves its node."""
    shape, pod = leaving
    rest = [
        (index, level, tuple(name for name in pods if name != pod))
        for index, level, pods in berths[number].pods
    ]
    berth = replace(berths[number], pods=tuple(each for each in rest if each[2]))
    stay = (*berths[:number], berth, *berths[number + 1 :])
    if berth.row >= 0:
        return Move(stay, (*waiting, (shape, pod)), left_rows=frozenset({(berth.row, pod)}))
    return Move(stay, (*waiting, (shape, pod)), left=frozenset({(number, pod)}))
