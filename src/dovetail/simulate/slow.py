"""The API server's port with patches that take their time, as on a server elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dovetail.api.meta import Object
from dovetail.base.streams import stream
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.client import MemoryClient

T = TypeVar("T", bound=Object)


class SlowClient(MemoryClient):
    """Patches have their effect after a time drawn from half to one and a half of `mean` nanoseconds; at once
    where that is 0.

    Of an attempt that fails the scheduler writes the status before it goes on; that is what makes failures
    slower than bindings, for which it does not wait.
    """

    def __init__(self, server: MemoryServer, user: str, *, mean: int = 0, seed: int = 0) -> None:
        super().__init__(server, user)
        self._mean = mean
        self._draws = stream(seed, user, "times of patches")

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json: Sequence[Mapping[str, Any]] | None = None,
        status: bool = False,
    ) -> T:
        """See Client."""
        if self._mean:
            await self._server.clock.sleep(round(self._mean * self._draws.uniform(0.5, 1.5)))
        return await super().patch(kind, name, namespace, merge=merge, json=json, status=status)
