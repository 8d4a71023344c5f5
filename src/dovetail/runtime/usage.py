"""What pods use, as it was measured: asked of a metrics server (metrics.k8s.io) or of Prometheus.

Both answer of all pods at once. What is there is a mean over the latest half a minute or so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import aiohttp
import msgspec

from dovetail.base.errors import ApiError, Unavailable
from dovetail.kube.http.transport import Request, Transport
from dovetail.units.quantity import parse_quantity

METRICS_SERVER = "metrics-server"
_PODS = "/apis/metrics.k8s.io/v1beta1/pods"
_SECONDS = 30.0
_OF_CONTAINERS = '{container!="",container!="POD"}'
_CPU = f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{_OF_CONTAINERS}[5m]))"
_MEMORY = f"sum by (namespace, pod) (container_memory_working_set_bytes{_OF_CONTAINERS})"
Measured = Mapping[tuple[str, str], tuple[int, int]]  # (namespace, pod) -> milli-CPU, bytes


class UsageSource(Protocol):
    """Where it is asked."""

    async def read(self) -> Measured:
        """Of all pods that are measured. Raises ApiError."""


class MetricsServer:
    """The API that `kubectl top` asks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> Measured:
        """See UsageSource."""
        return read_pod_metrics(await self._transport.ask(Request("GET", _PODS)))


class Prometheus:
    """One that scrapes the kubelets' cAdvisor."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def read(self) -> Measured:
        """See UsageSource."""
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                cpu, memory = [await self._ask(session, query) for query in (_CPU, _MEMORY)]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(
                f"Prometheus at {self._url} does not answer: {error or type(error).__name__}"
            ) from None
        return {
            key: (round(cpu.get(key, 0.0) * 1000), round(memory.get(key, 0.0))) for key in {**cpu, **memory}
        }

    async def _ask(self, session: aiohttp.ClientSession, query: str) -> dict[tuple[str, str], float]:
        async with session.get(f"{self._url}/api/v1/query", params={"query": query}) as answer:
            answer.raise_for_status()
            return read_vector(await answer.read())


def read_pod_metrics(body: bytes) -> Measured:
    """Of a PodMetricsList: what containers use, by pod. Raises ApiError for what is none."""
    found = {}
    for item in _listed(body, "items"):
        about, containers = item.get("metadata") or {}, item.get("containers") or ()
        amounts = [one.get("usage") or {} for one in containers]
        try:
            cpu, memory = (
                sum(parse_quantity(one.get(name, "0")).nanos for one in amounts) for name in ("cpu", "memory")
            )
        except ValueError as error:
            raise ApiError(f"an answer of the metrics server cannot be read: {error}") from None
        found[about.get("namespace", ""), about.get("name", "")] = cpu // 10**6, memory // 10**9
    return found


def read_vector(body: bytes) -> dict[tuple[str, str], float]:
    """Prometheus' answer to a query, by namespace and pod. Raises ApiError for what is none."""
    found = {}
    for item in _listed(body, "data", "result"):
        about = item.get("metric") or {}
        try:
            value = float(item["value"][1])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ApiError("an answer of Prometheus has a series without a value") from None
        if value >= 0:  # neither NaN, of a counter that has just begun, nor below 0
            found[about.get("namespace", ""), about.get("pod", "")] = value
    return found


def _listed(body: bytes, *path: str) -> Iterator[Mapping[str, Any]]:
    try:
        found = msgspec.json.decode(body)
        for name in path:
            found = found[name]
        items = [item for item in found if isinstance(item, dict)]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise ApiError(f"an answer about what pods use has no list {'.'.join(path)}") from None
    yield from items
