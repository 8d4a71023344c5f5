"""The faults file, field by field (apiVersion simulation.dovetail.dev/v1alpha1, kind Faults).

docs/reference/faults.md explains every field and kind to users; keep the two together.
"""

from __future__ import annotations

import msgspec

from dovetail.simulate.traffic import Section

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
    count: int | None = None  # of attacks each time
    zones: tuple[str, ...] = ()


class FaultsFile(Section, frozen=True, kw_only=True):
    """A faults file."""

    api_version: str
    kind: str
    faults: tuple[FaultSection, ...]
    description: str = ""
    least_nodes: int = 0  # so many nodes there must have been at once for a soak to mean anything
