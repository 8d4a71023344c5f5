"""What pods use, as it was measured: asked of a metrics server (metrics.k8s.io) or of Prometheus.

Both answer of all pods at once. What is there is a mean over the latest half a minute or so; Prometheus knows
the past of each container as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import aiohttp
import msgspec

from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Unavailable
from dovetail.explain.sizes import Measured, Use
from dovetail.kube.http.transport import Request, Transport
from dovetail.model.resources import CPU, LARGEST, MEMORY
from dovetail.units.quantity import parse_quantity

METRICS_SERVER = "metrics-server"
PROMETHEUS = "prometheus"
_SAID = (400, 422)  # what Prometheus answers with the reason
_PODS = "/apis/metrics.k8s.io/v1beta1/pods"
_SECONDS = 30.0
_HISTORY_SECONDS = 120.0  # Prometheus' own limit of a query: a week of 4,000 containers takes it some of that
_OF_CONTAINERS = '{container!="",container!="POD"}'
_CPU = f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{_OF_CONTAINERS}[5m]))"
_MEMORY = f"sum by (namespace, pod) (container_memory_working_set_bytes{_OF_CONTAINERS})"
# The past of each container, by resource, as `curl` would ask for it: that label tells which it is. One
# container has one series at a time, but where two jobs scrape the same kubelet.
_RATES = f"max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{_OF_CONTAINERS}[5m]))"
_PEAKS = (
    "max by (namespace, pod, container) "
    f"(max_over_time(container_memory_working_set_bytes{_OF_CONTAINERS}[5m]))"
)
PAST = {
    name: f'label_replace({query}, "resource", "{name}", "", "")'
    for name, query in ((CPU, _RATES), (MEMORY, _PEAKS))
}
PodUse = Mapping[tuple[str, str], tuple[int, int]]  # (namespace, pod) -> milli-CPU, bytes


class UsageSource(Protocol):
    """Where it is asked."""

    async def read(self) -> PodUse:
        """Of all pods that are measured. Raises ApiError."""


class MetricsServer:
    """The API that `kubectl top` asks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> PodUse:
        """See UsageSource."""
        return read_pod_metrics(await self._transport.ask(Request("GET", _PODS)))

    async def of_containers(self, now: int) -> Measured:
        """A single moment, which is taken to be `now`. Raises ApiError."""
        return container_metrics(await self._transport.ask(Request("GET", _PODS)), now)


class Prometheus:
    """One that scrapes the kubelets' cAdvisor."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def read(self) -> PodUse:
        """See UsageSource."""
        cpu, memory = [read_vector(body) for body in await self._asked((_CPU, _MEMORY), _SECONDS)]
        return {
            (key[0], key[1]): (round(cpu.get(key, 0.0) * 1000), round(memory.get(key, 0.0)))
            for key in {**cpu, **memory}
        }

    async def past(
        self, now: int, window: int, step: int, percentile: float, said: Callable[[str], None]
    ) -> Measured:
        """Of all containers that there were in the window before `now`, one sample a step (nanoseconds).

        Prometheus works out the figures, so that a week of a large cluster is a short answer. `said` is told
        what is being asked. Raises ApiError.
        """
        over = f"[{window // SECOND}s:{step // SECOND}s]"
        found: dict[tuple[str, str, str, str], Use] = {}
        for resource, query in ((CPU, _RATES), (MEMORY, _PEAKS)):
            said(resource)
            functions = (
                "count_over_time(",
                "quantile_over_time(0.5, ",
                f"quantile_over_time({percentile / 100:g}, ",
                "max_over_time(",
            )
            queries = tuple(f"{function}({query}){over})" for function in functions)
            unit = 1000 if resource == CPU else 1
            answers = [
                read_vector(body, "namespace", "pod", "container")
                for body in await self._asked(queries, _HISTORY_SECONDS)
            ]
            for key, count in answers[0].items():
                middle, high, most = (
                    math.ceil(min(each.get(key, 0.0) * unit, LARGEST)) for each in answers[1:]
                )
                samples = int(min(count, LARGEST))
                use = Use(samples, middle, high, most, now - window, now, PROMETHEUS)
                found[key[0], key[1], key[2], resource] = use
        return found

    async def _asked(self, queries: tuple[str, ...], seconds: float) -> list[bytes]:
        answers = []
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session:
                for query in queries:
                    async with session.get(f"{self._url}/api/v1/query", params={"query": query}) as answer:
                        if answer.status in _SAID:  # why is in the body
                            raise ApiError(f"Prometheus at {self._url} {_refusal(await answer.read())}")
                        answer.raise_for_status()
                        answers.append(await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unavailable(
                f"Prometheus at {self._url} does not answer: {error or type(error).__name__}"
            ) from None
        return answers


def read_pod_metrics(body: bytes) -> PodUse:
    """Of a PodMetricsList: what containers use, by pod. Raises ApiError for what is none."""
    found = {}
    for namespace, pod, containers in _pods(body):
        cpu, memory = (sum(each[place] for each in containers.values()) for place in (0, 1))
        found[namespace, pod] = cpu // 10**6, memory // 10**9
    return found


def container_metrics(body: bytes, now: int) -> Measured:
    """The same by container, as a single sample of `now`."""
    found = {}
    for namespace, pod, containers in _pods(body):
        for container, (cpu, memory) in containers.items():
            for resource, amount in ((CPU, -(-cpu // 10**6)), (MEMORY, -(-memory // 10**9))):
                if amount >= 0:
                    most = min(amount, LARGEST)
                    use = Use(1, most, most, most, now, now, METRICS_SERVER)
                    found[namespace, pod, container, resource] = use
    return found


def _pods(body: bytes) -> Iterator[tuple[str, str, dict[str, tuple[int, int]]]]:
    """Namespace, name, and by container nano-CPUs and nano-bytes."""
    for item in _listed(body, "items"):
        try:
            about = item.get("metadata") or {}
            containers = {}
            for number, one in enumerate(item.get("containers") or ()):
                usage = one.get("usage") or {}
                cpu, memory = (parse_quantity(usage.get(name, "0")).nanos for name in ("cpu", "memory"))
                containers[str(one.get("name") or number)] = cpu, memory
        except (ValueError, TypeError, AttributeError) as error:
            raise ApiError(f"an answer of the metrics server cannot be read: {error}") from None
        yield str(about.get("namespace", "")), str(about.get("name", "")), containers


def read_vector(body: bytes, *labels: str) -> dict[tuple[str, ...], float]:
    """Prometheus' answer to a query, by these labels, by default namespace and pod. Raises ApiError for what
    is none.
    """
    found = {}
    for item in _listed(body, "data", "result"):
        about = item.get("metric") or {}
        try:
            value = float(item["value"][1])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ApiError("an answer of Prometheus has a series without a value") from None
        if value >= 0:  # neither NaN, of a counter that has just begun, nor below 0
            found[tuple(str(about.get(name, "")) for name in labels or ("namespace", "pod"))] = value
    return found


def _refusal(body: bytes) -> str:
    """Why Prometheus does not answer a query."""
    try:
        found = msgspec.json.decode(body)
        return f"answers an error: {found['error']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return "does not take the query"


def _listed(body: bytes, *path: str) -> Iterator[Mapping[str, Any]]:
    try:
        found = msgspec.json.decode(body)
        for name in path:
            found = found[name]
        items = [item for item in found if isinstance(item, dict)]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise ApiError(f"an answer about what pods use has no list {'.'.join(path)}") from None
    yield from items
