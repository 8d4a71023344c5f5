"""Karpenter's flags and environment, and a few of our own, each checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cyclopts import Parameter

from dovetail.base.defaults import LEASE
from dovetail.base.errors import InputError
from dovetail.cli.run_environment import Bool, from_environment, read_gates
from dovetail.units.duration import parse_duration

if TYPE_CHECKING:
    from dovetail.cost.commitments import Terms
    from dovetail.disrupt.pause import Pause
    from dovetail.model.repair import RepairPolicy
    from dovetail.runtime.process.options import Options, WebhookOptions
    from dovetail.runtime.settings import FeatureGates, Settings

T = TypeVar("T")

# Those that change something, and what they are in the settings.
_GATES = {
    "CapacityBuffer": "capacity_buffer",
    "NodeRepair": "node_repair",
    "NodeOverlay": "node_overlay",
    "ReservedCapacity": "reserved_capacity",
    "SpotToSpotConsolidation": "spot_to_spot_consolidation",
    "StaticCapacity": "static_capacity",
    "TerminateFirstDrift": "terminate_first_drift",
    "TerminateFirstRepair": "terminate_first_repair",
    "PodDeletionCostManagement": "pod_deletion_cost_management",
}


@Parameter(name="*")
@from_environment
@dataclass(frozen=True, kw_only=True)
class Flags:
    """All flags, as text where their text is checked here.

    Parameters
    ----------
    provider
        Where nodes come from. kwok: Node objects that kwok plays, on any cluster and without a cloud.
        aws: EC2, with --cluster-name; credentials and region as AWS's own tools find them. With --observe by
        the packaged catalogue's list prices: nothing is asked of AWS.
    observe
        Only look, beside another controller, and report what Dovetail would have launched, moved and saved.
        Nothing is written to the cluster, no lease is taken.
    observe_every
        When observing, how often the figures so far are reported.
    instance_types
        With kwok: a JSON file of instance types instead of Karpenter's table for kwok.
    kubeconfig
        The kubeconfig file to use. Otherwise KUBECONFIG, the pod's service account, or ~/.kube/config.
    context
        The context of the kubeconfig; its current one by default.
    batch_idle_duration
        A batch of pending pods is closed once none has come for so long.
    batch_max_duration
        A batch is closed after so long at the latest.
    solve_deadline
        How long the solver may look for a cheaper plan; as long as a batch stays idle by default. Where the
        plan is more than 3 % above what is proven, it is asked once more, for three times as long, if it is
        for at most 1,000 pods.
    preference_policy
        Ignore: preferred rules count as if they were not there.
    min_values_policy
        BestEffort: buy with fewer kinds than minValues asks for, rather than not at all.
    scheduler_config
        YAML: the spread constraints that the cluster's scheduler gives to pods without any of their own, as
        podTopologySpread.defaultConstraints.
    ignore_dra_requests
        false: nodes are bought for claims for devices (Dynamic Resource Allocation), from Kubernetes 1.34 on.
    repair_policies
        YAML: when nodes are past help and what is done with them then, as policies; the provider's own by
        default.
    shared_limits
        YAML: what several NodePools may have together, in resources, nodes and dollars per hour, as limits.
    feature_gates
        NAME=true or false, with commas between them.
    legacy_node_repair
        true: with the gate NodeRepair, unhealthy nodes end by force and at once, as in Karpenter 1.14.
    kube_client_qps
        Requests to the API server per second, for long.
    kube_client_burst
        Requests to the API server at once.
    disable_leader_election
        true: act without the lease. Never beside another controller.
    disable_controller_warmup
        false: one that waits for the lease keeps its lists meanwhile, so that it acts at once when it leads.
    disable_cluster_state_observability
        true: /metrics leaves out the gauges of single pods, nodes and status conditions.
    leader_election_name
        The lease; Karpenter's own by default, so that both can never act at once.
    leader_election_namespace
        Where the lease is: SYSTEM_NAMESPACE, the pod's namespace, or kube-system by default.
    metrics_port
        Where /metrics is served; 0 serves none.
    health_probe_port
        Where /healthz and /readyz are served; 0 serves none.
    disable_webhook
        false: convert between v1beta1 and v1 for the API server, as Karpenter 1.0 did. It needs definitions
        that ask for it: dovetail crds --webhook-service.
    webhook_port
        Where that webhook is served.
    karpenter_service
        The Service by which API servers reach that webhook.
    log_level
        Which lines are written: debug is all of them.
    pause
        launches, disruption or all: what is not done for now.
    launch_limit
        Nodes that are launched at most per interval, such as 50/10m.
    move_limit
        Pods that voluntary disruption moves at most per interval, such as 200/1h.
    forceful_budget
        Nodes of a pool, a number or a percentage, that may be on their way out when another ends by force.
    confirm_termination
        The token of a mass termination that is meant.
    pod_moves_per_day
        How often consolidation may move the pods of a workload within 24 h, per pod that it has.
    minimum_saving
        What replacing a node must save at least, as 2%,$0.005.
    node_surcharge
        Dollars per hour that a node costs besides its instance and its volumes.
    spot_diversity
        Types that a spot node leaves the cloud to choose from, where there are as many.
    spot_tolerance
        Percent by which they may be dearer than the cheapest.
    spot_launch_types
        Types that a spot launch names, the cheapest first, besides all offerings within that tolerance; 60
        names as many at any price, as Karpenter does.
    cost_store
        Keep a record of what ran and what it cost in this file (SQLite), for `dovetail cost`.
    cost_retention
        For how long it is kept.
    cost_usage
        Who is asked once a minute what pods use, for that record: metrics-server, the address of a Prometheus
        that scrapes cAdvisor, such as http://prometheus:9090, or none.
    cost_commitments
        A file with savings plans, reserved instances and licences, under which that page and API count.
    cost_api_port
        Where a page and OpenCost's API (/allocation, /assets) answer from that record, read only; 0 serves
        none.
    surge
        true: restart Deployments that ask for it (dovetail.dev/surge), so that another pod is up before one
        has to leave its node. It needs the right to patch them.
    on_demand_shares
        true: tell pods at their scheduling gate dovetail.dev/on-demand whether they stay off spot, by the
        share that their annotation of that name asks for. It needs the right to patch pods.
    nominate_pods
        false: the status of pods does not say which node is for them. It needs the right to patch it.
    gangs
        false: nodes are bought for some pods of a gang as well where not enough of them can have a place.
    """

    provider: Literal["kwok", "aws"] = "kwok"
    observe: bool = False
    observe_every: str = "10m"
    instance_types: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""
    batch_idle_duration: str = "1s"
    batch_max_duration: str = "10s"
    solve_deadline: str = ""
    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    scheduler_config: str = ""
    ignore_dra_requests: Bool = "true"
    repair_policies: str = ""
    shared_limits: str = ""
    feature_gates: str = ""
    legacy_node_repair: Bool = "false"
    kube_client_qps: float = 200
    kube_client_burst: int = 300
    disable_leader_election: Bool = "false"
    disable_controller_warmup: Bool = "true"
    disable_cluster_state_observability: Bool = "false"
    leader_election_name: str = LEASE
    leader_election_namespace: str = ""
    metrics_port: int = 8080
    health_probe_port: int = 8081
    disable_webhook: Bool = "true"
    webhook_port: int = 8443
    karpenter_service: str = "karpenter"
    log_level: Literal["debug", "info", "error"] = "info"
    pause: str = ""
    launch_limit: str = ""
    move_limit: str = ""
    forceful_budget: str = ""
    confirm_termination: str = ""
    pod_moves_per_day: int = 1
    minimum_saving: str = ""
    node_surcharge: str = "0"
    spot_diversity: int = 15
    spot_tolerance: int = 20
    spot_launch_types: int = 15
    cost_store: Path | None = None
    cost_retention: str = "2160h"
    cost_usage: str = "metrics-server"
    cost_commitments: Path | None = None
    cost_api_port: int = 0
    surge: Bool = "false"
    on_demand_shares: Bool = "false"
    nominate_pods: Bool = "true"
    gangs: Bool = "true"

    def options(self) -> Options:
        """The values. Raises InputError for the first that is not valid."""
        from dovetail.runtime.process.options import Options

        return Options(
            settings=self._settings(),
            provider=self.provider,
            observe=self.observe,
            tell_every=int(
                _above("--observe-every", _read("--observe-every", parse_duration, self.observe_every), 0)
            ),
            instance_types=self.instance_types,
            kubeconfig=self.kubeconfig,
            context=self.context,
            qps=_above("--kube-client-qps", self.kube_client_qps, 0),
            burst=int(_above("--kube-client-burst", self.kube_client_burst, 0)),
            metrics_port=_port("--metrics-port", self.metrics_port),
            probe_port=_port("--health-probe-port", self.health_probe_port),
            warm_up=self.disable_controller_warmup == "false",
            elect=self.disable_leader_election == "false",
            lease=self.leader_election_name or LEASE,
            lease_namespace=self.leader_election_namespace,
            log_level=self.log_level,
            cost_store=self._cost_store(),
            cost_retention=int(
                _above("--cost-retention", _read("--cost-retention", parse_duration, self.cost_retention), 0)
            ),
            cost_usage=self._cost_usage(),
            cost_terms=self._cost_terms(),
            cost_port=_port("--cost-api-port", self.cost_api_port),
            webhook=self._webhook(),
        )

    def _webhook(self) -> WebhookOptions | None:
        from dovetail.runtime.process.options import WebhookOptions

        if self.disable_webhook == "true" or self.observe:
            return None
        if not re.fullmatch("[a-z0-9]([a-z0-9-]{0,56}[a-z0-9])?", self.karpenter_service):
            raise InputError(
                f"{self.karpenter_service!r} is no name of a Service",
                source="--karpenter-service",
                remedy="give the name of the Service that the definitions ask, such as karpenter",
            )
        port = _port("--webhook-port", self.webhook_port)
        if port == 0:
            raise InputError(
                "0 serves nothing", source="--webhook-port", remedy="give a port, or --disable-webhook=true"
            )
        return WebhookOptions(port, self.karpenter_service)

    def _cost_store(self) -> Path | None:
        if self.cost_api_port and self.cost_store is None:
            raise InputError(
                "there is no record to answer from",
                source="--cost-api-port",
                remedy="give --cost-store FILE too",
            )
        return self.cost_store

    def _cost_terms(self) -> Terms | None:
        # Commands without such a file have no use for what reads it.
        from dovetail.simulate.scenario.commitments import read_terms

        return None if self.cost_commitments is None else read_terms(self.cost_commitments)

    def _cost_usage(self) -> str:
        given = self.cost_usage
        if given in ("", "none"):
            return ""
        if given != "metrics-server" and not re.fullmatch(r"https?://[^/\s?#]+[^\s?#]*", given):
            raise InputError(
                f"{given!r} is nothing that can be asked",
                source="--cost-usage",
                remedy="give metrics-server, none, or the address of a Prometheus: http://prometheus:9090",
            )
        return given

    def _settings(self) -> Settings:
        from dovetail.cluster.scheduler_config import read_default_constraints
        from dovetail.cluster.shared_limits import read_shared_limits
        from dovetail.controllers.brakes.brakes import BrakeOptions, Rate
        from dovetail.model import labels
        from dovetail.runtime.settings import Settings
        from dovetail.units.money import parse_dollars

        return Settings(
            batch_idle_duration=_read("--batch-idle-duration", parse_duration, self.batch_idle_duration),
            batch_max_duration=_read("--batch-max-duration", parse_duration, self.batch_max_duration),
            solve_deadline=_read("--solve-deadline", parse_duration, self.solve_deadline)
            if self.solve_deadline
            else None,
            preference_policy=self.preference_policy,
            min_values_policy=self.min_values_policy,
            spot_diversity=self.spot_diversity,
            spot_tolerance=self.spot_tolerance,
            spot_launch_types=self.spot_launch_types,
            node_surcharge=_read("--node-surcharge", parse_dollars, self.node_surcharge),
            minimum_saving=self.minimum_saving,
            pod_moves_per_day=self.pod_moves_per_day,
            default_constraints=read_default_constraints(self.scheduler_config, "--scheduler-config"),
            dynamic_resources=self.ignore_dra_requests == "false",
            gates=self._gates(),
            legacy_node_repair=self.legacy_node_repair == "true",
            repair_policies=self._repair_policies(),
            shared_limits=read_shared_limits(self.shared_limits, "--shared-limits"),
            brakes=BrakeOptions(
                pause=self._pause(),
                launches=_read("--launch-limit", Rate.parse, self.launch_limit)
                if self.launch_limit
                else None,
                moves=_read("--move-limit", Rate.parse, self.move_limit) if self.move_limit else None,
                forceful=self._forceful(),
                confirmed=self.confirm_termination,
            ),
            surge=self.surge == "true",
            on_demand_shares=self.on_demand_shares == "true",
            nominate_pods=self.nominate_pods == "true",
            gangs=self.gangs == "true",
            migrate_versions=self.disable_webhook == "false",
            cluster_figures=self.disable_cluster_state_observability == "false",
            well_known=labels.AWS_WELL_KNOWN if self.provider == "aws" else labels.KWOK_WELL_KNOWN,
        )

    def _repair_policies(self) -> tuple[RepairPolicy, ...]:
        from dovetail.cloud.repair_policies import read_repair_policies

        found = read_repair_policies(self.repair_policies, "--repair-policies")
        if found and self.legacy_node_repair == "true":
            raise InputError(
                "the repair of Karpenter 1.14 has policies of its own",
                source="--repair-policies",
                remedy="leave them out, or --legacy-node-repair",
            )
        return found

    def _pause(self) -> Pause:
        from dovetail.disrupt.pause import PAUSES, read_pause

        if self.pause and self.pause not in PAUSES:
            raise InputError(
                f"{self.pause!r} is not valid", source="--pause", remedy=f"choose one of {', '.join(PAUSES)}"
            )
        return read_pause(self.pause)

    def _forceful(self) -> str:
        from dovetail.api.karpenter.nodepool_schema import NODES_OR_SHARE

        if self.forceful_budget and not re.fullmatch(NODES_OR_SHARE, self.forceful_budget):
            raise InputError(
                f"{self.forceful_budget!r} is not valid",
                source="--forceful-budget",
                remedy="give a number of nodes or a percentage, such as 5 or 10%",
            )
        return self.forceful_budget

    def given(self) -> tuple[str, ...]:
        """What was given and changes nothing here. Raises InputError."""
        opened = read_gates(self.feature_gates, "--feature-gates")
        idle = [f"--feature-gates {name}=true" for name, on in opened.items() if on and name not in _GATES]
        if self.repair_policies and not opened.get("NodeRepair"):
            idle.append("--repair-policies without --feature-gates NodeRepair=true")
        return tuple(idle)

    def _gates(self) -> FeatureGates:
        from dovetail.runtime.settings import FeatureGates

        chosen = read_gates(self.feature_gates, "--feature-gates").items()
        return FeatureGates(**{_GATES[name]: on for name, on in chosen if name in _GATES})


def _read(flag: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(str(error), source=flag) from None


def _above(flag: str, value: float, least: float) -> float:
    if not least < value < inf:
        raise InputError(
            f"{value} is not valid", source=flag, remedy=f"give more than {least}, or leave it out"
        )
    return value


def _port(flag: str, value: int) -> int:
    if not 0 <= value < 65_536:
        raise InputError(f"{value} is not a port", source=flag, remedy="give 0 to 65535")
    return value
