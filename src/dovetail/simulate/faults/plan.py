"""The faults file, field by field (simulation.dovetail.dev/v1alpha1, kind Faults), read and found sound.

docs/reference/faults.md explains every field and kind to users; keep the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.streams import stream
from dovetail.cloud import catalog
from dovetail.simulate.faults.kinds import KINDS, Kind
from dovetail.simulate.scenario.document import Document, suggest
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import API_VERSION
from dovetail.simulate.scenario.traffic import Section
from dovetail.units.duration import parse_duration

KIND = "Faults"


class FaultSection(Section, frozen=True, kw_only=True):
    """One kind of fault over one stretch of time; which fields it takes is in `kinds`."""

    kind: str
    from_: str = msgspec.field(name="from", default="0s")  # since the start of the scenario
    until: str = ""  # likewise; the end of the scenario
    rate: float | None = None  # the share of calls that it happens to, 0 to 1
    times: int | None = None  # how often it happens
    lasts: str = ""
    share: float | None = None  # of the machines that it may happen to, 0 to 1
    count: int | None = None  # of attacks, or of nodes, each time
    zones: tuple[str, ...] = ()
    condition: str = "AcceleratedHardwareReady"  # of nodes, which turns False
    reason: str = "XID79"


class FaultsFile(Section, frozen=True, kw_only=True):
    """A faults file."""

    api_version: str
    kind: str
    faults: tuple[FaultSection, ...]
    description: str = ""
    least_nodes: int = 0  # so many nodes there must have been at once for a soak to mean anything


@dataclass(frozen=True, slots=True)
class Fault:
    """One section. `since` and `until` are instants in nanoseconds, `lasts` a length of time."""

    number: int  # its place in the file, from 0
    kind: str
    since: int
    until: int
    rate: float = 0.0
    times: int = 0
    lasts: int = 0
    share: float = 0.0
    count: int = 0
    zones: tuple[str, ...] = ()
    condition: str = ""
    reason: str = ""

    def instants(self, seed: int) -> tuple[int, ...]:
        """When it happens, for those that happen a number of times: drawn evenly, to the second."""
        draws = stream(seed, f"{self.kind} {self.number}", "instants of a fault")
        length = (self.until - self.since) // SECOND
        return tuple(sorted(self.since + draws.randrange(length) * SECOND for _ in range(self.times)))


@dataclass(frozen=True, slots=True)
class Faults:
    """All that may go wrong in one simulation."""

    source: str
    faults: tuple[Fault, ...]
    least_nodes: int = 0  # how many there must be at once, for a soak

    def of(self, kind: str) -> tuple[Fault, ...]:
        """The faults of one kind."""
        return tuple(fault for fault in self.faults if fault.kind == kind)

    @property
    def over(self) -> int:
        """The instant from which nothing goes wrong any more; 0 without faults."""
        return max((fault.until + fault.lasts for fault in self.faults), default=0)


def load(path: Path, scenario: Scenario) -> Faults:
    """Read a faults file for a scenario; raises InputError for anything that is wrong."""
    document = Document.read(path)
    if not isinstance(document.value, dict):
        remedy = f"begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`"
        raise document.error("a faults file is a map of fields", remedy=remedy)
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = document.value.get(name)
        if given != wanted:
            raise document.error(f"{given!r} is not a faults file's {name}; valid is {wanted}", name)
    file = document.decode(FaultsFile)
    if not file.faults:
        raise document.error("there are no faults in it", "faults", remedy="leave --faults out, or name one")
    found = [_fault(document, number, section, scenario) for number, section in enumerate(file.faults)]
    if file.least_nodes < 0:
        raise document.error(f"{file.least_nodes} is less than 0", "leastNodes")
    return Faults(str(path), tuple(found), file.least_nodes)


def _fault(document: Document, place: int, section: FaultSection, scenario: Scenario) -> Fault:
    path = f"faults[{place}]"
    kind = KINDS.get(section.kind)
    if kind is None:
        guess = suggest(section.kind, tuple(KINDS))
        raise document.error(f"unknown kind of fault {section.kind!r}{guess}", f"{path}.kind")
    if kind.aws and scenario.file.settings.provider != "aws":
        remedy = "say `provider: aws` under the scenario's `settings`"
        text = f"a fault of kind {kind.name} happens to the AWS provider, which this scenario does not play"
        raise document.error(text, f"{path}.kind", remedy=remedy)
    _check_fields(document, path, kind)
    since = _length(document, f"{path}.from", section.from_)
    until = _length(document, f"{path}.until", section.until) if section.until else scenario.duration
    if not since < until <= scenario.duration:
        text = f"the fault must end after it begins, and at most {scenario.file.duration} after the start"
        raise document.error(text, f"{path}.until" if section.until else f"{path}.from")
    if until - since < SECOND:
        raise document.error("the stretch of time must be 1s at least", f"{path}.until")
    for name, value in (("rate", section.rate), ("share", section.share)):
        if value is not None and not 0 < value <= 1:
            raise document.error(f"{value:g} is not more than 0 and at most 1", f"{path}.{name}")
    for name, number in (("times", section.times), ("count", section.count)):
        if number is not None and number < 1:
            raise document.error(f"{number} is less than 1", f"{path}.{name}")
    lasts = _length(document, f"{path}.lasts", section.lasts) if section.lasts else kind.lasts or 0
    return Fault(
        number=place,
        kind=kind.name,
        since=scenario.start + since,
        until=scenario.start + until,
        rate=section.rate or 0.0,
        times=section.times or 0,
        lasts=lasts,
        share=section.share or kind.share or 0.0,
        count=section.count or kind.count or 0,
        zones=_zones(document, path, section, scenario),
        condition=section.condition,
        reason=section.reason,
    )


def _check_fields(document: Document, path: str, kind: Kind) -> None:
    """Each kind takes its own fields, and must say how often it happens."""
    given = document.value["faults"][int(path[len("faults[") : -1])]
    for name in given:
        if name not in kind.fields():
            text = f"a fault of kind {kind.name} has no such field; valid are {', '.join(kind.fields())}"
            raise document.error(text, f"{path}.{name}")
    if kind.by not in given:
        example = "rate: 0.02" if kind.by == "rate" else "times: 3"
        text = f"a fault of kind {kind.name} needs to say how often it happens"
        raise document.error(text, path, remedy=f"add `{example}`")


def _length(document: Document, path: str, text: str) -> int:
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise document.error(str(error), path) from None
    if length < 0:
        raise document.error(f"{text!r} is less than 0s", path)
    return length


def _zones(document: Document, path: str, section: FaultSection, scenario: Scenario) -> tuple[str, ...]:
    if KINDS[section.kind].zones:
        try:
            known = tuple(catalog.zones(scenario.file.region))
        except InputError:
            return section.zones  # the region itself is checked when the cloud is made
        for i, zone in enumerate(section.zones):
            if zone not in known:
                text = f"{scenario.file.region} has no zone {zone!r}{suggest(zone, known)}"
                raise document.error(text, f"{path}.zones[{i}]")
    return section.zones


def occurrences(faults: Faults, kind: str, seed: int) -> Iterator[tuple[int, Fault]]:
    """(instant, fault) of every fault of a kind that happens a number of times, in order of time."""
    found = [(instant, fault) for fault in faults.of(kind) for instant in fault.instants(seed)]
    yield from sorted(found, key=lambda item: (item[0], item[1].number))
