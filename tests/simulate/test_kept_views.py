"""Views of machines are kept from one turn of disruption to the next: they are what a fresh look sees."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from dovetail.controllers.disruption import views
from dovetail.disrupt.candidates import NodeView
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load


@pytest.mark.parametrize("example", ["faults-pools", "shrink", "zones"])
def test_kept_views_are_as_fresh_ones(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, looks = views.Views.now, []

    def now(self: views.Views, queued: Collection[str]) -> tuple[NodeView, ...]:
        found = kept(self, queued)
        assert found == views.node_views(self._context, queued)
        looks.append(len(found))
        return found

    monkeypatch.setattr(views.Views, "now", now)
    result = simulate(load(Path("examples") / example))
    assert not [record for record in result.records if record["kind"] in ("violation", "reconcile.failed")]
    assert len(looks) > 5
    assert max(looks) > 1
