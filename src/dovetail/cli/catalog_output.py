"""How `dovetail catalog` is printed: a table, one type in full, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from dovetail.cli.catalog_query import GPUS, cheapest, label, memory_size
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.provenance import HOW, provenance
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, quantities
from dovetail.units.money import dollars
from dovetail.units.quantity import Quantity

_WIDE = 130  # columns from which the table shows more
_PIPED = 160  # columns when the output is no terminal
_GIB = 1 << 30
_ESTIMATED = "~"  # before a price that is no published one


@dataclass(frozen=True, slots=True)
class Answer:
    """`types` are all of the region, `chosen` those to show, in order."""

    region: str
    types: tuple[InstanceType, ...]
    chosen: tuple[InstanceType, ...]
    assumed_region: bool

    def estimate(self, item: InstanceType) -> str:
        """How the type's price on demand was estimated; "" where a list has it."""
        return store.estimates(self.region).get(item.name, "")


def print_table(answer: Answer, limit: int | None) -> None:
    """A row per type; a single type in full."""
    # Piped output has no width of its own: take one that breaks no row.
    console = Console(width=None if sys.stdout.isatty() else _PIPED, highlight=False)
    if answer.assumed_region:
        console.print(f"Region {answer.region}, as none was given (--region).", style="dim")
    if not answer.chosen:
        console.print(f"None of the {len(answer.types)} types of {answer.region} matches.")
    elif len(answer.chosen) == 1:
        _print_one(console, answer.chosen[0], answer.estimate(answer.chosen[0]))
    else:
        console.print(_table(answer, limit, wide=console.width >= _WIDE))
    for line in _notes(answer, limit):
        console.print(line, style="dim")


def print_json(answer: Answer, limit: int | None) -> None:
    """Everything, prices in dollars per hour."""
    region, where = store.live(answer.region), provenance(answer.region)
    document = {
        "region": answer.region,
        "sources": {"aws": region.asked} if region is not None else store.load().sources,
        "prices": where.document(),
        "typesInRegion": len(answer.types),
        "withoutPrice": where.unknown,
        "withEstimatedPrice": sum(where.estimated.values()),
        "matching": len(answer.chosen),
        "types": [_document(item, answer.estimate(item)) for item in answer.chosen[:limit]],
    }
    print(json.dumps(document, indent=2))


def _notes(answer: Answer, limit: int | None) -> Iterable[str]:
    shown = len(answer.chosen[:limit])
    if len(answer.chosen) > 1:
        which = f"{shown} of " if shown < len(answer.chosen) else ""
        rest = "; --limit 0 shows all" if which else ""
        yield f"{which}{len(answer.chosen)} matching types{rest}. --name TYPE shows one in full."
    yield f"{answer.region} sells {len(answer.types)} types."
    yield provenance(answer.region).sentence()


def _grid(*headings: str) -> Table:
    """An open table; headings that begin with ">" are of numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        number = heading.startswith(">")
        table.add_column(heading.removeprefix(">"), justify="right" if number else "left", no_wrap=True)
    return table


def _table(answer: Answer, limit: int | None, *, wide: bool) -> Table:
    types = answer.chosen[:limit]
    gpus = any(_gpus(item) for item in types)
    columns = ["type", "arch", ">vCPU", ">memory", *([">GPU"] if gpus else [])]
    columns += [">pods get\nCPU", ">\nmemory", ">\npods"]
    columns += [">\ndisk", ">network\nMbps", ">local\nNVMe"] if wide else []
    table = _grid(*columns, ">on-demand\n$/h", ">spot from\n$/h", "zones")
    for item in types:
        prices = _prices(item)
        row = [*_row(item, wide=wide, gpus=gpus), *prices, _zones(item.offerings)]
        table.add_row(*row, style="dim" if cheapest(item) is None else "")
    return table


def _row(item: InstanceType, *, wide: bool, gpus: bool) -> list[str]:
    room = item.allocatable()
    row = [item.name, label(item, labels.ARCH), str(item.capacity[CPU] // 1000), _gib(memory_size(item))]
    if gpus:
        kind = label(item, labels.AWS + "instance-gpu-name") if wide else ""
        row.append(f"{_gpus(item)} {kind}".strip() if _gpus(item) else "")
    row += [f"{room[CPU] / 1000:.2f}", _gib(room[MEMORY]), str(room[PODS])]
    if wide:
        nvme = label(item, labels.AWS + "instance-local-nvme")
        bandwidth = label(item, labels.AWS + "instance-network-bandwidth")
        row += [_gib(room[EPHEMERAL_STORAGE]), bandwidth, f"{nvme}G" if nvme else ""]
    return row


def _prices(item: InstanceType) -> tuple[str, str]:
    return _cheapest(item, labels.ON_DEMAND), _cheapest(item, labels.SPOT)


def _cheapest(item: InstanceType, capacity_type: str) -> str:
    price = cheapest(item, capacity_type)
    estimated = any(
        one.estimated for one in item.offerings if (one.capacity_type, one.price) == (capacity_type, price)
    )
    return _price(price, _ESTIMATED if estimated else "")


def _gpus(item: InstanceType) -> int:
    return sum(item.capacity.get(name, 0) for name in GPUS)


def _print_one(console: Console, item: InstanceType, estimate: str) -> None:
    console.print(f"[bold]{item.name}[/]\n")
    facts = _grid("label", "value")
    for key in sorted(item.requirements.by_key):
        if label(item, key):
            facts.add_row(key, label(item, key))
    console.print(facts)
    parts = {
        "capacity": item.capacity,
        "kube-reserved": item.overhead.kube_reserved,
        "system-reserved": item.overhead.system_reserved,
        "eviction": item.overhead.eviction_threshold,
        "allocatable": item.allocatable(),
    }
    room = _grid("resource", *(f">{heading}" for heading in parts))
    for name in sorted(item.capacity):
        if item.capacity[name]:
            room.add_row(name, *(_amount(name, part.get(name, 0)) for part in parts.values()))
    console.print(room)
    sold = _grid("zone", "capacity type", ">$/h")
    for offering in item.offerings:
        price = offering.price if offering.available else None
        mark = _ESTIMATED if offering.estimated else ""
        sold.add_row(offering.zone, offering.capacity_type, _price(price, mark))
    console.print(sold)
    if estimate:
        console.print(f"No list has its price on demand: it is estimated from {HOW[estimate]}.")


def _document(item: InstanceType, estimate: str) -> dict[str, Any]:
    named = {key: label(item, key) for key in sorted(item.requirements.by_key)}
    return {
        "name": item.name,
        "labels": {key: value for key, value in named.items() if value},
        "capacity": _texts(item.capacity),
        "overhead": {
            "kubeReserved": _texts(item.overhead.kube_reserved),
            "systemReserved": _texts(item.overhead.system_reserved),
            "evictionThreshold": _texts(item.overhead.eviction_threshold),
        },
        "allocatable": _texts(item.allocatable()),
        "estimatedFrom": HOW[estimate] if estimate else None,
        "offerings": [
            {
                "zone": offering.zone,
                "capacityType": offering.capacity_type,
                "price": dollars(offering.price) if offering.price else None,
                "available": offering.available,
                "estimated": offering.estimated,
            }
            for offering in item.offerings
        ],
    }


def _texts(resources: Resources) -> dict[str, str]:
    written = quantities(resources)
    for name in written.keys() & {MEMORY, EPHEMERAL_STORAGE}:
        written[name] = Quantity(written[name].nanos, "binary")
    return {name: str(quantity) for name, quantity in sorted(written.items())}


def _amount(name: str, amount: int) -> str:
    if not amount:
        return ""
    if name in (MEMORY, EPHEMERAL_STORAGE):
        return _gib(amount)
    return f"{amount / 1000:g}" if name == CPU else str(amount)


def _gib(amount: int) -> str:
    text = f"{amount / _GIB:.{2 if abs(amount) < 10 * _GIB else 1}f}"
    return f"{text.rstrip('0').rstrip('.')}Gi"


def _price(price: int | None, mark: str = "") -> str:
    return "–" if price is None else f"{mark}{dollars(price):.4f}"


def _zones(offerings: Iterable[Offering]) -> str:
    """The last letters of the zones: "abc" for us-east-1a, us-east-1b and us-east-1c."""
    return "".join(sorted({offering.zone[-1] for offering in offerings}))
