"""A cloud in virtual time behind the provider's port.

`account` holds what node classes select, `cloud` the capacity, which offering a launch takes, and the life of
the instances.
"""

from dovetail.cloud.simulated.account import Account, Image, SecurityGroup, Subnet
from dovetail.cloud.simulated.cloud import Delays, SimulatedCloud

__all__ = [
    "Account",
    "Delays",
    "Image",
    "SecurityGroup",
    "SimulatedCloud",
    "Subnet",
]
