"""Nodes that have to be replaced in the end, such as drifted ones: whose turn it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.allowance import allowances, blocked_notes, within
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import Note
from dovetail.disrupt.pods import Budgets

# When the node became due (ns since the epoch); None while it is not.
Due = Callable[[NodeView], "int | None"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Nodes that may go now, those that are due for longest in front, and what to say about the others."""

    empty: tuple[NodeView, ...]  # go at once, together
    loaded: tuple[NodeView, ...]  # go one at a time, after their replacement is up
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the turn depends on besides the nodes; `now` in nanoseconds since the epoch."""

    pools: tuple[NodePool, ...]
    budgets: Budgets
    now: int


def rollout(views: Sequence[NodeView], due: Due, reason: str, rules: Rules) -> Rollout:
    """Whose turn it is, within the pools' budgets for that reason."""
    notes, found = [], []
    for view in views:
        since = due(view)
        if since is None:
            continue
        blocked = blocker(view, rules.budgets, rules.now, must_go=True)
        if blocked:
            notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", blocked))
        else:
            found.append((not view.empty, since, view.name, view))
    found.sort(key=lambda item: item[:3])
    allowed = allowances(rules.pools, views, reason, rules.now)
    taken, refused = within((view for *_, view in found), allowed)
    notes += blocked_notes(refused, allowed, reason)
    return Rollout(
        tuple(view for view in taken if view.empty),
        tuple(view for view in taken if not view.empty),
        tuple(notes),
    )
