"""Requests by what was used: the rules, whose pods they are, what they save, and the patches."""

from __future__ import annotations

import copy
import gzip
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import yaml
from test_plan_cluster import faults

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cli.rightsize_input import Owners, read_usage
from dovetail.explain.sizes import (
    NOT_MEASURED,
    Advice,
    Owner,
    Part,
    Rules,
    Size,
    Use,
    Work,
    recommend,
    resized,
    rounded,
    used,
)
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.reading import read

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "rightsize"
SCHEMA = ROOT / "docs" / "reference" / "rightsize.schema.json"
MI = 1 << 20
WEB = Owner("Deployment", "shop", "web")
_Text = pytest.CaptureFixture[str]


def _use(high: int, most: int, samples: int = 100) -> Use:
    return Use(samples, high // 2, high, most, 0, 1, "prometheus")


def _sized(
    requests: dict[str, int],
    uses: dict[str, Use],
    limits: dict[str, int] | None = None,
    rules: Rules | None = None,
    **more: Any,
) -> dict[str, Size]:
    work = Work(WEB, ("shop/web-1",), (Part("app", requests, limits or {}),), **more.pop("work", {}))
    found = recommend(
        [work], {(WEB, "app", name): use for name, use in uses.items()}, {}, rules or Rules(), **more
    )
    return {size.resource: size for size in found}


@pytest.mark.parametrize(
    ("now", "use", "right", "too_small"),
    [
        (1000, _use(200, 900), 230, False),  # the percentile of CPU, not the most, and 15 % more
        (1000, _use(80, 900), 92, False),
        (1000, _use(1, 1), 10, False),  # the least
        (5, _use(1, 1), 5, False),  # which is no reason to ask for more
        (5, _use(7, 7), 10, True),
        (240, _use(200, 900), 240, False),  # within a tenth
        (250, _use(200, 200), 250, False),
        (210, _use(200, 200), 210, False),
        (199, _use(200, 200), 230, True),  # what is used has to be covered, however near it is
        (None, _use(200, 200), 230, True),
        (0, _use(0, 0), 0, False),
    ],
)
def test_cpu(now: int | None, use: Use, right: int, too_small: bool) -> None:
    size = _sized({} if now is None else {CPU: now}, {CPU: use})[CPU]
    assert (size.right, size.too_small) == (right, too_small)
    assert size.changed == (right != now)


@pytest.mark.parametrize(
    ("now", "high", "most", "right"),
    [
        (1000, 300, 400, 460),
        (1000, 100, 8, 1000 * 0 + 100),
        (1000, 890, 890, 1024),
        (1000, 800, 900, 1040),
        (100, 800, 1900, 2192),
    ],
)
def test_memory_by_the_most(now: int, high: int, most: int, right: int) -> None:
    size = _sized({MEMORY: now * MI}, {MEMORY: _use(high * MI, most * MI)})[MEMORY]
    near = abs(right - now) <= now / 10 and most <= now
    assert size.right == (now if near else right) * MI


def test_what_is_not_measured_stays() -> None:
    sizes = _sized({CPU: 500, MEMORY: MI}, {CPU: _use(10, 10)})
    assert not sizes[MEMORY].changed
    assert sizes[MEMORY].why == NOT_MEASURED


@pytest.mark.parametrize(
    ("way", "now", "limit", "high", "right_limit"),
    [
        ("keep", 1000, 2000, 100, 2000),
        ("scale", 1000, 2000, 100, 240),
        ("keep", 100, 200, 1000, 2300),  # else the request would be above it
        ("keep", None, 200, 1000, 1150),
        ("scale", 1000, None, 100, None),
    ],
)
def test_limits(way: Any, now: int | None, limit: int | None, high: int, right_limit: int | None) -> None:
    requests = {} if now is None else {CPU: now}
    limits = {} if limit is None else {CPU: limit}
    size = _sized(requests, {CPU: _use(high, high)}, limits, Rules(limits=way))[CPU]
    assert size.right_limit == right_limit
    assert size.right_limit is None or (size.right or 0) <= size.right_limit


def test_what_an_autoscaler_recommends_counts_where_nothing_was_measured() -> None:
    work = Work(WEB, ("shop/web-1",), (Part("app", {CPU: 1000, MEMORY: 100 * MI}, {}),))
    advice = {
        (WEB, "app", CPU): Advice(200, 100, 400),
        (WEB, "app", MEMORY): Advice(300 * MI, 200 * MI, 500 * MI),
    }
    cpu, memory = recommend([work], {(WEB, "app", CPU): _use(500, 500)}, advice, Rules())
    assert (cpu.right, memory.right) == (580, 300 * MI)
    assert memory.too_small


def test_what_pods_ask_for_as_a_whole_stays() -> None:
    size = _sized({CPU: 1000}, {CPU: _use(1, 1)}, work={"whole": frozenset({CPU})})[CPU]
    assert not size.changed
    assert "as a whole" in size.why


@pytest.mark.parametrize(
    ("resource", "amount", "found"),
    [
        (CPU, 99.2, 100),
        (CPU, 0, 0),
        (CPU, 230.00000001, 230),
        (CPU, 231, 240),
        (MEMORY, 5.0, MI),
        (MEMORY, 1025 * MI, 1040 * MI),
    ],
)
def test_round_figures(resource: str, amount: float, found: int) -> None:
    assert rounded(resource, amount) == found


def test_samples() -> None:
    nan_free = [(at, float(at)) for at in range(101)]
    use = Use.of([*nan_free, (200, -5.0)], 95, "prometheus")
    assert use is not None
    assert (use.samples, use.median, use.high, use.most, use.start, use.end) == (101, 50, 95, 100, 0, 100)
    assert Use.of([(1, -1.0)], 95, "prometheus") is None
    assert Use.of([], 95, "prometheus") is None


def test_the_busiest_pod_counts_and_those_that_were_short_do_not() -> None:
    work = Work(WEB, ("shop/web-1",), (Part("app", {}, {}),))
    measured = {
        ("shop", "web-1", "app", CPU): _use(100, 200),
        ("shop", "web-2", "app", CPU): _use(300, 400),
        ("shop", "web-3", "app", CPU): _use(900, 900, samples=3),
        ("shop", "web-1", "gone", CPU): _use(1, 1),
        ("shop", "other", "app", CPU): _use(1, 1),
    }

    def owner(namespace: str, pod: str, container: str) -> Owner | None:
        del namespace, container
        return WEB if pod.startswith("web") else None

    uses, strange = used({WEB: work}, measured, owner)
    found = uses[WEB, "app", CPU]
    assert (found.high, found.most, found.samples, strange) == (300, 400, 203, 2)
    short = {("shop", "web-3", "app", CPU): _use(900, 900, samples=3)}
    assert used({WEB: work}, short, owner)[0][WEB, "app", CPU].high == 900


_WORKLOADS = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: shop}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: app, image: web:1}}]}}
"""


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        ("web-5d4f8c7b9-x2x5p", "Deployment web"),
        ("web-api-5d4f8c7b9-x2x5p", "Deployment web-api"),
        ("db-0", "StatefulSet db"),
        ("db-12", "StatefulSet db"),
        ("db-x2x5p", ""),
        ("agent-x2x5p", "DaemonSet agent"),
        ("agent-0", ""),
        ("web-api-x2x5p", ""),  # "api" has vowels: no hash has
        ("web-x2x5p", ""),
        ("web", ""),
        ("", ""),
        ("-", ""),
    ],
)
def test_whose_a_pod_was_by_its_name(pod: str, owner: str, tmp_path: Path) -> None:
    pairs = (("Deployment", "web"), ("Deployment", "web-api"), ("StatefulSet", "db"), ("DaemonSet", "agent"))
    made = tmp_path / "all.yaml"
    made.write_text("---".join(_WORKLOADS.format(kind=kind, name=name) for kind, name in pairs))
    owners = Owners(read([made]))
    owners.learn(Work(Owner(kind, "shop", name), (), ()) for kind, name in pairs)
    found = owners.by_name("shop", pod, "app")
    assert (f"{found.kind} {found.name}" if found else "") == owner
    assert owners.by_name("other", pod, "app") is None


def test_sidecars_are_resized_and_other_init_containers_are_not() -> None:
    def container(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": "1"}}, **more}

    pod = decode(
        {
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {
                "containers": [container("app")],
                "initContainers": [container("side", restartPolicy="Always"), container("migrate")],
            },
        },
        Pod,
    )
    wanted = {WEB: {name: {CPU: 100} for name in ("app", "side", "migrate")}}
    problem = resized(Problem((pod,), ()), wanted, lambda _: WEB)
    assert pod_requests(problem.pods[0])[CPU] == 1100  # the init container beside the sidecar
    assert pod_requests(pod)[CPU] == 2000


def _series(
    resource: str, pod: str, values: list[Any], container: str = "app", **labels: str
) -> dict[str, Any]:
    return {
        "metric": {"namespace": "shop", "pod": pod, "container": container, "resource": resource, **labels},
        "values": [[1_773_000_000 + 300 * place, str(value)] for place, value in enumerate(values)],
    }


def _answer(*series: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}})


def test_usage_in_files(tmp_path: Path) -> None:
    both = tmp_path / "both.json.gz"  # two answers, one after the other
    text = (
        _answer(_series(CPU, "web-1", ["0.1", "0.3", "NaN", "-1"]))
        + "\n"
        + _answer(
            _series(MEMORY, "web-1", [MI, 2 * MI]),
            _series(MEMORY, "web-1", [3 * MI]),
            _series(CPU, "w", [1], "POD"),
        )
    )
    both.write_bytes(gzip.compress(text.encode()))
    counter = _series("", "web-2", [0, 30, 90, 0, 60])
    counter["metric"] |= {"__name__": "container_cpu_usage_seconds_total"}
    raw = tmp_path / "raw.json"
    raw.write_text(_answer(counter))
    now = tmp_path / "now.json"
    item = {
        "metadata": {"name": "web-3", "namespace": "shop"},
        "containers": [{"name": "app", "usage": {"cpu": "12345678n", "memory": "5Mi"}}],
    }
    now.write_text(json.dumps({"kind": "PodMetricsList", "items": [item]}))
    found = read_usage([both, raw, now], 95, 7)
    assert found["shop", "web-1", "app", CPU].most == 300
    assert found["shop", "web-1", "app", MEMORY].most == 3 * MI  # the greater where two say otherwise
    assert (found["shop", "web-2", "app", CPU].samples, found["shop", "web-2", "app", CPU].most) == (3, 200)
    assert found["shop", "web-3", "app", CPU] == Use(1, 13, 13, 13, 7, 7, "metrics-server")
    assert len(found) == 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("no JSON", "is no answer of Prometheus"),
        ("[1]", "is no answer of Prometheus"),
        ('{"status": "error", "error": "too many samples"}', "too many samples"),
        (_answer({"metric": {}, "value": [1, "2"]}), "is no range query"),
        (_answer({"metric": {"resource": CPU}, "values": [["x", "y"]]}), "are no pairs"),
        (_answer({"metric": {"resource": 5}, "values": []}), "a label is no text"),
        (_answer(_series("disk", "web-1", [1])), "not known whether it is CPU or memory"),
        (
            _answer(_series(CPU, "a", [1], cluster="x"), _series(CPU, "b", [1], cluster="y")),
            "several clusters",
        ),
        ('{"kind": "PodMetricsList", "items": [{"containers": 3}]}', "cannot be read"),
        ("[" * 100_000, "is no answer of Prometheus"),
    ],
)
def test_usage_that_is_none(text: str, complaint: str, tmp_path: Path, capsys: _Text) -> None:
    file = tmp_path / "usage.json"
    file.write_text(text)
    code = run(["rightsize", "-f", str(EXAMPLE / "cluster"), "--usage", str(file)])
    said = capsys.readouterr()
    assert (code, said.out) == (BAD_INPUT, "")
    assert complaint in said.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "nothing says what the pods use"),
        (["--cpu-percentile", "0"], "is no percentile"),
        (["--cpu-percentile", "nan"], "is no percentile"),
        (["--cpu-headroom", "much"], "is no share"),
        (["--memory-headroom=-1%"], "is no share"),
        (["--memory-headroom", "nan"], "is no share"),
        (["--least-cpu=-1"], "less than nothing"),
        (["--least-memory", "1GB"], "is not a quantity"),
        (["--window", "5m"], "less than an hour"),
        (["--window", "d"], "is not a duration"),
        (["--tries=-1"], "less than 0"),
        (["--prometheus", "prometheus:9090"], "is no address"),
        (["--prometheus", "http://127.0.0.1:1"], "does not answer"),
        (["--write", str(EXAMPLE)], "is there already"),
    ],
)
def test_flags_that_are_none(arguments: list[str], complaint: str, capsys: _Text) -> None:
    assert run(["rightsize", "-f", str(EXAMPLE / "cluster"), *arguments]) == BAD_INPUT
    said = capsys.readouterr()
    assert said.out == ""
    assert complaint in said.err


def _asked(capsys: _Text, *arguments: str) -> tuple[str, str]:
    code = run(["rightsize", "--work", "20000", "--region", "us-east-1", *arguments])
    said = capsys.readouterr()
    assert code == OK, said.err
    return said.out, said.err


def _of_example(capsys: _Text, *arguments: str) -> tuple[str, str]:
    given = (str(EXAMPLE / "cluster" / name) for name in ("01-node-pool.yaml", "02-workloads.yaml"))
    return _asked(capsys, "-f", *given, "--usage", str(EXAMPLE / "week.json.gz"), *arguments)


def test_the_example(capsys: _Text) -> None:
    given = ("-f", str(EXAMPLE / "cluster"), "--usage", str(EXAMPLE / "week.json.gz"))
    out, err = _asked(capsys, *given, "--tries", "3", "-o", "json")
    found = json.loads(out)
    assert list(faults(found, *[json.loads(SCHEMA.read_text())] * 2, "$")) == []
    costs = {row["what"]: row for row in found["costs"]}
    before, after = costs["Cheapest nodes, requests as they are"], costs["Cheapest nodes, right requests"]
    assert costs["Now"]["nodes"] == 17
    assert after["hourly"] < before["hourly"] < costs["Now"]["hourly"]
    saving = found["saving"]
    assert saving["hourly"] == pytest.approx(before["hourly"] - after["hourly"])
    assert 0 < saving["atLeastHourly"] <= saving["hourly"] <= saving["atMostHourly"]
    assert saving["atLeastHourly"] == pytest.approx(before["lowerBound"] - after["hourly"])
    assert found["nodesThatGo"]
    works = {work["name"]: work for work in found["workloads"]}
    assert (works["checkout"]["pods"], works["log-agent"]["perNode"]) == (14, True)
    assert sum(work["saving"] is not None for work in works.values()) == 3
    payments = works["payments"]["containers"][0]
    assert payments["cpu"]["tooSmall"]
    assert payments["cpu"]["recommended"] > payments["cpu"]["request"]
    catalog = works["catalog"]["containers"][0]["cpu"]
    assert catalog["recommended"] == catalog["request"]
    assert "HorizontalPodAutoscaler shop/catalog scales on it" in catalog["why"]
    assert "--with-hpa" in err


def test_tables_fit_a_terminal(capsys: _Text) -> None:
    out, _ = _of_example(capsys, "--tries", "1")
    tables = [line for line in out.splitlines() if "  " in line or "──" in line]
    assert max(map(len, tables)) <= 80
    assert "shop/checkout" in out
    assert "Proven, however pods are packed" in out


def _merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """As a strategic merge patch does, as far as these go: containers by name."""
    found = copy.deepcopy(document)
    for key, value in patch.items():
        if key in ("containers", "initContainers"):
            named = {one["name"]: one for one in found[key]}
            assert named.keys() >= {one["name"] for one in value}
            found[key] = [
                _merged(one, next((part for part in value if part["name"] == one["name"]), {}))
                for one in found[key]
            ]
        elif isinstance(value, dict):
            found[key] = _merged(found.get(key, {}), value)
        else:
            found[key] = value
    return found


def test_nothing_is_to_be_changed_once_the_patches_are_applied(tmp_path: Path, capsys: _Text) -> None:
    folder = tmp_path / "sizes"
    out, _ = _of_example(capsys, "--tries", "0", "--with-hpa", "-o", "yaml", "--write", str(folder))
    patches = list(yaml.safe_load_all(out))
    files = [yaml.safe_load(file.read_text()) for file in sorted(folder.iterdir())]
    assert sorted(map(str, patches)) == sorted(map(str, files))
    known = {(one["kind"], one["metadata"]["name"]): one for one in patches}
    manifests = list(yaml.safe_load_all((EXAMPLE / "cluster" / "02-workloads.yaml").read_text()))
    applied = [_merged(one, known.pop((one["kind"], one["metadata"]["name"]), {})) for one in manifests]
    assert not known
    autoscaler = next(one for one in applied if one["kind"] == "HorizontalPodAutoscaler")
    assert autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 100
    after = tmp_path / "after.yaml"
    after.write_text(yaml.safe_dump_all(applied))
    pool = EXAMPLE / "cluster" / "01-node-pool.yaml"
    given = ("-f", str(pool), str(after), "--usage", str(EXAMPLE / "week.json.gz"), "--with-hpa")
    out, _ = _asked(capsys, *given)
    assert "nothing is to be changed" in out


_SHOP = """
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: shop}
spec:
  initContainers:
  - {name: side, image: x, restartPolicy: Always, resources: {requests: {cpu: 500m}}}
  - {name: migrate, image: x, resources: {requests: {cpu: 3}}}
  containers:
  - {name: app, image: x, resources: {requests: {cpu: 2, nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: app, image: x, resources: {requests: {cpu: 2, memory: 2Gi}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: app, image: x, resources: {requests: {cpu: 2}}}]}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: x}]}}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {targetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}}
status:
  recommendation:
    containerRecommendations:
    - {containerName: app, target: {cpu: 250m, memory: 300Mi}, lowerBound: {cpu: nonsense}, upperBound: []}
    - 7
    - {containerName: 3, target: {cpu: 1}}
    - {containerName: app2, target: 5}
"""


def test_all_sorts_of_owners(tmp_path: Path, capsys: _Text) -> None:
    shop, week = tmp_path / "shop.yaml", tmp_path / "week.json"
    shop.write_text(_SHOP)
    week.write_text(
        _answer(
            _series(CPU, "gpu", [0.2] * 30),
            _series(CPU, "gpu", [0.01] * 30, "side"),
            _series(CPU, "gpu", [2.9], "migrate"),
            _series(MEMORY, "nightly-29001600-bcdfg", [1e9] * 30),
            _series(CPU, "import-x2x5p", [1] * 30),
            _series(CPU, "gone-0", [1] * 30),
        )
    )
    given = ("-f", str(shop), "--usage", str(week))
    out, err = _asked(capsys, *given, "-o", "yaml", "--tries", "0")
    patches = {one["kind"]: one for one in yaml.safe_load_all(out)}
    assert patches["Pod"]["spec"] == {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "230m"}}}],
        "initContainers": [{"name": "side", "resources": {"requests": {"cpu": "12m"}}}],
    }
    job = patches["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert job["containers"][0]["resources"] == {"requests": {"memory": "1104Mi"}}
    assert patches.keys() == {"Pod", "CronJob"}
    assert "Jobs cannot be changed" in err
    assert "no patches of other groups' objects: Rollout shop/web" in err
    assert "pods of Pod shop/gpu ask for no less cpu than their init containers need" in err
    assert "VerticalPodAutoscaler shop/web sets the requests of Rollout shop/web itself" in err
    assert "2 series are of pods or containers that nothing here makes" in err
    alone, _ = _asked(capsys, "-f", str(shop), "-o", "json", "--tries", "0")
    web = next(one for one in json.loads(alone)["workloads"] if one["kind"] == "Rollout")
    assert web["containers"][0]["cpu"]["recommended"] == 250
    assert web["containers"][0]["memory"]["verticalPodAutoscaler"]["upperBound"] is None


def test_a_plan_says_what_autoscalers_change(tmp_path: Path, capsys: _Text) -> None:
    shop = tmp_path / "shop.yaml"
    for mode, said in (("", True), ("updatePolicy: {updateMode: Initial}, ", True), ("", False)):
        off = "" if said else "updatePolicy: {updateMode: 'Off'}, "
        shop.write_text(_SHOP.replace("spec: {targetRef", f"spec: {{{mode}{off}targetRef"))
        assert run(["plan", "-f", str(shop), "--region", "us-east-1", "--work", "20000"]) == OK
        err = capsys.readouterr().err
        assert ("Rollout shop/web (app cpu 250m, memory 300Mi)" in err) == said


@pytest.mark.parametrize("most", ["1e30", "1e300"])
def test_what_no_node_can_have(most: str, tmp_path: Path, capsys: _Text) -> None:
    shop, week = tmp_path / "shop.yaml", tmp_path / "week.json"
    shop.write_text(_SHOP)
    week.write_text(_answer(_series(MEMORY, "gpu", [most] * 30)))
    out, _ = _asked(capsys, "-f", str(shop), "--usage", str(week), "--tries", "0")
    assert "1 pod has no place on nodes of the NodePools, and no part in either plan: shop/gpu" in out


_KEDA = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: nightly, namespace: shop, uid: uid-so}
spec:
  scaleTargetRef: {name: api}
  triggers: [{type: memory, metricType: Utilization, metadata: {value: "60"}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: keda-hpa-nightly
  namespace: shop
  uid: uid-hpa
  ownerReferences:
  - {apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: nightly, uid: uid-so, controller: true}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  maxReplicas: 9
  metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 60}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, uid: uid-api}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: app, image: x, resources: {requests: {cpu: 1, memory: 4Gi}}}]}
"""


def test_what_keda_scales_is_left_to_people(tmp_path: Path, capsys: _Text) -> None:
    shop, week = tmp_path / "shop.yaml", tmp_path / "week.json"
    shop.write_text(_KEDA)
    pod = "api-5d4f8c7b9-x2x5p"
    week.write_text(_answer(_series(CPU, pod, [0.1] * 30), _series(MEMORY, pod, [1e9] * 30)))
    given = ("-f", str(shop), "--usage", str(week), "--tries", "0", "--with-hpa")
    out, err = _asked(capsys, *given, "-o", "yaml")
    (patch,) = yaml.safe_load_all(out)
    container = patch["spec"]["template"]["spec"]["containers"][0]
    assert container == {"name": "app", "resources": {"requests": {"cpu": "120m"}}}
    assert err.count("ScaledObject shop/nightly scales on 60% of the memory request") == 1
    assert "change both by hand" in err


def _kubeconfig(folder: Path, port: int) -> Path:
    file = folder / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "a",
                "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "a", "user": {"token": "t"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            }
        )
    )
    return file


class _Server(BaseHTTPRequestHandler):
    """Nodes, pods and, where there are some, figures of a metrics server."""

    lists: ClassVar[dict[str, dict[str, Any]]] = {}

    def do_GET(self) -> None:
        found = self.lists.get(self.path.partition("?")[0])
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found or {"kind": "Status", "code": 404}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize("measured", [True, False])
def test_a_cluster_with_and_without_a_metrics_server(measured: bool, tmp_path: Path, capsys: _Text) -> None:
    document = json.loads(gzip.decompress((EXAMPLE / "cluster" / "nodes-and-pods.json.gz").read_bytes()))
    kinds = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "ReplicaSet": "/apis/apps/v1/replicasets"}
    _Server.lists = {
        path: {"kind": f"{kind}List", "items": [one for one in document["items"] if one["kind"] == kind]}
        for kind, path in kinds.items()
    }
    if measured:
        _Server.lists["/apis/metrics.k8s.io/v1beta1/pods"] = {
            "kind": "PodMetricsList",
            "items": [
                {
                    "metadata": {name: one["metadata"][name] for name in ("name", "namespace")},
                    "containers": [{"name": "app", "usage": {"cpu": "20m", "memory": "300Mi"}}],
                }
                for one in _Server.lists["/api/v1/pods"]["items"]
            ],
        }
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            pool = str(EXAMPLE / "cluster" / "01-node-pool.yaml")
            given = ("--kubeconfig", str(_kubeconfig(tmp_path, server.server_port)), "-f", pool)
            code = run(["rightsize", *given, "--work", "5000", "--tries", "0", "--region", "us-east-1"])
        finally:
            server.shutdown()
            thread.join()
    said = capsys.readouterr()
    if not measured:
        assert (code, said.out) == (BAD_INPUT, "")
        assert "nothing says what the pods use" in said.err
        return
    assert code == OK, said.err
    assert "Measured at a single moment" in said.out
    assert "a single moment says nothing of peaks" in said.err
    assert "shop/checkout" in said.out
