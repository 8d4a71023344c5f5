"""What clouds in memory have in common, whichever port they answer through: delays, shortages, a queue."""

from dovetail.cloud.twin.delays import Delay, Uniform
from dovetail.cloud.twin.limits import Limit
from dovetail.cloud.twin.queue import MemoryQueue

__all__ = ["Delay", "Limit", "MemoryQueue", "Uniform"]
