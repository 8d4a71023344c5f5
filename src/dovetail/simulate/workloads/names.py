"""Names that controllers give: random ones from the alphabet of Kubernetes, and template hashes."""

from __future__ import annotations

import hashlib
import json
import random

from dovetail.api.codec import encode
from dovetail.api.core import PodTemplateSpec
from dovetail.base.memo import by_identity
from dovetail.base.streams import stream

# No vowels and no look-alikes (0, 1, 3), as in apimachinery's util/rand.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
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


@by_identity(1024)
def template_hash(template: PodTemplateSpec) -> str:
    """The pod-template-hash label: equal for equal templates, in the alphabet of Kubernetes.

    It covers the fields that Dovetail reads; a change of any other field does not roll the pods.
    """
    text = json.dumps(encode(template), sort_keys=True, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    decimal = str(int.from_bytes(digest, "big"))
    # A digit's character code picks from the alphabet: how Kubernetes keeps words out of the hash.
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in decimal)
