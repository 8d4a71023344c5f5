"""What was meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection

ALIKE = 0.6  # share of letters in common from which on a word is a guess


def nearest(word: str, known: Collection[str], *, most: int = 1, alike: float = ALIKE) -> list[str]:
    """Those of the known words that are like it, the likest first."""
    return difflib.get_close_matches(word, known, n=most, cutoff=alike)


def meant(word: str, known: Collection[str], otherwise: str = "", *, most: int = 1) -> str:
    """ "did you mean X or Y?"; `otherwise` where nothing is like the word."""
    near = nearest(word, known, most=most)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
