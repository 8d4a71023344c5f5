"""`dovetail run`: the controller on a real cluster."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from cyclopts import Parameter

from dovetail.base.errors import DovetailError, InputError
from dovetail.cli.run_aws import AwsFlags
from dovetail.cli.run_environment import Bool, from_environment
from dovetail.cli.run_flags import Flags


@Parameter(name="*")
@from_environment
@dataclass(frozen=True, kw_only=True)
class Inert:
    """Without effect. `dovetail run` says at its start which of them were given.

    Parameters
    ----------
    eks_control_plane
        Whether EKS runs the control plane.
    enable_profiling
        Go's profiles.
    memory_limit
        The memory that Go's collector aims at.
    cpu_requests
        Millicores of the controller.
    log_output_paths
        Where lines go; standard output.
    log_error_output_paths
        Where errors go; standard error.
    webhook_metrics_port
        Where the webhook's own figures are served; they are among the others.
    """

    eks_control_plane: Bool = "false"
    enable_profiling: Bool = "false"
    memory_limit: int = -1
    cpu_requests: int = 1000
    log_output_paths: str = "stdout"
    log_error_output_paths: str = "stderr"
    webhook_metrics_port: int = 8001

    def given(self) -> tuple[str, ...]:
        """Names of those that are not as by default. Raises InputError for one that Karpenter cannot mean."""
        for flag, value, least, remedy in (
            ("--memory-limit", self.memory_limit, -1, "give bytes, or -1 for no limit"),
            ("--cpu-requests", self.cpu_requests, 0, "give millicores, 0 or more"),
        ):
            if value < least:
                raise InputError(f"{value} is not valid", source=flag, remedy=remedy)
        changed = (item.name for item in fields(self) if getattr(self, item.name) != item.default)
        return tuple(f"--{name.replace('_', '-')}" for name in changed)


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
        without_effect = (*without_effect, *aws.idle_gates())
        options = replace(options, aws=aws.options(), without_effect=without_effect)
    else:
        observed = options.provider == "aws"
        without_effect = (*aws.given(observe=observed), *without_effect)
        options = replace(options, reboots=observed and aws.reboots, without_effect=without_effect)
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
