"""Pauses, rates, backoff and the guard against mass termination, as values."""

from __future__ import annotations

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.provider import Instance
from dovetail.controllers.brakes.brakes import LaunchBackoff, Rate, Window
from dovetail.controllers.nodeclaim.collect import leftover
from dovetail.disrupt.confirmation import token, too_many
from dovetail.disrupt.pause import Pause, read_pause

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("", Pause()),
        ("launches", Pause(launches=True)),
        ("disruption", Pause(disruption=True)),
        ("all", Pause(launches=True, disruption=True)),
        ("disuption", Pause(launches=True, disruption=True)),
        ("true", Pause(launches=True, disruption=True)),
    ],
)
def test_what_is_paused(text: str, pause: Pause) -> None:
    assert read_pause(text) == pause


@pytest.mark.parametrize(
    "text", ["", "50", "/10m", "0/10m", "-1/10m", "x/10m", "50/", "50/10", "50/0s", "5.5/1h"]
)
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|valid is"):
        Rate.parse(text)


def test_a_rate_is_shown_as_it_was_meant() -> None:
    assert str(Rate.parse("50/10m")) == "50 per 10m0s"


def test_a_window_allows_so_many_within_any_interval() -> None:
    window = Window(Rate(3, 10 * MINUTE))
    assert window.allows(3, 0)
    window.take(2, 0)
    assert window.allows(1, MINUTE)
    assert not window.allows(2, MINUTE)
    window.take(1, MINUTE)
    assert not window.allows(1, 10 * MINUTE - 1)
    assert window.allows(2, 10 * MINUTE)
    assert not window.allows(3, 10 * MINUTE)


def test_what_is_more_than_the_rate_may_happen_alone() -> None:
    window = Window(Rate(3, MINUTE))
    assert window.allows(100, 0)
    window.take(100, 0)
    assert not window.allows(1, MINUTE - 1)
    assert window.allows(100, MINUTE)


def test_what_did_not_happen_is_given_back_from_the_latest_on() -> None:
    window = Window(Rate(3, 10 * MINUTE))
    window.take(1, 0)
    window.take(2, MINUTE)
    window.give_back(1)
    assert window.allows(1, MINUTE)
    window.give_back(1)
    window.take(2, 2 * MINUTE)
    assert not window.allows(1, 10 * MINUTE - 1)
    assert window.allows(1, 10 * MINUTE)
    window.give_back(9)
    assert window.allows(3, 10 * MINUTE)


def test_without_a_rate_everything_may_happen() -> None:
    window = Window(None)
    window.take(1_000, 0)
    assert window.allows(1_000, 0)


def test_failures_in_a_row_keep_a_pool_back_for_longer_and_longer() -> None:
    backoff, now, waits = LaunchBackoff(), 0, []
    for _ in range(7):
        backoff.failed("a", created=now, now=now + 15 * MINUTE)
        now += 15 * MINUTE
        _, until = backoff.until("a", now)
        waits.append((until - now) // MINUTE if until else 0)
        now = max(now, until)
    assert waits == [0, 5, 10, 20, 40, 60, 60]
    assert backoff.until("b", now) == (0, 0)
    backoff.reset("a")
    assert backoff.until("a", now) == (0, 0)


def test_claims_that_fail_together_are_one_failure() -> None:
    backoff = LaunchBackoff()
    for second in range(20):
        backoff.failed("a", created=second * SECOND, now=HOUR + second * SECOND)
    assert backoff.until("a", 2 * HOUR) == (1, 0)


@pytest.mark.parametrize(
    ("unclaimed", "fleet", "guarded"),
    [
        (0, 0, False),
        (5, 5, False),
        (6, 6, True),
        (6, 50, True),
        (6, 51, False),
        (10, 100, False),
        (11, 100, True),
    ],
)
def test_how_many_may_end_unasked(unclaimed: int, fleet: int, guarded: bool) -> None:
    assert too_many(unclaimed, fleet) == guarded


def test_a_token_is_about_a_set_of_instances() -> None:
    assert token(["a", "b"]) == token(["b", "a"]) != token(["a", "c"])


@pytest.mark.parametrize(
    ("claim", "age", "joined", "explained"),
    [
        ("other", 10 * MINUTE, False, True),
        ("other", 16 * MINUTE, False, False),
        ("other", MINUTE, True, False),
        ("web-1", 16 * MINUTE, True, True),
    ],
)
def test_strays_that_a_launch_explains(claim: str, age: int, joined: bool, explained: bool) -> None:
    instance = Instance("aws:///a/i-1", "m5.large", "a", "spot", 1, "", HOUR - age, claim)
    known = decode({"metadata": {"name": "web-1"}, "spec": {"nodeClassRef": REFERENCE}}, NodeClaim)
    there = {instance.provider_id} if joined else set()
    assert leftover(instance, [known], there, HOUR) == explained
