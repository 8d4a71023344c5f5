"""What is given in place of manifests by mistake is named, with what to give instead."""

from __future__ import annotations

import bz2
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.base.errors import InputError
from dovetail.reading import read
from dovetail.reading.sources import decoded

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n"
# What a file holds -> what is said of it, and what to give instead.
TEXTS = {
    "error: You must be logged in to the server (Unauthorized)\n": (
        "an error of the command",
        "it says: error: You must be logged in",
    ),
    'Error from server (Forbidden): pods is forbidden: User "x" cannot list resource "pods"\n': (
        "an error of the command",
        "it says: Error from server (Forbidden): pods",
    ),
    "Unable to connect to the server: dial tcp: lookup a: no such host\n": (
        "an error of the command",
        "no such host",
    ),
    "The connection to the server localhost:8080 was refused - did you specify it?\n": (
        "an error of the command",
        "localhost:8080",
    ),
    "No resources found in default namespace.\n": ("found nothing", "-A"),
    "\n<!DOCTYPE html>\n<html><body><p>Sign in: a</p></body></html>\n": ("a web page", "curl -f"),
    '<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>\n': ("XML", "kubectl get"),
    "name,cpu,memory\nweb,500m,1Gi\n": ("CSV", "kubectl get"),
    '"name";"cpu"\r\n"web: a";"500m"\r\n': ("CSV", "kubectl get"),
    "NAME    READY   STATUS    RESTARTS     AGE\nweb-1   1/1     Running   2 (3d ago)   3d\n": (
        "a table for people",
        "kubectl get ... -o yaml",
    ),
    "LAST SEEN   TYPE     REASON\n3m          Normal   Pulled: a\n": ("a table for people", "-o yaml"),
    "Name:             web\nNamespace:        default\nNode:             a/10.0.0.1\n": (
        "kubectl describe",
        "-o yaml",
    ),
    f"NAME: web\nLAST DEPLOYED: Sat\nSTATUS: pending-install\nMANIFEST:\n---\n{POD}": (
        "helm prints",
        "helm get manifest",
    ),
    "services:\n  web: {image: nginx}\n": ("Docker Compose", "kompose convert"),
    '{"format_version": "1.2", "terraform_version": "1.7", "planned_values": {}}': (
        "Terraform",
        "kubectl get nodepools",
    ),
    '{"version": 4, "terraform_version": "1.7", "serial": 3, "resources": []}': ("Terraform", "kubectl"),
    "AWSTemplateFormatVersion: '2010-09-09'\nResources: {}\n": ("CloudFormation", "kubectl get"),
    "resources:\n- web.yaml\n": ("kustomization", "kubectl kustomize"),
    "replicaCount: 3\n": ("the values of a chart", "helm template CHART -f"),
    "apiVersion: v2\nname: web\nversion: 1.0.0\n": ("Chart.yaml", "helm template"),
    "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\n": ("a kubeconfig", "--kubeconfig"),
    '{"kind": "Status", "apiVersion": "v1", "message": "pods is forbidden", "code": 403}': (
        "answer that something failed",
        "it says: pods is forbidden",
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_holds_no_manifests_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read([file])
    what, remedy = TEXTS[text]
    assert what in refused.value.message
    assert remedy in refused.value.remedy
    assert refused.value.line == 1 + (len(text) - len(text.lstrip()))


def test_notes_after_manifests_are_named_where_they_begin(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"{POD}\nNOTES:\nThank you: enjoy.\n  kubectl get pods\n")
    with pytest.raises(InputError, match="the notes of a chart begin here") as refused:
        read([file])
    assert refused.value.line == 6


def test_notes_within_a_manifest_are_text(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n"
        "    NAME READY\n    NOTES:\n    a\n"
    )
    assert not read([file]).notes


@pytest.mark.parametrize("items", ["[]", "null"])
def test_an_empty_list_is_noted(items: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"apiVersion: v1\nkind: List\nitems: {items}\n")
    assert read([file]).notes == (f"{file}: the List holds no objects",)


def test_a_plan_of_terraform_is_no_archive_to_unpack(tmp_path: Path) -> None:
    file = tmp_path / "plan.out"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("tfplan", "a")
    with pytest.raises(InputError) as refused:
        read([file])
    assert refused.value.remedy.startswith("a plan of Terraform, it seems: kubectl get nodepools")


def test_a_list_needs_items(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: v1\nkind: List\nitem: []\n")
    with pytest.raises(InputError, match="a List needs items"):
        read([file])


def test_a_cluster_of_eksctl_says_what_to_give(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: a}\n")
    (note,) = read([file]).notes
    assert note.endswith("what its cluster has is not here (kubectl get nodes,pods -A -o yaml)")


@pytest.mark.parametrize(
    ("answer", "said", "remedy"),
    [
        ({"Reservations": [], "NextToken": "a"}, "aws ec2 describe-instances", "kubectl get nodes,pods -A"),
        ({"nodegroup": {"nodegroupName": "a"}}, "aws eks describe-nodegroup", "dovetail plan assumes"),
        ({"cluster": {"name": "a"}}, "aws eks describe-cluster", "--kubeconfig"),
        ({"InstanceTypes": []}, "aws ec2 describe-instance-types", "dovetail catalog"),
        ({"FormatVersion": "aws_v1", "PriceList": []}, "aws pricing get-products", "--prices"),
    ],
)
def test_answers_of_the_aws_cli_are_named(
    tmp_path: Path, answer: dict[str, object], said: str, remedy: str
) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(answer))
    with pytest.raises(InputError) as refused:
        read([file])
    assert refused.value.message == f"the file is the answer of {said}, not manifests"
    assert remedy in refused.value.remedy


_APP = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"


_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}


@pytest.mark.parametrize("written", [_APP, json.dumps(_NAMESPACE)])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_warnings_before_objects_are_left_out(tmp_path: Path, written: str, end: str) -> None:
    """kubectl's, where 2>&1 had both streams written to the file."""
    file = tmp_path / "a.yaml"
    warnings = (
        "Warning: v1 ComponentStatus is deprecated",
        "W1128 12:00:00.000001    1234 warnings.go:70] batch/v1beta1 CronJob is deprecated",
    )
    file.write_bytes("".join(f"{line}{end}" for line in (*warnings, written)).encode())
    reading = read([file])
    (found,) = reading.manifests
    assert (found.object.metadata.name, found.line) == ("a", 3)
    assert reading.notes == (f"{file}:1: left out, no part of a manifest: {warnings[0]} (and 1 more)",)


def test_what_is_wrong_after_a_warning_is_at_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("Warning: old\nError from server (Forbidden): nodes is forbidden\n")
    with pytest.raises(InputError) as refused:
        read([file])
    assert refused.value.line == 2


def test_links_in_a_folder_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    for name in ("given", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(_APP)
    (tmp_path / "given" / "back").symlink_to(tmp_path / "other")
    link = tmp_path / "given" / "back"
    notes = (f"{link}: 1 file behind this link to a folder not read; name it to read it",)
    assert read([tmp_path / "given"], recursive=True).notes == notes
    (tmp_path / "given" / "b.yaml").symlink_to("nowhere")
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read([tmp_path / "given"])


def _as_zstd(raw: bytes) -> bytes:
    return b"\x28\xb5\x2f\xfd\x00" + raw[:40].translate(bytes(range(255, -1, -1)))


@pytest.mark.parametrize(
    ("pack", "unpack"), [(lzma.compress, "xz -dc"), (bz2.compress, "bzip2 -dc"), (_as_zstd, "zstd -dc")]
)
def test_what_another_tool_packed_is_named_with_what_unpacks_it(
    tmp_path: Path, pack: Callable[[bytes], bytes], unpack: str
) -> None:
    packed = tmp_path / "pods.yaml.packed"
    packed.write_bytes(pack(b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" * 20))
    with pytest.raises(InputError) as raised:
        decoded(str(packed))
    assert raised.value.remedy == f"compressed, it seems: {unpack} {packed} | dovetail plan -f -"
