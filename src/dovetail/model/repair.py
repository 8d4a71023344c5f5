"""When nodes are past help, and what is done with them then: policies of a cloud, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.units.duration import format_duration
from dovetail.units.re2 import compile_re2

REPLACE, REBOOT = "ReplaceNode", "RebootNode"
STATUSES = ("True", "False", "Unknown")
HIGHEST = 100  # of priorities


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A condition with this status is a fault of the node once it has lasted `toleration` nanoseconds.

    `reason` is a regular expression (RE2) that the condition's reason contains; the policy without one, of
    which a set has exactly one, is for what no other policy of its condition and status matches. `grace` is
    how long (ns) pods may take to leave; None as the NodeClaim says. `priority` is 0 to 100, the highest in
    front.
    """

    condition: str
    status: str
    toleration: int
    reason: str = ""
    grace: int | None = None
    priority: int = 0
    action: str = REPLACE


@dataclass(frozen=True, slots=True)
class RepairPolicies:
    """A cloud's policies. `legacy` are those of Karpenter 1.14, which has neither reasons nor graces."""

    current: tuple[RepairPolicy, ...] = ()
    legacy: tuple[RepairPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a set of policies, in Karpenter's words: with the field of one, or with the set."""

    message: str
    index: int | None = None
    field: str = ""  # of RepairPolicy


def faults(policies: Sequence[RepairPolicy]) -> Iterator[Fault]:
    """All that keeps these from being a set of policies."""
    for index, policy in enumerate(policies):
        where = f'validating repair policy for condition status "{policy.status}", policy[{index}]'
        for name, what in _faults_of(policy):
            yield Fault(f"{where} {what} (condition={policy.condition})", index, name)
    fallbacks = [index for index, policy in enumerate(policies) if not policy.reason]
    if not fallbacks:
        yield Fault("repair policy set must define one default fallback")
        return
    if len(fallbacks) > 1:
        first, second = fallbacks[:2]
        text = f"repair policy set has multiple default fallbacks: policy[{first}] and policy[{second}]"
        yield Fault(text, second, "reason")
    elif policies[fallbacks[0]].action == REBOOT:
        text = f'default fallback policy[{fallbacks[0]}] must use action "{REPLACE}"'
        yield Fault(text, fallbacks[0], "action")


def _faults_of(policy: RepairPolicy) -> Iterator[tuple[str, str]]:
    """(field, what is wrong with it)."""
    if not policy.condition:
        yield "condition", "has an empty condition type"
    if policy.status not in STATUSES:
        yield "status", f'has invalid condition status "{policy.status}"'
    if policy.toleration < 0:
        yield "toleration", f"has negative toleration duration {format_duration(policy.toleration)}"
    if policy.grace is not None and policy.grace < 0:
        yield "grace", f"has negative termination grace period {format_duration(policy.grace)}"
    if not 0 <= policy.priority <= HIGHEST:
        yield "priority", f"has priority {policy.priority} outside the supported range [0, {HIGHEST}]"
    if policy.action not in (REPLACE, REBOOT):
        yield "action", f'has unsupported action "{policy.action}"'
    try:
        compile_re2(policy.reason)
    except ValueError as error:
        yield "reason", f"has invalid reason regex, {error}"
