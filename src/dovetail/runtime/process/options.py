"""What a process on a real cluster is given besides the settings of the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dovetail.base.clock import MINUTE
from dovetail.base.defaults import LEASE
from dovetail.cluster.state import Callback
from dovetail.cost.api import Past
from dovetail.cost.commitments import Terms
from dovetail.kube.http.rate import BURST, QPS
from dovetail.runtime.settings import Settings
from dovetail.runtime.usage import METRICS_SERVER


@dataclass(frozen=True, slots=True)
class Page:
    """Routes of aiohttp, and what they want to get: changes of objects (see State), records of the log."""

    routes: Sequence[Any]
    changed: Callback
    logged: Callable[[str, Mapping[str, Any]], None]


# (the record, now) -> a page; only a process that serves one loads it.
Pages = Callable[[Past, Callable[[], int]], Page]


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """Settings of the AWS provider; "" is what EKS is asked for. Intervals are nanoseconds."""

    cluster: str
    endpoint: str = ""
    ca_bundle: str = ""
    isolated_vpc: bool = False
    vm_memory_overhead_percent: float = 0.075
    interruption_queue: str = ""
    zonal_shift: bool = False
    reboots: bool = False
    reserved_enis: int = 0
    dry_run: bool = True
    image_refresh: int = MINUTE
    subnet_refresh: int = MINUTE
    group_refresh: int = MINUTE
    gpu_devices: bool = False  # instance types have the GPUs that pods may claim
    efa_devices: bool = False  # and the EFAs
    expressions: bool = False


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Of the conversion webhook: its port, and the Service by which API servers ask it."""

    port: int = 8443
    service: str = "karpenter"

    @property
    def secret(self) -> str:
        """The name of the Secret with its certificate."""
        return f"{self.service}-cert"


@dataclass(frozen=True, slots=True)
class Options:
    """See docs/reference/run.md for each."""

    settings: Settings
    provider: Literal["kwok", "aws"] = "kwok"
    instance_types: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""
    qps: float = QPS
    burst: int = BURST
    metrics_port: int = 8080
    probe_port: int = 8081
    elect: bool = True
    lease: str = LEASE
    lease_namespace: str = ""
    log_level: str = "info"
    warm_up: bool = False  # keep the lists while another one leads
    observe: bool = False  # look and report, write nothing
    tell_every: int = 10 * MINUTE  # when observing, nanoseconds
    cost_store: Path | None = None
    cost_retention: int = 90 * 24 * 60 * MINUTE
    cost_port: int = 0
    cost_terms: Terms | None = None  # what is paid is under them
    cost_usage: str = METRICS_SERVER  # what is asked what pods use: that, the URL of a Prometheus, or ""
    pages: Pages | None = None  # what the port has besides OpenCost's API
    webhook: WebhookOptions | None = None  # None: nothing is converted
    aws: AwsOptions | None = None  # iff the provider is AWS's, and acts
    reboots: bool = False  # of AWS's nodes, where the controller only looks
    without_effect: tuple[str, ...] = ()  # flags that were given and change nothing
