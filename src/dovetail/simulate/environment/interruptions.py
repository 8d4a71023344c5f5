"""Plays a scenario's interruptions: at its time, each happens to the machines it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dovetail.base.clock import Clock
from dovetail.base.streams import stream
from dovetail.cloud.interruption import InterruptionKind
from dovetail.cloud.provider import Instance
from dovetail.simulate.scenario.schema import IMPAIRMENTS

# What only machines of one capacity type know.
_ONLY = {
    InterruptionKind.SPOT: "spot",
    InterruptionKind.REBALANCE: "spot",
    InterruptionKind.RESERVATION: "reserved",
}


@dataclass(frozen=True, slots=True)
class PlannedInterruption:
    """At `at` (ns since the epoch), to a `share` of the instances that it concerns. Empty lists mean all."""

    at: int
    kind: str
    share: float = 1.0
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()

    def concerns(self, instance: Instance) -> bool:
        """True iff it may happen to that instance."""
        only = _ONLY.get(InterruptionKind(self.kind)) if self.kind not in IMPAIRMENTS else None
        return (
            not instance.terminating
            and (only is None or instance.capacity_type == only)
            and (not self.instance_types or instance.instance_type in self.instance_types)
            and (not self.zones or instance.zone in self.zones)
            and (not self.capacity_types or instance.capacity_type in self.capacity_types)
        )


class Interruptible(Protocol):
    """Instances to which something may happen, as `Cloud` says."""

    async def list(self) -> Sequence[Instance]: ...

    def interrupt(self, provider_id: str, kind: InterruptionKind, /) -> None: ...

    def impair(self, provider_id: str, category: str, /) -> None: ...


async def interrupt(
    clock: Clock, cloud: Interruptible, seed: int, planned: Sequence[PlannedInterruption]
) -> None:
    """Let each happen at its time; which instances it meets is drawn by their ids."""
    for number, item in sorted(enumerate(planned), key=lambda pair: pair[1].at):
        await clock.sleep(max(0, item.at - clock.now()))
        for instance in await cloud.list():
            draw = stream(seed, instance.provider_id, f"interruption {number}").random()
            if not item.concerns(instance) or draw >= item.share:
                continue
            if item.kind in IMPAIRMENTS:
                cloud.impair(instance.provider_id, item.kind)
            else:
                cloud.interrupt(instance.provider_id, InterruptionKind(item.kind))
