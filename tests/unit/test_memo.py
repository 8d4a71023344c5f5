"""What is remembered by identity."""

from __future__ import annotations

from weakref import ref

from dovetail.api.core import Pod
from dovetail.base.memo import by_identity, by_weight
from dovetail.model.cluster_view import PodFacts
from dovetail.model.volumes import VolumeIndex


def test_the_very_same_object_is_asked_about_once_an_equal_one_again() -> None:
    asked: list[dict[str, int]] = []

    @by_identity(2)
    def size(subject: dict[str, int]) -> int:
        asked.append(subject)
        return len(subject)

    one, other = {"a": 1}, {"a": 1}
    assert [size(one), size(other), size(one), size(other)] == [1, 1, 1, 1]
    assert [id(item) for item in asked] == [id(one), id(other)]
    size({"b": 1})  # one too many: all are forgotten
    size(one)
    assert len(asked) == 4


def test_what_is_gone_is_forgotten() -> None:
    asked: list[str] = []

    @by_identity(8)
    def name(pod: Pod) -> str:
        asked.append(pod.key)
        return pod.key

    for _ in range(20):  # a new one may get the id of one before it
        pod = Pod()
        assert name(pod) == name(pod) == ""
    assert len(asked) == 20


def test_the_rules_of_a_pod_do_not_keep_it_alive() -> None:
    pod = Pod()
    PodFacts.of(pod, VolumeIndex())
    gone = ref(pod)
    del pod
    assert gone() is None


def test_answers_are_remembered_up_to_a_weight() -> None:
    asked: list[str] = []

    @by_weight(10, lambda args, answer: len(args[0]) + len(answer))
    def twice(text: str) -> str:
        asked.append(text)
        return 2 * text

    assert [twice("a"), twice("b"), twice("a"), twice("a")] == ["aa", "bb", "aa", "aa"]
    assert asked == ["a", "b"]
    assert twice("cc") == "cccc"  # 12 in all: b, which was asked for longest ago, is forgotten
    assert [twice("a"), twice("cc"), twice("b")] == ["aa", "cccc", "bb"]
    assert asked == ["a", "b", "cc", "b"]
    assert twice("large") == twice("large") == "largelarge"  # beyond the weight by itself: never remembered
    assert asked == ["a", "b", "cc", "b", "large", "large"]


def test_the_very_same_arguments_are_recognised_without_their_hash() -> None:
    asked: list[int] = []

    @by_weight(10, lambda args, _: len(args[0]), same=True)
    def length(values: list[int]) -> int:
        asked.append(len(values))
        return len(values)

    first, equal = [1, 2, 3], [1, 2, 3]
    assert [length(first), length(equal), length(first), length(equal)] == [3, 3, 3, 3]
    assert asked == [3, 3]
    assert [length([each]) for each in range(50)] == [1] * 50  # those that are gone leave their ids to others
    assert len(asked) == 52
