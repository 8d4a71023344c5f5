"""Memory that machines turned out to have: remembered for two months, per type and image."""

from __future__ import annotations

import pytest

from dovetail.base.clock import HOUR
from dovetail.cloud.aws.instancetype.market import SeenMemory
from dovetail.cloud.provider import ResolvedImage
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirements

DAY = 24 * HOUR
NONE = Requirements({})
OLD, NEW = ResolvedImage("ami-old", "old", NONE), ResolvedImage("ami-new", "new", NONE)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 1_000 * DAY

    def monotonic(self) -> int:
        return self.at


def kind(name: str, memory: int = 1_000) -> InstanceType:
    return InstanceType(name, NONE, (), {"memory": memory, "cpu": 2})


def test_the_least_that_was_seen_counts_for_that_type_and_image() -> None:
    seen = SeenMemory(Clock())
    seen.note("m.large", OLD.id, 950)
    seen.note("m.large", OLD.id, 940)
    seen.note("m.large", OLD.id, 960)
    types = (kind("m.large"), kind("c.large"))
    applied = seen.applied(types, (OLD,))
    assert [item.capacity["memory"] for item in applied] == [940, 1_000]
    assert applied[0].capacity["cpu"] == 2 and applied[1] is types[1]
    assert seen.applied(types, (NEW,)) == types  # nodes of another image may keep more for themselves
    assert seen.applied(types, ()) == types
    seen.note("c.large", OLD.id, 1_000)
    assert seen.applied(types, (OLD,))[1] is types[1]  # the estimate was right


@pytest.mark.parametrize(("days", "known"), [(0, True), (3, True), (59, True), (60, True), (61, False)])
def test_it_is_kept_for_sixty_days_after_the_last_such_machine(days: int, known: bool) -> None:
    clock = Clock()
    seen = SeenMemory(clock)
    seen.note("m.large", OLD.id, 900)
    clock.at += 10 * DAY
    seen.note("m.large", OLD.id, 950)  # the least is still the other one's
    clock.at += days * DAY
    (applied,) = seen.applied((kind("m.large"),), (OLD,))
    assert applied.capacity["memory"] == (900 if known else 1_000)
    seen.note("m.large", OLD.id, 950)
    (applied,) = seen.applied((kind("m.large"),), (OLD,))
    assert applied.capacity["memory"] == (900 if known else 950)


def test_answers_that_were_remembered_hold_until_the_least_changes() -> None:
    seen = SeenMemory(Clock())
    versions = [seen.version]
    for memory in (950, 960, 950, 940, 940):
        seen.note("m.large", OLD.id, memory)
        versions.append(seen.version)
    assert versions == [0, 1, 1, 1, 2, 2]


def test_what_no_machine_was_seen_of_for_sixty_days_is_forgotten() -> None:
    """Once another image comes: of one that is in use nothing is looked through."""
    clock = Clock()
    seen = SeenMemory(clock)
    for days, image in ((0, "ami-1"), (1, "ami-2"), (60, "ami-3")):
        clock.at = (1_000 + days) * DAY
        seen.note("m.large", image, 900)
    assert [image for _, image in seen._seen] == ["ami-1", "ami-2", "ami-3"]
    clock.at += DAY
    seen.note("m.large", "ami-3", 900)
    assert len(seen._seen) == 3
    seen.note("m.large", "ami-4", 900)
    assert [image for _, image in seen._seen] == ["ami-2", "ami-3", "ami-4"]


def test_types_of_which_no_machine_was_seen_are_the_same_objects() -> None:
    seen = SeenMemory(Clock())
    seen.note("m.large", OLD.id, 900)
    other = kind("c.large")
    assert seen.applied((other,), (OLD, NEW))[0] is other
