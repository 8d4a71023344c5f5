"""All services of one account in one region, over the network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from aiobotocore.session import get_session

from dovetail.base.errors import InputError
from dovetail.base.metrics import Metrics
from dovetail.cloud.aws.live.calls import Calls, Gate
from dovetail.cloud.aws.live.ec2 import LiveEc2
from dovetail.cloud.aws.live.services import (
    LiveEks,
    LiveIam,
    LivePricing,
    LiveQuotas,
    LiveSqs,
    LiveSsm,
    LiveSts,
    LiveZonalShift,
)

_REGION = "AWS_REGION"


class LiveAws:
    """Implements `api.Aws`."""

    def __init__(self, calls: Calls) -> None:
        self.region = calls.region
        self.ec2 = LiveEc2(calls)
        self.ssm = LiveSsm(calls)
        self.iam = LiveIam(calls)
        self.eks = LiveEks(calls)
        self.sqs = LiveSqs(calls)
        self.quotas = LiveQuotas(calls)
        self.zonal_shift = LiveZonalShift(calls)
        self.pricing = LivePricing(calls)
        self.sts = LiveSts(calls)


@contextlib.asynccontextmanager
async def connect(
    environ: Mapping[str, str],
    *,
    endpoint: str = "",
    metrics: Metrics | None = None,
    gate: Gate | None = None,
) -> AsyncIterator[LiveAws]:
    """With credentials from wherever AWS's own tools look: environment, profile, web identity, instance role.

    `endpoint` is a URL that answers for all services; `metrics` count every call; calls that change
    something leave once the `gate` lets them. Raises InputError when no region is configured.
    """
    session = get_session()
    region = environ.get(_REGION) or session.get_config_variable("region")
    if not region:
        raise InputError(
            "no AWS region is named",
            source=_REGION,
            remedy=f"set {_REGION}, such as {_REGION}=eu-central-1",
        )
    async with contextlib.AsyncExitStack() as stack:
        yield LiveAws(Calls(session, str(region), endpoint, stack, metrics, gate))
