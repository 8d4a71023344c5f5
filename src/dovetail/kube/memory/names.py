"""Names and uids that the server gives, drawn so that one object's never depend on another's."""

from __future__ import annotations

import hashlib

from dovetail.api.meta import Object
from dovetail.base.streams import stream
from dovetail.kube.memory.store import Key, Store

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58  # of a generated name: 63 less the five characters


class Names:
    """Counts what was given, per kind and name."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._seed = seed
        self._generated: dict[str, int] = {}  # names drawn so far, per kind, namespace and prefix
        self._births: dict[tuple[str, Key], int] = {}  # objects that had that name so far

    def generate(self, kind: type[Object], namespace: str, prefix: str) -> str:
        """The prefix and five characters; never a name that is taken."""
        entity = f"{kind.PLURAL}/{namespace}/{prefix}"
        while True:
            count = self._generated.get(entity, 0)
            self._generated[entity] = count + 1
            random = stream(self._seed, f"{entity}/{count}", "name")
            name = prefix[:_LONGEST_PREFIX] + "".join(random.choice(_ALPHABET) for _ in range(5))
            if (namespace, name) not in self._store.table(kind).records:
                return name

    def uid(self, kind: type[Object], key: Key) -> str:
        """A version 4 UUID for the n-th object of that name."""
        count = self._births.get((kind.PLURAL, key), 0)
        self._births[kind.PLURAL, key] = count + 1
        text = f"{self._seed}\0{kind.PLURAL}/{key[0]}/{key[1]}/{count}"
        digits = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        variant = "89ab"[int(digits[16], 16) % 4]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
