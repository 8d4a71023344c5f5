"""`dovetail catalog`: the instance types as Dovetail sees them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from dovetail.base.errors import InputError
from dovetail.base.extras import extra

if TYPE_CHECKING:
    from dovetail.cloud.catalog.live import LiveRegion
    from dovetail.model.offering import InstanceType

_DEFAULT_REGION = "us-east-1"
_TABLE_ROWS = 40
# May be given several times; an option to empty the list would only puzzle.
_Several = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


catalog = App(name="catalog")


@catalog.default
def show(
    *,
    region: str | None = None,
    category: _Several = (),
    family: _Several = (),
    arch: Literal["amd64", "arm64"] | None = None,
    min_cpu: str | None = None,
    max_cpu: str | None = None,
    min_memory: str | None = None,
    max_memory: str | None = None,
    gpu: bool | None = None,
    capacity_type: Literal["on-demand", "spot"] | None = None,
    zone: _Several = (),
    max_price: str | None = None,
    name: Annotated[str, Parameter(show_default=False)] = "",
    sort: Literal["price", "cpu", "memory", "name"] = "price",
    limit: int | None = None,
    prices: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Show EC2 instance types as Dovetail sees them: labels, allocatable, offerings, prices.

    What pods get is the allocatable of an AL2023 node with default settings. Prices are price_limit per hour.
    Prices marked ~ are estimates: all spot prices, and those on demand that no list has. When a single type
    matches, all of its labels, resources and offerings are shown.

    Examples:

    - `dovetail catalog --region ap-northeast-2 --category m --min-cpu 4 --max-price 0.3`
    - `dovetail catalog --name 'm7i.*' --sort cpu`
    - `dovetail catalog --name m7g.large`
    - `dovetail catalog --gpu --capacity-type spot -o json`

    Parameters
    ----------
    region
        Where to look; us-east-1 when not given.
    category
        Letters before the generation: c, m, r, t, g, p ... May be repeated.
    family
        Such as m7i or c7g. May be repeated.
    arch
        Processor architecture.
    min_cpu
        At least that many vCPUs.
    max_cpu
        At most that many vCPUs.
    min_memory
        At least that much memory as EC2 sells it: 16Gi, or 16 for the same.
    max_memory
        At most that much memory.
    gpu
        Only types with GPUs; --no-gpu for only those without.
    capacity_type
        Only these offerings.
    zone
        Only offerings in this zone, such as us-east-1a. May be repeated.
    max_price
        Only offerings of at most that many price_limit per hour.
    name
        A type, or a glob such as 'm7i.*'.
    sort
        Cheapest offering first, or by vCPUs, memory or name.
    limit
        Rows to show; a table stops at 40 by default, 0 shows all.
    prices
        Prices to count instead: AWS's offer file of EC2 (index.json or index.csv of a region), or a CSV with
        instanceType,price and, if wanted, region,capacityType,zone. Plain or gzipped.
    output
        A table to read, or JSON with everything.
    """
    from dovetail.cli import catalog_output as output_of
    from dovetail.cli.catalog_query import (
        CATEGORY,
        FAMILY,
        Query,
        cpus,
        known,
        label,
        memory,
        ordered,
        price_limit,
        select,
    )
    from dovetail.cli.prices import use_prices
    from dovetail.cloud import catalog as ec2

    if limit is not None and limit < 0:
        raise InputError(f"{limit} is below zero", source="--limit", remedy="0 shows all")
    place = region or _DEFAULT_REGION
    ec2.zones(place)  # an unknown region is reported before prices that it has none of
    use_prices(prices, place)
    types = ec2.instance_types(place)
    query = Query(
        categories=known("--category", category, {label(item, CATEGORY) for item in types}),
        families=known("--family", family, {label(item, FAMILY) for item in types}),
        arch=arch or "",
        min_cpu=cpus("--min-cpu", min_cpu),
        max_cpu=cpus("--max-cpu", max_cpu),
        min_memory=memory("--min-memory", min_memory),
        max_memory=memory("--max-memory", max_memory),
        gpu=gpu,
        capacity_type=capacity_type or "",
        zones=known("--zone", zone, tuple(ec2.zones(place))),
        max_price=price_limit("--max-price", max_price),
        name=_glob(name, types),
    )
    chosen = ordered(select(types, query), sort)
    answer = output_of.Answer(place, types, chosen, assumed_region=region is None)
    if output == "json":
        output_of.print_json(answer, limit or None)
    else:
        output_of.print_table(answer, (_TABLE_ROWS if limit is None else limit) or None)


def _glob(name: str, types: tuple[InstanceType, ...]) -> str:
    """The pattern; a plain name must exist in the region."""
    from dovetail.cli.catalog_query import known

    if name and not any(letter in name for letter in "*?["):
        known("--name", (name,), tuple(item.name for item in types))
    return name


@catalog.command
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
    from dovetail.cloud.aws.instancetype.refresh import ask
    from dovetail.runtime.process.clock import WallClock

    with extra("aws", "asking AWS"):
        from dovetail.cloud.aws.live.cloud import connect

    async with connect(environ, endpoint=endpoint) as aws:
        return await ask(aws, WallClock())
