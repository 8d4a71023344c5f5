"""Pod classes: pods that no rule can tell apart, and their levels of relaxation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Pod
from dovetail.model.arrays import Amounts
from dovetail.model.pod_rules import Rules
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements


@dataclass(frozen=True, slots=True)
class Level:
    """A pod class's demands once so much has been given up."""

    rules: Rules
    words: list[str]  # for all that the pod may give up, in order; one list for all levels
    gone: int  # so many of these are given up
    lost: int  # preferences among them: another alternative of what is required is no loss
    owned: tuple[int, ...]  # topology groups to obey
    alternatives: tuple[Requirements, ...]  # demands on labels, with each way to reach the pod's volumes

    @property
    def given_up(self) -> tuple[str, ...]:
        """The words for what is given up."""
        return tuple(self.words[: self.gone])


@dataclass(slots=True)
class PodClass:
    """Pods that no rule can tell apart."""

    index: int
    sample: Pod
    pods: list[str]  # keys, in the order of the problem
    vector: Amounts  # requests, shape (R,)
    ports: tuple[HostPort, ...]
    ladder: int  # equal only where levels and required are
    levels: tuple[Level, ...]
    required: tuple[Requirements, ...]  # strict demands on labels: alternatives
    matching: tuple[int, ...] = ()  # topology groups that count it
    volumes: Mapping[str, frozenset[str]] = field(default_factory=dict)  # CSI driver -> attachments
    turn: int = 0  # where there is no time for all, lower ones come first
    value: float = field(default=0.0)  # dollars per hour that one pod is worth at the relaxation's prices

    @property
    def involved(self) -> bool:
        """True iff some topology rule is about its pods."""
        return bool(self.matching) or any(level.owned for level in self.levels)
