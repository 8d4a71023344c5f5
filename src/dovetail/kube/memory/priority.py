"""What admission plugins say of a new pod: its priority, from its class, and its overhead."""

from __future__ import annotations

from typing import Any

from dovetail.api.workloads import PriorityClass
from dovetail.base.errors import Forbidden
from dovetail.kube.memory.store import Store

_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def resolve_priority(store: Store, pod: dict[str, Any]) -> None:
    """Fill in `spec.priority`, and the default class where none is named; changes the document.

    Raises Forbidden for a class that does not exist, and for a priority that is not the class's.
    """
    spec = pod.setdefault("spec", {})
    given = spec.pop("priority", None)
    _resolve(store, pod, spec)
    if given is not None and given != spec["priority"]:
        raise _forbidden(
            pod,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission"
            f" controller computed {spec['priority']} from the given PriorityClass name",
        )


def check_overhead(pod: dict[str, Any]) -> None:
    """Raises Forbidden for overhead that no RuntimeClass defines; there are none here."""
    if pod.get("spec", {}).get("overhead"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _forbidden(pod, why)


def _resolve(store: Store, pod: dict[str, Any], spec: dict[str, Any]) -> None:
    classes = store.table(PriorityClass).records
    name = spec.get("priorityClassName", "")
    if not name:
        defaults = [
            record.document for record in classes.values() if record.document.get("globalDefault") is True
        ]
        if not defaults:
            spec["priority"] = 0
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
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")


def _forbidden(pod: dict[str, Any], why: str) -> Forbidden:
    return Forbidden(f'pods "{pod["metadata"].get("name", "")}" is forbidden: {why}')
