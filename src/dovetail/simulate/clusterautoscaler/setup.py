"""Cluster Autoscaler as a scenario asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.base.clock import Clock
from dovetail.base.errors import InputError
from dovetail.base.eventlog import EventLog
from dovetail.kube.client import Client
from dovetail.simulate.clusterautoscaler.groups import AutoScalingGroup, GroupSpec, Surroundings
from dovetail.simulate.clusterautoscaler.loop import ClusterAutoscaler, Options
from dovetail.simulate.clusterautoscaler.scaledown import Flags
from dovetail.simulate.clusterautoscaler.scaleup import EXPANDERS, ByPriority, Expander
from dovetail.simulate.environment.cloud import shortages
from dovetail.simulate.environment.nodegroup import Member, Place, offerings
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import ClusterAutoscalerFlags
from dovetail.units.duration import parse_duration


def cluster_autoscaler(
    scenario: Scenario,
    place: Place,
    members: Sequence[tuple[Member, ...]],
    kubelets: Kubelets,
    client: Client,
    clock: Clock,
    log: EventLog,
) -> ClusterAutoscaler:
    """The loop over the scenario's groups that have a maximum; `members` are the nodes of all its groups.

    Raises InputError when no group may be scaled, or when its type is not known or not sold.
    """
    file = scenario.file
    around = Surroundings(
        clock=clock,
        log=log,
        kubelets=kubelets,
        limits=shortages(scenario),
        seed=scenario.seed,
        latency=Distribution.of(file.cluster_autoscaler.group_latency),
        terminate=scenario.latencies["terminate"],
    )
    groups = []
    for i, group in enumerate(file.node_groups):
        if group.max is not None:
            kind, sold = offerings(group, place, path=f"nodeGroups[{i}]")
            spec = GroupSpec(group, kind, sold, place, least=group.min, most=group.max)
            groups.append(AutoScalingGroup(spec, members[i], around))
    if not groups:
        raise InputError(
            "no node group may be scaled",
            source=scenario.source,
            path="nodeGroups",
            remedy="give the groups that Cluster Autoscaler is to scale a max, such as `max: 10`",
        )
    return ClusterAutoscaler(client, clock, log, groups, options(file.cluster_autoscaler), scenario.seed)


def options(flags: ClusterAutoscalerFlags) -> Options:
    """The loop's options; the scenario's rules have checked the flags."""
    return Options(
        scan_interval=parse_duration(flags.scan_interval),
        expanders=tuple(_expander(name, flags.priorities) for name in flags.expander),
        threshold=flags.scale_down_utilization_threshold,
        unneeded=parse_duration(flags.scale_down_unneeded_time),
        delay_after_add=parse_duration(flags.scale_down_delay_after_add),
        provision_time=parse_duration(flags.max_node_provision_time),
        expendable_below=flags.expendable_pods_priority_cutoff,
        balance=flags.balance_similar_node_groups,
        flags=Flags(
            skip_local_storage=flags.skip_nodes_with_local_storage,
            skip_system_pods=flags.skip_nodes_with_system_pods,
        ),
    )


def _expander(name: str, priorities: Mapping[str, tuple[str, ...]]) -> Expander:
    if name == "priority":
        return ByPriority({int(number): patterns for number, patterns in priorities.items()})
    return EXPANDERS[name]
