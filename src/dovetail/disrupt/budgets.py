"""How many nodes of a pool may be disrupted at once, and when: NodePool budgets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dovetail.api.karpenter.nodepool import Budget, NodePool
from dovetail.model import labels
from dovetail.units.cron import NEVER, Cron
from dovetail.units.duration import parse_duration

# "No limit", as the metric karpenter_nodepools_allowed_disruptions shows it.
UNLIMITED = 2**31 - 1
UTC = "UTC"  # Karpenter knows no other zone


def zone_of(pool: NodePool) -> str:
    """The time zone in which the schedules of the pool's budgets count."""
    return pool.metadata.annotations.get(labels.TIME_ZONE) or UTC


def pool_allows(pool: NodePool, reason: str, nodes: int, used: int, now: int) -> int:
    """Nodes of the pool that may be disrupted for `reason` at `now` (ns) on top of the `used` ones.

    `nodes` counts the pool's initialised nodes, `used` those of them that are not ready or on their way out.
    """
    return allowed_disruptions(pool.spec.disruption.budgets, reason, nodes, used, now, zone_of(pool))


def allowed_disruptions(
    budgets: Sequence[Budget], reason: str, nodes: int, used: int, now: int, zone: str = UTC
) -> int:
    """The same of these budgets alone.

    The tightest active budget decides. Where one cannot be read nothing is allowed, for whatever reason that
    one is, as with Karpenter: better to stand still.
    """
    if not all(_readable(one.nodes, one.schedule, one.duration, zone) for one in budgets):
        return 0
    limit = min((budget_limit(budget, reason, nodes, now, zone) for budget in budgets), default=UNLIMITED)
    return limit if limit == UNLIMITED else max(0, limit - used)


def allows_any(pool: NodePool, reason: str, now: int) -> bool:
    """True iff at `now` (ns) its budgets let a node go for `reason`, were it the only one and not going."""
    return pool_allows(pool, reason, nodes=1, used=0, now=now) > 0


def budget_limit(budget: Budget, reason: str, nodes: int, now: int, zone: str = UTC) -> int:
    """What one budget allows of `nodes`; UNLIMITED while it is inactive or silent on the reason."""
    if budget.reasons is not None and reason not in budget.reasons:
        return UNLIMITED
    try:
        return _count(budget.nodes, nodes) if is_active(budget, now, zone) else UNLIMITED
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def _readable(nodes: str, schedule: str | None, duration: str | None, zone: str) -> bool:
    try:
        _count(nodes, 1)
        is_active(Budget(nodes=nodes, schedule=schedule, duration=duration), 0, zone)
    except ValueError:
        return False
    return True


def fault(budget: Budget) -> str:
    """Why a budget cannot be read, "" if it can: until it is mended nothing of its pool is disrupted."""
    try:
        _count(budget.nodes, 1)
        is_active(budget, 0)
    except ValueError as error:
        return str(error)
    return ""


def zone_fault(pool: NodePool) -> str:
    """Why the pool's time zone is none, "" if it is one: until it is mended its schedules cannot be read."""
    try:
        Cron.parse("@daily", zone_of(pool))
    except ValueError as error:
        return str(error)
    return ""


def is_active(budget: Budget, now: int, zone: str = UTC) -> bool:
    """True iff the budget applies at `now`: always, or for `duration` from each hit of its schedule.

    One whose date does not exist (30 February) applies always, as with Karpenter: better to stand still.
    Raises ValueError for a schedule, zone or duration that cannot be read.
    """
    if budget.schedule is None and budget.duration is None:
        return True
    duration = parse_duration(budget.duration or "")
    hit = Cron.parse(budget.schedule or "", zone).next_after(now - duration)
    return hit == NEVER or hit <= now


def _count(text: str, nodes: int) -> int:
    """A number of nodes, or a share of them, rounded up."""
    if text.endswith("%"):
        return -(-nodes * int(text[:-1]) // 100)
    return int(text)
