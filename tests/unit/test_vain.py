"""Which pods rest because nodes came up for them in vain, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from test_order import claim as planned
from test_what_ends import tools

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers.provisioning.vain import Vain
from dovetail.simulate.time.clock import VirtualClock, run_virtual


def pod(name: str = "a", node: str = "") -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"},
        "spec": {"nodeName": node or None},
    }
    return decode(document, Pod)


def claim(name: str, initialized: str = "True") -> NodeClaim:
    reference = {"group": "g", "kind": "K", "name": "n"}
    conditions = [{"type": "Initialized", "status": initialized}]
    document = {
        "metadata": {"name": name},
        "spec": {"nodeClassRef": reference},
        "status": {"conditions": conditions},
    }
    return decode(document, NodeClaim)


def played(script: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        context = tools(clock)
        context.state.apply("ADDED", pod())
        await script(Vain(context), context.state, clock)

    run_virtual(main)


def buy(vain: Vain, state: Any, name: str, initialized: str = "True") -> None:
    vain.bought([(name, planned("x-a", "z-a", "a"))])
    state.apply("ADDED", claim(name, initialized))


def test_a_pod_rests_from_the_third_node_on_twice_as_long_each_time() -> None:
    async def script(vain: Vain, state: Any, clock: VirtualClock) -> None:
        rests = []
        for number in range(12):
            buy(vain, state, f"c-{number}")
            pods, resting = vain.look([pod()])
            rests.append(resting[0].left // MINUTE if resting else 0)
            assert bool(pods) is not bool(resting)
            await clock.sleep(resting[0].left if resting else SECOND)
            assert vain.look([pod()]) == ([pod()], [])
        assert rests == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]

    played(script)


@pytest.mark.parametrize("initialized", ["Unknown", "False"])
def test_a_node_that_did_not_come_up_does_not_count(initialized: str) -> None:
    async def script(vain: Vain, state: Any, _clock: VirtualClock) -> None:
        for number in range(9):
            buy(vain, state, f"c-{number}", initialized)
            assert vain.look([pod()]) == ([pod()], [])
        vain.bought([("never-created", planned("x-a", "z-a", "a"))])
        assert vain.look([pod()]) == ([pod()], [])

    played(script)


def test_a_node_counts_once_however_often_the_pod_is_looked_at() -> None:
    async def script(vain: Vain, state: Any, _clock: VirtualClock) -> None:
        for number in range(2):
            buy(vain, state, f"c-{number}")
            for _ in range(5):
                assert vain.look([pod()]) == ([pod()], [])

    played(script)


@pytest.mark.parametrize("end", ["bound", "gone"])
def test_a_pod_that_is_bound_or_gone_is_forgotten(end: str) -> None:
    async def script(vain: Vain, state: Any, _clock: VirtualClock) -> None:
        for number in range(3):
            buy(vain, state, f"c-{number}")
            vain.look([pod()])
        assert vain.look([pod()])[1]
        if end == "bound":
            state.apply("MODIFIED", pod(node="n"))
        else:
            state.apply("DELETED", pod())
        assert vain.look([pod()]) == ([pod()], [])
        vain.bought([("c-9", planned("x-a", "z-a", "a"))])  # while the plan was made it went
        assert vain.look([pod()]) == ([pod()], [])

    played(script)


def test_the_event_says_how_many_nodes_and_when_it_goes_on() -> None:
    async def script(vain: Vain, state: Any, clock: VirtualClock) -> None:
        for number in range(3):
            buy(vain, state, f"c-{number}")
            vain.look([pod()])
        await clock.sleep(SECOND // 2)
        (resting,) = vain.look([pod(), pod("other")])[1]
        assert resting.message == (
            "3 nodes came up for it and the scheduler put it on none of them; it is planned again in 60 s"
        )

    played(script)
