"""Rules on node pools: limits and disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition, is_true
from dovetail.base.clock import SECOND
from dovetail.base.memo import by_identity
from dovetail.disrupt.budgets import UNLIMITED, pool_allows
from dovetail.disrupt.command import UNHEALTHY
from dovetail.model import labels
from dovetail.model.resources import amounts
from dovetail.simulate.violations.mirror import DISRUPTION_REASON, Change, Mirror
from dovetail.units.timestamp import parse_rfc3339
from dovetail.verify import Violation

# A decision is carried out so long after it was right, at most: late watches and slow calls included.
_SEEN = 15 * SECOND
_TERMINATING, _REBOOTING = "InstanceTerminating", "Rebooting"
_MANY = 16_384  # claims, and nodes, whose conditions are remembered


def within_limits(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """A launch keeps the pool's nodes that stay within its limits. Called after `apply`.

    Of two leaders that act at once neither can know what the other one just made, so such claims are not
    added up. (The lease's fence keeps real ones apart; simulated ones are made to overlap.)
    """
    found = change.of(NodeClaim)
    claim, old = found or (None, None)
    if claim is None or not claim.status.capacity or (old and old.status.capacity):
        return
    pool = mirror.pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
    if pool is None or not pool.spec.limits:
        return
    limits = amounts(pool.spec.limits)
    used = dict(mirror.usage.of(pool.key))
    for other in mirror.overlapped if claim.key in mirror.overlapped else ():
        known = mirror.usage.counted.get(other)
        if known is not None and known[0] == pool.key and _unknowable(mirror, claim.key, other):
            used = {name: amount - known[1].get(name, 0) for name, amount in used.items()}
    for name, limit in sorted(limits.items()):
        if (brought := used.get(name, 0)) > limit:
            yield Violation("limits", pool.key, f"{claim.key} brings {name} to {brought}, over {limit}")


def _unknowable(mirror: Mirror, claim: str, other: str) -> bool:
    """True iff each was made by a leader that could not know of the other one yet."""
    made = mirror.overlapped.get(claim), mirror.overlapped.get(other)
    return claim != other and made[0] is not None and made[1] is not None and abs(made[0] - made[1]) <= _SEEN


def within_budget(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """A voluntary disruption keeps the pool's budgets. Called before `apply`.

    A node whose instance is being terminated counts no more, neither as one of the pool nor as disrupted. One
    that another process took a moment ago does not count yet: it cannot have been known.
    """
    found = change.of(NodeClaim)
    claim, old = found or (None, None)
    if claim is None or not _marks(claim).disrupted or (old is not None and _marks(old).disrupted):
        return
    stated = condition(claim.status.conditions, DISRUPTION_REASON)
    pool = mirror.pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
    if pool is None or stated is None:
        return
    nodes, used = 0, 0
    sick = stated.reason == UNHEALTHY
    own = mirror.node_of(claim)
    if sick and own is not None and labels.INITIALIZED not in own.metadata.labels:
        return  # no budget counts it
    for member, node in mirror.machines(pool.key):
        marks = _marks(member)
        there = node is not None and (labels.INITIALIZED in node.metadata.labels or marks.rebooting)
        if node is not None and there and not marks.terminating:
            nodes += 1
            used += member.key != claim.key and _known_to_leave(member, node, change.now, sick=sick)
    allowed = pool_allows(pool, stated.reason, nodes, used, change.now)
    if allowed != UNLIMITED and allowed < 1:
        message = f"{claim.key} is disrupted as {stated.reason} while {used} of {nodes} nodes already are"
        yield Violation("disruption budget of nodes", pool.key, message)


def _known_to_leave(claim: NodeClaim, node: Node, now: int, *, sick: bool) -> bool:
    """True iff it is disrupted, or has been leaving or not ready for so long that it must be known.

    For the disruption of sick nodes those that are not ready do not count.
    """
    if _marks(claim).disrupted:
        return True
    stamps = [item.metadata.deletion_timestamp for item in (claim, node) if item.deleting]
    unready = None if sick else _unready_since(node)
    if unready is not None:
        stamps.append(unready)
    return any(not stamp or now - parse_rfc3339(stamp) > _SEEN for stamp in stamps)


class _Marks(NamedTuple):
    """Conditions of a claim that are true. Each claim of a pool is asked for them at each disruption."""

    disrupted: bool
    terminating: bool
    rebooting: bool


@by_identity(_MANY)
def _marks(claim: NodeClaim) -> _Marks:
    conditions = claim.status.conditions
    return _Marks(*(is_true(conditions, kind) for kind in (DISRUPTION_REASON, _TERMINATING, _REBOOTING)))


@by_identity(_MANY)
def _unready_since(node: Node) -> str | None:
    """The time stamp, "" where there is none; None of a node that is ready."""
    state = condition(node.status.conditions, "Ready")
    if state is None:
        return ""
    return None if state.status == "True" else state.last_transition_time
