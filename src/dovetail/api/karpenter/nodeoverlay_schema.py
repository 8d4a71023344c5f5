"""What karpenter.sh/v1alpha1 NodeOverlay documents may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.api.karpenter.common_schema import OVERLAY_REQUIREMENTS, RESOURCES, document
from dovetail.api.rules import rule
from dovetail.api.schema import Schema

_RESTRICTED = ("cpu", "memory", "ephemeral-storage", "pods")


@rule("cannot set both 'price' and 'priceAdjustment'", cel="!has(self.price) || !has(self.priceAdjustment)")
def one_price(spec: dict[str, Any]) -> bool:
    return "price" not in spec or "priceAdjustment" not in spec


@rule("invalid resource restricted", cel=" && ".join(f"!('{name}' in self)" for name in _RESTRICTED))
def no_basic_resources(capacity: dict[str, Any]) -> bool:
    return not any(name in capacity for name in _RESTRICTED)


SCHEMA = document(
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
            "weight": Schema(type="integer", minimum=1, maximum=10_000),
        },
    ),
)
