"""Why a filter says no."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """The scheduler's words. `helpless`: True iff evicting other pods from the node could not help."""

    text: str
    helpless: bool = True


# What every filter answers: nothing when the pod may run there.
Reasons = tuple[Reason, ...]
