"""Writing the report of a simulation to a file."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from dovetail.base.clock import SECOND
from dovetail.simulate.run import Result
from dovetail.views.page.document import write_page
from dovetail.views.report.page import Period, render


def period_of(result: Result) -> Period:
    """What a simulation covers, in the zone of its scenario."""
    file = result.scenario.file
    local = datetime.fromtimestamp(result.start // SECOND, ZoneInfo(file.timezone))
    offset = local.utcoffset() or timedelta()
    return Period(
        start=result.start,
        end=result.end,
        zone=file.timezone,
        offset_seconds=round(offset.total_seconds()),
        region=file.region,
        terms=result.scenario.terms,
    )


def write_report(result: Result, path: Path) -> None:
    """One self-contained HTML file; raises InputError when it cannot be written."""
    page = render(result.scenario.file.name, period_of(result), result.records, result.summary)
    write_page(page, path)
