"""What is written on a NodePool, a node or a pod and cannot be read, and what it does instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.disrupt.budgets import fault, zone_fault
from dovetail.disrupt.consolidation.saving import MINIMUM_SAVING, Minimum, parse_minimum
from dovetail.disrupt.expiry import REPLACE_FIRST
from dovetail.disrupt.minimum import minimum_nodes
from dovetail.disrupt.pause import PAUSES
from dovetail.model import labels

UNREADABLE = "InvalidAnnotation"  # the reason of the event


@dataclass(frozen=True, slots=True)
class Fault:
    """As an event says it; `place` distinguishes those of one object."""

    reason: str
    place: str
    message: str


def pool_faults(pool: NodePool) -> Iterator[Fault]:
    """Budgets that the API server let pass though they cannot be read, and annotations."""
    for number, budget in enumerate(pool.spec.disruption.budgets):
        error = fault(budget)
        if error:
            text = f"Until budget {number + 1} of the NodePool is mended, no node of it is disrupted: {error}"
            yield Fault("InvalidBudget", str(number), text)
    given = pool.metadata.annotations
    pause, expiration = given.get(labels.PAUSE, ""), given.get(labels.EXPIRATION, "")
    if pause and pause not in PAUSES:
        text = f"pauses all, for {pause!r} is none of {', '.join(PAUSES)}"
        yield Fault(UNREADABLE, labels.PAUSE, f"The annotation {labels.PAUSE} {text}")
    if expiration and expiration != REPLACE_FIRST:
        text = f"is ignored: {expiration!r} is not {REPLACE_FIRST}"
        yield Fault(UNREADABLE, labels.EXPIRATION, f"The annotation {labels.EXPIRATION} {text}")
    if wrong := zone_fault(pool):
        text = f"cannot be read; where a budget has a schedule no node is disrupted: {wrong}"
        yield Fault(UNREADABLE, labels.TIME_ZONE, f"The annotation {labels.TIME_ZONE} {text}")
    try:
        minimum_nodes(pool)
    except ValueError as error:
        text = (
            f"The annotation {labels.MINIMUM_NODES} cannot be read, so no node goes without another: {error}"
        )
        yield Fault(UNREADABLE, labels.MINIMUM_NODES, text)
    try:
        parse_minimum(given.get(MINIMUM_SAVING) or "0%", Minimum())
    except ValueError as error:
        text = f"The annotation {MINIMUM_SAVING} is ignored: {error}"
        yield Fault(UNREADABLE, MINIMUM_SAVING, text)


def node_mark_fault(obj: Object) -> str:
    """What is wrong with do-not-disrupt on a node or a claim; "" where nothing is."""
    text = obj.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    return "" if text in ("", "true") else f'nodes take nothing but "true", got {text!r}'


def ignored_mark(error: str) -> str:
    """The event about a do-not-disrupt that counts for nothing."""
    return f"Invalid {labels.DO_NOT_DISRUPT} annotation: {error}, ignoring annotation"
