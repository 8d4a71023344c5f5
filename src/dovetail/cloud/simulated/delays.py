"""How long the simulated cloud takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.base.clock import SECOND
from dovetail.cloud.twin import Delay, Uniform


@dataclass(frozen=True, slots=True)
class Delays:
    """How long calls take to have their effect."""

    launch: Delay = field(default_factory=lambda: Uniform(3 * SECOND // 2, 4 * SECOND))
    terminate: Delay = field(default_factory=lambda: Uniform(25 * SECOND, 60 * SECOND))
