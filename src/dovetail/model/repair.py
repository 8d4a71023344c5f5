"""When nodes are past help, and what is done with them then: policies of a cloud, as values."""

from __future__ import annotations

from dataclasses import dataclass

REPLACE, REBOOT = "ReplaceNode", "RebootNode"


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A condition with this status is a fault of the node once it has lasted `toleration` nanoseconds.

    `reason` is a regular expression that the condition's reason contains; the policy without one, of which a
    set has exactly one, is for what no other policy of its condition and status matches. `grace` is how long
    (ns) pods may take to leave; None as the NodeClaim says. `priority` is 0 to 100, the highest in front.
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
