"""The account of a scenario, as AWS has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.aws.api import Image, SecurityGroup, Subnet
from dovetail.cloud.aws.fake import Account
from dovetail.cloud.aws.fake.account import AMAZON, identifier
from dovetail.simulate.scenario import Scenario

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
