"""A cloud without machines: every instance is a Node object that kwok plays.

types     the table of instance types, Karpenter's own for kwok, and files in its format
machine   the Node object of an instance, and the instance of a Node object
cloud     the provider
"""

from dovetail.cloud.kwok.cloud import KwokCloud
from dovetail.cloud.kwok.types import default_types, read_types

__all__ = ["KwokCloud", "default_types", "read_types"]
