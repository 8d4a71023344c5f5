"""The priority of a new pod, from its class."""

from __future__ import annotations

from typing import Any

from dovetail.api.workloads import PriorityClass
from dovetail.base.errors import Forbidden
from dovetail.kube.memory.store import Store

_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def resolve_priority(store: Store, pod: dict[str, Any]) -> None:
    """Fill in `spec.priority`, and the default class where none is named; changes the document.

    Raises Forbidden for a class that does not exist.
    """
    spec = pod.setdefault("spec", {})
    classes = store.table(PriorityClass).records
    name = spec.get("priorityClassName", "")
    if not name:
        defaults = [
            record.document for record in classes.values() if record.document.get("globalDefault") is True
        ]
        if not defaults:
            spec.setdefault("priority", 0)
            return
        # With several defaults the lowest value counts.
        lowest = min(defaults, key=lambda item: (item.get("value", 0), item["metadata"]["name"]))
        name = spec["priorityClassName"] = lowest["metadata"]["name"]
    found = classes.get(("", name))
    if found is not None:
        spec["priority"] = found.document.get("value", 0)
        spec.setdefault("preemptionPolicy", found.document.get("preemptionPolicy", "PreemptLowerPriority"))
    elif name in _BUILT_IN:
        spec["priority"] = _BUILT_IN[name]
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    else:
        pod_name = pod["metadata"].get("name", "")
        raise Forbidden(f'pods "{pod_name}" is forbidden: no PriorityClass with name {name} was found')
