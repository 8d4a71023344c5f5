"""Karpenter's settings that change nothing here: taken, and named."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.cli.run_environment import Bool, from_environment


@Parameter(name="*")
@from_environment
@dataclass(frozen=True, kw_only=True)
class Inert:
    """Without effect. `dovetail run` says at its start which of them were given.

    Parameters
    ----------
    eks_control_plane
        Whether EKS runs the control plane.
    enable_profiling
        Go's profiles.
    memory_limit
        The memory that Go's collector aims at.
    cpu_requests
        Millicores of the controller.
    log_output_paths
        Where lines go; standard output.
    log_error_output_paths
        Where errors go; standard error.
    webhook_metrics_port
        Where the webhook's own figures are served; they are among the others.
    ignore_dra_requests
        Whether pods that ask for devices by claims are passed over.
    """

    eks_control_plane: Bool = "false"
    enable_profiling: Bool = "false"
    memory_limit: int = -1
    cpu_requests: int = 1000
    log_output_paths: str = "stdout"
    log_error_output_paths: str = "stderr"
    webhook_metrics_port: int = 8001
    ignore_dra_requests: Bool = "true"

    def given(self) -> tuple[str, ...]:
        """Names of those that are not as by default. Raises InputError for one that Karpenter cannot mean."""
        for flag, value, least, remedy in (
            ("--memory-limit", self.memory_limit, -1, "give bytes, or -1 for no limit"),
            ("--cpu-requests", self.cpu_requests, 0, "give millicores, 0 or more"),
        ):
            if value < least:
                raise InputError(f"{value} is not valid", source=flag, remedy=remedy)
        changed = (item.name for item in fields(self) if getattr(self, item.name) != item.default)
        return tuple(f"--{name.replace('_', '-')}" for name in changed)
