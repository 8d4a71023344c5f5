"""Which places hold of pods that lost their room, while the scheduler is at work on others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.cluster.promises import BINDING
from dovetail.cluster.state import State
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.intake import Intake
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.problem import Options
from dovetail.simulate.time.clock import VirtualClock, run_virtual

START = 1_772_409_600 * SECOND


def pod(name: str, **spec: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [made]}
    return decode({"metadata": meta, "spec": {"containers": [container], **spec}}, Pod)


def test_a_place_without_room_is_kept_while_pods_with_places_are_bound() -> None:
    async def main(clock: VirtualClock) -> None:
        state = State(MemoryServer(clock).client(), clock)
        intake = Intake(cast("Context", SimpleNamespace(state=state)), Options())
        document = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "6", "pods": "9"}}}
        state.apply("ADDED", decode(document, Node))
        for name in ("a", "b", "c", "d"):
            state.apply("ADDED", pod(name))
            state.promise(pod(name), "n1")
        roomy = {"default/a": "n1", "default/b": "n1", "default/c": "n1"}
        assert intake.places() == roomy
        assert intake.crowded() == {}  # none was bound yet
        state.apply("MODIFIED", pod("a", nodeName="n1"))
        assert list(intake.crowded().items()) == [("default/d", "n1")]
        await clock.sleep(BINDING)
        assert intake.crowded() == {}
        for name in ("b", "c"):
            state.apply("MODIFIED", pod(name, nodeName="n1"))
        assert intake.crowded() == intake.places() == {}  # no other waits for its place

    run_virtual(main, start=START)


def test_what_moves_to_a_place_that_is_kept_has_its_room_there_and_is_in_no_plan() -> None:
    async def main(clock: VirtualClock) -> None:
        state = State(MemoryServer(clock).client(), clock)
        brakes = SimpleNamespace(keeps=lambda _: False)
        context = SimpleNamespace(state=state, clock=clock, brakes=brakes, surges=None)
        intake = Intake(cast("Context", context), Options())
        for name in ("n1", "n2"):
            document = {
                "metadata": {"name": name},
                "spec": {
                    "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}][: name == "n1"]
                },
                "status": {"allocatable": {"cpu": "6", "pods": "9"}},
            }
            state.apply("ADDED", decode(document, Node))
        for name in ("a", "b", "c", "d"):
            state.apply("ADDED", pod(name, nodeName="n1"))
            state.promise(pod(name, nodeName="n1"), "n2", kept=name != "a")
        assert list(state.kept_places()) == []  # n1 stays
        state.mark(["n1"])
        assert [one.key for one, _ in state.kept_places()] == ["default/b", "default/c", "default/d"]
        assert [one.key for one in intake.moving()] == ["default/a"]
        state.apply("ADDED", pod("other", nodeName="n2"))  # which took room of theirs
        assert [one.key for one in intake.moving()] == ["default/a", "default/d"]
        state.apply("DELETED", pod("b", nodeName="n1"))
        assert [one.key for one, _ in state.kept_places()] == ["default/c", "default/d"]
        state.mark(["n2"])
        assert list(state.kept_places()) == []
        state.check()

    run_virtual(main, start=START)
