"""A cloud in virtual time behind the provider's port.

`account` holds what node classes select, `pools` how much capacity there is, `fleet` which offering a launch
takes (pure), `cloud` the instances and their life.
"""

from dovetail.cloud.simulated.account import Account, Image, SecurityGroup, Subnet
from dovetail.cloud.simulated.cloud import SimulatedCloud
from dovetail.cloud.simulated.delays import Delays

__all__ = [
    "Account",
    "Delays",
    "Image",
    "SecurityGroup",
    "SimulatedCloud",
    "Subnet",
]
