"""What a controller keeps of pods, nodes and claims that came and went: nothing, but for stated bounds."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass

import pytest

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR
from dovetail.simulate.clock import VirtualClock, run_virtual
from dovetail.testing.census import Find, census, leftovers, words
from dovetail.testing.life import START, Course, Life

BUSY = Course(
    waves=24,
    wave=16,
    lasts=HOUR // 2,
    deployments=1,
    replicas=6,
    rollouts=12,
    interruptions=12,
    policy="WhenEmptyOrUnderutilized",
)
HOURS = 5

# Who may know names of what is gone, how many of them at most, and what ends it.
BOUNDS = {
    "events: Recorder.": 10_000,  # thrown away an hour after the last such event, once there are so many
    "watched objects: Informer._gone": 10_000,  # versions of deletions: late events bring nothing back
    "controllers: EvictionQueue._gone": 10_000,  # so that a pod counts once as evicted
    "controllers: Context.ended": 10_000,  # and a claim as ended
    "remembered answers: ": 50_000,  # pure functions forget what was asked longest ago, or all, when full
    # The last question, answer, command or change stays until the next one.
    "controllers: Intake._nodes": 200,
    "controllers: Memory._": 50,
    "controllers: NodeView.": 50,
    "controllers: WatchEvent.": 50,
    "controllers: Command.": 50,
    "controllers: ExistingNode.": 200,
    "controllers: Leftover._last": 200,
    "controllers: TaskGroup._tasks": 20,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Censuses of the busy hours; what was left when all of it was over; names of tasks; what is gone."""

    censuses: list[dict[str, int]]
    left: list[Find]
    tasks: list[str]
    exposition: str
    gone: frozenset[str]


@pytest.fixture(scope="module")
def ended() -> Ended:
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
        assert life.deleted[Node] > 10 and life.deleted[Pod] > 100
        gone = frozenset(life.gone)
        return Ended(censuses, leftovers(life.owners(), gone), tasks, text, gone)

    return run_virtual(play, start=START)


def test_nothing_holds_what_is_gone(ended: Ended) -> None:
    def ends(item: Find) -> bool:
        return any(item.place.startswith(name) and item.count <= most for name, most in BOUNDS.items())

    assert [item for item in ended.left if not ends(item)] == []


def test_no_task_is_about_what_is_gone(ended: Ended) -> None:
    assert [name for name in ended.tasks if not ended.gone.isdisjoint(words(name))] == []


def test_no_metric_series_is_about_what_is_gone(ended: Ended) -> None:
    assert [line for line in ended.exposition.splitlines() if not ended.gone.isdisjoint(words(line))] == []


def test_an_hour_of_comings_and_goings_leaves_nothing_behind(ended: Ended) -> None:
    """Events and remembered answers fill up to their bounds first; the rest is as large as the cluster."""
    sizes = [
        {owner: size for owner, size in taken.items() if owner not in ("events", "remembered answers")}
        for taken in ended.censuses
    ]
    assert sum(sizes[-1].values()) - sum(sizes[1].values()) < 300_000, sizes


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
        found = leftovers({"here": [Keeper()], "tasks": [task]}, frozenset({"web-1", "uid-2", "web-3"}))
        task.cancel()
        return found

    found = run_virtual(main)
    assert sorted(item.example for item in found) == ["uid-2", "web-1", "web-3"]
    assert "here: Keeper.seen" in [item.place for item in found]
