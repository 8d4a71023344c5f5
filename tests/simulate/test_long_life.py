"""What a controller keeps of objects of every kind that came and went: nothing, but for stated bounds."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import pytest

from dovetail.api.core import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import CSINode, DaemonSet, PodDisruptionBudget, StorageClass
from dovetail.base.clock import HOUR
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.census import Find, census, leftovers, words
from dovetail.testing.life import START, Course, Life

pytestmark = pytest.mark.long

BUSY = Course(
    waves=24,
    wave=16,
    lasts=HOUR // 2,
    deployments=1,
    replicas=6,
    rollouts=12,
    interruptions=12,
    guests=24,
    stay=HOUR,
    policy="WhenEmptyOrUnderutilized",
)
HOURS = 6
# Events and remembered answers fill up to bounds of their own; all else is as large as the cluster.
FILLING = ("events", "remembered answers")

# Every kind that is watched.
KINDS: tuple[type[Object], ...] = (
    *(Pod, Node, NodeClaim, NodePool, EC2NodeClass, PodDisruptionBudget, DaemonSet, Namespace),
    *(PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode),
)

# Where names of what is gone may be, how many of them at most, and what ends it.
BOUNDS = {
    "events: Recorder.": 10_000,  # thrown away an hour after the last such event, once there are so many
    "watched objects: Informer._gone": 500,  # ten minutes of deletions: late events bring nothing back
    "provider: Fleets._asked": 20_000,  # who asked for a launch, so that none is made twice
    "figures: Reconciler._heap": 64,  # instants of each queue that were given up
    "controllers: Ledger._entries": 50,  # moves of the last 24 hours, by pool
    "remembered answers: ": 4_096,  # pure functions forget what was asked longest ago, or all, when full
    # The last question, answer, command or change stays until the next one.
    "controllers: KnownNodes._known": 200,
    "watched objects: Promises._vacant": 50,
    "watched objects: DaemonPods._": 10,  # the newest pod of each DaemonSet: the next will be like it
    "watched objects: Exchange._had": 128,  # names of machines with places that pods left or took, the latest
    "controllers: Leftover._last": 200,
    "controllers: Offers._known": 10,
    "controllers: Memory._": 50,
    "controllers: Rescheduling._": 50,
    "controllers: Question.": 50,
    "controllers: Efficiency._known": 50,
    "controllers: Remarks._said": 50,
    "controllers: ProvisioningMetrics._decided": 50,
    "controllers: NodeView.": 50,
    "controllers: WatchEvent.": 50,
    "controllers: Command.": 50,
    "controllers: Move.": 50,
    "controllers: ExistingNode.": 200,
    "controllers: TaskGroup._tasks": 20,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Censuses of the busy hours, and when all was over; what was left then; names of tasks; what is gone."""

    censuses: list[dict[str, int]]
    left: list[Find]
    tasks: list[str]
    exposition: str
    gone: Mapping[str, str]
    deleted: Counter[type[Object]]


@pytest.fixture(scope="module")
def ended() -> Ended:
    """Played in a process of its own: what other tests left in caches would count here."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_played).result()


def _played() -> Ended:
    async def play(clock: VirtualClock) -> Ended:
        life = Life(clock, BUSY)
        await life.start()
        censuses = []
        for _ in range(HOURS):
            await clock.sleep(HOUR)
            censuses.append(census(life.owners()))
        await life.end()
        await clock.sleep(HOUR)
        await life.scrape()  # figures forget what is gone when they are made
        text = life.metrics.exposition().decode()
        tasks = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
        assert (life.count(Pod), life.count(Node), life.count(NodeClaim)) == (0, 0, 0)
        censuses.append(census(life.owners()))
        left = leftovers(life.owners(), life.gone)
        return Ended(censuses, left, tasks, text, life.gone, life.deleted)

    return run_virtual(play, start=START)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_nothing_holds_what_is_gone(ended: Ended, kind: type[Object]) -> None:
    def ends(item: Find) -> bool:
        return any(item.place.startswith(name) and item.count <= most for name, most in BOUNDS.items())

    assert ended.deleted[kind] > 1
    assert [item for item in ended.left if item.kind == kind.KIND and not ends(item)] == []


def test_no_task_is_about_what_is_gone(ended: Ended) -> None:
    assert [name for name in ended.tasks if not ended.gone.keys().isdisjoint(words(name))] == []


def test_no_metric_series_is_about_what_is_gone(ended: Ended) -> None:
    lines = ended.exposition.splitlines()
    assert [line for line in lines if not ended.gone.keys().isdisjoint(words(line))] == []


def test_memory_is_flat(ended: Ended) -> None:
    sizes = [sum(size for owner, size in one.items() if owner not in FILLING) for one in ended.censuses]
    *busy, over = sizes
    assert max(busy[HOURS // 2 :]) < max(busy[: HOURS // 2]) + 150_000, ended.censuses
    assert over < max(busy[: HOURS // 2]), ended.censuses
    filled = [sum(one[owner] for owner in FILLING) for one in ended.censuses]
    assert filled[-1] - filled[HOURS // 2] < 2_000_000, ended.censuses


def test_a_leak_is_found() -> None:
    """The census itself: a name in a dict, in a closure, in the locals of a task, in a remembered answer."""

    class Keeper:
        def __init__(self) -> None:
            self.seen = {"default/web-1": 1}
            self.call = functools.partial(str, "uid-2")

    async def main(_: VirtualClock) -> list[Find]:
        async def waiting(name: str) -> None:
            await asyncio.Event().wait()
            print(name)

        task = asyncio.get_running_loop().create_task(waiting("web-3"))
        await asyncio.sleep(0)
        found = leftovers(
            {"here": [Keeper()], "tasks": [task]}, dict.fromkeys(("web-1", "uid-2", "web-3"), "Pod")
        )
        task.cancel()
        return found

    found = run_virtual(main)
    assert sorted(item.example for item in found) == ["uid-2", "web-1", "web-3"]
    assert "here: Keeper.seen" in [item.place for item in found]
