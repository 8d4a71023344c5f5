"""NodePools for manifests that hold none: those of clusters that another autoscaler or nobody scales."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Node, NodeSpec, Pod, Taint
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Meta
from dovetail.base.errors import InputError
from dovetail.base.yaml_writing import all_written
from dovetail.cli.plan_copies import template_of
from dovetail.model import labels
from dovetail.model.podtemplate import Workload
from dovetail.reading import Located, Reading, read_objects
from dovetail.reading.nodegroups import NodeGroup
from dovetail.simulate.replay.nodes import own_labels

Document = dict[str, Any]
NAME = "assumed"
# As in Karpenter's first example: linux on amd64, on demand, c, m and r of a generation after the second.
_CATEGORIES = frozenset("cmr")
_GENERATION = "2"
# What nodes of other clouds begin their provider ids with. Their types and zones are none of EC2's.
_CLOUDS = {"gce": "Google Cloud", "azure": "Azure", "oci": "Oracle Cloud", "digitalocean": "DigitalOcean"}
_GROUPS = (
    *("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup"),
    *("cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"),
)
# Of those with devices, where pods ask for them.
_DEVICES = {
    "nvidia.com/gpu": frozenset({"g", "p"}),
    "aws.amazon.com/neuron": frozenset({"inf", "trn"}),
    "aws.amazon.com/neuroncore": frozenset({"inf", "trn"}),
    "habana.ai/gaudi": frozenset({"dl"}),
}
_CLUSTER = "alpha.eksctl.io/cluster-name"
_UNKNOWN_CLUSTER = "CLUSTER_NAME"
# Of labels that are nobody's own: what runs on a node finds them out, or the tool that made it.
_FOUND_OUT = (
    *("eksctl.io", "nvidia.com", "amd.com", "amazonaws.com", "csi.aws.com"),
    *("google.com", "gke.io", "azure.com", "digitalocean.com", "oraclecloud.com"),
)
# Taints of a moment: of a node that comes up, is in trouble or is to go.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeleted", "DeletionCandidate")
_MOST_NAMED = 3  # pools in a note
_HEAD = """\
# What dovetail plan assumes for these nodes. Before it is applied:
# - spec.role, and the tags of subnets and security groups, are those of your cluster{cluster}
# - scale the groups that it stands for down as their pods move, and Cluster Autoscaler to 0 before that
"""


@dataclass(frozen=True)
class _Alike:
    """Nodes to which the same pods may go: labels of their own and taints are what all have in common."""

    name: str  # of their group; "" where nothing says it
    nodes: tuple[Node, ...]
    own: dict[str, str]
    taints: tuple[Taint, ...]
    asked: frozenset[str] = frozenset()  # categories that pods need and no node is of

    @property
    def rules(self) -> tuple[Any, ...]:
        return tuple(sorted(self.own.items())), self.taints

    @property
    def on_ec2(self) -> list[Node]:
        """Those that are, or may be."""
        return [node for node in self.nodes if not _cloud_of(node)]

    def of_nodes(self, key: str, otherwise: frozenset[str] = frozenset()) -> list[str]:
        """What those on EC2 have of a label."""
        found = {value for node in self.on_ec2 if (value := node.metadata.labels.get(key))}
        return sorted(found or otherwise)

    @property
    def categories(self) -> list[str]:
        """Of instance types: their own ones, and the usual ones unless they are of others alone."""
        own = {
            found[0] for name in self.of_nodes(labels.INSTANCE_TYPE) if (found := re.match("[a-z]+", name))
        }
        special = own and not own & _CATEGORIES and bool(self.own or self.taints)
        return sorted(own if special else own | _CATEGORIES | self.asked)

    @property
    def capacity(self) -> list[str]:
        spot = any(labels.capacity_type(node.metadata.labels) == labels.SPOT for node in self.on_ec2)
        return [labels.ON_DEMAND, labels.SPOT] if spot else [labels.ON_DEMAND]

    @property
    def architectures(self) -> list[str]:
        return self.of_nodes(labels.ARCH, frozenset({"amd64"}))


def with_pool(reading: Reading) -> tuple[Reading, str]:
    """The manifests with pools that buy what their nodes are like, and what is to be said of it.

    Those that hold a NodePool stay as they are, and there is nothing to say.
    """
    if _pools(reading):
        return reading, ""
    found = _found(reading)
    made = read_objects(Located(document) for document in _documents(found, _cluster(reading)))
    return replace(reading, manifests=(*reading.manifests, *made.manifests)), _said(found)


def written_pools(reading: Reading) -> str:
    """Those pools and their class as manifests. Raises InputError where there are others."""
    if _pools(reading):
        raise InputError(
            "NodePools are given, so that none is assumed",
            source="--write-pools",
            remedy="leave it out, or give nodes and pods alone",
        )
    cluster = _cluster(reading)
    head = _HEAD.format(cluster=" (CLUSTER_NAME stands for it)" if cluster == _UNKNOWN_CLUSTER else "")
    return head + all_written(_documents(_found(reading), cluster))


def _cloud_of(node: Node) -> str:
    """The name of the cloud that the node is on; empty if that is EC2 or not known."""
    return _CLOUDS.get(node.spec.provider_id.partition("://")[0], "")


def _pools(reading: Reading) -> bool:
    return any(isinstance(item.object, NodePool) for item in reading.manifests)


def _nodes(reading: Reading) -> tuple[Node, ...]:
    there = [item.object for item in reading.manifests if isinstance(item.object, Node)]
    return (*there, *(node for group in reading.node_groups for node in _of_group(group)))


def _of_group(group: NodeGroup) -> Iterator[Node]:
    """Nodes as its are: one of each type, and of each zone."""
    stamped = {**dict(group.labels), _GROUPS[0]: group.name, labels.ARCH: "arm64" if group.arm else "amd64"}
    stamped[labels.CAPACITY_TYPE] = labels.SPOT if group.spot else labels.ON_DEMAND
    if group.cluster:
        stamped[_CLUSTER] = group.cluster
    taints = tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in group.taints)
    for kind, zone in zip_longest(group.types or ("",), group.zones):
        own = {labels.INSTANCE_TYPE: kind or group.types[0] if group.types else "", labels.ZONE: zone or ""}
        meta = Meta(labels={**stamped, **{key: value for key, value in own.items() if value}})
        yield Node(metadata=meta, spec=NodeSpec(taints=taints))


def _cluster(reading: Reading) -> str:
    names = (one.metadata.labels.get(_CLUSTER) for one in _nodes(reading))
    return next(filter(None, names), _UNKNOWN_CLUSTER)


def _alike(nodes: Sequence[Node]) -> list[_Alike]:
    """Nodes by what pods they take; one empty group where there are none."""
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        name = next((name for key in _GROUPS if (name := node.metadata.labels.get(key))), "")
        groups.setdefault(name, []).append(node)
    merged: dict[tuple[Any, ...], _Alike] = {}
    for name, members in sorted(groups.items()):
        one = _Alike(name, tuple(members), _common_labels(members), _common_taints(members))
        known = merged.get(one.rules)
        merged[one.rules] = replace(known, nodes=(*known.nodes, *members)) if known else one
    return list(merged.values()) or [_Alike("", (), {}, ())]


def _found(reading: Reading) -> list[_Alike]:
    """The kinds of nodes; that which any pod may go to also has devices that pods ask for and no node has."""
    found = _alike(_nodes(reading))
    devices: set[str] = set()
    for item in reading.manifests:
        made = item.object
        if isinstance(made, Pod | Workload):
            spec = made.spec if isinstance(made, Pod) else template_of(made).spec
            for container in (*spec.containers, *spec.init_containers):
                asked = {*container.resources.requests, *container.resources.limits}
                devices.update(asked & _DEVICES.keys())
            if spec.resource_claims:  # what is known of EC2's devices by claims is of these alone
                devices.add("nvidia.com/gpu")
    have = {category for one in found for category in one.categories}
    wanted = frozenset[str]().union(*(_DEVICES[name] for name in devices if not _DEVICES[name] & have))
    index = next((index for index, one in enumerate(found) if not one.own and not one.taints), None)
    if index is None:
        return found
    return [*found[:index], replace(found[index], asked=wanted), *found[index + 1 :]]


def _common_labels(nodes: Iterable[Node]) -> dict[str, str]:
    each = [own_labels(node.metadata.labels).items() for node in nodes]
    common = set(each[0]).intersection(*each[1:])
    return {key: value for key, value in sorted(common) if not key.rpartition("/")[0].endswith(_FOUND_OUT)}


def _common_taints(nodes: Iterable[Node]) -> tuple[Taint, ...]:
    each = [
        {
            (taint.key, taint.value, taint.effect)
            for taint in node.spec.taints
            if not taint.key.startswith(_PASSING) and not taint.key.endswith(("not-ready", "uninitialized"))
        }
        for node in nodes
    ]
    common = sorted(each[0].intersection(*each[1:]))
    return tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in common)


def _names(found: Sequence[_Alike]) -> list[str]:
    """One pool for all is called as ever, several by the groups that they stand for."""
    if len(found) == 1:
        return [NAME]
    words = (re.sub("[^a-z0-9]+", "-", one.name.lower()).strip("-")[:40] for one in found)
    return [f"{NAME}-{word or index}" for index, word in enumerate(words)]


def _said(found: Sequence[_Alike]) -> str:
    end = "give NodePools of your own for what your own rules cost"
    elsewhere = sorted({cloud for one in found for node in one.nodes if (cloud := _cloud_of(node))})
    if elsewhere:
        end += (
            f". Nodes are on {' and '.join(elsewhere)}, which Dovetail does not buy on: what EC2 nodes for"
            " their pods cost is said instead; a file of your own types goes with --instance-types"
        )
    if len(found) == 1:
        (one,) = found
        return (
            f"no NodePool is given, so one is assumed that buys {' and '.join(one.capacity)}, "
            f"{', '.join(one.architectures)}, categories {', '.join(one.categories)}"
            f"{', in the zones of the nodes' if one.of_nodes(labels.ZONE) else ''}; {end}"
        )
    names = _names(found)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"no NodePool is given, so {len(found)} are assumed ({', '.join(names[:_MOST_NAMED])}{more}), one "
        f"for each kind of nodes with labels or taints of their own; {end}"
    )


def _documents(found: Sequence[_Alike], cluster: str) -> list[Document]:
    group, version = EC2NodeClass.API_VERSION.split("/")
    subnets, groups = ([{"tags": {"karpenter.sh/discovery": cluster}}] for _ in range(2))
    node_class = {
        "apiVersion": f"{group}/{version}",
        "kind": EC2NodeClass.KIND,
        "metadata": {"name": NAME},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": f"KarpenterNodeRole-{cluster}",
            "subnetSelectorTerms": subnets,
            "securityGroupSelectorTerms": groups,
        },
    }
    reference = {"group": group, "kind": EC2NodeClass.KIND, "name": NAME}
    named = zip(found, _names(found), strict=True)
    return [node_class, *(_pool(one, name, reference) for one, name in named)]


def _pool(one: _Alike, name: str, reference: Document) -> Document:
    wanted = {
        labels.ARCH: one.architectures,
        labels.OS: ["linux"],
        labels.CAPACITY_TYPE: one.capacity,
        f"{labels.AWS}instance-category": one.categories,
        labels.ZONE: one.of_nodes(labels.ZONE),
    }
    requirements: list[Document] = [
        {"key": key, "operator": "In", "values": values} for key, values in wanted.items() if values
    ]
    requirements.append(
        {"key": f"{labels.AWS}instance-generation", "operator": "Gt", "values": [_GENERATION]}
    )
    spec: Document = {"nodeClassRef": reference, "requirements": requirements}
    if one.taints:
        spec["taints"] = [encode(taint) for taint in one.taints]
    template: Document = {"metadata": {"labels": one.own}} if one.own else {}
    return {
        "apiVersion": NodePool.API_VERSION,
        "kind": NodePool.KIND,
        "metadata": {"name": name},
        "spec": {"template": {**template, "spec": spec}},
    }
