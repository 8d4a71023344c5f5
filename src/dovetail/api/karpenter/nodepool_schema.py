"""What karpenter.sh/v1 NodePool documents may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.api.karpenter import common_rules
from dovetail.api.karpenter.common_schema import (
    DURATION_OR_NEVER,
    LABEL_VALUE,
    POOL_NODE_CLASS_REF,
    POOL_REQUIREMENTS,
    RESOURCES,
    STRINGS,
    claim_properties,
    document,
)
from dovetail.api.rules import on_update, rule
from dovetail.api.schema import Schema

NODES_OR_SHARE = r"^((100|[0-9]{1,2})%|[0-9]+)$"  # "5" or "10%", as the nodes of a budget


@on_update(
    "Cannot transition NodePool between static (replicas set) "
    "and dynamic (replicas unset) provisioning modes",
    cel="has(self.replicas) == has(oldSelf.replicas)",
)
def mode_is_kept(spec: dict[str, Any], old: dict[str, Any]) -> bool:
    return ("replicas" in spec) == ("replicas" in old)


@rule(
    "only 'limits.nodes' is supported on static NodePools",
    cel="!has(self.replicas) || !has(self.limits) || self.limits.size() == 0"
    " || (self.limits.size() == 1 && 'nodes' in self.limits)",
)
def static_limits_nodes_only(spec: dict[str, Any]) -> bool:
    return "replicas" not in spec or set(spec.get("limits", {})) <= {"nodes"}


@rule("'weight' is not supported on static NodePools", cel="!has(self.replicas) || !has(self.weight)")
def static_has_no_weight(spec: dict[str, Any]) -> bool:
    return "replicas" not in spec or "weight" not in spec


@rule(
    "'schedule' must be set with 'duration'",
    cel="self.all(budget, has(budget.schedule) == has(budget.duration))",
)
def schedule_with_duration(budgets: list[dict[str, Any]]) -> bool:
    return all(("schedule" in budget) == ("duration" in budget) for budget in budgets)


_BUDGET = Schema(
    type="object",
    required=("nodes",),
    properties={
        "nodes": Schema(
            type="string",
            default="10%",
            pattern=NODES_OR_SHARE,
            hint='a number of nodes such as "5" or a share such as "10%"',
        ),
        "reasons": Schema(
            type="array",
            unique=True,
            max_items=50,
            items=Schema(type="string", enum=("Underutilized", "Empty", "Drifted", "Unhealthy")),
        ),
        "schedule": Schema(
            type="string",
            pattern=r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$",
            hint="five cron fields such as '0 9 * * 1-5', or @daily and the like",
        ),
        "duration": Schema(
            type="string",
            pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$",
            hint="a duration of h and m such as 8h or 1h30m",
        ),
    },
)

DISRUPTION = Schema(
    type="object",
    default={},
    properties={
        "budgets": Schema(
            type="array",
            items=_BUDGET,
            max_items=50,
            default=[{"nodes": "10%"}],
            rules=(schedule_with_duration,),
        ),
        "consolidateAfter": replace(DURATION_OR_NEVER, default="0s"),
        "consolidationPolicy": Schema(
            type="string",
            default="WhenEmptyOrUnderutilized",
            enum=("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
        ),
    },
)

_TEMPLATE = Schema(
    type="object",
    required=("spec",),
    properties={
        "metadata": Schema(
            type="object",
            properties={
                "annotations": STRINGS,
                "labels": Schema(
                    type="object",
                    values=LABEL_VALUE,
                    max_properties=100,
                    rules=(
                        common_rules.labels_outside_karpenter,
                        common_rules.labels_without_nodepool,
                        common_rules.labels_without_hostname,
                        common_rules.labels_outside_aws,
                    ),
                ),
            },
        ),
        "spec": Schema(
            type="object",
            required=("nodeClassRef", "requirements"),
            properties=claim_properties(POOL_REQUIREMENTS, POOL_NODE_CLASS_REF),
        ),
    },
)

SCHEMA = document(
    Schema(
        type="object",
        required=("template",),
        rules=(mode_is_kept, static_limits_nodes_only, static_has_no_weight),
        properties={
            "template": _TEMPLATE,
            "disruption": DISRUPTION,
            "limits": RESOURCES,
            "weight": Schema(type="integer", format="int32", minimum=1, maximum=100),
            "replicas": Schema(type="integer", format="int64", minimum=0),
        },
    ),
)
