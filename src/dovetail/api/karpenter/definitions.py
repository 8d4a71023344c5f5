"""Every custom kind that Dovetail installs: its names, its columns, what it may hold.

The schemas of small kinds are here; NodePools and node classes have modules of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.api.crd import Column, CustomKind
from dovetail.api.karpenter import descriptions, ec2nodeclass_schema, nodepool_schema, status_schema
from dovetail.api.karpenter import descriptions as ec2nodeclass_descriptions
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.common_schema import (
    DURATION,
    NODE_CLASS_REF,
    OVERLAY_REQUIREMENTS,
    REQUIREMENTS,
    RESOURCES,
    STRING,
    claim_properties,
    document,
)
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import KWOKNodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.wellknown import BASIC_RESOURCES
from dovetail.api.rules import on_update, rule
from dovetail.api.schema import Schema

_COUNT = Schema(type="integer", format="int32", minimum=0)
_NAME = Schema(type="string", min_length=1)


@rule(
    "If podTemplateRef is set, replicas or limits must also be set",
    cel="!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
)
def template_needs_size(spec: dict[str, Any]) -> bool:
    return "podTemplateRef" not in spec or "replicas" in spec or "limits" in spec


@rule(
    "You must define either PodTemplateRef or ScalableRef, but not both",
    cel="!has(self.podTemplateRef) || !has(self.scalableRef)",
)
def one_source(spec: dict[str, Any]) -> bool:
    return "podTemplateRef" not in spec or "scalableRef" not in spec


CAPACITY_BUFFER_SCHEMA = document(
    Schema(
        type="object",
        rules=(template_needs_size, one_source),
        properties={
            "provisioningStrategy": Schema(type="string", default="buffer.x-k8s.io/active-capacity"),
            "podTemplateRef": Schema(type="object", required=("name",), properties={"name": _NAME}),
            "scalableRef": Schema(
                type="object",
                required=("kind", "name"),
                properties={"apiGroup": STRING, "kind": _NAME, "name": _NAME},
            ),
            "replicas": _COUNT,
            "percentage": _COUNT,
            "limits": RESOURCES,
        },
    ),
)


KWOK_NODE_CLASS_SCHEMA = document(
    Schema(type="object", properties={"nodeRegistrationDelay": DURATION}),
    required=False,
)


@on_update("spec is immutable", cel="self == oldSelf")
def spec_is_kept(spec: dict[str, Any], old: dict[str, Any]) -> bool:
    return spec == old


NODE_CLAIM_SCHEMA = document(
    Schema(
        type="object",
        required=("nodeClassRef", "requirements"),
        rules=(spec_is_kept,),
        properties={
            **claim_properties(REQUIREMENTS, NODE_CLASS_REF),
            "resources": Schema(type="object", properties={"requests": RESOURCES}),
        },
    ),
)


@rule("cannot set both 'price' and 'priceAdjustment'", cel="!has(self.price) || !has(self.priceAdjustment)")
def one_price(spec: dict[str, Any]) -> bool:
    return "price" not in spec or "priceAdjustment" not in spec


@rule("invalid resource restricted", cel=" && ".join(f"!('{name}' in self)" for name in BASIC_RESOURCES))
def no_basic_resources(capacity: dict[str, Any]) -> bool:
    return not any(name in capacity for name in BASIC_RESOURCES)


NODE_OVERLAY_SCHEMA = document(
    Schema(
        type="object",
        required=("requirements",),
        rules=(one_price,),
        properties={
            "requirements": OVERLAY_REQUIREMENTS,
            "price": Schema(
                type="string",
                pattern=r"^\d+(\.\d+)?$",
                hint='dollars per hour without a sign, such as "0.25"',
            ),
            "priceAdjustment": Schema(
                type="string",
                pattern=(r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"),
                hint='a signed amount such as "-0.05" or a signed share such as "+10%", at least -100%',
            ),
            "capacity": replace(RESOURCES, rules=(no_basic_resources,)),
            "weight": Schema(type="integer", format="int32", minimum=1, maximum=10_000),
        },
    ),
)


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
    schema=NODE_CLAIM_SCHEMA,
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
    api_version=NodeOverlay.API_VERSION,
    kind=NodeOverlay.KIND,
    plural=NodeOverlay.PLURAL,
    short_names=("overlays",),
    schema=NODE_OVERLAY_SCHEMA,
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
    api_version=CapacityBuffer.API_VERSION,
    kind=CapacityBuffer.KIND,
    plural=CapacityBuffer.PLURAL,
    short_names=("cb",),
    category="autoscaling",
    namespaced=True,
    schema=CAPACITY_BUFFER_SCHEMA,
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
    schema=KWOK_NODE_CLASS_SCHEMA,
    status=status_schema.CONDITIONS_ONLY,
    words=descriptions.KWOK_NODE_CLASS,
    columns=(_condition("Ready"), _AGE),
)

DEFINITIONS = (NODE_POOL, NODE_CLAIM, NODE_OVERLAY, EC2_NODE_CLASS, CAPACITY_BUFFER, KWOK_NODE_CLASS)
