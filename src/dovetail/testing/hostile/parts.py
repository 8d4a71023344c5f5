"""Pods of a tenant: ports, volumes, containers and what else a pod has."""

from __future__ import annotations

from typing import Any

from dovetail.testing.hostile.amounts import equal_containers
from dovetail.testing.hostile.attack import LARGEST, MARK, Document, Place, pod_attack
from dovetail.testing.problems import both


def _ports(count: int) -> list[Document]:
    return [{"containerPort": 1 + number, "hostPort": 1 + number} for number in range(count)]


def _main(**more: Any) -> Document:
    return {"containers": [{"name": "main", "image": "pause", **more}]}


def _claim_volumes(*names: str) -> list[Document]:
    return [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
        for number, name in enumerate(names)
    ]


def _volume_claim(place: Place, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": place.name, "namespace": place.namespace, "labels": {MARK: "claim"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


PARTS = (
    pod_attack("3000 host ports", "each is held against each", spec=lambda _: _main(ports=_ports(3_000))),
    pod_attack(
        "one port in every protocol and on many addresses",
        "the same port that does not clash with itself",
        spec=lambda _: _main(
            ports=[
                {"containerPort": 80, "hostPort": 80, "protocol": protocol, "hostIP": f"10.0.0.{number}"}
                for protocol in ("TCP", "UDP", "SCTP")
                for number in range(200)
            ]
        ),
    ),
    pod_attack(
        "the same host port twice",
        "it clashes with itself",
        spec=_main(ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]),
        refused="Duplicate value",
    ),
    pod_attack(
        "a port on the host's network",
        "host ports that are not written",
        spec={"hostNetwork": True, **_main(ports=[{"containerPort": 65_535}])},
    ),
    pod_attack(
        "2000 volumes",
        "each is looked up",
        spec=lambda _: {"volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(2_000)]},
    ),
    pod_attack(
        "500 claims that are not there",
        "each is looked up in vain",
        spec=lambda _: {"volumes": _claim_volumes(*(f"no-{number}" for number in range(500)))},
    ),
    pod_attack(
        "one claim as two volumes",
        "one disk counted twice",
        spec={"volumes": _claim_volumes("no-such-claim", "no-such-claim")},
    ),
    pod_attack(
        "a claim of 1e18",
        "a disk larger than there is",
        spec=lambda place: {"volumes": _claim_volumes(place.name)},
        beside=lambda place: (_volume_claim(place, resources={"requests": {"storage": "1e18"}}),),
    ),
    pod_attack(
        "a claim of a class that is not there",
        "it stays pending",
        spec=lambda place: {"volumes": _claim_volumes(place.name)},
        beside=lambda place: (_volume_claim(place, storageClassName="no-such-class"),),
    ),
    pod_attack(
        "a claim of a volume that is not there",
        "bound, to nothing",
        spec=lambda place: {"volumes": _claim_volumes(place.name)},
        beside=lambda place: (_volume_claim(place, volumeName="no-such-volume", storageClassName=""),),
    ),
    pod_attack(
        "a claim whose node is chosen already",
        "an annotation of the scheduler's, written by a tenant",
        spec=lambda place: {"volumes": _claim_volumes(place.name)},
        beside=lambda place: (
            both(
                _volume_claim(place),
                {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "no-such-node"}}},
            ),
        ),
    ),
    pod_attack(
        "a disk of its own, of a class that is not there",
        "an ephemeral volume whose claim is never made",
        spec={
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "storageClassName": "no-such-class",
                                "resources": {"requests": {"storage": "8Ei"}},
                            }
                        }
                    },
                }
            ]
        },
    ),
    pod_attack(
        "drivers of 300 volumes",
        "as many kinds of disks",
        spec=lambda _: {
            "volumes": [
                {"name": f"v{number}", "csi": {"driver": f"d{number}.example.com"}} for number in range(300)
            ]
        },
    ),
    pod_attack(
        "1000 containers",
        "each is added up",
        spec=lambda _: {"containers": equal_containers(1_000, {"cpu": "1n"})},
    ),
    pod_attack(
        "1000 init containers",
        "the largest of them counts, and sidecars of before",
        spec=lambda _: {
            "initContainers": [
                {**one, "name": f"i{number}", **({"restartPolicy": "Always"} if number % 2 else {})}
                for number, one in enumerate(equal_containers(1_000, {"cpu": "1n"}))
            ]
        },
    ),
    pod_attack(
        "a pod of a megabyte",
        "as large as objects can be",
        spec=lambda _: _main(env=[{"name": "E", "value": "x" * 1_000_000}]),
    ),
    pod_attack(
        "500 scheduling gates",
        "it is not to be planned",
        spec=lambda _: {"schedulingGates": [{"name": f"example.com/g{number}"} for number in range(500)]},
    ),
    pod_attack("on a node that is not there", "bound by its author", spec={"nodeName": "no-such-node"}),
    pod_attack("the longest grace", "2^63-1 seconds", spec={"terminationGracePeriodSeconds": LARGEST}),
    pod_attack("a grace below zero", "less than no time to stop", spec={"terminationGracePeriodSeconds": -1}),
    pod_attack("the longest deadline", "2^31-1 seconds to live", spec={"activeDeadlineSeconds": 2**31 - 1}),
    pod_attack("another scheduler", "not ours to plan for", spec={"schedulerName": "x" * 253}),
    pod_attack(
        "a priority of its own",
        "a number instead of a class",
        spec={"priority": 2**31 - 1},
        refused="priority",
    ),
    pod_attack(
        "a priority class that is not there",
        "no such class",
        spec={"priorityClassName": "no-such-class"},
        refused="no PriorityClass with name",
    ),
    pod_attack(
        "a critical pod",
        "a class that only the system has elsewhere",
        spec={"priorityClassName": "system-node-critical"},
    ),
    pod_attack(
        "devices that are not there",
        "claims of devices, one by one",
        spec=lambda _: {
            "resourceClaims": [
                {"name": f"d{number}", "resourceClaimName": f"no-{number}"} for number in range(256)
            ]
        },
    ),
    pod_attack(
        "overhead that no class has",
        "an amount beside the containers",
        spec={"overhead": {"cpu": "1e18"}},
        refused="Pod Overhead set without",
    ),
    pod_attack(
        "a host of unusual name",
        "its hostname and subdomain",
        spec={"hostname": "h" * 63, "subdomain": "s" * 63},
    ),
)
