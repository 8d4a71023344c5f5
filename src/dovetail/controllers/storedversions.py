"""Writes what is stored as v1beta1 again, as v1, until the definitions can do without v1beta1."""

from __future__ import annotations

from typing import Any

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.generations.v1_to_beta import STORED_VERSION
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context

KINDS: tuple[type[Object], ...] = (NodePool, NodeClaim, EC2NodeClass)
PERIOD = MINUTE
LEFT = Metric(
    "dovetail_definition_stored_versions",
    "gauge",
    "Versions of which a definition says that objects may be stored in them; 1 is the end of a migration.",
    ("definition",),
)
_MARK = {"metadata": {"annotations": {STORED_VERSION: "true"}}}


class StoredVersions:
    """An API server stores whatever is written in the definition's storage version, and notes in
    `status.storedVersions` which ones there ever were. A definition may not drop a version that it names.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Look every minute, for ever: whoever changes the definitions back makes new work."""
        while True:
            for kind in KINDS:
                try:
                    await self.migrate(kind)
                except ApiError as error:
                    self._context.log.record(
                        "versions.failed", definition=definition_name(kind), message=str(error)
                    )
            await self._context.clock.sleep(PERIOD)

    async def migrate(self, kind: type[Object]) -> None:
        """Do what is left for one kind. Raises ApiError."""
        client, name = self._context.client, definition_name(kind)
        try:
            found = await client.get(CustomResourceDefinition, name)
        except NotFound:
            return
        stored = found.status.stored_versions
        self._context.metrics.set(LEFT, len(stored), definition=name)
        current = kind.API_VERSION.partition("/")[2]
        storing = [version.name for version in found.spec.versions if version.storage]
        if storing != [current] or stored == (current,):
            return
        objects = await client.list(kind)
        names = [item.metadata.name for item in objects.items]
        names += [item.salvaged.metadata.name for item in objects.unreadable]
        for one in names:
            try:
                await client.patch(kind, one, merge=_MARK)
            except NotFound:
                continue
        # The version of before: whoever changed the definition meanwhile may have changed what is stored.
        status: dict[str, Any] = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"storedVersions": [current]},
        }
        try:
            await client.patch(CustomResourceDefinition, name, merge=status, status=True)
        except Conflict:
            return
        self._context.metrics.set(LEFT, 1, definition=name)
        self._context.log.record("versions.migrated", definition=name, version=current, objects=len(names))
