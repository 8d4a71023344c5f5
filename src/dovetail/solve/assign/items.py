"""What has to share nodes: pods with their domains decided, alone or tied together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dovetail.model.arrays import Amounts
from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.instance.topology import Pins


class Unit(NamedTuple):
    """One pod to be placed, by its pod class and its level of relaxation."""

    pod_class: int
    level: int
    pod: str


@dataclass(slots=True)
class Item:
    """Copies of one bundle of pods that go onto a new node together; mostly a bundle is one pod.

    Bundles are interchangeable: each has one pod per kind, in their order, by its name.
    """

    kinds: tuple[tuple[int, int], ...]  # (pod class, level) of one bundle's pods
    bundles: list[tuple[str, ...]]
    wanted: Requirements  # without the pins
    pins: Pins
    pools: tuple[int, ...]
    vector: Amounts  # requests of one bundle
    ports: tuple[HostPort, ...] = ()
    host: str = ""  # the name by which its pods are counted on a host of their own; '' if they are not

    @property
    def place(self) -> Pins:
        """By which labels its pods are counted: its pins, and the host's name if they are on one."""
        return (*self.pins, (HOSTNAME, self.host)) if self.host else self.pins

    def units(self, bundle: tuple[str, ...]) -> list[Unit]:
        """The pods of one of the bundles."""
        return [
            Unit(pod_class, level, pod) for (pod_class, level), pod in zip(self.kinds, bundle, strict=True)
        ]


@dataclass(slots=True)
class Assignment:
    """Where pods go before nodes are chosen: existing nodes by row, items for new ones, and what is left."""

    existing: dict[int, list[Unit]] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    left: list[tuple[int, str]] = field(default_factory=list)  # (pod class, pod)
    not_attempted: list[tuple[int, str]] = field(default_factory=list)  # those that there was no time for
