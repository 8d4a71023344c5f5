"""charts/dovetail: Karpenter's values as they are, wrong ones refused with a hint, narrow rights."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dovetail.api.admission import admit
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclass import KWOKNodeClass
from dovetail.cluster.scheduler_config import read_default_constraints
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.cluster.state import DEVICE_KINDS, watched
from tests.cluster.helm import CHARTS, VALUES, Document, HelmError, helm, render

NAMED = "settings: {clusterName: demo}\n"
SPREADS = (
    "{podTopologySpread: {defaultConstraints: "
    "[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}"
)
KARPENTER = (VALUES / "karpenter.yaml").read_text()


def deployment(values: str) -> Document:
    return render("dovetail", values)["Deployment", "dovetail"]


def pod(values: str) -> Document:
    spec: Document = deployment(values)["spec"]["template"]["spec"]
    return spec


def env(values: str) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in pod(values)["containers"][0]["env"]}


@pytest.mark.parametrize("chart", ["dovetail", "dovetail-crds", "dovetail-nodepools"])
def test_lint(chart: str) -> None:
    assert "0 chart(s) failed" in helm(
        "lint", "--strict", str(CHARTS / chart), values=NAMED if chart == "dovetail" else ""
    )


def test_everything_of_a_release() -> None:
    found = render("dovetail", NAMED)
    assert sorted(found) == [
        ("ClusterRole", "dovetail"),
        ("ClusterRole", "dovetail-admin"),
        ("ClusterRoleBinding", "dovetail"),
        ("Deployment", "dovetail"),
        ("PodDisruptionBudget", "dovetail"),
        ("Role", "dovetail"),
        ("Role", "dovetail-dns"),
        ("RoleBinding", "dovetail"),
        ("RoleBinding", "dovetail-dns"),
        ("Service", "dovetail"),
        ("ServiceAccount", "dovetail"),
    ]
    for document in found.values():
        admit(document)
        labels = document["metadata"]["labels"]
        assert [labels[f"app.kubernetes.io/{key}"] for key in ("name", "instance")] == ["dovetail"] * 2


def test_all_of_karpenters_values_are_taken() -> None:
    ours = render("dovetail", NAMED)
    theirs = render("dovetail", KARPENTER)
    budget = theirs.pop(("PodDisruptionBudget", "karpenter"))
    assert budget["spec"] == ours.pop(("PodDisruptionBudget", "dovetail"))["spec"]
    assert theirs == ours, "their defaults are ours, and the controller is ours, not Karpenter's image"


def test_without_a_cluster_name_nothing_is_installed() -> None:
    with pytest.raises(HelmError, match=r"Chart cannot be installed without a valid settings\.clusterName!"):
        render("dovetail")
    assert render("dovetail", "settings: {provider: kwok}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("settings: {interruptionQueueName: q}", "did you mean settings.interruptionQueue?"),
        (
            "settings: {aws: {interruptionQueueName: q}}",
            "Name is settings.interruptionQueue",
        ),
        ("settings: {assumeRoleARN: a}", "serviceAccount.annotations"),
        ("settings: {featureGates: {drift: true}}", "drift is always on"),
        ("clusterName: demo", "did you mean settings.clusterName?"),
        ("controller: {logLevel: debug}", "did you mean logLevel"),
        ("webhook: {logLevel: debug}", "logLevel"),
        ("settings: {interuptionQueue: q}", "interuptionQueue"),
        ("replica: 1", "replica"),
        ("replicas: many", "replicas"),
        ("logLevel: chatty", "'debug', 'info', 'error'"),
        ("settings: {batchIdleDuration: 1 second}", "batchIdleDuration"),
        ("settings: {preferencePolicy: respect}", "'Respect', 'Ignore'"),
        ("settings: {provider: gcp}", "'aws', 'kwok'"),
    ],
)
def test_unknown_and_wrong_values_are_errors_with_a_hint(values: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        render("dovetail", values)
    assert said in str(refused.value)


def test_the_conversion_webhook_is_all_or_nothing() -> None:
    on = NAMED.rstrip() + "\nwebhook: {enabled: true, port: 9443}\n"
    found, plain = render("dovetail", on), render("dovetail", NAMED)
    assert set(found) - set(plain) == {("Secret", "dovetail-cert")}
    assert found["Secret", "dovetail-cert"].get("data") is None, (
        "an upgrade must not take the certificate away"
    )
    service = found["Service", "dovetail"]["spec"]
    assert service["publishNotReadyAddresses"] is True
    assert {
        "name": "https-webhook",
        "port": 9443,
        "targetPort": "https-webhook",
        "protocol": "TCP",
    } in service["ports"]
    ports = pod(on)["containers"][0]["ports"]
    assert {"name": "https-webhook", "containerPort": 9443, "protocol": "TCP"} in ports
    assert (env(on)["DISABLE_WEBHOOK"], env(on)["WEBHOOK_PORT"]) == ("false", "9443")
    assert "DISABLE_WEBHOOK" not in env(NAMED)
    observing = NAMED.replace("}", ", observe: true}").rstrip() + "\nwebhook: {enabled: true}\n"
    assert ("Secret", "dovetail-cert") not in render("dovetail", observing)


def test_definitions_ask_the_webhook_if_they_are_set_to() -> None:
    plain = [item["spec"] for item in render("dovetail-crds").values()]
    assert all(len(spec["versions"]) == 1 and "conversion" not in spec for spec in plain)
    found = [
        item["spec"] for item in render("dovetail-crds", "webhook: {enabled: true, port: 9443}").values()
    ]
    asking = [spec for spec in found if "conversion" in spec]
    assert sorted(spec["names"]["kind"] for spec in asking) == ["EC2NodeClass", "NodeClaim", "NodePool"]
    for spec in asking:
        service = spec["conversion"]["webhook"]["clientConfig"]["service"]
        where = {"name": "karpenter", "namespace": "karpenter", "port": 9443}
        assert service == {**where, "path": f"/conversion/{spec['group']}"}
        assert [(version["name"], version["storage"]) for version in spec["versions"]] == [
            ("v1", True),
            ("v1beta1", False),
        ]


def test_settings_become_variables() -> None:
    found = env(
        NAMED.replace(
            "}",
            ", interruptionQueue: q, isolatedVPC: true, reservedENIs: 1, spotDiversity: 5, "
            "spotLaunchTypes: 60}",
        )
    )
    assert found == {
        "SYSTEM_NAMESPACE": "",
        "KARPENTER_SERVICE": "dovetail",
        "LOG_LEVEL": "info",
        "LOG_OUTPUT_PATHS": "stdout",
        "LOG_ERROR_OUTPUT_PATHS": "stderr",
        "GANGS": "true",
        "METRICS_PORT": "8080",
        "HEALTH_PROBE_PORT": "8081",
        "AMI_REFRESH_INTERVAL": "1m",
        "BATCH_IDLE_DURATION": "1s",
        "BATCH_MAX_DURATION": "10s",
        "CLUSTER_NAME": "demo",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY": "false",
        "DISABLE_DRY_RUN": "false",
        "EKS_CONTROL_PLANE": "false",
        "ENABLE_ZONAL_SHIFT": "false",
        "IGNORE_DRA_REQUESTS": "true",
        "INTERRUPTION_QUEUE": "q",
        "ISOLATED_VPC": "true",
        "LEGACY_NODE_REPAIR": "false",
        "MIN_VALUES_POLICY": "Strict",
        "NOMINATE_PODS": "true",
        "ON_DEMAND_SHARES": "false",
        "OBSERVE": "false",
        "PREFERENCE_POLICY": "Respect",
        "PROVIDER": "aws",
        "RESERVED_ENIS": "1",
        "SECURITY_GROUP_REFRESH_INTERVAL": "1m",
        "SPOT_DIVERSITY": "5",
        "SPOT_LAUNCH_TYPES": "60",
        "SUBNET_REFRESH_INTERVAL": "1m",
        "SURGE": "false",
        "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
        "AWS_FEATURE_GATES": "DRAEFA=false,DRANVIDIAGPU=false,NodeClassCEL=false,RebootForRepair=false",
        "FEATURE_GATES": "CapacityBuffer=false,NodeOverlay=false,NodeRepair=false,"
        "PodDeletionCostManagement=false,ReservedCapacity=true,SpotToSpotConsolidation=false,"
        "StaticCapacity=false,TerminateFirstDrift=false,TerminateFirstRepair=false",
    }


@pytest.mark.parametrize("given", [SPREADS, f"'{SPREADS}'"], ids=["a map", "its text"])
def test_the_schedulers_default_spreads_come_with_the_rights_to_follow_them(given: str) -> None:
    values = NAMED.replace("}", f", observe: true, schedulerConfig: {given}}}")
    constraints = read_default_constraints(env(values)["SCHEDULER_CONFIG"], "test")
    assert [(item.max_skew, item.topology_key) for item in constraints] == [(1, "zone")]
    rules = render("dovetail", values)["ClusterRole", "dovetail"]["rules"]
    assert {("", "services"), ("apps", "statefulsets")} <= _rights(rules, "list", "watch")


def test_false_is_a_value_too() -> None:
    assert env("settings: {clusterName: demo, ignoreDRARequests: false}")["IGNORE_DRA_REQUESTS"] == "false"


DRA = "DRAEFA=true,DRANVIDIAGPU=true,NodeClassCEL=false,RebootForRepair=false"
EFA_ALONE = DRA.replace("DRANVIDIAGPU=true", "DRANVIDIAGPU=false")


@pytest.mark.parametrize(
    ("given", "gates", "ignored"),
    [
        ("enableDRA: true", DRA, "false"),
        ("awsFeatureGates: {draEFA: true}", EFA_ALONE, "false"),
        ("ignoreDRARequests: true, awsFeatureGates: {draEFA: true}", EFA_ALONE, "false"),
    ],
)
def test_gates_of_claims_for_devices(given: str, gates: str, ignored: str) -> None:
    found = env(f"settings: {{clusterName: demo, {given}}}")
    assert (found["AWS_FEATURE_GATES"], found["IGNORE_DRA_REQUESTS"]) == (gates, ignored)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "enableDRA: true, ignoreDRARequests: false, awsFeatureGates: {draEFA: false}",
            "settings.enableDRA is mutually exclusive with settings.ignoreDRARequests, "
            "settings.awsFeatureGates.draEFA: unset them, or unset settings.enableDRA",
        ),
        (
            "legacyNodeRepair: true, featureGates: {terminateFirstRepair: true}",
            "settings.legacyNodeRepair can't be combined with settings.featureGates.terminateFirstRepair",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: str, message: str) -> None:
    with pytest.raises(HelmError, match=re.escape(message)):
        render("dovetail", f"settings: {{clusterName: demo, {given}}}")


def test_names_with_several_capitals() -> None:
    found = env("settings: {clusterName: demo, clusterCABundle: abc, clusterEndpoint: 'https://x'}")
    assert (found["CLUSTER_CA_BUNDLE"], found["CLUSTER_ENDPOINT"]) == ("abc", "https://x")


def test_the_container_has_no_more_rights_than_it_needs() -> None:
    spec = pod(NAMED)
    context = spec["containers"][0]["securityContext"]
    assert context == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"] == {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    more = "controller: {securityContext: {seLinuxOptions: {level: s0}}}\n" + NAMED
    assert pod(more)["containers"][0]["securityContext"]["seLinuxOptions"] == {"level": "s0"}


def test_replicas_keep_apart() -> None:
    spec = pod(NAMED)
    ours = {"matchLabels": {"app.kubernetes.io/name": "dovetail", "app.kubernetes.io/instance": "dovetail"}}
    assert spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": ours}
    ]
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == ours
    assert "affinity" not in pod("affinity: null\ntopologySpreadConstraints: []\n" + NAMED)


def test_pods_are_as_the_values_say() -> None:
    spec = pod(
        """
settings: {clusterName: demo}
additionalLabels: {team: infra}
hostNetwork: true
terminationGracePeriodSeconds: 60
imagePullSecrets: [{name: key}]
initContainers: [{name: first, image: busybox}]
extraVolumes: [{name: more, emptyDir: {}}]
controller:
  image: {repository: registry.example.com/dovetail, tag: v2, digest: "sha256:abc"}
  env: [{name: EXTRA, value: "1"}]
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}
  extraVolumeMounts: [{name: more, mountPath: /more}]
  sidecarContainer: [{name: side, image: busybox}]
  sidecarVolumeMounts: [{name: more, mountPath: /more}]
"""
    )
    controller, side = spec["containers"]
    assert controller["image"] == "registry.example.com/dovetail:v2@sha256:abc"
    assert controller["args"] == ["run"]
    assert {"name": "EXTRA", "value": "1"} in controller["env"]
    assert controller["resources"]["limits"] == {"memory": "1Gi"}
    assert [mount["name"] for mount in controller["volumeMounts"]] == ["tmp", "more"]
    assert side["volumeMounts"] == [{"name": "more", "mountPath": "/more"}]
    assert spec["hostNetwork"] is True and spec["terminationGracePeriodSeconds"] == 60
    assert [item["name"] for item in spec["initContainers"]] == ["first"]


def test_service_account_names() -> None:
    found = render("dovetail", NAMED + "serviceAccount: {name: karpenter, annotations: {role: arn}}")
    assert found["ServiceAccount", "karpenter"]["metadata"]["annotations"] == {"role": "arn"}
    assert found["ClusterRoleBinding", "dovetail"]["subjects"][0]["name"] == "karpenter"
    without = render("dovetail", NAMED + "serviceAccount: {create: false, name: mine}")
    assert not any(kind == "ServiceAccount" for kind, _ in without)
    assert without["RoleBinding", "dovetail"]["subjects"][0]["name"] == "mine"


def test_a_service_monitor_where_the_cluster_knows_them() -> None:
    wanted = "{enabled: true, additionalLabels: {release: prometheus}, sampleLimit: 2000000}"
    values = f"{NAMED}serviceMonitor: {wanted}"
    assert ("ServiceMonitor", "dovetail") not in render("dovetail", values)
    found = render("dovetail", values, "--api-versions", "monitoring.coreos.com/v1")
    monitor = found["ServiceMonitor", "dovetail"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["sampleLimit"] == 2_000_000
    assert monitor["spec"]["endpoints"][0] == {"port": "http-metrics", "path": "/metrics"}


def _rights(rules: list[Document], *verbs: str) -> set[tuple[str, str]]:
    """(group, resource) of all that may be done with every one of the verbs."""
    return {
        (group, resource)
        for rule in rules
        if set(verbs) <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize(
    ("provider", "node_class"), [("aws", EC2NodeClass), ("kwok", KWOKNodeClass)], ids=["aws", "kwok"]
)
@pytest.mark.parametrize(
    ("more", "spreading"),
    [
        ("", False),
        ("controller: {env: [{name: SCHEDULER_CONFIG, value: ''}]}", False),
        (f"controller: {{env: [{{name: SCHEDULER_CONFIG, value: '{SPREADS}'}}]}}", True),
    ],
    ids=["not set", "set empty", "set"],
)
def test_the_controller_may_watch_what_it_watches_and_nothing_else(
    provider: str, node_class: Any, more: str, spreading: bool
) -> None:
    named = f"settings: {{clusterName: demo, provider: {provider}}}\n"
    found = render("dovetail", named + more)
    rules = found["ClusterRole", "dovetail"]["rules"]
    group = node_class.API_VERSION.partition("/")[0]
    kinds = watched(((group, node_class.KIND),), spreading=spreading, gangs=True)
    assert _rights(rules, "list", "watch") == {
        (kind.API_VERSION.rpartition("/")[0], kind.PLURAL) for kind in kinds
    }
    assert not any("*" in rule[key] for rule in rules for key in ("apiGroups", "resources", "verbs"))
    assert ("", "secrets") not in _rights(rules)


def test_pods_may_be_patched_where_their_deletion_costs_are_written() -> None:
    opened = "settings: {clusterName: demo, featureGates: {podDeletionCostManagement: true}}\n"
    found = [render("dovetail", values)["ClusterRole", "dovetail"]["rules"] for values in (NAMED, opened)]
    assert [("", "pods") in _rights(rules, "patch") for rules in found] == [False, True]


def test_nodes_that_kwok_plays_may_be_rebooted_where_they_are_repaired() -> None:
    for provider, gate, given in (("kwok", True, True), ("kwok", False, False), ("aws", True, False)):
        settings = {"clusterName": "demo", "provider": provider, "featureGates": {"nodeRepair": gate}}
        rules = render("dovetail", json.dumps({"settings": settings}))["ClusterRole", "dovetail"]["rules"]
        assert (("", "nodes/status") in _rights(rules, "patch")) is given


def test_buffers_are_watched_and_told_of_where_their_gate_is_open() -> None:
    opened = "settings: {clusterName: demo, featureGates: {capacityBuffer: true}}\n"
    rules = render("dovetail", opened)["ClusterRole", "dovetail"]["rules"]
    kinds = watched((("karpenter.k8s.aws", "EC2NodeClass"),), buffers=True, gangs=True)
    assert _rights(rules, "list", "watch") == {
        (kind.API_VERSION.rpartition("/")[0], kind.PLURAL) for kind in kinds
    }
    assert ("autoscaling.x-k8s.io", "capacitybuffers/status") in _rights(rules, "patch")


@pytest.mark.parametrize(
    ("given", "watched_too"),
    [
        ("provider: kwok", False),
        ("ignoreDRARequests: true", False),
        ("ignoreDRARequests: false, provider: kwok", True),
        ("ignoreDRARequests: 'false', observe: true", True),
        ("enableDRA: true", True),
        ("awsFeatureGates: {draNVIDIAGPU: true}", True),
        ("awsFeatureGates: {draEFA: false}", False),
    ],
)
def test_devices_are_watched_where_claims_for_them_are_planned_for(given: str, watched_too: bool) -> None:
    rules = render("dovetail", f"settings: {{clusterName: demo, {given}}}\n")["ClusterRole", "dovetail"][
        "rules"
    ]
    found = {right for right in _rights(rules, "list", "watch") if right[0] == "resource.k8s.io"}
    kinds = {(kind.API_VERSION.partition("/")[0], kind.PLURAL) for kind in DEVICE_KINDS}
    assert found == (kinds if watched_too else set())
    assert not {right for right in _rights(rules, "patch") if right[0] == "resource.k8s.io"}


@pytest.mark.parametrize("observe", ["false", "true"])
def test_overlays_are_watched_and_judged_where_their_gate_is_open(observe: str) -> None:
    opened = f"settings: {{observe: {observe}, clusterName: demo, featureGates: {{nodeOverlay: true}}}}\n"
    rules = render("dovetail", opened)["ClusterRole", "dovetail"]["rules"]
    assert ("karpenter.sh", "nodeoverlays") in _rights(rules, "list", "watch")
    judged = ("karpenter.sh", "nodeoverlays/status") in _rights(rules, "patch")
    assert judged == (observe == "false")


def test_pods_are_nominated_unless_that_right_is_refused() -> None:
    rules = render("dovetail", NAMED)["ClusterRole", "dovetail"]["rules"]
    assert ("", "pods/status") in _rights(rules, "patch")
    refused = "settings: {clusterName: demo, nominatePods: false}\n"
    assert ("", "pods/status") not in _rights(render("dovetail", refused)["ClusterRole", "dovetail"]["rules"])
    assert (env(NAMED)["NOMINATE_PODS"], env(refused)["NOMINATE_PODS"]) == ("true", "false")


def test_deployments_are_restarted_only_where_that_is_switched_on() -> None:
    rules = render("dovetail", NAMED)["ClusterRole", "dovetail"]["rules"]
    assert ("apps", "deployments") not in _rights(rules, "patch")
    opened = "settings: {clusterName: demo, surge: true}\n"
    rules = render("dovetail", opened)["ClusterRole", "dovetail"]["rules"]
    assert ("apps", "deployments") in _rights(rules, "list", "watch", "patch")
    assert ("apps", "replicasets") in _rights(rules, "get")
    assert (env(NAMED)["SURGE"], env(opened)["SURGE"]) == ("false", "true")


def test_pods_are_patched_only_where_shares_off_spot_are_switched_on() -> None:
    assert ("", "pods") not in _rights(render("dovetail", NAMED)["ClusterRole", "dovetail"]["rules"], "patch")
    opened = "settings: {clusterName: demo, onDemandShares: true}\n"
    assert ("", "pods") in _rights(render("dovetail", opened)["ClusterRole", "dovetail"]["rules"], "patch")
    assert env(opened)["ON_DEMAND_SHARES"] == "true"


def test_limits_that_pools_share_reach_the_controller_as_it_reads_them() -> None:
    limit = "{name: two-teams, nodePools: [shop, reports], limits: {hourly-cost: 0.9, cpu: 40}}"
    found = env(f"settings: {{clusterName: demo, sharedLimits: {{limits: [{limit}]}}}}\n")["SHARED_LIMITS"]
    (read,) = read_shared_limits(found, "SHARED_LIMITS")
    assert (read.name, read.pools) == ("two-teams", ("shop", "reports"))
    assert dict(read.limits) == {"hourly-cost": 900_000_000, "cpu": 40_000}


def test_further_rules_are_added() -> None:
    more = "additionalClusterRoleRules: [{apiGroups: [''], resources: [services], verbs: [get]}]\n"
    rules = render("dovetail", more + NAMED)["ClusterRole", "dovetail"]["rules"]
    assert rules[-1] == {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}


def test_an_observer_may_read_and_nothing_else() -> None:
    found = render("dovetail", "settings: {observe: true, clusterName: demo}")
    assert not {"Role", "RoleBinding"} & {kind for kind, _ in found}
    verbs = {verb for rule in found["ClusterRole", "dovetail"]["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    assert found["Deployment", "dovetail"]["spec"]["replicas"] == 1


def test_alerts_where_they_are_wanted_and_the_cluster_knows_them() -> None:
    values = f"{NAMED}prometheusRule: {{enabled: true, additionalLabels: {{release: prometheus}}}}"
    knows = ("--api-versions", "monitoring.coreos.com/v1")
    assert ("PrometheusRule", "dovetail") not in render("dovetail", NAMED, *knows)
    assert ("PrometheusRule", "dovetail") not in render("dovetail", values)
    rule = render("dovetail", values, *knows)["PrometheusRule", "dovetail"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    alerts = {one["alert"]: one for one in rule["spec"]["groups"][0]["rules"]}
    assert alerts["DovetailWatchFailing"]["annotations"]["summary"].startswith("{{ $labels.kind }}")


def test_dashboards_where_they_are_wanted() -> None:
    named = ("ConfigMap", "dovetail-dovetail-capacity")
    assert named not in render("dovetail", NAMED)
    values = f"{NAMED}grafanaDashboards: {{enabled: true, annotations: {{grafana_folder: Nodes}}}}"
    found = [one for (kind, _), one in render("dovetail", values).items() if kind == "ConfigMap"]
    assert len(found) == 3
    for one in found:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Nodes"}
        ((file, text),) = one["data"].items()
        assert json.loads(text)["uid"] == file.removesuffix(".json")


def test_a_record_of_costs_has_its_place_and_its_port() -> None:
    values = f"{NAMED}costs: {{enabled: true, apiPort: 9003}}\n"
    variables = env(values)
    assert {name: text for name, text in variables.items() if name.startswith("COST_")} == {
        "COST_STORE": "/var/lib/dovetail/cost.db",
        "COST_RETENTION": "2160h",
        "COST_USAGE": "metrics-server",
        "COST_API_PORT": "9003",
    }
    spec = pod(values)
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["costs"] == "/var/lib/dovetail"
    assert {"name": "costs", "emptyDir": {"sizeLimit": "1Gi"}} in spec["volumes"]
    ports = render("dovetail", values)["Service", "dovetail"]["spec"]["ports"]
    assert [port["port"] for port in ports] == [8080, 9003]
    assert not any(name.startswith("COST_") for name in env(NAMED))


def test_only_a_record_that_asks_a_metrics_server_may_ask_it() -> None:
    def groups(values: str) -> set[str]:
        rules = render("dovetail", NAMED + values)["ClusterRole", "dovetail"]["rules"]
        return {group for rule in rules for group in rule["apiGroups"]}

    assert "metrics.k8s.io" in groups("costs: {enabled: true}\n")
    assert "metrics.k8s.io" not in groups("costs: {enabled: true, usage: 'http://prometheus:9090'}\n")
    assert "metrics.k8s.io" not in groups("")


def test_a_network_policy_leaves_open_what_is_used() -> None:
    assert ("NetworkPolicy", "dovetail") not in render("dovetail", NAMED)
    spec = render("dovetail", NAMED + "networkPolicy: {enabled: true}\n")["NetworkPolicy", "dovetail"]["spec"]
    labels = deployment(NAMED)["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["policyTypes"] == ["Ingress"]
    assert [rule.get("from") for rule in spec["ingress"]] == [None, None]
    everything = """
webhook: {enabled: true}
costs: {enabled: true, apiPort: 9003}
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  extraIngress: [{ports: [{port: 9000}]}]
  egress: [{ports: [{port: 443, protocol: TCP}]}, {ports: [{port: 53, protocol: UDP}]}]
"""
    spec = render("dovetail", NAMED + everything)["NetworkPolicy", "dovetail"]["spec"]
    scraped, asked, further = spec["ingress"]
    assert len(scraped["from"]) == 1
    assert "from" not in asked
    open_ports = {port["port"] for rule in (scraped, asked) for port in rule["ports"]}
    assert open_ports == {port["name"] for port in pod(NAMED + everything)["containers"][0]["ports"]}
    assert further == {"ports": [{"port": 9000}]}
    assert (spec["policyTypes"], len(spec["egress"])) == (["Ingress", "Egress"], 2)
