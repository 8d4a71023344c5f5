"""Hostile objects on a real API server: what it admits, and a controller that lives with all of it."""

from __future__ import annotations

import json
import os
import urllib.error
from datetime import datetime

import pytest

from dovetail.api.scheme import BY_GVK
from dovetail.kube.http import wire
from dovetail.testing.hostile import AUTHORS, Attack, Document, Place, attacks
from tests.cluster.running import Controller, eventually
from tests.cluster.world import CLASS, World, deployment, node_pool

ORDINARY = 20
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"  # of a kind that Dovetail does not read


def where(document: Document) -> str:
    """The path that objects of its kind are created at."""
    kind = BY_GVK.get((document["apiVersion"], document["kind"]))
    return RUNTIME_CLASSES if kind is None else wire.path(kind, document["metadata"].get("namespace", ""))


def strike(world: World, document: Document) -> str:
    """Create the object, with its status, and delete it if it says so; what the server refuses it with."""
    path, meta = where(document), document["metadata"]
    try:
        world.send("POST", path, document)
        if document["kind"] == "NodeClaim" and "status" in document:
            world.send("PATCH", f"{path}/{meta['name']}/status", {"status": document["status"]})
        if "deletionTimestamp" in meta:
            world.send("DELETE", f"{path}/{meta['name']}")
    except urllib.error.HTTPError as error:
        with error:
            return str(json.load(error)["message"])
    return ""


def place(world: World, number: int) -> Place:
    """In the world's namespace. Objects outside of it bear the world's name, and are cleared by it."""
    return Place(
        namespace=world.name,
        name=f"{world.name}-{number}",
        many=3,
        pool=world.name,
        group=CLASS["group"],
        node_class=CLASS["kind"],
    )


def refused(world: World, found: tuple[Attack, ...]) -> dict[str, str]:
    """What the server says to each attack, where that is not what the table says."""
    wrong = {}
    for number, attack in enumerate(found):
        said = [strike(world, one) for one in attack.make(place(world, number))]
        message = next((text for text in said if text), "")
        if bool(message) == attack.admitted or attack.refused not in message:
            wrong[attack.name] = message
    return wrong


def sweep(world: World, found: tuple[Attack, ...]) -> None:
    """Take away what is not in the namespace, whatever finalizers it has."""
    for number, attack in enumerate(found):
        for document in attack.make(place(world, number)):
            if "namespace" not in document["metadata"] and attack.admitted:
                remove(world, f"{where(document)}/{document['metadata']['name']}")
    pods = f"/api/v1/namespaces/{world.name}/pods"
    for pod in world.read(pods)["items"]:
        remove(world, f"{pods}/{pod['metadata']['name']}")


def remove(world: World, path: str) -> None:
    for method, body in (("DELETE", None), ("PATCH", {"metadata": {"finalizers": None}})):
        try:
            world.send(method, path, body)
        except urllib.error.HTTPError as error:
            error.close()


def slowest(world: World, app: str) -> float:
    """Seconds until the last pod of an application was on a node."""
    found = []
    for pod in world.running(app):
        (bound,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        begun, ended = pod["metadata"]["creationTimestamp"], bound["lastTransitionTime"]
        found.append((datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds())
    return max(found)


def served(world: World, app: str) -> float:
    """Bring ordinary pods, and say how long the slowest of them waited for its node."""
    world.apply(deployment(world, app, ORDINARY))
    eventually(lambda: len(world.running(app)), lambda count: count == ORDINARY, seconds=60)
    return slowest(world, app)


def well(controller: Controller) -> None:
    """It is up and ready."""
    assert controller.asked("/healthz")[0] == 200
    assert controller.asked("/readyz")[0] == 200


def test_admitted_as_the_grammar_says(world: World) -> None:
    """What the API server refuses is no attack."""
    found = attacks()
    try:
        assert refused(world, found) == {}
    finally:
        sweep(world, found)


@pytest.mark.skipif("DOVETAIL_HOSTILE" not in os.environ, reason="objects that stop the controller are known")
def test_ordinary_pods_are_served_beside_all_of_it(world: World) -> None:
    """The controller meets them as they come, and once more as a new process that lists all of them."""
    found = tuple(one for author in AUTHORS for one in attacks(author) if one.admitted)
    world.apply(node_pool(world))
    try:
        with world.controller() as controller:
            without = served(world, "before")
            refused(world, found)
            beside = served(world, "beside")
            well(controller)
            assert beside <= without + 5, "seconds; the batch and the node's own time are in both"
            assert controller.stop() == 0
        with world.controller() as controller:
            assert served(world, "after") <= without + 5
            well(controller)
            assert controller.stop() == 0
    finally:
        sweep(world, found)
