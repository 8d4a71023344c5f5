"""The provider that buys in production, over an AWS in memory, as the cloud of a simulation.

`aws_account` is the account of a scenario, as AWS has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws import api
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.aws.api import Aws, Image, SecurityGroup, Subnet
from dovetail.cloud.aws.cluster import Around, ClusterSettings
from dovetail.cloud.aws.fake import Account, MemoryAws
from dovetail.cloud.aws.fake.account import AMAZON, identifier
from dovetail.cloud.aws.fake.machines import Machine
from dovetail.cloud.aws.instance.instances import CLAIM, provider_id
from dovetail.cloud.aws.provider import AwsCloud, Options
from dovetail.cloud.aws.sqs import SqsQueue
from dovetail.cloud.catalog import store
from dovetail.cloud.inmemory import InstanceEvents
from dovetail.cloud.interruption import InterruptionKind, InterruptionQueue, instance_id
from dovetail.cloud.provider import Instance, Overlay, as_sold
from dovetail.model import labels
from dovetail.simulate.environment.port import Connection, Part
from dovetail.simulate.scenario.scenario import Scenario

_VPC = "vpc-0123456789abcdef0"
_BEFORE = "2025-01-01T00:00:00.000Z"
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}


def aws_account(scenario: Scenario, zones: Mapping[str, str]) -> Account:
    """Subnets and groups as the scenario has them; every role and image that its classes name.

    `zones` (name -> id) are those of the region.
    """
    region, cluster = scenario.file.region, scenario.file.cluster
    queue = scenario.file.settings.interruption_queue
    usual = Account.usual(region, cluster.name, cluster.version)
    parameters, named = dict(usual.parameters), {image.id: image for image in usual.images}
    classes = tuple(_classes(scenario))
    for node_class in classes:
        for parameter, image in _named(node_class, region, cluster.version):
            named.setdefault(image.id, image)
            if parameter:
                parameters.setdefault(parameter, image.id)
    subnets = tuple(
        Subnet(item.id, _VPC, item.zone, zones[item.zone], item.free_addresses, tags=item.tags)
        for item in cluster.subnets
    )
    groups = tuple(SecurityGroup(item.id, item.name, _VPC, item.tags) for item in cluster.security_groups)
    return replace(
        usual,
        subnets=subnets or usual.subnets,
        security_groups=groups or usual.security_groups,
        images=tuple(named.values()),
        parameters=parameters,
        roles=frozenset(item.spec.role.rpartition("/")[2] for item in classes if item.spec.role),
        queues=(queue,) if queue else (),
    )


def _classes(scenario: Scenario) -> Iterator[EC2NodeClass]:
    """Those of the start, and those that come later."""
    later = (manifest for change in scenario.changes for manifest in change.manifests)
    for manifest in (*scenario.manifests, *later):
        if isinstance(manifest.object, EC2NodeClass):
            yield manifest.object


def _named(node_class: EC2NodeClass, region: str, version: str) -> Iterator[tuple[str, Image]]:
    """(SSM parameter or "", image) of what the class names outright: any image that is named so exists."""
    for term in node_class.spec.ami_selector_terms:
        for item in images.parameters(term.alias, version) if term.alias else ():
            made = identifier("ami", region, item.name)
            name = item.name.removesuffix("/image_id").rpartition("/")[2]
            yield item.name, Image(made, name, _ARCHITECTURES[item.arch], _BEFORE, AMAZON)
        arch = "arm64" if "arm64" in term.ssm_parameter else "x86_64"
        if term.ssm_parameter:
            made = identifier("ami", region, term.ssm_parameter)
            yield term.ssm_parameter, Image(made, made, arch, _BEFORE, AMAZON)
        if term.id:
            yield "", Image(term.id, term.id, arch, _BEFORE, AMAZON)


_DNS = "10.100.0.10"
# The claim of an instance whose launch was not answered yet.
UNANSWERED = "a launch without an answer"


class _Observed(AwsCloud):
    """Reports every launch before and after it."""

    asked: Callable[[_Observed, str], None]
    started: Callable[[_Observed, Instance, NodeClaim], None]

    async def create(
        self, claim: NodeClaim, node_class: EC2NodeClass, overlay: Overlay = as_sold
    ) -> Instance:
        """See the port."""
        self.asked(self, claim.metadata.name)
        instance = await super().create(claim, node_class, overlay)
        self.started(self, instance, claim)
        return instance


class CloudOnAws(InstanceEvents):
    """Implements `port.Cloud`. `aws` is the account, `provider` what controllers that never crash see."""

    def __init__(
        self, aws: MemoryAws, clock: Clock, log: EventLog, options: Options, *, version: str, queue: str
    ) -> None:
        """`version` is that of Kubernetes, `queue` the name of the interruption queue, if there is one."""
        super().__init__()
        self.aws = aws
        self._options = options
        self._version = version
        self._queue = queue
        self._log = log
        # Ids of all instances that were launched for a claim, with the client that got the answer last.
        self._answered: dict[str, _Observed] = {}
        self._there: dict[str, Instance] = {}  # those of them that there are, by id
        self._of: dict[str, dict[str, None]] = {}  # ids of instances by the name of the claim they are for
        self._ends: set[asyncio.Task[None]] = set()
        aws.machines.on_ended.append(self._end)
        aws.machines.on_rebooted.append(self._reboot)
        self.provider = self._provider(aws, clock, log)
        self.queue: InterruptionQueue = SqsQueue(aws.sqs, clock, queue)

    def connect(self, aws: Aws, clock: Clock, log: EventLog) -> Connection:
        """What one process has of the account that it sees through that port; it remembers nothing yet."""
        provider = self._provider(aws, clock, log)
        return Connection(provider, SqsQueue(aws.sqs, clock, self._queue), provider.start, provider.run)

    def _provider(self, aws: Aws, clock: Clock, log: EventLog) -> _Observed:
        async def version() -> str:
            return self._version

        async def dns() -> str:
            return _DNS

        # No scenario has feature gates of the provider's: what it can do it does.
        settings = ClusterSettings(self._options.cluster, expressions=True)
        around = Around(aws.eks, clock, aws.region, settings, version=version, dns_ip=dns)
        once = _Once(log, lambda place: instance_id(place) in self._answered, store.estimates(aws.region))
        made = _Observed(aws, clock, once, around, self._options)
        made.asked = self._ask
        made.started = self._begin
        return made

    def _reboot(self, found: api.Instance) -> None:
        place = provider_id(found.zone, found.id)
        self._log.record("instance.rebooted", instance=place)
        for observe in self._rebooted:
            observe(place)

    async def start(self) -> None:
        """See Cloud: prices are known."""
        await self.provider.start()

    def parts(self) -> Iterable[Part]:
        """See Cloud."""
        yield "aws: spot pools", self.aws.run()

    def upkeep(self) -> Iterable[Part]:
        """See Cloud."""
        yield "aws: provider", self.provider.run()

    async def list(self) -> Sequence[Instance]:
        """See Cloud."""
        return self._all()

    async def delete(self, provider_id: str) -> None:
        """See Cloud."""
        machine = self.aws.machines.there(instance_id(provider_id))
        if machine is not None:
            self.aws.machines.terminate(machine)

    def interrupt(self, provider_id: str, kind: InterruptionKind) -> None:
        """See Cloud."""
        self._log.record("instance.interrupted", instance=provider_id, kind=str(kind))
        ends = self.aws.interrupt(instance_id(provider_id), kind)
        task = asyncio.get_running_loop().create_task(ends, name=f"aws: interrupt {provider_id}")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def impair(self, provider_id: str, category: str) -> None:
        """See Cloud."""
        self.aws.impair(instance_id(provider_id), category)

    def _all(self) -> Sequence[Instance]:
        return [self._now(machine) for machine in self.aws.machines.running()]

    def _now(self, machine: Machine) -> Instance:
        """As AWS has it: one whose launch was not answered is there, and paid, as well."""
        found = machine.instance
        known = self._there.get(found.id)
        if known is not None:
            return (
                known if known.terminating == machine.ending else replace(known, terminating=machine.ending)
            )
        return Instance(
            provider_id=provider_id(found.zone, found.id),
            instance_type=found.instance_type,
            zone=found.zone,
            capacity_type=machine.pool[0],
            price=0,
            image_id=found.image,
            created=found.launched,
            claim=UNANSWERED,
            terminating=machine.ending,
        )

    def _ask(self, asker: _Observed, claim: str) -> None:
        """Report what the asker may know to run for a claim.

        Nothing says whose an instance is that another process launched until it bears the claim's
        name. Such a one is not launched in vain: the asker takes it for any claim that would launch the same.
        """
        found = (self.aws.machines.there(name) for name in self._of.get(claim, ()))
        known = [self._now(one) for one in found if one is not None and self._knows(asker, one.instance.id)]
        for observe in self._asked:
            observe(claim, known)

    def _knows(self, asker: _Observed, identifier: str) -> bool:
        machine = self.aws.machines.there(identifier)
        named = machine is not None and CLAIM in self.aws.machines.described(machine).tags
        return named or self._answered.get(identifier) is asker

    def _begin(self, asker: _Observed, instance: Instance, claim: NodeClaim) -> None:
        identifier = instance_id(instance.provider_id)
        known = identifier in self._answered
        self._answered[identifier] = asker
        if known:  # answered twice: to a process that was made anew, or to two at once
            if identifier in self._there:
                self._leave(identifier)
                self._there[identifier] = replace(self._there[identifier], claim=claim.metadata.name)
                self._of.setdefault(claim.metadata.name, {})[identifier] = None
            return
        self._there[identifier] = instance
        self._of.setdefault(instance.claim, {})[identifier] = None
        for observe in self._started:
            observe(instance, claim)
        if self.aws.machines.there(identifier) is None:
            self._ended(identifier)  # before its launch was answered

    def _end(self, found: api.Instance) -> None:
        if found.id in self._there:
            self._ended(found.id)

    def _ended(self, identifier: str) -> None:
        self._leave(identifier)
        instance = self._there.pop(identifier)
        self._log.record("instance.terminated", instance=instance.provider_id)
        for observe in self._terminated:
            observe(instance)

    def _leave(self, identifier: str) -> None:
        """The instance is no more that of its claim."""
        claim = self._there[identifier].claim
        del self._of[claim][identifier]
        if not self._of[claim]:
            del self._of[claim]


class _Once:
    """A log with the start of each instance once; `known` is asked by its provider id.

    The provider takes prices as AWS gives them. This AWS has drawn those on spot, and those on demand of
    `estimates` (types): they are estimates.
    """

    def __init__(self, log: EventLog, known: Callable[[str], bool], estimates: Container[object]) -> None:
        self._log = log
        self._known = known
        self._estimates = estimates

    def record(self, kind: str, /, **fields: object) -> None:
        """See EventLog."""
        if kind != "instance.started":
            self._log.record(kind, **fields)
        elif not self._known(str(fields["instance"])):
            estimated = fields["capacityType"] == labels.SPOT or fields["instanceType"] in self._estimates
            self._log.record(kind, **{**fields, "estimated": estimated})
