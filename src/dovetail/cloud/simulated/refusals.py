"""Why the simulated cloud launches nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.base.errors import CreateFailed
from dovetail.cloud.choice import Candidate, Pool
from dovetail.cloud.provider import NodeClassResolution

_SHOWN = 5


def reachable(found: tuple[Candidate, ...], resolution: NodeClassResolution) -> tuple[Candidate, ...]:
    """The candidates in zones where the class has a subnet; raises CreateFailed without any."""
    zones = {subnet.zone for subnet in resolution.subnets}
    kept = tuple(candidate for candidate in found if candidate.offering.zone in zones)
    if not kept:
        wanted = ", ".join(sorted({candidate.offering.zone for candidate in found}))
        raise CreateFailed(f"the node class has no subnet in {wanted}", reason="SubnetResolutionFailed")
    return kept


def fleet_errors(refused: Mapping[Pool, str]) -> str:
    """What the pools that refused had to say."""
    shown = [f"{reason}: {kind} in {zone} ({how})" for (how, kind, zone), reason in refused.items()]
    rest = len(shown) - _SHOWN
    more = f"; and {rest} more" if rest > 0 else ""
    return f"with fleet error(s), {'; '.join(shown[:_SHOWN])}{more}"
