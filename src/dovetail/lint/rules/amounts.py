"""WL: what containers ask for, resource by resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.pod_resources import NOT_OF_CONTAINERS, name_fault
from dovetail.lint import shelf
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, Template
from dovetail.units.quantity import Quantity

_LEAST_MEMORY = 1 << 20  # bytes: the smallest process takes more
_MOST_CPU = 1000  # cores: no machine that is sold has as many
_MILLION = 1_000_000  # cores: what was written with the suffix M


@dataclass(frozen=True, slots=True)
class _Asked:
    """An amount, and where it is written."""

    template: Template
    container: str
    path: str
    resource: str
    amount: Quantity


def _asked(inventory: Inventory) -> Iterator[_Asked]:
    for template in inventory.templates:
        for field, containers in (
            ("initContainers", template.spec.init_containers),
            ("containers", template.spec.containers),
        ):
            for index, container in enumerate(containers):
                asked = (("requests", container.resources.requests), ("limits", container.resources.limits))
                for part, amounts in asked:
                    path = f"{template.path}.{field}[{index}].resources.{part}"
                    for name, amount in amounts.items():
                        yield _Asked(template, container.name, f"{path}.{name}", name, amount)


@rule("WL014", "resource-misspelt", Severity.ERROR, "A request or a limit of a resource that is none")
def resource_misspelt(inventory: Inventory) -> Iterator[Remark]:
    for one in _asked(inventory):
        near = shelf.meant_resource(one.resource)
        if near or name_fault(one.resource) == NOT_OF_CONTAINERS:
            yield Remark(
                one.template.manifest.located,
                one.path,
                f"{one.template.name} asks for {one.resource}, which no node has",
                "the API server refuses the name, or the pods never schedule",
                f"did you mean {near}?" if near else "write cpu, memory, or a device with its domain",
            )


@rule("WL017", "amount-without-its-unit", Severity.WARNING, "Memory in bytes, or CPU in thousands of cores")
def amount_without_its_unit(inventory: Inventory) -> Iterator[Remark]:
    for one in _asked(inventory):
        wrong = _out_of_range(one.resource, one.amount)
        if wrong:
            yield Remark(
                one.template.manifest.located,
                one.path,
                f"container {one.container} of {one.template.name} has {one.amount} of {one.resource}",
                *wrong,
            )


def _out_of_range(resource: str, amount: Quantity) -> tuple[str, str] | None:
    """Why an amount cannot be meant, and what may be; None for one that can."""
    value = amount.value()
    if resource in ("memory", "ephemeral-storage") and 0 < value < _LEAST_MEMORY:
        number = value if amount == Quantity(value * 1_000_000_000) else amount.milli()
        why = "without a suffix it is bytes, with m thousandths of one: such pods count as nothing"
        return why, f"write {number}Mi if megabytes are meant"
    if resource == "cpu" and value >= _MOST_CPU:
        number = value // _MILLION if value >= _MILLION else value
        return (
            "no machine has that many cores: the pods stay pending",
            f"write {number}m if thousandths are meant",
        )
    return None


RULES = (resource_misspelt, amount_without_its_unit)
