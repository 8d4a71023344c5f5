"""Karpenter's settings of the AWS provider."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cyclopts import Parameter

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cli.run_environment import Bool, from_environment, read_gates
from dovetail.units.duration import parse_duration

if TYPE_CHECKING:
    from dovetail.runtime.process.options import AwsOptions

_GATE = "NodeClassCEL"
_REBOOTS = "RebootForRepair"
_GPU_DEVICES = "DRANVIDIAGPU"
_EFA_DEVICES = "DRAEFA"
_EFFECTIVE = (_GATE, _REBOOTS, _GPU_DEVICES, _EFA_DEVICES)


@Parameter(name="*")
@from_environment
@dataclass(frozen=True, kw_only=True)
class AwsFlags:
    """What `--provider aws` heeds; without effect with another provider.

    Parameters
    ----------
    cluster_name
        The EKS cluster's name. Needed with --provider aws.
    cluster_endpoint
        The address that nodes join; EKS is asked by default.
    cluster_ca_bundle
        The certificate authority that nodes trust, in base64; EKS is asked by default.
    isolated_vpc
        true: the Pricing API is not reached, so that prices on demand are those of the packaged catalogue.
    vm_memory_overhead_percent
        The share of memory that virtual machines lack; 0.075 is 7.5 %.
    interruption_queue
        The SQS queue of interruptions; without one only status checks show broken machines.
    enable_zonal_shift
        true: zones that AWS shifts the cluster away from are avoided.
    reserved_enis
        Network interfaces that pods do not get.
    disable_dry_run
        true: classes are not tried by dry runs of launches.
    ami_refresh_interval
        How often images are looked up.
    subnet_refresh_interval
        How often subnets are looked up.
    security_group_refresh_interval
        How often security groups are looked up.
    aws_feature_gates
        NodeClassCEL=true lets kubelet settings be expressions, RebootForRepair=true lets node repair reboot
        nodes that a reboot may mend, DRANVIDIAGPU=true and DRAEFA=true give instance types the GPUs and EFAs
        that pods may claim (with --ignore-dra-requests=false).
    """

    cluster_name: str = ""
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    isolated_vpc: Bool = "false"
    vm_memory_overhead_percent: float = 0.075
    interruption_queue: str = ""
    enable_zonal_shift: Bool = "false"
    reserved_enis: int = 0
    disable_dry_run: Bool = "false"
    ami_refresh_interval: str = "1m"
    subnet_refresh_interval: str = "1m"
    security_group_refresh_interval: str = "1m"
    aws_feature_gates: str = f"{_GATE}=false,{_REBOOTS}=false"

    def given(self, *, observe: bool = False) -> tuple[str, ...]:
        """Names of those that are not as by default, and mean nothing to who may only `observe` AWS.

        Raises InputError for one that is not valid.
        """
        self._checked()
        changed = [item.name for item in fields(self) if getattr(self, item.name) != item.default]
        opened = [name for name, on in self._gates().items() if on and not (observe and name == _REBOOTS)]
        if not opened and "aws_feature_gates" in changed:
            changed.remove("aws_feature_gates")  # charts write out gates that stay shut
        return tuple(f"--{name.replace('_', '-')}" for name in changed)

    def options(self) -> AwsOptions:
        """The values. Raises InputError."""
        if not self.cluster_name:
            raise InputError(
                "missing field, cluster-name",
                source="--cluster-name",
                remedy="give the EKS cluster's name, or set CLUSTER_NAME",
            )
        endpoint = urlsplit(self.cluster_endpoint)
        if self.cluster_endpoint and not (endpoint.scheme and endpoint.netloc):
            raise InputError(
                f"{self.cluster_endpoint!r}: the cluster endpoint URL is not valid",
                source="--cluster-endpoint",
                remedy="give it as https://HOST, or leave it out to ask EKS",
            )
        return self._checked()

    def idle_gates(self) -> tuple[str, ...]:
        """Gates that were opened and change nothing here. Raises InputError."""
        opened = [name for name, on in self._gates().items() if on]
        return tuple(f"--aws-feature-gates {name}=true" for name in opened if name not in _EFFECTIVE)

    @property
    def reboots(self) -> bool:
        """Node repair reboots what a reboot may mend. Raises InputError."""
        return self._gates().get(_REBOOTS, False)

    def _gates(self) -> dict[str, bool]:
        return read_gates(self.aws_feature_gates, "--aws-feature-gates")

    def _checked(self) -> AwsOptions:
        from dovetail.runtime.process.options import AwsOptions

        for flag, value in (
            ("--vm-memory-overhead-percent", self.vm_memory_overhead_percent),
            ("--reserved-enis", self.reserved_enis),
        ):
            if not 0 <= value < inf:
                remedy = "give 0 or more, or leave it out"
                raise InputError(f"{value} is not valid", source=flag, remedy=remedy)
        return AwsOptions(
            cluster=self.cluster_name,
            endpoint=self.cluster_endpoint,
            ca_bundle=self.cluster_ca_bundle,
            isolated_vpc=self.isolated_vpc == "true",
            vm_memory_overhead_percent=self.vm_memory_overhead_percent,
            interruption_queue=self.interruption_queue,
            zonal_shift=self.enable_zonal_shift == "true",
            reboots=self.reboots,
            reserved_enis=self.reserved_enis,
            dry_run=self.disable_dry_run == "false",
            image_refresh=_interval("--ami-refresh-interval", self.ami_refresh_interval),
            subnet_refresh=_interval("--subnet-refresh-interval", self.subnet_refresh_interval),
            group_refresh=_interval(
                "--security-group-refresh-interval", self.security_group_refresh_interval
            ),
            expressions=self._gates().get(_GATE, False),
            gpu_devices=self._gates().get(_GPU_DEVICES, False),
            efa_devices=self._gates().get(_EFA_DEVICES, False),
        )


def _interval(flag: str, text: str) -> int:
    try:
        interval = parse_duration(text)
    except ValueError as error:
        raise InputError(str(error), source=flag) from None
    if interval < MINUTE:
        raise InputError(f"{text} is too short", source=flag, remedy="give 1m or more")
    return interval
