"""The provider for AWS.

market          types, zones and prices, as AWS says
surroundings    the cluster that nodes join
launcher        a claim's way to an instance; fleets, subnets, templates_kept are its parts
instances       describing and ending, many at a time (joint)
reading         EC2's instances as the provider's port has them
queue           the interruption queue
cloud           the provider
"""

from dovetail.cloud.aws.provider.cloud import AwsCloud, Options
from dovetail.cloud.aws.provider.market import NodeOptions
from dovetail.cloud.aws.provider.queue import SqsQueue
from dovetail.cloud.aws.provider.surroundings import Around, Told

__all__ = ["Around", "AwsCloud", "NodeOptions", "Options", "SqsQueue", "Told"]
