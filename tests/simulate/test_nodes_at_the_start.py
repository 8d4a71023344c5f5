"""Nodes that are older than what is played."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.simulate import write_standing
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load


def test_they_end_as_others_do(tmp_path: Path) -> None:
    # Their claims were taken for ones whose definition had been deleted and made anew: none of them went.
    write_standing(tmp_path, 100, 3)
    kinds = Counter(str(record["kind"]) for record in simulate(load(tmp_path)).records)
    assert kinds["disrupted"] == kinds["claim.deleted"] == kinds["instance.terminated"] > 0
    assert not kinds["deletion.guarded"] and not kinds["violation"]
