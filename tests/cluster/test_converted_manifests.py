"""What `dovetail convert` makes of a hundred old manifests, an API server with today's definitions takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cluster.controlplane.definitions import wait_until_served
from tests.cluster.controlplane.start import ControlPlane
from tests.unit.old_manifests import files
from tests.unit.test_yaml_scalars import SCALARS


def test_old_manifests_are_taken_once_converted(api_server: ControlPlane, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    for name, text in files().items():
        (old / name).write_text(text)
    dovetail = (sys.executable, "-m", "dovetail")
    defined = subprocess.run([*dovetail, "crds"], capture_output=True, text=True, check=True).stdout
    api_server.run("kubectl", "apply", "--server-side", "-f", "-", stdin=defined)
    wait_until_served(api_server)
    subprocess.run([*dovetail, "convert", "-f", str(old), "--out", str(new)], check=True, capture_output=True)
    for name in files():
        if name.startswith("values-"):
            (new / name).unlink()
    strictly = ("--server-side", "--dry-run=server", "--validate=strict")
    said = api_server.run("kubectl", "apply", *strictly, "-f", str(new), "-o", "name")
    names = said.splitlines()
    assert len(names) > 100
    kinds = {line.partition("/")[0] for line in names}
    assert {"nodepool.karpenter.sh", "ec2nodeclass.karpenter.k8s.aws", "deployment.apps"} <= kinds
    # Old ones are refused there, which is what the conversion is for.
    assert (
        json.loads(api_server.run("kubectl", "get", "--raw", "/apis/karpenter.sh"))["versions"][0]["version"]
        == "v1"
    )


def test_kubectl_reads_scalars_as_we_do(api_server: ControlPlane) -> None:
    lines = [f"  k{index}: {text}" for index, text in enumerate(SCALARS)]
    text = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: scalars}", "data:", *lines])
    unjudged = ("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-")
    read = json.loads(api_server.run("kubectl", *unjudged, stdin=text))["data"]
    assert [read[f"k{index}"] for index in range(len(SCALARS))] == list(SCALARS.values())
