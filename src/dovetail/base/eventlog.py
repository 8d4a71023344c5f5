"""What happened, as one ordered stream of records: the simulation's log, and what its report is made of."""

from __future__ import annotations

from typing import Protocol


class EventLog(Protocol):
    """Receives records in order. Values are JSON scalars, lists and maps; never wall times, never sets."""

    def record(self, kind: str, /, **fields: object) -> None:
        """Append one record; the log stamps it with the clock's present instant."""
