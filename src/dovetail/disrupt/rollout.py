"""Nodes that have to be replaced in the end, such as drifted ones: whose turn it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR
from dovetail.disrupt.allowance import allowances, blocked_notes, within
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import Note
from dovetail.disrupt.consolidation.churn import REST, Arrival
from dovetail.disrupt.pods import Budgets

# When the node became due (ns since the epoch); None while it is not.
Due = Callable[[NodeView], "int | None"]


# How long a node that is due waits at most for pods that consolidation moved to it within the hour. What had
# to move is not waited for: a change of the template that is taken back has to go through at once.
WAIT = HOUR
MOVED = "Pods were moved to the node within the hour to save money"


@dataclass(frozen=True, slots=True)
class Rollout:
    """Nodes that may go now, and what to say about the others.

    In front are those whose pods were moved longest ago, if ever, and of these what is due for longest.
    """

    empty: tuple[NodeView, ...]  # go at once, together
    loaded: tuple[NodeView, ...]  # go one at a time, after their replacement is up
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the turn depends on besides the nodes; `now` in nanoseconds since the epoch.

    `moved` are pods that were moved within the hour, by UID.
    """

    pools: tuple[NodePool, ...]
    budgets: Budgets
    now: int
    moved: Mapping[str, Arrival] = field(default_factory=dict)


def arrivals(view: NodeView, moved: Mapping[str, Arrival]) -> Iterator[Arrival]:
    """Of the node's pods that would move those that came by a move. `moved` as in Rules."""
    return (moved[pod.metadata.uid] for pod in view.moving if pod.metadata.uid in moved)


def waits_until(view: NodeView, since: int, moved: Mapping[str, Arrival], now: int) -> int | None:
    """Until when a node that is due since then waits for pods that came to save money; None if it does not.

    At the latest: such pods may go before. `moved` as in Rules; all in nanoseconds since the epoch.
    """
    saved = [one.at for one in arrivals(view, moved) if not one.forced]
    if view.empty or not saved:
        return None
    until = min(max(saved) + REST, since + WAIT)
    return until if now < until else None


def rollout(views: Sequence[NodeView], due: Due, reason: str, rules: Rules) -> Rollout:
    """Whose turn it is, within the pools' budgets for that reason."""
    notes, found = [], []
    for view in views:
        since = due(view)
        if since is None:
            continue
        blocked = blocker(view, rules.budgets, rules.now, must_go=True)
        if not blocked and waits_until(view, since, rules.moved, rules.now) is not None:
            blocked = MOVED
        if blocked:
            notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", blocked))
        else:
            moved = max((one.at for one in arrivals(view, rules.moved)), default=0)
            found.append((not view.empty, moved, since, view.name, view))
    found.sort(key=lambda item: item[:4])
    allowed = allowances(rules.pools, views, reason, rules.now)
    taken, refused = within((view for *_, view in found), allowed)
    notes += blocked_notes(refused, allowed, reason)
    return Rollout(
        tuple(view for view in taken if view.empty),
        tuple(view for view in taken if not view.empty),
        tuple(notes),
    )
