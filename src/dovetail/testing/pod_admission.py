"""Pods, and what the admission plugins of a real API server of 1.36 make of them, as EKS has them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

_CATCH = {"key": "kata", "operator": "Exists", "effect": "NoSchedule"}
_GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_ON = {"katacontainers.io/kata-runtime": "true"}
_FIXED = {"cpu": "250m", "memory": "160Mi"}
NAMESPACES = ("ranges", "whole-pods", "quotas", "not-best-effort")


def _of(namespace: str, kind: str, **spec: Any) -> Document:
    meta = {"name": "usual", "namespace": namespace}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}


RULES: tuple[Document, ...] = (
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": _FIXED},
        "scheduling": {"nodeSelector": _ON, "tolerations": [_CATCH]},
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "plain"},
        "handler": "runsc",
    },
    *(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **more,
        }
        for name, value, more in (
            ("default", 5, {"globalDefault": True, "preemptionPolicy": "Never"}),
            ("high", 1000, {}),
        )
    ),
    _of(
        "ranges",
        "LimitRange",
        limits=[
            {
                "type": "Container",
                "default": {"cpu": "500m"},
                "defaultRequest": {"cpu": "100m"},
            }
        ],
    ),
    _of("whole-pods", "LimitRange", limits=[{"type": "Pod", "max": {"cpu": "2"}}]),
    _of("quotas", "ResourceQuota", hard={"requests.cpu": "3", "limits.cpu": "6"}),
    _of("not-best-effort", "ResourceQuota", hard={"pods": "0"}, scopes=["NotBestEffort"]),
)


def container(requests: Document | None = None, limits: Document | None = None, **more: Any) -> Document:
    given = {"requests": requests, "limits": limits}
    resources = {name: amounts for name, amounts in given.items() if amounts}
    return {"name": "c", "image": "registry.k8s.io/pause:3.9", "resources": resources, **more}


def pod(namespace: str, spec: Document) -> Document:
    meta = {"name": "web", "namespace": namespace}
    whole = {"containers": [container()], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


_USUAL = {"priority": 5, "priorityClassName": "default", "preemptionPolicy": "Never"}
_NOT_ALLOWED = (
    "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority "
    "admission controller computed {} from the given PriorityClass name"
)
_KATA = {"nodeSelector": _ON, "overhead": _FIXED, "tolerations": [_CATCH]}
_CPU2 = {"limits": {"cpu": "2"}}
_SIDECAR = container({"cpu": "300m"}, name="s", restartPolicy="Always")
_HALF = container({"cpu": "500m"})

# Where, the spec of a pod, and what of these fields it has then; or why it is refused.
FIELDS = (
    *("nodeSelector", "overhead", "preemptionPolicy", "priority", "priorityClassName", "resources"),
    "tolerations",
)
CASES: dict[str, tuple[str, Document, Document | str]] = {
    "nothing": ("default", {}, _USUAL),
    "a class": ("default", {"runtimeClassName": "kata"}, {**_USUAL, **_KATA}),
    "its own overhead": ("default", {"runtimeClassName": "kata", "overhead": _FIXED}, {**_USUAL, **_KATA}),
    "another overhead": (
        "default",
        {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    ),
    "overhead of no class": (
        "default",
        {"overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    "a class without any": ("default", {"runtimeClassName": "plain"}, _USUAL),
    "no such class": (
        "default",
        {"runtimeClassName": "none"},
        'pod rejected: RuntimeClass "none" not found',
    ),
    "another place": (
        "default",
        {"runtimeClassName": "kata", "nodeSelector": {"katacontainers.io/kata-runtime": "false"}},
        "conflict: runtimeClass.scheduling.nodeSelector[katacontainers.io/kata-runtime] = true; "
        "pod.spec.nodeSelector[katacontainers.io/kata-runtime] = false",
    ),
    "beside its own": (
        "default",
        {"runtimeClassName": "kata", "nodeSelector": {"a": "b"}, "tolerations": [_CATCH, _GPU]},
        {**_USUAL, **_KATA, "nodeSelector": {"a": "b", **_ON}, "tolerations": [_CATCH, _GPU]},
    ),
    "a GPU": (
        "default",
        {"containers": [container(limits={"nvidia.com/gpu": "1"})]},
        {**_USUAL, "tolerations": [_GPU]},
    ),
    "a GPU of an init container, tolerated already": (
        "default",
        {
            "initContainers": [container(limits={"nvidia.com/gpu": "1"}, name="i")],
            "tolerations": [_GPU],
        },
        {**_USUAL, "tolerations": [_GPU]},
    ),
    "huge pages": (
        "default",
        {"containers": [container(limits={"hugepages-2Mi": "4Mi", "memory": "1Gi"})]},
        _USUAL,
    ),
    "a limit of the whole": (
        "default",
        {"resources": _CPU2},
        {**_USUAL, "resources": {**_CPU2, "requests": {"cpu": "2"}}},
    ),
    "a limit of the whole, and requests of containers": (
        "default",
        {"resources": _CPU2, "containers": [_HALF], "initContainers": [_SIDECAR]},
        {**_USUAL, "resources": {**_CPU2, "requests": {"cpu": "800m"}}},
    ),
    "a limit of the whole, and the request of a first one": (
        "default",
        {
            "resources": _CPU2,
            "containers": [_HALF],
            "initContainers": [container({"cpu": "1500m"}, name="i")],
        },
        {**_USUAL, "resources": {**_CPU2, "requests": {"cpu": "1500m"}}},
    ),
    "huge pages of the whole": (
        "default",
        {
            "resources": {"limits": {"memory": "1Gi"}},
            "containers": [container({"memory": "64Mi"}, {"hugepages-2Mi": "4Mi"})],
        },
        {
            **_USUAL,
            "resources": {
                "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"},
                "requests": {"memory": "64Mi", "hugepages-2Mi": "4Mi"},
            },
        },
    ),
    "a default of a range is not the whole's": (
        "ranges",
        {"resources": _CPU2},
        {**_USUAL, "resources": {**_CPU2, "requests": {"cpu": "2"}}},
    ),
    "a range does not see overhead": (
        "whole-pods",
        {"runtimeClassName": "kata", "containers": [container(limits={"cpu": "2"})]},
        {**_USUAL, **_KATA},
    ),
    "a range sees the whole": (
        "whole-pods",
        {"resources": {"limits": {"cpu": "3"}}},
        "maximum cpu usage per Pod is 2, but limit is 3",
    ),
    "a quota sees overhead": (
        "quotas",
        {"runtimeClassName": "kata", "containers": [container(limits={"cpu": "3"})]},
        "exceeded quota: usual, requested: requests.cpu=3250m, used: requests.cpu=0, limited: requests.cpu=3",
    ),
    "a quota sees the whole": (
        "quotas",
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "7"}}},
        "exceeded quota: usual, requested: limits.cpu=7, used: limits.cpu=0, limited: limits.cpu=6",
    ),
    "a quota is told by the whole": (
        "quotas",
        {"resources": _CPU2},
        {**_USUAL, "resources": {**_CPU2, "requests": {"cpu": "2"}}},
    ),
    "a GPU alone is best effort": (
        "not-best-effort",
        {"containers": [container(limits={"nvidia.com/gpu": "1"})]},
        {**_USUAL, "tolerations": [_GPU]},
    ),
    "requests of the whole are more than best effort": (
        "not-best-effort",
        {"resources": {"requests": {"cpu": "1"}}},
        "exceeded quota: usual, requested: pods=1, used: pods=0, limited: pods=0",
    ),
    "a class of priority": (
        "default",
        {"priorityClassName": "high"},
        {"priority": 1000, "priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
    ),
    "a policy that its class has not": (
        "default",
        {"priorityClassName": "high", "preemptionPolicy": "Never"},
        _NOT_ALLOWED.format("Never", "PreemptLowerPriority"),
    ),
    "a policy that the default class has not": (
        "default",
        {"preemptionPolicy": "PreemptLowerPriority"},
        _NOT_ALLOWED.format("PreemptLowerPriority", "Never"),
    ),
}

# Resources that no server takes: what its complaint says, whatever else it says.
INVALID: dict[str, tuple[Document, str]] = {
    "less than its containers": (
        {"resources": {"requests": {"cpu": "1"}}, "containers": [container({"cpu": "2"})]},
        "must be greater than or equal to aggregate container requests of 2",
    ),
    "a limit below a container's": (
        {"resources": {"limits": {"cpu": "1"}}, "containers": [container({"cpu": "1"}, {"cpu": "2"})]},
        "must be less than or equal to pod limits of 1",
    ),
    "a device": ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "nvidia.com/gpu"),
    "a request of a device alone": (
        {"containers": [container({"nvidia.com/gpu": "1"})]},
        "Limit must be set for non overcommitable resources",
    ),
    "fewer devices than the limit": (
        {"containers": [container({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"})]},
        "must be equal to nvidia.com/gpu limit of 2",
    ),
    "half a device": (
        {"containers": [container(limits={"nvidia.com/gpu": "500m"})]},
        "must be an integer",
    ),
    "huge pages without a limit": (
        {"containers": [container({"hugepages-2Mi": "4Mi", "memory": "1Gi"})]},
        "Limit must be set for non overcommitable resources",
    ),
}


def seen(made: Document) -> Document:
    """Those fields of a pod, without what every pod tolerates for a while."""
    spec = {name: made["spec"][name] for name in FIELDS if made["spec"].get(name)}
    own = [one for one in spec.pop("tolerations", ()) if not one["key"].startswith("node.kubernetes.io/")]
    return {**spec, **({"tolerations": own} if own else {})}
