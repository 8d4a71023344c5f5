"""What the API server's audit log says: who asked for what, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from dovetail.api.gangs import GANG_KINDS
from tests.cluster.controlplane.start import ControlPlane

# Rights that a cluster without gangs has no use for: these kinds are asked for, and are not there.
OF_GANGS = frozenset(
    (verb, f"{kind.API_VERSION.partition('/')[0]}/{kind.PLURAL}")
    for kind in GANG_KINDS
    for verb in ("list", "watch")
)


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """One kind of request; `resource` as a role names it, "group/plural/subresource" without empty parts."""

    verb: str
    resource: str
    code: int


def asked(plane: ControlPlane, user: str) -> set[Asked]:
    """All that a user asked for so far, of objects, of an API server that knew all rights."""
    found = set()
    for line in plane.audit.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        # Whoever could not say who they are have no name.
        if event["user"].get("username") != user or target is None:
            continue
        received = datetime.fromisoformat(event["requestReceivedTimestamp"])
        if any(begun <= received <= ready for begun, ready in plane.coming_up):
            continue
        parts = (target.get("apiGroup", ""), target["resource"], target.get("subresource", ""))
        status = event.get("responseStatus", {})
        code = status.get("code", 0)
        causes = status.get("details", {}).get("causes", ())
        if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
            continue  # it had the right, but another test's namespace was about to go
        found.add(Asked(event["verb"], "/".join(part for part in parts if part), code))
    return found


def deleted_pods(plane: ControlPlane, user: str, *, since: datetime) -> list[tuple[int, str]]:
    """(nanoseconds since the epoch, namespace/name) of each pod that it deleted since then; no evictions."""
    found = []
    for line in plane.audit.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if (event["verb"], target.get("resource"), target.get("subresource")) != ("delete", "pods", None):
            continue
        received = datetime.fromisoformat(event["requestReceivedTimestamp"])
        granted = event.get("responseStatus", {}).get("code", 0) < 300
        if event["user"].get("username") == user and granted and received >= since:
            found.append((int(received.timestamp() * 1e9), f"{target['namespace']}/{target['name']}"))
    return found


def account_of(namespace: str, name: str) -> str:
    """The user that a service account is."""
    return f"system:serviceaccount:{namespace}:{name}"


def denied(plane: ControlPlane, user: str) -> list[tuple[str, str]]:
    """Verbs and resources that were refused to it."""
    return sorted({(one.verb, one.resource) for one in asked(plane, user) if one.code in (401, 403)})
