"""Emptiness: nodes without pods that would have to move are deleted, all that the budgets allow at once."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.disrupt.allowance import allowances, blocked_notes, within
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import EMPTY, Command, Decision, Note
from dovetail.disrupt.minimum import kept, spare, without
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.static import is_static
from dovetail.units.duration import parse_nillable


def decide(views: Sequence[NodeView], pools: Sequence[NodePool], budgets: Budgets, now: int) -> Decision:
    """One command with every empty node that nothing blocks, dearest first, within the pools' budgets."""
    notes = []
    empty = []
    for view in views:
        reason = blocker(view, budgets, now)
        if reason:
            notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", reason))
        elif is_static(view.pool):
            continue
        elif not _enabled(view):
            message = f'NodePool "{view.pool_name}" has consolidation disabled'
            notes.append(Note(view.claim.metadata.name, "Unconsolidatable", message))
        elif view.empty and is_true(view.claim.status.conditions, "Consolidatable"):
            if view.reserved:
                message = f'Node "{view.name}" has buffer pods'
                notes.append(Note(view.claim.metadata.name, "Unconsolidatable", message))
            else:
                empty.append(view)
    empty.sort(key=NodeView.rank)
    allowed = allowances(pools, views, EMPTY, now)
    taken, refused = within(empty, allowed)
    notes += blocked_notes(refused, allowed, EMPTY)
    left = spare(pools, views)
    if left:
        let_go = taken
        taken, _ = within(let_go, without(allowed, left))
        gone = {view.name for view in taken}
        notes += [
            Note(view.claim.metadata.name, "Unconsolidatable", kept(view.pool_name))
            for view in let_go
            if view.name not in gone
        ]
    return Decision(Command(EMPTY, taken) if taken else None, tuple(notes))


def validate(
    command: Command,
    views: Sequence[NodeView],
    pools: Sequence[NodePool],
    budgets: Budgets,
    now: int,
) -> Command | None:
    """What is left of a command after the quiet period: nodes that are still empty, allowed and unblocked."""
    fresh = {view.claim.metadata.uid: view for view in views}
    still = [
        view
        for old in command.candidates
        if (view := fresh.get(old.claim.metadata.uid)) is not None
        and not blocker(view, budgets, now)
        and _enabled(view)
        and not is_static(view.pool)
        and view.empty
        and not view.reserved
        and is_true(view.claim.status.conditions, "Consolidatable")
    ]
    allowed = without(allowances(pools, views, command.reason, now), spare(pools, views))
    taken, _ = within(still, allowed)
    return Command(command.reason, taken) if taken else None


def _enabled(view: NodeView) -> bool:
    return view.pool is not None and parse_nillable(view.pool.spec.disruption.consolidate_after) is not None
