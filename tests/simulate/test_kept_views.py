"""Views of machines are kept from one turn of disruption to the next: they are what a fresh look sees."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
import test_capacity_buffers

from dovetail.controllers.disruption import views
from dovetail.controllers.disruption.moves import same_but_moves
from dovetail.disrupt.candidates import NodeView
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load


@pytest.fixture(name="looks")
def looks_beside_fresh_ones(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many views each look has; each is held against a fresh one."""
    kept, looks = views.Views.now, list[int]()

    def now(self: views.Views, queued: Collection[str]) -> tuple[NodeView, ...]:
        found = kept(self, queued)
        fresh = views.node_views(self._context, queued)
        for old, new in zip(found, fresh, strict=True):
            assert old.pool is new.pool or same_but_moves(old.pool, new.pool)
            assert old == replace(new, pool=old.pool)
        looks.append(len(found))
        return found

    monkeypatch.setattr(views.Views, "now", now)
    return looks


@pytest.mark.parametrize("example", ["faults-pools", "shrink", "zones"])
def test_kept_views_are_as_fresh_ones(example: str, looks: list[int]) -> None:
    result = simulate(load(Path("examples") / example))
    assert not [record for record in result.records if record["kind"] in ("violation", "reconcile.failed")]
    assert len(looks) > 5
    assert max(looks) > 1


def test_so_are_those_of_nodes_with_virtual_pods(looks: list[int]) -> None:
    test_capacity_buffers.test_the_room_that_pods_leave_is_the_buffers_again()
    assert len(looks) > 5
