"""When Python looks for objects that only refer to each other."""

from __future__ import annotations

import gc
import weakref

from dovetail.base.collector import collect_if_due


class _Ring:
    """Refers to itself, so that nothing but the collector frees it."""

    def __init__(self) -> None:
        self.me = self


def test_old_rings_go_while_nothing_waits_once_it_is_due() -> None:
    gc.collect()
    ring = _Ring()
    known = weakref.ref(ring)
    gc.collect(1)  # it is an old object now
    del ring
    collect_if_due()
    assert known() is not None
    for _ in range(5):
        gc.collect(1)
    collect_if_due()
    assert known() is None
