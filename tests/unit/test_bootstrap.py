"""Pods that must be near each other: which node opens first, and which wait for it."""

from __future__ import annotations

from typing import Any

import pytest
from still_clock import StillClock

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import Machine
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.bootstrap import LONGEST, Bootstrap, near_itself
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.labels import HOSTNAME, ZONE


def near(app: str, key: str = ZONE) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def read(name: str, cpu: int = 1, **spec: Any) -> Pod:
    """What it is named before the dash is its label, and what made it."""
    app = name.split("-")[0]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"app": app},
        "ownerReferences": [owner],
    }
    return decode({"metadata": meta, "spec": {"containers": [container], **spec}}, Pod)


class World:
    """Nodes of some CPUs in zones, all of which are held; pods that have places there."""

    def __init__(self) -> None:
        self.state = State(MemoryServer(StillClock()).client(), StillClock())
        self.bootstrap = Bootstrap(self.state)
        self.state.on_promise(self._placed)
        self.closed: set[str] = set()
        self.open: set[str] = set()

    def _placed(self, key: str) -> None:
        pod = self.state.get(Pod, key)
        assert pod is not None
        self.bootstrap.placed(pod)

    def node(self, name: str, zone: str, cpu: int = 2) -> None:
        document = {
            "metadata": {"name": name, "labels": {ZONE: zone}},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "99"}},
        }
        self.state.apply("ADDED", decode(document, Node))

    def pod(self, name: str, place: str, cpu: int = 1, **spec: Any) -> None:
        pod = read(name, cpu, **spec)
        self.state.apply("ADDED", pod)
        self.state.promise(pod, place)

    def bind(self, name: str, node: str, **spec: Any) -> bool:
        pod = read(name, **spec, nodeName=node)
        self.state.apply("MODIFIED", pod)
        return self.bootstrap.bound(pod)

    def look(self, now: int = 0) -> tuple[set[str], set[str]]:
        """The nodes that open first, and those that wait for others."""
        nodes = {node.metadata.name: node for node in self.state.all(Node)}
        self.bootstrap.look(nodes.keys() - self.open, self.closed, now)
        ready = nodes.keys() - self.closed - self.open
        kept = {name for name in ready if self.bootstrap.keeps(Machine(nodes[name], None))}
        return set(self.bootstrap.first()), kept


def three(app: str = "db", **rule: Any) -> World:
    """Two nodes in one zone with places for one and two pods of a Deployment, one in another with room."""
    world = World()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        world.node(name, zone)
    for name, place in (("db-1", "n1"), ("db-2", "n2"), ("db-3", "n2"), ("web-1", "n3")):
        world.pod(name, place, **(rule or near(app)) if name.startswith("db") else {})
    return world


def test_the_node_with_the_most_of_them_opens_first_and_others_with_room_elsewhere_wait() -> None:
    world = three()
    assert world.look() == ({"n2"}, {"n3"})
    world.closed = {"n3"}
    assert world.look() == (set(), set())


def test_no_node_waits_once_one_of_them_is_bound() -> None:
    world = three()
    world.look()
    assert not world.bind("web-1", "n3")
    assert world.bind("db-1", "n3", **near("db"))
    assert world.look() == (set(), set())
    world.pod("db-4", "n1", **near("db"))  # one is there
    assert world.look() == (set(), set())


def test_a_node_that_is_not_up_is_waited_for() -> None:
    world = three()
    world.closed = {"n1", "n2"}
    assert world.look() == (set(), {"n3"})
    world.closed = {"n2"}
    assert world.look() == ({"n1"}, {"n3"})


def test_once_one_is_open_no_other_opens_before_its_time_and_the_wait_ends() -> None:
    world = three()
    world.look()
    world.open = {"n2"}
    assert world.look(now=SECOND) == (set(), {"n3"})
    assert world.look(now=SECOND + LONGEST) == (set(), set())


def test_no_node_opens_early_where_the_first_fits_nowhere_else() -> None:
    world = three()
    world.pod("web-2", "n3")
    assert world.look() == (set(), set())


def test_nodes_to_which_the_first_of_each_other_may_go_open_together() -> None:
    world = three()
    world.pod("job-1", "n3", 0, **near("job"))
    assert world.look() == ({"n2", "n3"}, {"n1", "n2", "n3"})
    world.closed = {"n1", "n2"}
    assert world.look() == (set(), {"n3"})


def test_pods_that_are_gone_are_forgotten() -> None:
    world = three()
    world.look()
    for name in ("db-1", "db-2", "db-3"):
        world.state.apply("DELETED", read(name))
    assert world.look() == (set(), set())


@pytest.mark.parametrize(
    ("rule", "answer"),
    [({}, False), (near("db"), True), (near("db", HOSTNAME), True), (near("web"), False)],
)
def test_the_first_of_pods_that_are_drawn_to_others_is_no_matter(rule: dict[str, Any], answer: bool) -> None:
    assert near_itself(read("db-1", **rule)) == answer


def test_those_of_one_node_keep_all_others_with_room() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.node(name, "a")
    world.pod("db-1", "n1", **near("db", HOSTNAME))
    assert world.look() == ({"n1"}, {"n2"})
