"""When Python looks for objects that only refer to each other."""

from __future__ import annotations

import gc
import weakref

import pytest

from dovetail.base.collector import collect_between, collect_if_due


class _Ring:
    """Refers to itself, so that nothing but the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(("idle", "objects"), [(True, 50_000), (False, 300_000)])
def test_rings_go_between_questions_once_it_is_due(idle: bool, objects: int) -> None:
    enabled = gc.isenabled()
    try:
        collect_between()
        gc.collect()
        ring = _Ring()
        known = weakref.ref(ring)
        del ring
        collect_if_due(idle=idle)
        assert known() is not None
        held = [_Ring() for _ in range(objects)]
        assert known() is not None
        collect_if_due(idle=idle)
        assert known() is None
        del held
        gc.collect()
    finally:
        if enabled:
            gc.enable()
