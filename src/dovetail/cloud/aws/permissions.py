"""What each call to AWS needs to be allowed, and what for. deploy/terraform/policies grants exactly this."""

from __future__ import annotations

from dataclasses import dataclass

QUEUE = "interruption queue"
QUOTAS = "knowing vCPU quotas"
SHIFTS = "zonal shifts"
REBOOTS = "node repair that reboots"
PROFILES = "EC2NodeClasses with a role"


@dataclass(frozen=True, slots=True)
class Permission:
    """The IAM actions behind a call of the port. `only_with` names the feature that needs it; "" is any.

    Policies published for Karpenter lack some of those that have a `without`.
    """

    call: str  # as in api.py: "ec2.describe_subnets"
    actions: tuple[str, ...]  # the call's own action first, then those that it needs besides
    purpose: str
    only_with: str = ""
    without: str = ""  # what is so while it is not given; "" where nothing works then

    @property
    def action(self) -> str:
        """The action by the call's own name."""
        return self.actions[0]


_WITHOUT = {
    "describe_availability_zones": "zones are those that subnets are in",
    "describe_instance_status": "failing status checks are not seen",
    "describe_capacity_reservations": "classes with capacityReservationSelectorTerms find none",
    "describe_placement_groups": "classes with a placementGroupSelector are not ready",
}
_DESCRIBED = (
    ("describe_availability_zones", "zones and their ids"),
    ("describe_instance_types", "what types there are, and their room"),
    ("describe_instance_type_offerings", "which zones sell which types"),
    ("describe_spot_price_history", "prices of spot capacity"),
    ("describe_subnets", "subnets of EC2NodeClasses"),
    ("describe_security_groups", "security groups of EC2NodeClasses"),
    ("describe_images", "images of EC2NodeClasses"),
    ("describe_capacity_reservations", "capacity that is paid for"),
    ("describe_placement_groups", "placement groups of EC2NodeClasses"),
    ("describe_launch_templates", "launch templates that are there already"),
    ("describe_instances", "the cluster's own instances"),
    ("describe_instance_status", "instances that fail status checks"),
)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


PERMISSIONS: tuple[Permission, ...] = (
    Permission("sts.get_caller_identity", ("sts:GetCallerIdentity",), "who the controller is"),
    Permission("eks.describe_cluster", ("eks:DescribeCluster",), "endpoint, CA and version of the cluster"),
    *(
        Permission(f"ec2.{name}", (f"ec2:{_camel(name)}",), purpose, without=_WITHOUT.get(name, ""))
        for name, purpose in _DESCRIBED
    ),
    Permission(
        "zonal_shift.shifted",
        ("arc-zonal-shift:GetManagedResource",),
        "zones that AWS shifts away from",
        SHIFTS,
    ),
    Permission(
        "quotas.vcpus",
        ("servicequotas:ListServiceQuotas",),
        "the account's vCPU quotas",
        QUOTAS,
        without="launches show when one is used up",
    ),
    Permission("ssm.get_parameter", ("ssm:GetParameter",), "images behind aliases"),
    Permission("pricing.on_demand", ("pricing:GetProducts",), "prices on demand"),
    Permission("ec2.create_launch_template", ("ec2:CreateLaunchTemplate", "ec2:CreateTags"), "launches"),
    Permission(
        "ec2.create_fleet",
        ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"),
        "launches",
    ),
    Permission(
        "ec2.run_instances", ("ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"), "dry runs of launches"
    ),
    Permission("ec2.create_tags", ("ec2:CreateTags",), "names of instances"),
    Permission("ec2.terminate_instances", ("ec2:TerminateInstances",), "the end of nodes"),
    Permission(
        "ec2.reboot_instances",
        ("ec2:RebootInstances",),
        "reboots of nodes",
        REBOOTS,
    ),
    Permission(
        "ec2.delete_launch_template", ("ec2:DeleteLaunchTemplate",), "launch templates that are not needed"
    ),
    Permission("iam.get_instance_profile", ("iam:GetInstanceProfile",), "instance profiles"),
    Permission(
        "iam.list_instance_profiles", ("iam:ListInstanceProfiles",), "profiles that are not needed", PROFILES
    ),
    Permission(
        "iam.create_instance_profile",
        ("iam:CreateInstanceProfile", "iam:TagInstanceProfile"),
        "profiles",
        PROFILES,
    ),
    Permission("iam.tag_instance_profile", ("iam:TagInstanceProfile",), "profiles", PROFILES),
    Permission(
        "iam.add_role_to_instance_profile",
        ("iam:AddRoleToInstanceProfile", "iam:PassRole"),
        "profiles",
        PROFILES,
    ),
    Permission(
        "iam.remove_role_from_instance_profile", ("iam:RemoveRoleFromInstanceProfile",), "profiles", PROFILES
    ),
    Permission(
        "iam.delete_instance_profile",
        ("iam:DeleteInstanceProfile",),
        "profiles that are not needed",
        PROFILES,
    ),
    Permission("sqs.get_queue_url", ("sqs:GetQueueUrl",), "what AWS announces about instances", QUEUE),
    Permission("sqs.receive", ("sqs:ReceiveMessage",), "what AWS announces about instances", QUEUE),
    Permission("sqs.delete", ("sqs:DeleteMessage",), "messages that were dealt with", QUEUE),
)

# Every identity may ask who it is: no policy has to say so.
FREE = frozenset({"sts:GetCallerIdentity"})


def of_call(call: str) -> Permission:
    """What a call of the port needs. Raises KeyError for a call that the port does not have."""
    return _BY_CALL[call]


def action_of(name: str) -> str:
    """The IAM action behind an operation of the API: "ec2:DescribeSubnets" for DescribeSubnets."""
    known = {one.partition(":")[2]: one for item in PERMISSIONS for one in item.actions}
    return known.get(name, name)


_BY_CALL = {item.call: item for item in PERMISSIONS}
