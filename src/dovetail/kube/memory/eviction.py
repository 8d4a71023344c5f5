"""Whether the PodDisruptionBudgets let a pod go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.base.errors import ApiError, TooManyRequests
from dovetail.kube.memory.disruption import budgets_of, is_ready
from dovetail.kube.memory.rules import with_condition
from dovetail.kube.memory.store import Store

SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def check_eviction(store: Store, pod: Mapping[str, Any]) -> None:
    """Raises TooManyRequests when a budget forbids the eviction now, ApiError (500) when several match.

    The budgets' status must be up to date.
    """
    meta, status = pod["metadata"], pod.get("status", {})
    # These pods count in no budget, so nothing protects them.
    if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed", "Pending"):
        return
    budgets = budgets_of(store, meta["namespace"], meta.get("labels") or {})
    if len(budgets) > 1:
        raise ApiError(SEVERAL)
    if budgets and not _allows(budgets[0].document, ready=is_ready(pod)):
        raise TooManyRequests(VIOLATES)


def evicted(pod: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The pod with the condition that tells its owner why it goes; `now` as RFC 3339."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }
    return with_condition(pod, condition)


def _allows(budget: Mapping[str, Any], *, ready: bool) -> bool:
    status = budget.get("status", {})
    if not ready:
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return True
        if status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return True
    return bool(status.get("disruptionsAllowed", 0) > 0)
