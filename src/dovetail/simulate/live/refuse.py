"""What cannot be played on a real cluster, told before anything is done to it."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.errors import InputError
from dovetail.kube.http.client import HttpClient
from dovetail.simulate.scenario import Scenario

_KINDS: tuple[type[Object], ...] = (Node, NodePool, NodeClaim)


def check_scenario(scenario: Scenario) -> None:
    """Raises InputError for a section that only virtual time can play."""
    file = scenario.file
    for name, given in (
        ("traffic", file.traffic),
        ("trace", file.trace),
        ("shortages", file.shortages),
        ("interruptions", file.interruptions),
        ("startupTaints", file.startup_taints),
    ):
        if given:
            raise InputError(
                "a real cluster cannot play this section",
                source=scenario.source,
                path=name,
                remedy="leave --kubeconfig out, or take a scenario of manifests and changes alone",
            )


async def check_cluster(client: HttpClient) -> None:
    """Raises InputError for a cluster that somebody uses: its nodes and pools would be played with."""
    for kind in _KINDS:
        found = (await client.list(kind)).items
        if found:
            raise InputError(
                f"the cluster has {kind.PLURAL} already, such as {found[0].metadata.name}",
                source=client.transport.access.server,
                remedy="give an empty cluster, such as the one that `make control-plane` starts",
            )
