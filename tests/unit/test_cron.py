"""Cron schedules: five fields or a name, in a time zone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.base.clock import SECOND
from dovetail.units.cron import NEVER, Cron, schedule_of_jobs
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "zone", "after", "hit"),
    [
        ("0 9 * * 1-5", "UTC", "2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z"),
        ("0 9 * * mon-fri", "UTC", "2026-03-06T09:00:00Z", "2026-03-09T09:00:00Z"),
        ("*/15 * * * *", "UTC", "2026-03-02T09:14:59Z", "2026-03-02T09:15:00Z"),
        ("5/20 * * * *", "UTC", "2026-03-02T09:05:00Z", "2026-03-02T09:25:00Z"),
        ("@daily", "UTC", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"),
        ("@weekly", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
        ("@hourly", "Asia/Seoul", "2026-03-02T00:30:00Z", "2026-03-02T01:00:00Z"),
        ("0 21 * * *", "Asia/Seoul", "2026-03-02T00:00:00Z", "2026-03-02T12:00:00Z"),
        ("0 0 29 2 *", "UTC", "2026-03-02T00:00:00Z", "2028-02-29T00:00:00Z"),
        # Day of month and day of week combine with "or", unless one of them is a star.
        ("0 0 13 * 5", "UTC", "2026-03-02T00:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 */5 * 5", "UTC", "2026-03-02T00:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 ? * 5", "UTC", "2026-03-02T00:00:00Z", "2026-03-06T00:00:00Z"),
        # 02:30 does not exist on the day that New York puts its clocks forward.
        ("30 1 * * *", "America/New_York", "2026-03-08T05:00:00Z", "2026-03-08T06:30:00Z"),
    ],
)
def test_next_hit(text: str, zone: str, after: str, hit: str) -> None:
    assert to_rfc3339(Cron.parse(text, zone).next_after(parse_rfc3339(after))) == hit


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "it has 4 fields"),
        ("0 * * * * *", "it has 6 fields"),
        ("", "it has 0 fields"),
        ("61 * * * *", "'61' in the minute field is not within 0-59"),
        ("* 24 * * *", "hour field"),
        ("* * 0 * *", "day-of-month"),
        ("* * * foo *", "'foo' in the month field"),
        ("* * * * 7", "'7' in the day-of-week field is not within 0-6"),
        ("9-5 * * * *", "ends before it begins"),
        ("*/0 * * * *", "step"),
        ("a b c d e", "minute field"),
        ("1,,2 * * * *", "not valid in the minute field"),
        ("@every 1h", "it has 2 fields"),
        ("@dayly", "it has 1 fields"),
    ],
)
def test_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="is not a cron schedule") as error:
        Cron.parse(text)
    assert why in str(error.value)
    assert "@daily" in str(error.value)


def test_unknown_zone() -> None:
    with pytest.raises(ValueError, match="'Mars/Base' is not a time zone"):
        Cron.parse("@daily", "Mars/Base")


def test_date_that_does_not_exist() -> None:
    assert Cron.parse("0 0 30 2 *").next_after(0) == NEVER


@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 2**31))
def test_daily_hits_are_at_most_a_day_away_and_on_time(minute: int, hour: int, second: int) -> None:
    now = second * 1_000_000_000
    hit = Cron.parse(f"{minute} {hour} * * *").next_after(now)
    assert now < hit <= now + 24 * HOUR
    assert hit % (24 * HOUR) == (hour * 60 + minute) * 60_000_000_000


@pytest.mark.parametrize(
    ("text", "after"),
    [("@every 5m", 300), ("@every 1h30m", 5400), ("@every 10ms", 1), ("*/5 * * * *", 300)],
)
def test_the_next_job_of_a_schedule(text: str, after: int) -> None:
    assert schedule_of_jobs(text).next_after(0) == after * SECOND


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TZ=Asia/Seoul 0 9 * * *", "write timeZone: Asia/Seoul and schedule: '0 9 * * *'"),
        ("CRON_TZ=UTC @daily", "write timeZone: UTC and schedule: '@daily'"),
        ("@every soon", "is not a cron schedule"),
        ("@every", "is not a cron schedule"),
    ],
)
def test_what_is_no_schedule_of_jobs(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        schedule_of_jobs(text)
