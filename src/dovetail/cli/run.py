"""`dovetail run`: the controller on a real cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dovetail.base.errors import DovetailError, InputError
from dovetail.cli.run_aws import AwsFlags
from dovetail.cli.run_flags import Flags
from dovetail.cli.run_inert import Inert


def run(
    *,
    flags: Flags | None = None,
    aws: AwsFlags | None = None,
    inert: Inert | None = None,
    prices: Path | None = None,
) -> None:
    """Run the controller on a real cluster, until SIGTERM or Ctrl-C.

    Flags and environment are Karpenter's: --batch-idle-duration is BATCH_IDLE_DURATION. A flag wins over the
    environment. Only one controller acts at a time, Karpenter included: they share one lease.

    Example, on EKS: `dovetail run --provider aws --cluster-name demo --interruption-queue demo`
    On any cluster and without a cloud: `dovetail run --provider kwok`

    Parameters
    ----------
    prices
        With --provider aws: prices that count before AWS's own, from AWS's offer file of EC2
        (index.json or index.csv of a region), or a CSV with instanceType,price and, if wanted,
        region,capacityType,zone.
    """
    import asyncio

    from dovetail.cloud.catalog import store
    from dovetail.cloud.catalog.pricefile import read_prices

    flags, aws = flags or Flags(), aws or AwsFlags()
    options = flags.options()
    if prices is not None:
        if options.provider != "aws":
            raise InputError(
                f"{options.provider} has prices of its own", source="--prices", remedy="leave it out"
            )
        store.use_prices(read_prices(prices))
    without_effect = (*flags.given(), *(inert or Inert()).given())
    if options.provider == "aws" and not options.observe:
        options = replace(options, aws=aws.options(), without_effect=without_effect)
    else:
        options = replace(options, without_effect=(*aws.given(), *without_effect))
    # Help and wrong words import every command; an HTTP server and client are not theirs to pay for.
    from dovetail.runtime.process.clock import SteadyLoop
    from dovetail.runtime.process.main import run as run_process

    if options.cost_port:
        from dovetail.views.live.routes import controllers_page

        options = replace(options, pages=controllers_page)
    try:
        with asyncio.Runner(loop_factory=SteadyLoop) as runner:
            runner.run(run_process(options))
    except* DovetailError as group:
        raise first(group) from None


def first(group: BaseExceptionGroup[DovetailError]) -> DovetailError:
    """What went wrong first, to be reported alone."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, DovetailError)
    return found
