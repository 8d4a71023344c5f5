"""Every kind that Dovetail knows, by apiVersion and kind."""

from __future__ import annotations

from dovetail.api import core, devices, keda, namespaces, services, workloads
from dovetail.api.coordination import Lease
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import KWOKNodeClass, NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object

KINDS: tuple[type[Object], ...] = (
    core.Namespace,
    core.Node,
    core.Pod,
    core.PersistentVolumeClaim,
    core.PersistentVolume,
    core.Event,
    namespaces.LimitRange,
    namespaces.ResourceQuota,
    services.Service,
    services.ReplicationController,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.StatefulSet,
    workloads.DaemonSet,
    workloads.Job,
    workloads.CronJob,
    workloads.HorizontalPodAutoscaler,
    workloads.PodDisruptionBudget,
    workloads.StorageClass,
    workloads.CSINode,
    workloads.VolumeAttachment,
    workloads.PriorityClass,
    workloads.RuntimeClass,
    workloads.PodTemplate,
    devices.DeviceClass,
    devices.ResourceClaim,
    devices.ResourceClaimTemplate,
    devices.ResourceSlice,
    keda.ScaledObject,
    keda.ScaledJob,
    Lease,
    CapacityBuffer,
    NodePool,
    NodeClaim,
    NodeOverlay,
    EC2NodeClass,
    KWOKNodeClass,
    *GANG_KINDS,
)

BY_GVK: dict[tuple[str, str], type[Object]] = {(kind.API_VERSION, kind.KIND): kind for kind in KINDS}

# The node classes among them, by API group and kind, as a nodeClassRef names them.
NODE_CLASSES: dict[tuple[str, str], type[NodeClass]] = {
    (kind.API_VERSION.partition("/")[0], kind.KIND): kind for kind in (EC2NodeClass, KWOKNodeClass)
}
