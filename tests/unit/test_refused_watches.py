"""An informer whose rights are taken away goes on asking, and says why, once for each reason."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.api.core import Pod
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Forbidden, Unauthorized, Unavailable
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.client import MemoryClient
from dovetail.simulate.time.clock import VirtualClock, run_virtual


class Guarded(MemoryClient):
    """A server that refuses with `error` for as long as there is one."""

    error: ApiError | None = None

    async def list(self, *arguments: Any, **more: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await super().list(*arguments, **more)


def test_reasons_are_reported_once_and_anew_after_it_went_well() -> None:
    async def main(clock: VirtualClock) -> None:
        client, reasons = Guarded(MemoryServer(clock), ""), []
        informer = Informer(client, Pod, lambda *_: None, on_refused=reasons.append)
        client.error = Forbidden("pods is forbidden")
        running = asyncio.ensure_future(informer.run())
        await clock.sleep(MINUTE)
        assert reasons == ["pods is forbidden"]
        client.error = Unavailable("away for a while")
        await clock.sleep(MINUTE)
        client.error = Unauthorized("the token has expired")
        await clock.sleep(MINUTE)
        assert reasons == ["pods is forbidden", "the token has expired"]
        client.error = None
        await clock.sleep(MINUTE)
        assert informer.synced
        running.cancel()
        await clock.sleep(SECOND)

    run_virtual(main)
