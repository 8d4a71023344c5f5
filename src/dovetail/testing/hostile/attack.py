"""What an attack is, and how objects are made of the parts that matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dovetail.model import labels
from dovetail.testing.problems import both

Document = dict[str, Any]
Author = Literal["tenant", "node", "pool"]
AUTHORS: tuple[Author, ...] = ("tenant", "node", "pool")

MARK = "example.com/hostile"  # a label of every hostile object that may have labels; a taint of hostile nodes
TAINT = {"key": MARK, "effect": "NoSchedule"}
ZONE, HOST = labels.ZONE, labels.HOSTNAME


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attack lands, and whose names it may use."""

    namespace: str = "default"
    name: str = "hostile"  # of the objects; a number follows where there are several
    many: int = 300  # how many objects an attack by numbers has
    selector: Mapping[str, str] = field(default_factory=dict)  # every pod's node selector
    provider_id: str = "made-up:///another"  # of an instance that has its own node and claim
    node: str = "another"  # a node of others
    pool: str = "general"  # a NodePool of others
    group: str = "karpenter.k8s.aws"  # of the node classes
    node_class: str = "EC2NodeClass"

    def reference(self, name: str = "default") -> Document:
        """A nodeClassRef."""
        return {"group": self.group, "kind": self.node_class, "name": name}


Make = Callable[[Place], tuple[Document, ...]]
Part = Document | Callable[[Place], Document]


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to do harm. `make` answers its objects, in the order in which they are to be created."""

    name: str
    author: Author
    why: str
    make: Make
    refused: str = ""  # part of what the API server says to it; empty iff it admits all of it
    twin: str = ""  # why simulated clusters leave it out; empty iff they play it

    @property
    def admitted(self) -> bool:
        return not self.refused


DELETED = {"deletionTimestamp": "2026-03-02T00:00:00Z"}
NEVER = "example.com/never"  # a finalizer that nothing takes away
LARGEST = 2**63 - 1
LONG = "9" * 5_000
MIB = 1 << 20
BASE_REQUESTS = {"cpu": "100m", "memory": "64Mi"}
WORDS = '\u202e\u0000\u001b[31m\r\n{"level":"error"} \U0001f4a3 \ufeff\u0130 \' ; -- $(id) %s {0}'

# The amounts that reach code by way of other numbers than one expects: floats, int64, digits.
AMOUNTS = {
    "1e18": "beyond an int64 of milli-units and of nano-units",
    str(LARGEST): "the largest int64: one more wraps around",
    str(LARGEST + 1): "one more than an int64 holds",
    "8Ei": "the same, in binary units",
    "4Ei": "two of them are too many",
    "1e200": "near the end of floats",
    "1e1000": "beyond floats",
    LONG: "more digits than int() reads",
    "1n": "the least there is",
    "0.00000000000000000001": "less than the least there is",
    "0": "nothing at all",
    "+.5": "a sign, and no digit before the point",
    "1E": "a suffix, or an exponent that is not there",
}


def short(text: str) -> str:
    return text if len(text) < 40 else f"{len(text)} digits"


def resolved(part: Part, place: Place) -> Document:
    return part(place) if callable(part) else part


def pod_document(place: Place, spec: Part, meta: Part, requests: Document | None) -> Document:
    """A small pod that has what the attack wants besides."""
    main: Document = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.7",
        "resources": {"requests": BASE_REQUESTS if requests is None else requests},
    }
    basis: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": place.name, "namespace": place.namespace, "labels": {MARK: "pod"}},
        "spec": {"containers": [main]},
    }
    if place.selector:
        basis["spec"]["nodeSelector"] = dict(place.selector)
    wanted = dict(resolved(spec, place))
    containers = wanted.pop("containers", None)
    merged = both(basis, {"metadata": resolved(meta, place), "spec": wanted})
    if containers is not None:
        merged["spec"]["containers"] = containers
    return merged


def pod_attack(
    name: str,
    why: str,
    *,
    spec: Part | None = None,
    meta: Part | None = None,
    requests: Document | None = None,
    refused: str = "",
    beside: Callable[[Place], tuple[Document, ...]] | None = None,
) -> Attack:
    """A tenant's pod; `beside` makes the objects that it needs first."""

    def make(place: Place) -> tuple[Document, ...]:
        pod = pod_document(place, spec or {}, meta or {}, requests)
        return (*(beside(place) if beside is not None else ()), pod)

    return Attack(name, "tenant", why, make, refused)


def pods_attack(name: str, why: str, spec: Callable[[int], Document], *, requests: bool = False) -> Attack:
    """As many pods of a tenant as the place says; `spec` is of the pod of that number, or its requests."""

    def make(place: Place) -> tuple[Document, ...]:
        found = []
        for number in range(place.many):
            here = replace(place, name=f"{place.name}-{number}")
            part = spec(number)
            found.append(pod_document(here, {} if requests else part, {}, part if requests else None))
        return tuple(found)

    return Attack(name, "tenant", why, make)


def object_attack(
    author: Author,
    name: str,
    why: str,
    api_version: str,
    kind: str,
    body: Part,
    *,
    namespaced: bool = True,
    refused: str = "",
    twin: str = "",
) -> Attack:
    """An object of any kind; `body` has its spec and whatever its metadata needs besides a name."""

    def make(place: Place) -> tuple[Document, ...]:
        meta: Document = {"name": place.name, "labels": {MARK: kind.lower()}}
        if namespaced:
            meta["namespace"] = place.namespace
        basis = {"apiVersion": api_version, "kind": kind, "metadata": meta}
        return (both(basis, resolved(body, place)),)

    return Attack(name, author, why, make, refused, twin)
