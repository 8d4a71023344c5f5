"""What a node says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.model import labels
from dovetail.testing.hostile.amounts import FOREIGN, owner_reference
from dovetail.testing.hostile.attack import (
    AMOUNTS,
    DELETED,
    HOST,
    LARGEST,
    NEVER,
    TAINT,
    WORDS,
    Attack,
    Document,
    Part,
    Place,
    object_attack,
    resolved,
    short,
)
from dovetail.testing.problems import both

_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "",
    "lastHeartbeatTime": "2026-03-02T00:00:00Z",
    "lastTransitionTime": "2026-03-02T00:00:00Z",
}
_ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def _node(
    name: str,
    why: str,
    *,
    meta: Part | None = None,
    spec: Part | None = None,
    status: Part | None = None,
    refused: str = "",
) -> Attack:
    """A node that no ordinary pod tolerates: what it does, it does to controllers."""

    def body(place: Place) -> Document:
        # kwok would play it, and the scheduler would use it, were it not for the taint.
        basis: Document = {
            "metadata": {"labels": {HOST: place.name}},
            "spec": {"providerID": f"made-up:///{place.name}", "taints": [TAINT]},
            "status": {"capacity": _ROOM, "allocatable": _ROOM, "conditions": [_READY]},
        }
        wanted = resolved(status or {}, place)
        made = both(basis, {"metadata": resolved(meta or {}, place), "spec": resolved(spec or {}, place)})
        made["status"] = {**basis["status"], **wanted}
        return made

    return object_attack("node", name, why, "v1", "Node", body, namespaced=False, refused=refused)


def _room(amounts: Document) -> Document:
    return {"capacity": {**_ROOM, **amounts}, "allocatable": {**_ROOM, **amounts}}


def _condition(**more: Any) -> Document:
    return {"conditions": [{**_READY, **more}]}


NODES = (
    *(
        _node(f"a node with {resource} of {short(amount)}", AMOUNTS[amount], status=_room({resource: amount}))
        for resource in ("cpu", "memory", "pods", "example.com/device")
        for amount in ("1e18", str(LARGEST), "1e1000", "0")
    ),
    _node(
        "a node with less than nothing",
        "below zero",
        status=_room({"cpu": "-1"}),
        refused="must be greater than or equal to 0",
    ),
    _node(
        "more allocatable than capacity",
        "overhead below zero",
        status={"allocatable": {"cpu": "1e18", "memory": "8Ei", "pods": "1e18"}},
    ),
    _node(
        "a node of 1000 resources",
        "a column for each",
        status=lambda _: _room({f"example.com/r{number}": "1" for number in range(1_000)}),
    ),
    _node("a node without room", "no capacity at all", status={"capacity": {}, "allocatable": {}}),
    _node(
        "a node of 5000 labels",
        "each is a requirement",
        meta=lambda _: {"labels": {f"example.com/l{number}": "v" * 63 for number in range(5_000)}},
    ),
    _node(
        "a node of a pool, without a claim",
        "a label of ours",
        meta=lambda place: {
            "labels": {
                labels.NODEPOOL: place.pool,
                labels.REGISTERED: "true",
                labels.INITIALIZED: "true",
                labels.INSTANCE_TYPE: "no-such-type",
                labels.CAPACITY_TYPE: "no-such-kind",
            }
        },
    ),
    _node(
        "a node of a pool that is not there",
        "a label of ours",
        meta={"labels": {labels.NODEPOOL: "no-such-pool", labels.CAPACITY_TYPE: "spot"}},
    ),
    _node(
        "the hostname of another", "two nodes of one name", meta=lambda place: {"labels": {HOST: place.node}}
    ),
    _node(
        "the instance of another",
        "two nodes of one provider id",
        spec=lambda place: {"providerID": place.provider_id},
    ),
    Attack(
        "two nodes of one instance",
        "node",
        "two nodes of one provider id, neither with a claim",
        lambda place: tuple(
            one
            for number in range(2)
            for one in _node("", "", spec={"providerID": "made-up:///twice"}).make(
                replace(place, name=f"{place.name}-{number}")
            )
        ),
    ),
    _node("a node without an instance", "no provider id", spec={"providerID": ""}),
    _node("an instance of 10 KB of name", "no provider's", spec={"providerID": "\U0001f4a3" * 2_500}),
    _node(
        "a node of 1000 taints",
        "each is held against each toleration",
        spec=lambda _: {
            "taints": [
                {"key": f"example.com/t{number}", "value": "v", "effect": "PreferNoSchedule"}
                for number in range(1_000)
            ]
        },
    ),
    _node(
        "our taint by hand",
        "as if it was being disrupted",
        spec={"taints": [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]},
    ),
    _node(
        "our other taint by hand",
        "as if it had just joined",
        spec={
            "taints": [
                {"key": labels.UNREGISTERED_TAINT, "effect": "NoExecute", "timeAdded": "9999-12-31T23:59:59Z"}
            ]
        },
    ),
    _node(
        "a taint of the year 1",
        "the first instant",
        spec={
            "taints": [{"key": "example.com/old", "effect": "NoExecute", "timeAdded": "0001-01-01T00:00:01Z"}]
        },
    ),
    _node(
        "unready since the year 1",
        "long before the epoch",
        status=_condition(status="False", lastTransitionTime="0001-01-01T00:00:01Z"),
    ),
    _node(
        "unready from the year 9999 on",
        "in the future",
        status=_condition(status="Unknown", lastTransitionTime="9999-12-31T23:59:59Z"),
    ),
    _node(
        "unready since never", "no instant at all", status=_condition(status="False", lastTransitionTime=None)
    ),
    _node(
        "a condition at a fraction of a second",
        "an instant with nanoseconds",
        status=_condition(lastTransitionTime="2026-03-02T00:00:00.123456789Z"),
    ),
    _node(
        "a condition in another zone of time",
        "an offset",
        status=_condition(lastTransitionTime="2026-03-02T00:00:00+23:59"),
    ),
    _node("ready, perhaps", "a status that there is not", status=_condition(status="Maybe")),
    _node(
        "1000 conditions",
        "each is looked through",
        status=lambda _: {
            "conditions": [{**_READY, "type": f"C{number}", "message": WORDS} for number in range(1_000)]
        },
    ),
    _node(
        "images of 2^63-1 bytes",
        "sizes that are added up",
        status=lambda _: {
            "images": [{"names": [f"image:{number}"], "sizeBytes": LARGEST} for number in range(2_000)]
        },
    ),
    _node(
        "a deadline of the year 1 on a node",
        "an annotation of claims",
        meta={
            "annotations": {
                labels.TERMINATION_TIMESTAMP: "0001-01-01T00:00:00Z",
                labels.DO_NOT_DISRUPT: "99999999h",
            }
        },
    ),
    _node(
        "annotations that are no hash",
        "an annotation of ours",
        meta={"annotations": {labels.NODEPOOL_HASH: WORDS, labels.NODEPOOL_HASH_VERSION: "v999"}},
    ),
    _node("deleted, with a finalizer of others", "going for ever", meta={"finalizers": [NEVER], **DELETED}),
    _node(
        "deleted, with our finalizer",
        "ours to end, though it was never ours",
        meta={"finalizers": [labels.TERMINATION_FINALIZER], **DELETED},
    ),
    _node(
        "cordoned, with owners that are not there",
        "contradictory owners",
        spec={"unschedulable": True},
        meta={
            "ownerReferences": [
                owner_reference(FOREIGN, "NodeClaim", f"no-{number}", blockOwnerDeletion=True)
                for number in range(2)
            ]
        },
    ),
    object_attack(
        "node",
        "a CSINode of extremes",
        "limits of volumes",
        "storage.k8s.io/v1",
        "CSINode",
        {
            "spec": {
                "drivers": [
                    {
                        "name": f"d{number}.example.com",
                        "nodeID": "n",
                        "topologyKeys": [],
                        "allocatable": {"count": 2**31 - 1 if number % 2 else 0},
                    }
                    for number in range(300)
                ]
            }
        },
        namespaced=False,
    ),
)
