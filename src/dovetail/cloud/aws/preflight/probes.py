"""One harmless call per permission: what it answers does not matter, only whether it may be made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.images import LATEST, Filter, ImageQuery, parameters
from dovetail.cloud.aws.launch import cluster_tags, tagged

Probe = Callable[[], Awaitable[object]]
# The name of nothing: nobody makes templates, profiles or images that are called so.
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
