"""What the benchmark counts as done in vain: pods moved again within the hour, commands that were undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.realised.churn import moved_again, undone
from dovetail.base.clock import MINUTE

Record = Mapping[str, Any]


def at(minute: float, kind: str, **more: Any) -> Record:
    return {"t": round(minute * MINUTE), "kind": kind, **more}


def pod(minute: float, name: str, owner: str = "ReplicaSet/a") -> Record:
    return at(minute, "pod.created", pod=name, owner=owner)


def evicted(minute: float, name: str) -> Record:
    return at(minute, "pod.evicted", pod=name)


def command(minute: float, name: str, gone: str, bought: str = "", reason: str = "Underutilized") -> Record:
    replacements = [bought] if bought else []
    return at(minute, "disruption", reason=reason, claims=[gone], replacements=replacements, snapshot=name)


@pytest.mark.parametrize(
    ("records", "again"),
    [
        ([pod(0, "a"), evicted(5, "a")], 0),
        ([pod(0, "a"), evicted(5, "a"), pod(5, "b"), evicted(64, "b")], 1),
        ([pod(0, "a"), evicted(5, "a"), pod(5, "b"), evicted(65, "b")], 0),  # an hour later
        ([pod(0, "a"), evicted(5, "a"), pod(7, "b"), evicted(9, "b")], 0),  # it came for another reason
        ([pod(0, "a"), evicted(5, "a"), pod(5, "b", "ReplicaSet/b"), evicted(9, "b")], 0),
        ([pod(0, "a"), evicted(5, "a"), pod(5, "b"), pod(5, "c"), evicted(9, "c")], 0),  # one successor each
        ([pod(0, "a"), evicted(5, "a"), pod(5, "b"), evicted(9, "b"), pod(9, "c"), evicted(10, "c")], 2),
    ],
)
def test_a_pod_is_moved_again_if_it_came_in_place_of_one_that_was_moved(
    records: list[Record], again: int
) -> None:
    assert moved_again(records) == again


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ([command(0, "1", "a", "b")], 0),
        ([command(0, "1", "a", "b"), command(59, "2", "b", "c")], 1),
        ([command(0, "1", "a", "b"), command(60, "2", "b", "c")], 0),  # it lasted
        ([command(0, "1", "a", "b"), command(30, "2", "c", "d")], 0),
        ([command(0, "1", "a", "b"), command(9, "2", "b", "c"), command(20, "3", "c")], 2),
        ([command(0, "1", "a", "b"), command(9, "2", "b", reason="Empty")], 1),  # nothing ever came
        (
            [
                command(0, "1", "a", "b"),
                at(1, "node.created", node="n", claim="b"),
                pod(2, "p"),
                at(2, "pod.bound", pod="p", node="n"),
                command(9, "2", "b", reason="Empty"),  # its pods went
            ],
            0,
        ),
        (
            [
                command(0, "1", "a", "b"),
                at(1, "node.created", node="n", claim="b"),
                pod(2, "p", "DaemonSet/agent"),
                at(2, "pod.bound", pod="p", node="n"),
                command(9, "2", "b", reason="Empty"),
            ],
            1,
        ),
    ],
)
def test_a_command_is_undone_if_what_it_bought_goes_within_the_hour(
    records: list[Record], count: int
) -> None:
    assert undone(records) == count


def test_what_was_before_the_instant_does_not_count() -> None:
    records = [command(0, "1", "a", "b"), command(5, "2", "b", "c"), command(9, "3", "c")]
    assert undone(records, since=round(3 * MINUTE)) == 1
    moves = [pod(0, "a"), evicted(1, "a"), pod(1, "b"), evicted(5, "b"), pod(5, "c"), evicted(9, "c")]
    assert moved_again(moves, since=round(3 * MINUTE)) == 1
