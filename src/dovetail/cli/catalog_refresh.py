"""`dovetail catalog refresh`: a region as AWS describes it now, in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.cloud.catalog.live import LiveRegion


def refresh(
    *,
    region: str,
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    endpoint_url: str = "",
) -> None:
    """Ask AWS for a region's types and prices, and write them to a file for use without AWS.

    Every command takes the region from the file instead of the packaged catalogue while the variable
    DOVETAIL_CATALOG names it (several with : between them). Needs ec2:DescribeInstanceTypes,
    ec2:DescribeInstanceTypeOfferings, ec2:DescribeAvailabilityZones, ec2:DescribeSpotPriceHistory and
    pricing:GetProducts.

    Example: `dovetail catalog refresh --region eu-west-1 && export DOVETAIL_CATALOG=eu-west-1.json.gz`

    Parameters
    ----------
    region
        Which one to ask.
    output
        The file; REGION.json.gz when not given.
    endpoint_url
        One URL that answers for all services of AWS, such as that of a test server.
    """
    import asyncio

    from dovetail.cloud.aws.errors import AwsError
    from dovetail.cloud.aws.preflight.finding import NO_IDENTITY, unidentified
    from dovetail.cloud.catalog.live import write

    path = output or Path(f"{region}.json.gz")
    try:
        found, why = asyncio.run(_ask({**os.environ, "AWS_REGION": region}, endpoint_url))
    except AwsError as error:
        remedy = NO_IDENTITY if unidentified(error) else "dovetail check aws says what is missing"
        raise InputError(str(error), source=region, remedy=remedy) from None
    write(found, path)
    priced = sum(row.price > 0 for row in found.rows)
    if why:
        print(f"no new list prices, the packaged ones stay: {' '.join(why.split())[:300]}")
    print(f"{path}: {len(found.rows)} types in {len(found.zones)} zones, {priced} of them with a price")


async def _ask(environ: Mapping[str, str], endpoint: str) -> tuple[LiveRegion, str]:
    from dovetail.cli.aws import connected
    from dovetail.cloud.aws.instancetype.refresh import ask
    from dovetail.runtime.process.clock import WallClock

    async with connected(environ, endpoint) as aws:
        return await ask(aws, WallClock())
