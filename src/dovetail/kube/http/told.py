"""What requests to the API server are told of as: by the names of the library that Karpenter is made with."""

from __future__ import annotations

from typing import NamedTuple

from dovetail.base.metrics import Metric, Metrics

REQUESTS = Metric("client_go_request_total", "counter", "Requests to the API server.", ("code", "method"))
DURATION = Metric(
    "client_go_request_duration_seconds",
    "histogram",
    "How long the API server took to answer; of a watch, to begin it.",
    ("verb", "group", "version", "kind", "subresource"),
    tuple(round(0.001 * 1.5**power, 6) for power in range(20)),
)
NO_ANSWER = "<error>"


class Target(NamedTuple):
    """What a path names; `kind` is its plural, `name` is "" for all of them."""

    group: str
    version: str
    kind: str
    name: str
    subresource: str


def target(path: str) -> Target | None:
    """What a request is about; None for what is no object. Pure."""
    first, *parts = path.strip("/").split("/")
    if first == "api":
        parts.insert(0, "")
    elif first != "apis":
        return None
    if len(parts) < 3:
        return None
    group, version, *rest = parts
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    kind, name, subresource, *_ = (*rest, "", "")
    return Target(group, version, kind, name, subresource)


def verb(method: str, found: Target, *, watch: bool) -> str:
    """What is done to it. Pure."""
    if watch:
        return "WATCH"
    if method == "GET" and not found.name:
        return "LIST"
    return "CREATE" if method == "POST" else method


class Told:
    """Tells a Metrics, if there is one, of every request."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._metrics = metrics

    def ended(self, method: str, path: str, code: str, seconds: float, *, watch: bool) -> None:
        """The answer has begun to come, or there is none."""
        if self._metrics is None:
            return
        self._metrics.add(REQUESTS, code=code, method=method)
        found = target(path)
        if found is not None:
            self._metrics.observe(
                DURATION,
                seconds,
                verb=verb(method, found, watch=watch),
                group=found.group,
                version=found.version,
                kind=found.kind,
                subresource=found.subresource,
            )
