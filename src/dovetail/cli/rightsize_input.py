"""What `dovetail rightsize` is asked about: whose pods there are, what they used, and what holds requests."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api.core import Pod
from dovetail.api.keda import ScaledObject, ScaleTarget
from dovetail.api.namespaces import LimitRange
from dovetail.api.workloads import CrossVersionObjectReference, HorizontalPodAutoscaler
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, InputError
from dovetail.cost.facts import owner_of as named_owner
from dovetail.explain.sizes import RESOURCES, Advice, Measured, Owner, Use, Work
from dovetail.model.podtemplate import ALPHABET
from dovetail.model.resources import CPU, LARGEST, MEMORY, amounts
from dovetail.reading import Reading
from dovetail.reading.prometheus import label_of, named, pod_of, range_query
from dovetail.reading.sources import decoded
from dovetail.runtime import usage

STEP = 300 * SECOND  # of samples, as of the queries that are shown; a week has 2,016 of them
_SERIES = "container_memory_working_set_bytes", "container_cpu_usage_seconds_total"
_RULES = {  # of kube-prometheus, which are rates already
    "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate": CPU,
    "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m": CPU,
    "node_namespace_pod_container:container_memory_working_set_bytes": MEMORY,
}
_PERCENT = "Utilization"


def queries(window: str = "7d") -> str:
    """The commands whose answers --usage takes."""
    ask = 'curl -sG "$PROMETHEUS/api/v1/query_range" -d step=300 -d end="$(date +%s)"'
    since = f'-d start="$(date -d -{window} +%s)"'
    return "\n".join(
        f"    {ask} {since} \\\n      --data-urlencode '{'query=' + query}' > {resource}.json"
        for resource, query in usage.PAST.items()
    )


def nothing_measured() -> InputError:
    """What to give where nothing says what pods use."""
    return InputError(
        "nothing says what the pods use, so nothing can be recommended",
        remedy="give one of these:\n"
        "  --prometheus http://prometheus:9090 (one that scrapes the kubelets' cAdvisor)\n"
        "  --usage cpu.json --usage memory.json, written by\n"
        f"{queries()}\n"
        "  --usage now.json, of a single moment, written by\n"
        "    kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods > now.json\n"
        "  -f vpa.yaml, what VerticalPodAutoscalers recommend, written by\n"
        "    kubectl get vpa -A -o yaml > vpa.yaml",
    )


class Owners:
    """Whose each pod is, of those that are there and, by their names, of those that were."""

    def __init__(self, reading: Reading) -> None:
        self._made: dict[tuple[str, str], tuple[str, str]] = {}  # stand-ins -> what is written
        self._parents: dict[tuple[str, str], tuple[str, str]] = {}
        self._known: dict[str, Owner] = {}
        self._by_name: dict[tuple[str, str], list[Owner]] = {}
        for item in reading.manifests:
            key = item.object.KIND, item.object.key
            if item.foreign:
                self._made[key] = item.written
            elif (owner := item.object.metadata.controller()) is not None:
                self._parents[key] = owner.kind, f"{item.object.metadata.namespace}/{owner.name}"
        for one in reading.left_out:
            if one.owner is not None:
                self._parents.setdefault(one.key, one.owner)
        self._here = {item.written for item in reading.manifests}

    def of(self, pod: Pod) -> Owner:
        """The highest that is known; the pod itself where it has none."""
        found = self._known.get(pod.key)
        if found is None:
            found = self._known[pod.key] = self._find(pod)
        return found

    def _find(self, pod: Pod) -> Owner:
        reference = pod.metadata.controller()
        space = pod.metadata.namespace
        if reference is None:
            return Owner(pod.KIND, space, pod.metadata.name)
        at = reference.kind, f"{space}/{reference.name}"
        if at not in self._here and reference.kind == "ReplicaSet":
            kind, name = named_owner(f"ReplicaSet/{reference.name}", pod.metadata.labels)
            if kind == "deployment":
                at = "Deployment", f"{space}/{name}"
        seen = {at}
        # What makes whole applications has no requests of its own: the last that has a pod template counts.
        while (above := self._parents.get(at)) is not None and above not in seen:
            if above[0] not in _OWNING and above not in self._here and above not in self._made.values():
                break
            at = above
            seen.add(at)
        kind, key = self._made.get(at, at)
        return Owner(kind, *key.split("/", 1)) if "/" in key else Owner(kind, space, key)

    def above(self, owner: Owner) -> str:
        """What would put its requests back, such as "Prometheus monitoring/main"; "" where nothing does."""
        found = self._parents.get((owner.kind, owner.key))
        return f"{found[0]} {found[1]}" if found is not None and found[0] not in _OWNING else ""

    def learn(self, works: Iterable[Work]) -> None:
        """Whose pods that are gone may have been."""
        for work in works:
            self._by_name.setdefault((work.owner.namespace, work.owner.name), []).append(work.owner)

    def by_name(self, namespace: str, pod: str, container: str) -> Owner | None:
        """Whose a pod is, or was by its name: web-5d4f8c7b9-x2x5p was of Deployment web, db-0 of a
        StatefulSet db. None where nothing here has such pods.
        """
        del container
        found = self._known.get(f"{namespace}/{pod}")
        if found is not None:
            return found
        head, _, tail = pod.rpartition("-")
        first, _, middle = head.rpartition("-")
        drawn = len(tail) == 5 and set(tail) <= _LETTERS
        for owner in self._by_name.get((namespace, head), ()):
            if tail.isdecimal() if owner.kind == "StatefulSet" else drawn and owner.kind not in _TWICE:
                return owner
        for owner in self._by_name.get((namespace, first), ()) if drawn else ():
            stamped = middle.isdecimal() if owner.kind == "CronJob" else set(middle) <= _LETTERS
            if middle and stamped and owner.kind not in _ONCE:
                return owner
        return None


_OWNING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
_LETTERS = frozenset(ALPHABET)
_TWICE = ("Deployment", "CronJob", "Pod")  # between its name and the pod's own part stands another
_ONCE = ("StatefulSet", "DaemonSet", "Job", "ReplicaSet", "ReplicationController", "Pod")


def read_usage(paths: Iterable[Path], percentile: float, now: int) -> Measured:
    """What files say: answers of Prometheus to range queries, lists of the metrics server; several documents
    may follow each other. Raises InputError.
    """
    values: dict[tuple[str, str, str, str], dict[int, float]] = {}
    moments: dict[tuple[str, str, str, str], Use] = {}
    clusters: set[str] = set()
    for path in paths:
        others: list[str] = []
        for text in _documents(decoded(str(path)), path):
            if '"PodMetricsList"' in text or '"PodMetrics"' in text:
                try:
                    moments |= usage.container_metrics(text.encode(), now)
                except ApiError as error:
                    raise InputError(str(error), source=str(path)) from None
                continue
            series = range_query(text, path, f"give the answers of:\n{queries()}")
            if series is None:
                raise InputError(
                    "is no answer of Prometheus to a range query, and no list of the metrics server",
                    source=str(path),
                    remedy=f"write it by:\n{queries()}",
                )
            for item in series:
                clusters.add(label_of(item["metric"], "cluster"))
                if not _take(item, values):
                    others.append(named(item["metric"]))
        if others and not values:
            raise InputError(
                f"of {others[0]} it is not known whether it is CPU or memory",
                source=str(path),
                remedy=f"the queries say it in a label resource:\n{queries()}",
            )
    if len(clusters) > 1:
        raise InputError(
            f"the series are of several clusters: {', '.join(sorted(clusters))[:200]}",
            source="--usage",
            remedy='ask for one of them: {cluster="NAME"} beside the other labels',
        )
    measured = {
        key: use
        for key, found in values.items()
        if (use := Use.of(list(found.items()), percentile, usage.PROMETHEUS)) is not None
    }
    return {**moments, **measured}


def _documents(text: str, path: Path) -> Iterator[str]:
    """Each of those that follow each other in a file."""
    reader, at = json.JSONDecoder(), 0
    text = text.strip()
    if not text:
        raise InputError("is empty", source=str(path), remedy=f"write it by:\n{queries()}")
    while at < len(text):
        try:
            _, end = reader.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)  # whoever reads it says what is wrong
        yield text[at:end]
        at = end
        while at < len(text) and text[at].isspace():
            at += 1


def _take(item: Mapping[str, Any], values: dict[tuple[str, str, str, str], dict[int, float]]) -> bool:
    """False for a series that is neither CPU nor memory of containers."""
    metric = item["metric"]
    name = metric.get("__name__", "")
    resource = metric.get("resource", "") or _RULES.get(name, "")
    counter = name == _SERIES[1]
    if name in _SERIES:
        resource = CPU if counter else MEMORY
    if resource not in RESOURCES or (name and name not in (*_SERIES, *_RULES)):
        return False
    container = label_of(metric, "container")
    if container in ("", "POD"):
        return True  # of the pod as a whole, or what holds its network
    found = values.setdefault((*pod_of(metric), container, resource), {})
    samples = _rates(item["values"]) if counter else item["values"]
    unit = 1000 if resource == CPU else 1
    for at, amount in samples:
        # At one instant one container has one series, but where two jobs scrape the same kubelet.
        found[at] = max(found.get(at, amount * unit), amount * unit)
    return True


def _rates(values: Iterable[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """CPUs from a counter of seconds; where it begins anew, from there on."""
    before: tuple[int, float] | None = None
    for at, count in values:
        if before is not None and at > before[0] and count >= before[1]:
            yield at, (count - before[1]) * SECOND / (at - before[0])
        before = at, count


def ask_prometheus(url: str, window: int, percentile: float) -> Measured:
    """Raises InputError where it does not answer."""
    from dovetail.cli.searching import progress

    said = {CPU: "asking Prometheus for CPU", MEMORY: "asking Prometheus for memory"}
    try:
        return asyncio.run(
            usage.Prometheus(url).past(
                time.time_ns(),
                window,
                STEP,
                percentile,
                lambda resource: progress(said[resource], 4 * 120 * SECOND),
            )
        )
    except ApiError as error:
        remedy = "check the address, or ask for less: --window 1d"
        raise InputError(str(error), source="--prometheus", remedy=remedy) from None


def ask_metrics_server(kubeconfig: Path | None, context: str) -> Measured | None:
    """A single moment; None where the cluster has no metrics server, or this user no right to ask it."""
    from dovetail.kube.http.client import connect
    from dovetail.kube.http.kubeconfig import locate

    async def ask() -> Measured:
        access = locate(os.environ, kubeconfig=kubeconfig, context=context)
        async with connect(access) as client:
            return await usage.MetricsServer(client.transport).of_containers(time.time_ns())

    try:
        return asyncio.run(ask())
    except ApiError:
        return None


def advice_of(reading: Reading, works: Mapping[Owner, Work]) -> dict[tuple[Owner, str, str], Advice]:
    """What VerticalPodAutoscalers recommend for what is here."""
    found = {}
    for one in reading.vertical_autoscalers:
        owner = Owner(one.target[0], *one.target[1].split("/", 1))
        for (container, resource), each in one.recommended.items():
            if owner in works:
                target, lower, upper = (
                    None if item is None else min(amounts({resource: item})[resource], LARGEST - 1)
                    for item in (each.target, each.lower, each.upper)
                )
                assert target is not None
                found[owner, container, resource] = Advice(target, lower, upper)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """An autoscaler that scales a workload on a percentage of a request.

    `place` is the metric's in its list; `container` "" for the pods as a whole.
    """

    kind: str
    namespace: str
    name: str
    owner: Owner
    resource: str
    percent: int
    place: int
    container: str = ""
    document: Mapping[str, Any] | None = None

    @property
    def metrics(self) -> list[Any]:
        """Of a HorizontalPodAutoscaler, as it stands in its document, or what it goes by without any."""
        given = (self.document or {}).get("spec", {}).get("metrics")
        return list(given or [_USUAL])

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def scalings(reading: Reading, works: Mapping[Owner, Work]) -> tuple[Scaling, ...]:
    """All of what is here. A ScaledObject counts, and not what KEDA makes of it."""
    found: list[Scaling] = []
    here = {item.written for item in reading.manifests}
    for item in reading.manifests:
        made = item.object
        space, name = made.metadata.namespace, made.metadata.name
        if isinstance(made, HorizontalPodAutoscaler):
            above = made.metadata.controller()
            if above is not None and ("ScaledObject", f"{space}/{above.name}") in here:
                continue  # KEDA writes it
            target: CrossVersionObjectReference | ScaleTarget = made.spec.scale_target_ref
            metrics: Any = item.document.get("spec", {}).get("metrics") or [_USUAL]
            triggers = [_of_metric(one) for one in metrics]
        elif isinstance(made, ScaledObject):
            target = made.spec.scale_target_ref
            triggers = [_of_trigger(one.type, one.metric_type, one.metadata) for one in made.spec.triggers]
        else:
            continue
        owner = Owner(target.kind or "Deployment", space, target.name)
        for place, one in enumerate(triggers):
            if one is not None and owner in works:
                document = item.document if isinstance(made, HorizontalPodAutoscaler) else None
                found.append(Scaling(made.KIND, space, name, owner, *one[:2], place, one[2], document))
    return tuple(found)


# What a HorizontalPodAutoscaler without metrics goes by.
_USUAL = {
    "type": "Resource",
    "resource": {"name": CPU, "target": {"type": _PERCENT, "averageUtilization": 80}},
}


def _of_metric(metric: Any) -> tuple[str, int, str] | None:
    """(resource, percent, container) of one that goes by requests."""
    if not isinstance(metric, dict):
        return None
    inner = metric.get("containerResource" if metric.get("type") == "ContainerResource" else "resource")
    target = inner.get("target") if isinstance(inner, dict) else None
    percent = target.get("averageUtilization") if isinstance(target, dict) else None
    if inner is None or inner.get("name") not in RESOURCES or not isinstance(percent, int):
        return None
    return inner["name"], percent, str(inner.get("container") or "")


def _of_trigger(kind: str, metric_type: str, metadata: Mapping[str, str]) -> tuple[str, int, str] | None:
    percent = metadata.get("value", "")
    if kind not in RESOURCES or (metric_type or metadata.get("type", "")) != _PERCENT:
        return None
    return (kind, int(percent), metadata.get("containerName", "")) if percent.isdecimal() else None


class Allowance:
    """What LimitRanges let containers ask for."""

    def __init__(self, reading: Reading) -> None:
        self._ranges: dict[str, list[LimitRange]] = {}
        for item in reading.manifests:
            if isinstance(item.object, LimitRange):
                self._ranges.setdefault(item.object.metadata.namespace, []).append(item.object)

    def __call__(self, owner: Owner, resource: str, amount: int, limit: int | None) -> int:
        """The amount within them; `limit` stays beside it."""
        for one in self._ranges.get(owner.namespace, ()):
            for each in one.spec.limits:
                if each.type != "Container":
                    continue
                least, most = (amounts(some).get(resource) for some in (each.min, each.max))
                ratio = each.max_limit_request_ratio.get(resource)
                if least is not None:
                    amount = max(amount, least)
                if ratio is not None and ratio.nanos > 0 and limit is not None:
                    amount = max(amount, -(-limit * SECOND // ratio.nanos))  # a quantity counts in billionths
                if most is not None:
                    amount = min(amount, most)
        return amount
