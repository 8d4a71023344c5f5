"""The AWS port over the network. Importing this loads aiobotocore: only runs on AWS do.

calls     clients per service, and botocore's errors as ours
read      EC2's answers as the port's values
ec2       EC2; services has the smaller ones
cloud     all of them together
"""

from dovetail.cloud.aws.live.cloud import LiveAws, connect

__all__ = ["LiveAws", "connect"]
