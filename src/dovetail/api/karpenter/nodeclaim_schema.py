"""What karpenter.sh/v1 NodeClaim documents may hold."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter.common_schema import (
    NODE_CLASS_REF,
    REQUIREMENTS,
    RESOURCES,
    claim_properties,
    document,
)
from dovetail.api.rules import on_update
from dovetail.api.schema import Schema


@on_update("spec is immutable", cel="self == oldSelf")
def spec_is_kept(spec: dict[str, Any], old: dict[str, Any]) -> bool:
    return spec == old


SCHEMA = document(
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
