"""A hundred bad inputs: each ends in exit code 2 and in words that name its place, soon, in little memory."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import BAD_INPUT, run

MOST_MEMORY = 500 << 20  # bytes beside what is in use already
MOST_CPU = 10.0  # seconds of processor time of one input

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: example.com, kind: Class, name: any}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 500m}}}]}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: old, labels: {a: b}}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {capacity: {cpu: "2", memory: 8Gi, pods: "10"}, allocatable: {cpu: "2", memory: 8Gi, pods: "10"}}
"""
CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
STATEFUL = DEPLOYMENT.replace("Deployment", "StatefulSet").replace(
    "spec:\n", "spec:\n  serviceName: web\n", 1
)
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {parallelism: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""


def instance_type(**changes: Any) -> dict[str, Any]:
    where = {"topology.kubernetes.io/zone": "zone-a", "karpenter.sh/capacity-type": "on-demand"}
    names = {
        "node.kubernetes.io/instance-type": "large",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **where,
    }
    return {
        "name": "large",
        "requirements": [{"key": key, "operator": "In", "values": [name]} for key, name in names.items()],
        "offerings": [{"price": 0.1, "available": True, "requirements": where}],
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "50"},
        "overhead": {},
        **changes,
    }


def offering(**changes: Any) -> list[dict[str, Any]]:
    return [{**instance_type()["offerings"][0], **changes}]


def changed(text: str, *parts: str) -> str:
    """The text with parts replaced, pair by pair."""
    for old, new in zip(parts[::2], parts[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    return text


# Texts in place of a manifest, each with what is said of it.
TEXTS: dict[str, tuple[str | bytes, str]] = {
    # The form.
    "an alias bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "aliases stand for more",
    ),
    "an alias of itself": ("a: &a [*a]", "refers to itself"),
    "an alias of nothing": ("a: *nothing", "no anchor"),
    "a bomb of merged keys": (
        "a: &a {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join(['*a'] * 1500)}]}}\n" for i in range(50)),
        "apiVersion",
    ),
    "merged text": ("a: {<<: text}", "<< takes a map"),
    "deep lists": ("a: " + "[" * 100_000, "nested deeper"),
    "deep maps": ("a: " + "{a: " * 100_000, "nested deeper"),
    "deep indentation": ("\n".join(" " * n + "a:" for n in range(3_000)), "nested deeper"),
    "deep JSON": ('{"a":' * 100_000, "nested"),
    "deep lists in JSON": ("[" * 100_000 + "]" * 100_000, "nested"),
    "deep JSON in a list of objects": (
        '{"kind":"List","apiVersion":"v1","items":[' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "]}",
        "nested",
    ),
    "tabs": ("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", "malformed YAML"),
    "a key twice": ("apiVersion: v1\nkind: Pod\nkind: Node\n", "given twice"),
    "a key twice in JSON": ('{"apiVersion": "v1", "kind": "Pod", "kind": "Node"}', "given twice"),
    "a number and its text as keys": (
        changed(POD, "labels: {app: web}", 'labels: {1: a, "1": b}'),
        "given twice",
    ),
    "a map as key": ("{a: b}: c", "a key must be text"),
    "an unknown tag": ("a: !!python/object/apply:os.system [ls]", "tag"),
    "a tag that is wrong": ("a: !!int text", "is no int"),
    "a quote that never ends": ("a: 'b\nc: d\n", "malformed YAML"),
    "indentation that does not fit": ("a:\n    b: 1\n  c: 2\n", "malformed YAML"),
    "a list that never ends": ('{"a": [1, 2', "malformed"),
    "NaN in JSON": ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"generation": NaN}}', "NaN"),
    "infinity in JSON": (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"generation": -Infinity}}',
        "Infinity",
    ),
    "two values in one line of JSON": ('{"a": 1} {"b": 2} x', "malformed"),
    "an integer of 5,000 digits": (
        changed(DEPLOYMENT, "replicas: 3", "replicas: " + "9" * 5_000),
        "too long",
    ),
    "an integer of 5,000 digits in JSON": ('{"a": ' + "9" * 5_000 + "}", "too long|digits|too large"),
    "a number beyond all floats": ("a: 1e999", "too large"),
    "one line of five megabytes": ("a" * 5_000_000, "no Kubernetes object|is text|object"),
    "five megabytes of hyphens": ("- " * 2_500_000, "nested deeper"),
    "20,000 empty objects": ("{}\n---\n" * 20_000, "apiVersion|object"),
    "a template": ("{{ if .Values.a }}\nkind: Pod\n{{ end }}\n", "helm template"),
    "a template of Terraform": (
        'kind: Pod\n%{ if taints != "" ~}\ntaints: []\n%{ endif ~}\n',
        "templatefile",
    ),
    "HTML": ("<!DOCTYPE html>\n<html><body>404: Not Found</body></html>\n", "."),
    "Markdown": ("# Title\n\nSome text: with a colon\n\n- a\n", "."),
    "text": ("hello", "."),
    "a number": ("42", "."),
    "a list": ("[1, 2]", '"kind": "List"'),
    # The bytes.
    "zeros": (b"\0" * 1_000_000, "not text"),
    "a zero inside": (b"kind: Pod\0\n", "not text"),
    "an executable": (b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 100, "not"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not"),
    "Latin-1": ("kind: Pod # caf\xe9\n".encode("latin-1"), "not UTF-8"),
    "half a character": (b"a: \xe2\x82", "not UTF-8"),
    "a surrogate": (b"a: \xed\xa0\x80", "not UTF-8"),
    "UTF-16 that is cut": (b"\xff\xfe" + POD.encode("utf-16-le")[:-1], "UTF-16|UTF-8"),
    "UTF-32": (b"\xff\xfe\0\0" + POD.encode("utf-32-le"), "."),
    "gzip that ends early": (gzip.compress(POD.encode() * 50)[:40], "damaged"),
    "gzip of nothing but a head": (b"\x1f\x8b\x08", "damaged"),
    "gzip in gzip": (gzip.compress(gzip.compress(POD.encode())), "."),
    "a bomb in gzip": (gzip.compress(b"\0" * (300 << 20), 1), "not text|more than"),
    "escape codes in a name": (changed(POD, "name: web", 'name: "\\e[2J\\e]0;x\\a"'), "metadata.name"),
    "escape codes as a kind": (changed(POD, "kind: Pod", 'kind: "\\e[31mPod"'), r"\\x1b"),
    # The object.
    "no kind": ("apiVersion: v1\nmetadata: {name: a}\n", "kind"),
    "no apiVersion": ("kind: Pod\nmetadata: {name: a}\n", "apiVersion"),
    "a kind that is a list": ("apiVersion: v1\nkind: [Pod]\n", "kind"),
    "an apiVersion that is a number": ("apiVersion: 1\nkind: Pod\n", "apiVersion"),
    "a typo in a known group": (changed(DEPLOYMENT, "Deployment", "Deploymnet"), "Deployment"),
    "a list whose items are text": ("apiVersion: v1\nkind: List\nitems: text\n", "items"),
    "a list of numbers": ("apiVersion: v1\nkind: List\nitems: [1, 2]\n", "."),
    "metadata that is a list": (
        "apiVersion: v1\nkind: Pod\nmetadata: []\nspec: {containers: [{name: a}]}\n",
        "metadata",
    ),
    "no name": (changed(POD, "name: web, ", ""), "name"),
    "a name of ten megabytes": (changed(POD, "name: web", "name: " + "a" * 1_000_000), "metadata.name"),
    "labels that are a list": (changed(POD, "labels: {app: web}", "labels: [app, web]"), "metadata.labels"),
    "an integer as the value of a label": (changed(POD, "app: web", "app: 1"), "metadata.labels"),
    "a Pod without a spec": ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "spec"),
    "a Pod without containers": (changed(POD, POD[POD.index("spec:") :], "spec: {}\n"), "container"),
    "a Pod with no container": (
        changed(POD, POD[POD.index("spec:") :], "spec: {containers: []}\n"),
        "container",
    ),
    "a Pod whose containers are text": (
        changed(POD, POD[POD.index("spec:") :], "spec: {containers: x}\n"),
        "containers",
    ),
    "a container that is null": (
        changed(POD, POD[POD.index("spec:") :], "spec: {containers: [null]}\n"),
        "containers",
    ),
    "a container without a name": (changed(POD, "name: c, ", ""), "name"),
    "an amount that is none": (changed(POD, "500m", "half"), "requests"),
    "an amount that is a list": (changed(POD, "500m", "[1]"), "requests"),
    "a negative amount": (changed(POD, "500m", "-1"), "resources"),
    "a request above its limit": (
        changed(POD, "{requests: {cpu: 500m, memory: 1Gi}}", "{requests: {cpu: 2}, limits: {cpu: 1}}"),
        "requests",
    ),
    "an unknown field": (changed(POD, "spec: {", "spec: {afinity: {}, "), "did you mean affinity"),
    "affinity at the wrong place": (changed(DEPLOYMENT, "replicas: 3", "affinity: {}"), "spec.affinity"),
    "a toleration that is text": (changed(POD, "spec: {", "spec: {tolerations: x, "), "tolerations"),
    "an operator that is none": (
        changed(POD, "spec: {", "spec: {tolerations: [{key: a, operator: Equals}], "),
        "operator",
    ),
    "a spread without a key": (
        changed(POD, "spec: {", "spec: {topologySpreadConstraints: [{maxSkew: 1}], "),
        "topologySpreadConstraints",
    ),
    "a spread of zero": (
        changed(
            POD,
            "spec: {",
            "spec: {topologySpreadConstraints: "
            "[{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}], ",
        ),
        "maxSkew",
    ),
    "a priority that is text": (changed(POD, "spec: {", "spec: {priority: high, "), "priority"),
    "replicas in quotes": (changed(DEPLOYMENT, "replicas: 3", 'replicas: "3"'), "replicas"),
    "replicas of a fraction": (changed(DEPLOYMENT, "replicas: 3", "replicas: 1.5"), "replicas"),
    "negative replicas": (changed(DEPLOYMENT, "replicas: 3", "replicas: -1"), "replicas"),
    "a billion replicas, one in each zone": (
        changed(
            DEPLOYMENT,
            "replicas: 3",
            "replicas: 1000000000",
            "spec: {containers",
            "spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}, "
            "containers",
        ),
        "1,000,000,000 pods",
    ),
    "a billion volumes of a StatefulSet": (
        changed(
            STATEFUL,
            "  replicas: 3",
            "  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], "
            "resources: {requests: {storage: 1Gi}}}}]\n  replicas: 1000000000",
        ),
        "1,000,000,000 pods",
    ),
    "replicas beyond 32 bits": (changed(DEPLOYMENT, "replicas: 3", f"replicas: {10**18}"), "2147483647"),
    "parallelism beyond 32 bits": (
        changed(JOB, "parallelism: 1", f"parallelism: {10**18}"),
        "spec.parallelism: Invalid value: must be less",
    ),
    "a billion pods of a Job with a volume claim": (
        changed(
            JOB,
            "parallelism: 1",
            "parallelism: 1000000000",
            "spec: {restartPolicy",
            "spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], restartPolicy",
        ),
        "1,000,000,000 pods",
    ),
    "a thousand times 10,000 replicas": (
        "\n---\n".join(
            changed(DEPLOYMENT, "name: web", f"name: web{n}", "replicas: 3", "replicas: 10000")
            for n in range(150)
        ),
        "1,500,000 pods",
    ),
    "the same object twice": (f"{POD}\n---\n{POD}", "given twice"),
    "two objects without --- between": (POD + POD, "put --- between"),
    "a selector that does not match": (changed(DEPLOYMENT, "{app: web}", "{app: other}"), "selector"),
    "a Node whose capacity is text": (
        changed(NODE, 'capacity: {cpu: "2", memory: 8Gi, pods: "10"}', "capacity: x"),
        "capacity",
    ),
    "a Node with an amount that is none": (changed(NODE, "8Gi", "8GiB"), "8GiB"),
    "a node of less than nothing": (
        changed(NODE, 'allocatable: {cpu: "2"', 'allocatable: {cpu: "-2"'),
        "status",
    ),
    "a taint without a key": (changed(NODE, "key: a, ", ""), "key"),
    "a volume claim without a size": (changed(CLAIM, "storage: 1Gi", "storage: big"), "storage"),
    "a pool without a class": (
        changed(POOL, "nodeClassRef: {group: example.com, kind: Class, name: any}", "taints: []"),
        "nodeClassRef",
    ),
    "a requirement without values": (changed(POOL, "values: [on-demand]", "values: []"), "must have a value"),
    "a weight of 1,000": (changed(POOL, "spec:\n", "spec:\n  weight: 1000\n"), "weight"),
    "a limit that is none": (changed(POOL, "spec:\n", "spec:\n  limits: {cpu: lots}\n"), "limits"),
    "a budget that is none": (
        changed(POOL, "spec:\n", "spec:\n  disruption: {consolidateAfter: 1m, budgets: [{nodes: 110%}]}\n"),
        "budgets",
    ),
    "a duration that is none": (
        changed(POOL, "spec:\n", "spec:\n  disruption: {consolidateAfter: soon}\n"),
        "consolidateAfter",
    ),
    "a class without a role": (changed(CLASS, "role: nodes\n  ", ""), "role"),
    "a class with two kinds of selectors": (
        changed(CLASS, "alias: al2023@latest", "alias: al2023@latest, id: ami-1"),
        "amiSelectorTerms",
    ),
}

# Instance types in place of a user's own.
TYPES: dict[str, tuple[Any, str]] = {
    "a price that is text": ([instance_type(offerings=offering(price="cheap"))], "price"),
    "a price of 1e30": ([instance_type(offerings=offering(price=1e30))], "price"),
    "a negative price": ([instance_type(offerings=offering(price=-1))], "price"),
    "negative capacity": (
        [instance_type(capacity={"cpu": "-4", "memory": "16Gi", "pods": "50"})],
        "capacity",
    ),
    "negative overhead": ([instance_type(overhead={"cpu": "-4"})], "overhead"),
    "capacity of 10^30": (
        [instance_type(capacity={"cpu": "1e30", "memory": "16Gi", "pods": "50"})],
        "capacity",
    ),
    "capacity that is a list": ([instance_type(capacity=[])], "capacity"),
    "the same type twice": ([instance_type(), instance_type()], "twice|large"),
    "no types": ([], "type"),
    "text": ("x", "."),
}


@contextmanager
def bounded() -> Iterator[None]:
    """No more memory and processor time than a bad input may take."""

    def late(*_: object) -> None:
        raise AssertionError(f"took over {MOST_CPU} s of processor time")

    before = signal.signal(signal.SIGVTALRM, late)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError):  # where there is no /proc, memory is not looked at
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_MEMORY, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


Planned = Callable[..., str]


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """Plans with these files beside a good pool and a good type; answers what is said of them."""
    (tmp_path / "pool.yaml").write_text(POOL)
    (tmp_path / "types.json").write_text(json.dumps([instance_type()]))

    def plan(*files: str, pool: str = "pool.yaml", types: str = "types.json") -> str:
        named = [str(tmp_path / name) for name in (pool, *files) if name]
        with bounded():
            code = run(["plan", "-f", *named, "--instance-types", str(tmp_path / types), "--work", "1000"])
        said = capsys.readouterr().err
        assert code == BAD_INPUT, said[:500]
        assert "Traceback" not in said
        assert said.startswith("dovetail: ")
        assert not set(map(chr, range(32))) - {"\n", "\t"} & set(said)
        return said

    return plan


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str, tmp_path: Path, planned: Planned) -> None:
    content, words = TEXTS[name]
    file = tmp_path / "bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = planned("bad.yaml", pool="" if "kind: NodePool" in str(content) else "pool.yaml")
    assert re.search(words, said), said[:500]
    assert "bad.yaml" in said


@pytest.mark.parametrize("name", TYPES)
def test_instance_types(name: str, tmp_path: Path, planned: Planned) -> None:
    document, words = TYPES[name]
    (tmp_path / "bad.json").write_text(json.dumps(document))
    (tmp_path / "pod.yaml").write_text(POD)
    assert re.search(words, planned("pod.yaml", types="bad.json"))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)
    os.close(here)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _folder_of_a_chart(path: Path) -> None:
    path.mkdir()
    (path / "Chart.yaml").write_text("name: x\n")


def _kustomization(path: Path) -> None:
    path.mkdir()
    (path / "kustomization.yaml").write_text("resources: []\n")


def _folder_above(path: Path) -> None:
    path.mkdir()
    (path / "below").mkdir()
    (path / "below" / "a.yaml").write_text(POD)


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _: None, "no such file or folder"),
    "a pipe without a writer": (_pipe, "nothing writes to"),
    "a socket": (_socket, "is a socket"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    "an empty file": (Path.touch, "holds no objects"),
    "an empty folder": (Path.mkdir, "holds no manifests"),
    "the null device": (lambda path: path.symlink_to("/dev/null"), "holds no objects"),
    "a link to itself": (_loop, "cannot be read"),
    "a chart": (_folder_of_a_chart, "helm template"),
    "a kustomization": (_kustomization, "kubectl kustomize"),
    "manifests in a sub-folder": (_folder_above, "add -R"),
}


@pytest.mark.parametrize("name", PLACES)
def test_places(name: str, tmp_path: Path, planned: Planned) -> None:
    make, words = PLACES[name]
    make(tmp_path / "bad")
    assert words in planned("bad")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--node-surcharge", "1e30"), "--node-surcharge"),
        (("--node-surcharge", "NaN"), "--node-surcharge"),
        (("--deadline", "soon"), "--deadline"),
        (("--deadline", "-1s"), "--deadline"),
        (("--work", "0"), "--work"),
        (("--work", "many"), "--work"),
        (("--spot-diversity", "0"), "--spot-diversity"),
        (("--spot-launch-types", "0"), "--spot-launch-types"),
        (("--fail-on", "price>3"), "--fail-on"),
        (("--prices", "/dev/null"), "--prices"),
        (("--region", "us-east-1"), "--region"),
        (("-f", "https://example.com/a.yaml"), "curl"),
        (("-f", "a" * 10_000), "no such file|cannot be read"),
        (("-f", ""), "."),
        (("--trace", "/no/such/folder/file"), "--trace"),
        (("--report", "/no/such/folder/file"), "--report"),
        (("--report", "/"), "a folder"),
    ],
)
def test_flags(
    flags: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all.yaml").write_text(f"{POOL}\n---\n{POD}")
    (tmp_path / "types.json").write_text(json.dumps([instance_type()]))
    files = ["-f", str(tmp_path / "all.yaml"), "--instance-types", str(tmp_path / "types.json")]
    with bounded():
        assert run(["plan", *files, *flags]) == BAD_INPUT
    assert re.search(words, capsys.readouterr().err)


# What looks bad and is right: exit code 0.
RIGHT: dict[str, bytes] = {
    "UTF-8 with a mark": b"\xef\xbb\xbf" + POD.encode(),
    "UTF-16": POD.encode("utf-16"),
    "UTF-16 of the other end": b"\xfe\xff" + POD.encode("utf-16-be"),
    "lines of Windows": POD.replace("\n", "\r\n").encode(),
    "gzip": gzip.compress(POD.encode()),
    "an integer as a key": changed(POD, "app: web", "1: web").encode(),
    "10^18 CPUs": changed(POD, "500m", '"1000000000000000000"').encode(),
    "10^30 CPUs": changed(POD, "500m", '"1e30"').encode(),
    "1e30 bytes": changed(POD, "1Gi", '"1e30"').encode(),
    "no replicas": changed(DEPLOYMENT, "replicas: 3", "replicas: 0").encode(),
    "a node of 10^30 CPUs": NODE.replace('"2"', '"1e30"').encode(),
    "thousands of labels": changed(POD, "app: web", ", ".join(f"a{n}: b" for n in range(5_000))).encode(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pool.yaml").write_text(POOL)
    (tmp_path / "odd.yaml").write_bytes(RIGHT[name])
    (tmp_path / "types.json").write_text(json.dumps([instance_type()]))
    files = ["-f", str(tmp_path / "pool.yaml"), str(tmp_path / "odd.yaml")]
    with bounded():
        code = run(["plan", *files, "--instance-types", str(tmp_path / "types.json"), "--work", "1000"])
    assert code == 0, capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(f"{POOL}\n---\n{POD}")
    (tmp_path / "types.json").write_text(json.dumps([instance_type()]))
    files = ["-f", str(tmp_path / "all.yaml"), "--instance-types", str(tmp_path / "types.json")]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "dovetail", "plan", *files, "--work", "1000"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == BAD_INPUT
    assert "the answer cannot be written: No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_there_are_a_hundred() -> None:
    assert len(TEXTS) + len(TYPES) + len(PLACES) >= 100
