"""Instants as text: RFC 3339 in objects, integer nanoseconds in code."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from dovetail.base.clock import SECOND


def to_rfc3339(nanoseconds: int) -> str:
    """The instant with whole seconds, as Kubernetes writes metav1.Time ("2026-03-02T21:00:00Z")."""
    return _written(nanoseconds // SECOND)


@lru_cache(maxsize=65_536)
def _written(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=65_536)
def parse_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch; raises ValueError with what would be valid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not a timestamp; valid is RFC 3339, such as 2026-03-02T21:00:00Z")
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * SECOND + moment.microsecond * 1000
