"""Which kinds are known, and what is said of one that is not."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dovetail.api import core_schema
from dovetail.api.admission import SCHEMAS
from dovetail.api.generations.admission import old_schemas
from dovetail.api.scheme import BY_GVK
from dovetail.base.errors import InputError
from dovetail.base.guess import nearest
from dovetail.reading.located import Located
from dovetail.reading.lookalikes import what_it_is
from dovetail.reading.refusals import refusal

_ALIKE = 0.85  # groups share much, such as .k8s.io: only a slip of the fingers is a guess
# Kinds that are no mistake, though nothing here reads them: of groups that are read in part, or that are
# called nearly as one of Kubernetes' own.
_NOT_READ = {
    "keda.sh": ("ClusterTriggerAuthentication", "TriggerAuthentication"),
    "autoscaling.x-k8s.io": ("ProvisioningRequest",),
    "scheduling.x-k8s.io": ("ElasticQuota",),
    "scheduling.volcano.sh": ("Queue",),
}
_EXTENSIONS = "extensions"  # what Deployment and Ingress were in long ago
_MARKS = ("uid", "resourceVersion")  # of metadata: only a server writes them
DEFAULT_NAMESPACE = "default"
_START = "a manifest starts with lines such as 'apiVersion: apps/v1' and 'kind: Deployment'"


def group_of(version: str) -> str:
    """The group of an apiVersion, empty for the core's."""
    return version.rpartition("/")[0]


def is_from_server(document: dict[str, Any]) -> bool:
    """True iff an API server has had the object: it has what only a server writes."""
    meta = document.get("metadata")
    return isinstance(meta, dict) and any(meta.get(key) for key in (*_MARKS, "managedFields"))


def forget_managers(document: dict[str, Any]) -> None:
    """Drop who wrote which field, in place: a third of a dump, and nothing here reads it.

    The object is from a server as before: without another mark of one they stay.
    """
    meta = document.get("metadata")
    if isinstance(meta, dict) and any(meta.get(key) for key in _MARKS):
        meta.pop("managedFields", None)


def unknown_kind(located: Located) -> InputError | None:
    """Why a kind without a schema is a mistake; None for one of a group of its own."""
    document = located.value
    version, kind = document.get("apiVersion"), document.get("kind")
    known_as = what_it_is(document, located.source)
    if known_as is not None:
        what, remedy = known_as
        return InputError(
            f"the file is {what}, not manifests", source=located.source, line=located.line, remedy=remedy
        )
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            fault = f"{name} is required" if value in (None, "") else f"{name} must be text"
            return refusal(located, name, fault, _START)
    group = group_of(version)
    if kind in _NOT_READ.get(group, ()):
        return None
    if group not in _groups():
        near = nearest(group, sorted(_groups()), alike=_ALIKE)
        near = [name for name in near if kind in _groups()[name]]
        if "/" in version and "." not in group and group != _EXTENSIONS:
            # Kubernetes' own groups alone have names without a dot.
            have = [name for name in sorted(_groups()) if kind in _groups()[name]] or near
            hint = f"; did you mean {have[0]}?" if have else ""
            return refusal(located, "apiVersion", f"unknown group {group!r}{hint}")
        if "/" in version and near:
            return refusal(located, "apiVersion", f"unknown group {group!r}; did you mean {near[0]}?")
        # The core's group is empty, so a word without a slash is a version or a slip.
        return None
    if is_from_server(document):
        return None  # a newer server's
    versions = [have for have, name in (*_known(), *old_schemas()) if name == kind]
    if versions:
        same = [have for have in versions if group_of(have) == group] or versions
        return refusal(located, "apiVersion", f"{kind} has no version {version!r}; did you mean {same[0]}?")
    near = nearest(kind, sorted(_named_beside(version)))
    hint = f"; did you mean {near[0]}?" if near else ""
    remedy = "" if near else f"kinds of {group or 'the core group'}: {', '.join(sorted(_groups()[group]))}"
    return refusal(located, "kind", f"unknown kind {kind!r} of {version}{hint}", remedy)


def _named_beside(version: str) -> set[str]:
    """Kinds that may be meant: today's, and those that an older version had."""
    old = {name for have, name in old_schemas() if have == version}
    return old | {name for _, name in _known()}


@lru_cache(maxsize=1)
def _known() -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((*BY_GVK, *SCHEMAS, *core_schema.kinds())))


@lru_cache(maxsize=1)
def _groups() -> dict[str, set[str]]:
    """The kinds of every group that is Kubernetes' own or Dovetail's."""
    found: dict[str, set[str]] = {}
    for version, kind in _known():
        found.setdefault(group_of(version), set()).add(kind)
    return found
