"""Working out once what follows from a frozen object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_identity(size: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Remember what a pure function of one frozen object answered for that very object.

    For objects that live for long and are asked about again and again, and that hold dicts: those have no
    hash, and to compare them would cost as much as the work. A remembered object is kept alive, so that no
    other one can have its id; there are `size` of them at most, then all are forgotten. What is answered is
    shared: it must not be changed either.
    """

    def decorate(work: Callable[[K], V]) -> Callable[[K], V]:
        known: dict[int, tuple[K, V]] = {}

        @wraps(work)
        def recall(subject: K) -> Any:
            found = known.get(id(subject))
            if found is None:
                if len(known) >= size:
                    known.clear()
                found = known[id(subject)] = (subject, work(subject))
            return found[1]

        return recall

    return decorate
