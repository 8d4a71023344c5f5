"""What makes and protects the pods of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail.testing.hostile.attack import (
    LARGEST,
    MARK,
    Attack,
    Document,
    Place,
    object_attack,
    pod_document,
)
from dovetail.testing.hostile.rules import preferred_terms


def _template(place: Place, spec: Document | None = None, **main: Any) -> Document:
    """A pod template that its selector chooses."""
    pod = pod_document(place, spec or {}, {}, None)
    pod["spec"]["containers"][0].update(main)
    return {"metadata": {"labels": {MARK: place.name[:63]}}, "spec": pod["spec"]}


def _workload(kind: str, name: str, why: str, body: Callable[[Place], Document], **more: Any) -> Attack:
    """`body` has what its spec needs besides a selector and a small template."""

    def whole(place: Place) -> Document:
        selects = {"selector": {"matchLabels": {MARK: place.name[:63]}}, "template": _template(place)}
        return {"spec": {**selects, **body(place)}}

    return object_attack("tenant", name, why, "apps/v1", kind, whole, **more)


def _budget(name: str, why: str, refused: str = "", selector: Document | None = None, **spec: Any) -> Attack:
    chosen = {"selector": {"matchLabels": {MARK: "pod"}} if selector is None else selector}
    return object_attack(
        "tenant", name, why, "policy/v1", "PodDisruptionBudget", {"spec": {**chosen, **spec}}, refused=refused
    )


_HUGE_TEMPLATE = {"resources": {"requests": {"cpu": "1e18", "memory": str(LARGEST)}}}

MAKERS = (
    _workload(
        "Deployment",
        "2^31-1 replicas, paused",
        "a number that is never made",
        lambda _: {"replicas": 2**31 - 1, "paused": True},
        twin="its deployments know no pause",
    ),
    _workload(
        "ReplicaSet",
        "replicas that fit nowhere",
        "as many pods of one class",
        lambda place: {"replicas": place.many, "template": _template(place, {}, **_HUGE_TEMPLATE)},
    ),
    _workload(
        "DaemonSet",
        "daemons that fit nowhere",
        "what every new node would have to hold",
        lambda place: {"template": _template(place, {}, **_HUGE_TEMPLATE)},
    ),
    _workload(
        "DaemonSet",
        "daemons with 1000 preferred terms",
        "a ladder, for each type of instance",
        lambda place: {"template": _template(place, preferred_terms(1_000))},
    ),
    _workload(
        "StatefulSet",
        "disks of 1e18 in order",
        "its first pod never comes up",
        lambda _: {
            "replicas": 3,
            "serviceName": "none",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "no-such-class",
                        "resources": {"requests": {"storage": "1e18"}},
                    },
                }
            ],
        },
    ),
    object_attack(
        "tenant",
        "a job of 2^31-1 pods, suspended",
        "a number that is never made",
        "batch/v1",
        "Job",
        lambda place: {
            "spec": {
                "parallelism": 2**31 - 1,
                "completions": 2**31 - 1,
                "suspend": True,
                "template": {"spec": {**_template(place)["spec"], "restartPolicy": "Never"}},
            }
        },
        twin="its jobs know no suspension",
    ),
    object_attack(
        "tenant",
        "an autoscaler up to 2^31-1",
        "a number that is never made",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "no-such-deployment",
                },
                "maxReplicas": 2**31 - 1,
            }
        },
    ),
    _budget("a budget of 2^31-1 pods", "more than there are", minAvailable=2**31 - 1),
    _budget("a budget of 100 %", "none may go", minAvailable="100%"),
    _budget("a budget of 1000 %", "more than all", "must not be greater than 100%", minAvailable="1000%"),
    _budget(
        "a budget below zero", "fewer than none", "must be greater than or equal to 0", maxUnavailable=-1
    ),
    _budget(
        "a budget of text below zero",
        "fewer than none, in words",
        "a valid percent string",
        maxUnavailable="-1",
    ),
    _budget(
        "a budget of all pods", "an empty selector: every pod of the namespace", selector={}, maxUnavailable=0
    ),
    _budget(
        "a budget of 3000 values",
        "each is held against each pod",
        selector={
            "matchExpressions": [
                {"key": MARK, "operator": "NotIn", "values": [f"v{number}" for number in range(3_000)]}
            ]
        },
        maxUnavailable="0%",
    ),
    _budget(
        "a budget that contradicts itself",
        "it covers nothing",
        selector={
            "matchLabels": {MARK: "pod"},
            "matchExpressions": [{"key": MARK, "operator": "DoesNotExist"}],
        },
        minAvailable=1,
    ),
    Attack(
        "two budgets of one pod",
        "tenant",
        "evictions that the server refuses with 500",
        lambda place: tuple(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {
                    "name": f"{place.name}-{number}",
                    "namespace": place.namespace,
                    "labels": {MARK: "budget"},
                },
                "spec": {"selector": {"matchLabels": {MARK: "pod"}}, "maxUnavailable": number},
            }
            for number in range(2)
        ),
    ),
    object_attack(
        "tenant",
        "a service of 1000 labels",
        "default spreads look at services",
        "v1",
        "Service",
        lambda _: {
            "spec": {
                "selector": {f"example.com/s{number}": "v" for number in range(1_000)},
                "ports": [{"port": 80}],
            }
        },
    ),
    Attack(
        "hundreds of services of one pod",
        "tenant",
        "default spreads look at services",
        lambda place: tuple(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": f"s{number}-{place.name}"[:63].rstrip("-"),
                    "namespace": place.namespace,
                    "labels": {MARK: "service"},
                },
                "spec": {"clusterIP": "None", "selector": {MARK: "pod"}, "ports": [{"port": 80}]},
            }
            for number in range(min(place.many, 300))
        ),
    ),
    object_attack(
        "tenant",
        "a namespace of 1000 labels",
        "namespace selectors look at them",
        "v1",
        "Namespace",
        lambda _: {"metadata": {"labels": {f"example.com/n{number}": "v" * 63 for number in range(1_000)}}},
        namespaced=False,
    ),
)
