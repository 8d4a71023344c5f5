"""Unhealthy nodes: what is wrong with one, when it is past help, and whose turn repair is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import HOUR, MINUTE
from dovetail.base.memo import by_identity
from dovetail.disrupt.allowance import allowances, blocked_notes
from dovetail.disrupt.candidates import NodeView, repair_blocker
from dovetail.disrupt.command import UNHEALTHY, Note, Repair
from dovetail.disrupt.pods import Budgets
from dovetail.model import labels
from dovetail.model.repair import REBOOT, REPLACE, RepairPolicy
from dovetail.units.re2 import compile_re2
from dovetail.units.timestamp import parse_rfc3339

_SICK_PERCENT = 20
BLOCKED = "NodeRepairBlocked"
# How long is waited at most for a node in place of one with the same condition. Where something says of each
# node of a pool of one that it is broken, 9 nodes are bought in a day instead of 131.
_LONGEST = 6 * HOUR
# So much longer a node has waited that is in front of one whose policy ranks above its own by one.
_PER_RANK = 30 * MINUTE
# Karpenter's: so many reboots of a node within so long are enough.
_MOST_REBOOTS, _REBOOTS_WITHIN = 2, 24 * HOUR
# Reasons are a word or two. Whatever agent writes a longer one, no expression takes long over its beginning.
_LONGEST_REASON = 256
_NODES = 32_768  # more than any cluster has; what is known of one goes with it


@dataclass(frozen=True, slots=True)
class Match:
    """A policy for a condition of the node and its reason; `since` when it is past help by it (ns)."""

    condition: str
    reason: str
    policy: RepairPolicy
    since: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a node is past help, and what is done about it; the highest `score` is first.

    `match` decides what is done, `hastiest` how long pods may take; None leaves that to the NodeClaim.
    """

    repair: Repair
    match: Match
    action: str
    score: float
    hastiest: Match | None = None
    escalated: bool = False  # reboots of it have come to nothing


class Matcher:
    """Asks which of a cloud's policies nodes meet."""

    def __init__(self, policies: Sequence[RepairPolicy]) -> None:
        self._listed: dict[tuple[str, str], list[RepairPolicy]] = {}
        for policy in policies:
            self._listed.setdefault((policy.condition, policy.status), []).append(policy)
        self._fallback = [policy for policy in policies if not policy.reason]
        priorities = sorted({policy.priority for policy in policies})
        self._ranks = {priority: rank for rank, priority in enumerate(priorities)}
        self.matches = by_identity(_NODES)(self._matches)

    def _matches(self, node: Node) -> tuple[Match, ...]:
        """Those that it meets, for however short a time; none iff the node is healthy.

        A condition whose reason no policy of its own names falls back on the policy without a reason.
        """
        created = node.metadata.creation_timestamp
        found = []
        for one in node.status.conditions:
            listed = self._listed.get((one.type, one.status))
            if listed is None:
                continue
            reason = one.reason[:_LONGEST_REASON]
            own = [policy for policy in listed if policy.reason and compile_re2(policy.reason).search(reason)]
            begun = max(parse_rfc3339(one.last_transition_time or created), parse_rfc3339(created))
            found += [
                Match(one.type, one.reason, policy, begun + policy.toleration)
                for policy in own or self._fallback
            ]
        return tuple(found)

    def patient(self, node: Node, origin: Repair | None, rebooted: int = 0) -> tuple[Match, ...]:
        """As `matches`; `origin` is the repair that the node was bought for, if it was.

        Where the one in its place has the same condition it is waited for twice as long, and so on. One that
        `rebooted` (ns, when that was over) has its whole time anew.
        """
        found = self.matches(node)
        if found and rebooted:
            least = [rebooted + one.policy.toleration for one in found]
            found = tuple(
                replace(one, since=max(one.since, since)) for one, since in zip(found, least, strict=True)
            )
        if not found or origin is None:
            return found
        return tuple(_delayed(one, origin) if one.condition == origin.condition else one for one in found)

    def diagnose(
        self, node: Node, now: int, origin: Repair | None = None, rebooted: int = 0
    ) -> Diagnosis | None:
        """What is done about the node at `now` (ns); None while it is healthy, or may still recover.

        Of several conditions that replaces it which asks for that, then what ranks highest, and what has
        lasted longest; the shortest of their graces holds. `origin` and `rebooted` as above.
        """
        due = [match for match in self.patient(node, origin, rebooted) if match.since <= now]
        if not due:
            return None
        first = min(
            due,
            key=lambda one: (
                one.policy.action != REPLACE,
                -one.policy.priority,
                one.since,
                one.condition,
            ),
        )
        bounds = [
            (one.policy.grace, one.since, one.condition, one) for one in due if one.policy.grace is not None
        ]
        hastiest = min(bounds, key=lambda bound: bound[:3], default=(None, 0, "", None))
        score = max(self._ranks[one.policy.priority] + (now - one.since) / _PER_RANK for one in due)
        again = origin.again + 1 if origin is not None and origin.condition == first.condition else 0
        repair = Repair(first.condition, hastiest[0], again)
        return Diagnosis(repair, first, first.policy.action, score, hastiest[3])


def _delayed(match: Match, origin: Repair) -> Match:
    whole = min(match.policy.toleration << min(origin.again + 1, 10), max(_LONGEST, match.policy.toleration))
    return replace(match, since=match.since - match.policy.toleration + whole)


def rebooted(claim: NodeClaim) -> int:
    """When the last reboot of its node was over (ns), whichever way it ended; 0 if there was none."""
    found = condition(claim.status.conditions, "Rebooting")
    return 0 if found is None or found.status == "True" else parse_rfc3339(found.last_transition_time)


def requested(claim: NodeClaim, now: int) -> tuple[int, ...]:
    """When reboots of its node were requested (ns) within 24 hours before `now`."""
    text = claim.metadata.annotations.get(labels.REBOOTS, "")
    try:
        found = [parse_rfc3339(one) for one in text.split(",")] if text else []
    except ValueError:
        return ()  # another text was written there
    return tuple(one for one in found if now - one < _REBOOTS_WITHIN)


def committed(claim: NodeClaim, now: int) -> tuple[int, ...]:
    """As `requested`, with the one that is requested now; no more of them than matter."""
    return (*requested(claim, now), now)[-_MOST_REBOOTS:]


def _escalated(claim: NodeClaim, diagnosis: Diagnosis, now: int) -> Diagnosis:
    """A node that was rebooted often enough is replaced."""
    if diagnosis.action != REBOOT or len(requested(claim, now)) < _MOST_REBOOTS:
        return diagnosis
    return replace(diagnosis, action=REPLACE, escalated=True)


def too_many(sick: int, nodes: int) -> bool:
    """True iff more than a fifth of the nodes, rounded up, are unhealthy: the fault must lie elsewhere."""
    return sick > -(-nodes * _SICK_PERCENT // 100)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the turn depends on besides the claims' nodes: all nodes there are; `now` (ns since the epoch).

    `origin` answers the repair that a claim was bought for, if it was.
    """

    nodes: Sequence[Node]
    origin: Callable[[NodeClaim], Repair | None]
    pools: Sequence[NodePool]
    budgets: Budgets
    now: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Nodes to repair, that first which is to be tried first, and what to say about others.

    `next` is when another one will be past help (ns), None if there is none; `sick` are all that meet a
    policy, for however short a time.
    """

    due: tuple[tuple[NodeView, Diagnosis], ...]
    notes: tuple[Note, ...]
    next: int | None
    sick: tuple[NodeView, ...] = ()


def turn(views: Sequence[NodeView], matcher: Matcher, rules: Rules) -> Turn:
    """Whose turn it is, within the pools' budgets, unless too many of the pool are unhealthy."""
    now = rules.now
    sick = [view for view in views if view.node is not None and matcher.matches(view.node)]
    found, instants = [], []
    for view in sick:
        assert view.node is not None, "what has no node is not sick"
        known = rules.origin(view.claim), rebooted(view.claim)
        diagnosis = matcher.diagnose(view.node, now, *known)
        if diagnosis is not None:
            found.append((view, _escalated(view.claim, diagnosis, now)))
        instants += [one.since for one in matcher.patient(view.node, *known) if one.since > now]
    soonest = min(instants, default=None)
    if not found:
        return Turn((), (), soonest, tuple(sick))
    stopped, allowed = _stopped(matcher, rules.nodes), allowances(rules.pools, views, UNHEALTHY, now)
    notes, due, refused = [], [], set()
    for view, diagnosis in found:
        bounded = diagnosis.repair.grace is not None or view.claim.spec.termination_grace_period is not None
        blocked = repair_blocker(view, rules.budgets, now, bounded=bounded)
        if blocked:
            notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", blocked))
        elif view.pool_name in stopped:
            text = f'More than {_SICK_PERCENT}% of nodes in nodepool "{view.pool_name}" are unhealthy'
            notes.append(Note(view.claim.metadata.name, BLOCKED, text))
            notes.append(Note(view.pool_name, BLOCKED, text, on_pool=True))
        elif view.initialized and not allowed.get(view.pool_name, 0):
            refused.add(view.pool_name)
        else:
            due.append((view, diagnosis))
    due.sort(key=lambda one: (-one[1].score, one[0].disruption_cost(), one[0].name))
    notes += blocked_notes(sorted(refused), allowed, UNHEALTHY)
    return Turn(tuple(due), tuple(dict.fromkeys(notes)), soonest, tuple(sick))


def _stopped(matcher: Matcher, nodes: Iterable[Node]) -> frozenset[str]:
    """NodePools too many of whose nodes are unhealthy, whether these are past help already or not."""
    all_of, sick_of = Counter[str](), Counter[str]()
    for node in nodes:
        pool = node.metadata.labels.get(labels.NODEPOOL, "")
        all_of[pool] += 1
        sick_of[pool] += bool(matcher.matches(node))
    return frozenset(pool for pool, sick in sick_of.items() if too_many(sick, all_of[pool]))
