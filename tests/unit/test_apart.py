"""Pods that others must not run beside: which nodes wait, and which open last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from still_clock import StillClock

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.cluster.nodes import Machine
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.apart import Apart
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.labels import HOSTNAME, ZONE

OPENING = {"key": "dovetail.dev/opening", "effect": "NoSchedule"}


def rule(kind: str, app: str, key: str = HOSTNAME, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


AWAY = rule("podAntiAffinity", "web")
ELSEWHERE = rule("podAntiAffinity", "web", namespaces=["other"])
ALL_SPACES = rule("podAntiAffinity", "web", namespaceSelector={"matchLabels": {"team": "x"}})
WISHED = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": HOSTNAME,
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    },
                }
            ]
        }
    }
}


def read(name: str, spec: Mapping[str, Any]) -> Pod:
    """What it is named before the dash is its label, and what made it."""
    app = name.split("-")[0]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"app": app},
        "ownerReferences": [owner],
    }
    return decode({"metadata": meta, "spec": {"containers": [{"name": "main"}], **spec}}, Pod)


class World:
    """`db` has a place on n1, `web` on n2; both nodes are held."""

    def __init__(self, db: Mapping[str, Any] = AWAY, web: Mapping[str, Any] | None = None) -> None:
        self.state = State(MemoryServer(StillClock()).client(), StillClock())
        self.apart = Apart(self.state)
        for name in ("n1", "n2"):
            self.node(name)
        self.pod("db-1", "n1", db)
        self.pod("web-1", "n2", web or {})

    def node(self, name: str, *, held: bool = True) -> None:
        spec = {"taints": [OPENING] if held else []}
        self.state.apply("MODIFIED", decode({"metadata": {"name": name}, "spec": spec}, Node))

    def pod(self, name: str, place: str, spec: Mapping[str, Any]) -> None:
        pod = read(name, spec)
        self.state.apply("ADDED", pod)
        self.apart.follow(None, pod)
        self.state.promise(pod, place)

    def change(self, name: str, spec: Mapping[str, Any] | None) -> None:
        """It is as `spec` says from now on; gone with None."""
        old = self.state.get(Pod, f"default/{name}")
        new = read(name, spec) if spec is not None else None
        self.state.apply(*(("MODIFIED", new) if new is not None else ("DELETED", old)))  # type: ignore[arg-type]
        self.apart.follow(old, new)

    def look(self, *opening: str) -> tuple[set[str], set[str]]:
        """Where those open now: the nodes that are kept, and those that open last."""
        self.apart.look(lambda machine: machine.name in opening or not machine.node.spec.taints)  # type: ignore[union-attr]
        machines = [Machine(node, None) for node in self.state.all(Node)]
        kept = {one.name for one in machines if self.apart.keeps(one)}
        return kept, {one.name for one in machines if self.apart.follows(one)}


def test_a_node_waits_until_the_node_of_those_it_keeps_away_opens_and_opens_after_it() -> None:
    world = World()
    assert world.look("n1") == ({"n1"}, set())
    assert world.look("n1", "n2") == (set(), {"n1"})
    world.node("n2", held=False)
    assert world.look("n1") == (set(), set())


@pytest.mark.parametrize(
    ("db", "web", "waits"),
    [
        (AWAY, {}, True),
        (rule("podAntiAffinity", "web", ZONE), {}, True),
        (ALL_SPACES, {}, True),  # any namespace may be of that team
        (ELSEWHERE, {}, False),
        (rule("podAntiAffinity", "db"), {}, False),
        (rule("podAffinity", "web"), {}, False),
        (WISHED, {}, False),
        ({}, AWAY, False),
        (AWAY, rule("podAntiAffinity", "cache"), False),  # the scheduler looks at all rules for such a pod
        (AWAY, rule("podAffinity", "cache"), False),
        (AWAY, WISHED, True),
    ],
)
def test_only_pods_without_rules_are_waited_for_that_must_not_come(
    db: Mapping[str, Any], web: Mapping[str, Any], *, waits: bool
) -> None:
    assert World(db, web).look("n1") == ({"n1"} if waits else set(), set())


def test_once_one_with_the_rule_is_bound_no_node_waits_until_it_is_gone() -> None:
    world = World()
    world.pod("db-2", "n1", AWAY)
    world.change("db-2", {**AWAY, "nodeName": "n3"})
    world.change("db-2", {**AWAY, "nodeName": "n3", "priority": 1})
    assert world.look("n1") == (set(), set())
    world.change("db-2", None)
    assert world.look("n1") == ({"n1"}, set())


def test_pods_that_are_bound_or_gone_are_not_waited_for() -> None:
    world = World()
    world.change("web-1", {"nodeName": "n3"})
    assert world.look("n1") == (set(), set())
    world = World()
    world.change("web-1", None)
    assert world.look("n1") == (set(), set())


def test_pods_on_the_very_node_are_no_reason() -> None:
    world = World()
    world.pod("web-2", "n1", {})
    world.change("web-1", None)
    assert world.look() == (set(), set())
