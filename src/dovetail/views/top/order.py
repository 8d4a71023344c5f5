"""In which order nodes are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_CHUNKS = re.compile(r"\d+|\D+", re.ASCII)
CREATION = "creation"
Key = tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=16_384)
def natural(text: str) -> Key:
    """A key by which 2 comes before 10: numbers by value, all else by character."""
    return tuple(_chunk(item) for item in _CHUNKS.findall(text))


def _chunk(text: str) -> tuple[int, int, str]:
    """A number stands among other characters where its digits do."""
    if text[0].isdecimal():
        return 1, int(text), ""
    return (0 if text < "0" else 2), 0, text


@dataclass(frozen=True, slots=True)
class Sort:
    """What nodes are sorted by: `creation` or a label, the computed ones included.

    `creation` ascending is newest first and descending is oldest first, as in eks-node-viewer.
    """

    key: str = CREATION
    descending: bool = True

    @staticmethod
    def parse(text: str) -> Sort:
        """Reads `KEY=asc`, `KEY=dsc`, or KEY, which is ascending; any other ending is part of the key."""
        for ending, descending in (("=asc", False), ("=dsc", True)):
            if text.endswith(ending):
                return Sort(text.removesuffix(ending), descending)
        return Sort(text, False)

    def __str__(self) -> str:
        return f"{self.key}={'dsc' if self.descending else 'asc'}"


OLDEST_FIRST = Sort()
