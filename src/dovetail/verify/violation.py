"""What a checker finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: which rule, on what, and why in a sentence."""

    rule: str
    subject: str
    message: str
