"""Who gets the place that a pod left, which went elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from still_clock import StillClock

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.cluster.nodes import Machine
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.exchange import Exchange, Moment, in_zone_first, zone_of
from dovetail.controllers.provisioning.passing import Crowd, passed_on
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.labels import HOSTNAME, ZONE

SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ]
}
NEAR = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": {}}]
        }
    }
}
APART = {"topologySpreadConstraints": [{**SPREAD["topologySpreadConstraints"][0], "topologyKey": HOSTNAME}]}
VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
GPU = {"key": "gpu", "effect": "NoSchedule"}


class World:
    """Nodes of some CPUs in zones, and pods that have places there."""

    def __init__(self) -> None:
        self.state = State(MemoryServer(StillClock()).client(), StillClock())
        self.time = 0
        self.exchange = Exchange(self.state, lambda: self.time)

    def node(self, name: str, cpu: int, zone: str = "a", *taints: dict[str, str], **labels: str) -> None:
        document: dict[str, Any] = {
            "metadata": {"name": name, "labels": {ZONE: zone, **labels}},
            "spec": {"taints": list(taints)},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "99"}},
        }
        self.state.apply("ADDED", decode(document, Node))

    def pod(self, name: str, cpu: int, place: str, **spec: Any) -> None:
        """It waits; what it is named before the dash is what made it."""
        pod = self._read(name, cpu, spec)
        self.state.apply("ADDED", pod)
        self.state.promise(pod, place)

    def bind(self, name: str, cpu: int, node: str, **spec: Any) -> None:
        self.state.apply("MODIFIED", self._read(name, cpu, {**spec, "nodeName": node}))

    def _read(self, name: str, cpu: int, spec: dict[str, Any]) -> Pod:
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

    def places(self) -> dict[str, str]:
        waiting = [pod for pod in self.state.all(Pod) if not pod.spec.node_name]
        return {pod.metadata.name: place.name for pod, place in self.state.places(waiting)}


def crowd(**spec: Any) -> World:
    """`big` fills one node and `small` and `tiny` the other; another small one went to the first."""
    world = World()
    world.node("n1", 4)
    world.node("n2", 4)
    world.pod("big-1", 4, "n1", **spec)
    world.pod("small-1", 2, "n2")
    world.pod("tiny-1", 1, "n2")
    world.pod("tiny-2", 1, "n2")
    return world


def test_what_went_to_the_place_of_its_like_leaves_it_its_own() -> None:
    world = World()
    world.node("n1", 2)
    world.node("n2", 2, "b")
    for name in ("web-1", "web-2"):
        world.pod(name, 1, "n1", **SPREAD, **VOLUME)
    for name in ("job-1", "job-2"):
        world.pod(name, 1, "n1" if name == "job-1" else "n2", **SPREAD, **NEAR)
    world.bind("job-2", 1, "n1", **SPREAD, **NEAR)
    assert world.places()["job-1"] == "n2"
    world.bind("web-1", 1, "n2", **SPREAD, **VOLUME)  # its volume may be in that zone
    assert world.places()["web-2"] == "n1"


@pytest.mark.parametrize(("app", "bound"), [("middle", False), ("middle", True), ("other", False)])
def test_no_pod_has_a_place_beside_one_that_keeps_it_away(app: str, *, bound: bool) -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    away = {"affinity": rules}
    world = World()
    world.node("n1", 6)
    world.node("n2", 3)
    world.pod("big-1", 4, "n1")
    world.pod("middle-1", 2, "n1")
    world.pod("small-1", 2, "n2")
    world.pod("db-1", 1, "n2", **away)
    if bound:
        world.bind("db-1", 1, "n2", **away)
    world.bind("small-1", 2, "n1")
    assert world.places()["middle-1"] == ("n1" if app == "middle" else "n2")


def test_the_smallest_that_makes_room_has_the_place_that_was_left() -> None:
    world = World()
    world.node("n1", 6)
    world.node("n2", 2)
    for name, cpu in (("big-1", 3), ("middle-1", 2), ("tiny-1", 1)):
        world.pod(name, cpu, "n1")
    world.pod("small-1", 2, "n2")
    world.bind("small-1", 2, "n1")
    assert world.places() == {"big-1": "n1", "middle-1": "n2", "tiny-1": "n1"}


def test_a_large_one_goes_in_exchange_for_small_ones() -> None:
    world = crowd()
    world.bind("small-1", 2, "n1")
    assert world.places() == {"big-1": "n2", "tiny-1": "n1", "tiny-2": "n1"}


@pytest.mark.parametrize("rule", [NEAR, APART, VOLUME, {"nodeSelector": {"disk": "ssd"}}])
def test_one_that_other_rules_place_stays(rule: dict[str, Any]) -> None:
    world = crowd(**rule)
    world.bind("small-1", 2, "n1")
    assert world.places() == {"big-1": "n1", "tiny-1": "n2", "tiny-2": "n2"}


@pytest.mark.parametrize(("disk", "place"), [("ssd", "n2"), ("hdd", "n1")])
def test_one_that_selects_nodes_goes_where_the_labels_are_as_it_asks(disk: str, place: str) -> None:
    world = World()
    world.node("n1", 2, disk="ssd")
    world.node("n2", 2, disk=disk)
    away = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    world.pod("web-1", 2, "n1", nodeSelector={"disk": "ssd"}, affinity=away)
    world.pod("job-1", 2, "n2")
    world.bind("job-1", 2, "n1")
    assert world.places() == {"web-1": place}


@pytest.mark.parametrize(("zone", "taints"), [("b", ()), ("a", (GPU,))])
def test_one_stays_that_the_zone_or_a_taint_keeps_off(zone: str, taints: tuple[dict[str, str], ...]) -> None:
    world = World()
    world.node("n1", 2)
    world.node("n2", 2, zone, *taints)
    world.pod("web-1", 2, "n1", **SPREAD)
    world.pod("job-1", 2, "n2", tolerations=[{"operator": "Exists"}])
    world.bind("job-1", 2, "n1")
    assert world.places() == {"web-1": "n1"}


def test_one_of_its_zone_takes_the_place_that_a_spread_pod_left_in_another() -> None:
    """And its own goes to the one that was crowded out."""
    world = World()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        world.node(name, 1, zone)
    world.pod("web-1", 1, "n3", **SPREAD)
    world.pod("web-2", 1, "n2", **SPREAD)
    world.pod("api-1", 1, "n1", **SPREAD)
    world.bind("web-1", 1, "n1", **SPREAD)
    assert world.places() == {"web-2": "n3", "api-1": "n2"}


def test_where_the_machine_that_was_left_is_of_no_use_another_one_is() -> None:
    world = World()
    for name, cpu in (("n1", 2), ("n2", 1), ("n3", 3)):
        world.node(name, cpu)
    world.pod("web-1", 2, "n1")
    world.pod("small-1", 1, "n2")
    world.pod("tiny-1", 1, "n3")
    world.bind("small-1", 1, "n1")
    assert world.places() == {"web-1": "n3", "tiny-1": "n3"}


def test_what_finds_none_to_change_with_does_when_it_is_refused_later() -> None:
    world = World()
    world.node("n1", 4)
    world.node("n2", 4)
    world.pod("big-1", 4, "n1")
    world.pod("wide-1", 4, "n2")
    world.pod("small-1", 1, "n9")  # whose node went
    world.bind("small-1", 1, "n1")
    assert world.places()["big-1"] == "n1"
    world.node("n3", 5)
    world.pod("tiny-1", 1, "n3")
    world.exchange.lost(next(pod for pod in world.state.all(Pod) if pod.metadata.name == "big-1"))
    assert world.places() == {"big-1": "n3", "wide-1": "n2", "tiny-1": "n3"}


def with_disks() -> World:
    """Two nodes with the disk that web-1 needs, which has its place on the first, and one without."""
    world = World()
    for name, disk in (("n1", "ssd"), ("n2", "ssd"), ("n4", "hdd")):
        world.node(name, 2, disk=disk)
    world.pod("web-1", 2, "n1", nodeSelector={"disk": "ssd"})
    return world


def crowded() -> World:
    """As with disks: web-1 is crowded out by job-1, and nothing that is there makes room for it."""
    world = with_disks()
    world.node("n3", 4)
    for name in ("fixed-1", "fixed-2"):
        world.pod(name, 1, "n3", **VOLUME)
    world.pod("wide-1", 2, "n2", **VOLUME)
    world.pod("job-1", 2, "n4")
    world.bind("job-1", 2, "n1")
    assert world.places()["web-1"] == "n1"
    return world


def test_places_are_passed_on_over_a_third_machine() -> None:
    world = with_disks()
    world.pod("small-1", 1, "n2")
    world.pod("job-1", 2, "n4")
    world.bind("job-1", 2, "n1")
    assert world.places() == {"web-1": "n2", "small-1": "n4"}


def test_what_lacks_room_is_looked_at_again_when_another_place_is_left() -> None:
    world = with_disks()
    world.pod("fixed-1", 2, "n2", **VOLUME)
    world.pod("job-1", 2, "n4")
    world.bind("job-1", 2, "n1")
    assert world.places()["web-1"] == "n1"
    world.bind("fixed-1", 2, "n4", **VOLUME)
    assert world.places() == {"web-1": "n2"}


@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_machines_in_the_zone_come_first_else_in_their_order(zone: str) -> None:
    world = World()
    for number, where in enumerate("abbaab"):
        world.node(f"n{number}", 1, where)
        world.pod(f"web-{number}", 1, f"n{number}")
    machines = list(world.state.promised_machines())
    assert len(machines) == 6
    assert list(in_zone_first(machines, zone)) == sorted(machines, key=lambda one: zone_of(one) != zone)


def test_only_as_many_machines_are_looked_up_as_are_asked_for() -> None:
    world = World()
    for number, where in enumerate("aba"):
        world.node(f"n{number}", 1, where)
        world.pod(f"web-{number}", 1, f"n{number}")
    machines = world.state.promised_machines()
    assert next(in_zone_first(machines, "b")).name == "n1"
    assert [one.name for one in machines] == ["n2"]


def test_what_had_no_way_is_not_searched_for_again_until_something_is_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[int] = []

    def counted(crowds: Sequence[Crowd]) -> list[tuple[Pod, str]]:
        searches.append(len(crowds))
        return passed_on(crowds)

    monkeypatch.setattr("dovetail.controllers.provisioning.exchange.passed_on", counted)
    world = with_disks()
    world.node("n5", 2)
    for name, cpu, place in (("fixed-1", 2, "n2"), ("other-1", 1, "n5")):
        world.pod(name, cpu, place, **VOLUME)
    world.pod("job-1", 2, "n4")
    world.bind("job-1", 2, "n1")
    before = len(searches)
    assert before
    world.bind("other-1", 1, "n5", **VOLUME)
    assert len(searches) == before
    world.bind("fixed-1", 2, "n4", **VOLUME)
    assert world.places() == {"web-1": "n2"}


def test_crowded_machines_are_looked_at_again_only_when_a_place_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []

    class Seen(Moment):
        def waiting(self, machine: Machine) -> list[Pod]:
            looks.append(machine.name)
            return super().waiting(machine)

    monkeypatch.setattr("dovetail.controllers.provisioning.exchange.Moment", Seen)
    world = crowded()
    looks.clear()
    world.bind("fixed-1", 1, "n3", **VOLUME)  # in its own place
    assert not looks
    world.node("n5", 2, disk="ssd")
    world.pod("late-1", 0, "n5", **VOLUME)
    world.bind("fixed-2", 1, "n3", **VOLUME)
    assert world.places()["web-1"] == "n5"


def test_where_many_machines_have_places_several_bindings_go_by_before_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.controllers.provisioning.exchange.OFTEN", 2)
    world = crowded()
    world.node("n5", 2, disk="ssd")
    world.pod("late-1", 0, "n5", **VOLUME)
    world.bind("fixed-1", 1, "n3", **VOLUME)
    assert world.places()["web-1"] == "n1"  # of four machines two bindings are let go by
    world.bind("fixed-2", 1, "n3", **VOLUME)
    assert world.places()["web-1"] == "n5"


def test_looks_that_take_long_are_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as long; what was put off is done at the next chance, also when nothing else changed."""
    looks: list[int] = []
    look = Exchange._look_again

    def slow(self: Exchange) -> None:
        looks.append(world.time)
        world.time += 10
        look(self)

    monkeypatch.setattr(Exchange, "_look_again", slow)
    world = with_disks()
    for number in range(1, 6):
        world.node(f"m{number}", 2)
        world.pod(f"fixed-{number}", 1, f"m{number}", **VOLUME)
    world.pod("wide-1", 2, "n2", **VOLUME)
    world.pod("job-1", 2, "n4")
    world.bind("job-1", 2, "n1")
    assert looks == [0]
    world.time = 39
    world.bind("fixed-1", 1, "m2", **VOLUME)  # elsewhere
    assert looks == [0]
    world.time = 40
    world.bind("fixed-3", 1, "m3", **VOLUME)  # in its own place
    assert looks == [0, 40]
    world.time = 100
    world.bind("fixed-4", 1, "m5", **VOLUME)
    assert looks == [0, 40, 100]
    world.time = 139
    world.bind("fixed-5", 1, "m1", **VOLUME)
    assert looks == [0, 40, 100]
    world.time = 200
    (waiting,) = [one for one in world.state.all(Pod) if one.metadata.name == "web-1"]
    world.exchange.lost(waiting)
    assert looks == [0, 40, 100, 200]
