"""An AWS in memory, in the time of the clock it is given: it allocates, runs short, throttles and interrupts.

account    what exists before the first node: subnets, groups, images, parameters, roles, queues
gate       what every call goes through: counts, rights, token buckets, latency
filters    filters of Describe calls
market     prices, spot pools that move, capacity, quotas
fleet      which override of a fleet request gives the next instance (pure)
launches   launch templates and fleets, by client token
machines   instances: pending, running, ending, remembered for an hour
ec2        the twin of EC2; services has the smaller ones
cloud      all of them together, and what happens to instances unasked
"""

from dovetail.cloud.aws.memory.account import Account
from dovetail.cloud.aws.memory.cloud import MemoryAws, Options

__all__ = ["Account", "MemoryAws", "Options"]
