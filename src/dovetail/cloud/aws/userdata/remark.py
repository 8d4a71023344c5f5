"""What can be said against a piece of user data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """`fatal` iff no node comes of it; otherwise the node comes, but not as it was meant.

    `line` counts from 1 in the text that was checked, None where it is not known; `path` is a field.
    """

    fatal: bool
    message: str
    line: int | None = None
    path: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}"
        return ": ".join(part for part in (place, self.path, self.message) if part)
