"""Amounts and demands on labels as people say them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dovetail.model import labels
from dovetail.model.label_values import Requirement
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from dovetail.model.selector import Selector
from dovetail.model.shared_limits import HOURLY_COST
from dovetail.units.money import NANO_DOLLARS

_MIB, _GIB = 2**20, 2**30
_CENT = NANO_DOLLARS // 100
_SHOWN = 4
_NAMES = {
    labels.ZONE: "zone",
    labels.REGION: "region",
    labels.CAPACITY_TYPE: "capacity type",
    labels.INSTANCE_TYPE: "instance type",
    labels.ARCH: "architecture",
    labels.OS: "operating system",
    labels.HOSTNAME: "hostname",
    labels.NODEPOOL: "NodePool",
}


def label(key: str) -> str:
    """A label's everyday name; the key itself where there is none."""
    return _NAMES.get(key) or key.removeprefix(labels.AWS)


def amount(name: str, value: int, *, up: bool = False) -> str:
    """An amount of a resource: 1.5 CPU, 2.1 GiB memory, 3 pods. `up` rounds up, for what is missing."""
    if name == CPU:
        return f"{value / 1000:g} CPU"
    if name == PODS:
        return f"{value} pod{'s' if value != 1 else ''}"
    if name == HOURLY_COST:
        return f"${(math.ceil if up else math.floor)(value / _CENT) / 100:g}/h {name}"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        return f"{_bytes(value, up)} {name}"
    return f"{value} {name}"


def resource(name: str) -> str:
    """A resource's everyday name."""
    return "CPU" if name == CPU else name


def bare(name: str, value: int, *, up: bool = False) -> str:
    """An amount without the resource's name, where that is clear."""
    if name == PODS:
        return str(value)
    return f"{value / 1000:g}" if name == CPU else amount(name, value, up=up).partition(f" {name}")[0]


def _bytes(value: int, up: bool) -> str:
    unit, suffix = (_GIB, "GiB") if abs(value) >= _GIB else (_MIB, "MiB")
    tenths = value * 10 / unit
    return f"{(math.ceil(tenths) if up else math.floor(tenths)) / 10:g} {suffix}"


def rounded_down(name: str, value: int) -> int:
    """The amount that `amount` shows, so that what is said is what was tried."""
    if name not in (MEMORY, EPHEMERAL_STORAGE):
        return value
    unit = _GIB if value >= _GIB else _MIB
    return math.floor(value * 10 / unit) * unit // 10


def demand(item: Requirement) -> str:
    """What is asked of a label: `zone z-b`, `instance-category not c or m`, `no label team`."""
    if not item.complement and not item.values:
        return f"no label {label(item.key)}"
    if item.complement and not item.values and item.gte is None and item.lte is None:
        return f"a label {label(item.key)}"
    return f"{label(item.key)} {values(item)}"


def values(item: Requirement) -> str:
    """What a label may be, without its name."""
    if not item.complement:
        return listed(sorted(item.values), "or") if item.values else "none"
    parts = []
    if item.gte is not None and item.lte is not None:
        parts.append(f"{item.gte} to {item.lte}")
    elif item.gte is not None:
        parts.append(f"at least {item.gte}")
    elif item.lte is not None:
        parts.append(f"at most {item.lte}")
    if item.values:
        parts.append(f"not {listed(sorted(item.values), 'or')}")
    return ", ".join(parts) or "any"


def listed(items: Iterable[str], last: str = "and") -> str:
    """`a, b and c`; long lists say how many more there are."""
    every = list(items)
    if len(every) > _SHOWN + 1:
        return f"{', '.join(every[:_SHOWN])} {last} {len(every) - _SHOWN} more"
    return f" {last} ".join(filter(None, (", ".join(every[:-1]), *every[-1:])))


def selector(chosen: Selector) -> str:
    """A label selector: `app=web, tier in a, b`."""
    if chosen.expressions is None:
        return "no pod at all"
    words = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<", "Gte": ">=", "Lte": "<="}
    parts = []
    for item in chosen.expressions:
        if item.operator == "In" and len(item.values) == 1:
            parts.append(f"{item.key}={item.values[0]}")
        elif item.operator in ("Exists", "DoesNotExist"):
            parts.append(f"{'!' if item.operator == 'DoesNotExist' else ''}{item.key}")
        else:
            parts.append(f"{item.key} {words[item.operator]} {listed(item.values, 'or')}")
    return ", ".join(parts) or "any pod"


def dollars(nanos: int, *, estimated: bool = False) -> str:
    """A price per hour."""
    return f"{'~' if estimated else ''}${nanos / NANO_DOLLARS:.4f}/h"
