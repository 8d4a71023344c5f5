"""The cloud of a scenario: its account, its shortages, its latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import InputError
from dovetail.base.eventlog import EventLog
from dovetail.cloud import catalog
from dovetail.cloud.aws import provider
from dovetail.cloud.aws.fake import MemoryAws, Options
from dovetail.cloud.aws.fake.machines import LifeOptions
from dovetail.cloud.aws.fake.market import MarketOptions
from dovetail.cloud.aws.instancetype.market import NodeOptions
from dovetail.cloud.aws.nodeclass import resolver
from dovetail.cloud.catalog import store
from dovetail.cloud.choice import SpotRange
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.simulated import Account, Delays, SecurityGroup, SimulatedCloud, Subnet
from dovetail.simulate.environment.aws import CloudOnAws, aws_account
from dovetail.simulate.environment.interruptions import PlannedInterruption
from dovetail.simulate.scenario.document import suggest
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import Shortage
from dovetail.simulate.scenario.traffic import DAY, midnight_before, next_time, second_of_day


def cloud_of(
    scenario: Scenario, clock: Clock, log: EventLog, limits: Iterable[Limit] = ()
) -> SimulatedCloud | CloudOnAws:
    """`limits` come on top of the scenario's. Raises InputError for a region or zone that does not exist."""
    if scenario.file.settings.provider == "aws":
        return _on_aws(scenario, clock, log, limits)
    return _simulated_cloud(scenario, clock, log, limits)


def _on_aws(scenario: Scenario, clock: Clock, log: EventLog, limits: Iterable[Limit]) -> CloudOnAws:
    file, account = scenario.file, aws_account(scenario, _zones(scenario))
    market = MarketOptions(limits=(*shortages(scenario), *limits), only=_sold(scenario))
    life = LifeOptions(answer=scenario.latencies["launch"], terminate=scenario.latencies["terminate"])
    aws = MemoryAws(clock, scenario.seed, account, Options(market=market, life=life))
    gates, queue = file.settings.feature_gates, file.settings.interruption_queue
    options = provider.Options(
        file.cluster.name,
        node=NodeOptions(gpu_devices=gates.gpu_devices, efa_devices=gates.efa_devices),
        spot=_spot(scenario),
        reboots=_reboots(scenario),
        classes=resolver.Options(gpu_sharing=gates.gpu_devices),
    )
    return CloudOnAws(aws, clock, log, options, version=file.cluster.version, queue=queue)


def _simulated_cloud(
    scenario: Scenario, clock: Clock, log: EventLog, limits: Iterable[Limit]
) -> SimulatedCloud:
    return SimulatedCloud(
        clock,
        scenario.seed,
        log,
        region=scenario.file.region,
        account=_simulated_account(scenario, _zones(scenario)),
        sold=_sold(scenario),
        limits=(*shortages(scenario), *limits),
        delays=Delays(launch=scenario.latencies["launch"], terminate=scenario.latencies["terminate"]),
        spot=_spot(scenario),
        reboots=_reboots(scenario),
    )


def _reboots(scenario: Scenario) -> bool:
    return scenario.file.settings.feature_gates.reboot_for_repair


def _spot(scenario: Scenario) -> SpotRange | None:
    """Which spot offerings launches try first: of Karpenter's all."""
    given = scenario.file.settings
    ours = given.policy == "dovetail"
    return SpotRange.of(given.spot_launch_types, given.spot_tolerance) if ours else None


def _simulated_account(scenario: Scenario, zones: Mapping[str, str]) -> Account:
    file, cluster = scenario.file, scenario.file.cluster
    usual = Account.usual(file.region, cluster.name, cluster.version)
    subnets = tuple(
        Subnet(item.id, item.zone, zones[item.zone], dict(item.tags), item.free_addresses)
        for item in cluster.subnets
    )
    groups = tuple(SecurityGroup(item.id, item.name, dict(item.tags)) for item in cluster.security_groups)
    return replace(
        usual,
        subnets=subnets or usual.subnets,
        security_groups=groups or usual.security_groups,
    )


def _zones(scenario: Scenario) -> Mapping[str, str]:
    """Those of the region, name -> id. Raises InputError for a subnet that is in none of them."""
    file = scenario.file
    try:
        zones = catalog.zones(file.region)
    except InputError as error:
        raise InputError(error.message, source=scenario.source, path="region", remedy=error.remedy) from None
    for i, subnet in enumerate(file.cluster.subnets):
        if subnet.zone not in zones:
            raise InputError(
                f"{file.region} has no zone {subnet.zone!r}{suggest(subnet.zone, tuple(zones))}",
                source=scenario.source,
                path=f"cluster.subnets[{i}].zone",
            )
    return zones


def _sold(scenario: Scenario) -> frozenset[str]:
    known = tuple(record.name for record, _, _ in store.sold(scenario.file.region))
    for i, name in enumerate(scenario.file.cluster.instance_types):
        if name not in known:
            raise InputError(
                f"{scenario.file.region} does not sell {name!r}{suggest(name, known)}",
                source=scenario.source,
                path=f"cluster.instanceTypes[{i}]",
            )
    return frozenset(scenario.file.cluster.instance_types)


def shortages(scenario: Scenario) -> tuple[Limit, ...]:
    """When which offerings have no capacity."""
    return tuple(_limit(shortage, scenario) for shortage in scenario.file.shortages)


def _limit(shortage: Shortage, scenario: Scenario) -> Limit:
    """The first time that the window is open after the start: one that ended before is tomorrow's."""
    midnight = midnight_before(scenario.start, scenario.file.timezone)
    since, until = second_of_day(shortage.from_), second_of_day(shortage.until)
    length = (until - since) % DAY or DAY
    begin = midnight + since * SECOND
    if begin + length * SECOND <= scenario.start:
        begin += DAY * SECOND
    return Limit(
        since=begin,
        until=begin + length * SECOND,
        instance_types=shortage.instance_types,
        zones=shortage.zones,
        capacity_types=shortage.capacity_types,
    )


def interruptions(scenario: Scenario) -> tuple[PlannedInterruption, ...]:
    """The scenario's interruptions, each at the first such time of day after the start."""
    return tuple(
        PlannedInterruption(
            next_time(scenario.start, second_of_day(item.at), scenario.file.timezone),
            item.kind,
            item.share,
            item.instance_types,
            item.zones,
            item.capacity_types,
        )
        for item in scenario.file.interruptions
    )
