"""An AWS in memory, in the time of the clock it is given: it allocates, runs short, throttles and interrupts.

account    what exists before the first node: subnets, groups, images, parameters, roles, queues
gate       what every call goes through: counts, rights, token buckets, latency
market     prices, spot pools that move, capacity, quotas
fleet      launch templates and fleets: which override gives the next instance
machines   instances: pending, running, ending, remembered for an hour
ec2        EC2; services has the smaller ones
cloud      all of them together, and what happens to instances unasked
"""

from dovetail.cloud.aws.fake.account import Account
from dovetail.cloud.aws.fake.cloud import MemoryAws, Options

__all__ = ["Account", "MemoryAws", "Options"]
