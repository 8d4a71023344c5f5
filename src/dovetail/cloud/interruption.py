"""A cloud's messages about machines that it takes away, stops or finds broken, and through which queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from dovetail.base.clock import MINUTE, SECOND

# As a long poll asks an SQS queue.
BATCH = 10
LONG_POLL = 20 * SECOND
VISIBILITY = 20 * SECOND


class InterruptionKind(StrEnum):
    """Kinds of messages, by the names that the metrics have for them."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED_CHANGE = "scheduled_change"
    STOPPED = "instance_stopped"
    TERMINATED = "instance_terminated"
    RESERVATION = "capacity_reservation_interrupted"
    NOTHING = "no_op"  # a message that is about something else


NOTICE = 2 * MINUTE  # between the warning and the end of spot and reserved capacity
# Nanoseconds until the instance is gone, of the kinds that take it away.
ENDS_AFTER = {
    InterruptionKind.SPOT: NOTICE,
    InterruptionKind.RESERVATION: NOTICE,
    InterruptionKind.STOPPED: 0,
    InterruptionKind.TERMINATED: 0,
}


@dataclass(frozen=True, slots=True)
class Interruption:
    """One message that was understood; `instances` are ids such as i-0123, `at` ns since the epoch."""

    kind: InterruptionKind
    instances: tuple[str, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as the queue gave it out. Whoever has dealt with it deletes it by its receipt."""

    receipt: str
    body: str
    sent: int  # ns since the epoch


class InterruptionQueue(Protocol):
    """At least once, in any order: a letter that is not deleted comes again once VISIBILITY is over."""

    async def receive(self) -> Sequence[Letter]:
        """At most BATCH letters; waits up to LONG_POLL for the first. Raises CloudError."""

    async def delete(self, letter: Letter) -> None:
        """The letter has been dealt with. Raises CloudError."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """A status check of an instance that fails, or an event that the cloud has announced for it."""

    provider_id: str
    category: str  # instance_status, system_status or event_status
    since: int  # ns since the epoch


def instance_id(provider_id: str) -> str:
    """The last part of `aws:///<zone>/<instance id>`."""
    return provider_id.rpartition("/")[2]
