"""How many nodes of each pool a method may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.memo import by_identity
from dovetail.disrupt.budgets import pool_allows
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import UNHEALTHY, Note


def allowances(pools: Sequence[NodePool], views: Sequence[NodeView], reason: str, now: int) -> dict[str, int]:
    """Pool name -> nodes that may be disrupted for the reason at `now`, on top of those that are."""
    counted, used = _counts(tuple(views)), consuming(pools, views, reason)
    answer = {}
    for pool in pools:
        name = pool.metadata.name
        answer[name] = pool_allows(pool, reason, counted.nodes[name], used[name], now)
    return answer


def consuming(pools: Iterable[NodePool], views: Sequence[NodeView], reason: str) -> dict[str, int]:
    """Pool name -> nodes that use up its budgets for the reason: on their way out, or not ready.

    For unhealthy nodes those that are not ready do not: they are what has to go.
    """
    counted = _counts(tuple(views))
    used = counted.leaving if reason == UNHEALTHY else counted.used
    return {pool.metadata.name: used[pool.metadata.name] for pool in pools}


@dataclass(frozen=True, slots=True)
class _Counts:
    """By pool: nodes that budgets count, those of them on their way out, and these with what is not ready."""

    nodes: Counter[str]
    leaving: Counter[str]
    used: Counter[str]


@by_identity(16)
def _counts(views: tuple[NodeView, ...]) -> _Counts:
    """Every method asks about the same views."""
    found = _Counts(Counter(), Counter(), Counter())
    for view in views:
        if view.counts:
            found.nodes[view.pool_name] += 1
            found.leaving[view.pool_name] += view.leaves
            found.used[view.pool_name] += view.uses_budget
    return found


def within(
    candidates: Iterable[NodeView], allowed: Mapping[str, int]
) -> tuple[tuple[NodeView, ...], tuple[str, ...]]:
    """The first candidates that the budgets allow, and the names of the pools whose budgets refused one."""
    left = dict(allowed)
    taken, refused = [], set()
    for view in candidates:
        if left.get(view.pool_name, 0) > 0:
            left[view.pool_name] -= 1
            taken.append(view)
        else:
            refused.add(view.pool_name)
    return tuple(taken), tuple(sorted(refused))


def blocked_notes(refused: Iterable[str], allowed: Mapping[str, int], reason: str) -> tuple[Note, ...]:
    """One note for each pool whose budgets allow no disruption at all."""
    text = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
    return tuple(
        Note(pool, "DisruptionBlocked", text, on_pool=True) for pool in refused if allowed.get(pool, 0) == 0
    )
