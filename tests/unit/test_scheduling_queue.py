"""The scheduler's queue: priority, back-off, and who is woken."""

from __future__ import annotations

from dovetail.api.core import Pod, PodSpec
from dovetail.api.meta import Meta
from dovetail.base.clock import MINUTE, SECOND
from dovetail.simulate.scheduler.queue import SchedulingQueue


def pod(name: str, priority: int = 0) -> Pod:
    return Pod(metadata=Meta(name=name, namespace="default", uid=name), spec=PodSpec(priority=priority))


def names(queue: SchedulingQueue, now: int) -> list[str]:
    found = []
    while (item := queue.pop(now)) is not None:
        found.append(item.metadata.name)
    return found


def every_pod(_: Pod, __: frozenset[str]) -> bool:
    return True


def test_priority_then_age() -> None:
    queue = SchedulingQueue()
    for name, priority in (("a", 0), ("b", 5), ("c", 5), ("d", -1)):
        queue.add(pod(name, priority))
    assert names(queue, 0) == ["b", "c", "a", "d"]


def test_a_pod_that_is_tried_is_as_it_is_by_then() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    popped = queue.pop(0)
    assert popped is not None
    queue.add(pod("a", 7))
    assert queue.present(popped) == pod("a", 7)
    queue.remove("a")
    assert queue.present(popped) == pod("a")


def test_a_pod_after_an_error_waits_for_the_end_of_the_second_of_its_back_off() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    now = 0
    for backoff in (1, 2, 4, 8, 10, 10):
        assert names(queue, now) == ["a"]
        queue.failed("a", now, again=True)
        queue.wake(now, every_pod)
        due = now + (backoff + 1) * SECOND
        assert queue.next_due() == due
        assert names(queue, due - 1) == []
        now = due


def test_a_pod_that_was_woken_waits_for_others_that_are_due_but_not_for_its_back_off() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0)
    assert queue.next_due() == 5 * MINUTE
    assert names(queue, SECOND) == []
    queue.wake(SECOND, every_pod)
    queue.add(pod("b"))
    assert names(queue, SECOND) == ["b", "a"]


def test_of_back_offs_that_end_in_one_second_priority_comes_first() -> None:
    queue = SchedulingQueue()
    for name, priority in (("a", 0), ("b", 5)):
        queue.add(pod(name, priority))
    assert names(queue, 0) == ["b", "a"]
    queue.failed("a", 0)
    queue.failed("b", SECOND // 2)
    queue.wake(SECOND // 2, every_pod)
    assert names(queue, SECOND // 2) == ["b", "a"]


def test_pods_that_were_refused_later_come_later() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    queue.add(pod("b"))
    assert names(queue, 0) == ["a", "b"]
    queue.failed("b", 0)
    queue.failed("a", 0)
    queue.wake(MINUTE, every_pod)
    assert names(queue, MINUTE) == ["b", "a"]


def test_a_change_after_the_back_off_helps_at_once_those_that_it_concerns() -> None:
    queue = SchedulingQueue()
    for name in "abcd":
        queue.add(pod(name))
    assert names(queue, 0) == ["a", "b", "c", "d"]
    for name, kind, by in (("a", 1, "Ports"), ("b", 2, "Fit"), ("c", 2, "Fit"), ("d", 2, "Ports")):
        queue.failed(name, 0, (kind, frozenset({by})))
    asked = []

    def concerns(item: Pod, by: frozenset[str]) -> bool:
        asked.append(item.metadata.name)
        return "Fit" in by

    queue.wake(MINUTE, concerns)
    assert names(queue, MINUTE) == ["b", "c"]
    assert asked == ["a", "b", "d"], "one of each kind"


def test_what_no_filter_refused_is_tried_after_any_change() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0)
    queue.wake(MINUTE, lambda _, __: False)
    assert names(queue, MINUTE) == ["a"]


def test_a_pod_that_changed_is_tried_again_alone() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    queue.add(pod("b"))
    assert names(queue, 0) == ["a", "b"]
    for name in "ab":
        queue.failed(name, 0, ("kind", frozenset({"Fit"})))
    queue.wake_one("b", MINUTE)
    queue.wake_one("b", MINUTE)
    assert names(queue, MINUTE) == ["b"]


def test_no_pod_waits_for_ever() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0)
    assert names(queue, 5 * MINUTE - 1) == []
    assert names(queue, 5 * MINUTE) == ["a"]


def test_removed_pods_are_not_tried() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"))
    queue.add(pod("b"))
    queue.remove("a")
    assert names(queue, 0) == ["b"]
    queue.failed("b", 0)
    queue.wake(0, every_pod)
    queue.remove("b")
    assert queue.next_due() is None
    assert len(queue) == 0
