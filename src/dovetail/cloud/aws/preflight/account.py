"""All that can be found out about an account before a controller is installed.

A permission is tried with one harmless call: what it answers does not matter, only whether it may be made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import HOUR, Clock
from dovetail.base.errors import CreateFailed, InputError
from dovetail.cloud.aws.amifamily.images import LATEST, Filter, ImageQuery, parameters
from dovetail.cloud.aws.amifamily.userdata import Cluster
from dovetail.cloud.aws.api import Aws, EksCluster
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.launchtemplate.template import Stage, cluster_tags, tagged
from dovetail.cloud.aws.nodeclass.dryruns import rehearse
from dovetail.cloud.aws.nodeclass.resolver import ClassResolver, Options, Surroundings
from dovetail.cloud.aws.permissions import (
    FREE,
    PERMISSIONS,
    PROFILES,
    QUEUE,
    QUOTAS,
    REBOOTS,
    SHIFTS,
    Permission,
    of_call,
)
from dovetail.cloud.aws.preflight.finding import NO_IDENTITY, Finding, Verdict, failed, of_error, unidentified
from dovetail.cloud.aws.quota.quotas import STANDARD
from dovetail.cloud.catalog import store
from dovetail.cloud.provider import NodeClassResolution
from dovetail.cloud.unready import unready_of
from dovetail.model import labels

Probe = Callable[[], Awaitable[object]]
# The name of nothing: no one makes templates, profiles or images that are called so.
NOTHING = "dovetail-preflight"


def probes(aws: Aws, cluster: str, since: int) -> Mapping[str, Probe]:
    """By call of the port; spot prices are asked for since that instant."""
    ec2, iam = aws.ec2, aws.iam
    own = (Filter(f"tag:kubernetes.io/cluster/{cluster}", ("owned",)),)
    image = parameters(f"al2023@{LATEST}", "1.33")[0].name
    none = ImageQuery((Filter("name", (NOTHING,)), Filter("state", ("available",))), ("self",))
    template = {
        "LaunchTemplateName": NOTHING,
        "LaunchTemplateData": {"InstanceType": "m5.large"},
        "TagSpecifications": tagged(("launch-template",), cluster_tags(cluster, NOTHING, NOTHING, {})),
    }
    return {
        "ec2.describe_availability_zones": ec2.describe_availability_zones,
        "ec2.describe_instance_types": ec2.describe_instance_types,
        "ec2.describe_instance_type_offerings": ec2.describe_instance_type_offerings,
        "ec2.describe_spot_price_history": lambda: ec2.describe_spot_price_history(since),
        "ec2.describe_subnets": lambda: ec2.describe_subnets(()),
        "ec2.describe_security_groups": lambda: ec2.describe_security_groups(()),
        "ec2.describe_images": lambda: ec2.describe_images(none),
        "ec2.describe_capacity_reservations": lambda: ec2.describe_capacity_reservations(()),
        "ec2.describe_placement_groups": lambda: ec2.describe_placement_groups(()),
        "ec2.describe_launch_templates": lambda: ec2.describe_launch_templates(own),
        "ec2.describe_instances": lambda: ec2.describe_instances(own),
        "ec2.describe_instance_status": ec2.describe_instance_status,
        "ec2.create_launch_template": lambda: ec2.create_launch_template(template, dry_run=True),
        "ssm.get_parameter": lambda: aws.ssm.get_parameter(image),
        "iam.get_instance_profile": lambda: iam.get_instance_profile(NOTHING),
        "iam.list_instance_profiles": lambda: iam.list_instance_profiles(
            f"/karpenter/{aws.region}/{cluster}/"
        ),
        "pricing.on_demand": aws.pricing.on_demand,
    }


_FEW_VCPUS = 64  # a new account has 5
_NODE_ROLE = re.compile(r"node", re.IGNORECASE)


_REFRESH = (
    "where the price list can be reached: dovetail catalog refresh --region {}; give the file to the "
    "controller as DOVETAIL_CATALOG"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the controller would get."""

    cluster: str
    endpoint: str = ""  # of the API server; "" asks EKS
    queue: str = ""
    isolated_vpc: bool = False
    version: str = ""  # of Kubernetes; "" asks EKS


async def preflight(
    aws: Aws, clock: Clock, wanted: Wanted, classes: Iterable[EC2NodeClass] = ()
) -> tuple[Finding, ...]:
    """In the order in which a controller would stumble. Nothing is left behind, no instance is started."""
    try:
        who = await aws.sts.get_caller_identity()
    except AwsError as error:
        return (_no_identity(error),)
    findings = [_identity(who.arn)]
    cluster = await _cluster(aws, wanted, findings)
    findings += await asyncio.gather(*_permissions(aws, clock, wanted))
    findings += await _queue(aws, wanted.queue)
    findings += await _quotas(aws)
    findings += [_prices(aws.region)] if wanted.isolated_vpc else []
    if cluster is not None:
        for node_class in classes:
            findings += await _class(aws, clock, node_class, cluster)
    return _proven(findings)


def _permissions(aws: Aws, clock: Clock, wanted: Wanted) -> Iterator[Awaitable[Finding]]:
    """One finding per permission, but for those of the cluster and the queue."""
    tried = probes(aws, wanted.cluster, clock.now() - HOUR)
    for item in PERMISSIONS:
        elsewhere = item.only_with in (QUEUE, QUOTAS, SHIFTS) or item.call == "eks.describe_cluster"
        unasked = wanted.isolated_vpc and item.call == "pricing.on_demand"
        if not (elsewhere or unasked or item.action in FREE):
            yield _tried(item, tried.get(item.call))


def _prices(region: str) -> Finding:
    """What is known without the price list, which isolated VPCs do not reach."""
    try:
        unknown, of = store.unpriced(region)
    except InputError as error:
        detail = error.message
    else:
        estimates = len(store.estimates(region))
        if not unknown and not estimates:
            return Finding("prices", "list prices", Verdict.FINE)
        detail = f"no price is known of {unknown} of {of} types in {region}, so they are not bought"
        if not unknown:
            detail = f"the packaged prices of {estimates} of {of} types in {region} are estimates"
    return Finding("prices", "list prices", Verdict.UNSURE, detail, _REFRESH.format(region))


def _no_identity(error: AwsError) -> Finding:
    if unidentified(error):
        detail = f"no identity that AWS takes ({error.code}: {error.message})"
        return Finding("identity", "credentials", Verdict.MISSING, detail, NO_IDENTITY)
    return of_error("sts:GetCallerIdentity", "who the controller is", error)


def _identity(arn: str) -> Finding:
    """A node's role can do less than is needed here, and what it can do all pods of the node can do."""
    if _NODE_ROLE.search(arn.partition(":assumed-role/")[2].partition("/")[0]):
        remedy = "give the controller's service account a role of its own"
        detail = f"{arn} looks like the role of a node: the pods have no identity of their own"
        return Finding("identity", "credentials", Verdict.UNSURE, detail, remedy)
    return Finding("identity", "credentials", Verdict.FINE, arn)


async def _cluster(aws: Aws, wanted: Wanted, findings: list[Finding]) -> EksCluster | None:
    """The cluster as EKS describes it, or as the user does."""
    given = EksCluster(wanted.cluster, wanted.endpoint, "", wanted.version, "10.100.0.0/16")
    action, purpose = "eks:DescribeCluster", "endpoint, CA and version of the cluster"
    try:
        found = await aws.eks.describe_cluster(wanted.cluster)
    except AwsError as error:
        if error.refusal is Refusal.NOT_FOUND:
            detail = f"there is no EKS cluster {wanted.cluster!r} in {aws.region}"
            finding = Finding(
                "cluster", wanted.cluster, Verdict.MISSING, detail, "check --cluster-name and --region"
            )
        else:
            finding = of_error(action, purpose, error)
        if wanted.endpoint and finding.verdict in (Verdict.MISSING, Verdict.UNREACHABLE):
            finding = replace(
                finding, verdict=Verdict.UNSURE, remedy="not needed while the endpoint is given"
            )
        findings.append(finding)
        return given if wanted.version else None
    findings.append(Finding("permission", action, Verdict.FINE, purpose))
    findings.append(
        Finding("cluster", found.name, Verdict.FINE, f"Kubernetes {found.version}, {found.endpoint}")
    )
    return found


async def _tried(permission: Permission, probe: Probe | None) -> Finding:
    if probe is None:
        return _untried(permission)
    try:
        await probe()
    except AwsError as error:
        return _refused(permission, error)
    return Finding("permission", permission.action, Verdict.FINE, permission.purpose)


def _refused(permission: Permission, error: AwsError) -> Finding:
    finding = of_error(permission.action, permission.purpose, error)
    if failed([finding]) and permission.without:
        remedy = f"optional: without it {permission.without}"
        return replace(finding, verdict=Verdict.UNSURE, remedy=remedy)
    return finding


def _untried(permission: Permission) -> Finding:
    reason = "a try would change something"
    if permission.call in ("ec2.create_fleet", "ec2.run_instances"):
        reason = "a dry run needs an EC2NodeClass: give one with -f"
    only = f", only for {permission.only_with}" if permission.only_with in (PROFILES, REBOOTS) else ""
    return Finding("permission", permission.action, Verdict.UNTRIED, f"{permission.purpose}{only}: {reason}")


async def _queue(aws: Aws, name: str) -> list[Finding]:
    """Messages that are there are seen again after 20 s: none is deleted."""
    if not name:
        detail = "no interruption queue: only status checks will show instances that AWS takes back"
        remedy = "deploy/terraform makes one; settings.interruptionQueue names it"
        return [Finding("queue", "interruption queue", Verdict.UNSURE, detail, remedy)]
    try:
        url = await aws.sqs.get_queue_url(name)
    except AwsError as error:
        if error.refusal is Refusal.NOT_FOUND:
            remedy = "check --interruption-queue, or make it with deploy/terraform"
            detail = f"there is no queue {name!r} in {aws.region}"
            return [Finding("queue", name, Verdict.MISSING, detail, remedy)]
        return [of_error("sqs:GetQueueUrl", "what AWS announces about instances", error)]
    by_call = {item.call: item for item in PERMISSIONS}
    asked = by_call["sqs.get_queue_url"]
    found = [
        Finding("queue", name, Verdict.FINE, url),
        Finding("permission", asked.action, Verdict.FINE, asked.purpose),
    ]
    found.append(await _tried(by_call["sqs.receive"], lambda: aws.sqs.receive(url)))
    found.append(_untried(by_call["sqs.delete"]))
    return found


async def _quotas(aws: Aws) -> list[Finding]:
    """Nothing depends on knowing them; being short of them does."""
    try:
        known = await aws.quotas.vcpus()
    except AwsError as error:
        return [_refused(of_call("quotas.vcpus"), error)]
    found = []
    for capacity_type in (labels.ON_DEMAND, labels.SPOT):
        vcpus = known.get((capacity_type, STANDARD))
        if vcpus is not None:
            few = vcpus < _FEW_VCPUS
            found.append(
                Finding(
                    "quota",
                    f"vCPU quota, {capacity_type}",
                    Verdict.UNSURE if few else Verdict.FINE,
                    f"{vcpus} vCPUs of the types a, c, d, h, i, m, r, t, z",
                    "ask for more in the console of Service Quotas, if that is too little" if few else "",
                )
            )
    return found


async def _class(aws: Aws, clock: Clock, node_class: EC2NodeClass, cluster: EksCluster) -> list[Finding]:
    """What the class resolves to, and a dry run of a launch from it, without the profile around its role."""
    name = f"EC2NodeClass {node_class.metadata.name}"
    without_dns = Cluster(cluster.name, cluster.endpoint, cluster.ca_bundle, cluster.cidr, None)

    async def surroundings() -> Surroundings:
        return Surroundings(stage, cluster.version)

    resolver = ClassResolver(aws, clock, surroundings, Options(dry_run=False, make=False))
    try:
        records = {item.name: item for item in await aws.ec2.describe_instance_types()}
        stage = Stage(without_dns, aws.region, records)
        resolution = await resolver.resolve(node_class)
        findings = list(_resolved(name, node_class, resolution))
        if resolution.subnets and resolution.security_groups and resolution.images and not resolution.faults:
            fault = await rehearse(aws.ec2, node_class, resolution, stage)
            verdict = Verdict.MISSING if fault else Verdict.FINE
            findings.append(
                Finding("class", f"{name}: dry run", verdict, fault.message if fault else "could launch")
            )
    except AwsError as error:
        return [of_error(f"ec2:{error.action}", name, error)]
    except CreateFailed as error:
        return [Finding("class", name, Verdict.MISSING, str(error))]
    return findings


def _resolved(name: str, node_class: EC2NodeClass, found: NodeClassResolution) -> Iterator[Finding]:
    """What the class selects, or why it selects nothing."""
    bad = {item.condition: item for item in unready_of(node_class, found)}
    for condition, what in (
        ("SubnetsReady", tuple(item.id for item in found.subnets)),
        ("SecurityGroupsReady", tuple(item.id for item in found.security_groups)),
        ("AMIsReady", tuple(item.id for item in found.images)),
    ):
        if condition not in bad:
            yield Finding("class", f"{name}: {condition}", Verdict.FINE, ", ".join(dict.fromkeys(what)))
    for item in bad.values():
        remedy = "" if item.status == "Unknown" else "correct the selector, or tag what it should select"
        yield Finding("class", f"{name}: {item.condition}", Verdict.MISSING, item.message, remedy)
    for reason, message in found.faults:
        yield Finding("class", f"{name}: {reason}", Verdict.MISSING, message)


def _proven(findings: list[Finding]) -> tuple[Finding, ...]:
    """A dry run of a launch that went well has tried the rights that it takes."""
    launched = any(item.subject.endswith(": dry run") and item.verdict is Verdict.FINE for item in findings)
    actions = ("ec2:CreateFleet", "ec2:RunInstances")
    return tuple(
        replace(item, verdict=Verdict.FINE, detail="tried with the class")
        if launched and item.subject in actions and item.verdict is Verdict.UNTRIED
        else item
        for item in findings
    )
