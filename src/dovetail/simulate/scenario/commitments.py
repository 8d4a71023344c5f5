"""Savings plans, reserved instances and licences, read and found sound: the file of `--commitments`, and the
section `commitments` of a scenario.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

from dovetail.cost.commitments import Commitment, Licence, Terms
from dovetail.simulate.scenario.document import Document
from dovetail.simulate.scenario.traffic import Section
from dovetail.units.money import parse_dollars
from dovetail.units.timestamp import parse_rfc3339

Amount = str | int | float  # dollars


class _Named(Section, frozen=True, kw_only=True):
    name: str


class PlanSection(_Named, frozen=True, kw_only=True):
    """A savings plan: so many dollars an hour, at a discount or at rates by type."""

    hourly: Amount
    discount: str = ""
    rates: dict[str, Amount] = {}
    instance_families: tuple[str, ...] = ()
    start: str = ""
    end: str = ""


class ReservedSection(_Named, frozen=True, kw_only=True):
    """Reserved instances; `hourly` is what an hour of one costs, what was paid upfront included."""

    instance_type: str
    hourly: Amount
    count: int = 1
    zone: str = ""
    start: str = ""
    end: str = ""


class LicenceSection(_Named, frozen=True, kw_only=True):
    """Paid for every vCPU of nodes of these pools, or types."""

    per_core_hour: Amount
    pools: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()


class Commitments(Section, frozen=True, kw_only=True):
    """All that was agreed on."""

    savings_plans: tuple[PlanSection, ...] = ()
    reserved_instances: tuple[ReservedSection, ...] = ()
    licences: tuple[LicenceSection, ...] = ()


def read_terms(path: Path) -> Terms:
    """Raises InputError for anything that is wrong."""
    document = Document.read(path)
    if not isinstance(document.value, dict):
        remedy = "begin with savingsPlans:, reservedInstances: or licences:"
        raise document.error("a file of commitments is a map of lists", remedy=remedy)
    found = terms_of(document, document.decode(Commitments))
    if found is None:
        raise document.error("there is nothing in it", remedy="name a savings plan, or leave the file out")
    return found


def terms_of(document: Document, given: Commitments, section: str = "") -> Terms | None:
    """What a document, or that section of it, says; None for nothing. Raises InputError."""
    inside = f"{section}." if section else ""
    sections: tuple[_Named, ...] = (*given.savings_plans, *given.reserved_instances, *given.licences)
    names = [one.name for one in sections]
    if not names:
        return None
    if len(set(names)) < len(names):
        raise document.error(f"the name {max(names, key=names.count)!r} is there more than once", section)
    plans = [
        _plan(document, f"{inside}savingsPlans[{at}]", one) for at, one in enumerate(given.savings_plans)
    ]
    reserved = [
        _reserved(document, f"{inside}reservedInstances[{at}]", one)
        for at, one in enumerate(given.reserved_instances)
    ]
    licences = [_licence(document, f"{inside}licences[{at}]", one) for at, one in enumerate(given.licences)]
    return Terms((*plans, *reserved), tuple(licences))


def _plan(document: Document, path: str, one: PlanSection) -> Commitment:
    if bool(one.discount) == bool(one.rates):
        raise document.error(
            "it has a discount or rates, one of the two", path, remedy="such as discount: 28%"
        )
    start, end = _span(document, path, one.start, one.end)
    return Commitment(
        name=one.name,
        hourly=_above_0(document, f"{path}.hourly", one.hourly),
        discount=document.parse(f"{path}.discount", _discount, one.discount) if one.discount else 0,
        rates={
            kind: _above_0(document, f"{path}.rates.{kind}", amount) for kind, amount in one.rates.items()
        },
        families=one.instance_families,
        start=start,
        end=end,
    )


def _reserved(document: Document, path: str, one: ReservedSection) -> Commitment:
    if not 0 < one.count <= 100_000:
        raise document.error(f"{one.count} is no number of instances", f"{path}.count")
    start, end = _span(document, path, one.start, one.end)
    hourly = _above_0(document, f"{path}.hourly", one.hourly)
    return Commitment(
        name=one.name,
        hourly=hourly * one.count,
        rates={one.instance_type: hourly},
        types=(one.instance_type,),
        zones=(one.zone,) if one.zone else (),
        start=start,
        end=end,
        reserved=True,
    )


def _licence(document: Document, path: str, one: LicenceSection) -> Licence:
    if not (one.pools or one.instance_types):
        raise document.error("it names neither pools nor instanceTypes", path)
    price = _above_0(document, f"{path}.perCoreHour", one.per_core_hour)
    return Licence(one.name, price, one.pools, one.instance_types)


def _above_0(document: Document, path: str, amount: Amount) -> int:
    found = document.parse(path, parse_dollars, str(amount))
    if not found:
        remedy = "spread what was paid upfront over its hours" if path.endswith("hourly") else ""
        raise document.error("it must be more than 0", path, remedy=remedy)
    return found


def _span(document: Document, path: str, start: str, end: str) -> tuple[int | None, int | None]:
    since, until = (
        document.parse(f"{path}.{name}", parse_rfc3339, text) if text else None
        for name, text in (("start", start), ("end", end))
    )
    if since is not None and until is not None and until <= since:
        raise document.error("it ends before it begins", f"{path}.end")
    return since, until


def _discount(text: str) -> int:
    """Millionths."""
    try:
        percent = Decimal(text.strip().removesuffix("%"))
    except InvalidOperation:
        percent = Decimal("NaN")
    if not text.strip().endswith("%") or not percent.is_finite() or not 0 < percent < 100:
        raise ValueError(f"{text!r} is no discount such as 28%")
    return int(percent * 10_000)
