"""The webhook that converts NodePools, NodeClaims and EC2NodeClasses between v1beta1 and v1.

Every replica serves it, whether it leads or not: without it the API server can answer nothing about objects
that are stored in the other version. All share one certificate, in a Secret; each looks at it again and
again, renews it when its time is near, and lets the definitions trust it before it serves with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.core import Secret
from dovetail.api.generations import review
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, Conflict, InputError, NotFound
from dovetail.base.metrics import Metric, Metrics
from dovetail.kube.client import Client
from dovetail.runtime.process.certificates import AUTHORITIES, Certificate, Unusable, issue, read
from dovetail.runtime.process.logs import JsonLines
from dovetail.runtime.process.options import WebhookOptions
from dovetail.units.timestamp import to_rfc3339

OBJECTS = Metric(
    "dovetail_conversion_webhook_objects_total",
    "counter",
    "Objects that API servers asked the conversion webhook for, by the version wanted and what came of it.",
    ("version", "result"),
)
DURATION = Metric(
    "dovetail_conversion_webhook_duration_seconds",
    "histogram",
    "How long a request to the conversion webhook took.",
    ("version",),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
ENDS = Metric(
    "dovetail_webhook_certificate_end_timestamp_seconds",
    "gauge",
    "When the certificate that the conversion webhook serves with ends.",
)
KINDS = (NodePool, NodeClaim, EC2NodeClass)
# An API server asks for whole pages of a list at once: 10,000 objects of 6 kB.
LARGEST = 64 * 1024 * 1024
PERIOD = 5 * SECOND
# How long an API server may take to receive a definition that trusts another authority.
SETTLE = 3 * SECOND
_AT_ONCE = 100  # objects, then other tasks have their turn
_TRIES = 5
_REMEMBERED = 1_000


class ConversionWebhook:
    """`serving` answers until the end of its block."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        log: JsonLines,
        metrics: Metrics,
        options: WebhookOptions,
        namespace: str,
    ) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._options = options
        self._namespace = namespace
        service = options.service
        self._names = (
            f"{service}.{namespace}.svc",
            f"{service}.{namespace}.svc.cluster.local",
            f"{service}.{namespace}",
            service,
        )
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._served: Certificate | None = None
        self._said: dict[str, str] = {}  # what was said of a definition or the Secret
        self._refusals: dict[str, None] = {}  # that were logged, oldest first
        self.missing = ""  # why it cannot convert now; "" while it can

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Raises InputError for a port that is taken, and if the certificate cannot be kept."""
        await self._first()
        application = web.Application(client_max_size=LARGEST)
        application.add_routes([web.post(path, self._answer) for path in review.PATHS.values()])
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, None, self._options.port, ssl_context=self._tls).start()
            except OSError as error:
                raise InputError(
                    f"cannot listen on port {self._options.port}: {error.strerror}",
                    source="--webhook-port",
                    remedy="give another port, which the definitions have to name too",
                ) from None
            self._write("info", "serving conversions", port=self._options.port, service=self._names[0])
            keeping = asyncio.create_task(self._keep(), name="webhook certificate")
            try:
                yield
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        finally:
            await runner.cleanup()

    async def _first(self) -> None:
        try:
            await self._look()
        except ApiError as error:
            raise InputError(
                f"the certificate of the conversion webhook cannot be kept: {error}",
                source=f"Secret {self._namespace}/{self._options.secret}",
                remedy="give the rights of the chart's roles (webhook.enabled), or --disable-webhook=true",
            ) from None

    async def _keep(self) -> None:
        while True:
            await self._clock.sleep(PERIOD)
            try:
                await self._look()
            except ApiError as error:
                self._say("certificate", f"the certificate cannot be looked at: {error}")
            else:
                self._said.pop("certificate", None)
            served = self._served
            over = served is not None and self._clock.now() >= served.ends
            self.missing = "the conversion webhook's certificate has ended" if over else ""

    async def _look(self) -> None:
        """Have a certificate, let the definitions trust it, serve with it. Raises ApiError."""
        for _ in range(_TRIES):
            # Before the Secret: what is read of that is then not older than what they say, and a replica that
            # is slow does not take back what another one, which renewed it, has written.
            asking = [await self._asking(definition_name(kind)) for kind in KINDS]
            found = await self._certificate()
            if all([await self._trust(one, found.authorities) for one in asking if one is not None]):
                break
        else:
            raise ApiError("the definitions are changed by something else again and again")
        if found == self._served:
            return
        if self._served is not None:
            await self._clock.sleep(SETTLE)
        self._load(found)

    async def _certificate(self) -> Certificate:
        """That of the Secret, renewed if its time is near. Raises ApiError."""
        name, space = self._options.secret, self._namespace
        for _ in range(_TRIES):
            try:
                secret = await self._client.get(Secret, name, space)
            except NotFound:
                try:
                    secret = await self._client.create(Secret(metadata=Meta(name=name, namespace=space)))
                except AlreadyExists:  # another replica was faster
                    continue
            data = _decoded(secret)
            why = ""
            try:
                found = read(data, self._names)
                if not found.due(self._clock.now()):
                    return found
                why = "its time is near"
            except Unusable as error:
                why = str(error)
            # A Secret that was emptied says nothing of what is served until the new one is trusted.
            known = b"" if self._served is None else self._served.authorities
            made = issue(self._names, self._clock.now(), data.get(AUTHORITIES) or known)
            merge = {
                "metadata": {"resourceVersion": secret.metadata.resource_version},
                "data": {key: b64encode(value).decode() for key, value in made.data().items()},
            }
            try:
                await self._client.patch(Secret, name, space, merge=merge)
            except Conflict:  # another replica has renewed it
                continue
            ends = to_rfc3339(made.ends)
            self._write("info", "issued a certificate", secret=f"{space}/{name}", because=why, ends=ends)
            return made
        raise ApiError(f"Secret {space}/{name} is changed by something else again and again")

    async def _asking(self, name: str) -> CustomResourceDefinition | None:
        """A definition that asks this webhook, if it does. Raises ApiError."""
        try:
            found = await self._client.get(CustomResourceDefinition, name)
        except NotFound:
            return None
        conversion = found.spec.conversion
        if conversion.strategy != "Webhook":
            self._say(name, "it names no webhook: see dovetail crds --webhook-service")
            return None
        service = conversion.webhook.client_config.service
        ours = (self._namespace, self._options.service)
        if service is not None and (service.namespace, service.name) != ours:
            self._say(name, f"it asks {service.namespace}/{service.name}, not {'/'.join(ours)}")
            return None
        self._said.pop(name, None)
        return found

    async def _trust(self, definition: CustomResourceDefinition, authorities: bytes) -> bool:
        """Let it trust these authorities; False if it changed since it was read. Raises ApiError."""
        bundle = b64encode(authorities).decode()
        if definition.spec.conversion.webhook.client_config.ca_bundle == bundle:
            return True
        name = definition.metadata.name
        merge = {
            "metadata": {"resourceVersion": definition.metadata.resource_version},
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}},
        }
        try:
            await self._client.patch(CustomResourceDefinition, name, merge=merge)
        except Conflict:  # by another replica, most likely
            return False
        except NotFound:
            return True
        self._write("info", "the definition trusts the certificate", definition=name)
        return True

    def _load(self, found: Certificate) -> None:
        """Serve new connections with it. The standard library reads certificates from files only."""
        with tempfile.NamedTemporaryFile() as file:  # readable by its owner alone
            file.write(found.chain + found.key)
            file.flush()
            self._tls.load_cert_chain(file.name)
        self._served = found
        self._metrics.set(ENDS, found.ends / SECOND)

    def _say(self, about: str, why: str) -> None:
        """Once for each cause."""
        if self._said.get(about) != why:
            self._said[about] = why
            self._write("error", "cannot convert as it is", about=about, error=why)

    def _write(self, level: str, message: str, **fields: object) -> None:
        self._log.write(level, "webhook", message, **fields)

    async def _answer(self, request: web.Request) -> web.Response:
        began = self._clock.monotonic()
        try:
            asked = review.read(await request.read())
        except review.Malformed as error:
            self._metrics.add(OBJECTS, version="", result="malformed")
            self._refused(str(error))
            return web.Response(status=400, text=f"{error}\n")
        version = asked.wanted if asked.wanted in _VERSIONS else "other"
        answer = await self._converted(asked)
        result = answer["response"]["result"]
        if result["status"] == "Failure":
            self._refused(result["message"])
        seconds = (self._clock.monotonic() - began) / SECOND
        self._metrics.observe(DURATION, seconds, version=version)
        self._metrics.add(
            OBJECTS, max(1, len(asked.objects)), version=version, result=str(result["status"]).lower()
        )
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _refused(self, why: str) -> None:
        """Log it; what was logged already, while something asks again and again, only at level debug."""
        self._write("debug" if why in self._refusals else "error", "could not convert", error=why)
        self._refusals[why] = None
        if len(self._refusals) > _REMEMBERED:
            del self._refusals[next(iter(self._refusals))]

    async def _converted(self, asked: review.Review) -> dict[str, Any]:
        done: list[dict[str, Any]] = []
        try:
            pools = await self._pools(asked)
            for index, document in enumerate(asked.objects):
                if index % _AT_ONCE == _AT_ONCE - 1:
                    await asyncio.sleep(0)
                done.append(review.convert(document, asked.wanted, pools))
        except (review.Refused, ApiError) as error:
            return review.refused(asked, str(error))
        return review.converted(asked, done)

    async def _pools(self, asked: review.Review) -> Mapping[str, dict[str, Any]]:
        """Of the NodePools that claims name, what they expire by; those that are gone are left out."""
        found: dict[str, dict[str, Any]] = {}
        for name in sorted(review.pools_named(asked)):
            try:
                pool = await self._client.get(NodePool, name)
            except NotFound:
                continue
            found[name] = review.pool_that_expires(pool.spec.template.spec.expire_after)
        return found


_VERSIONS = frozenset(f"{group}/{version}" for group in review.PATHS for version in ("v1", "v1beta1"))


def _decoded(secret: Secret) -> dict[str, bytes]:
    """The values of a Secret; those that are no base64 are left out."""
    found: dict[str, bytes] = {}
    for key, text in secret.data.items():
        try:
            found[key] = b64decode(text, validate=True)
        except ValueError:
            continue
    return found
