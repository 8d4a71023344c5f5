"""Names that controllers give: random ones from the alphabet of Kubernetes."""

from __future__ import annotations

import random

from dovetail.base.streams import stream
from dovetail.model.podtemplate import ALPHABET

_SUFFIX_LENGTH = 5
_LONGEST_BASE = 58  # 63 characters of a DNS label less the suffix


class Names:
    """Suffixes for the children of each owner, one random stream per owner.

    Invariant: what one owner draws never depends on how many children another one has made.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def child(self, owner: str, base: str) -> str:
        """`base` (shortened to fit a DNS label) and a five-character suffix; `owner` names the stream."""
        draws = self._streams.setdefault(owner, stream(self._seed, owner, "names of children"))
        suffix = "".join(draws.choice(ALPHABET) for _ in range(_SUFFIX_LENGTH))
        return f"{base[:_LONGEST_BASE]}-{suffix}" if base else suffix
