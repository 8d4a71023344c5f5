"""Guesses at what was meant."""

import pytest

from dovetail.base.guess import meant, nearest

KNOWN = ("maxPods", "podsPerCore", "podPidsLimit")


@pytest.mark.parametrize(
    ("word", "most", "suggestion"),
    [
        ("maxPod", 1, "did you mean maxPods?"),
        ("podsPerCor", 1, "did you mean podsPerCore?"),
        ("podsPerLimit", 3, "did you mean podPidsLimit or podsPerCore?"),
        ("zebra", 3, "known here: three fields"),
    ],
)
def test_what_was_meant(word: str, most: int, suggestion: str) -> None:
    assert meant(word, KNOWN, "known here: three fields", most=most) == suggestion


def test_what_is_hardly_alike_is_no_guess_where_much_must_be() -> None:
    assert nearest("podsLimit", KNOWN) == ["podPidsLimit"]
    assert nearest("podsLimit", KNOWN, alike=0.9) == []
