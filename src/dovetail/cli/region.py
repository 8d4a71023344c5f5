"""Which region a question is about: as given, or as nodes, pools, the environment or the kubeconfig say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.api.core import Node
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.errors import InputError
from dovetail.cloud import catalog
from dovetail.lint.shelf import region_of_zone
from dovetail.model import labels
from dovetail.reading.nodegroups import NodeGroup

_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_EKS = re.compile(r"https://[^/]*\.([a-z0-9-]+)\.eks\.amazonaws\.com(?:\.cn)?(?:[:/].*)?")


@dataclass(frozen=True, slots=True)
class Region:
    """Its name, and what says so."""

    name: str
    origin: str


def resolve(
    given: str | None,
    objects: Iterable[Object],
    environment: Mapping[str, str],
    server: str = "",
    groups: Iterable[NodeGroup] = (),
) -> Region | None:
    """The first that says anything: the flag, labels of nodes, the zones of NodePools, node groups, the
    environment, the address of an EKS server.

    None where nothing does. Raises InputError for nodes of several regions.
    """
    if given:
        return Region(given, "--region")
    known = list(objects)
    if found := _of_nodes(item for item in known if isinstance(item, Node)):
        return found
    if found := _of_pools(item for item in known if isinstance(item, NodePool)):
        return found
    of_groups = {one.region or _of_node({labels.ZONE: zone}) for one in groups for zone in one.zones or ("",)}
    if len(of_groups - {""}) == 1:
        return Region((of_groups - {""}).pop(), "the node groups")
    for name in _VARIABLES:
        if environment.get(name):
            return Region(environment[name], name)
    match = _EKS.fullmatch(server)
    return Region(match[1], "the address of the API server") if match else None


def refuse_unknown_region(region: str, origin: str = "--region") -> None:
    """Raises InputError for one that the catalogue does not have; `origin` is what says it."""
    try:
        catalog.zones(region)
    except InputError as error:
        raise InputError(error.message, source=origin, remedy=error.remedy) from None


def _of_nodes(nodes: Iterable[Node]) -> Region | None:
    known = frozenset(catalog.regions())
    seen = Counter(_of_node(node.metadata.labels) for node in nodes)
    found = {name: count for name, count in seen.items() if name in known}
    if len(found) > 1:
        shown = ", ".join(f"{name} ({count} nodes)" for name, count in sorted(found.items()))
        raise InputError(f"there are nodes of several regions: {shown}", remedy="say which with --region")
    return next((Region(name, "labels of the nodes") for name in found), None)


def _of_node(stamped: Mapping[str, str]) -> str:
    """Clusters of old, and some tools, have the zone alone, or both by the names that they had once."""
    modern = {labels.ALIASES[key]: value for key, value in stamped.items() if key in labels.ALIASES} | {
        **stamped
    }
    return modern.get(labels.REGION) or region_of_zone(modern.get(labels.ZONE, ""))


def _of_pools(pools: Iterable[NodePool]) -> Region | None:
    """That in which all zones lie that any of them names."""
    known = frozenset(catalog.regions())
    found = set[str]()
    for pool in pools:
        for one in pool.spec.template.spec.requirements:
            if one.operator == "In" and labels.ALIASES.get(one.key, one.key) in (labels.ZONE, labels.REGION):
                found.update(region_of_zone(value) or value for value in one.values)
    return Region(found.pop(), "the zones of the NodePools") if len(found) == 1 and found <= known else None
