"""Equal pods that an object of another group asks for, found by rules that hold for all kinds.

Below `spec`, every map that holds `template.spec.containers` stands for as many pods as its own count
(`replicas`, `instances` ...) and those of the maps around it say. So does a map that holds a count and the
`resources` of a container: by these an operator is told what its pods ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.units.quantity import parse_quantity

Document = dict[str, Any]
# By which operators are told how many pods to make.
COUNTS = ("replicas", "parallelism", "count", "instances", "members", "numberOfInstances", "servers")
# Of what is counted, each is several pods.
_TIMES = ("numOfHosts", "shards")
# Knative counts by annotations of the template.
_MIN_SCALES = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_TEMPLATES = ("template", "podTemplate")
_SPEC = "podSpec"  # as some operators call the spec of a template
_PER_NODE = ("daemonSet", "daemonset")
_DEEPEST = 12
# Of pods, where operators take them beside `resources`: how a value of each looks.
_FIELDS: dict[str, type] = {
    "nodeSelector": dict,
    "tolerations": list,
    "topologySpreadConstraints": list,
    "priorityClassName": str,
    "runtimeClassName": str,
}
_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Copies of one pod: where it was found below the object, and how many."""

    path: str
    name: str  # what distinguishes it from other groups of the object; empty for `spec` itself
    template: Document
    replicas: int
    per_node: bool = False
    owner: Document = field(default_factory=dict)  # the map that holds the template
    made_up: bool = False  # True iff the object holds no template of it, only what it asks for


def pod_groups(
    value: Any, path: str = "spec", name: str = "", copies: int = 1, *, templates_only: bool = False
) -> Iterator[PodGroup]:
    """All groups in a part of an object, of which there are `copies`."""
    return _groups(value, path, name, copies, 0, templates_only)


def _groups(
    value: Any, path: str, name: str, copies: int, depth: int, templates_only: bool
) -> Iterator[PodGroup]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            own = item.get("name") if isinstance(item, dict) else None
            label = str(own) if isinstance(own, str) and own else str(index)
            yield from _groups(item, f"{path}[{index}]", label, copies, depth + 1, templates_only)
        return
    if not isinstance(value, dict):
        return
    count = count_of(value)
    copies *= 1 if count is None else count
    found = False
    for key, item in value.items():
        if key in _TEMPLATES and is_pod_template(item):
            found = True
            replicas = copies if count is not None else _min_scale(item, copies)
            per_node = count is None and path.rpartition(".")[2] in _PER_NODE
            yield PodGroup(path, name, item, replicas, per_node, value)
        elif key == _SPEC and is_pod_template({"spec": item}):
            found = True
            yield PodGroup(f"{path}.{key}", name, {"spec": item}, copies, owner=value)
        elif key in _TEMPLATES and not templates_only and _is_all(_spec_of(item)):
            found = True
            yield made_up(f"{path}.{key}.spec", name, [_of_container(_spec_of(item))], copies, _spec_of(item))
        elif isinstance(item, dict | list):
            inner = name if key in (*_TEMPLATES, "spec") else key
            yield from _groups(item, f"{path}.{key}", inner, copies, depth + 1, templates_only)
    if not found and not templates_only and count is not None and _asks(value.get("resources")):
        yield made_up(path, name, [_of_container(value)], copies, value)


def _of_container(value: Document) -> Document:
    return {"resources": value["resources"]}


def _spec_of(template: Any) -> Document:
    spec = template.get("spec") if isinstance(template, dict) else None
    return spec if isinstance(spec, dict) else {}


def _is_all(spec: Document) -> bool:
    """True iff a template's spec says what each asks for, and not how many there are."""
    return _asks(spec.get("resources")) and count_of(spec) is None


def count_of(value: Document) -> int | None:
    """How many pods a map says that there are; None where it does not."""
    counts = [value[key] for key in COUNTS if type(value.get(key)) is int and value[key] >= 0]
    least, ends = value.get("minReplicas"), value.get("completions")
    found = counts[0] if counts else None
    if type(least) is int and least >= 0:
        found = max(found or 0, least)
    if type(ends) is int and ends >= 0 and found is not None:
        found = min(found, ends)
    for key in _TIMES:
        times = value.get(key)
        if found is not None and type(times) is int and times > 0:
            found *= times
    run = value.get("runPolicy")
    if value.get("suspend") is True or (isinstance(run, dict) and run.get("suspend") is True):
        return 0
    return found


def is_pod_template(value: Any) -> bool:
    """True iff it has containers."""
    containers = _spec_of(value).get("containers")
    return (
        isinstance(containers, list) and bool(containers) and all(isinstance(one, dict) for one in containers)
    )


def made_up(
    path: str,
    name: str,
    containers: list[Document],
    replicas: int,
    *sources: Any,
    labels: Mapping[str, str] | None = None,
) -> PodGroup:
    """Pods of which an object says what they ask for; of where they may go what the later source says."""
    spec: Document = {
        "containers": [
            {"name": f"container-{index}", "image": "unknown", **one} for index, one in enumerate(containers)
        ]
    }
    affinity: Document = {}
    for source in sources:
        if not isinstance(source, dict):
            continue
        spec.update(
            {
                key: source[key]
                for key, kind in _FIELDS.items()
                if isinstance(source.get(key), kind) and source[key]
            }
        )
        # CloudNativePG and others take the one for the other's place.
        inner = source.get("affinity")
        inner = inner if isinstance(inner, dict) else {}
        for part in (source, inner):
            affinity |= {key: part[key] for key in _AFFINITIES if isinstance(part.get(key), dict)}
        for key in ("nodeSelector", "tolerations"):
            if isinstance(inner.get(key), _FIELDS[key]) and inner[key]:
                spec.setdefault(key, inner[key])
    if affinity:
        spec["affinity"] = affinity
    template = {"metadata": {"labels": {**_own_selectors(spec), **(labels or {})}}, "spec": spec}
    return PodGroup(path, name, template, replicas, made_up=True)


def _own_selectors(spec: Document) -> dict[str, str]:
    """The labels by which the pods keep away from each other: nothing else is meant, and an operator sets
    labels that its object does not hold."""
    apart = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    preferred = _maps(apart.get("preferredDuringSchedulingIgnoredDuringExecution"))
    terms = [
        *_maps(apart.get("requiredDuringSchedulingIgnoredDuringExecution")),
        *(one.get("podAffinityTerm") for one in preferred),
        *_maps(spec.get("topologySpreadConstraints")),
    ]
    found: dict[str, str] = {}
    for term in _maps(terms):
        selector = term.get("labelSelector")
        wanted = selector.get("matchLabels") if isinstance(selector, dict) else None
        if isinstance(wanted, dict):
            found.update({key: value for key, value in wanted.items() if isinstance(value, str)})
        for one in _maps(selector.get("matchExpressions") if isinstance(selector, dict) else None):
            values = one.get("values")
            if one.get("operator") == "In" and isinstance(values, list) and values:
                found[str(one.get("key"))] = str(values[0])
    return found


def _maps(value: Any) -> list[Document]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _asks(resources: Any) -> bool:
    """True iff these are resources of a container, of amounts as Kubernetes writes them."""
    if not isinstance(resources, dict):
        return False
    amounts = [resources[key] for key in ("requests", "limits") if resources.get(key)]
    return bool(amounts) and all(map(_is_amounts, amounts))


def _is_amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(is_quantity(amount) for amount in value.values())


def is_quantity(value: Any) -> bool:
    """True iff it is an amount of Kubernetes, and not negative."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        return parse_quantity(value).nanos >= 0
    except ValueError:
        return False


def _min_scale(template: Document, otherwise: int) -> int:
    meta = template.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    for key in _MIN_SCALES:
        text = annotations.get(key) if isinstance(annotations, dict) else None
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10:
            return max(int(text), 1)
    return otherwise
