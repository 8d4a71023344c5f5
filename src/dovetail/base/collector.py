"""How often Python looks for objects that refer only to each other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 50_000
_DUE = 5  # looks at objects that are no longer new; after ten Python looks at all that there are


def collect_seldom() -> None:
    """For processes that plan: they hold many objects for long and leave few such cycles behind.

    Python would look after every 700 new objects, which takes a tenth of a large plan's time. What nothing
    refers to is freed at once, as ever. Processes call this once, when they start.
    """
    gc.set_threshold(_OBJECTS, 10, 10)


def collect_if_due() -> None:
    """For moments in which nothing waits: look at all objects now if Python would before long.

    That takes 0.1 s and more in a process that has planned for a while: too much in the middle of a plan.
    """
    if gc.get_count()[2] >= _DUE:
        gc.collect()


@contextmanager
def uncollected() -> Iterator[None]:
    """For making many objects that stay and have no cycles: Python does not look at them, then or later.

    Reading 20,000 objects (232 MB of JSON) takes 4.3 s of processor time instead of 5.9, the rest of which
    was looking over and over at what had been read before; with Python's own thresholds 8.9 s. For processes
    that answer one question: whatever else is there meanwhile is never looked at again either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
