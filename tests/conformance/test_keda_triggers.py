"""Recorded answers of KEDA's cron scaler: same verdict on the metadata, same windows at clock changes."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dovetail.base.clock import SECOND
from dovetail.simulate.workloads.keda_cron import CronTrigger, metric_name
from dovetail.units.timestamp import parse_rfc3339

_FILE = Path(__file__).parent / "vectors" / "keda_cron.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_recorded(case: dict[str, Any]) -> None:
    metadata, expected = case["trigger"]["metadata"], case["expected"]
    answer: dict[str, Any] = {}
    try:
        trigger = CronTrigger.parse(metadata)
        answer["metricName"] = metric_name(metadata, case["trigger"]["triggerIndex"])
        times = [seen["time"] for seen in expected.get("observations", ())] or ["2024-03-01T00:00:00Z"]
        answer["observations"] = [_observed(trigger, time) for time in times]
    except ValueError as error:
        answer["error"] = str(error)
    assert answer == expected


def _observed(trigger: CronTrigger, time: str) -> dict[str, Any]:
    seen = trigger.observe(parse_rfc3339(time))
    return {
        "time": time,
        "active": seen.active,
        "metricValue": seen.value,
        "nextStart": _shown(seen.start, trigger.zone),
        "nextEnd": _shown(seen.end, trigger.zone),
    }


def _shown(instant: int | None, zone: str) -> str:
    if instant is None:
        return "never"
    moment = datetime.fromtimestamp(instant // SECOND, ZoneInfo(zone or "UTC"))
    return moment.isoformat().replace("+00:00", "Z")
