"""The worst that one tenant may ask for, beside twenty ordinary pods, and what each stage takes for it.

CPU time of this process, so that other programs do not count: decoding what the API server sends of these
pods, reading them into a problem, encoding it, the whole plan with its deadline of a second, the explanation
of what is left over, and the check of the plan as `dovetail plan` makes it. `python -m benchmarks.bounds
[NAME ...]` prints a row per input; --json FILE writes them as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.machine import facts
from benchmarks.solve import inputs
from benchmarks.solve.inputs import Document
from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.explain.pod import nearest_misses
from dovetail.kube.http.wire import Reader
from dovetail.model import labels
from dovetail.model.problem import Budget, Problem
from dovetail.solve.budget import Deadline, SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.solver import solve
from dovetail.verify import verify

ORDINARY = 20
_STAGES = ("decode", "read", "encode", "plan", "late", "explain", "check")
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ordinary() -> list[Document]:
    pods = []
    for number in range(ORDINARY):
        own = {"app": f"team-{number % 4}"}
        more: Document = {}
        if number % 4 == 1:
            more["topologySpreadConstraints"] = [inputs.spread(labels.ZONE, own)]
        pods.append(inputs.pod(number, 500, 1024, own, **more))
    return pods


def _term(key: str, *values: str, operator: str = "In") -> Document:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _evil(number: int, own: dict[str, str] | None = None, **spec: object) -> Document:
    return inputs.pod(100_000 + number, 100, 128, own, **spec)


def _sizes(
    count: int, own: Callable[[int], dict[str, str]], **spec: Callable[[int], object]
) -> list[Document]:
    """Pods of which each asks for another amount of CPU; labels and parts of the spec by its number."""
    return [
        inputs.pod(100_000 + n, 100 + n, 128, own(n), **{name: part(n) for name, part in spec.items()})
        for n in range(count)
    ]


def _named(number: int) -> dict[str, str]:
    return {"evil": f"e{number}"}


def _node(**parts: object) -> Document:
    return {"affinity": {"nodeAffinity": parts}}


def preferred_node(count: int) -> list[Document]:
    terms = [
        {"weight": 1 + n % 100, "preference": _term("example.com/nowhere", f"v{n}")} for n in range(count)
    ]
    return [_evil(0, **_node(**{_PREFERRED: terms}))]


def preferred_keys(count: int) -> list[Document]:
    terms = [
        {"weight": 1 + n % 100, "preference": _term(f"example.com/nowhere-{n}", "v")} for n in range(count)
    ]
    return [_evil(0, **_node(**{_PREFERRED: terms}))]


def required_terms(count: int) -> list[Document]:
    terms = [_term("example.com/nowhere", f"v{n}") for n in range(count)]
    return [_evil(0, **_node(**{_REQUIRED: {"nodeSelectorTerms": terms}}))]


def required_and_preferred(count: int) -> list[Document]:
    terms = [_term("example.com/nowhere", f"v{n}") for n in range(count // 2)]
    pref = [
        {"weight": 1 + n % 100, "preference": _term("example.com/nowhere", f"v{n}")}
        for n in range(count // 2)
    ]
    return [_evil(0, **_node(**{_REQUIRED: {"nodeSelectorTerms": terms}, _PREFERRED: pref}))]


def _pod_term(number: int, key: str = labels.ZONE) -> Document:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": f"evil-{number}"}}}


def preferred_pod(kind: str, count: int) -> list[Document]:
    terms = [{"weight": 1 + n % 100, "podAffinityTerm": _pod_term(n)} for n in range(count)]
    return [_evil(0, affinity={kind: {_PREFERRED: terms}})]


def required_pod(kind: str, count: int) -> list[Document]:
    return [_evil(0, affinity={kind: {_REQUIRED: [_pod_term(n) for n in range(count)]}})]


def spreads(when: str, count: int) -> list[Document]:
    rules = [
        {**inputs.spread(f"example.com/key-{n}", {"app": f"evil-{n}"}), "whenUnsatisfiable": when}
        for n in range(count)
    ]
    return [_evil(0, topologySpreadConstraints=rules)]


def spreads_all(when: str, count: int) -> list[Document]:
    rules = [
        {**inputs.spread(labels.ZONE, {}, 1 + n), "labelSelector": {}, "whenUnsatisfiable": when}
        for n in range(count)
    ]
    return [_evil(0, topologySpreadConstraints=rules)]


def tolerations(count: int) -> list[Document]:
    return [_evil(0, tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(count)])]


def values_in(count: int) -> list[Document]:
    values = [f"v{n}" for n in range(count)]
    pods = []
    for number in range(20):
        pods.append(
            _evil(
                number,
                **_node(
                    **{
                        _REQUIRED: {
                            "nodeSelectorTerms": [
                                _term("example.com/nowhere", *values, f"own-{number}", operator="NotIn")
                            ]
                        }
                    }
                ),
            )
        )
    return pods


def expressions(count: int) -> list[Document]:
    every = [{"key": f"example.com/k{n}", "operator": "NotIn", "values": ["x"]} for n in range(count)]
    return [_evil(0, **_node(**{_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": every}]}}))]


def expressions_unknown(count: int) -> list[Document]:
    every = [{"key": f"example.com/k{n}", "operator": "In", "values": ["x"]} for n in range(count)]
    return [_evil(0, **_node(**{_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": every}]}}))]


def one_key(count: int) -> list[Document]:
    every = [{"key": "example.com/k", "operator": "NotIn", "values": [f"x{n}"]} for n in range(count)]
    return [_evil(0, **_node(**{_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": every}]}}))]


def selector(count: int) -> list[Document]:
    return [_evil(0, nodeSelector={f"example.com/k{n}": "x" for n in range(count)})]


def long_key(count: int) -> list[Document]:
    key = "e" * 240 + ".com/" + "k" * 60
    return [_evil(n, nodeSelector={key + f"{n:03}": "x"}) for n in range(count)]


def ports(count: int) -> list[Document]:
    found = []
    for number in range(10):
        pod = _evil(number)
        pod["spec"]["containers"][0]["ports"] = [
            {"containerPort": n, "hostPort": 1 + number + n} for n in range(1, count)
        ]
        found.append(pod)
    return found


def namespaces(count: int) -> list[Document]:
    pods = []
    for number in range(20):
        term = {**_pod_term(number), "namespaces": [f"ns-{n}" for n in range(count)]}
        pods.append(_evil(number, {"app": "evil"}, affinity={"podAntiAffinity": {_REQUIRED: [term]}}))
    return pods


def distinct_plain(count: int) -> list[Document]:
    return [inputs.pod(100_000 + n, 100 + n, 128 + n) for n in range(count)]


def distinct_anti(count: int) -> list[Document]:
    """Each keeps away from all others, of all classes."""

    def others(number: int) -> object:
        unlike = {"key": "evil", "operator": "NotIn", "values": [f"e{number}"]}
        term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchExpressions": [unlike]}}
        return {"podAntiAffinity": {_REQUIRED: [term]}}

    return _sizes(count, _named, affinity=others)


def distinct_self_anti(count: int) -> list[Document]:
    return _sizes(
        count, _named, affinity=lambda n: inputs.near("podAntiAffinity", labels.HOSTNAME, _named(n))
    )


def distinct_spread(count: int) -> list[Document]:
    return _sizes(
        count,
        _named,
        topologySpreadConstraints=lambda n: [
            inputs.spread(key, _named(n)) for key in (labels.ZONE, labels.HOSTNAME)
        ],
    )


def distinct_selecting_all(count: int) -> list[Document]:
    """Every spread counts every pod."""
    return _sizes(
        count,
        _named,
        topologySpreadConstraints=lambda n: [{**inputs.spread(labels.ZONE, {}, 1 + n), "labelSelector": {}}],
    )


def distinct_affinity(count: int) -> list[Document]:
    """A chain: each wants to be near the next."""
    return _sizes(
        count,
        _named,
        affinity=lambda n: inputs.near("podAffinity", labels.HOSTNAME, _named((n + 1) % count)),
    )


def distinct_preferences(count: int) -> list[Document]:
    pods = []
    for n in range(count):
        terms = [
            {"weight": 1 + k % 100, "preference": _term("example.com/nowhere", f"v{n}-{k}")}
            for k in range(50)
        ]
        pods.append(_evil(n, **_node(**{_PREFERRED: terms})))
    return pods


def distinct_resources(count: int) -> list[Document]:
    """Every pod asks for a resource of its own."""
    pods = []
    for n in range(count):
        pod = _evil(n)
        pod["spec"]["containers"][0]["resources"]["requests"][f"example.com/r{n}"] = "1"
        pods.append(pod)
    return pods


def keys(count: int) -> list[Document]:
    """Anti-affinity over many topology keys."""
    terms = [_pod_term(0, f"example.com/key-{n}") for n in range(count)]
    return [_evil(n, {"app": "evil-0"}, affinity={"podAntiAffinity": {_REQUIRED: terms}}) for n in range(5)]


def far(count: int) -> list[Document]:
    """One per zone: all but three cannot be placed."""
    return [
        _evil(n, {"app": "far"}, affinity=inputs.near("podAntiAffinity", labels.ZONE, {"app": "far"}))
        for n in range(count)
    ]


def far_distinct(count: int) -> list[Document]:
    """The same with different sizes: 300 classes that are left over."""
    own = {"app": "far"}
    return _sizes(count, lambda _: own, affinity=lambda _: inputs.near("podAntiAffinity", labels.ZONE, own))


def volumes(count: int) -> list[Document]:
    return [
        _evil(
            n,
            volumes=[
                {"name": f"v{k}", "persistentVolumeClaim": {"claimName": f"c{n}-{k}"}} for k in range(count)
            ],
        )
        for n in range(5)
    ]


def ephemeral(count: int) -> list[Document]:
    claim = {"spec": {"storageClassName": "any", "accessModes": ["ReadWriteOnce"]}}
    return [
        _evil(
            n, volumes=[{"name": f"v{k}", "ephemeral": {"volumeClaimTemplate": claim}} for k in range(count)]
        )
        for n in range(5)
    ]


def containers(count: int) -> list[Document]:
    pod = _evil(0)
    pod["spec"]["containers"] = [
        {"name": f"c{n}", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}} for n in range(count)
    ]
    return [pod]


FAMILY: dict[str, Callable[[], list[Document]]] = {
    "ordinary": list,
    "preferred node terms, 2000": lambda: preferred_node(2000),
    "preferred node terms, 8000": lambda: preferred_node(8000),
    "preferred node keys, 3000": lambda: preferred_keys(3000),
    "required terms, 8000": lambda: required_terms(8000),
    "required and preferred terms, 4000": lambda: required_and_preferred(4000),
    "preferred pod affinity, 2000": lambda: preferred_pod("podAffinity", 2000),
    "preferred pod anti, 2000": lambda: preferred_pod("podAntiAffinity", 2000),
    "required pod affinity, 2000": lambda: required_pod("podAffinity", 2000),
    "required pod anti, 2000": lambda: required_pod("podAntiAffinity", 2000),
    "soft spreads, 2000": lambda: spreads("ScheduleAnyway", 2000),
    "hard spreads, 1000": lambda: spreads("DoNotSchedule", 1000),
    "soft spreads over all, 1000": lambda: spreads_all("ScheduleAnyway", 1000),
    "hard spreads over all, 500": lambda: spreads_all("DoNotSchedule", 500),
    "tolerations, 20000": lambda: tolerations(20000),
    "values, 20 x 20000": lambda: values_in(20000),
    "expressions, 10000": lambda: expressions(10000),
    "expressions unknown, 10000": lambda: expressions_unknown(10000),
    "expressions of one key, 10000": lambda: one_key(10000),
    "selector, 10000": lambda: selector(10000),
    "long keys, 300": lambda: long_key(300),
    "host ports, 10 x 3000": lambda: ports(3000),
    "namespaces, 20 x 5000": lambda: namespaces(5000),
    "distinct plain, 3000": lambda: distinct_plain(3000),
    "distinct anti to all, 1000": lambda: distinct_anti(1000),
    "distinct anti to all, 3000": lambda: distinct_anti(3000),
    "distinct self anti, 3000": lambda: distinct_self_anti(3000),
    "distinct spreads, 3000": lambda: distinct_spread(3000),
    "distinct spreads over all, 1000": lambda: distinct_selecting_all(1000),
    "distinct affinity chain, 3000": lambda: distinct_affinity(3000),
    "distinct preferences, 200 x 50": lambda: distinct_preferences(200),
    "distinct resources, 3000": lambda: distinct_resources(3000),
    "topology keys, 5 x 1000": lambda: keys(1000),
    "one per zone, 300": lambda: far(300),
    "one per zone, 300 sizes": lambda: far_distinct(300),
    "volumes, 5 x 3000": lambda: volumes(3000),
    "ephemeral volumes, 5 x 3000": lambda: ephemeral(3000),
    "containers, 5000": lambda: containers(5000),
}


def pods(name: str) -> list[Document]:
    """One input of the family beside the ordinary pods."""
    return [*ordinary(), *FAMILY[name]()]


def problem(name: str) -> Problem:
    """The same, read."""
    return inputs.problem(pods(name), inputs.linear_types())


def measured(name: str, deadline: int = SECOND) -> dict[str, Any]:
    """Seconds per stage, and how many ordinary pods are left over."""
    body = msgspec.json.encode({"metadata": {}, "items": pods(name)})
    reader, types = Reader(Pod), inputs.linear_types()
    received = time.process_time_ns()
    read = [item for page in reader.slices(body) for item in page.items]
    decoded = time.process_time_ns()
    asked = inputs.problem(read, types)
    start = time.process_time_ns()
    Instance(asked, SolveBudget(Budget(), Deadline(start + deadline, time.process_time_ns)))
    encoded = time.process_time_ns()
    stop = Deadline(encoded + deadline, time.process_time_ns)
    plan = solve(asked, Budget.within(deadline), stop=stop)
    solved = time.process_time_ns()
    until = solved + deadline
    nearest_misses(asked, plan, lambda: time.process_time_ns() > until)
    explained = time.process_time_ns()
    broken = len(verify(asked, plan))
    checked = time.process_time_ns()
    usual = {f"default/pod-{number:06}" for number in range(ORDINARY)}
    return {
        "input": name,
        "bytes": len(body),
        "decode": (decoded - received) / SECOND,
        "read": (start - decoded) / SECOND,
        "encode": (encoded - start) / SECOND,
        "plan": (solved - encoded) / SECOND,
        "late": max(0.0, (solved - encoded - deadline) / SECOND),
        "explain": (explained - solved) / SECOND,
        "check": (checked - explained) / SECOND,
        "broken": broken,
        "ordinaryLeft": len(usual.intersection(plan.left)),
        "left": len(plan.left),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="inputs to measure, all by default")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    heads = " ".join(f"{stage:>7}" for stage in _STAGES)
    print(f"{'input':36} {'MiB':>6} {heads} {'ordinary left':>14} {'left':>6} {'broken':>6}")
    rows = []
    for name in arguments.names or FAMILY:
        row = measured(name)
        rows.append(row)
        times = " ".join(f"{row[stage]:6.2f}s" for stage in _STAGES)
        size = f"{row['bytes'] / 2**20:6.2f}"
        ends = f"{row['ordinaryLeft']:>14} {row['left']:>6} {row['broken']:>6}"
        print(f"{name:36} {size} {times} {ends}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": facts(), "rows": rows}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
