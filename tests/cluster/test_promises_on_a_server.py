"""Promises held on the real control plane: hostile objects, and a controller killed at random moments.

DOVETAIL_SEEDS says which seeds ("1-20", or "7"). A failure names the seed, what was broken, and how to look
at it again.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dovetail.simulate.live import history
from dovetail.simulate.live.judge import judge
from tests.cluster.fire import Fire
from tests.cluster.world import World


def seeds() -> range:
    first, _, last = os.environ.get("DOVETAIL_SEEDS", "1-2").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_under_fire(world: World, seed: int, tmp_path: Path) -> None:
    fire = Fire(world, seed)
    entries = fire.perform()
    kept = tmp_path / f"history-{seed}.jsonl"
    history.write(kept, entries)
    verdict = judge(entries)
    print(
        f"seed {seed}: {len(entries)} entries, {verdict.checks} checks, {len(verdict.violations)} violations"
    )
    broken = [f"{one.rule}: {one.subject} {one.message}" for one in verdict.violations]
    assert not broken, "\n".join(
        (
            f"seed {seed} broke {len(broken)} promises:",
            *broken,
            "what was done:",
            *fire.notes,
            f"play it again:  make test-promises FIRST={seed} SEEDS=1",
            f"judge it again: python -m dovetail.simulate.live.judge {kept}",
        )
    )
    assert verdict.checks > 500
