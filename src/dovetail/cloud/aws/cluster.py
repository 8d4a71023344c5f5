"""The cluster that nodes are to join, as EKS and Kubernetes describe it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dovetail.base.clock import MINUTE, Clock
from dovetail.cloud.aws.amifamily.userdata import Cluster
from dovetail.cloud.aws.api import Eks, EksCluster
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instancetype.market import Market
from dovetail.cloud.aws.launchtemplate.template import Stage
from dovetail.cloud.aws.nodeclass.resolver import Surroundings

REFRESH = 5 * MINUTE  # how often Kubernetes is asked for its version


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What settings say of the cluster; "" is what EKS is asked for."""

    name: str
    endpoint: str = ""
    ca_bundle: str = ""
    reserved_enis: int = 0
    expressions: bool = False
    fallback_ca: str = ""  # the authority that the controller itself trusts, where EKS cannot be asked


class Around:
    """Asks once for what stays, and every five minutes for what an upgrade changes.

    `version` and `dns_ip` ask Kubernetes: for its version, such as "1.33", and for the address of kube-dns.
    """

    def __init__(
        self,
        eks: Eks,
        clock: Clock,
        region: str,
        settings: ClusterSettings,
        *,
        version: Callable[[], Awaitable[str]],
        dns_ip: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._eks = eks
        self._clock = clock
        self._region = region
        self._settings = settings
        self._version = version
        self._dns_ip = dns_ip
        self._known: tuple[Cluster, str, int] | None = None

    async def __call__(self, market: Market) -> Surroundings:
        """Raises AwsError, ApiError."""
        now = self._clock.monotonic()
        if self._known is None:
            self._known = (await self._cluster(), await self._version(), now)
        elif now - self._known[2] >= REFRESH:
            self._known = (self._known[0], await self._version(), now)
        cluster, version, _ = self._known
        settings = self._settings
        stage = Stage(
            cluster, self._region, market.sold.records, settings.reserved_enis, settings.expressions
        )
        return Surroundings(stage, version)

    async def _cluster(self) -> Cluster:
        settings = self._settings
        try:
            found = await self._eks.describe_cluster(settings.name)
        except AwsError as error:
            # A cluster that EKS does not run is known well enough by its address.
            if not settings.endpoint or error.refusal not in (Refusal.NOT_FOUND, Refusal.UNAUTHORIZED):
                raise
            found = EksCluster(settings.name, settings.endpoint, settings.fallback_ca, "", "")
        return Cluster(
            settings.name,
            settings.endpoint or found.endpoint,
            settings.ca_bundle or found.ca_bundle,
            found.cidr or None,
            await self._dns_ip(),
        )
