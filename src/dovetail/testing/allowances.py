"""LimitRanges, ResourceQuotas and pods, with what a real API server of 1.36 makes of them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def limit_range(*items: Document, name: str = "usual") -> Document:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": list(items)}}


def quota(hard: Document, **spec: Any) -> Document:
    """`spec` are its scopes."""
    meta = {"name": "few", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard, **spec}}


def scoped(name: str, operator: str, *values: str) -> Document:
    """The part of a quota's spec that selects pods by one scope."""
    term: Document = {"scopeName": name, "operator": operator}
    if values:
        term["values"] = list(values)
    return {"scopeSelector": {"matchExpressions": [term]}}


def pod(name: str, resources: Document) -> Document:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.9", "resources": resources}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


USUAL = limit_range(
    {
        "type": "Container",
        "max": {"cpu": "2"},
        "default": {"memory": "512Mi"},
        "defaultRequest": {"cpu": "250m"},
        "min": {"memory": "100Mi"},
    }
)
RATIO = limit_range({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}})
WHOLE = limit_range({"type": "Pod", "max": {"cpu": "1"}})
FEW = quota({"pods": "2", "requests.cpu": "600m"})
TOLD = quota({"limits.cpu": "1", "requests.cpu": "1"})

# LimitRanges and quotas, what a container says, and what it has then.
ADMITTED: tuple[tuple[list[Document], Document, Document], ...] = (
    ([], {}, {}),
    (
        [USUAL],
        {},
        {"limits": {"cpu": "2", "memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "512Mi"}},
    ),
    (
        [USUAL],
        {"requests": {"cpu": "1"}},
        {"limits": {"cpu": "2", "memory": "512Mi"}, "requests": {"cpu": "1", "memory": "512Mi"}},
    ),
    (
        [USUAL],
        {"limits": {"cpu": "1"}},
        {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "1", "memory": "512Mi"}},
    ),
    (
        [RATIO],
        {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
        {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
    ),
    ([FEW], {"requests": {"cpu": "600m"}}, {"requests": {"cpu": "600m"}}),
)

_300 = {"requests": {"cpu": "300m"}}
# The same, pods that are there, and why one more is refused.
REFUSED: tuple[tuple[list[Document], list[Document], Document, str], ...] = (
    ([USUAL], [], {"limits": {"cpu": "3"}}, "maximum cpu usage per Container is 2, but limit is 3"),
    (
        [USUAL],
        [],
        {"requests": {"memory": "50Mi"}},
        "minimum memory usage per Container is 100Mi, but request is 50Mi",
    ),
    (
        [RATIO],
        [],
        {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
    (
        [RATIO],
        [],
        {},
        "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
    ),
    ([WHOLE], [], {}, "maximum cpu usage per Pod is 1.  No limit is specified"),
    ([WHOLE], [], {"limits": {"cpu": "2"}}, "maximum cpu usage per Pod is 1, but limit is 2"),
    (
        [FEW],
        [_300, _300],
        {"requests": {"cpu": "100m"}},
        "exceeded quota: few, requested: pods=1,requests.cpu=100m, used: pods=2,requests.cpu=600m, "
        "limited: pods=2,requests.cpu=600m",
    ),
    (
        [FEW],
        [_300],
        {"requests": {"cpu": "400m"}},
        "exceeded quota: few, requested: requests.cpu=400m, used: requests.cpu=300m, limited: "
        "requests.cpu=600m",
    ),
    ([TOLD], [], {}, "failed quota: few: must specify limits.cpu for: c; requests.cpu for: c"),
)
