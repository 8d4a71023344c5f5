"""coordination.k8s.io/v1 Lease: who leads."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Object, Part


class LeaseSpec(Part, frozen=True, kw_only=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""  # with microseconds
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "coordination.k8s.io/v1"
    KIND: ClassVar[str] = "Lease"
    PLURAL: ClassVar[str] = "leases"

    spec: LeaseSpec = LeaseSpec()
