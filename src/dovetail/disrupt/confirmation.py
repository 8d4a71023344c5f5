"""Ends of so many nodes at once that a person has to confirm them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_ALWAYS = 5
_PERCENT = 10


def too_many(ending: int, fleet: int) -> bool:
    """True iff so many of a fleet's nodes are not ended without a confirmation."""
    return ending > max(_ALWAYS, -(-fleet * _PERCENT // 100))


def token(parts: Iterable[str]) -> str:
    """What confirms the end of exactly what these strings name, in whatever order."""
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:8]
