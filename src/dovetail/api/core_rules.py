"""Admission rules of core kinds beyond types: selectors, restart policies, budgets, quantities, schedules."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dovetail.api import container_rules, namespace_rules, workload_rules
from dovetail.api.names import label_key_faults, label_name_faults, label_value_faults
from dovetail.api.pod_resources import HUGE_PAGES, extended, meant_resource, name_fault, whole_fault
from dovetail.api.rules import Rule, rule
from dovetail.api.workload_rules import above_all, share_fault
from dovetail.units.quantity import Quantity, nanos_if_any, parse_quantity

Value = dict[str, Any]

POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ANNOTATION_BYTES = 256 * 1024  # of all annotations of an object, keys and values


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
    return spec["template"].get("spec", {}).get("restartPolicy") in (None, "", "Always")


@rule('valid values: "OnFailure", "Never"', at="template.spec.restartPolicy")
def job_restart_policy(spec: Value) -> bool:
    return spec["template"].get("spec", {}).get("restartPolicy") in ("OnFailure", "Never")


@rule("must be greater than or equal to 0", at="replicas")
def replicas_not_negative(spec: Value) -> bool:
    return bool(spec.get("replicas", 0) >= 0)


@rule("must be less than or equal to 2147483647", at="replicas")
def replicas_within_32_bits(spec: Value) -> bool:
    return bool(spec.get("replicas", 0) < 1 << 31)


@rule("must be greater than or equal to 0", at="parallelism")
def parallelism_not_negative(spec: Value) -> bool:
    return bool(spec.get("parallelism", 0) >= 0)


@rule("must be less than or equal to 2147483647", at="parallelism")
def parallelism_within_32_bits(spec: Value) -> bool:
    return bool(spec.get("parallelism", 0) < 1 << 31)


@rule("minAvailable and maxUnavailable cannot be both set")
def one_kind_of_budget(spec: Value) -> bool:
    return not ("minAvailable" in spec and "maxUnavailable" in spec)


def _budget_fault(spec: Value) -> str:
    """What is wrong with a number or a share of pods; empty when it is fine."""
    for field in ("minAvailable", "maxUnavailable"):
        wanted = spec.get(field, 0)
        if fault := share_fault(wanted):
            return f"{field}: {fault}"
        if above_all(wanted):
            return f"{field}: must not be greater than 100%"
    return ""


budget_in_range = Rule("budget_in_range", explain=_budget_fault)


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


def _resource_fault(amounts: Value) -> str:
    """What is wrong with the first resource that no container can have so; empty when there is none."""
    for name, text in amounts.items():
        if fault := name_fault(name):
            near = meant_resource(name)
            return f"{name}: {fault}{f'; did you mean {near}?' if near else ''}"
        if name.startswith(HUGE_PAGES) and not _whole_pages(text, name.removeprefix(HUGE_PAGES)):
            return f"{text} is not positive integer multiple of {name}"
    return ""


def _whole_pages(text: object, size: str) -> bool:
    page, amount = nanos_if_any(size), nanos_if_any(text)
    return page is not None and page > 0 and amount is not None and amount >= 0 and amount % page == 0


requests_named = Rule(
    "requests_named", explain=lambda part: _resource_fault(part.get("requests") or {}), at="requests"
)
limits_named = Rule(
    "limits_named", explain=lambda part: _resource_fault(part.get("limits") or {}), at="limits"
)
overhead_named = Rule(
    "overhead_named", explain=lambda spec: _resource_fault(spec.get("overhead") or {}), at="overhead"
)


def _huge_pages_alone(resources: Value) -> str:
    names = {*resources.get("requests", ()), *resources.get("limits", ())}
    alone = any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}
    return "HugePages require cpu or memory" if alone else ""


huge_pages_beside = Rule("huge_pages_beside", explain=_huge_pages_alone)


def _device_fault(resources: Value) -> str:
    """What is wrong with amounts of devices and huge pages, which no pods share; empty when nothing is."""
    requests, limits = _amounts(resources, "requests"), _amounts(resources, "limits")
    for name in sorted({*requests, *limits}):
        device = extended(name)
        asked, most = requests.get(name), limits.get(name)
        if device and any(one is not None and one.nanos % 1_000_000_000 for one in (asked, most)):
            return f"{name} must be an integer"
        if asked is not None and (device or name.startswith(HUGE_PAGES)):
            if most is None:
                return (
                    f"{name}: Limit must be set for non overcommitable resources, to the request of {asked}"
                )
            if asked != most:
                return f"the request of {name}, {asked}, must be equal to {name} limit of {most}"
    return ""


devices_whole_and_limited = Rule("devices_whole_and_limited", explain=_device_fault)


def _amounts(resources: Value, field: str) -> dict[str, Quantity]:
    """The quantities of a list; those that cannot be read are reported by the schema."""
    found = {}
    for name, text in resources.get(field, {}).items():
        with contextlib.suppress(ValueError, TypeError):
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


def _topology_key_fault(term: Value) -> str:
    return _key_fault((term["topologyKey"],)) if term["topologyKey"] else "can not be empty"


topology_key_well_formed = Rule("topology_key_well_formed", explain=_topology_key_fault, at="topologyKey")


@rule("can not be empty", at="topologyKey")
def topology_key_given(constraint: Value) -> bool:
    """A server takes any other text as the key of a spread."""
    return bool(constraint["topologyKey"])


def _keys_to_match_fault(term: Value) -> str:
    keys, others = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if (keys or others) and term.get("labelSelector") is None:
        return "must not be specified when labelSelector is not set"
    both = [key for key in keys if key in others]
    if both:
        return f'"{both[0]}": exists in both matchLabelKeys and mismatchLabelKeys'
    return _key_fault((*keys, *others))


keys_to_match_apply = Rule("keys_to_match_apply", explain=_keys_to_match_fault, at="matchLabelKeys")


def matched_twice(pod: Value) -> str:
    """Which of a pod's matchLabelKeys its labelSelector names too. A server takes that in templates, and
    refuses every pod of them: it adds `key In [value]` to the selectors of new pods, which may be there.
    """
    owned = pod.get("metadata", {}).get("labels") or {}
    for path, term in _terms(pod.get("spec") or {}):
        keys, selector = term.get("matchLabelKeys") or (), term.get("labelSelector") or {}
        for index, key in enumerate(keys):
            added = {"key": key, "operator": "In", "values": [owned.get(key)]}
            own = [one for one in selector.get("matchExpressions") or () if one["key"] == key]
            named = key in (selector.get("matchLabels") or {}) or own not in ([], [added])
            if key in owned and (named or key in keys[:index]):
                return f'{path}: Invalid value: "{key}": exists in both matchLabelKeys and labelSelector'
    return ""


def _terms(spec: Value) -> Iterator[tuple[str, Value]]:
    """All spread constraints and terms of affinities, with their paths."""
    for index, item in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield f"spec.topologySpreadConstraints[{index}]", item
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for when in ("required", "preferred"):
            name = f"{when}DuringSchedulingIgnoredDuringExecution"
            for index, item in enumerate((affinity.get(kind) or {}).get(name) or ()):
                path = f"spec.affinity.{kind}.{name}[{index}]"
                if when == "required":
                    yield path, item
                else:
                    yield f"{path}.podAffinityTerm", item["podAffinityTerm"]


keys_matched_once = Rule("keys_matched_once", explain=matched_twice, at="spec")


def _twice_fault(spec: Value) -> str:
    pairs = [
        (item["topologyKey"], item["whenUnsatisfiable"]) for item in spec.get("topologySpreadConstraints", ())
    ]
    twice = next((pair for index, pair in enumerate(pairs) if pair in pairs[:index]), None)
    return f"Duplicate value: {{{', '.join(twice)}}}" if twice else ""


spreads_are_distinct = Rule("spreads_are_distinct", explain=_twice_fault, at="topologySpreadConstraints")
node_selector_well_formed = Rule(
    "node_selector_well_formed",
    explain=lambda spec: _label_fault(spec.get("nodeSelector", {})),
    at="nodeSelector",
)
match_labels_well_formed = Rule(
    "match_labels_well_formed",
    explain=lambda selector: _label_fault(selector.get("matchLabels", {})),
    at="matchLabels",
)
key_well_formed = Rule("key_well_formed", explain=lambda item: _key_fault((item["key"],)), at="key")
toleration_key_well_formed = Rule(
    "toleration_key_well_formed",
    explain=lambda item: _key_fault((item["key"],)) if item.get("key") else "",
    at="key",
)


@rule("effect must be 'NoExecute' when `tolerationSeconds` is set", at="effect")
def seconds_are_for_evictions(toleration: Value) -> bool:
    return toleration.get("tolerationSeconds") is None or toleration.get("effect") == "NoExecute"


@rule("must be in the range 1-100", at="weight")
def weight_in_range(term: Value) -> bool:
    return bool(1 <= term["weight"] <= 100)


@rule("values must be given for In and NotIn, and must be absent for Exists and DoesNotExist", at="values")
def values_fit_operator(item: Value) -> bool:
    if item["operator"] in ("In", "NotIn"):
        return bool(item.get("values"))
    return item["operator"] in ("Gt", "Lt") or not item.get("values")


@rule("must be specified single value when `operator` is 'Lt' or 'Gt'", at="values")
def bounds_have_one_value(item: Value) -> bool:
    return item["operator"] not in ("Gt", "Lt") or len(item.get("values", ())) == 1


def _value_fault(item: Value) -> str:
    """Values to compare with must be label values; a bound need not be a number, and matches nothing then."""
    faults = (fault for value in item.get("values", ()) for fault in label_value_faults(value))
    return next(faults, "")


values_are_label_values = Rule("values_are_label_values", explain=_value_fault, at="values")


@rule("must have at least one node selector term", at="nodeSelectorTerms")
def some_term(selector: Value) -> bool:
    return bool(selector.get("nodeSelectorTerms"))


@rule("value must be empty when operator is 'Exists'", at="value")
def exists_has_no_value(toleration: Value) -> bool:
    return toleration.get("operator") != "Exists" or not toleration.get("value")


def _toleration_value_fault(toleration: Value) -> str:
    value = toleration.get("value", "")
    # What is compared as a number (Lt, Gt) has rules of its own.
    plain = toleration.get("operator") in (None, "", "Equal")
    return next(iter(label_value_faults(value)), "") if plain else ""


toleration_value_well_formed = Rule(
    "toleration_value_well_formed", explain=_toleration_value_fault, at="value"
)


def _namespace_fault(term: Value) -> str:
    named = ((name, label_name_faults(name)) for name in term.get("namespaces", ()))
    return next((f'"{name}": {faults[0]}' for name, faults in named if faults), "")


namespaces_well_formed = Rule("namespaces_well_formed", explain=_namespace_fault, at="namespaces")


@rule("operator must be Exists when `key` is empty, which means match all values and all keys", at="operator")
def keyless_toleration_exists(toleration: Value) -> bool:
    return bool(toleration.get("key")) or toleration.get("operator") == "Exists"


def _label_fault(labels: dict[str, str]) -> str:
    """The first key or value that is none."""
    for key, value in labels.items():
        for shown, faults in ((key, label_key_faults(key)), (value, label_value_faults(value))):
            if faults:
                return f'"{shown}": {faults[0]}'
    return ""


def _key_fault(keys: Iterable[str]) -> str:
    return next((f'"{key}": {faults[0]}' for key in keys if (faults := label_key_faults(key))), "")


labels_well_formed = Rule(
    "labels_well_formed", explain=lambda meta: _label_fault(meta.get("labels", {})), at="labels"
)
annotations_well_formed = Rule(
    "annotations_well_formed",
    explain=lambda meta: _key_fault(key.lower() for key in meta.get("annotations", {})),
    at="annotations",
)
finalizers_well_formed = Rule(
    "finalizers_well_formed", explain=lambda meta: _key_fault(meta.get("finalizers", ())), at="finalizers"
)


@rule(f"may not be more than {ANNOTATION_BYTES} bytes", at="annotations")
def annotations_within_bounds(meta: Value) -> bool:
    return sum(len(f"{key}{value}".encode()) for key, value in meta.get("annotations", {}).items()) <= (
        ANNOTATION_BYTES
    )


@rule("Only one reference can have Controller set to true", at="ownerReferences")
def one_controller(meta: Value) -> bool:
    return sum(bool(owner.get("controller")) for owner in meta.get("ownerReferences", ())) <= 1


@rule("must be a 32bit integer", at=f"metadata.annotations[{POD_DELETION_COST}]")
def deletion_cost_is_number(pod: Value) -> bool:
    text = (pod.get("metadata", {}).get("annotations") or {}).get(POD_DELETION_COST, "0")
    return bool(re.fullmatch("-?[0-9]{1,10}", text, re.ASCII)) and -(2**31) <= int(text) < 2**31


@rule("a pod has at least one container", at="containers")
def some_container(spec: Value) -> bool:
    return bool(spec.get("containers"))


@rule("names of containers must be unique", at="containers")
def containers_have_own_names(spec: Value) -> bool:
    names = [
        container["name"] for field in ("containers", "initContainers") for container in spec.get(field, ())
    ]
    return len(names) == len(set(names))


@rule("a host port must be asked for once only", at="containers")
def host_ports_are_distinct(spec: Value) -> bool:
    ports = [
        (port.get("protocol", "TCP"), port.get("hostIP", ""), port["hostPort"])
        for container in spec.get("containers", ())
        for port in container.get("ports", ())
        if port.get("hostPort")
    ]
    return len(ports) == len(set(ports))


whole_holds_containers = Rule("whole_holds_containers", explain=whole_fault, at="resources")


@rule("must be greater than or equal to 0", at="status")
def room_not_negative(node: Value) -> bool:
    status = node.get("status")
    if not isinstance(status, dict):  # of any form, as far as the schema goes
        return True
    lists = [status[field] for field in ("capacity", "allocatable") if isinstance(status.get(field), dict)]
    return all(amount.nanos >= 0 for found in lists for amount in _amounts({"": found}, "").values())


def _schedule_fault(spec: Value) -> str:
    """What is wrong with the schedule of a CronJob; empty when it is fine."""
    from dovetail.units.cron import schedule_of_jobs  # and time zones, which few manifests need

    try:
        schedule_of_jobs(spec["schedule"], spec.get("timeZone", "UTC"))
    except ValueError as error:
        return str(error)
    return ""


schedule_is_cron = Rule("schedule_is_cron", explain=_schedule_fault, at="schedule")

_SELECTOR = (selector_not_empty, selector_matches_template)
_EXPRESSION = (key_well_formed, values_fit_operator, bounds_have_one_value, values_are_label_values)

_RULES: dict[str, tuple[Rule, ...]] = {
    "V1ObjectMeta": (
        labels_well_formed,
        annotations_well_formed,
        annotations_within_bounds,
        finalizers_well_formed,
        one_controller,
    ),
    "V1Pod": (deletion_cost_is_number, keys_matched_once),
    "V1PodSpec": (
        some_container,
        containers_have_own_names,
        host_ports_are_distinct,
        whole_holds_containers,
        overhead_named,
        spreads_are_distinct,
        node_selector_well_formed,
    ),
    "V1Node": (room_not_negative,),
    "V1DeploymentSpec": (*_SELECTOR, always_restarts, replicas_not_negative, replicas_within_32_bits),
    "V1ReplicaSetSpec": (*_SELECTOR, always_restarts, replicas_not_negative, replicas_within_32_bits),
    "V1StatefulSetSpec": (*_SELECTOR, always_restarts, replicas_not_negative, replicas_within_32_bits),
    "V1DaemonSetSpec": (*_SELECTOR, always_restarts),
    "V1JobSpec": (job_restart_policy, parallelism_not_negative, parallelism_within_32_bits),
    "V1CronJobSpec": (schedule_is_cron,),
    "V1PodDisruptionBudgetSpec": (one_kind_of_budget, budget_in_range),
    "V2HorizontalPodAutoscalerSpec": (max_replicas_positive, replicas_in_order),
    "V1ResourceRequirements": (
        requests_named,
        limits_named,
        huge_pages_beside,
        amounts_not_negative,
        requests_within_limits,
        devices_whole_and_limited,
    ),
    "V1TopologySpreadConstraint": (
        skew_positive,
        min_domains_apply,
        topology_key_given,
        keys_to_match_apply,
    ),
    "V1PodAffinityTerm": (topology_key_well_formed, keys_to_match_apply, namespaces_well_formed),
    "V1LabelSelector": (match_labels_well_formed,),
    "V1PreferredSchedulingTerm": (weight_in_range,),
    "V1WeightedPodAffinityTerm": (weight_in_range,),
    "V1NodeSelector": (some_term,),
    "V1NodeSelectorRequirement": _EXPRESSION,
    "V1LabelSelectorRequirement": (key_well_formed, values_fit_operator),
    "V1Toleration": (
        exists_has_no_value,
        keyless_toleration_exists,
        toleration_key_well_formed,
        toleration_value_well_formed,
        seconds_are_for_evictions,
    ),
}

_PARTS = (_RULES, container_rules.RULES, workload_rules.RULES, namespace_rules.RULES)
# Type name of the field tables -> its rules.
RULES: dict[str, tuple[Rule, ...]] = {
    name: tuple(one for part in _PARTS for one in part.get(name, ())) for part in _PARTS for name in part
}

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")

# (type, field) -> the values that it may have.
ENUMS: dict[tuple[str, str], tuple[str, ...]] = {
    **workload_rules.ENUMS,
    ("V1TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("V1TopologySpreadConstraint", "nodeAffinityPolicy"): _POLICIES,
    ("V1TopologySpreadConstraint", "nodeTaintsPolicy"): _POLICIES,
    ("V1NodeSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("V1LabelSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist"),
    ("V1Toleration", "operator"): ("", "Equal", "Exists", "Lt", "Gt"),
    ("V1Toleration", "effect"): ("", *_EFFECTS),
    ("V1Taint", "effect"): _EFFECTS,
    ("V1PodSpec", "restartPolicy"): ("Always", "OnFailure", "Never", ""),
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
