"""What pods' volumes demand of a node: zones, and a place in its CSI drivers' limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.api.core import PersistentVolume, PersistentVolumeClaim
from dovetail.api.workloads import StorageClass


@dataclass(frozen=True, slots=True)
class VolumeIndex:
    """The volume objects of a cluster by key: claims by `namespace/name`, the rest by name."""

    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
