"""A region as AWS tells of it now, for use without AWS."""

from __future__ import annotations

import asyncio

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
    try:
        prices |= {name: (price, False) for name, price in (await aws.pricing.on_demand()).items()}
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
            derived,
        )
        for record in sorted(records, key=lambda item: item.name)
        if (where := sold.get(record.name))
        for price, derived in (prices.get(record.name, (0, False)),)
    ]
    ids = {zone.name: zone.id for zone in zones}
    places = tuple((name, ids[name]) for name in names)
    return LiveRegion(FORMAT, aws.region, to_rfc3339(now)[:10], places, tuple(rows)), why


def packaged(region: str) -> dict[str, tuple[int, bool]]:
    """By type the packaged list price, and whether it is derived; none of a region that is not packaged."""
    if region not in store.load().regions:
        return {}
    derived = store.derived(region)
    return {record.name: (price, record.name in derived) for record, _, price in store.sold(region) if price}
