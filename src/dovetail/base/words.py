"""Numbers of things, in sentences."""

from __future__ import annotations


def number_of(count: int, one: str, several: str = "") -> str:
    """ "1 pod", "1,200 pods"; `several` where that is not `one` with an s, as of "node goes"."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
