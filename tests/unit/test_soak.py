"""What a soak complains of, from small logs."""

from __future__ import annotations

from dovetail.base.clock import MINUTE
from dovetail.testing.soak import left_waiting

END = 10 * MINUTE


def test_pods_that_have_just_come_may_wait_at_the_end_and_others_may_not() -> None:
    records = [
        {"t": minute * MINUTE, "kind": "pod.created", "pod": name, "owner": "", "requests": {}}
        for name, minute in (("old", 1), ("bound", 2), ("gone", 3), ("new", 6))
    ]
    records.append({"t": 7 * MINUTE, "kind": "pod.bound", "pod": "bound", "node": "n"})
    records.append({"t": 8 * MINUTE, "kind": "pod.deleted", "pod": "gone", "node": ""})
    assert left_waiting(records, END) == ["old"]
