"""Pods of a tenant: amounts, and what their metadata says."""

from __future__ import annotations

from typing import Any

from dovetail.model import labels
from dovetail.testing.hostile.attack import (
    AMOUNTS,
    BASE_REQUESTS,
    DELETED,
    LARGEST,
    LONG,
    NEVER,
    WORDS,
    Attack,
    Document,
    pod_attack,
    pods_attack,
    short,
)

_RESOURCES = {
    "cpu": AMOUNTS,
    "memory": AMOUNTS,
    "ephemeral-storage": ("1e18", str(LARGEST), "1e1000"),
    "example.com/device": ("1e18", str(LARGEST), "1e1000"),
    "hugepages-2Mi": ("4Ei",),
}


def _request(resource: str, amount: str) -> Attack:
    why = AMOUNTS[amount]
    if resource in ("cpu", "memory", "ephemeral-storage"):
        return pod_attack(f"{resource} of {short(amount)}", why, requests={resource: amount})
    # Requests of these must be their limits, which takes room for cpu or memory beside huge pages.
    amounts = {**BASE_REQUESTS, resource: amount}
    resources = {"requests": amounts, "limits": {resource: amount}}
    main = {"name": "main", "image": "pause", "resources": resources}
    return pod_attack(f"{resource} of {short(amount)}", why, spec={"containers": [main]})


def equal_containers(count: int, amounts: Document, **more: Any) -> list[Document]:
    return [
        {"name": f"c{number}", "image": "pause", "resources": {"requests": amounts}, **more}
        for number in range(count)
    ]


QUANTITIES = (
    *(_request(resource, amount) for resource, amounts in _RESOURCES.items() for amount in amounts),
    pod_attack(
        "cpu below zero",
        "less than nothing",
        requests={"cpu": "-1"},
        refused="must be greater than or equal to 0",
    ),
    pod_attack(
        "memory that wraps in the sum",
        "no amount is too large, their sum is",
        spec={"containers": equal_containers(3, {"memory": str(2**62)})},
    ),
    pod_attack(
        "memory of sidecars that wraps in the sum",
        "restartable init containers add up with the pod",
        spec={"initContainers": equal_containers(3, {"memory": str(2**62)}, restartPolicy="Always")},
    ),
    pod_attack(
        "amounts of the whole pod",
        "resources of the pod instead of its containers",
        spec={"resources": {"requests": {"cpu": "1e18", "memory": str(LARGEST)}}},
    ),
    pod_attack(
        "a thousand resources",
        "a column for each in whatever is a matrix",
        spec=lambda _: {"containers": [_devices({f"example.com/r{number}": "1" for number in range(1_000)})]},
    ),
    pods_attack(
        "a resource of its own in each pod",
        "as many columns as there are pods",
        lambda number: {"containers": [_devices({f"example.com/own-{number}": "1"})]},
    ),
    pods_attack(
        "distinct shapes",
        "no two pods are alike: a class for each",
        lambda number: {"cpu": f"{100 + number}m", "memory": f"{64 + number}Mi"},
        requests=True,
    ),
    pods_attack(
        "pods that fit nowhere",
        "each is tried in every round",
        lambda number: {"cpu": f"{10_000 + number}"},
        requests=True,
    ),
)


def _devices(amounts: Document) -> Document:
    return {"name": "main", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}


_DURATIONS = {
    "99999999h": "an instant beyond the year 9999",
    "9" * 400 + "h": "beyond any integer of a fixed size",
    LONG + "h": "more digits than int() reads",
    "-1h": "it ended before it began",
    "1ns": "it is over at once",
    "0s": "no time at all",
    "Never": "right elsewhere",
    "1e3h": "an exponent, which durations have not",
    "": "there, and empty",
    " true": "nearly right",
}


def _annotated(name: str, why: str, key: str, value: str, refused: str = "") -> Attack:
    return pod_attack(name, why, meta={"annotations": {key: value}}, refused=refused)


def _owned(name: str, why: str, *owners: Document, refused: str = "") -> Attack:
    return pod_attack(name, why, meta={"ownerReferences": list(owners)}, refused=refused)


def owner_reference(api_version: str, kind: str, name: str = "missing", **more: object) -> Document:
    uid = f"00000000-0000-0000-0000-{abs(_number_of(kind + name)) % 10**12:012}"
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, **more}


def _number_of(text: str) -> int:
    """A number of the text, equal in every process, as hash() is not."""
    return int.from_bytes(text.encode()[-8:].rjust(8, b"\0"), "big")


_CONTROLLER: Document = {"controller": True, "blockOwnerDeletion": True}
# Of a group that the garbage collector does not know: it leaves what they own alone.
FOREIGN = "nothing.example.com/v1"

METADATA = (
    *(
        _annotated(f"do-not-disrupt {short(text)!r}", why, labels.DO_NOT_DISRUPT, text)
        for text, why in _DURATIONS.items()
    ),
    _annotated(
        "do-not-disrupt of 200 KiB", "an annotation that is read whole", labels.DO_NOT_DISRUPT, "x" * 200_000
    ),
    _annotated("deletion cost of 2^31-1", "the largest", labels.POD_DELETION_COST, str(2**31 - 1)),
    _annotated("deletion cost of -2^31", "the smallest", labels.POD_DELETION_COST, str(-(2**31))),
    _annotated(
        "deletion cost of 2^31",
        "one more than there is",
        labels.POD_DELETION_COST,
        str(2**31),
        "must be a 32bit integer",
    ),
    _annotated(
        "deletion cost NaN", "no number at all", labels.POD_DELETION_COST, "NaN", "must be a 32bit integer"
    ),
    _annotated(
        "a claim's deadline on a pod",
        "an annotation of other kinds",
        labels.TERMINATION_TIMESTAMP,
        "0001-01-01T00:00:00Z",
    ),
    _annotated("a pool's hash on a pod", "an annotation of other kinds", labels.NODEPOOL_HASH, "\U0001f4a3"),
    _annotated("control characters in an annotation", "whatever prints it", "example.com/printed", WORDS),
    pod_attack(
        "annotations of 256 KiB",
        "the most that is admitted, on each of its copies",
        meta=lambda _: {"annotations": {f"example.com/a{number}": "x" * 1_000 for number in range(255)}},
    ),
    pod_attack(
        "annotations of more than 256 KiB",
        "one more than the most",
        meta=lambda _: {"annotations": {f"example.com/a{number}": "x" * 1_000 for number in range(263)}},
        refused="Too long",
    ),
    pod_attack(
        "five thousand labels",
        "a selector is held against each",
        meta=lambda _: {"labels": {f"{'p' * 63}.{'q' * 63}/l{number}": "v" * 63 for number in range(5_000)}},
    ),
    pod_attack(
        "labels of ours",
        "labels that say what the pod is not",
        meta={"labels": {labels.NODEPOOL: "general", labels.REGISTERED: "true", "app": "x" * 63}},
    ),
    _owned(
        "an owner that looks like a DaemonSet",
        "what a daemon would be",
        owner_reference("apps/v1", "DaemonSet", **_CONTROLLER),
    ),
    _owned(
        "an owner that looks like a Node",
        "what a static pod would be",
        owner_reference("v1", "Node", **_CONTROLLER),
    ),
    _owned(
        "an owner of a kind that is not there",
        "nothing to look up",
        owner_reference(FOREIGN, "DaemonSet", **_CONTROLLER),
    ),
    _owned(
        "two owners that control",
        "contradictory",
        owner_reference("apps/v1", "ReplicaSet", "one", **_CONTROLLER),
        owner_reference(FOREIGN, "DaemonSet", "two", **_CONTROLLER),
        refused="Only one reference can have Controller set to true",
    ),
    pod_attack(
        "a thousand owners",
        "looked through for the one that controls",
        meta=lambda _: {
            "ownerReferences": [owner_reference(FOREIGN, "Thing", f"o{number}") for number in range(1_000)]
        },
    ),
    _owned(
        "an owner of its own name", "a cycle, by name", owner_reference("v1", "Pod", "hostile", **_CONTROLLER)
    ),
    pod_attack(
        "deleted, with a finalizer that stays",
        "going for ever, without a node",
        meta={"finalizers": [NEVER], **DELETED},
    ),
    pod_attack(
        "bound nowhere, deleted, and never gone",
        "going for ever, on a node that is not there",
        spec={"nodeName": "no-such-node", "terminationGracePeriodSeconds": 1},
        meta={"finalizers": [NEVER], **DELETED},
    ),
    pod_attack(
        "deleted with the longest grace",
        "its deletion is due beyond the year 9999",
        spec={"nodeName": "no-such-node", "terminationGracePeriodSeconds": LARGEST},
        meta={"finalizers": [NEVER], **DELETED},
    ),
    pod_attack(
        "a thousand finalizers",
        "each is looked through",
        meta=lambda _: {"finalizers": [f"example.com/f{number}" for number in range(1_000)]},
    ),
)
