"""Rules of scenario files that types alone do not say."""

from __future__ import annotations

import re

from dovetail.base.errors import InputError
from dovetail.cloud.repair_policies import read_repair_policies
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.controllers.brakes.brakes import Rate
from dovetail.disrupt.consolidation.saving import Minimum, parse_minimum
from dovetail.disrupt.pause import PAUSES
from dovetail.simulate.clusterautoscaler.scaleup import EXPANDERS, parse_totals
from dovetail.simulate.scenario.document import Document, suggest
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.schema import (
    INTERRUPTIONS,
    ClusterAutoscalerFlags,
    ScenarioFile,
    Settings,
)
from dovetail.simulate.scenario.traffic import second_of_day
from dovetail.units.duration import parse_duration
from dovetail.units.money import parse_dollars

_CAPACITY_TYPES = ("on-demand", "spot", "reserved")


_MOST_NODES = 20_000  # of node groups: four times as many as a cluster of Kubernetes may have


def check(document: Document, file: ScenarioFile) -> None:
    """Raises InputError for the first rule that is broken."""
    _groups(document, file)
    _events(document, file)
    _settings(document, file.settings)
    _flags(document, file.cluster_autoscaler)
    if file.nodes is not None and file.settings.provider != "simulated":
        raise document.error(
            "nodes that are there at the start are played on the simulated cloud alone",
            "nodes",
            remedy="set settings.provider to simulated, or leave nodes out: they are bought anew then",
        )


def _groups(document: Document, file: ScenarioFile) -> None:
    nodes = sum(max(group.count, group.max or 0) for group in file.node_groups)
    if nodes > _MOST_NODES:
        raise document.error(
            f"the node groups have up to {nodes:,} nodes; a simulation takes {_MOST_NODES:,}", "nodeGroups"
        )
    for i, group in enumerate(file.node_groups):
        path = f"nodeGroups[{i}]"
        if group.count < 0:
            raise document.error("a node group cannot have fewer than 0 nodes", f"{path}.count")
        if group.max is not None and not 0 <= group.min <= group.count <= group.max:
            raise document.error(
                f"min {group.min}, count {group.count} and max {group.max} are not in that order",
                f"{path}.max",
            )
        if not group.zones:
            raise document.error("a node group needs at least one zone", f"{path}.zones")
        if group.capacity_type not in _CAPACITY_TYPES:
            guess = suggest(group.capacity_type, _CAPACITY_TYPES)
            raise document.error(
                f"unknown capacity type {group.capacity_type!r}{guess}", f"{path}.capacityType"
            )


def _events(document: Document, file: ScenarioFile) -> None:
    for i, shortage in enumerate(file.shortages):
        document.parse(f"shortages[{i}].from", second_of_day, shortage.from_)
        document.parse(f"shortages[{i}].until", second_of_day, shortage.until)
    for i, change in enumerate(file.changes):
        document.parse(f"changes[{i}].at", second_of_day, change.at)
    for i, item in enumerate(file.interruptions):
        document.parse(f"interruptions[{i}].at", second_of_day, item.at)
        if item.kind not in INTERRUPTIONS:
            guess = suggest(item.kind, INTERRUPTIONS)
            raise document.error(f"{item.kind!r} is no interruption{guess}", f"interruptions[{i}].kind")
        if not 0 < item.share <= 1:
            raise document.error(f"{item.share} is not above 0 and at most 1", f"interruptions[{i}].share")
    for i, taint in enumerate(file.startup_taints):
        document.parse(f"startupTaints[{i}].after", parse_duration, taint.after)


def _flags(document: Document, flags: ClusterAutoscalerFlags) -> None:
    section = "clusterAutoscaler"
    for name, text in (
        ("scanInterval", flags.scan_interval),
        ("scaleDownUnneededTime", flags.scale_down_unneeded_time),
        ("scaleDownDelayAfterAdd", flags.scale_down_delay_after_add),
        ("maxNodeProvisionTime", flags.max_node_provision_time),
    ):
        if document.parse(f"{section}.{name}", parse_duration, text) <= 0:
            raise document.error(f"{text!r} is not more than 0s", f"{section}.{name}")
    for name, text in (("coresTotal", flags.cores_total), ("memoryTotal", flags.memory_total)):
        document.parse(f"{section}.{name}", parse_totals, text)
    if flags.max_nodes_total < 0:
        raise document.error(f"{flags.max_nodes_total} is less than 0", f"{section}.maxNodesTotal")
    if flags.ok_total_unready_count < 0:
        text = f"{flags.ok_total_unready_count} is less than 0"
        raise document.error(text, f"{section}.okTotalUnreadyCount")
    if not 0 <= flags.max_total_unready_percentage <= 100:
        text = f"{flags.max_total_unready_percentage} is not from 0 to 100"
        raise document.error(text, f"{section}.maxTotalUnreadyPercentage")
    if not 0 <= flags.group_join_failures <= 1:
        text = f"{flags.group_join_failures} is not from 0 to 1"
        raise document.error(text, f"{section}.groupJoinFailures")
    known = ("priority", *EXPANDERS)
    for i, name in enumerate(flags.expander):
        if name == "grpc":
            text = (
                "the expander grpc is not played: a server of your own decides, which a simulation cannot ask"
            )
            raise document.error(text, f"{section}.expander[{i}]", remedy=f"valid are {', '.join(known)}")
        if name not in known:
            guess = suggest(name, known)
            raise document.error(f"{name!r} is no expander{guess}", f"{section}.expander[{i}]")
    for number, patterns in flags.priorities.items():
        path = f"{section}.priorities.{number}"
        if not re.fullmatch(r"-?[0-9]{1,9}", number):
            raise document.error(f"{number!r} is no whole number", path)
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise document.error(f"{pattern!r} is no regular expression: {error}", path) from None
    document.parse(f"{section}.groupLatency", lambda _: Distribution.of(flags.group_latency), "")
    if not 0 < flags.scale_down_utilization_threshold <= 1:
        text = f"{flags.scale_down_utilization_threshold} is not above 0 and at most 1"
        raise document.error(text, f"{section}.scaleDownUtilizationThreshold")


def _settings(document: Document, settings: Settings) -> None:
    for name, text in (
        ("batchIdleDuration", settings.batch_idle_duration),
        ("batchMaxDuration", settings.batch_max_duration),
        ("solveDeadline", settings.solve_deadline),
    ):
        if text is not None:
            document.parse(f"settings.{name}", parse_duration, text)
    period = settings.efficiency_period
    if period and document.parse("settings.efficiencyPeriod", parse_duration, period) <= 0:
        raise document.error("must be longer than 0s", "settings.efficiencyPeriod")
    for name, given, valid in (
        ("preferencePolicy", settings.preference_policy, ("Respect", "Ignore")),
        ("minValuesPolicy", settings.min_values_policy, ("Strict", "BestEffort")),
        ("pause", settings.pause, ("", *PAUSES)),
    ):
        if given not in valid:
            raise document.error(f"{given!r} is no policy{suggest(given, valid)}", f"settings.{name}")
    for name, rate in (("launchLimit", settings.launch_limit), ("moveLimit", settings.move_limit)):
        if rate:
            document.parse(f"settings.{name}", Rate.parse, rate)
    budget = settings.forceful_budget
    if budget and not re.fullmatch(r"(100|\d{1,2})%|\d+", budget):
        complaint = f"{budget!r} is no number of nodes; valid are 3 and 10%"
        raise document.error(complaint, "settings.forcefulBudget")
    if settings.minimum_saving:
        document.parse(
            "settings.minimumSaving", lambda text: parse_minimum(text, Minimum()), settings.minimum_saving
        )
    for name, read, text in (
        ("repairPolicies", read_repair_policies, settings.repair_policies.text()),
        ("sharedLimits", read_shared_limits, settings.shared_limits.text()),
    ):
        try:
            read(text, "")
        except InputError as error:
            wrong = error.faults[0]
            raise document.error(
                wrong.message, f"settings.{name}.{wrong.path}", remedy=wrong.remedy
            ) from None
    document.parse("settings.nodeSurcharge", parse_dollars, repr(settings.node_surcharge))
    for name, number, least in (
        ("spotDiversity", settings.spot_diversity, 1),
        ("spotTolerance", settings.spot_tolerance, 0),
        ("spotLaunchTypes", settings.spot_launch_types, 1),
    ):
        if number < least:
            raise document.error(f"{number} is less than {least}", f"settings.{name}")
    written = settings.patch_time
    if written and document.parse("settings.patchTime", parse_duration, written) < 0:
        raise document.error(f"{written!r} is less than no time", "settings.patchTime")
    if settings.work_per_second <= 0:
        raise document.error("work per second must be more than 0", "settings.workPerSecond")
