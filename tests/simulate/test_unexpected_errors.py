"""A bug in one of the controller's parts costs what it is about: everything else is served and cleaned up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from operated import START, Operated, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers.disruption.podevents import PodEvents
from dovetail.controllers.nodeclaim.collect import ClaimCollection
from dovetail.controllers.panics import PANICS
from dovetail.controllers.provisioning.trigger import PodTrigger
from dovetail.runtime.operator import Ports
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class


class World(Operated):
    def ports(self) -> Ports:
        return replace(super().ports(), forgiving=True)


@dataclass
class Bug:
    """Raises in a method of a controller, whenever that is about what is bad; notes at which instants."""

    about: Callable[[tuple[Any, ...]], bool]
    at: list[int]

    def plant(self, clock: VirtualClock, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        known = getattr(owner, name)

        def raising(*arguments: Any) -> Any:
            if self.about(arguments[1:]):
                self.at.append(clock.now())
                raise RuntimeError("a bug")
            return known(*arguments)

        raising.__qualname__ = known.__qualname__
        patch.setattr(owner, name, raising)


def of_bad_pods(arguments: tuple[Any, ...]) -> bool:
    return any(isinstance(item, Pod) and item.metadata.name == "bad" for item in arguments)


@pytest.mark.parametrize(
    ("owner", "name", "about", "controller", "key", "what"),
    [
        (PodEvents, "notice", of_bad_pods, "PodEvents.notice", "default/bad", "Pod default/bad"),
        (PodTrigger, "notice", of_bad_pods, "PodTrigger.notice", "default/bad", "Pod default/bad"),
        (ClaimCollection, "run", lambda _: True, "nodeclaim.garbagecollection", "", ""),
    ],
    ids=["one that watches changes", "one that starts plans", "a loop"],
)
def test_a_bug_costs_what_it_is_about(
    owner: type,
    name: str,
    about: Callable[[tuple[Any, ...]], bool],
    controller: str,
    key: str,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug = Bug(about, [])

    async def main(clock: VirtualClock) -> World:
        bug.plant(clock, monkeypatch, owner, name)
        world = World(clock)
        world.start()
        # 1 vCPU each, on nodes of 2 vCPU: the later ones find no room beside the first.
        world.create(node_class(), pool(), pod("bad"), *(pod(f"web-{number}") for number in range(4)))
        await clock.sleep(4 * MINUTE)
        world.create(*(pod(f"late-{number}") for number in range(4)))
        await clock.sleep(6 * MINUTE)
        for number in range(4):
            world.server.delete(Pod, f"late-{number}", "default")
        await clock.sleep(10 * MINUTE)
        return world

    world = run_virtual(main, start=START)
    bound = {str(record["pod"]) for record in world.records("pod.bound")}
    assert bound >= {f"default/{kind}-{number}" for kind in ("web", "late") for number in range(4)}
    nodes = [node.metadata.name for node in world.state.all(Node)]
    assert all(world.state.pods_on(node) for node in nodes), "what became empty is gone"
    (event,) = world.records("reconcile.panicked")  # once, however often it is tried
    assert (event["controller"], event["key"], event["object"]) == (controller, key, what)
    assert event["message"] == "RuntimeError: a bug"
    assert "raising" in str(event["stack"])
    assert bug.at and world.metrics.value(PANICS, controller=controller) == len(bug.at)
    text = f"{controller} failed, and tries again later: RuntimeError: a bug"
    assert world.messages("UnexpectedError") == ([text] if what else [])
    if not what:
        pauses = [(after - before) // SECOND for before, after in pairwise(bug.at)]
        assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
