"""Schema pieces that NodePools and NodeClaims share."""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.karpenter import common_rules as rules
from dovetail.api.schema import Schema

STRING = Schema(type="string")
STRINGS = Schema(type="object", values=STRING)
BOOLEAN = Schema(type="boolean")
INTEGER = Schema(type="integer", format="int64")
ANY = Schema(type="any")

QUANTITY = Schema(
    type="int-or-string",
    pattern=(
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    hint="a quantity such as 2, 500m or 10Gi",
)
RESOURCES = Schema(type="object", values=QUANTITY)

LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
LABEL_VALUE = Schema(
    type="string",
    pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    hint="a label value (letters, digits, '-', '_', '.')",
    max_length=63,
)
_KEY_WORDS = "a label key such as team or example.com/team"

DURATION = Schema(
    type="string", pattern=r"^([0-9]+(s|m|h))+$", hint="a duration of h, m and s such as 30m or 1h30m"
)
DURATION_OR_NEVER = Schema(
    type="string",
    pattern=r"^(([0-9]+(s|m|h))+|Never)$",
    hint="a duration of h, m and s such as 30m or 1h30m, or Never",
)

TAINT = Schema(
    type="object",
    required=("key", "effect"),
    properties={
        "key": Schema(type="string", min_length=1, pattern=LABEL_KEY, hint=_KEY_WORDS),
        "effect": Schema(type="string", enum=("NoSchedule", "PreferNoSchedule", "NoExecute")),
        "value": Schema(
            type="string", pattern=LABEL_KEY, hint="a taint value (letters, digits, '-', '_', '.')"
        ),
        "timeAdded": STRING,
    },
)
TAINTS = Schema(type="array", items=TAINT)

_KEY_RULES = (rules.key_outside_karpenter, rules.key_not_hostname, rules.key_outside_aws)
REQUIREMENT = Schema(
    type="object",
    required=("key", "operator"),
    properties={
        "key": Schema(type="string", max_length=316, pattern=LABEL_KEY, hint=_KEY_WORDS, rules=_KEY_RULES),
        "operator": Schema(
            type="string", enum=("Gte", "Lte", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        ),
        "values": Schema(type="array", items=STRING),
        "minValues": Schema(type="integer", minimum=1, maximum=50),
    },
)
REQUIREMENTS = Schema(
    type="array",
    items=REQUIREMENT,
    max_items=100,
    rules=(rules.in_has_values, rules.bounds_have_one_integer, rules.in_has_min_values),
)
_OVERLAY_KEY = replace(
    REQUIREMENT.properties["key"],
    rules=(rules.key_outside_karpenter, rules.key_not_hostname, rules.overlay_key_outside_aws),
)
OVERLAY_REQUIREMENTS = replace(
    REQUIREMENTS,
    items=replace(
        REQUIREMENT,
        properties={
            "key": _OVERLAY_KEY,
            "operator": REQUIREMENT.properties["operator"],
            "values": REQUIREMENT.properties["values"],
        },
    ),
    rules=(rules.in_has_values, rules.not_in_has_values, rules.overlay_bounds_have_one_integer),
)
_POOL_KEY = replace(REQUIREMENT.properties["key"], rules=(*_KEY_RULES, rules.key_not_nodepool))
POOL_REQUIREMENTS = replace(
    REQUIREMENTS, items=replace(REQUIREMENT, properties={**REQUIREMENT.properties, "key": _POOL_KEY})
)

NODE_CLASS_REF = Schema(
    type="object",
    required=("group", "kind", "name"),
    properties={
        "group": Schema(
            type="string",
            pattern=r"^[^/]*$",
            hint="an API group without a version, such as karpenter.k8s.aws",
            rules=(rules.group_given,),
        ),
        "kind": Schema(type="string", rules=(rules.kind_given,)),
        "name": Schema(type="string", rules=(rules.name_given,)),
    },
)
POOL_NODE_CLASS_REF = replace(NODE_CLASS_REF, rules=(rules.group_is_kept, rules.kind_is_kept))


def claim_properties(requirements: Schema, node_class_ref: Schema) -> dict[str, Schema]:
    """The fields that a NodePool's template and a NodeClaim have in common."""
    return {
        "nodeClassRef": node_class_ref,
        "requirements": requirements,
        "taints": TAINTS,
        "startupTaints": TAINTS,
        "terminationGracePeriod": DURATION,
        "expireAfter": replace(DURATION_OR_NEVER, default="720h"),
    }


def document(spec: Schema, *, required: bool = True) -> Schema:
    """Documents of a kind with that spec, which they may lack unless it is `required`."""
    return Schema(
        type="object",
        required=("spec",) if required else (),
        properties={"apiVersion": STRING, "kind": STRING, "metadata": ANY, "spec": spec, "status": ANY},
    )
