"""What of the provider's port means nothing to clouds that keep nothing for classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Inert:
    """Part of providers that make nothing for a class, learn nothing of machines and never leave a zone."""

    async def release(self, node_class: Any) -> None:
        """See Provider."""

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See Provider."""

    def shifted_zones(self) -> Mapping[str, str]:
        """See Provider."""
        return {}

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Provider."""
