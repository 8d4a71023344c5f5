"""Admission rules of what makes and counts pods, and of claims for volumes: strategies, jobs, autoscalers."""

from __future__ import annotations

import re
from typing import Any

from dovetail.api.names import label_name_faults, object_name_faults
from dovetail.api.rules import Rule, at_least, rule
from dovetail.units.quantity import nanos_if_any

Value = dict[str, Any]

_PERCENT = re.compile("[0-9]+%", re.ASCII)
_PERCENT_WORDS = "a valid percent string must be digits followed by '%', such as '93%'"
_LONGEST_CRON_NAME = 52  # 63, less what a job of it has at its end
_HIGHEST_PRIORITY = 1_000_000_000  # of a class that a user makes
_OF_THE_SYSTEM = ("system-cluster-critical", "system-node-critical")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def share_fault(wanted: int | str) -> str:
    """What is wrong with a number or a share of pods; empty when it is fine."""
    if isinstance(wanted, int):
        return "" if wanted >= 0 else "must be greater than or equal to 0"
    return "" if _PERCENT.fullmatch(wanted) else _PERCENT_WORDS


def above_all(wanted: int | str) -> bool:
    """True iff a share is more than there are."""
    return isinstance(wanted, str) and (len(wanted.lstrip("0")) > len("100%") or int(wanted[:-1]) > 100)


def _none(wanted: int | str) -> bool:
    return wanted == 0 or (isinstance(wanted, str) and not wanted.strip("0%"))


def _rolling_fault(update: Value, surge: int | str, unavailable: int | str) -> str:
    surge, unavailable = update.get("maxSurge", surge), update.get("maxUnavailable", unavailable)
    for field, wanted in (("maxSurge", surge), ("maxUnavailable", unavailable)):
        if fault := share_fault(wanted):
            return f"{field}: {fault}"
    if above_all(unavailable):
        return "maxUnavailable: must not be greater than 100%"
    return "maxUnavailable: may not be 0 when `maxSurge` is 0" if _none(surge) and _none(unavailable) else ""


def _daemons_fault(update: Value) -> str:
    if fault := _rolling_fault(update, 0, 1):
        return fault
    if above_all(update.get("maxSurge", 0)):
        return "maxSurge: must not be greater than 100%"
    both = not _none(update.get("maxSurge", 0)) and not _none(update.get("maxUnavailable", 1))
    return "maxSurge: may not be set when maxUnavailable is non-zero" if both else ""


@rule("may not be specified when strategy `type` is 'Recreate'", at="rollingUpdate")
def recreated_or_rolling(strategy: Value) -> bool:
    return not (strategy.get("type") == "Recreate" and "rollingUpdate" in strategy)


@rule("must be greater than minReadySeconds", at="progressDeadlineSeconds")
def progress_after_ready(spec: Value) -> bool:
    return bool(spec.get("progressDeadlineSeconds", 600) > spec.get("minReadySeconds", 0))


@rule("pods of this kind have no deadline", at="template.spec.activeDeadlineSeconds")
def no_deadline(spec: Value) -> bool:
    return "activeDeadlineSeconds" not in spec["template"].get("spec", {})


def _job_fault(spec: Value) -> str:
    per_index = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if field in spec]
    if per_index and spec.get("completionMode") != "Indexed":
        return f"{per_index[0]}: requires indexed completion mode"
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        return "backoffLimitPerIndex: Required value when maxFailedIndexes is specified"
    if spec.get("maxFailedIndexes", 0) > spec.get("completions", 1 << 31):
        return "maxFailedIndexes: must be less than or equal to completions"
    if spec.get("manualSelector") and not spec.get("selector"):
        return "selector: Required value with manualSelector"
    return ""


@rule("a Job has a selector of its own only with manualSelector", at="selector")
def own_selector(spec: Value) -> bool:
    # One that the server wrote names the label of the job's own uid.
    selector = spec.get("selector")
    written = any("controller-uid" in key for key in (selector or {}).get("matchLabels", ()))
    return bool(not selector or written or spec.get("manualSelector"))


def _name(document: Value) -> str:
    return str(document.get("metadata", {}).get("name", ""))


stateful_set_named = Rule(
    "stateful_set_named",
    explain=lambda document: next(iter(label_name_faults(_name(document))), "") if _name(document) else "",
    at="metadata.name",
)


@rule(f"must be no more than {_LONGEST_CRON_NAME} characters", at="metadata.name")
def cron_job_named(document: Value) -> bool:
    return len(_name(document)) <= _LONGEST_CRON_NAME


@rule("must be no more than 63 bytes, as it is a label of the pods", at="metadata.name")
def job_named(document: Value) -> bool:
    return len(_name(document)) <= 63


def _least_replicas_fault(spec: Value) -> str:
    if spec.get("minReplicas", 1) >= 1:
        return ""
    kinds = {metric["type"] for metric in spec.get("metrics", ())}
    if spec["minReplicas"] == 0 and kinds & {"Object", "External"}:
        return ""
    return "must be greater than or equal to 1, or 0 with an Object or External metric"


_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


@rule("must populate information for the given metric source")
def metric_has_its_source(metric: Value) -> bool:
    return metric["type"] not in _SOURCES or _SOURCES[metric["type"]] in metric


def _resource_target_fault(source: Value) -> str:
    given = {"averageUtilization", "averageValue"} & set(source["target"])
    if len(given) == 2:
        return "averageValue: may not set both a target raw value and a target utilization"
    return "" if given else "must set averageUtilization or averageValue"


def _target_fault(target: Value) -> str:
    given = [field for field in ("averageUtilization", "averageValue", "value") if field in target]
    if not given:
        return "must set either a target raw value or a target utilization"
    for field in given:
        amount = nanos_if_any(target[field])
        if amount is not None and amount <= 0:
            return f"{field}: must be greater than 0"
    return ""


def _behaviour_fault(rules: Value) -> str:
    if not 0 <= rules.get("stabilizationWindowSeconds", 0) <= 3600:
        return "stabilizationWindowSeconds: must be 0 to 3600"
    return "policies: must specify at least one Policy" if rules.get("policies") == [] else ""


def _policy_fault(policy: Value) -> str:
    if policy["value"] <= 0:
        return "value: must be greater than zero"
    return "" if 0 < policy["periodSeconds"] <= 1800 else "periodSeconds: must be 1 to 1800"


def _claim_fault(spec: Value) -> str:
    # That there are a mode and a size is not asked: plans need neither, and snapshots leave both out.
    modes = spec.get("accessModes") or []
    for mode in modes:
        if mode not in _ACCESS_MODES:
            return f'accessModes: "{mode}": supported values: {", ".join(_ACCESS_MODES)}'
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        return "accessModes: may not use ReadWriteOncePod with other access modes"
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    nanos = nanos_if_any(size)
    if nanos is not None and nanos <= 0:
        return "resources.requests.storage: must be greater than zero"
    faults = object_name_faults(spec["storageClassName"]) if spec.get("storageClassName") else ()
    return f"storageClassName: {faults[0]}" if faults else ""


@rule(f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}", at="value")
def priority_of_a_user(document: Value) -> bool:
    return bool(document.get("value", 0) <= _HIGHEST_PRIORITY) or _name(document) in _OF_THE_SYSTEM


@rule("names that begin with system- are reserved", at="metadata.name")
def priority_class_named(document: Value) -> bool:
    return not _name(document).startswith("system-") or _name(document) in _OF_THE_SYSTEM


@rule("must have at least one value", at="values")
def topology_has_values(item: Value) -> bool:
    return bool(item["values"])


_READY = at_least(0, "minReadySeconds")
_REVISIONS = at_least(0, "revisionHistoryLimit")
_OF_JOBS = ("completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_OF_CRON_JOBS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")

# Type name of the field tables -> its rules.
RULES: dict[str, tuple[Rule, ...]] = {
    "V1DeploymentSpec": (_READY, _REVISIONS, progress_after_ready, no_deadline),
    "V1ReplicaSetSpec": (_READY, no_deadline),
    "V1StatefulSetSpec": (_READY, _REVISIONS, no_deadline),
    "V1DaemonSetSpec": (_READY, _REVISIONS, no_deadline),
    "V1DeploymentStrategy": (recreated_or_rolling,),
    "V1RollingUpdateDeployment": (
        Rule("rolls", explain=lambda update: _rolling_fault(update, "25%", "25%")),
    ),
    "V1RollingUpdateDaemonSet": (Rule("rolls", explain=_daemons_fault),),
    "V1RollingUpdateStatefulSetStrategy": (at_least(0, "partition"),),
    "V1StatefulSetOrdinals": (at_least(0, "start"),),
    "V1StatefulSet": (stateful_set_named,),
    "V1Job": (job_named,),
    "V1CronJob": (cron_job_named,),
    "V1JobSpec": (
        *(at_least(0, field) for field in _OF_JOBS),
        Rule("job_is_whole", explain=_job_fault),
        own_selector,
    ),
    "V1CronJobSpec": tuple(at_least(0, field) for field in _OF_CRON_JOBS),
    "V2HorizontalPodAutoscalerSpec": (
        Rule("least_replicas", explain=_least_replicas_fault, at="minReplicas"),
    ),
    "V2MetricSpec": (metric_has_its_source,),
    "V2MetricTarget": (Rule("target_given", explain=_target_fault),),
    **dict.fromkeys(
        ("V2ResourceMetricSource", "V2ContainerResourceMetricSource"),
        (Rule("target_of_resource", explain=_resource_target_fault, at="target"),),
    ),
    "V2HPAScalingRules": (Rule("behaves", explain=_behaviour_fault),),
    "V2HPAScalingPolicy": (Rule("policy_counts", explain=_policy_fault),),
    "V1PersistentVolumeClaimSpec": (Rule("claim_is_whole", explain=_claim_fault),),
    "V1PriorityClass": (priority_of_a_user, priority_class_named),
    "V1TopologySelectorLabelRequirement": (topology_has_values,),
}
ENUMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1DaemonSetUpdateStrategy", "type"): ("RollingUpdate", "OnDelete"),
    ("V1StatefulSetUpdateStrategy", "type"): ("RollingUpdate", "OnDelete"),
    ("V1StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted"): ("Retain", "Delete"),
    ("V1StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled"): ("Retain", "Delete"),
    ("V1JobSpec", "completionMode"): ("NonIndexed", "Indexed"),
    ("V1JobSpec", "podReplacementPolicy"): ("Failed", "TerminatingOrFailed"),
    ("V2HPAScalingPolicy", "type"): ("Percent", "Pods"),
    ("V2HPAScalingRules", "selectPolicy"): ("Disabled", "Max", "Min"),
    ("V1PersistentVolumeClaimSpec", "volumeMode"): ("Block", "Filesystem"),
    ("V1StorageClass", "reclaimPolicy"): ("Delete", "Retain"),
}
