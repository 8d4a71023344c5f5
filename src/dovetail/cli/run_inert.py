"""Karpenter's settings that change nothing here yet, or only matter to a cloud: taken, checked, and named."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cyclopts import Parameter

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cli.run_environment import Bool, from_environment
from dovetail.units.duration import parse_duration


@Parameter(name="*")
@from_environment
@dataclass(frozen=True, kw_only=True)
class Inert:
    """Without effect with this provider. `dovetail run` says at its start which of them were given.

    Parameters
    ----------
    cluster_name
        The EKS cluster's name.
    cluster_endpoint
        The EKS cluster's address.
    cluster_ca_bundle
        Whom nodes trust.
    isolated_vpc
        Whether the nodes reach AWS.
    eks_control_plane
        Whether EKS runs the control plane.
    vm_memory_overhead_percent
        The share of memory that virtual machines lack.
    interruption_queue
        The SQS queue of interruptions.
    reserved_enis
        Network interfaces that pods do not get.
    disable_dry_run
        Whether launches are tried first.
    enable_zonal_shift
        Whether zones that AWS shifts away from are avoided.
    ami_refresh_interval
        How often images are looked up.
    subnet_refresh_interval
        How often subnets are looked up.
    aws_feature_gates
        Features of the AWS provider.
    karpenter_service
        The name of the metrics service.
    enable_profiling
        Go's profiles.
    disable_controller_warmup
        Whether one that waits for the lease keeps its lists.
    disable_cluster_state_observability
        Whether the metrics of the cluster's state are left out.
    memory_limit
        The memory that Go's collector aims at.
    cpu_requests
        Millicores of the controller.
    log_output_paths
        Where lines go; standard output.
    log_error_output_paths
        Where errors go; standard error.
    ignore_dra_requests
        Whether pods that ask for devices by claims are passed over.
    scheduler_config
        Default spread constraints of the cluster's scheduler.
    """

    cluster_name: str = ""
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    isolated_vpc: Bool = "false"
    eks_control_plane: Bool = "false"
    vm_memory_overhead_percent: float = 0.075
    interruption_queue: str = ""
    reserved_enis: int = 0
    disable_dry_run: Bool = "false"
    enable_zonal_shift: Bool = "false"
    ami_refresh_interval: str = "1m"
    subnet_refresh_interval: str = "1m"
    aws_feature_gates: str = "NodeClassCEL=false"
    karpenter_service: str = ""
    enable_profiling: Bool = "false"
    disable_controller_warmup: Bool = "true"
    disable_cluster_state_observability: Bool = "false"
    memory_limit: int = -1
    cpu_requests: int = 1000
    log_output_paths: str = "stdout"
    log_error_output_paths: str = "stderr"
    ignore_dra_requests: Bool = "true"
    scheduler_config: str = ""

    def given(self) -> tuple[str, ...]:
        """Names of those that are not as by default. Raises InputError for one that is not valid."""
        for flag, value in (
            ("--vm-memory-overhead-percent", self.vm_memory_overhead_percent),
            ("--reserved-enis", self.reserved_enis),
        ):
            if value < 0:
                raise InputError("cannot be negative", source=flag)
        for flag, text in (
            ("--ami-refresh-interval", self.ami_refresh_interval),
            ("--subnet-refresh-interval", self.subnet_refresh_interval),
        ):
            try:
                interval = parse_duration(text)
            except ValueError as error:
                raise InputError(str(error), source=flag) from None
            if interval < MINUTE:
                raise InputError(f"{text} is too short", source=flag, remedy="give 1m or more")
        changed = (item.name for item in fields(self) if getattr(self, item.name) != item.default)
        return tuple(f"--{name.replace('_', '-')}" for name in changed)
