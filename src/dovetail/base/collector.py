"""How often Python looks for objects that refer only to each other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 50_000
_MANY = 6 * _OBJECTS  # new objects: what a question of 50,000 pods leaves behind where cycles hold it


def collect_seldom() -> None:
    """For processes that plan: they hold many objects for long and leave few such cycles behind.

    Python would look after every 700 new objects, which takes a tenth of a large plan's time. What nothing
    refers to is freed at once, as ever. Processes call this once, when they start.
    """
    gc.set_threshold(_OBJECTS, 10, 10)


def collect_between() -> None:
    """For processes that answer one question after the other: Python looks at no objects by itself any more,
    and at all of them in `collect_if_due`.

    In the middle of a first plan of 50,000 pods it looked for 0.35 s of processor time, of 3.0 in all. Four
    seconds of a solve leave 8,000 to 40,000 objects behind that only refer to each other.
    """
    gc.disable()


def collect_if_due(*, idle: bool) -> None:
    """Between two questions, of which the second is not there yet where it is `idle`: look at all objects if
    that is worth its 0.1 s and more."""
    if gc.get_count()[0] >= (_OBJECTS if idle else _MANY):
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
