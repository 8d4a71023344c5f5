"""The scenario file, field by field (apiVersion simulation.dovetail.dev/v1alpha1, kind Scenario).

docs/reference/scenario.md explains every field to users; keep the two together.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dovetail.base.defaults import SPOT_DIVERSITY, SPOT_LAUNCH_TYPES, SPOT_TOLERANCE
from dovetail.cloud.interruption import InterruptionKind
from dovetail.model.problem import WORK_PER_SECOND
from dovetail.simulate.scenario.commitments import Commitments
from dovetail.simulate.scenario.history import History
from dovetail.simulate.scenario.initial_nodes import Nodes
from dovetail.simulate.scenario.latency import Latencies, Latency
from dovetail.simulate.scenario.policy import Policy
from dovetail.simulate.scenario.trace import Trace
from dovetail.simulate.scenario.traffic import Section, ServiceTraffic

API_VERSION = "simulation.dovetail.dev/v1alpha1"
KIND = "Scenario"
# What may happen to instances: messages of the cloud, and status checks that fail.
IMPAIRMENTS = ("instance_status", "system_status", "event_status")
INTERRUPTIONS = (
    *(str(kind) for kind in InterruptionKind if kind is not InterruptionKind.NOTHING),
    *IMPAIRMENTS,
)


class Subnet(Section, frozen=True, kw_only=True):
    """A subnet of the account; node classes select it by its id or tags."""

    id: str
    zone: str
    tags: dict[str, str] = {}
    free_addresses: int = 4_000


class SecurityGroup(Section, frozen=True, kw_only=True):
    """A security group of the account."""

    id: str
    name: str = ""
    tags: dict[str, str] = {}


class ClusterSection(Section, frozen=True, kw_only=True):
    """The cluster and the account around it.

    Without subnets and security groups the account gets one subnet in every zone of the region and one
    security group, all tagged `karpenter.sh/discovery: <name>`.
    """

    name: str = "demo"
    version: str = "1.33"
    instance_types: tuple[str, ...] = ()  # the only ones that are sold; all of the region
    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()


class GroupTaint(Section, frozen=True, kw_only=True):
    """A taint of a node group's nodes."""

    key: str
    effect: str
    value: str = ""


class NodeGroup(Section, frozen=True, kw_only=True):
    """A managed node group: nodes that are there at first; with `max`, Cluster Autoscaler may scale it."""

    name: str
    instance_type: str
    count: int
    zones: tuple[str, ...]  # nodes are spread over them in turn
    min: int = 0
    max: int | None = None
    node_class: str = ""  # the EC2NodeClass whose volumes the nodes have; without one, the usual ones
    capacity_type: str = "on-demand"
    labels: dict[str, str] = {}
    taints: tuple[GroupTaint, ...] = ()


class Shortage(Section, frozen=True, kw_only=True):
    """Offerings that have no capacity between two times of day. Empty lists mean: all."""

    from_: str = msgspec.field(name="from")
    until: str
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()


class ManifestChange(Section, frozen=True, kw_only=True):
    """Manifests that are applied at a time of day; a path relative to the scenario's folder."""

    at: str
    file: str


class Interruption(Section, frozen=True, kw_only=True):
    """Something that the cloud does to running instances at a time of day. Empty lists mean: all."""

    at: str
    kind: str
    share: float = 1.0  # of the instances that it concerns
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()


class StartupTaint(Section, frozen=True, kw_only=True):
    """A startup taint that some agent takes off a node `after` the node is Ready."""

    key: str
    after: str = "5s"


class FeatureGates(Section, frozen=True, kw_only=True):
    """Features that are off unless asked for, by the names that --feature-gates has for them."""

    capacity_buffer: bool = msgspec.field(name="CapacityBuffer", default=False)
    node_repair: bool = msgspec.field(name="NodeRepair", default=False)
    node_overlay: bool = msgspec.field(name="NodeOverlay", default=False)
    spot_to_spot_consolidation: bool = msgspec.field(name="SpotToSpotConsolidation", default=False)
    static_capacity: bool = msgspec.field(name="StaticCapacity", default=False)
    terminate_first_drift: bool = msgspec.field(name="TerminateFirstDrift", default=False)
    terminate_first_repair: bool = msgspec.field(name="TerminateFirstRepair", default=False)
    # One of --aws-feature-gates.
    reboot_for_repair: bool = msgspec.field(name="RebootForRepair", default=False)
    pod_deletion_cost_management: bool = msgspec.field(name="PodDeletionCostManagement", default=False)
    # Two more of --aws-feature-gates.
    gpu_devices: bool = msgspec.field(name="DRANVIDIAGPU", default=False)
    efa_devices: bool = msgspec.field(name="DRAEFA", default=False)


class ClusterAutoscalerFlags(Section, frozen=True, kw_only=True):
    """Flags of Cluster Autoscaler, by its defaults, and what its groups do beyond it."""

    # A chain of priority, price, least-waste, most-pods, least-nodes, random.
    expander: tuple[str, ...] = ("least-waste",)
    priorities: dict[str, tuple[str, ...]] = {}  # of the expander `priority`: number -> patterns of names
    scan_interval: str = "10s"
    scale_down_utilization_threshold: float = 0.5
    scale_down_unneeded_time: str = "10m"
    scale_down_delay_after_add: str = "10m"
    max_node_provision_time: str = "15m"
    ok_total_unready_count: int = 3
    max_total_unready_percentage: int = 45
    expendable_pods_priority_cutoff: int = -10
    balance_similar_node_groups: bool = False
    cores_total: str = "0:320000"  # least and most of all nodes together
    memory_total: str = "0:6400000"  # GiB
    max_nodes_total: int = 0  # no limit
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_system_pods: bool = True
    group_latency: Latency = Latency(median="35s")  # from a raised target until the instance starts
    group_zone_rebalancing: bool = True  # groups keep their zones even, by ending nodes
    group_join_failures: float = 0.0  # share of their instances whose nodes never join


class RepairPolicy(Section, frozen=True, kw_only=True):
    """As --repair-policies has it."""

    condition_type: str
    condition_status: str | bool
    toleration_duration: str
    reason_regex: str = ""
    termination_grace_period: str | None = None
    priority: int = 0
    action: str = "ReplaceNode"


class RepairPolicies(Section, frozen=True, kw_only=True):
    """In place of the cloud's own; none leaves those."""

    policies: tuple[RepairPolicy, ...] = ()

    def text(self) -> str:
        """As --repair-policies takes it, "" for none."""
        return msgspec.json.encode(self).decode() if self.policies else ""


class SharedLimit(Section, frozen=True, kw_only=True):
    """As --shared-limits has it."""

    name: str
    limits: dict[str, str | int | float]
    node_pools: tuple[str, ...] = ()
    node_pool_selector: dict[str, Any] | None = None


class SharedLimits(Section, frozen=True, kw_only=True):
    """What several NodePools may have together."""

    limits: tuple[SharedLimit, ...] = ()

    def text(self) -> str:
        """As --shared-limits takes it, "" for none."""
        return msgspec.json.encode(self).decode() if self.limits else ""


class Settings(Section, frozen=True, kw_only=True):
    """Settings of the controllers; defaults as in production."""

    policy: Policy = "dovetail"  # which of them is in charge of nodes
    provider: Literal["aws", "simulated"] = "aws"  # over an account in memory
    batch_idle_duration: str = "1s"
    batch_max_duration: str = "10s"
    solve_deadline: str | None = None  # as long as a batch stays idle
    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    spot_diversity: int = SPOT_DIVERSITY
    spot_tolerance: int = SPOT_TOLERANCE  # percent
    spot_launch_types: int = SPOT_LAUNCH_TYPES
    node_surcharge: float = 0.0  # dollars per hour
    pause: str = ""  # all, launches or disruption
    launch_limit: str = ""  # such as 50/10m
    move_limit: str = ""
    forceful_budget: str = ""  # such as 10% or 3
    confirm_termination: str = ""
    interruption_queue: str = ""  # a name; without one, no interruption is noticed
    pod_moves_per_day: int = 1  # by consolidation
    # From one proof of what the nodes must cost to the next; without it 5m, 1h where that is long.
    efficiency_period: str = ""
    nominate_pods: bool = True
    surge: bool = False
    on_demand_shares: bool = False
    gangs: bool = True
    minimum_saving: str = ""  # as "2%,$0.005"
    feature_gates: FeatureGates = FeatureGates()
    # False: devices are allocated for claims, and nodes are planned for pods that have some.
    ignore_dra_requests: bool = msgspec.field(name="ignoreDRARequests", default=True)
    legacy_node_repair: bool = False
    repair_policies: RepairPolicies = RepairPolicies()
    shared_limits: SharedLimits = SharedLimits()
    # Units of the solver's counted work per second of virtual time: how fast the controller's machine is.
    work_per_second: int = WORK_PER_SECOND
    # Of a patch by the controllers or the scheduler, drawn from half to one and a half of it.
    patch_time: str = ""


class ScenarioFile(Section, frozen=True, kw_only=True):
    """`scenario.yaml`."""

    api_version: str
    kind: str
    name: str
    region: str
    duration: str
    start: str = "2026-03-02T09:00"  # local time in `timezone`
    timezone: str = "UTC"
    seed: int = 1
    description: str = ""
    cluster: ClusterSection = ClusterSection()
    node_groups: tuple[NodeGroup, ...] = ()
    cluster_autoscaler: ClusterAutoscalerFlags = ClusterAutoscalerFlags()
    traffic: tuple[ServiceTraffic, ...] = ()
    latencies: Latencies = Latencies()
    shortages: tuple[Shortage, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    changes: tuple[ManifestChange, ...] = ()
    startup_taints: tuple[StartupTaint, ...] = ()
    commitments: Commitments = Commitments()  # what is paid is under them; nothing is bought otherwise
    settings: Settings = Settings()
    trace: Trace | None = None
    history: History | None = None  # what happened to workloads, played again
    nodes: Nodes | None = None  # of NodePools, there at the start
    assumed: dict[
        str, str
    ] = {}  # what is not known of a cluster that is played again, and what is taken for it
