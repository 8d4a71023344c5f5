"""Objects of the hostile grammar on a real API server: created as their authors would, and taken away."""

from __future__ import annotations

import json
import urllib.error
from dataclasses import replace

from dovetail.api.scheme import BY_GVK
from dovetail.kube.http import wire
from dovetail.testing.hostile import Attack, Document, Place
from tests.cluster.running import eventually
from tests.cluster.world import CLASS, World

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"  # of a kind that Dovetail does not read
_UNKNOWN_CLASS = "no PriorityClass with name"


def where(document: Document) -> str:
    """The path that objects of its kind are created at."""
    kind = BY_GVK.get((document["apiVersion"], document["kind"]))
    return RUNTIME_CLASSES if kind is None else wire.path(kind, document["metadata"].get("namespace", ""))


def strike(world: World, document: Document) -> str:
    """Create the object, with its status, and delete it if it says so; what the server refuses it with.

    A pod whose priority class has just been made is sent again until the server has seen the class.
    """
    unknown = f"{_UNKNOWN_CLASS} {document['metadata']['name']} "  # made for it, as of its name
    return eventually(lambda: struck(world, document), lambda said: unknown not in said, seconds=20)


def struck(world: World, document: Document) -> str:
    """The same, whatever the server says at first."""
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


def place(world: World) -> Place:
    """In the world's namespace. Objects outside of it bear the world's name, and are cleared by it."""
    return Place(
        namespace=world.name,
        name=world.name,
        many=3,
        pool=world.name,
        group=CLASS["group"],
        node_class=CLASS["kind"],
    )


def numbered(world: World, number: int) -> Place:
    """The same for one attack of several."""
    return replace(place(world), name=f"{world.name}-{number}")


def refused(world: World, found: tuple[Attack, ...]) -> dict[str, str]:
    """What the server says to each attack, where that is not what the table says."""
    wrong = {}
    for number, attack in enumerate(found):
        said = [strike(world, one) for one in attack.make(numbered(world, number))]
        message = next((text for text in said if text), "")
        if bool(message) == attack.admitted or attack.refused not in message:
            wrong[attack.name] = message
    return wrong


def sweep(world: World, found: tuple[Attack, ...]) -> None:
    """Take away what is not in the namespace, whatever finalizers it has."""
    for number, attack in enumerate(found):
        for document in attack.make(numbered(world, number)):
            if "namespace" not in document["metadata"] and attack.admitted:
                remove(world, f"{where(document)}/{document['metadata']['name']}")
    sweep_pods(world, world.name)


def sweep_pods(world: World, namespace: str) -> None:
    """Pods with finalizers of others would keep their namespace for ever."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for pod in world.read(pods)["items"]:
        remove(world, f"{pods}/{pod['metadata']['name']}")


def remove(world: World, path: str) -> None:
    """Delete an object and whatever holds it up, if it is there."""
    for method, body in (("DELETE", None), ("PATCH", {"metadata": {"finalizers": None}})):
        try:
            world.send(method, path, body)
        except urllib.error.HTTPError as error:
            error.close()
