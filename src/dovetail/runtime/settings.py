"""Settings: Karpenter's flags by their own names, as far as they exist here, and a few of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dovetail.api.core import TopologySpreadConstraint
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.defaults import SPOT_DIVERSITY, SPOT_LAUNCH_TYPES, SPOT_TOLERANCE
from dovetail.base.errors import InputError
from dovetail.cloud.choice import SpotRange
from dovetail.controllers.brakes.brakes import BrakeOptions
from dovetail.controllers.disruption.consolidation import ConsolidationOptions, Strategy
from dovetail.controllers.provisioning.provision import ProvisioningOptions
from dovetail.disrupt.consolidation.saving import Minimum, parse_minimum
from dovetail.model import labels
from dovetail.model.plan import Plan
from dovetail.model.problem import Options, Problem
from dovetail.model.repair import RepairPolicy
from dovetail.model.shared_limits import SharedLimit

PREFERENCE_POLICIES = ("Respect", "Ignore")
MIN_VALUES_POLICIES = ("Strict", "BestEffort")
_SHORTEST_NOMINATION = 10 * SECOND


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Features that may be off."""

    capacity_buffer: bool = False
    node_repair: bool = False
    node_overlay: bool = False
    reserved_capacity: bool = True
    spot_to_spot_consolidation: bool = False
    static_capacity: bool = False
    terminate_first_drift: bool = False
    terminate_first_repair: bool = False
    pod_deletion_cost_management: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one operator; durations in ns. Raises InputError for what is not valid."""

    batch_idle_duration: int = 1 * SECOND
    batch_max_duration: int = 10 * SECOND
    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    spot_diversity: int = SPOT_DIVERSITY
    spot_tolerance: int = SPOT_TOLERANCE
    spot_launch_types: int = SPOT_LAUNCH_TYPES
    node_surcharge: int = 0  # nano-dollars per hour that a node costs besides its instance and volumes
    minimum_saving: str = ""  # by replacing a node, as "2%,$0.005"; what is left out is as by default
    pod_moves_per_day: int = 1  # by consolidation, per pod within 24 h
    strategy: Strategy = field(default_factory=Strategy)  # of consolidation
    plain_plans: bool = False  # a rival's: carried out as they come, and without a bound to measure by
    gates: FeatureGates = FeatureGates()
    dynamic_resources: bool = False  # pods that claim devices are planned for: --ignore-dra-requests false
    legacy_node_repair: bool = False  # as Karpenter 1.14 repairs, where the gate is open
    repair_policies: tuple[RepairPolicy, ...] = ()  # in place of the cloud's own
    brakes: BrakeOptions = field(default_factory=BrakeOptions)
    # Label keys that pods may ask for although no pool defines them.
    well_known: frozenset[str] = labels.AWS_WELL_KNOWN
    # Spread constraints that the cluster's scheduler gives to pods without any of their own.
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    efficiency_period: int = 5 * MINUTE  # from one look at what the nodes must cost to the next
    # Restart Deployments that ask for it, so that another pod is up before one has to leave its node.
    surge: bool = False
    on_demand_shares: bool = False  # tell pods at their gate whether they stay off spot
    nominate_pods: bool = True  # say in the status of pods which node plans mean for them
    gangs: bool = True  # nothing is bought for pods of a gang of which too few can have a place
    shared_limits: tuple[SharedLimit, ...] = ()  # of several NodePools together
    migrate_versions: bool = False  # write what is stored as v1beta1 again, as v1
    cluster_figures: bool = True  # gauges for every pod, node and status condition
    # How long the solver may look for a cheaper plan; None: as long as `batch_idle_duration`.
    solve_deadline: int | None = None
    # Called with every problem and its plan before anything is done about it.
    on_plan: Callable[[Problem, Plan], None] | None = None

    def __post_init__(self) -> None:
        _one_of("--preference-policy", self.preference_policy, PREFERENCE_POLICIES)
        _one_of("--min-values-policy", self.min_values_policy, MIN_VALUES_POLICIES)
        self.consolidation()
        _at_least("--node-surcharge", self.node_surcharge, 0)
        _at_least("--pod-moves-per-day", self.pod_moves_per_day, 0)
        _at_least("--spot-diversity", self.spot_diversity, 1)
        _at_least("--spot-tolerance", self.spot_tolerance, 0)
        _at_least("--spot-launch-types", self.spot_launch_types, 1)
        if not 0 < self.batch_idle_duration <= self.batch_max_duration:
            raise InputError(
                "the idle duration must be above 0 and at most the maximum duration",
                source="--batch-idle-duration",
                remedy="give --batch-idle-duration 1s and --batch-max-duration 10s, or leave both out",
            )

        if self.solve_deadline is not None and self.solve_deadline <= 0:
            raise InputError(
                "the deadline must be above 0",
                source="--solve-deadline",
                remedy="give --solve-deadline 1s, or leave it out to plan for as long as a batch stays idle",
            )

    @property
    def nomination_window(self) -> int:
        """How long a nominated node is kept from disruption."""
        return max(2 * self.batch_max_duration, _SHORTEST_NOMINATION)

    @property
    def spot_range(self) -> SpotRange | None:
        """Which spot offerings launches try first; None for all."""
        return SpotRange.of(self.spot_launch_types, self.spot_tolerance)

    def consolidation(self) -> ConsolidationOptions:
        """What consolidation needs of all this."""
        try:
            minimum = parse_minimum(self.minimum_saving, Minimum()) if self.minimum_saving else Minimum()
        except ValueError as error:
            remedy = "give --minimum-saving 2%,$0.005 or 2%,$0.005,$0.002/pod, or leave it out"
            raise InputError(str(error), source="--minimum-saving", remedy=remedy) from None
        return ConsolidationOptions(
            minimum,
            self.node_surcharge,
            self.gates.spot_to_spot_consolidation,
            self.provisioning().deadline,
            self.pod_moves_per_day,
            self.strategy,
        )

    def provisioning(self) -> ProvisioningOptions:
        """What the provisioner needs of all this."""
        return ProvisioningOptions(
            solver=Options(
                respect_preferences=self.preference_policy == "Respect",
                strict_min_values=self.min_values_policy == "Strict",
                well_known=self.well_known,
                spot_diversity=self.spot_diversity,
                spot_tolerance=self.spot_tolerance,
                node_surcharge=self.node_surcharge,
                gangs=self.gangs,
                shared_limits=self.shared_limits,
            ),
            deadline=self.batch_idle_duration if self.solve_deadline is None else self.solve_deadline,
            on_plan=self.on_plan,
            plain=self.plain_plans,
            nominates=self.nominate_pods,
        )


def _at_least(flag: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(
            f"{value} is not valid", source=flag, remedy=f"give {least} or more, or leave it out"
        )


def _one_of(flag: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise InputError(f"{value!r} is not valid", source=flag, remedy=f"choose one of {', '.join(valid)}")
