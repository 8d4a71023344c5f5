"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.api.core import Taint, Toleration
from dovetail.model.label_values import integer

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)  # those that keep a pod away; the third only asks


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True iff this toleration covers the taint. Empty key (with Exists) and empty effect cover all."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration, taint)
    return toleration.operator == "Exists"


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    """The taints that no toleration covers, in their order."""
    return tuple(taint for taint in taints if not any(tolerates(item, taint) for item in tolerations))


def taint_text(taint: Taint) -> str:
    """`key=value:Effect`, or `key:Effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def same_taint(a: Taint, b: Taint) -> bool:
    """Taints are distinguished by key and effect; the value and the time are what may change."""
    return (a.key, a.effect) == (b.key, b.effect)


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Gt and Lt: the taint's value is an integer greater (less) than the toleration's."""
    there, bound = integer(taint.value), integer(toleration.value)
    if there is None or bound is None:
        return False
    return there > bound if toleration.operator == "Gt" else there < bound
