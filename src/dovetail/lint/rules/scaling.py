"""KE: KEDA's triggers and what scales what. HV: values of the chart. TF: Terraform."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from dovetail.api.generations import helm_values
from dovetail.api.generations.editing import Editor, Path, shown
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.keda import ScaledJob, ScaledObject
from dovetail.api.workloads import Deployment, StatefulSet
from dovetail.base.errors import InputError
from dovetail.base.guess import nearest
from dovetail.cloud.repair_policies import read_repair_policies
from dovetail.cluster.scheduler_config import read_default_constraints
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, nested
from dovetail.lint.rules.nodeclass import looks_like_the_controllers
from dovetail.model import labels
from dovetail.reading import Located, Manifest
from dovetail.reading.paths import at
from dovetail.units.cron import Cron

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_HOURS_A_DAY = 24


def _crons(inventory: Inventory) -> Iterator[tuple[Manifest, str, dict[str, str]]]:
    """(manifest, path of the metadata, metadata) of every cron trigger."""
    found = [(manifest, item.spec.triggers) for manifest, item in inventory.of(ScaledObject)]
    found += [(manifest, item.spec.triggers) for manifest, item in inventory.of(ScaledJob)]
    for manifest, triggers in found:
        for index, trigger in enumerate(triggers):
            if trigger.type == "cron":
                yield manifest, f"spec.triggers[{index}].metadata", dict(trigger.metadata)


@rule(
    "KE001",
    "cron-runs-hourly",
    _WARNING,
    "A cron trigger that runs every hour",
)
def cron_runs_hourly(inventory: Inventory) -> Iterator[Remark]:
    for manifest, path, given in _crons(inventory):
        start, end = _fields(given.get("start", "")), _fields(given.get("end", ""))
        if start is None or end is None or not (_is_hourly(start) and _is_hourly(end)):
            continue
        first, last = start[0], end[0]
        hours = all(minute.isdecimal() and int(minute) < _HOURS_A_DAY for minute in (first, last))
        days = " ".join(given["start"].split()[2:]) or "* * *"
        until = " ".join(given["end"].split()[2:]) or "* * *"
        yield Remark(
            manifest.located,
            f"{path}.start",
            f"the trigger runs every hour, from minute {first} to minute {last}",
            "the first field of a cron schedule is the minute, the second the hour",
            f"for {int(first):02}:00 to {int(last):02}:00 write start: 0 {first} {days} and "
            f"end: 0 {last} {until}"
            if hours
            else "write the hour as the second field, if once a day is meant",
            # From minute 0 to minute 30 may well be meant of every hour.
            severity=None if hours else _INFO,
        )


def _fields(schedule: str) -> list[str] | None:
    """The five fields with names and steps written out; None for what cannot be read."""
    try:
        return Cron.parse(schedule).fields.split()
    except ValueError:
        return None


def _is_hourly(fields: list[str]) -> bool:
    return fields[1] == "*" or len(fields[1].split(",")) == _HOURS_A_DAY


@rule("KE002", "cron-same-start-and-end", _ERROR, "A cron trigger that starts when it ends")
def cron_same_start_and_end(inventory: Inventory) -> Iterator[Remark]:
    for manifest, path, given in _crons(inventory):
        start, end = given.get("start", ""), given.get("end", "")
        if start and (start == end or (_fields(start) is not None and _fields(start) == _fields(end))):
            yield Remark(
                manifest.located,
                f"{path}.end",
                f"start and end are both {end}" if start == end else f"{start} and {end} are the same times",
                "KEDA refuses the trigger, and nothing is scaled"
                if start == end
                else "it ends as it starts, so nothing is scaled by it",
                "write when it shall end",
            )


@rule("KE003", "cron-unreadable", _ERROR, "A cron trigger that KEDA cannot read")
def cron_unreadable(inventory: Inventory) -> Iterator[Remark]:
    for manifest, path, given in _crons(inventory):
        zone = given.get("timezone", "")
        for field in ("start", "end"):
            if field not in given:
                what, why = f"the trigger has no {field}", "KEDA refuses it"
            else:
                try:
                    Cron.parse(given[field], zone or "UTC")
                    continue
                except ValueError as error:
                    what, why = str(error), "KEDA refuses the trigger, and nothing is scaled"
            at = "timezone" if "time zone" in what else field
            yield Remark(manifest.located, f"{path}.{at}", what, why, "")
            if at == "timezone":
                break
        if not zone:
            yield Remark(
                manifest.located,
                path,
                "the trigger has no timezone",
                "KEDA refuses it",
                "add one such as Asia/Seoul",
            )
        wanted = given.get("desiredReplicas")
        if wanted is None or not wanted.isdecimal():
            quoted = (
                "the trigger has no desiredReplicas" if wanted is None else f"desiredReplicas is {wanted!r}"
            )
            yield Remark(
                manifest.located, f"{path}.desiredReplicas", quoted, "KEDA wants a whole number in quotes", ""
            )


@rule("KE004", "scaled-target-missing", _WARNING, "A ScaledObject or an HPA for a workload that is not there")
def scaled_target_missing(inventory: Inventory) -> Iterator[Remark]:
    have: dict[str, set[tuple[str, str]]] = {}
    for kind in (Deployment, StatefulSet):
        for _, item in inventory.of(kind):
            have.setdefault(item.metadata.namespace, set()).add((item.KIND, item.metadata.name))
    for manifest, item in inventory.scalers():
        target = item.spec.scale_target_ref
        near = have.get(item.metadata.namespace, set())
        if target.kind not in ("Deployment", "StatefulSet") or (target.kind, target.name) in near:
            continue
        # Other workloads may be in files that are not checked; a name that is nearly there is a slip.
        guess = nearest(target.name, [name for kind_, name in near if kind_ == target.kind], alike=0.75)
        if guess:
            yield Remark(
                manifest.located,
                "spec.scaleTargetRef.name",
                f"{item.KIND} {item.metadata.name} scales {target.kind} {target.name}, which is not here",
                "nothing is scaled",
                f"did you mean {guess[0]}?",
            )


@rule("KE005", "scaled-twice", _WARNING, "A workload that two scalers decide about")
def scaled_twice(inventory: Inventory) -> Iterator[Remark]:
    seen: dict[tuple[str, str, str], str] = {}
    for manifest, item in inventory.scalers():
        owner = item.metadata.controller()
        if owner is not None and owner.kind == "ScaledObject":
            continue  # the one that KEDA makes
        target = item.spec.scale_target_ref
        key = (item.metadata.namespace, target.kind, target.name)
        name = f"{item.KIND} {item.metadata.name}"
        if key in seen and seen[key] != name:
            yield Remark(
                manifest.located,
                "spec.scaleTargetRef.name",
                f"{seen[key]} and {name} both scale {target.kind} {target.name}",
                "each undoes what the other did",
                "keep one of them; a ScaledObject takes triggers of cpu and memory too",
            )
        seen.setdefault(key, name)


@rule("KE006", "trigger-unknown", _ERROR, "A trigger of a type that KEDA does not have")
def trigger_unknown(inventory: Inventory) -> Iterator[Remark]:
    found = [(manifest, item.spec.triggers) for manifest, item in inventory.of(ScaledObject)]
    found += [(manifest, item.spec.triggers) for manifest, item in inventory.of(ScaledJob)]
    for manifest, triggers in found:
        for index, trigger in enumerate(triggers):
            near = nearest(trigger.type, _TRIGGERS, alike=0.7)
            # KEDA's list grows, so only what is nearly one of it is a mistake.
            if near and trigger.type not in _TRIGGERS:
                yield Remark(
                    manifest.located,
                    f"spec.triggers[{index}].type",
                    f"KEDA has no trigger {trigger.type}",
                    "the object never becomes ready, and nothing is scaled by it",
                    f"did you mean {near[0]}?",
                )


_TRIGGERS = [
    "activemq",
    "apache-kafka",
    "arangodb",
    "artemis-queue",
    "aws-cloudwatch",
    "aws-dynamodb",
    "aws-dynamodb-streams",
    "aws-kinesis-stream",
    "aws-sqs-queue",
    "azure-app-insights",
    "azure-blob",
    "azure-data-explorer",
    "azure-eventhub",
    "azure-log-analytics",
    "azure-monitor",
    "azure-pipelines",
    "azure-queue",
    "azure-servicebus",
    "beanstalkd",
    "cassandra",
    "couchdb",
    "cpu",
    "cron",
    "datadog",
    "dynatrace",
    "elasticsearch",
    "etcd",
    "external",
    "external-push",
    "gcp-cloudtasks",
    "gcp-pubsub",
    "gcp-stackdriver",
    "gcp-storage",
    "github-runner",
    "graphite",
    "huawei-cloudeye",
    "ibmmq",
    "influxdb",
    "kafka",
    "kubernetes-workload",
    "liiklus",
    "loki",
    "memory",
    "metrics-api",
    "mongodb",
    "mssql",
    "mysql",
    "nats-jetstream",
    "new-relic",
    "nsq",
    "openstack-metric",
    "openstack-swift",
    "postgresql",
    "predictkube",
    "prometheus",
    "pulsar",
    "rabbitmq",
    "redis",
    "redis-cluster",
    "redis-cluster-streams",
    "redis-sentinel",
    "redis-sentinel-streams",
    "redis-streams",
    "selenium-grid",
    "solace-event-queue",
    "solarwinds",
    "solr",
    "splunk",
    "splunk-observability",
    "stan",
    "sumologic",
    "temporal",
]

# What the chart takes; a test holds it against charts/dovetail/values.schema.json.
SETTINGS = (
    "batchMaxDuration",
    "batchIdleDuration",
    "preferencePolicy",
    "minValuesPolicy",
    "clusterCABundle",
    "clusterName",
    "clusterEndpoint",
    "isolatedVPC",
    "eksControlPlane",
    "vmMemoryOverheadPercent",
    "interruptionQueue",
    "enableZonalShift",
    "reservedENIs",
    "ignoreDRARequests",
    "enableDRA",
    "disableClusterStateObservability",
    "disableDryRun",
    "amiRefreshInterval",
    "subnetRefreshInterval",
    "securityGroupRefreshInterval",
    "legacyNodeRepair",
    "gangs",
    "featureGates",
    "awsFeatureGates",
    "provider",
    "observe",
    "observeEvery",
    "schedulerConfig",
    "repairPolicies",
    "sharedLimits",
    "solveDeadline",
    "spotDiversity",
    "spotTolerance",
    "spotLaunchTypes",
    "nodeSurcharge",
    "minimumSaving",
    "podMovesPerDay",
    "nominatePods",
    "surge",
    "onDemandShares",
    "pause",
    "launchLimit",
    "moveLimit",
    "forcefulBudget",
    "confirmTermination",
)
GATES = (
    "nodeRepair",
    "nodeOverlay",
    "reservedCapacity",
    "spotToSpotConsolidation",
    "staticCapacity",
    "capacityBuffer",
    "terminateFirstDrift",
    "terminateFirstRepair",
    "podDeletionCostManagement",
)
# The other maps of the chart that take only what they know, "" for the whole.
PARTS: dict[str, tuple[str, ...]] = {
    "": (
        "global",
        "nameOverride",
        "fullnameOverride",
        "additionalLabels",
        "additionalAnnotations",
        "imagePullPolicy",
        "imagePullSecrets",
        "service",
        "networkPolicy",
        "serviceAccount",
        "additionalClusterRoleRules",
        "serviceMonitor",
        "prometheusRule",
        "grafanaDashboards",
        "replicas",
        "revisionHistoryLimit",
        "strategy",
        "podLabels",
        "podAnnotations",
        "podDisruptionBudget",
        "podSecurityContext",
        "priorityClassName",
        "terminationGracePeriodSeconds",
        "hostNetwork",
        "schedulerName",
        "dnsPolicy",
        "dnsConfig",
        "initContainers",
        "nodeSelector",
        "affinity",
        "topologySpreadConstraints",
        "tolerations",
        "extraVolumes",
        "controller",
        "costs",
        "logLevel",
        "logOutputPaths",
        "logErrorOutputPaths",
        "settings",
        "webhook",
    ),
    "settings": SETTINGS,
    "settings.featureGates": GATES,
    "serviceAccount": ("create", "name", "annotations"),
    "serviceMonitor": (
        "enabled",
        "additionalLabels",
        "relabelings",
        "metricRelabelings",
        "endpointConfig",
        "sampleLimit",
    ),
    "podDisruptionBudget": ("name", "maxUnavailable"),
    "controller": (
        "containerName",
        "image",
        "env",
        "envFrom",
        "securityContext",
        "resources",
        "extraVolumeMounts",
        "sidecarContainer",
        "sidecarVolumeMounts",
        "metrics",
        "healthProbe",
    ),
    "webhook": ("enabled", "port", "metrics"),
}
_GONE = {
    "logEncoding": "leave it out: logs are JSON",
    "logConfig": "write logLevel, logOutputPaths and logErrorOutputPaths",
    "replicaCount": "did you mean replicas?",
    "assumeRoleARN": "give the role to the service account with serviceAccount.annotations",
    "assumeRoleDuration": "give the role to the service account with serviceAccount.annotations",
    "defaultInstanceProfile": "it is spec.instanceProfile or spec.role of each EC2NodeClass",
    "tags": "they are spec.tags of each EC2NodeClass",
}


@rule("HV001", "unknown-value", _ERROR, "A value that the chart does not know, or no longer")
def unknown_value(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.values:
        document = nested(located.value)
        if not isinstance(document.get("settings", {}), dict):
            continue
        moved = {}
        for change in helm_values.convert(document).changes():
            if change.old is not None and change.old[0] == "settings":
                moved[change.old] = change
        for path, change in moved.items():
            now = shown(change.new) if change.new else ""
            yield Remark(
                located,
                shown(path),
                f"{shown(path)} is {'called ' + now if now else 'gone'}",
                "Karpenter's chart ignores what it does not know, so the setting is left off without a word; "
                f"ours refuses it ({change.why})",
                f"write {now}" if now else "leave it out",
                (lambda edit, path=path, new=change.new: _rename(edit, path, new)) if now else None,  # type: ignore[misc]
            )
        yield from _unknown(located, document, frozenset(moved))


def _rename(edit: Editor, old: Path, new: Path) -> None:
    if old[:-1] == new[:-1]:
        edit.rename(old, str(new[-1]), "")
    else:
        edit.move(old, new, "")
        edit.tidy(*old[:-1])


def _unknown(located: Located, document: dict[str, Any], moved: frozenset[Path]) -> Iterator[Remark]:
    settings = document.get("settings") or {}
    # Without any of these it may be another chart's; and pools and classes have a chart of their own.
    own = bool(settings) and not {"nodePool", "ec2NodeClass"} & document.keys()
    for where, known in PARTS.items():
        given = at(document, where) if where else document
        if not isinstance(given, dict) or not (own or where.startswith("settings")):
            continue
        for name in given:
            path = (*where.split("."), name) if where else (name,)
            if name.partition("[")[0] in known or any(path == old[: len(path)] for old in moved):
                continue
            below = f"{where}." if where else ""
            near = nearest(name, known, alike=0.75)
            guess = f"did you mean {below}{near[0]}?" if near else "leave it out"
            if where != "settings" and name in (*SETTINGS, "aws"):
                guess = f"did you mean settings{'' if name == 'aws' else f'.{name}'}?"
            elif where and name in PARTS[""]:
                guess = f"did you mean {name}, at the top?"
            yield Remark(
                located,
                f"{below}{name}",
                f"the chart has no {below}{name}",
                "Karpenter's chart ignores what it does not know, ours refuses it",
                _GONE.get(name, guess),
            )


@rule("HV002", "queue-missing", _WARNING, "Spot nodes, and no queue for the notices of interruptions")
def queue_missing(inventory: Inventory) -> Iterator[Remark]:
    spot = [view for view in inventory.pools if labels.SPOT in view.capacity_types]
    if not spot:
        return
    for located in inventory.values:
        document = nested(located.value)
        settings, older = at(document, "settings"), at(document, "settings.aws")
        below = "settings.aws" if isinstance(older, dict) and older.get("clusterName") else "settings"
        given = older if below == "settings.aws" else settings
        if (
            isinstance(given, dict)
            and given.get("clusterName")
            and not settings.get("interruptionQueue")
            and not (below == "settings.aws" and given.get("interruptionQueueName"))
        ):
            yield Remark(
                located,
                "settings.interruptionQueueName"
                if "interruptionQueueName" in settings
                else f"{below}.clusterName",
                f"NodePool {spot[0].name} buys spot, and settings.interruptionQueue is not set",
                "nothing receives the warning two minutes before a node is taken back: pods die with it",
                "make an SQS queue with the EventBridge rules, and name it as settings.interruptionQueue",
            )


@rule("HV003", "cluster-name-missing", _ERROR, "Values without the cluster's name")
def cluster_name_missing(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.values:
        document = nested(located.value)
        settings = document.get("settings")
        if not isinstance(settings, dict) or settings.get("provider") == "kwok" or "aws" in settings:
            continue
        if "clusterName" in settings and not settings["clusterName"]:
            yield Remark(
                located,
                "settings.clusterName",
                "settings.clusterName is empty",
                "the chart refuses it",
                "name the EKS cluster",
            )


@rule(
    "HV004",
    "identity-missing",
    _WARNING,
    "A controller without a role of its own, which its nodes were given",
)
def identity_missing(inventory: Inventory) -> Iterator[Remark]:
    roles = [
        item.spec.role for _, item in inventory.of(EC2NodeClass) if looks_like_the_controllers(item.spec.role)
    ]
    if not roles:
        return
    for located in inventory.values:
        # With Pod Identity nothing of it is in the values; that the role went to the nodes says it is not so.
        identified = any(key.partition(".")[0] == "serviceAccount" for key in located.value)
        settings = nested(located.value).get("settings")
        if not identified and isinstance(settings, dict) and settings.get("clusterName"):
            yield Remark(
                located,
                "settings.clusterName",
                f"the service account has no role, and nodes have {roles[0]}, which looks like its own",
                "without a role, or a Pod Identity, every call of AWS is refused and the controller ends",
                "set serviceAccount.annotations.eks.amazonaws.com/role-arn, and give nodes another role",
            )


@rule("HV005", "setting-unreadable", _ERROR, "A setting with which the controller does not start")
def setting_unreadable(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.values:
        settings = nested(located.value).get("settings")
        if not isinstance(settings, dict):
            continue
        for name, read in _READERS.items():
            given = settings.get(name)
            try:
                if isinstance(given, dict | str) and given:
                    read(given if isinstance(given, str) else json.dumps(given), "")
            except InputError as error:
                below = isinstance(given, dict)
                for fault in error.faults:
                    yield Remark(
                        located,
                        f"settings.{name}.{fault.path}" if below and fault.path else f"settings.{name}",
                        fault.message if below or not fault.path else f"{fault.path}: {fault.message}",
                        "the controller ends at once, and is started again and again",
                        fault.remedy or "docs/reference/settings.md says what is valid",
                    )


_READERS: dict[str, Callable[[str, str], object]] = {
    "schedulerConfig": read_default_constraints,
    "repairPolicies": read_repair_policies,
    "sharedLimits": read_shared_limits,
}


@rule(
    "TF001",
    "manifest-before-its-definition",
    _WARNING,
    "kubernetes_manifest of a kind that a release installs",
)
def manifest_before_its_definition(inventory: Inventory) -> Iterator[Remark]:
    releases = {located.source for kind, located in inventory.terraform if kind == "helm_release"}
    for kind, located in inventory.terraform:
        version = str(located.value.get("apiVersion", "")) if isinstance(located.value, dict) else ""
        if kind == "kubernetes_manifest" and located.source in releases and version.startswith("karpenter"):
            yield Remark(
                located,
                "kind",
                f"kubernetes_manifest of kind {located.value.get('kind')} beside the helm_release that "
                "brings its definition",
                "kubernetes_manifest asks the API server for the kind when it plans, before anything is "
                "installed: "
                "depends_on does not help",
                "install the definitions first (charts/dovetail-crds), or write it as kubectl_manifest",
            )


RULES = (
    cron_runs_hourly,
    cron_same_start_and_end,
    cron_unreadable,
    scaled_target_missing,
    scaled_twice,
    trigger_unknown,
    unknown_value,
    queue_missing,
    cluster_name_missing,
    identity_missing,
    setting_unreadable,
    manifest_before_its_definition,
)
