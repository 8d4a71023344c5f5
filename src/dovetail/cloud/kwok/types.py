"""Instance types for kwok: the same table as Karpenter's own kwok provider has, or one from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from dovetail.base.errors import InputError
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.model import labels
from dovetail.model.offering import InstanceType

ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
_CPUS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_FAMILIES = {"c": 2, "s": 4, "m": 8}  # GiB of memory per CPU
_GIB = 1 << 30
_MOST_PODS, _PODS_PER_CPU = 1_024, 16
_STORAGE = "20Gi"
# Dollars per hour; by these a dollar buys the same as in Karpenter's table.
_CPU_PRICE, _GIGABYTE_PRICE, _SPOT_SHARE = Decimal("0.025"), Decimal("0.001"), Decimal("0.7")

Document = dict[str, Any]


@lru_cache(maxsize=1)
def default_types() -> tuple[InstanceType, ...]:
    """144 types: 12 sizes, three families, linux and windows, amd64 and arm64; each on demand and spot."""
    return parse_instance_types(list(_table()), source="the table of kwok types")


def read_types(path: Path) -> tuple[InstanceType, ...]:
    """The types of a file, in Karpenter's format for kwok or in Dovetail's own. Raises InputError."""
    source = str(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not JSON: {error}", source=source) from None
    if isinstance(document, list):
        document = [_converted(item, source, f"[{index}]") for index, item in enumerate(document)]
    return parse_instance_types(document, source=source)


def _table() -> Iterator[Document]:
    for cpu in _CPUS:
        for family, factor in _FAMILIES.items():
            for system in ("linux", "windows"):
                for arch in ("amd64", "arm64"):
                    yield _type(cpu, family, factor * cpu * _GIB, system, arch)


def _type(cpu: int, family: str, memory: int, system: str, arch: str) -> Document:
    name = f"{family}-{cpu}x-{arch}-{system}"
    price = _CPU_PRICE * cpu + _GIGABYTE_PRICE * memory / 10**9
    described = {
        labels.INSTANCE_TYPE: name,
        labels.ARCH: arch,
        labels.OS: system,
        labels.KWOK + "instance-size": f"{cpu}x",
        labels.KWOK + "instance-family": family,
        labels.KWOK + "instance-cpu": str(cpu),
        labels.KWOK + "instance-memory": str(memory // (1 << 20)),
    }
    offerings = [
        {
            "price": float(price * share),
            "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type},
        }
        for zone in ZONES
        for capacity_type, share in ((labels.ON_DEMAND, 1), (labels.SPOT, _SPOT_SHARE))
    ]
    capacity = {
        "cpu": str(cpu),
        "memory": str(memory),
        "pods": str(min(_PODS_PER_CPU * cpu, _MOST_PODS)),
        "ephemeral-storage": _STORAGE,
    }
    return {
        "name": name,
        "requirements": [*_in(described), *_spread(offerings)],
        "offerings": offerings,
        "capacity": capacity,
    }


def _in(described: dict[str, str]) -> list[Document]:
    return [{"key": key, "operator": "In", "values": [value]} for key, value in described.items()]


def _spread(offerings: list[Document]) -> list[Document]:
    """Zones and capacity types that the offerings have among them."""
    found: dict[str, dict[str, None]] = {}
    for offering in offerings:
        for key, value in offering["requirements"].items():
            found.setdefault(key, {})[value] = None
    return [{"key": key, "operator": "In", "values": list(values)} for key, values in found.items()]


def _converted(item: Any, source: str, path: str) -> Any:
    """An entry as Karpenter's kwok provider reads it, in Dovetail's own format; others as they are."""
    if not isinstance(item, dict) or "Name" not in item:
        return item
    try:
        offerings = [_offering(offering) for offering in item["Offerings"]]
        systems = [str(system) for system in item.get("OperatingSystems") or ["linux"]]
        described = {labels.INSTANCE_TYPE: str(item["Name"]), labels.ARCH: str(item["Architecture"])}
        system = {"key": labels.OS, "operator": "In", "values": systems}
        return {
            "name": str(item["Name"]),
            "requirements": [*_in(described), system, *_spread(offerings)],
            "offerings": offerings,
            "capacity": {str(name): str(amount) for name, amount in item["Resources"].items()},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"lacks {error}" if isinstance(error, KeyError) else "has a part of another shape",
            source=source,
            path=path,
            remedy="an entry has Name, Architecture, OperatingSystems, Resources, and Offerings with Price,"
            " Available and Requirements",
        ) from None


def _offering(item: Document) -> Document:
    return {
        "price": float(item["Price"]),
        "available": bool(item.get("Available", True)),
        "requirements": {str(one["key"]): str(one["values"][0]) for one in item["Requirements"]},
    }
