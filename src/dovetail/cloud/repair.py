"""What a cloud's node monitoring reports on nodes that cannot be helped, and for how long it may."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.base.clock import MINUTE


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A condition with this status is a fault of the node once it has lasted `toleration` nanoseconds."""

    condition: str
    status: str
    toleration: int


# As EKS has them: Ready is the kubelet's own, the others are its node monitoring agent's.
EKS_POLICIES = (
    RepairPolicy("Ready", "False", 30 * MINUTE),
    RepairPolicy("Ready", "Unknown", 30 * MINUTE),
    RepairPolicy("AcceleratedHardwareReady", "False", 10 * MINUTE),
    RepairPolicy("StorageReady", "False", 30 * MINUTE),
    RepairPolicy("NetworkingReady", "False", 30 * MINUTE),
    RepairPolicy("KernelReady", "False", 30 * MINUTE),
    RepairPolicy("ContainerRuntimeReady", "False", 30 * MINUTE),
)
