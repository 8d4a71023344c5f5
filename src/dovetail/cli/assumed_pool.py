"""A NodePool for manifests that hold none: those of clusters that another autoscaler or nobody scales."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.model import labels
from dovetail.reading import Located, Reading, read_objects

NAME = "assumed"
# As in Karpenter's first example: linux on amd64, on demand, c, m and r of a generation after the second.
_CATEGORIES = frozenset("cmr")
_GENERATION = "2"
# What nodes of other clouds begin their provider ids with. Their types and zones are none of EC2's.
_CLOUDS = {"gce": "Google Cloud", "azure": "Azure", "oci": "Oracle Cloud", "digitalocean": "DigitalOcean"}


def with_pool(reading: Reading) -> tuple[Reading, str]:
    """The manifests with a pool that buys what their nodes are like, and what is to be said of it.

    Those that hold a NodePool stay as they are, and there is nothing to say.
    """
    if any(isinstance(item.object, NodePool) for item in reading.manifests):
        return reading, ""
    there = [item.object for item in reading.manifests if isinstance(item.object, Node)]
    elsewhere = sorted({cloud for node in there if (cloud := _cloud_of(node))})
    nodes = [node.metadata.labels for node in there if not _cloud_of(node)]

    def of_nodes(key: str, otherwise: frozenset[str] = frozenset()) -> list[str]:
        return sorted({node[key] for node in nodes if node.get(key)} or otherwise)

    types = of_nodes(labels.INSTANCE_TYPE)
    own = {found[0] for name in types if (found := re.match(r"[a-z]+", name))}
    spot = any(labels.capacity_type(node) == labels.SPOT for node in nodes)
    capacity = [labels.ON_DEMAND, labels.SPOT] if spot else [labels.ON_DEMAND]
    wanted = {
        labels.ARCH: of_nodes(labels.ARCH, frozenset({"amd64"})),
        labels.OS: ["linux"],
        labels.CAPACITY_TYPE: capacity,
        f"{labels.AWS}instance-category": sorted(_CATEGORIES | own),
        labels.ZONE: of_nodes(labels.ZONE),
    }
    requirements: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": values} for key, values in wanted.items() if values
    ]
    requirements.append(
        {"key": f"{labels.AWS}instance-generation", "operator": "Gt", "values": [_GENERATION]}
    )
    made = read_objects(Located(document) for document in _documents(requirements))
    text = (
        f"no NodePool is given, so one is assumed that buys {' and '.join(capacity)}, "
        f"{', '.join(wanted[labels.ARCH])}, categories {', '.join(sorted(_CATEGORIES | own))}"
        f"{', in the zones of the nodes' if nodes else ''}; add one with -f for what your own rules cost"
    )
    if elsewhere:
        text += (
            f". Nodes are on {' and '.join(elsewhere)}, which Dovetail does not buy on: what EC2 nodes for"
            " their pods cost is said instead; a file of your own types goes with --instance-types"
        )
    return replace(reading, manifests=(*reading.manifests, *made.manifests)), text


def _cloud_of(node: Node) -> str:
    """The name of the cloud that the node is on; empty if that is EC2 or not known."""
    return _CLOUDS.get(node.spec.provider_id.partition("://")[0], "")


def _documents(requirements: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    group, version = EC2NodeClass.API_VERSION.split("/")
    terms = [{"tags": {"karpenter.sh/discovery": NAME}}]
    node_class = {
        "apiVersion": f"{group}/{version}",
        "kind": EC2NodeClass.KIND,
        "metadata": {"name": NAME},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": NAME,
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }
    reference = {"group": group, "kind": EC2NodeClass.KIND, "name": NAME}
    pool = {
        "apiVersion": NodePool.API_VERSION,
        "kind": NodePool.KIND,
        "metadata": {"name": NAME},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}},
    }
    return node_class, pool
