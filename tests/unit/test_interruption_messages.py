"""Messages about machines that the cloud takes away: what they say, and how the queue gives them out."""

from __future__ import annotations

import json

import pytest

from dovetail.base.clock import SECOND
from dovetail.cloud.eventbridge import parse, write
from dovetail.cloud.inmemory import MemoryQueue
from dovetail.cloud.interruption import BATCH, LONG_POLL, VISIBILITY, Interruption, InterruptionKind
from dovetail.simulate.time.clock import VirtualClock, run_virtual

NOON = 1_772_452_800 * SECOND
TIME = "2026-03-02T12:00:00Z"


STATE = "EC2 Instance State-change Notification"
ONE = {"instance-id": "i-1"}


def event(source: str, title: str, **detail: object) -> str:
    return json.dumps({"source": source, "detail-type": title, "time": TIME, "detail": detail, "id": "7"})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (event("aws.ec2", "EC2 Spot Instance Interruption Warning", **ONE), "SPOT"),
        (event("aws.ec2", "EC2 Instance Rebalance Recommendation", **ONE), "REBALANCE"),
        (
            event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", **ONE),
            "RESERVATION",
        ),
        *(
            (
                event(
                    "aws.ec2",
                    "EC2 Instance State-change Notification",
                    **ONE,
                    state=state,
                ),
                kind,
            )
            for state, kind in (
                ("stopping", "STOPPED"),
                ("stopped", "STOPPED"),
                ("shutting-down", "TERMINATED"),
                ("terminated", "TERMINATED"),
            )
        ),
        (
            event(
                "aws.health",
                "AWS Health Event",
                service="EC2",
                eventTypeCategory="scheduledChange",
                affectedEntities=[{"entityValue": "i-1", "status": "PENDING"}],
            ),
            "SCHEDULED_CHANGE",
        ),
    ],
)
def test_what_is_about_an_instance(body: str, kind: str) -> None:
    assert parse(body) == Interruption(InterruptionKind[kind], ("i-1",), NOON)


@pytest.mark.parametrize(
    "body",
    [
        event("aws.ec2", STATE, **ONE, state="running"),
        event("aws.health", "AWS Health Event", service="RDS", eventTypeCategory="scheduledChange"),
        event("aws.health", "AWS Health Event", service="EC2", eventTypeCategory="issue"),
        event("aws.s3", "Object Created", bucket="b"),
    ],
)
def test_what_is_not(body: str) -> None:
    assert parse(body).kind is InterruptionKind.NOTHING


@pytest.mark.parametrize("body", ["", "hello", "[]", '{"source": 1}', '{"detail-type": "x"}', '{"source":'])
def test_what_cannot_be_read(body: str) -> None:
    with pytest.raises(ValueError, match="not an event of EventBridge"):
        parse(body)


@pytest.mark.parametrize("kind", [kind for kind in InterruptionKind if kind is not InterruptionKind.NOTHING])
def test_what_is_written_is_read_again(kind: InterruptionKind) -> None:
    assert parse(write(kind, "i-1", NOON)) == Interruption(kind, ("i-1",), NOON)


def test_letters_come_again_until_they_are_deleted() -> None:
    async def main(clock: VirtualClock) -> None:
        queue = MemoryQueue(clock)
        begun = clock.now()
        assert list(await queue.receive()) == []
        assert clock.now() - begun == LONG_POLL
        for number in range(BATCH + 1):
            queue.send(str(number))
        first, second = await queue.receive(), await queue.receive()
        assert [letter.body for letter in (*first, *second)] == [str(number) for number in range(BATCH + 1)]
        for letter in first:
            await queue.delete(letter)
        received = clock.now()
        assert await queue.receive() == second
        assert clock.now() - received == VISIBILITY

    run_virtual(main, start=NOON)
