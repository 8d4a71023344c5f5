"""Patches of a server elsewhere take their time."""

from __future__ import annotations

import pytest

from dovetail.api.core import Node
from dovetail.base.clock import SECOND
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.slow import SlowClient
from dovetail.simulate.time.clock import VirtualClock, run_virtual

MEAN = 20_000_000


def times(mean: int, seed: int, user: str = "karpenter") -> list[int]:
    """How long each of some patches takes in virtual time; all have their effect."""

    async def main(clock: VirtualClock) -> list[int]:
        server = MemoryServer(clock)
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        client, found = SlowClient(server, user, mean=mean, seed=seed), list[int]()
        for number in range(8):
            begun = clock.monotonic()
            value = str(number)
            patched = await client.patch(Node, "n1", merge={"metadata": {"labels": {"number": value}}})
            assert patched.metadata.labels == {"number": value}
            found.append(clock.monotonic() - begun)
        return found

    return run_virtual(main, start=SECOND)


def test_they_take_half_to_one_and_a_half_of_the_mean() -> None:
    found = times(MEAN, 1)
    assert all(MEAN // 2 <= one <= MEAN * 3 // 2 for one in found)
    assert len(set(found)) > 1


def test_draws_are_of_the_seed_and_of_who_asks() -> None:
    assert times(MEAN, 1) == times(MEAN, 1)
    assert times(MEAN, 1) != times(MEAN, 2)
    assert times(MEAN, 1) != times(MEAN, 1, "scheduler")


@pytest.mark.parametrize("seed", [1, 2])
def test_without_a_mean_they_take_none(seed: int) -> None:
    assert times(0, seed) == [0] * 8
