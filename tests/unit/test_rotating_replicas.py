"""Replicas that renew their certificate at the same time: none serves what the definitions do not trust."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
from base64 import b64decode
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from dovetail.api.apiextensions import (
    ClientConfig,
    Conversion,
    ConversionWebhook,
    CustomResourceDefinition,
    DefinitionSpec,
    definition_name,
)
from dovetail.api.core import Secret
from dovetail.api.meta import Meta
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import AlreadyExists, Conflict, NotFound
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.process import conversion
from dovetail.runtime.process.certificates import Certificate
from dovetail.runtime.process.logs import JsonLines
from dovetail.runtime.process.options import WebhookOptions
from dovetail.simulate.time.clock import VirtualClock, run_virtual

NAMES = [definition_name(kind) for kind in conversion.KINDS]
TURNS = 6
Replica = conversion.ConversionWebhook


class Server:
    """A Secret and three definitions, with versions; each answer takes a while, before or after it counts."""

    def __init__(self, clock: VirtualClock, dice: random.Random) -> None:
        self.clock, self.dice = clock, dice
        self.version = 1
        self.secret: Secret | None = None
        spec = DefinitionSpec(
            conversion=Conversion(strategy="Webhook", webhook=ConversionWebhook(client_config=ClientConfig()))
        )
        self.definitions = {name: self._definition(name, spec) for name in NAMES}
        self.meanwhile: Callable[[], Awaitable[None]] | None = None  # before the next answer about the Secret

    def _meta(self, name: str) -> Meta:
        self.version += 1
        return Meta(name=name, resource_version=str(self.version))

    def _definition(self, name: str, spec: DefinitionSpec) -> CustomResourceDefinition:
        return CustomResourceDefinition(metadata=self._meta(name), spec=spec)

    async def _wait(self) -> None:
        await self.clock.sleep(self.dice.choice([0, 1, 10, 100, 1000, 2000]) * SECOND // 1000)

    async def get(self, kind: type[Any], name: str, _: str = "") -> Any:
        await self._wait()
        found = self.secret if kind is Secret else self.definitions.get(name)
        await self._wait()
        if kind is Secret and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        if found is None:
            raise NotFound(name)
        return found

    async def create(self, made: Secret) -> Secret:
        await self._wait()
        if self.secret is not None:
            raise AlreadyExists("secret")
        self.secret = Secret(metadata=self._meta(made.metadata.name), data=made.data)
        return self.secret

    async def patch(self, kind: type[Any], name: str, _: str = "", *, merge: Any) -> None:
        await self._wait()
        before = self.secret if kind is Secret else self.definitions[name]
        assert before is not None
        if merge["metadata"]["resourceVersion"] != before.metadata.resource_version:
            raise Conflict(name)
        if kind is Secret:
            self.secret = Secret(metadata=self._meta(name), data=merge["data"])
        else:
            config = ClientConfig(
                ca_bundle=merge["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
            )
            webhook = ConversionWebhook(client_config=config)
            spec = DefinitionSpec(conversion=Conversion(strategy="Webhook", webhook=webhook))
            self.definitions[name] = self._definition(name, spec)
        await self._wait()

    def trusts(self, served: Certificate) -> bool:
        """True iff every definition trusts what is served."""
        bundles = (item.spec.conversion.webhook.client_config.ca_bundle for item in self.definitions.values())
        return all(_signed(served.chain, bundle) for bundle in bundles)


@lru_cache(maxsize=256)
def _signed(chain: bytes, bundle: str) -> bool:
    server = x509.load_pem_x509_certificate(chain)
    for authority in x509.load_pem_x509_certificates(b64decode(bundle)):
        with contextlib.suppress(InvalidSignature):
            server.verify_directly_issued_by(authority)
            return True
    return False


def replica(server: Server, log: JsonLines) -> Replica:
    client: Any = server
    return Replica(client, server.clock, log, MemoryMetrics(), WebhookOptions(), "account")


def test_a_slow_replica_does_not_take_back_what_another_one_renewed() -> None:
    async def main(clock: VirtualClock) -> None:
        server, log = Server(clock, random.Random(1)), JsonLines(clock, "info", io.StringIO())
        fast, slow = replica(server, log), replica(server, log)
        await fast._first()
        await slow._first()

        async def renewed() -> None:
            server.secret = Secret(metadata=server._meta("karpenter-cert"))
            await fast._look()

        server.meanwhile = renewed  # after `slow` has read the Secret of before
        await slow._look()
        for one in (fast, slow):
            assert one._served is not None
            assert server.trusts(one._served)
        await slow._look()
        assert slow._served == fast._served

    run_virtual(main)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["emptied", "old"])
def test_replicas_renew_at_once(seed: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(f"{seed} {how}")

    async def main(clock: VirtualClock) -> None:
        server = Server(clock, dice)
        log = JsonLines(clock, "info", out := io.StringIO())
        made = [replica(server, log) for _ in range(3)]

        async def live(one: Replica) -> None:
            await one._first()
            await one._keep()

        running = [asyncio.ensure_future(live(one)) for one in made]
        await clock.sleep(MINUTE)
        assert len({one._served for one in made}) == 1
        first = made[0]._served
        due = Certificate.due
        for turn in range(TURNS):
            before = made[0]._served
            if how == "emptied":
                await clock.sleep(dice.randrange(5000) * SECOND // 1000)
                server.secret = Secret(metadata=server._meta("karpenter-cert"))
            else:
                monkeypatch.setattr(
                    Certificate, "due", lambda self, now, old=before: self == old or due(self, now)
                )
            until = clock.now() + MINUTE
            while clock.now() < until:
                await clock.sleep(SECOND // 20)
                assert all(server.trusts(one._served) for one in made if one._served)
            assert len({one._served for one in made} | {before}) == 2
            assert out.getvalue().count("issued a certificate") == turn + 2
        assert made[0]._served != first
        assert "again and again" not in out.getvalue()
        for task in running:
            task.cancel()
        await clock.sleep(SECOND)

    run_virtual(main)
