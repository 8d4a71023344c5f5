"""A real API server passes the suite of all twins, through the HTTP client."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable

import pytest

from dovetail.api.core import Node, Pod
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.errors import NotFound
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from tests.cluster.controlplane.start import ControlPlane
from tests.conformance.api_server import ApiServerSuite, Check, Run

_PATIENCE = 20  # seconds
_TOUCHED: tuple[type[Object], ...] = (Pod, PodDisruptionBudget, Node)


class Real:
    """A Plane on a real API server."""

    def __init__(self, client: HttpClient, etcd: str) -> None:
        self.client = client
        self._etcd = etcd

    async def eventually(self, check: Callable[[], Awaitable[None]]) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return await check()
            except (AssertionError, pytest.fail.Exception):
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.05)

    async def too_old(self) -> str:
        version = (await self.client.list(Pod)).resource_version
        body = json.dumps({"revision": version, "physical": True}).encode()
        with urllib.request.urlopen(f"{self._etcd}/v3/kv/compaction", body, timeout=10) as answer:
            answer.read()
        return str(int(version) - 2)  # a watch begins with the next one, which must be gone as well

    async def clean(self) -> None:
        """Leave the next test nothing."""
        for kind in _TOUCHED:
            for item in (await self.client.list(kind)).items:
                meta = item.metadata
                try:
                    if meta.finalizers:
                        merge = {"metadata": {"finalizers": None}}
                        await self.client.patch(kind, meta.name, meta.namespace, merge=merge)
                    await self.client.delete(kind, meta.name, meta.namespace, grace_period_seconds=0)
                except NotFound:
                    continue

        async def empty() -> None:
            for kind in _TOUCHED:
                assert not (await self.client.list(kind)).items

        await self.eventually(empty)


@pytest.fixture
def run(api_server: ControlPlane) -> Run:
    async def main(check: Check) -> None:
        access = Kubeconfig([api_server.kubeconfig]).access()
        async with connect(access) as client:
            plane = Real(client, api_server.etcd_url)
            try:
                async with asyncio.timeout(60):
                    await check(plane)
            finally:
                await plane.clean()

    return lambda check: asyncio.run(main(check))


class TestHttp(ApiServerSuite):
    """See ApiServerSuite."""
