"""Load curves, what they cost, and what is wrong with a broken one."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.scenario.traffic import (
    Burst,
    Curve,
    Peak,
    ServiceTraffic,
    Share,
    curve,
    load,
    second_of_day,
    share,
)
from dovetail.units.timestamp import parse_rfc3339

REPEATED = Burst(at="21:00", lasts="4m", every="30m", until="22:00", add=300)


def traffic(**fields: object) -> ServiceTraffic:
    given = {"service": "web", "deployment": "shop/web", "base": 100.0, "cost_per_request": "20m", **fields}
    return ServiceTraffic(**given)  # type: ignore[arg-type]  # a table of fields of several types


def at(shape: Curve, time: str, *, seed: int = 1) -> float:
    """The load at a time of day in Seoul (UTC+9)."""
    return load(shape, seed, parse_rfc3339(f"2026-03-02T{time}+09:00"))


@pytest.mark.parametrize(
    ("why", "peaks", "bursts", "time", "expected"),
    [
        ("base", (), (), "12:00:00", 100),
        ("before", (Peak(from_="21:00", until="23:00", add=50),), (), "20:59:59", 100),
        ("half of the rise", (Peak(from_="21:00", until="23:00", add=50, rise="20m"),), (), "21:10:00", 125),
        ("on top", (Peak(from_="21:00", until="23:00", add=50),), (), "22:00:00", 150),
        ("half of the fall", (Peak(from_="21:00", until="23:00", add=50, fall="20m"),), (), "22:50:00", 125),
        ("after", (Peak(from_="21:00", until="23:00", add=50),), (), "23:00:00", 100),
        ("over midnight", (Peak(from_="23:00", until="01:00", add=50),), (), "00:10:00", 150),
        ("a burst", (), (Burst(at="21:00", lasts="4m", add=300),), "21:02:00", 400),
        ("gone", (), (Burst(at="21:00", lasts="4m", add=300),), "21:04:00", 100),
        ("again", (), (REPEATED,), "22:01:00", 400),
        (
            "not after",
            (),
            (REPEATED,),
            "22:31:00",
            100,
        ),
        ("never negative", (Peak(from_="21:00", until="23:00", add=-500),), (), "22:00:00", 0),
    ],
)
def test_load(
    why: str, peaks: tuple[Peak, ...], bursts: tuple[Burst, ...], time: str, expected: float
) -> None:
    shape = curve(traffic(peaks=peaks, bursts=bursts), "Asia/Seoul")
    assert at(shape, time) == pytest.approx(expected), why


def test_noise_is_bounded_seeded_and_smooth() -> None:
    shape = curve(traffic(noise=0.1), "Asia/Seoul")
    values = [at(shape, f"12:{second // 60:02}:{second % 60:02}") for second in range(300)]
    assert all(90 <= value <= 110 for value in values)
    assert len(set(values)) > 100
    assert max(abs(a - b) for a, b in itertools.pairwise(values)) < 1
    assert at(shape, "12:00:07") == at(shape, "12:00:07")
    assert at(shape, "12:00:07") != at(shape, "12:00:07", seed=2)


@pytest.mark.parametrize(
    ("load_", "ready", "expected"),
    [
        (10.0, 2, Share(usage=100, over=0.0)),
        (100.0, 2, Share(usage=1000, over=0.0)),
        (150.0, 2, Share(usage=1000, over=50.0)),
        (10.0, 0, Share(usage=0, over=10.0)),
    ],
)
def test_share(load_: float, ready: int, expected: Share) -> None:
    assert share(load_, 20, ready, 1000) == expected


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"deployment": "web"}, "traffic[0].deployment", "not of the form namespace/name"),
        ({"base": -1.0}, "traffic[0].base", "at least 0"),
        ({"base": 1e30}, "traffic[0].base", "1e\\+30 requests per second; a service gets 1,000,000,000"),
        ({"base": float("nan")}, "traffic[0].base", "nan requests per second"),
        ({"base": float("inf")}, "traffic[0].base", "inf requests per second"),
        ({"peaks": (Peak(from_="21:00", until="22:00", add=1e30),)}, "traffic[0].peaks[0].add", "at most"),
        ({"bursts": (Burst(at="21:00", lasts="5m", add=1e30),)}, "traffic[0].bursts[0].add", "at most"),
        ({"noise": 2.0}, "traffic[0].base", "between 0 and 1"),
        ({"cost_per_request": "cheap"}, "traffic[0].costPerRequest", "not a quantity"),
        ({"cost_per_request": "0"}, "traffic[0].costPerRequest", "not more than 0"),
        ({"peaks": (Peak(from_="9pm", until="23:00", add=1),)}, "traffic[0].peaks[0]", "not a time of day"),
        ({"peaks": (Peak(from_="21:00", until="21:05", add=1),)}, "traffic[0].peaks[0]", "longer than"),
        ({"bursts": (Burst(at="21:00", lasts="soon", add=1),)}, "traffic[0].bursts[0]", "not a duration"),
        ({"bursts": (Burst(at="21:00", lasts="0s", add=1),)}, "traffic[0].bursts[0]", "more than 0s"),
        ({"bursts": (Burst(at="21:00", lasts="5m", every="1m", add=1),)}, "traffic[0].bursts[0]", "overlap"),
        (
            {"bursts": (Burst(at="21:00", lasts="1m", every="5m", add=1),)},
            "traffic[0].bursts[0]",
            "needs until",
        ),
    ],
)
def test_broken_traffic(fields: dict[str, object], path: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        curve(traffic(**fields), "Asia/Seoul", path="traffic[0]")
    assert caught.value.path == path


@pytest.mark.parametrize("text", ["24:00", "9:00", "12:60", "noon", "", "12:00:61", "12"])
def test_broken_times_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="HH:MM"):
        second_of_day(text)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `peeks`"):
        msgspec.convert(
            {"service": "a", "deployment": "b/c", "base": 1, "costPerRequest": "1m", "peeks": []},
            ServiceTraffic,
        )


def test_seconds_of_day() -> None:
    assert second_of_day("21:05") * SECOND == 75_900 * SECOND
    assert second_of_day("00:00:09") == 9
