"""What the policy allows that Karpenter's guide makes for its controller, from 1.6 on."""

from __future__ import annotations

from dovetail.cloud.aws.permissions import FREE, PERMISSIONS

ALLOWED = {
    *(
        f"ec2:Describe{what}"
        for what in (
            "CapacityReservations",
            "Images",
            "Instances",
            "InstanceTypeOfferings",
            "InstanceTypes",
            "LaunchTemplates",
            "SecurityGroups",
            "SpotPriceHistory",
            "Subnets",
        )
    ),
    *("ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate"),
    *("ec2:RunInstances", "ec2:TerminateInstances", "eks:DescribeCluster", "iam:PassRole"),
    *("iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile"),
    *("iam:GetInstanceProfile", "iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile"),
    *("iam:TagInstanceProfile", "pricing:GetProducts", "ssm:GetParameter"),
    *("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"),
}
# What of all that Dovetail asks for it does not allow.
BEYOND = tuple(sorted({one for item in PERMISSIONS for one in item.actions} - FREE - ALLOWED))
