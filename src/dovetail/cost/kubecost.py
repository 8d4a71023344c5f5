"""Parameters that Kubecost has and OpenCost does not, as OpenCost's language says the same.

Its older filters (`filterNamespaces=shop,kube-*`, one parameter for each field), and what is shared
(`shareNamespaces`, `shareLabels`, `shareCost`, `shareSplit`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dovetail.cost.aggregate import Split
from dovetail.cost.filters import Test, parse_filter
from dovetail.units.money import HOURS_A_MONTH

_FIELDS = {
    "Clusters": "cluster",
    "Nodes": "node",
    "Namespaces": "namespace",
    "ControllerKinds": "controllerKind",
    "Controllers": "controllerName",
    "Pods": "pod",
    "Containers": "container",
    "Services": "services",
    "Labels": "label",
    "Annotations": "annotation",
}
_SPLITS: dict[str, Split] = {"": "__weighted__", "weighted": "__weighted__", "even": "__even__"}


def filter_text(query: Mapping[str, str]) -> str:
    """`filter` and all older filters together, in OpenCost's language; "" keeps everything.

    Raises ValueError for a value that cannot be said.
    """
    parts = [text] if (text := query.get("filter", "").strip()) else []
    for name, field in _FIELDS.items():
        if given := query.get(f"filter{name}", ""):
            parts.append("|".join(_comparisons(f"filter{name}", field, given)))
    return parts[0] if len(parts) == 1 else "+".join(f"({part})" for part in parts)


def shared(query: Mapping[str, str]) -> Test | None:
    """What the others bear: namespaces and labels. Raises ValueError as above."""
    parts: list[str] = []
    for name, field in (("shareNamespaces", "namespace"), ("shareLabels", "label")):
        if given := query.get(name, ""):
            parts += _comparisons(name, field, given)
    return parse_filter("|".join(parts))


def shared_hourly(query: Mapping[str, str]) -> dict[str, float]:
    """Dollars an hour that they bear besides; `shareCost` is dollars a month. Raises ValueError."""
    text = query.get("shareCost", "")
    if not text:
        return {}
    try:
        monthly = float(text)
    except ValueError:
        monthly = -1.0
    if not 0 <= monthly < math.inf:
        raise ValueError(f"Invalid 'shareCost' parameter: {text!r} is no amount of dollars a month")
    return {"shareCost": monthly / HOURS_A_MONTH}


def split(query: Mapping[str, str]) -> Split:
    """How they bear it. Raises ValueError."""
    text = query.get("shareSplit", "")
    if text not in _SPLITS:
        raise ValueError(f"Invalid 'shareSplit' parameter: {text!r} is neither weighted nor even")
    return _SPLITS[text]


def _comparisons(name: str, field: str, given: str) -> Iterator[str]:
    """One for each value; any of them is enough. `web*` begins so; labels are KEY:VALUE."""
    for value in filter(None, (one.strip() for one in given.split(","))):
        key, colon, rest = value.partition(":")
        if '"' in value or "]" in key or (field in ("label", "annotation") and not (key and colon)):
            raise ValueError(f"Invalid '{name}' parameter: {value!r} cannot be looked for")
        if field in ("label", "annotation"):
            yield f"{field}[{key}]{_met(rest)}"
        elif field == "controllerName" and colon:
            yield f"(controllerKind{_met(key)}+controllerName{_met(rest)})"
        else:
            yield f"{field}{_met(value)}"


def _met(value: str) -> str:
    return f'<~:"{value[:-1]}"' if value.endswith("*") else f':"{value}"'
