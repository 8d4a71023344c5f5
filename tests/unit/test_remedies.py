"""What is to be done about input that was meant otherwise: each slip has its remedy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dovetail.cli.main import run
from dovetail.cloud.catalog.file import read_instance_types
from dovetail.cloud.catalog.pricefile import read_prices

_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  containers:
  - name: c
    image: i
    resources: {requests: {cpu: 1, memory: 1Gi}}
"""
_DEPLOYMENT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: x}}
spec:
  replicas: 3
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    {_POD.partition("name: x}")[2].strip().replace(chr(10), chr(10) + "    ")}
"""


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (_POD.replace("1Gi", "4GB"), "a.yaml", "did you mean 4G?"),
        (_POD.replace("1Gi", "500mi"), "a.yaml", "did you mean 500Mi?"),
        (_POD.replace("cpu: 1", "cpu: 2vCPU"), "a.yaml", "did you mean 2?"),
        (_POD.replace("cpu: 1", "cpu: ${CPU}"), "a.yaml", "fill ${CPU} in, as envsubst < "),
        (_POD.replace("name: x", "name: $(NAME)"), "a.yaml", "fill $(NAME) in, as envsubst < "),
        (_POD.replace("cpu: 1", 'cpu: "{{ .Values.cpu }}"'), "a.yaml", "helm template CHART"),
        (_DEPLOYMENT.replace("replicas: 3", 'replicas: "3"'), "a.yaml", "write it without quotes: 3"),
        (_DEPLOYMENT.replace("replicas: 3", "replicas: $REPLICAS"), "a.yaml", "fill $REPLICAS in"),
        ('// the pod\n{"kind": "Pod"}', "a.json", "JSON takes no comments"),
        ('{"kind": "Pod",}', "a.json", "JSON takes no comma after the last item"),
        ("{'kind': 'Pod'}", "a.json", "single quotes are none of JSON's"),
    ],
)
def test_a_slip_has_its_remedy(
    text: str, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert run(["plan", "-f", str(file), "--region", "us-east-1"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", [_POD, f"---\n{_POD}", f"# a pod\n{_POD}", _DEPLOYMENT])
def test_yaml_that_is_called_json_is_read(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert run(["plan", "-f", str(file), "--region", "us-east-1", "--work", "1000"]) == 0
    assert "have a place" in capsys.readouterr().out


def test_a_link_to_nothing_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "a.yaml"
    link.symlink_to("b.yaml")
    assert run(["plan", "-f", str(link), "--region", "us-east-1"]) == 2
    assert f"{link}: a link to nothing\n  it leads to b.yaml" in capsys.readouterr().err


_TYPES = [
    {
        "name": "a",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "offerings": [
            {
                "price": 1.0,
                "requirements": {"topology.kubernetes.io/zone": "z", "karpenter.sh/capacity-type": "spot"},
            }
        ],
        "capacity": {"cpu": "1", "memory": "1Gi", "pods": "10"},
    }
]


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", b""), ("utf-16", b""), ("utf-8", b"\xef\xbb\xbf")])
def test_types_and_prices_are_read_as_windows_writes_them(tmp_path: Path, encoding: str, mark: bytes) -> None:
    file = tmp_path / "a"
    file.write_bytes(mark + json.dumps(_TYPES).encode(encoding))
    assert [one.name for one in read_instance_types(file)] == ["a"]
    file.write_bytes(mark + "instanceType,price\nm5.large,0.1\n".encode(encoding))
    assert read_prices(file).listed


def test_a_damaged_price_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b"instanceType,price\n" * 99)[:20] + b"xx" * 20)
    assert run(["catalog", "--region", "us-east-1", "--prices", str(file)]) == 2
    assert "cannot be read" in capsys.readouterr().err
