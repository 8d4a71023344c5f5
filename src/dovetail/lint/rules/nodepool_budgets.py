"""NP: when the budgets of pools let nodes go, and when their schedules come."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from dovetail.api.karpenter.nodepool import Budget
from dovetail.base.clock import DAY, HOUR, SECOND
from dovetail.disrupt import budgets as rule_of_budgets
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, PoolView
from dovetail.model import labels
from dovetail.units.cron import NEVER, Cron
from dovetail.units.duration import format_duration, parse_duration

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_HOURS_A_DAY = 24
_REASONS = ("Empty", "Drifted", "Underutilized")
_NOW = 1_767_225_600 * SECOND  # 2026-01-01: schedules are looked at over the year that begins there
# Where the hours of a region's users are: the time zone that most of them have.
_ZONES = {
    "af-south-1": "Africa/Johannesburg",
    "ap-east-1": "Asia/Hong_Kong",
    "ap-northeast-1": "Asia/Tokyo",
    "ap-northeast-2": "Asia/Seoul",
    "ap-northeast-3": "Asia/Tokyo",
    "ap-south-1": "Asia/Kolkata",
    "ap-south-2": "Asia/Kolkata",
    "ap-southeast-1": "Asia/Singapore",
    "ap-southeast-2": "Australia/Sydney",
    "ap-southeast-3": "Asia/Jakarta",
    "ap-southeast-4": "Australia/Melbourne",
    "ap-southeast-5": "Asia/Kuala_Lumpur",
    "ap-southeast-7": "Asia/Bangkok",
    "ca-central-1": "America/Toronto",
    "ca-west-1": "America/Edmonton",
    "il-central-1": "Asia/Jerusalem",
    "me-central-1": "Asia/Dubai",
    "me-south-1": "Asia/Bahrain",
    "mx-central-1": "America/Mexico_City",
    "sa-east-1": "America/Sao_Paulo",
    "us-east-1": "America/New_York",
    "us-east-2": "America/New_York",
    "us-west-1": "America/Los_Angeles",
    "us-west-2": "America/Los_Angeles",
}


@rule("NP009", "budget-never-opens", _WARNING, "Budgets that never let a node go")
def budget_never_opens(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        budgets = view.pool.spec.disruption.budgets
        zero = [(index, budget) for index, budget in enumerate(budgets) if _is_zero(budget)]
        zone = _zone(view)
        shut = [_shut(zero, reason, zone) for reason in _REASONS]
        if not all(shut):
            continue
        index, budget = shut[0][0]
        when = "it has no schedule"
        if budget.schedule:
            when = " and ".join(f"{item.schedule} for {item.duration}" for _, item in shut[0])
            when += f" never {'end' if len(shut[0]) > 1 else 'ends'}"
        yield Remark(
            view.manifest.located,
            f"spec.disruption.budgets[{index}].nodes",
            f"a budget of {budget.nodes} nodes holds for ever: {when}",
            "empty nodes stay, drift is not rolled out, nothing is consolidated; expiry goes on all the same",
            "give it a schedule and a duration, or name the reasons it is for",
        )


def _zone(view: PoolView) -> str:
    """In which its schedules count; one that there is not is reported elsewhere."""
    return (
        rule_of_budgets.UTC if rule_of_budgets.zone_fault(view.pool) else rule_of_budgets.zone_of(view.pool)
    )


def _is_zero(budget: Budget) -> bool:
    """True iff nothing goes while it applies; one that cannot be read is reported elsewhere."""
    return not rule_of_budgets.fault(budget) and int(budget.nodes.rstrip("%")) == 0


def _shut(zero: Sequence[tuple[int, Budget]], reason: str, zone: str) -> list[tuple[int, Budget]]:
    """The fewest budgets, of those that allow nothing, that leave a reason no time; none if there is any."""
    about = [(index, item) for index, item in zero if item.reasons is None or reason in item.reasons]
    alone = next(([one] for one in about if not _opens([one[1]], zone)), [])
    together = about if len(about) > 1 and not _opens([item for _, item in about], zone) else []
    return alone or together


def _opens(budgets: Sequence[Budget], zone: str) -> bool:
    """True iff within a year or so there is a time at which none of them applies.

    It would begin at the end of one of them.
    """
    for budget in budgets:
        if not budget.schedule:
            return False
        cron, span = Cron.parse(budget.schedule, zone), parse_duration(budget.duration or "0s")
        hit = cron.next_after(_NOW)
        if hit == NEVER:
            return False  # it always applies
        for _ in range(400):
            if hit > _NOW + 366 * DAY:
                break
            if not any(rule_of_budgets.is_active(other, hit + span, zone) for other in budgets):
                return True
            hit = cron.next_after(hit)
    return not budgets


@rule(
    "NP011",
    "budget-schedule",
    _WARNING,
    "A budget whose schedule never comes, begins every hour, or is meant in local time",
)
def budget_schedule(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        zone = _zone(view)
        for index, budget in enumerate(view.pool.spec.disruption.budgets):
            if budget.schedule is None or budget.duration is None:
                continue
            path = f"spec.disruption.budgets[{index}].schedule"
            try:
                cron, span = Cron.parse(budget.schedule, zone), parse_duration(budget.duration)
            except ValueError as error:
                zoned = re.search(r"TZ=(\S*)", budget.schedule)
                yield Remark(
                    view.manifest.located,
                    path,
                    "schedules take no time zone" if zoned else str(error),
                    "until it can be read no node of the pool is disrupted",
                    f"annotate the NodePool {labels.TIME_ZONE}: {zoned[1]}, or count in UTC" if zoned else "",
                    severity=_ERROR,
                )
                continue
            if cron.next_after(_NOW) == NEVER:
                yield Remark(
                    view.manifest.located,
                    path,
                    f"{budget.schedule} never comes",
                    "there is no such date, and such a budget always holds",
                    "mend the date",
                )
            elif found := _every_hour(cron, budget.schedule, zone) or _meant_local(
                view, cron, budget.schedule, span
            ):
                yield Remark(view.manifest.located, path, *found)


def _every_hour(cron: Cron, text: str, zone: str) -> tuple[str, str, str] | None:
    """Of schedules that begin again every hour or every minute, which is seldom meant."""
    minute, hour, *days = cron.fields.split()
    written = text.split()[2:] if len(text.split()) == 5 else days
    every = len(hour.split(",")) == _HOURS_A_DAY or hour == "*"
    why = "the first field of a schedule is the minute, the second the hour"
    if every and minute.isdecimal():
        first = int(minute)
        meant = f"0 {first} {' '.join(written)}" if 0 < first < _HOURS_A_DAY else f"{first} 0 * * *"
        what = f"{text} begins every hour, at minute {first}"
        when = f"{first:02}:00" if 0 < first < _HOURS_A_DAY else f"00:{first:02}"
        return what, why, f"for {when} {zone} write {meant!r}"
    if len(minute.split(",")) > 1 or minute == "*":
        often = "every minute" if minute == "*" else f"{len(minute.split(','))} times an hour"
        hours = "of every hour" if every else f"of hour {hour.replace(',', ', ')}"
        return f"{text} begins {often} {hours}", why, f"write the minute, such as 0 {text.split()[1]} * * *"
    return None


def _meant_local(view: PoolView, cron: Cron, text: str, span: int) -> tuple[str, str, str] | None:
    """Of hours that look like a working day, and are the night where the pool's nodes are."""
    fields = text.split()
    given = labels.TIME_ZONE in view.pool.metadata.annotations
    name = _ZONES.get(view.region) if view.known and not given else None
    if name is None or len(fields) != 5 or not re.fullmatch(r"\d{1,2}", fields[1]):
        return None
    if not (6 <= int(fields[1]) <= 10 and 6 * HOUR <= span <= 14 * HOUR):
        return None
    hit = datetime.fromtimestamp(cron.next_after(_NOW) // SECOND, UTC)
    here = hit.astimezone(ZoneInfo(name))
    offset = (here.utcoffset().total_seconds() if here.utcoffset() else 0) / 3600  # type: ignore[union-attr]
    if abs(offset) < 3:
        return None
    end = datetime.fromtimestamp(hit.timestamp() + span / SECOND, UTC).astimezone(ZoneInfo(name))
    fixed = f"{fields[0]} {int(int(fields[1]) - offset) % 24} {' '.join(fields[2:])}"
    return (
        f"{text} for {format_duration(span)} counts in UTC",
        f"in {name} that is {here:%H:%M} to {end:%H:%M}, though the hours look like a working day",
        f"if local time is meant, annotate the NodePool {labels.TIME_ZONE}: {name}, or write {fixed!r} "
        "(mind the days; Karpenter knows no other zone than UTC)",
    )


RULES = (budget_never_opens, budget_schedule)
