"""Which nodes consolidation may take, decided from views of them, and why it leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dovetail.api.meta import is_true
from dovetail.base.memo import by_identity
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import REPLACES, Note
from dovetail.disrupt.consolidation.churn import REST
from dovetail.disrupt.consolidation.question import Candidate
from dovetail.disrupt.consolidation.saving import Minimum, pool_minimum
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.static import is_static
from dovetail.model import labels
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import parse_rfc3339

WHEN_EMPTY = "WhenEmpty"
CONSOLIDATABLE = "Consolidatable"


def candidates(
    views: Sequence[NodeView], budgets: Budgets, now: int, of: Callable[[NodeView], Candidate]
) -> tuple[tuple[Candidate, ...], tuple[Note, ...]]:
    """Nodes that are quiet, that nothing blocks, and whose pool lets them go although they are not empty.

    Notes say why others stay. Emptiness reports the blockers: it looks at the same nodes at the same time.
    `of` makes one of a node's view, see `candidate_of`.
    """
    found, notes = [], []
    for view in views:
        if view.empty and not view.reserved:
            continue
        if is_static(view.pool) or not is_true(view.claim.status.conditions, CONSOLIDATABLE):
            continue
        if blocker(view, budgets, now):
            continue
        why = obstacle(view)
        if why:
            notes.append(Note(view.claim.metadata.name, "Unconsolidatable", why))
        else:
            found.append(of(view))
    return tuple(found), tuple(notes)


def closed(views: Iterable[NodeView]) -> frozenset[str]:
    """Nodes that take no pods of others: those that are not up."""
    return frozenset(view.name for view in views if not view.initialized)


def restless(views: Iterable[NodeView]) -> frozenset[str]:
    """Nodes that are not quiet yet: with pods coming all the time, they would never come to rest."""
    return frozenset(view.name for view in views if view.initialized and _restless(view))


def _restless(view: NodeView) -> bool:
    after = view.pool.spec.disruption.consolidate_after if view.pool is not None else "Never"
    quiet = is_true(view.claim.status.conditions, CONSOLIDATABLE)
    return parse_nillable(after) is not None and not quiet


def fresh_until(view: NodeView) -> int:
    """An hour after a command bought it in place of others (nanoseconds); 0 if none did."""
    made = view.claim.metadata
    return parse_rfc3339(made.creation_timestamp) + REST if REPLACES in made.annotations else 0


def fresh(views: tuple[NodeView, ...], now: int) -> dict[str, int]:
    """Nodes that a command bought in place of others within the hour, and until when (nanoseconds)."""
    return {name: until for name, until in _bought(views).items() if now < until}


@by_identity(1)  # asked at each turn, most often of the same; more would keep nodes that are gone
def _bought(views: tuple[NodeView, ...]) -> dict[str, int]:
    """Nodes that a command bought in place of others ever, likewise."""
    bought = (view for view in views if REPLACES in view.claim.metadata.annotations)
    return {view.name: fresh_until(view) for view in bought}


def obstacle(view: NodeView) -> str:
    """Why consolidation does not ask about the node at all, in the words of the events; "" if it may."""
    pool = view.pool
    if pool is None or parse_nillable(pool.spec.disruption.consolidate_after) is None:
        return f'NodePool "{view.pool_name}" has consolidation disabled'
    if pool.spec.disruption.consolidation_policy == WHEN_EMPTY:
        return f'NodePool "{view.pool_name}" has consolidation policy WhenEmpty, but node is not empty'
    stamped = view.claim.metadata.labels
    for key in (labels.CAPACITY_TYPE, labels.ZONE):
        if not stamped.get(key):
            return f'Node does not have label "{key}"'
    if view.price is None:
        return f'Instance Type "{stamped.get(labels.INSTANCE_TYPE, "")}" not found'
    return ""


def candidate_of(view: NodeView, default: Minimum, surcharge: int) -> Candidate:
    """A node that nothing stands against.

    `surcharge` (nano-dollars per hour) is what a node costs by the settings beside its own price; `default`
    what its replacement must save where the pool does not say so. Its virtual pods have to move
    with the others, and cost nothing.
    """
    stamped = view.claim.metadata.labels
    return Candidate(
        name=view.name,
        pool=view.pool_name,
        offer=(stamped.get(labels.INSTANCE_TYPE, ""), stamped[labels.ZONE], stamped[labels.CAPACITY_TYPE]),
        price=(view.price or 0) + surcharge,
        cost=view.disruption_cost(),
        pods=view.leaving + view.reserved,
        minimum=pool_minimum(view.pool.metadata.annotations if view.pool else {}, default),
    )
