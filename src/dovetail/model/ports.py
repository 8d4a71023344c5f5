"""Host ports: what a pod takes of a node's own ports, and when two pods clash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.api.core import Pod

_ANY = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """One port of a node. An empty address means every address."""

    port: int
    protocol: str = "TCP"
    address: str = ""

    def conflicts(self, other: HostPort) -> bool:
        """True iff both cannot be open on one node."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (not self.address or not other.address or self.address == other.address)
        )

    def __str__(self) -> str:
        return f"IP={self.address or '0.0.0.0'}, Port={self.port}, Proto={self.protocol}"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports that a pod's running containers (sidecars included) open on its node, sorted."""
    running = [*pod.spec.containers]
    running += [item for item in pod.spec.init_containers if item.restart_policy == "Always"]
    found = {
        HostPort(port.host_port, port.protocol or "TCP", "" if port.host_ip in _ANY else port.host_ip)
        for container in running
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(found))


def port_error(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> str:
    """'' iff nothing clashes, else the first clash in order. Linear in both while few share a number."""
    there: dict[tuple[int, str], list[HostPort]] = {}
    for other in taken:
        there.setdefault((other.port, other.protocol), []).append(other)
    for mine in wanted:
        for other in sorted(there.get((mine.port, mine.protocol), ())):
            if mine.conflicts(other):
                return (
                    "checking host port usage, pod hostport conflicts with existing hostport configuration "
                    f"(pod-hostport={{{mine}}}, existing-hostport={{{other}}})"
                )
    return ""
