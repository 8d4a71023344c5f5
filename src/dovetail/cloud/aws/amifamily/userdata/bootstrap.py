"""What a machine must know to become a node of the cluster, whatever its operating system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from dovetail.api.core import Taint
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import kubelet_expressions as expressions
from dovetail.cloud.catalog.capacity import pods
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.model import labels
from dovetail.units.duration import format_duration, parse_duration

# The API server lets no kubelet set labels of these domains; they are added at registration.
_NOT_THE_KUBELETS = ("kubernetes.io", "k8s.io", "node-restriction.kubernetes.io")
_VERSION = re.compile(r"(?:^|-)v?(\d+)\.(\d+)\.(\d+)(?:-|$)")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What every machine gets about the cluster. None is what is unknown."""

    name: str
    endpoint: str
    ca_bundle: str | None  # base64
    cidr: str | None = None  # of services
    dns_ip: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that a claim gets."""

    record: TypeRecord
    capacity_type: str
    image_name: str = ""  # "" when it is unknown
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Everything that the user data says."""

    family: str
    cluster: Cluster
    kubelet: Mapping[str, Any]  # by the kubelet's own names; maxPods always, clusterDNS where it is known
    labels: Mapping[str, str]  # those that a kubelet may set, by key
    taints: tuple[Taint, ...]
    custom: str = ""  # the class's own user data
    raid0: bool = False
    image_version: tuple[int, int, int] | None = None  # None stands for the latest

    @property
    def dns_ips(self) -> tuple[str, ...]:
        return tuple(self.kubelet.get("clusterDNS") or ())

    @property
    def grace_periods(self) -> dict[str, str]:
        """evictionSoftGracePeriod as Go writes durations, which is what flags and TOML are given.

        Raises InputError.
        """
        written = self.kubelet.get("evictionSoftGracePeriod") or {}
        return {signal: _go_duration(text, signal) for signal, text in written.items()}

    @property
    def ipv6(self) -> bool:
        return any(":" in address for address in self.dns_ips[:1])


@dataclass(frozen=True, slots=True)
class Kubelets:
    """What the kubelets of a class are told. Only that depends on the type of the machine."""

    settings: NodeSettings
    written: Mapping[str, Any]  # the class's own words
    dns_ip: str | None

    @staticmethod
    def of(
        node_class: EC2NodeClass, cluster: Cluster, *, reserved_enis: int = 0, with_expressions: bool = True
    ) -> Kubelets:
        """Those of the class's nodes; without the feature, expressions of kubelet settings are left out.

        Raises InputError for kubelet settings that cannot be read.
        """
        spec = node_class.spec
        if not with_expressions:
            plain = expressions.without_expressions(spec.kubelet)
            spec = msgspec.structs.replace(spec, kubelet=plain)
            node_class = msgspec.structs.replace(node_class, spec=spec)
        settings = NodeSettings.of(node_class, reserved_enis=reserved_enis)
        return Kubelets(settings, spec.kubelet, cluster.dns_ip)

    def on(self, record: TypeRecord) -> dict[str, Any]:
        """By the kubelet's own names, on a machine of that type. Raises InputError as `of` does."""
        count = partial(pods, record)
        most = count(self.settings.on(record, count))
        kubelet = {"maxPods": most, **(self.settings.kubelet_on(record, count) or self.written)}
        if not kubelet.get("clusterDNS"):
            kubelet.pop("clusterDNS", None)
            if self.dns_ip:
                kubelet["clusterDNS"] = [self.dns_ip]
        return kubelet


def bootstrap(
    node_class: EC2NodeClass,
    machine: Machine,
    cluster: Cluster,
    *,
    reserved_enis: int = 0,
    with_expressions: bool = True,
) -> Bootstrap:
    """What the machine gets. Raises InputError for kubelet settings that cannot be read."""
    kubelets = Kubelets.of(
        node_class, cluster, reserved_enis=reserved_enis, with_expressions=with_expressions
    )
    family = kubelets.settings.family
    return Bootstrap(
        family=family,
        cluster=cluster,
        kubelet=kubelets.on(machine.record),
        labels=_labels(machine, family),
        taints=_taints(machine),
        custom=node_class.spec.user_data,
        raid0=kubelets.settings.raid0,
        image_version=_image_version(node_class, machine.image_name),
    )


def _go_duration(text: str, signal: str) -> str:
    try:
        return format_duration(parse_duration(text))
    except ValueError as error:
        raise InputError(str(error), path=f"spec.kubelet.evictionSoftGracePeriod.{signal}") from None


def _labels(machine: Machine, family: str) -> dict[str, str]:
    chosen = {**machine.labels, labels.CAPACITY_TYPE: machine.capacity_type}
    if family != "Custom":
        # The kubelet registers with all taints, so that nothing may add them later a second time.
        chosen[labels.DO_NOT_SYNC_TAINTS] = "true"
    return {key: chosen[key] for key in sorted(chosen) if not _kept_from_kubelets(key)}


def _kept_from_kubelets(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == name or domain.endswith(f".{name}") for name in _NOT_THE_KUBELETS)


def _taints(machine: Machine) -> tuple[Taint, ...]:
    given = (*machine.taints, *machine.startup_taints)
    if any((taint.key, taint.effect) == (labels.UNREGISTERED_TAINT, "NoExecute") for taint in given):
        return given
    return (*given, Taint(key=labels.UNREGISTERED_TAINT, effect="NoExecute"))


def _image_version(node_class: EC2NodeClass, image_name: str) -> tuple[int, int, int] | None:
    """The version that the alias pins, or else that of the image; (0, 0, 0) for one that cannot be read."""
    alias = next((term.alias for term in node_class.spec.ami_selector_terms if term.alias), "")
    pinned = alias.partition("@")[2] if alias else image_name
    if pinned in ("", "latest"):
        return None
    match = _VERSION.search(pinned)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
