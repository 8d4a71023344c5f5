"""Kinds of which only the pods that they select are read: services and replication controllers."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Object, Part


class SelectingSpec(Part, frozen=True, kw_only=True):
    """Without a selector, or with an empty one, it selects no pods."""

    selector: dict[str, str] | None = None


class Service(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"
    PLURAL: ClassVar[str] = "services"

    spec: SelectingSpec = SelectingSpec()


class ReplicationController(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ReplicationController"
    PLURAL: ClassVar[str] = "replicationcontrollers"

    spec: SelectingSpec = SelectingSpec()
