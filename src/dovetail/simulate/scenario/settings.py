"""A scenario's settings as the controllers take them."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.base.clock import HOUR, MINUTE
from dovetail.cloud.repair_policies import read_repair_policies
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.controllers.brakes.brakes import BrakeOptions, Rate
from dovetail.disrupt.pause import read_pause
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime import settings as runtime
from dovetail.simulate.scenario.schema import Settings
from dovetail.units.duration import parse_duration
from dovetail.units.money import parse_dollars

# Over a day or a week what the nodes must cost is of no use from minute to minute: the proofs alone took a
# quarter of the time of a replay.
_LONG = 12 * HOUR
_USUAL, _SELDOM = 5 * MINUTE, HOUR


def operator_settings(
    given: Settings, duration: int, on_plan: Callable[[Problem, Plan], None]
) -> runtime.Settings:
    """The settings of the operator that a scenario plays with, which lasts that long (nanoseconds).

    They were checked when it was read.
    """
    period = _SELDOM if duration > _LONG else _USUAL
    return runtime.Settings(
        batch_idle_duration=parse_duration(given.batch_idle_duration),
        batch_max_duration=parse_duration(given.batch_max_duration),
        solve_deadline=parse_duration(given.solve_deadline) if given.solve_deadline else None,
        preference_policy=given.preference_policy,
        min_values_policy=given.min_values_policy,
        spot_diversity=given.spot_diversity,
        spot_tolerance=given.spot_tolerance,
        spot_launch_types=given.spot_launch_types,
        node_surcharge=parse_dollars(repr(given.node_surcharge)),
        brakes=BrakeOptions(
            pause=read_pause(given.pause),
            launches=Rate.parse(given.launch_limit) if given.launch_limit else None,
            moves=Rate.parse(given.move_limit) if given.move_limit else None,
            forceful=given.forceful_budget,
            confirmed=given.confirm_termination,
        ),
        minimum_saving=given.minimum_saving,
        pod_moves_per_day=given.pod_moves_per_day,
        efficiency_period=parse_duration(given.efficiency_period) if given.efficiency_period else period,
        surge=given.surge,
        on_demand_shares=given.on_demand_shares,
        nominate_pods=given.nominate_pods,
        gangs=given.gangs,
        gates=runtime.FeatureGates(
            capacity_buffer=given.feature_gates.capacity_buffer,
            node_repair=given.feature_gates.node_repair,
            node_overlay=given.feature_gates.node_overlay,
            spot_to_spot_consolidation=given.feature_gates.spot_to_spot_consolidation,
            static_capacity=given.feature_gates.static_capacity,
            terminate_first_drift=given.feature_gates.terminate_first_drift,
            terminate_first_repair=given.feature_gates.terminate_first_repair,
            pod_deletion_cost_management=given.feature_gates.pod_deletion_cost_management,
        ),
        dynamic_resources=not given.ignore_dra_requests,
        legacy_node_repair=given.legacy_node_repair,
        repair_policies=read_repair_policies(given.repair_policies.text(), ""),
        shared_limits=read_shared_limits(given.shared_limits.text(), ""),
        on_plan=on_plan,
    )
