"""Random streams keyed by entity, so that one entity's draws never shift another's."""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, entity: str, purpose: str) -> random.Random:
    """A generator of its own for (seed, entity, purpose), the same in every process and on every machine."""
    digest = hashlib.blake2b(f"{seed}\0{entity}\0{purpose}".encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))
