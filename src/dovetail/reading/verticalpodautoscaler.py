"""What a VerticalPodAutoscaler (autoscaling.k8s.io) says: whose requests it changes, when, and to what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.reading.kinds import DEFAULT_NAMESPACE, group_of
from dovetail.reading.located import Located
from dovetail.units.quantity import Quantity, parse_quantity

_GROUP, KIND = "autoscaling.k8s.io", "VerticalPodAutoscaler"
_OFF = "Off"
_BOUNDS = ("target", "lowerBound", "upperBound")


@dataclass(frozen=True, slots=True)
class Recommended:
    """For one resource of a container. Bounds are None where they are not said."""

    target: Quantity
    lower: Quantity | None
    upper: Quantity | None


@dataclass(frozen=True, slots=True)
class VerticalPodAutoscaler:
    """`target` as (kind, namespace/name); `recommended` by (container, resource), CPU and memory alone."""

    key: str
    target: tuple[str, str]
    mode: str
    recommended: Mapping[tuple[str, str], Recommended]

    @property
    def changes_pods(self) -> bool:
        """True iff pods that are made get what it recommends."""
        return self.mode != _OFF


def is_vertical(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == KIND and group_of(str(document.get("apiVersion", ""))) == _GROUP


def vertical_autoscalers(found: Iterable[Located]) -> Iterator[VerticalPodAutoscaler]:
    """Of their objects, in order; what no server would have written of them is left out."""
    for located in found:
        document = located.value
        meta, spec, status = (_map(document.get(key)) for key in ("metadata", "spec", "status"))
        space = str(meta.get("namespace") or DEFAULT_NAMESPACE)
        target = _map(spec.get("targetRef"))
        mode = _map(spec.get("updatePolicy")).get("updateMode") or "Recreate"
        policies = _list(_map(spec.get("resourcePolicy")).get("containerPolicies"))
        unmanaged = {str(one.get("containerName")) for one in policies if one.get("mode") == _OFF}
        listed = _list(_map(status.get("recommendation")).get("containerRecommendations"))
        yield VerticalPodAutoscaler(
            f"{space}/{meta.get('name', '')}",
            (str(target.get("kind", "")), f"{space}/{target.get('name', '')}"),
            str(mode),
            {key: each for one in listed for key, each in _of_container(one, unmanaged)},
        )


def _of_container(
    one: Mapping[str, Any], unmanaged: set[str]
) -> Iterator[tuple[tuple[str, str], Recommended]]:
    name = one.get("containerName")
    if not isinstance(name, str) or name in unmanaged:
        return
    for resource in ("cpu", "memory"):
        target, lower, upper = (_amount(_map(one.get(bound)).get(resource)) for bound in _BOUNDS)
        if target is not None:
            yield (name, resource), Recommended(target, lower, upper)


def _amount(written: Any) -> Quantity | None:
    """More than nothing; None for what is no such amount."""
    try:
        found = parse_quantity(written) if isinstance(written, str | int | float) else None
    except ValueError:
        return None
    return found if found is not None and found.nanos > 0 else None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
