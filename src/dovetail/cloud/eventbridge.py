"""Interruption messages as Amazon EventBridge puts them into a queue: read them, and write them for fakes.

The fields are those of the EventBridge event reference of Amazon EC2 and AWS Health.
"""

from __future__ import annotations

import msgspec

from dovetail.cloud.interruption import Interruption, InterruptionKind
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

EC2 = "aws.ec2"
HEALTH = "aws.health"
_TYPES = {
    InterruptionKind.SPOT: "EC2 Spot Instance Interruption Warning",
    InterruptionKind.REBALANCE: "EC2 Instance Rebalance Recommendation",
    InterruptionKind.RESERVATION: "EC2 Capacity Reservation Instance Interruption Warning",
}
_STATE_CHANGE = "EC2 Instance State-change Notification"
_HEALTH_EVENT = "AWS Health Event"
# (source, detail-type) of every event that means something here: what the queue's rules let through.
ANNOUNCED = (*((EC2, text) for text in _TYPES.values()), (EC2, _STATE_CHANGE), (HEALTH, _HEALTH_EVENT))
_KINDS = {text: kind for kind, text in _TYPES.items()}
_STATES = {
    "stopping": InterruptionKind.STOPPED,
    "stopped": InterruptionKind.STOPPED,
    "shutting-down": InterruptionKind.TERMINATED,
    "terminated": InterruptionKind.TERMINATED,
}


class _Entity(msgspec.Struct, frozen=True, rename="camel"):
    entity_value: str = ""


class _Detail(msgspec.Struct, frozen=True):
    instance_id: str = msgspec.field(name="instance-id", default="")
    state: str = ""
    service: str = ""
    category: str = msgspec.field(name="eventTypeCategory", default="")
    entities: tuple[_Entity, ...] = msgspec.field(name="affectedEntities", default=())


class _Event(msgspec.Struct, frozen=True):
    source: str
    detail_type: str = msgspec.field(name="detail-type")
    time: str = ""
    detail: _Detail = _Detail()


def parse(body: str) -> Interruption:
    """What the message says. Raises ValueError for what is no EventBridge event."""
    try:
        event = msgspec.json.decode(body, type=_Event)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not an event of EventBridge: {error}") from None
    kind, instances = _kind(event), tuple(entity.entity_value for entity in event.detail.entities)
    if kind is InterruptionKind.NOTHING:
        return Interruption(kind)
    if kind is not InterruptionKind.SCHEDULED_CHANGE:
        instances = (event.detail.instance_id,)
    return Interruption(
        kind, tuple(one for one in instances if one), parse_rfc3339(event.time) if event.time else 0
    )


def _kind(event: _Event) -> InterruptionKind:
    detail = event.detail
    if event.source == EC2:
        if event.detail_type == _STATE_CHANGE:
            return _STATES.get(detail.state, InterruptionKind.NOTHING)
        return _KINDS.get(event.detail_type, InterruptionKind.NOTHING)
    planned = (detail.service, detail.category) == ("EC2", "scheduledChange")
    if event.source == HEALTH and event.detail_type == _HEALTH_EVENT and planned:
        return InterruptionKind.SCHEDULED_CHANGE
    return InterruptionKind.NOTHING


def write(kind: InterruptionKind, instance: str, at: int) -> str:
    """The message that AWS sends when this happens to that instance."""
    detail: dict[str, object] = {"instance-id": instance}
    source, title = EC2, _TYPES.get(kind, _STATE_CHANGE)
    if kind is InterruptionKind.SCHEDULED_CHANGE:
        source, title = HEALTH, _HEALTH_EVENT
        entities = [{"entityValue": instance}]
        detail = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": entities}
    elif kind is InterruptionKind.STOPPED:
        detail["state"] = "stopping"
    elif kind is InterruptionKind.TERMINATED:
        detail["state"] = "shutting-down"
    event = {
        "version": "0",
        "source": source,
        "detail-type": title,
        "time": to_rfc3339(at),
        "detail": detail,
    }
    return msgspec.json.encode(event).decode()
