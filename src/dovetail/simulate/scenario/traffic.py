"""A model of traffic: how many requests per second a service gets over the day, and what they cost.

The load of a service is `base` plus every peak and burst that is on, times a little noise. A peak rises and
falls along a smooth S (3x² - 2x³) rather than a straight line. Noise is drawn per service and half minute
and joined by straight lines, so that the load at one instant never depends on who asked before.

Every request costs the same CPU time; ready pods share the load evenly; a pod gives no more CPU than its
limit (its request, without a limit). What is beyond the capacity of the ready pods is counted as requests
over capacity: in a real service they time out or are answered with 503.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.streams import stream
from dovetail.units.duration import parse_duration
from dovetail.units.quantity import parse_quantity

DAY = 86_400  # seconds
_MOST_LOAD = 1_000_000_000  # requests per second
_NOISE_STEP = 30  # seconds


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """A part of a scenario file."""


class Peak(Section, frozen=True, kw_only=True):
    """`add` requests per second between two times of day.

    The ramps lie inside: all of it is there `rise` after `from`, and begins to go `fall` before `until`.
    """

    from_: str = msgspec.field(name="from")
    until: str
    add: float
    rise: str = "10m"
    fall: str = "10m"


class Burst(Section, frozen=True, kw_only=True):
    """`add` requests per second for a short time; with `every`, again until `until`."""

    at: str
    lasts: str
    add: float
    every: str = ""
    until: str = ""


class ServiceTraffic(Section, frozen=True, kw_only=True):
    """The traffic of one service, in the `traffic` list of a scenario."""

    service: str
    deployment: str  # "namespace/name" of the Deployment that serves it
    base: float  # requests per second at all times
    cost_per_request: str  # CPU time as a quantity of CPU-seconds: "20m" is 20 ms of one core
    noise: float = 0.0  # share of the load, such as 0.05 for up to 5 % either way
    peaks: tuple[Peak, ...] = ()
    bursts: tuple[Burst, ...] = ()


@dataclass(frozen=True, slots=True)
class Hump:
    """Load added from `start` (second of the day) for `length` seconds, with ramps inside that length."""

    start: int
    length: int
    rise: int
    fall: int
    add: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The load of a service over the day, ready to be asked."""

    service: str
    deployment: str
    zone: str
    base: float
    noise: float
    cost: int  # milli-CPU-seconds per request
    humps: tuple[Hump, ...]


def curve(traffic: ServiceTraffic, zone: str, *, path: str = "traffic", source: str = "") -> Curve:
    """Read one service's traffic; raises InputError with the field's path.

    Times of day are those of `zone`; a peak or burst that crosses midnight goes on after it.
    """

    def complain(field: str, error: ValueError) -> InputError:
        return InputError(str(error), source=source, path=f"{path}.{field}")

    if traffic.deployment.count("/") != 1:
        raise complain("deployment", ValueError(f"{traffic.deployment!r} is not of the form namespace/name"))
    loads = [("base", traffic.base)]
    loads += [(f"peaks[{i}].add", peak.add) for i, peak in enumerate(traffic.peaks)]
    loads += [(f"bursts[{i}].add", burst.add) for i, burst in enumerate(traffic.bursts)]
    for field, amount in loads:
        if not -_MOST_LOAD <= amount <= _MOST_LOAD:
            text = f"{amount:g} requests per second; a service gets {_MOST_LOAD:,} at most"
            raise complain(field, ValueError(text))
    if traffic.base < 0 or not 0 <= traffic.noise <= 1:
        raise complain("base", ValueError("base must be at least 0, and noise between 0 and 1"))
    try:
        cost = parse_quantity(traffic.cost_per_request).milli()
        if cost <= 0:
            raise ValueError(f"{traffic.cost_per_request!r} is not more than 0")
    except ValueError as error:
        raise complain("costPerRequest", error) from None
    humps: list[Hump] = []
    for i, peak in enumerate(traffic.peaks):
        try:
            humps.append(_peak(peak))
        except ValueError as error:
            raise complain(f"peaks[{i}]", error) from None
    for i, burst in enumerate(traffic.bursts):
        try:
            humps.extend(_bursts(burst))
        except ValueError as error:
            raise complain(f"bursts[{i}]", error) from None
    return Curve(
        service=traffic.service,
        deployment=traffic.deployment,
        zone=zone,
        base=traffic.base,
        noise=traffic.noise,
        cost=cost,
        humps=tuple(humps),
    )


def _peak(peak: Peak) -> Hump:
    start = second_of_day(peak.from_)
    length = (second_of_day(peak.until) - start) % DAY
    rise, fall = _seconds(peak.rise), _seconds(peak.fall)
    if rise + fall > length:
        raise ValueError(
            f"it rises for {peak.rise} and falls for {peak.fall}, "
            f"longer than from {peak.from_} until {peak.until}"
        )
    return Hump(start, length, rise, fall, peak.add)


def _bursts(burst: Burst) -> list[Hump]:
    start, length = second_of_day(burst.at), _seconds(burst.lasts)
    if not 0 < length <= DAY:
        raise ValueError(f"lasts is {burst.lasts!r}; valid is more than 0s, up to 24h")
    ramp = min(10, length // 4)
    if not burst.every:
        return [Hump(start, length, ramp, ramp, burst.add)]
    every = _seconds(burst.every)
    if every < length:
        raise ValueError(f"every {burst.every} is shorter than lasts {burst.lasts}: bursts would overlap")
    if not burst.until:
        raise ValueError("every needs until: the time of day after which no burst begins")
    span = (second_of_day(burst.until) - start) % DAY
    return [Hump((start + i) % DAY, length, ramp, ramp, burst.add) for i in range(0, span + 1, every)]


def second_of_day(text: str) -> int:
    """ "21:05" or "21:05:30" as seconds since midnight; raises ValueError."""
    parts = text.split(":")
    if len(parts) in (2, 3) and all(part.isdecimal() and len(part) == 2 for part in parts):
        hour, minute, second = (int(part) for part in (*parts, "00")[:3])
        if hour < 24 and minute < 60 and second < 60:
            return hour * 3600 + minute * 60 + second
    raise ValueError(f"{text!r} is not a time of day; valid is HH:MM, such as 21:05 (quote it in YAML)")


def midnight_before(instant: int, zone: str) -> int:
    """The last midnight of that time zone (nanoseconds since the epoch)."""
    return instant - _second_of_day(instant // SECOND, zone) * SECOND


@lru_cache(maxsize=16)  # all services are asked about at one instant
def _second_of_day(second: int, zone: str) -> int:
    local = datetime.fromtimestamp(second, ZoneInfo(zone))
    return local.hour * 3600 + local.minute * 60 + local.second


def next_time(start: int, second: int, zone: str) -> int:
    """The first instant from `start` on at which it is that second of the day."""
    at = midnight_before(start, zone) + second * SECOND
    return at if at >= start else at + DAY * SECOND


def _seconds(text: str) -> int:
    return parse_duration(text) // SECOND


def load(curve: Curve, seed: int, instant: int) -> float:
    """Requests per second at an instant (nanoseconds since the epoch), never below 0."""
    second = _second_of_day(instant // SECOND, curve.zone)
    level = curve.base + sum(_height(hump, (second - hump.start) % DAY) * hump.add for hump in curve.humps)
    return max(0.0, level * (1 + curve.noise * _noise(curve.service, seed, instant // SECOND)))


def _height(hump: Hump, elapsed: int) -> float:
    """Share of the hump's load, 0 to 1, `elapsed` seconds after its start."""
    if elapsed >= hump.length:
        return 0.0
    if elapsed < hump.rise:
        return _smooth(elapsed / hump.rise)
    left = hump.length - elapsed
    return _smooth(left / hump.fall) if left < hump.fall else 1.0


def _smooth(x: float) -> float:
    return x * x * (3 - 2 * x)


def _noise(service: str, seed: int, second: int) -> float:
    """Between -1 and 1."""
    step, part = divmod(second, _NOISE_STEP)
    before, after = (_draw(service, seed, step + i) for i in (0, 1))
    return before + (after - before) * part / _NOISE_STEP


@lru_cache(maxsize=4096)  # each is asked for every few seconds of two half minutes
def _draw(service: str, seed: int, step: int) -> float:
    return stream(seed, f"service {service}", f"noise {step}").uniform(-1, 1)


@dataclass(frozen=True, slots=True)
class Share:
    """What one moment's load means for the pods that serve it."""

    usage: int  # milli-CPU per ready pod
    over: float  # requests per second beyond what the ready pods can do


def share(load: float, cost: int, ready: int, capacity: int) -> Share:
    """Spread `load` (requests/s, `cost` milli-CPU-seconds each) over `ready` pods of `capacity` milli-CPU."""
    if ready == 0:
        return Share(usage=0, over=load)
    wanted = load * cost
    able = ready * capacity
    return Share(usage=round(min(wanted, able) / ready), over=max(0.0, wanted - able) / cost)
