"""What a soak complains of, from small logs."""

from __future__ import annotations

from dovetail.base.clock import MINUTE
from dovetail.simulate.analysis.log import Record
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.plan import Fault, Faults
from dovetail.testing.soak import kept_waiting, missing

FAULTS = Faults("", (Fault(0, kinds.API_ERROR, 20 * MINUTE, 30 * MINUTE, rate=0.1, lasts=5 * MINUTE),))
END = 60 * MINUTE


def pod(name: str, created: int, *, bound: int | None = None, gone: int | None = None) -> list[Record]:
    """The records of one pod; instants in minutes."""
    found: list[Record] = [
        {"t": created * MINUTE, "kind": "pod.created", "pod": name, "owner": "", "requests": {}}
    ]
    if bound is not None:
        found.append({"t": bound * MINUTE, "kind": "pod.bound", "pod": name, "node": "n"})
    if gone is not None:
        found.append({"t": gone * MINUTE, "kind": "pod.deleted", "pod": name, "node": ""})
    return found


def late(*pods: list[Record]) -> list[str]:
    records = sorted((record for one in pods for record in one), key=lambda record: record["t"])
    return kept_waiting(records, FAULTS, END)


def test_pods_that_have_just_come_may_wait_at_the_end_and_others_may_not() -> None:
    pods = (pod("old", 25), pod("bound", 25, bound=44), pod("gone", 25, gone=44), pod("new", 56))
    assert late(*pods) == ["old"]


def test_while_nothing_goes_wrong_no_pod_may_wait_for_long() -> None:
    before = pod("early", 1, bound=7), pod("soon", 1, bound=5), pod("hit", 16, bound=40)
    after = pod("felt", 44, bound=51), pod("late", 45, bound=51), pod("served", 45, bound=49)
    assert late(*before, *after) == ["early", "late"]


def test_what_has_a_rate_may_be_missing_in_one_seed_but_not_in_all() -> None:
    crash = Fault(1, kinds.CRASH, 20 * MINUTE, 30 * MINUTE, times=2)
    both = Faults("", (*FAULTS.faults, crash))
    assert list(missing(both, "times", {})) == [kinds.CRASH]
    assert list(missing(both, "times", {kinds.CRASH: 1})) == []
    assert list(missing(both, "rate", {kinds.CRASH: 1})) == [kinds.API_ERROR]
    assert list(missing(both, "rate", {kinds.API_ERROR: 3})) == []
