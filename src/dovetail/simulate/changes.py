"""Changes that somebody makes to the cluster while the scenario plays, as with `kubectl apply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.manifest import Manifest
from dovetail.base.clock import Clock
from dovetail.base.errors import ApiError, InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.memory.server import MemoryServer


@dataclass(frozen=True, slots=True)
class Change:
    """At `at` (ns since the epoch) these manifests are applied."""

    at: int
    manifests: tuple[Manifest, ...]


async def make_changes(clock: Clock, server: MemoryServer, log: EventLog, changes: Sequence[Change]) -> None:
    """Each at its time. Raises InputError for a manifest that the server refuses then."""
    for change in sorted(changes, key=lambda change: change.at):
        await clock.sleep(max(0, change.at - clock.now()))
        for manifest in change.manifests:
            try:
                _apply(server, manifest)
            except ApiError as error:
                kind, key = manifest.object.KIND, manifest.object.key
                raise InputError(
                    f"{kind} {key}: {error}", source=manifest.source, line=manifest.line
                ) from None
            log.record("change", what=manifest.object.KIND, name=manifest.object.key)


def _apply(server: MemoryServer, manifest: Manifest) -> None:
    """Fields that the manifest has replace those of the object; an object that is not there is created."""
    meta, kind = manifest.object.metadata, type(manifest.object)
    try:
        server.get(kind, meta.name, meta.namespace)
    except NotFound:
        server.create(manifest.document)
        return
    merge: Mapping[str, Any] = {
        key: value for key, value in manifest.document.items() if key not in ("apiVersion", "kind", "status")
    }
    server.patch(kind, meta.name, meta.namespace, merge_patch=merge)
