"""A plan made better by moves: the pods of one or two nodes, or a single one, look for other places.

First for pods that are left over although they could be placed alone, then to save money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice

from dovetail.model.labels import SPOT
from dovetail.solve.assign.strategies import Strategy
from dovetail.solve.assign.topology_rules import Opened, matters
from dovetail.solve.bound.topology_model import TargetNode
from dovetail.solve.budget import HALF, LEAST, LITTLE
from dovetail.solve.build.builder import Move, opened_by, turns_of
from dovetail.solve.search import PER_UNIT, Search
from dovetail.solve.search_state import Answer, SolveContext
from dovetail.solve.tolerances import GAP

# Units for a pod that is put where an answer has it: 202 for each of 800 pods on 192 nodes.
_SEATED = 250
_Pods = tuple[tuple[int, str], ...]  # (pod class, pod)


def rearranged(context: SolveContext, answer: Answer) -> Answer:
    """The answer, or a better one."""
    work, best = context.instance.work, answer
    stranded = bool(context.stranded(best.plan.left))
    enough = work.used + max(LEAST if stranded else 0, int(HALF * work.rest))
    found: Answer | None = answer
    while found is not None and (stranded or best.plan.cost.gap >= GAP):
        found = _improved(context, best, enough)
        best = found or best
        stranded = bool(context.stranded(best.plan.left))
    return best


def followed(context: SolveContext, target_nodes: tuple[TargetNode, ...], known: Answer) -> Answer | None:
    """The plan that comes nearest to an answer; pods that rules keep from their nodes in it go elsewhere.

    None where it is no better than what is known, or once the time is over.
    """
    work, best, best_way, last = context.instance.work, None, None, None
    enough = max(LEAST, int(LITTLE * work.rest))
    pods = sum(len(pods) for node in target_nodes for *_, pods in node.pods)
    most = max(enough, min(_SEATED * pods, int(HALF * work.rest))) // PER_UNIT
    moves = [Move(target_nodes, turns=turns, most=most) for turns in turns_of(context.instance, target_nodes)]
    views: list[tuple[Opened, Strategy]] = [({}, Strategy())]
    if matters(context.instance):
        fresh = opened_by(context.instance, target_nodes)
        views += [(opened, Strategy(seen=True)) for opened in ([fresh, {}] if fresh else [{}])]
    enough += work.used
    for way in ((move, *view) for view in views for move in moves):
        if last is not None and work.used > enough:
            break
        last, moved = way, Search(context, *way[1:]).move(way[0])
        if best is None or moved.rank < best.rank:
            best, best_way = moved, way
    if best is None or best_way is None or best.rank >= known.plan_state or work.time_over:
        return None
    if best_way is not last:
        best = Search(context, *best_way[1:]).move(best_way[0])
    return best.written()


def _improved(context: SolveContext, best: Answer, enough: int) -> Answer | None:
    """What the first move that pays makes; None if none does."""
    work = context.instance.work
    lost = set(context.stranded(best.plan.left))
    waiting = tuple((pod_class, pod) for pod_class, pod in best.left if pod_class in lost)
    before = context.moves[best.target_nodes, waiting]
    for move in islice(_moves(best.target_nodes, waiting), before, None):
        if work.time_over or work.used > enough:
            work.wanting = True
            return None
        work.tally["moves"] += 1
        context.moves[best.target_nodes, waiting] += 1
        moved = Search(context, {}, Strategy()).move(move)
        if moved.rank < best.plan_state:
            written = moved.written()
            better = written.rank < best.rank and _fair(best, written)
            if better and (lost or _as_free(context, best, written)):
                return written.proved()
    return None


def _fair(before: Answer, after: Answer) -> bool:
    """True iff no pod loses its place to others; which pod of a class is left over does not matter."""
    then, now = (Counter(pod_class for pod_class, _ in answer.left) for answer in (before, after))
    return now <= then


def _as_free(context: SolveContext, before: Answer, after: Answer) -> bool:
    """True iff the cloud has as many types to choose from on spot nodes, as far as spot diversity asks."""
    most = context.instance.problem.options.spot_diversity
    claims = (answer.plan.claims for answer in (before, after))
    spot = ([len(claim.instance_types) for claim in some if claim.capacity_type == SPOT] for some in claims)
    then, now = (sorted(min(most, types) for types in some) for some in spot)
    return all(few >= fewest for fewest, few in zip(then, now, strict=False))


def _moves(target_nodes: Sequence[TargetNode], waiting: _Pods) -> Iterator[Move]:
    """Those worth a try: single nodes first."""
    if waiting:
        for number, node in enumerate(target_nodes):
            yield _emptied(target_nodes, (number,), waiting)
            for pods in node.pods:
                if len(node.pods) > 1 or len(pods[2]) > 1:
                    yield _without(target_nodes, number, (pods[0], pods[2][-1]), waiting)
        for pair in combinations(range(len(target_nodes)), 2):
            yield _emptied(target_nodes, pair, waiting)
        return
    bought = [number for number, node in enumerate(target_nodes) if node.row < 0]
    for some in chain(combinations(bought, 1), combinations(bought, 2)):
        yield _emptied(target_nodes, some, ())


def _emptied(target_nodes: Sequence[TargetNode], some: tuple[int, ...], waiting: _Pods) -> Move:
    """All pods of some nodes leave, those of the largest requests first in finding places."""
    stay = tuple(target_node for number, target_node in enumerate(target_nodes) if number not in some)
    nodes = [target_nodes[number] for number in some]
    leaving = sorted((pod_class, pod) for node in nodes for pod_class, _, pods in node.pods for pod in pods)
    rows = {(node.row, pod) for node in nodes for *_, pods in node.pods for pod in pods}
    return Move(stay, (*waiting, *leaving), left_rows=frozenset(rows) if waiting else frozenset())


def _without(
    target_nodes: Sequence[TargetNode], number: int, leaving: tuple[int, str], waiting: _Pods
) -> Move:
    """One pod leaves its node."""
    node, (_, gone) = target_nodes[number], leaving
    rest = [(index, level, tuple(pod for pod in pods if pod != gone)) for index, level, pods in node.pods]
    emptier = replace(node, pods=tuple(each for each in rest if each[2]))
    stay = (*target_nodes[:number], emptier, *target_nodes[number + 1 :])
    if node.row >= 0:
        return Move(stay, (*waiting, leaving), left_rows=frozenset({(node.row, gone)}))
    return Move(stay, (*waiting, leaving), left=frozenset({(number, gone)}))
