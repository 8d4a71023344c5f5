"""What all objects share: metadata, selectors, conditions."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A piece of an object: frozen, camelCase on the wire, holds only the fields that Dovetail reads."""


class OwnerReference(Part, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(Part, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def managed_by(self) -> str:
        """That owner as logs have it: "ReplicaSet/web-5d4f"; "" for none."""
        owner = self.controller()
        return f"{owner.kind}/{owner.name}" if owner is not None else ""


class Object(Part, frozen=True, kw_only=True, weakref=True):
    """A top-level object. `metadata` defaults to empty so that fragments decode too."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = ""
    PLURAL: ClassVar[str] = ""
    NAMESPACED: ClassVar[bool] = True

    metadata: Meta = Meta()

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def deleting(self) -> bool:
        return bool(self.metadata.deletion_timestamp)


class Condition(Part, frozen=True, kw_only=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class LabelSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True, kw_only=True, weakref=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type, if present."""
    for item in conditions:
        if item.type == kind:
            return item
    return None


def is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    """True iff the condition is present and True."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"
