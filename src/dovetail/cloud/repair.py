"""When nodes of EKS are past help: Ready is the kubelet's own, the others are its node monitoring agent's."""

from __future__ import annotations

from dovetail.base.clock import MINUTE
from dovetail.model.repair import REBOOT, REPLACE, RepairPolicies, RepairPolicy

_ACCELERATED = ("AcceleratedHardwareReady", "False")
# Errors of NVIDIA's driver (XIDs): what a reset of the device mends, and what it does not.
_RESET = "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)"
_BROKEN = "XID(64|74|79|119|120)"
_READY = (("Ready", "False"), ("Ready", "Unknown"))
_OTHERS = tuple(
    (kind, "False") for kind in ("StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady")
)


def _slow(kind: tuple[str, str], reason: str) -> RepairPolicy:
    return RepairPolicy(*kind, 30 * MINUTE, reason, grace=10 * MINUTE)


def _fast(reason: str, action: str) -> RepairPolicy:
    return RepairPolicy(*_ACCELERATED, 10 * MINUTE, reason, grace=5 * MINUTE, action=action)


def _policies(reset: str) -> RepairPolicies:
    """Karpenter's for AWS; `reset` is what is done where a reset of the device is enough."""
    return RepairPolicies(
        current=(
            *(_slow(kind, ".*") for kind in _READY),
            _fast(_RESET, reset),
            _fast(_BROKEN, REPLACE),
            _slow(_ACCELERATED, ""),
            *(_slow(kind, ".*") for kind in _OTHERS),
        ),
        legacy=(
            *(RepairPolicy(*kind, 30 * MINUTE, ".*") for kind in (*_READY, *_OTHERS)),
            RepairPolicy(*_ACCELERATED, 10 * MINUTE, ".*"),
        ),
    )


EKS_POLICIES = _policies(REPLACE)
# With the gate RebootForRepair.
EKS_REBOOT_POLICIES = _policies(REBOOT)
