"""A region as AWS describes it now, for use without AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from dovetail.base.clock import Clock
from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.pricing import latest
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.live import FORMAT, LiveRegion, Row
from dovetail.units.timestamp import to_rfc3339


async def ask(aws: Aws, clock: Clock) -> tuple[LiveRegion, str]:
    """Types, where they are sold, prices on demand and on spot; and why there are no new list prices, or "".

    Types without a new list price keep the packaged one. Raises AwsError for anything but the price list.
    """
    now = clock.now()
    records, zones, offered, history = await asyncio.gather(
        aws.ec2.describe_instance_types(),
        aws.ec2.describe_availability_zones(),
        aws.ec2.describe_instance_type_offerings(),
        aws.ec2.describe_spot_price_history(now),
    )
    prices, why = packaged(aws.region), ""
    current: Mapping[str, int] = {}
    try:
        current = await aws.pricing.on_demand()
        prices |= {name: (price, "") for name, price in current.items()}
    except AwsError as error:
        why = str(error)
    spot = latest(history)
    names = sorted(zone.name for zone in zones)
    sold: dict[str, list[str]] = {}
    for name, zone in sorted(offered):
        if zone in names:
            sold.setdefault(name, []).append(zone)
    rows = [
        Row(
            record,
            tuple(where),
            price,
            tuple(spot.get((record.name, zone), 0) for zone in where),
            estimate,
        )
        for record in sorted(records, key=lambda item: item.name)
        if (where := sold.get(record.name))
        for price, estimate in (prices.get(record.name, (0, "")),)
    ]
    ids = {zone.name: zone.id for zone in zones}
    places = tuple((name, ids[name]) for name in names)
    asked = to_rfc3339(now)[:10]
    lists = _lists(aws.region, asked, [row for row in rows if not row.estimate], current)
    return LiveRegion(FORMAT, aws.region, asked, places, tuple(rows), lists), why


def _lists(
    region: str, asked: str, rows: Sequence[Row], current: Mapping[str, int]
) -> tuple[tuple[str, str, int], ...]:
    """Where the prices are from: AWS's of today, and what is left of the packaged lists."""
    from_aws = sum(row.record.name in current for row in rows)
    kept = sum(row.price > 0 and row.record.name not in current for row in rows)
    packaged_lists = store.lists(region) if kept else ()
    # Which of the packaged lists has one of those is not kept; each of them could.
    rest = tuple((date, source, min(count, kept)) for date, source, count in packaged_lists)
    return ((asked, "AWS", from_aws), *rest) if from_aws else rest


def packaged(region: str) -> dict[str, tuple[int, str]]:
    """By type the packaged price and how it was estimated, if so; none of a region that is not packaged."""
    if region not in store.load().regions:
        return {}
    estimates = store.estimates(region)
    return {
        record.name: (price, estimates.get(record.name, ""))
        for record, _, price in store.sold(region)
        if price
    }
