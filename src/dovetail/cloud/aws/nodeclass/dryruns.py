"""Dry runs of a launch from a class: whether the controller may do what it takes.

`rehearse` makes them; `DryRuns` remembers what they said, and for how long nothing is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import CreateFailed
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import Ec2
from dovetail.cloud.aws.cache import Memo
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instance.request import fleet_request
from dovetail.cloud.aws.launchtemplate.template import (
    Document,
    Launch,
    Stage,
    Template,
    launch_from,
    tagged,
    templates,
)
from dovetail.cloud.aws.nodeclass.validation import Fault
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.choice import Choice
from dovetail.cloud.provider import NodeClassResolution
from dovetail.model import labels

TEMPLATE_REFUSED = "CreateLaunchTemplateAuthCheckFailed"
FLEET_REFUSED = "CreateFleetAuthCheckFailed"
RUN_REFUSED = "RunInstancesAuthCheckFailed"
NO_PROFILE = "InstanceProfileNotFound"
# What stands in the tag karpenter.sh/nodepool of dry runs, and of the launch template that they need.
POOL = "validation"


def rehearsed(node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage) -> tuple[Launch, Choice]:
    """The launch of one instance of the smallest type that an image of the class boots on.

    Raises CreateFailed when no type of the region does.
    """
    group = found.placement_group
    settings = NodeSettings.of(
        node_class, reserved_enis=stage.reserved_enis, placement=group.strategy if group else ""
    )
    zones = tuple({(subnet.zone, subnet.zone_id): None for subnet in found.subnets})
    for record in sorted(stage.records.values(), key=lambda item: (item.vcpus, item.memory, item.name)):
        if record.bare_metal or not catalog.runs(record, settings):
            continue
        made = catalog.make(record, settings, region=stage.region, zones=zones, on_demand=1)
        if any(not made.requirements.intersects(image.requirements) for image in found.images):
            choice = Choice((made,), labels.ON_DEMAND)
            return _launch(node_class, found, stage), choice
    raise CreateFailed("no type of the region boots an image of the class", "InstanceTypeResolutionFailed")


async def rehearse(
    ec2: Ec2, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage
) -> Fault | None:
    """What forbids launches from the class, or None.

    Dry runs of a fleet need a launch template that exists: one is made for them, and taken away again.
    Raises AwsError when AWS cannot say at the moment.
    """
    launch, choice = rehearsed(node_class, found, stage)
    template = templates(launch, choice, stage.records)[0]
    request = template.request(launch)
    fault = await _tried(ec2.create_launch_template(request, dry_run=True), TEMPLATE_REFUSED)
    if fault is not None:
        return fault
    try:
        await ec2.create_launch_template(request)
    except AwsError as error:
        if error.refusal is not Refusal.EXISTS:
            raise
    try:
        subnets = {subnet.zone: subnet.id for subnet in reversed(found.subnets)}
        fleet = fleet_request(launch, choice, (template,), subnets, {choice.types[0].name: 1})
        fault = await _tried(ec2.create_fleet(fleet, dry_run=True), FLEET_REFUSED)
        if fault is None:
            run = _run(launch, template, choice, found.subnets[0].id)
            fault = await _tried(ec2.run_instances(run), RUN_REFUSED)
        return fault
    finally:
        with suppress(AwsError):
            await ec2.delete_launch_template(template.name)


def meaning(error: AwsError, reason: str) -> Fault | None:
    """What an error of a dry run says of the class; None where it says nothing."""
    if error.refusal is Refusal.UNAUTHORIZED:
        return Fault(reason, f"Controller isn't authorized to call ec2:{error.action}")
    if "Instance Profile" in error.message or "iamInstanceProfile" in error.message:
        named = re.search(r"Value \(([^)]+)\)", error.message)
        return Fault(NO_PROFILE, f'Instance profile "{named[1]}" not found' if named else error.message)
    return None


async def _tried(call: Awaitable[object], reason: str) -> Fault | None:
    try:
        await call
    except AwsError as error:
        fault = meaning(error, reason)
        # A request that EC2 does not like is its launch's business: another type or zone may do.
        if fault is None and error.refusal not in (Refusal.REQUEST, Refusal.NOT_FOUND):
            raise
        return fault
    return None


def _launch(node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage) -> Launch:
    name = node_class.metadata.name
    reference = {"group": node_class.API_VERSION.partition("/")[0], "kind": node_class.KIND, "name": name}
    claim = decode({"metadata": {"name": f"{name}-{POOL}"}, "spec": {"nodeClassRef": reference}}, NodeClaim)
    return launch_from(claim, node_class, found, stage, pool=POOL, capacity_type=labels.ON_DEMAND)


def _run(launch: Launch, template: Template, choice: Choice, subnet: str) -> Document:
    """RunInstances with the same template; network interfaces name the subnet where there are some."""
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": choice.types[0].name,
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "NetworkInterfaces": [{**item, "SubnetId": subnet} for item in template.data["NetworkInterfaces"]],
        "TagSpecifications": tagged(("instance", "volume", "network-interface"), launch.tags),
    }


ANSWERED = 30 * MINUTE
# After dry runs that AWS gave no verdict on; doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 5 * SECOND, 5 * MINUTE
_VALIDATED = "ValidationSucceeded"


@dataclass(frozen=True, slots=True)
class _Silence:
    """AWS could not say: it is not asked before `until`, and then no more often than every `pause`."""

    error: AwsError
    until: int
    pause: int


class DryRuns:
    """A class is asked for once in half an hour, while neither it nor what it resolves to changes.

    A faulty one is looked at each time, as what it lacks may be given any moment. While AWS gives no verdict,
    because it is throttling or out of order, a class that was validated before stays so.
    """

    def __init__(self, ec2: Ec2, clock: Clock, memo: Memo) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._memo = memo
        self._silences: dict[str, _Silence] = {}  # by class

    async def faults(
        self, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage, version: str
    ) -> tuple[Fault, ...]:
        """What launches from the class would fail with. Raises AwsError where that is not known yet."""
        key = (
            _of(node_class.metadata.name),
            msgspec.json.encode(node_class.spec),
            tuple(item.id for item in found.subnets[:1]),
            tuple(item.id for item in found.security_groups),
            tuple(item.id for item in found.images),
            found.instance_profile,
            version,
        )
        try:
            faults = await self._memo.get(key, ANSWERED, lambda: self._ask(node_class, found, stage))
        except AwsError:
            if _validated(node_class):
                return ()
            raise
        if faults:
            self._memo.forget(key)
        return faults

    def forget(self, node_class: str) -> None:
        """The class of that name is gone."""
        self._silences.pop(node_class, None)
        self._memo.forget_about(_of(node_class))

    async def _ask(
        self, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage
    ) -> tuple[Fault, ...]:
        name = node_class.metadata.name
        silence = self._silences.get(name)
        if silence is not None and self._clock.monotonic() < silence.until:
            raise silence.error
        try:
            fault = await rehearse(self._ec2, node_class, found, stage)
        except CreateFailed as error:
            return (Fault(error.reason, str(error)),)
        except AwsError as error:
            pause = min(2 * silence.pause, LONGEST_PAUSE) if silence is not None else FIRST_PAUSE
            self._silences[name] = _Silence(error, self._clock.monotonic() + pause, pause)
            raise
        self._silences.pop(name, None)
        return (fault,) if fault is not None else ()


def _of(name: str) -> str:
    """What questions about the class of that name begin with."""
    return f"dry run of {name}"


def _validated(node_class: EC2NodeClass) -> bool:
    """True iff the class as it is was found well by an earlier look."""
    found = condition(node_class.status.conditions, _VALIDATED)
    if found is None or found.status != "True":
        return False
    return found.observed_generation == node_class.metadata.generation
