"""Which instance types a question is about, and in what order: pure, over the catalogue's values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud.catalog.capacity import AMD_GPU, GAUDI, NVIDIA_GPU
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.resources import CPU, MEMORY
from dovetail.units.money import parse_dollars
from dovetail.units.quantity import parse_quantity

CATEGORY = labels.AWS + "instance-category"
FAMILY = labels.AWS + "instance-family"
RAW_MEMORY = labels.AWS + "instance-memory"  # MiB
GPUS = (NVIDIA_GPU, AMD_GPU, GAUDI)


@dataclass(frozen=True, slots=True)
class Query:
    """Everything must hold; an empty or None field asks for nothing. CPU in milli, memory in bytes."""

    categories: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    arch: str = ""
    min_cpu: int | None = None
    max_cpu: int | None = None
    min_memory: int | None = None
    max_memory: int | None = None
    gpu: bool | None = None
    capacity_type: str = ""
    zones: tuple[str, ...] = ()
    max_price: int | None = None  # nano-dollars per hour
    name: str = ""  # a glob


def select(types: Iterable[InstanceType], query: Query) -> tuple[InstanceType, ...]:
    """The types that match, each with only the offerings that match."""
    matching = (_narrow(item, query) for item in types if _matches(item, query))
    return tuple(item for item in matching if item.offerings)


def ordered(types: Iterable[InstanceType], by: str) -> tuple[InstanceType, ...]:
    """By `price` (types without one last), `cpu`, `memory` or `name`; names break ties."""
    if by == "cpu":
        return tuple(sorted(types, key=lambda item: (item.capacity[CPU], item.capacity[MEMORY], item.name)))
    if by == "memory":
        return tuple(sorted(types, key=lambda item: (item.capacity[MEMORY], item.capacity[CPU], item.name)))
    if by == "name":
        return tuple(sorted(types, key=lambda item: item.name))
    return tuple(sorted(types, key=lambda item: (cheapest(item) is None, cheapest(item) or 0, item.name)))


def cheapest(item: InstanceType, capacity_type: str = "") -> int | None:
    """Lowest price of an available offering, in nano-dollars per hour; None where there is none."""
    prices = (
        offering.price
        for offering in item.offerings
        if offering.launchable and capacity_type in ("", offering.capacity_type)
    )
    return min(prices, default=None)


def label(item: InstanceType, key: str) -> str:
    """The label's value; '' where the type lacks it or only the launch decides it."""
    requirement = item.requirements.by_key.get(key)
    if requirement is None or requirement.complement or len(requirement.values) != 1:
        return ""
    return next(iter(requirement.values))


def memory_size(item: InstanceType) -> int:
    """Bytes as EC2 sells them, before the machine's own overhead."""
    return int(label(item, RAW_MEMORY)) << 20


def known(flag: str, values: Iterable[str], valid: Collection[str]) -> tuple[str, ...]:
    """The values; raises InputError for the first that is not valid, with guesses or all that are."""
    chosen = tuple(values)
    for value in chosen:
        if value not in valid:
            remedy = meant(value, valid, f"valid: {', '.join(sorted(valid))}", most=3)
            raise InputError(f"no type here has {value!r}", source=flag, remedy=remedy)
    return chosen


def cpus(flag: str, text: str | None) -> int | None:
    """Milli-CPU of a quantity such as 4 or 500m. Raises InputError."""
    return None if text is None else _quantity(flag, text, 1_000_000)


def memory(flag: str, text: str | None) -> int | None:
    """Bytes of a quantity such as 16Gi; a bare number counts Gi. Raises InputError."""
    if text is None:
        return None
    bare = text.replace(".", "", 1).isdigit()
    return _quantity(flag, f"{text}Gi" if bare else text, 1_000_000_000)


def price_limit(flag: str, text: str | None) -> int | None:
    """Nano-dollars of an amount such as 0.35 or $2. Raises InputError."""
    if text is None:
        return None
    try:
        return parse_dollars(text)
    except ValueError as error:
        raise InputError(str(error), source=flag) from None


def _quantity(flag: str, text: str, unit: int) -> int:
    try:
        nanos = parse_quantity(text).nanos
    except ValueError as error:
        raise InputError(str(error), source=flag) from None
    if nanos < 0:
        raise InputError(f"{text!r} is below zero", source=flag)
    return -(-nanos // unit)


def _matches(item: InstanceType, query: Query) -> bool:
    return (
        (not query.categories or label(item, CATEGORY) in query.categories)
        and (not query.families or label(item, FAMILY) in query.families)
        and query.arch in ("", label(item, labels.ARCH))
        and _within(item.capacity[CPU], query.min_cpu, query.max_cpu)
        and _within(memory_size(item), query.min_memory, query.max_memory)
        and (query.gpu is None or query.gpu == any(item.capacity.get(name) for name in GPUS))
        and (not query.name or fnmatchcase(item.name, query.name))
    )


def _within(amount: int, low: int | None, high: int | None) -> bool:
    return (low is None or amount >= low) and (high is None or amount <= high)


def _narrow(item: InstanceType, query: Query) -> InstanceType:
    kept = tuple(
        offering
        for offering in item.offerings
        if query.capacity_type in ("", offering.capacity_type)
        and (not query.zones or offering.zone in query.zones)
        and (query.max_price is None or (offering.launchable and offering.price <= query.max_price))
    )
    return item if len(kept) == len(item.offerings) else replace(item, offerings=kept)
