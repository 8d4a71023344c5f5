"""Admission rules of core kinds beyond types: selectors, restart policies, budgets, quantities, schedules."""

from __future__ import annotations

import contextlib
from typing import Any

from dovetail.api.names import label_key_faults, label_value_faults
from dovetail.api.rules import Rule, rule
from dovetail.units.cron import Cron
from dovetail.units.quantity import Quantity, parse_quantity

Value = dict[str, Any]


@rule("`selector` does not match template `labels`", at="template.metadata.labels")
def selector_matches_template(spec: Value) -> bool:
    labels = spec["template"].get("metadata", {}).get("labels", {})
    selector = spec["selector"]
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _expression_holds(item, labels) for item in selector.get("matchExpressions", ())
    )


def _expression_holds(item: Value, labels: dict[str, str]) -> bool:
    given = labels.get(item["key"])
    operator: str = item["operator"]
    if operator in ("In", "NotIn"):
        values: list[str] = item.get("values", [])
        return (given in values) == (operator == "In")
    return (given is None) == (operator == "DoesNotExist")


@rule("empty selector is invalid for this kind: it would match every pod", at="selector")
def selector_not_empty(spec: Value) -> bool:
    return bool(spec["selector"].get("matchLabels") or spec["selector"].get("matchExpressions"))


@rule('pods of this kind always restart; supported values: "Always"', at="template.spec.restartPolicy")
def always_restarts(spec: Value) -> bool:
    return bool(spec["template"].get("spec", {}).get("restartPolicy", "Always") == "Always")


@rule('valid values: "OnFailure", "Never"', at="template.spec.restartPolicy")
def job_restart_policy(spec: Value) -> bool:
    return spec["template"].get("spec", {}).get("restartPolicy") in ("OnFailure", "Never")


@rule("must be greater than or equal to 0", at="replicas")
def replicas_not_negative(spec: Value) -> bool:
    return bool(spec.get("replicas", 0) >= 0)


@rule("must be greater than or equal to 0", at="parallelism")
def parallelism_not_negative(spec: Value) -> bool:
    return bool(spec.get("parallelism", 0) >= 0)


@rule("minAvailable and maxUnavailable cannot be both set")
def one_kind_of_budget(spec: Value) -> bool:
    return not ("minAvailable" in spec and "maxUnavailable" in spec)


@rule("must be greater than or equal to `minReplicas`", at="maxReplicas")
def replicas_in_order(spec: Value) -> bool:
    return bool(spec["maxReplicas"] >= spec.get("minReplicas", 1))


@rule("must be greater than 0", at="maxReplicas")
def max_replicas_positive(spec: Value) -> bool:
    return bool(spec["maxReplicas"] > 0)


@rule("must be less than or equal to the limit of the same resource", at="requests")
def requests_within_limits(resources: Value) -> bool:
    requests, limits = _amounts(resources, "requests"), _amounts(resources, "limits")
    return all(amount <= limits[name] for name, amount in requests.items() if name in limits)


@rule("amounts must be greater than or equal to 0")
def amounts_not_negative(resources: Value) -> bool:
    amounts = (*_amounts(resources, "requests").values(), *_amounts(resources, "limits").values())
    return all(amount.nanos >= 0 for amount in amounts)


def _amounts(resources: Value, field: str) -> dict[str, Quantity]:
    """The quantities of a list; those that cannot be read are reported by the schema."""
    found = {}
    for name, text in resources.get(field, {}).items():
        with contextlib.suppress(ValueError):
            found[name] = parse_quantity(text)
    return found


@rule("must be greater than zero", at="maxSkew")
def skew_positive(constraint: Value) -> bool:
    return bool(constraint["maxSkew"] > 0)


@rule("must be greater than 0, and whenUnsatisfiable must be 'DoNotSchedule'", at="minDomains")
def min_domains_apply(constraint: Value) -> bool:
    return "minDomains" not in constraint or (
        constraint["minDomains"] > 0 and constraint["whenUnsatisfiable"] == "DoNotSchedule"
    )


@rule("must be in the range 1-100", at="weight")
def weight_in_range(term: Value) -> bool:
    return bool(1 <= term["weight"] <= 100)


@rule("values must be given for In and NotIn, and must be absent for Exists and DoesNotExist", at="values")
def values_fit_operator(item: Value) -> bool:
    if item["operator"] in ("In", "NotIn"):
        return bool(item.get("values"))
    return item["operator"] in ("Gt", "Lt") or not item.get("values")


@rule("must hold one whole number for Gt and Lt", at="values")
def bounds_are_numbers(item: Value) -> bool:
    values = item.get("values", [])
    return item["operator"] not in ("Gt", "Lt") or (len(values) == 1 and _is_int(values[0]))


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


@rule("value must be empty when operator is 'Exists'", at="value")
def exists_has_no_value(toleration: Value) -> bool:
    return toleration.get("operator") != "Exists" or not toleration.get("value")


@rule("operator must be Exists when `key` is empty, which means match all values and all keys", at="operator")
def keyless_toleration_exists(toleration: Value) -> bool:
    return bool(toleration.get("key")) or toleration.get("operator") == "Exists"


@rule(
    "labels must have qualified names as keys and at most 63 letters, digits, '-', '_', '.' as values",
    at="labels",
)
def labels_well_formed(meta: Value) -> bool:
    return not any(
        label_key_faults(key) or label_value_faults(value) for key, value in meta.get("labels", {}).items()
    )


def _schedule_fault(spec: Value) -> str:
    """What is wrong with the schedule of a CronJob; empty when it is fine."""
    try:
        Cron.parse(spec["schedule"], spec.get("timeZone", "UTC"))
    except ValueError as error:
        return str(error)
    return ""


schedule_is_cron = Rule("schedule_is_cron", explain=_schedule_fault, at="schedule")

_SELECTOR = (selector_not_empty, selector_matches_template)
_EXPRESSION = (values_fit_operator, bounds_are_numbers)

# Type name of the field tables -> its rules.
RULES: dict[str, tuple[Rule, ...]] = {
    "V1ObjectMeta": (labels_well_formed,),
    "V1DeploymentSpec": (*_SELECTOR, always_restarts, replicas_not_negative),
    "V1ReplicaSetSpec": (*_SELECTOR, always_restarts, replicas_not_negative),
    "V1StatefulSetSpec": (*_SELECTOR, always_restarts, replicas_not_negative),
    "V1DaemonSetSpec": (*_SELECTOR, always_restarts),
    "V1JobSpec": (job_restart_policy, parallelism_not_negative),
    "V1CronJobSpec": (schedule_is_cron,),
    "V1PodDisruptionBudgetSpec": (one_kind_of_budget,),
    "V2HorizontalPodAutoscalerSpec": (max_replicas_positive, replicas_in_order),
    "V1ResourceRequirements": (amounts_not_negative, requests_within_limits),
    "V1TopologySpreadConstraint": (skew_positive, min_domains_apply),
    "V1PreferredSchedulingTerm": (weight_in_range,),
    "V1WeightedPodAffinityTerm": (weight_in_range,),
    "V1NodeSelectorRequirement": _EXPRESSION,
    "V1LabelSelectorRequirement": (values_fit_operator,),
    "V1Toleration": (exists_has_no_value, keyless_toleration_exists),
}

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")

# (type, field) -> the values that it may have.
ENUMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("V1TopologySpreadConstraint", "nodeAffinityPolicy"): _POLICIES,
    ("V1TopologySpreadConstraint", "nodeTaintsPolicy"): _POLICIES,
    ("V1NodeSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("V1LabelSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist"),
    ("V1Toleration", "operator"): ("", "Equal", "Exists", "Lt", "Gt"),
    ("V1Toleration", "effect"): ("", *_EFFECTS),
    ("V1Taint", "effect"): _EFFECTS,
    ("V1PodSpec", "restartPolicy"): ("Always", "OnFailure", "Never"),
    ("V1Container", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    ("V1ContainerPort", "protocol"): ("TCP", "UDP", "SCTP"),
    ("V1StatefulSetSpec", "podManagementPolicy"): ("OrderedReady", "Parallel"),
    ("V1DeploymentStrategy", "type"): ("RollingUpdate", "Recreate"),
    ("V1CronJobSpec", "concurrencyPolicy"): ("Allow", "Forbid", "Replace"),
    ("V1PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"): ("IfHealthyBudget", "AlwaysAllow"),
    ("V1StorageClass", "volumeBindingMode"): ("Immediate", "WaitForFirstConsumer"),
    ("V1PriorityClass", "preemptionPolicy"): ("PreemptLowerPriority", "Never"),
    ("V2MetricSpec", "type"): ("ContainerResource", "External", "Object", "Pods", "Resource"),
    ("V2MetricTarget", "type"): ("AverageValue", "Utilization", "Value"),
}
