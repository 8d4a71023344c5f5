"""The AWS provider of a process: connected, with its settings of the cluster."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError, Forbidden, InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.base.extras import extra
from dovetail.base.metrics import Metrics
from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.cluster import Around, ClusterSettings
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instancetype.market import NodeOptions
from dovetail.cloud.aws.nodeclass import resolver
from dovetail.cloud.aws.provider import AwsCloud, Options
from dovetail.cloud.aws.sqs import SqsQueue
from dovetail.cloud.choice import SpotRange
from dovetail.cloud.interruption import InterruptionQueue
from dovetail.kube.http.transport import Gate, Request, Transport, check
from dovetail.runtime.process.options import AwsOptions

# Called with what AWS answered and for how long to wait: returns after that, or raises.
Patience = Callable[[AwsError, int], Awaitable[None]]
FIRST_PAUSE, LONGEST_PAUSE = 2 * SECOND, 30 * SECOND
_PASSING = (Refusal.THROTTLED, Refusal.SERVER)
_DNS = "/api/v1/namespaces/kube-system/services/kube-dns"


@dataclass(frozen=True, slots=True)
class Connected:
    """The provider, and the queue of interruptions."""

    cloud: AwsCloud
    queue: InterruptionQueue | None


class ClusterFacts:
    """What the API server knows of the cluster that nodes are to join."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def version(self) -> str:
        """Such as "1.33". Raises ApiError."""
        return minor(await check(self._transport))

    async def dns_ip(self) -> str | None:
        """The address of kube-dns; None where there is none, or where we may not ask. Raises ApiError."""
        try:
            found = await self._transport.ask(Request("GET", _DNS))
        except (NotFound, Forbidden):
            return None
        service: dict[str, Any] = msgspec.json.decode(found, type=dict[str, Any])
        return service.get("spec", {}).get("clusterIP") or None


@contextlib.asynccontextmanager
async def connected(
    options: AwsOptions,
    transport: Transport,
    clock: Clock,
    log: EventLog,
    environ: Mapping[str, str],
    *,
    metrics: Metrics,
    reserved_capacity: bool,
    spot: SpotRange | None,
    patience: Patience,
    gate: Gate | None = None,
) -> AsyncIterator[Connected]:
    """Connected within the block. Raises InputError for what the user has to mend.

    What passes by itself is waited for with `patience`; what changes something waits for the `gate`.
    """
    with extra("aws", "the AWS provider", source="--provider"):
        from dovetail.cloud.aws.live import connect
    facts = ClusterFacts(transport)
    authority = base64.b64encode(transport.access.trusted()).decode()
    settings = ClusterSettings(
        options.cluster,
        options.endpoint,
        options.ca_bundle,
        options.reserved_enis,
        options.expressions,
        fallback_ca=authority,
    )
    async with connect(environ, metrics=metrics, gate=gate) as aws:
        around = Around(aws.eks, clock, aws.region, settings, version=facts.version, dns_ip=facts.dns_ip)
        cloud = AwsCloud(aws, clock, log, around, provider_options(options, reserved_capacity, spot), metrics)
        await patiently(lambda: _greet(aws, options, cloud), patience)
        await cloud.start()
        name = options.interruption_queue
        yield Connected(cloud, SqsQueue(aws.sqs, clock, name) if name else None)


def provider_options(options: AwsOptions, reserved_capacity: bool, spot: SpotRange | None) -> Options:
    """What the provider itself needs of all this."""
    return Options(
        cluster=options.cluster,
        node=NodeOptions(
            options.vm_memory_overhead_percent,
            options.reserved_enis,
            gpu_devices=options.gpu_devices,
            efa_devices=options.efa_devices,
        ),
        isolated_vpc=options.isolated_vpc,
        reserved_capacity=reserved_capacity,
        spot=spot,
        zonal_shift=options.zonal_shift,
        reboots=options.reboots,
        classes=resolver.Options(
            dry_run=options.dry_run,
            reserved_capacity=reserved_capacity,
            image_refresh=options.image_refresh,
            subnet_refresh=options.subnet_refresh,
            group_refresh=options.group_refresh,
            gpu_sharing=options.gpu_devices,
        ),
    )


def minor(version: str) -> str:
    """ "1.33" of "v1.33.1-eks-abc"."""
    return ".".join(version.removeprefix("v").split(".")[:2])


async def patiently(ask: Callable[[], Awaitable[None]], patience: Patience) -> None:
    """Ask until AWS answers; between two times it is left alone for longer and longer."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await ask()
        except AwsError as error:
            await patience(error, pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _greet(aws: Aws, options: AwsOptions, cloud: AwsCloud) -> None:
    """What has to be right before anything starts. Raises AwsError for what passes by itself."""
    try:
        await aws.sts.get_caller_identity()
    except AwsError as error:
        if error.refusal in _PASSING:
            raise
        raise InputError(
            f"AWS does not know who we are: {error.message}",
            source=f"AWS in {aws.region}",
            remedy="give the controller's service account a role (EKS Pod Identity or IRSA), or log in",
        ) from None
    try:
        await cloud.surroundings()
    except AwsError as error:
        if error.refusal in _PASSING:
            raise
        remedy = "allow eks:DescribeCluster, or give --cluster-endpoint"
        if error.refusal is Refusal.NOT_FOUND:
            remedy = f"give the name of a cluster in {aws.region}, or set AWS_REGION to where it is"
        raise InputError(str(error), source=f"--cluster-name {options.cluster}", remedy=remedy) from None
    except ApiError as error:
        raise InputError(str(error), source="the API server") from None
