"""EC2's instance types as nodes: labels, capacity, reservations and offerings, from packaged data.

`store` reads the data file, `settings` a node class; `labels`, `capacity` and `offerings` derive, purely;
`assemble` puts a region's types together; `volumes` prices a class's volumes; `kubelet_expressions` are
settings that depend on the type. `file` reads types from a user's own file instead.
"""

from dovetail.cloud.catalog.assemble import instance_types, make, runs, zones
from dovetail.cloud.catalog.store import regions
from dovetail.cloud.catalog.volumes import volume_price

__all__ = ["instance_types", "make", "regions", "runs", "volume_price", "zones"]
