"""Rules on NodePools and NodeOverlays that the API server cannot check.

Broken ones end up in ValidationSucceeded=False.
"""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Taint
from dovetail.api.karpenter import wellknown
from dovetail.api.karpenter.common_rules import one_integer
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool, Requirement
from dovetail.api.names import label_key_faults, label_value_faults

_NODEPOOL = "karpenter.sh/nodepool"
_HOSTNAME = "kubernetes.io/hostname"
_DOMAINS = ("karpenter.k8s.aws", "karpenter.sh")
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_NUMERIC = ("Gt", "Gte", "Lt", "Lte")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WELL_KNOWN = wellknown.CORE | wellknown.AWS
_KNOWN_VALUES = {
    "karpenter.sh/capacity-type": ("on-demand", "reserved", "spot"),
    "karpenter.k8s.aws/instance-tenancy": ("dedicated", "default"),
}


def validate_node_pool(pool: NodePool) -> tuple[str, ...]:
    """The messages of all broken rules, in the order of the fields; empty for a valid pool."""
    spec = pool.spec.template.spec
    return (
        *_name(pool.metadata.name, _NODEPOOL),
        *_name(spec.node_class_ref.name, f"{spec.node_class_ref.group}/{spec.node_class_ref.kind.lower()}"),
        *_labels(pool.spec.template.metadata.labels),
        *_taints((*spec.taints, *spec.startup_taints)),
        *(message for item in spec.requirements for message in _requirement(item)),
        *(
            f'invalid key: "{_NODEPOOL}" in requirements, restricted'
            for item in spec.requirements
            if item.key == _NODEPOOL
        ),
    )


def validate_node_overlay(overlay: NodeOverlay) -> tuple[str, ...]:
    """The messages of all broken rules, in the order of the fields; empty for a valid overlay."""
    restricted_names = (*wellknown.BASIC_RESOURCES, *wellknown.AWS_RESOURCES)
    return (
        *(message for item in overlay.spec.requirements for message in _overlay_requirement(item)),
        *(
            f"invalid capacity: {name} in resource, restricted"
            for name in sorted(overlay.spec.capacity)
            if name in restricted_names
        ),
    )


def _overlay_requirement(item: Requirement) -> Iterator[str]:
    faults = "; ".join(_requirement(item))
    if faults:
        yield f"invalid value: {faults} in requirements, restricted"
    if item.operator == "NotIn" and not item.values:
        yield f"key {item.key} with operator NotIn must have a value defined"


def _name(name: str, key: str) -> Iterator[str]:
    # No rule of Karpenter: there each NodeClaim is refused, and pods wait that other pools have room for.
    for fault in label_value_faults(name):
        yield f'invalid name "{name}", nodes carry it as label[{key}]: {fault}'


def _labels(labels: dict[str, str]) -> Iterator[str]:
    for key, value in labels.items():
        if key == _NODEPOOL:
            yield f'invalid key name "{key}" in labels, restricted'
        for fault in label_key_faults(key):
            yield f'invalid key name "{key}" in labels, {fault}'
        for fault in label_value_faults(value):
            yield f'invalid value "{value}" for label[{key}], {fault}'
        if restricted(key):
            yield f'invalid key name "{key}" in labels, {restriction(key)}'


def _taints(taints: tuple[Taint, ...]) -> Iterator[str]:
    seen: list[tuple[str, str]] = []
    for taint in taints:
        for fault in label_key_faults(taint.key):
            yield f'invalid taint key "{taint.key}", {fault}'
        for fault in label_value_faults(taint.value):
            yield f'invalid taint value "{taint.value}", {fault}'
        if taint.effect not in _EFFECTS:
            yield f'invalid taint effect "{taint.effect}"'
        pair = (taint.key, taint.effect)
        if pair in seen:
            yield f"duplicate taint Key/Effect pair {taint.key}={taint.effect}"
        seen.append(pair)


def _requirement(item: Requirement) -> Iterator[str]:
    if item.operator not in _OPERATORS:
        supported = " ".join(_OPERATORS)
        yield f"key {item.key} has an unsupported operator {item.operator}, supported operators [{supported}]"
    if restricted(item.key):
        yield restriction(item.key)
    for fault in label_key_faults(item.key):
        yield f"key {item.key} is not a qualified name, {fault}"
    for value in item.values:
        for fault in label_value_faults(value):
            yield f"invalid value {value} for key {item.key}, {fault}"
    if item.operator == "In":
        yield from _in(item)
    if item.operator in _NUMERIC and not one_integer(item.values):
        yield f"key {item.key} with operator {item.operator} must have a single positive integer value"


def _in(item: Requirement) -> Iterator[str]:
    if not item.values:
        yield f"key {item.key} with operator In must have a value defined"
    elif len(item.values) < (item.min_values or 0):
        yield (
            f"key {item.key} with operator In must have at least minimum number of values "
            "defined in 'values' field"
        )
    known = _KNOWN_VALUES.get(item.key)
    if known and item.values and not any(value in known for value in item.values):
        given = " ".join(item.values)
        yield (
            f"no valid values found in [{given}] for {item.key}, "
            f"expected one of: [{' '.join(known)}], got: [{given}]"
        )


def restricted(key: str) -> bool:
    """True iff users may not set this label: the host name, or one of Karpenter's own that is not known."""
    if key in _WELL_KNOWN:
        return False
    domain = key.rpartition("/")[0]
    return key == _HOSTNAME or any(domain == name or domain.endswith(f".{name}") for name in _DOMAINS)


def restriction(key: str) -> str:
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; "
        f"specify a well known label: [{' '.join(sorted(_WELL_KNOWN))}], "
        f"or a custom label that does not use a restricted domain: [{' '.join(_DOMAINS)}]"
    )
