"""Which region a question is about: as given, or as the nodes, the environment or the kubeconfig say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.api.core import Node
from dovetail.base.errors import InputError
from dovetail.cloud import catalog
from dovetail.model import labels

_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_EKS = re.compile(r"https://[^/]*\.([a-z0-9-]+)\.eks\.amazonaws\.com(?:\.cn)?(?:[:/].*)?")


@dataclass(frozen=True, slots=True)
class Region:
    """Its name, and what says so."""

    name: str
    origin: str


def resolve(
    given: str | None, nodes: Iterable[Node], environment: Mapping[str, str], server: str = ""
) -> Region | None:
    """The first that says anything: the flag, labels of nodes, the environment, the address of an EKS server.

    None where nothing does. Raises InputError for nodes of several regions.
    """
    if given:
        return Region(given, "--region")
    if found := _of_nodes(nodes):
        return found
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
    seen = Counter(node.metadata.labels.get(labels.REGION, "") for node in nodes)
    found = {name: count for name, count in seen.items() if name in known}
    if len(found) > 1:
        shown = ", ".join(f"{name} ({count} nodes)" for name, count in sorted(found.items()))
        raise InputError(f"there are nodes of several regions: {shown}", remedy="say which with --region")
    return next((Region(name, "labels of the nodes") for name in found), None)
