"""An account on AWS as tests of a whole cluster have it, and what was asked of it."""

from __future__ import annotations

from dataclasses import replace

from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws import api
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.account import AMAZON, identifier
from dovetail.cloud.aws.fake.market import MarketOptions
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.aws.provider import Options as ProviderOptions
from dovetail.cloud.aws.quota.quotas import Quotas
from dovetail.cloud.inmemory import Limit
from dovetail.simulate.environment.aws import CloudOnAws

REGION = "ap-northeast-2"
CLUSTER, VERSION = "demo", "1.33"
PINNED = ("v20250403",)
ROLES = frozenset({"nodes", "travel-node", "controller"})


def account(region: str) -> Account:
    """The usual one, with the roles of the tests' classes and images of a version that is pinned."""
    usual = Account.usual(region, CLUSTER, VERSION)
    found, parameters = list(usual.images), dict(usual.parameters)
    for version in PINNED:
        for item in images.parameters(f"al2023@{version}", VERSION):
            newest = usual.parameters[_latest(item.name, version)]
            known = next(image for image in usual.images if image.id == newest)
            parameters[item.name] = identifier("ami", region, item.name)
            found.append(
                replace(known, id=parameters[item.name], owner=AMAZON, created="2025-04-03T00:00:00.000Z")
            )
    return replace(
        usual, images=tuple(found), parameters=parameters, roles=usual.roles | ROLES, queues=(CLUSTER,)
    )


def _latest(parameter: str, version: str) -> str:
    """The parameter of the newest image of the same kind."""
    pinned = [item.name for item in images.parameters(f"al2023@{version}", VERSION)]
    return images.parameters(f"al2023@{images.LATEST}", VERSION)[pinned.index(parameter)].name


def cloud_on_aws(
    clock: Clock,
    log: EventLog,
    limits: tuple[Limit, ...] = (),
    *,
    known: Account | None = None,
    quotas: Quotas | None = None,
    reboots: bool = False,
) -> CloudOnAws:
    """The cloud of a simulation on such an account; it knows of zonal shifts as well."""
    options = Options(market=MarketOptions(limits=limits, quotas=quotas or {}))
    aws = MemoryAws(clock, 1, known or account(REGION), options)
    settings = ProviderOptions(CLUSTER, zonal_shift=True, reboots=reboots)
    return CloudOnAws(aws, clock, log, settings, version=VERSION, queue=CLUSTER)


class Fleets:
    """Writes down every fleet request of an account from now on."""

    def __init__(self, aws: MemoryAws) -> None:
        self.asked: list[Document] = []  # every request, in order
        self.refused: list[str] = []  # the code of every error of an answer
        self._ask = aws.ec2.create_fleet
        aws.ec2.create_fleet = self._create_fleet  # type: ignore[method-assign]  # to see what is asked

    async def _create_fleet(
        self, request: Document, *, token: str = "", dry_run: bool = False
    ) -> api.FleetAnswer:
        if not dry_run:
            self.asked.append(request)
        answer = await self._ask(request, token=token, dry_run=dry_run)
        self.refused += [error.code for error in answer.errors]
        return answer
