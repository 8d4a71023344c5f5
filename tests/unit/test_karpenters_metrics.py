"""Every metric that Karpenter has is here by its name and labels, or is known to be left out, and why."""

from __future__ import annotations

import pytest
from test_promtool import declared

from dovetail.base.metrics import Metric

_DISRUPTED = "reason nodepool capacity_type consolidation_policy termination_mode"
_CONDITION = "name namespace type status reason"
_QUEUE, _AWS = "name controller", "service action code"
# Name -> labels. Those of nodes have every well-known label besides.
KARPENTERS = {
    "karpenter_nodeclaims_created_total": "reason nodepool min_values_relaxed",
    "karpenter_nodeclaims_terminated_total": "nodepool capacity_type zone",
    "karpenter_nodeclaims_disrupted_total": _DISRUPTED,
    "karpenter_pods_disruption_initiated_total": _DISRUPTED,
    "karpenter_nodeclaims_termination_duration_seconds": "nodepool",
    "karpenter_nodeclaims_instance_termination_duration_seconds": "nodepool",
    "karpenter_nodeclaims_unhealthy_disrupted_total": "condition nodepool capacity_type image_id"
    " termination_mode",  # since 1.15
    "karpenter_nodes_created_total": "nodepool zone",
    "karpenter_nodes_terminated_total": "nodepool zone",
    "karpenter_nodes_drained_total": "nodepool",
    "karpenter_nodes_termination_duration_seconds": "nodepool",
    "karpenter_nodes_lifetime_duration_seconds": "nodepool",
    "karpenter_nodes_reboots_total": "result",
    "karpenter_nodes_reboot_duration_seconds": "result",
    "karpenter_nodes_reboot_recovery_duration_seconds": "",
    **dict.fromkeys(
        (
            "karpenter_nodes_allocatable",
            "karpenter_nodes_total_pod_requests",
            "karpenter_nodes_total_pod_limits",
            "karpenter_nodes_total_daemon_requests",
            "karpenter_nodes_total_daemon_limits",
            "karpenter_nodes_system_overhead",
        ),
        "node_name phase managed resource_type nodepool zone instance_type capacity_type arch os region",
    ),
    "karpenter_nodes_current_lifetime_seconds": "node_name phase managed nodepool zone instance_type",
    "karpenter_cluster_utilization_percent": "resource_type",
    "karpenter_cluster_state_node_count": "",
    "karpenter_cluster_state_synced": "",
    "karpenter_cluster_state_unsynced_time_seconds": "",
    "karpenter_pods_state": (
        "name namespace owner node scheduled nodepool zone arch"
        " capacity_type instance_type phase ready managed"
    ),
    "karpenter_pods_startup_duration_seconds": "",
    "karpenter_pods_bound_duration_seconds": "dynamic_resources",
    "karpenter_pods_provisioning_bound_duration_seconds": "dynamic_resources",
    "karpenter_pods_provisioning_startup_duration_seconds": "",
    "karpenter_pods_scheduling_decision_duration_seconds": "",
    "karpenter_pods_unstarted_time_seconds": "name namespace",
    "karpenter_pods_unbound_time_seconds": "name namespace dynamic_resources",
    "karpenter_pods_provisioning_unbound_time_seconds": "name namespace dynamic_resources",
    "karpenter_pods_provisioning_unstarted_time_seconds": "name namespace",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds": "name namespace",
    "karpenter_pods_eviction_requests_total": "code",
    "karpenter_pods_drained_total": "reason",
    "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes": "nodepool",
    "karpenter_pod_deletion_cost_pod_annotation_writes_total": "result",
    "karpenter_nodepools_limit": "resource_type nodepool",
    "karpenter_nodepools_usage": "resource_type nodepool",
    "karpenter_nodepools_cost_total": "nodepool",
    "karpenter_nodepools_cost_tracker_errors_total": "nodepool nodeclaim",
    "karpenter_nodepools_allowed_disruptions": "nodepool reason",
    "karpenter_nodes_consuming_budgets": "nodepool reason",
    "karpenter_scheduler_scheduling_duration_seconds": "controller",
    "karpenter_scheduler_queue_depth": "controller scheduling_id",
    "karpenter_scheduler_unfinished_work_seconds": "controller scheduling_id",
    "karpenter_scheduler_unschedulable_pods_count": "controller",
    "karpenter_scheduler_pending_pods_by_effective_zone_count": "controller zone",
    "karpenter_scheduler_ignored_pods_count": "",
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds": "reason consolidation_type",
    "karpenter_voluntary_disruption_decisions_total": "decision reason consolidation_type",
    "karpenter_voluntary_disruption_decisions_by_nodepool_total": (
        "decision reason consolidation_type nodepool"
    ),
    "karpenter_voluntary_disruption_terminate_first_decisions_total": (  # since 1.15
        "nodepool reason terminate_first_reason"
    ),
    "karpenter_voluntary_disruption_eligible_nodes": "reason",
    "karpenter_voluntary_disruption_consolidation_timeouts_total": "consolidation_type",
    "karpenter_voluntary_disruption_failed_validations_total": "consolidation_type",
    "karpenter_voluntary_disruption_queue_failures_total": "decision reason consolidation_type",
    "karpenter_consolidation_score": "decision nodepool policy",
    "karpenter_consolidation_moves_total": "decision nodepool policy",
    "karpenter_interruption_received_messages_total": "message_type",
    "karpenter_interruption_deleted_messages_total": "",
    "karpenter_interruption_message_queue_duration_seconds": "",
    "karpenter_interruption_instance_status_unhealthy_total": "category",
    "karpenter_cloudprovider_duration_seconds": "controller method provider",
    "karpenter_cloudprovider_errors_total": "controller method provider error nodepool",
    "karpenter_cloudprovider_instance_type_cpu_cores": "instance_type",
    "karpenter_cloudprovider_instance_type_memory_bytes": "instance_type",
    "karpenter_cloudprovider_instance_type_offering_available": "instance_type capacity_type zone",
    "karpenter_cloudprovider_instance_type_offering_price_estimate": "instance_type capacity_type zone",
    "karpenter_cloudprovider_instance_launch_failures_total": "zone zone_id capacity_type reason",
    "karpenter_cloudprovider_instance_termination_failures_total": "zone zone_id",
    "karpenter_cloudprovider_batcher_batch_time_seconds": "batcher",
    "karpenter_cloudprovider_batcher_batch_size": "batcher",
    "karpenter_ec2nodeclasses_userdata_bytes": "nodeclass",
    "karpenter_build_info": "version goversion goarch commit",
    **{
        f"operator_{kind}_{name}": labels
        for kind in ("nodeclaim", "nodepool", "nodeoverlay", "ec2nodeclass", "node")
        for name, labels in (
            ("status_condition_count", _CONDITION),
            ("status_condition_current_status_seconds", _CONDITION),
            ("status_condition_transitions_total", "type status reason"),
            ("status_condition_transition_seconds", "type status"),
            ("termination_current_time_seconds", "name namespace"),
            ("termination_duration_seconds", ""),
        )
    },
    **{
        f"operator_{name}": "type status"
        for name in (
            "status_condition_count",
            "status_condition_current_status_seconds",
            "status_condition_transitions_total",
            "status_condition_transition_seconds",
            "termination_current_time_seconds",
            "termination_duration_seconds",
        )
    },
    "controller_runtime_reconcile_total": "controller result",
    "controller_runtime_reconcile_errors_total": "controller",
    "controller_runtime_reconcile_time_seconds": "controller",
    "controller_runtime_max_concurrent_reconciles": "controller",
    "controller_runtime_active_workers": "controller",
    "controller_runtime_terminal_reconcile_errors_total": "controller",
    "controller_runtime_reconcile_panics_total": "controller",
    "controller_runtime_reconcile_timeouts_total": "controller",
    "workqueue_depth": "name controller priority",
    "workqueue_adds_total": _QUEUE,
    "workqueue_retries_total": _QUEUE,
    "workqueue_queue_duration_seconds": _QUEUE,
    "workqueue_work_duration_seconds": _QUEUE,
    "workqueue_unfinished_work_seconds": _QUEUE,
    "workqueue_longest_running_processor_seconds": _QUEUE,
    "client_go_request_total": "code method",
    "client_go_request_duration_seconds": "verb group version kind subresource",
    "aws_sdk_go_request_total": _AWS,
    "aws_sdk_go_request_duration_seconds": _AWS,
    "aws_sdk_go_request_retry_count": "service action",
    "aws_sdk_go_request_attempt_total": _AWS,
    "aws_sdk_go_request_attempt_duration_seconds": _AWS,
    "leader_election_master_status": "name",
    "leader_election_slowpath_total": "name",
}
_OLD = "deprecated: the metrics with the kind in their name say the same"
# What is left out, and why.
LEFT_OUT = {
    **{name: _OLD for name in KARPENTERS if name.startswith(("operator_status_", "operator_termination_"))},
    "controller_runtime_terminal_reconcile_errors_total": "every error of a turn is tried again",
    "controller_runtime_reconcile_timeouts_total": "requests have their time, turns have not",
    "leader_election_slowpath_total": "the lease is renewed in one way",
}
# Labels that are left out; Prometheus takes an empty label for one that is not there.
LEFT_OUT_LABELS = {
    "phase": "nodes have had none for long",
    "priority": "keys have no priority",
    "goversion": "there is no Go in it",
    "goarch": "there is no Go in it",
    "commit": "the version says it",
}


@pytest.mark.parametrize("name", KARPENTERS)
def test_it_is_here_or_left_out_for_a_reason(name: str) -> None:
    found = declared().get(name)
    assert (found is None) == (name in LEFT_OUT)
    if found is not None:
        missing = set(KARPENTERS[name].split()) - {*found.labels}
        assert missing <= LEFT_OUT_LABELS.keys()


def test_what_is_here_is_karpenters_or_says_that_it_is_dovetails() -> None:
    others = [
        name
        for name in declared()
        if name not in KARPENTERS and not name.startswith(("dovetail_", "operator_kwoknodeclass_"))
    ]
    assert others == []


def test_labels_that_karpenter_does_not_have_are_those_of_nodes() -> None:
    def more(metric: Metric) -> set[str]:
        return {*metric.labels} - {*KARPENTERS[metric.name].split()}

    found = {name for name, one in declared().items() if name in KARPENTERS and more(one)}
    assert all(name.startswith("karpenter_nodes_") for name in found), found


def test_nothing_that_is_left_out_is_unknown() -> None:
    assert LEFT_OUT.keys() <= KARPENTERS.keys()
