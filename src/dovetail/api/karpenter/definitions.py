"""Every custom kind that Dovetail installs: its names, its columns, what it may hold."""

from __future__ import annotations

from dovetail.api.crd import Column, CustomKind
from dovetail.api.karpenter import (
    capacitybuffer_schema,
    descriptions,
    ec2nodeclass_descriptions,
    ec2nodeclass_schema,
    kwoknodeclass_schema,
    nodeclaim_schema,
    nodeoverlay_schema,
    nodepool_schema,
    status_schema,
)
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.kwoknodeclass import KWOKNodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool

_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _label(name: str, key: str, *, wide: bool = False) -> Column:
    return Column(name, f".metadata.labels.{key.replace('.', chr(92) + '.')}", wide=wide)


def _condition(name: str, *, wide: bool = False) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{name}")].status', wide=wide)


NODE_POOL = CustomKind(
    api_version=NodePool.API_VERSION,
    kind=NodePool.KIND,
    plural=NodePool.PLURAL,
    schema=nodepool_schema.SCHEMA,
    status=status_schema.NODE_POOL,
    words=descriptions.NODE_POOL,
    scale=(".spec.replicas", ".status.nodes"),
    columns=(
        Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
        Column("Nodes", ".status.nodes"),
        _condition("Ready"),
        _AGE,
        Column("Weight", ".spec.weight", "integer", wide=True),
        Column("CPU", ".status.resources.cpu", wide=True),
        Column("Memory", ".status.resources.memory", wide=True),
    ),
)

NODE_CLAIM = CustomKind(
    api_version=NodeClaim.API_VERSION,
    kind=NodeClaim.KIND,
    plural=NodeClaim.PLURAL,
    schema=nodeclaim_schema.SCHEMA,
    status=status_schema.NODE_CLAIM,
    words=descriptions.NODE_CLAIM,
    columns=(
        _label("Type", "node.kubernetes.io/instance-type"),
        _label("Capacity", "karpenter.sh/capacity-type"),
        _label("Zone", "topology.kubernetes.io/zone"),
        Column("Node", ".status.nodeName"),
        _condition("Ready"),
        _AGE,
        Column("ImageID", ".status.imageID", wide=True),
        Column("ID", ".status.providerID", wide=True),
        _label("NodePool", "karpenter.sh/nodepool", wide=True),
        Column("NodeClass", ".spec.nodeClassRef.name", wide=True),
        _condition("Drifted", wide=True),
    ),
)

NODE_OVERLAY = CustomKind(
    api_version="karpenter.sh/v1alpha1",
    kind="NodeOverlay",
    plural="nodeoverlays",
    short_names=("overlays",),
    schema=nodeoverlay_schema.SCHEMA,
    status=status_schema.CONDITIONS_ONLY,
    words=descriptions.NODE_OVERLAY,
    columns=(_condition("Ready"), _AGE, Column("Weight", ".spec.weight", "integer", wide=True)),
)

EC2_NODE_CLASS = CustomKind(
    api_version=EC2NodeClass.API_VERSION,
    kind=EC2NodeClass.KIND,
    plural=EC2NodeClass.PLURAL,
    short_names=("ec2nc", "ec2ncs"),
    schema=ec2nodeclass_schema.SCHEMA,
    status=status_schema.EC2_NODE_CLASS,
    words=ec2nodeclass_descriptions.EC2_NODE_CLASS,
    columns=(_condition("Ready"), _AGE, Column("Role", ".spec.role", wide=True)),
)

CAPACITY_BUFFER = CustomKind(
    api_version="autoscaling.x-k8s.io/v1beta1",
    kind="CapacityBuffer",
    plural="capacitybuffers",
    short_names=("cb",),
    category="autoscaling",
    namespaced=True,
    schema=capacitybuffer_schema.SCHEMA,
    status=status_schema.CAPACITY_BUFFER,
    words=descriptions.CAPACITY_BUFFER,
    columns=(
        Column("Strategy", ".spec.provisioningStrategy"),
        Column("PodTemplate", ".status.podTemplateRef.name"),
        Column("Replicas", ".status.replicas", "integer"),
        Column("ConditionsType", ".status.conditions[*].type"),
        Column("ConditionsStatus", ".status.conditions[*].status"),
        Column("ConditionsReason", ".status.conditions[*].reason"),
        _AGE,
    ),
)

KWOK_NODE_CLASS = CustomKind(
    api_version=KWOKNodeClass.API_VERSION,
    kind=KWOKNodeClass.KIND,
    plural=KWOKNodeClass.PLURAL,
    short_names=("kwoknc", "kwokncs"),
    schema=kwoknodeclass_schema.SCHEMA,
    status=status_schema.CONDITIONS_ONLY,
    words=descriptions.KWOK_NODE_CLASS,
    columns=(_condition("Ready"), _AGE),
)

DEFINITIONS = (NODE_POOL, NODE_CLAIM, NODE_OVERLAY, EC2_NODE_CLASS, CAPACITY_BUFFER, KWOK_NODE_CLASS)
