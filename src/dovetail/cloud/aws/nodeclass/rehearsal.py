"""Dry runs of a launch from a class: whether the controller may do what it takes."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CreateFailed
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import Ec2
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.fleet import fleet_request
from dovetail.cloud.aws.launch import Document, Launch, Stage, launch_from, tagged
from dovetail.cloud.aws.templates import Template, templates
from dovetail.cloud.aws.validation import Fault
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
    settings = NodeSettings.of(node_class, reserved_enis=stage.reserved_enis)
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
        return Fault(NO_PROFILE, error.message)
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
