"""What is remembered by identity."""

from __future__ import annotations

from dovetail.base.memo import by_identity


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
