"""How often Python looks for objects that refer only to each other."""

from __future__ import annotations

import gc

_OBJECTS = 50_000
_DUE = 5  # looks at objects that are no longer new; after ten Python looks at all that there are


def collect_seldom() -> None:
    """For processes that plan: they hold many objects for long and leave few such cycles behind.

    Python would look after every 700 new objects, which takes a tenth of a large plan's time. What nothing
    refers to is freed at once, as ever. Processes call this once, when they start; libraries never do.
    """
    gc.set_threshold(_OBJECTS, 10, 10)


def collect_if_due() -> None:
    """For moments in which nothing waits: look at all objects now if Python would before long.

    That takes 0.1 s and more in a process that has planned for a while: too much in the middle of a plan.
    """
    if gc.get_count()[2] >= _DUE:
        gc.collect()
