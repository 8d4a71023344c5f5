"""What autoscaling.x-k8s.io/v1beta1 CapacityBuffer documents may hold."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter.common_schema import RESOURCES, STRING, document
from dovetail.api.rules import rule
from dovetail.api.schema import Schema

_COUNT = Schema(type="integer", minimum=0)
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


SCHEMA = document(
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
