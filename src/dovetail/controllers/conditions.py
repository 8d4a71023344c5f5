"""Status conditions: one is set, the root condition Ready follows from those it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.api.codec import encode
from dovetail.api.meta import Condition, condition
from dovetail.units.timestamp import to_rfc3339

READY = "Ready"
AWAITING = ("AwaitingReconciliation", "object is awaiting reconciliation")


@dataclass(frozen=True, slots=True)
class Stamp:
    """When and for which generation of the object a condition is written; `now` in nanoseconds."""

    now: int
    generation: int = 0


Conditions = tuple[Condition, ...]


def set_condition(
    conditions: Conditions, kind: str, status: str, stamp: Stamp, *, reason: str = "", message: str = ""
) -> Conditions:
    """The conditions with this one in place, in order of type.

    Only a change of status moves the transition time. The reason defaults to the type.
    """
    old = condition(conditions, kind)
    moved = old is None or old.status != status
    new = Condition(
        type=kind,
        status=status,
        reason=reason or kind,
        message=message,
        last_transition_time=to_rfc3339(stamp.now) if moved or old is None else old.last_transition_time,
        observed_generation=stamp.generation,
    )
    return tuple(sorted((*without(conditions, kind), new), key=lambda item: item.type))


def without(conditions: Conditions, kind: str) -> Conditions:
    """The conditions less the one of that type."""
    return tuple(item for item in conditions if item.type != kind)


def set_ready(conditions: Conditions, dependents: Sequence[str], stamp: Stamp) -> Conditions:
    """Ready: False as soon as a dependent is False, True once all are; the message names the others."""
    for kind in dependents:
        if condition(conditions, kind) is None:
            conditions = set_condition(
                conditions, kind, "Unknown", stamp, reason=AWAITING[0], message=AWAITING[1]
            )
    found = [item for item in conditions if item.type in dependents and item.status != "True"]
    if not found:
        return set_condition(conditions, READY, "True", stamp)
    failed = any(item.status == "False" for item in found)
    return set_condition(
        conditions,
        READY,
        "False" if failed else "Unknown",
        stamp,
        reason="UnhealthyDependents" if failed else "ReconcilingDependents",
        message=", ".join(f"{item.type}={item.status}" for item in found),
    )


def document(conditions: Conditions) -> list[object]:
    """The conditions as they stand in a status patch."""
    return [
        {"reason": "", "message": "", "lastTransitionTime": "", **encode(item), "status": item.status}
        for item in conditions
    ]
