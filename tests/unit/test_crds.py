"""The definitions that `dovetail crds` prints, as far as no API server is needed to judge them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dovetail.api.crd import CustomKind, definition, fields
from dovetail.api.karpenter.definitions import DEFINITIONS, NODE_CLAIM
from dovetail.api.schema import Schema
from dovetail.api.scheme import BY_GVK

KINDS = pytest.mark.parametrize("kind", DEFINITIONS, ids=lambda kind: kind.kind)


def dovetail(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dovetail", *arguments], capture_output=True, text=True, check=False
    )


def nodes(schema: Schema) -> Iterator[Schema]:
    yield schema
    for child in (*schema.properties.values(), schema.values, schema.items):
        if child is not None:
            yield from nodes(child)


@KINDS
def test_kubectl_explain_has_words_for_every_field_and_for_no_other(kind: CustomKind) -> None:
    assert set(kind.words) == set(fields(kind))
    assert all(text.endswith(".") for text in kind.words.values())


@KINDS
def test_every_rule_can_be_asked_by_an_api_server(kind: CustomKind) -> None:
    rules = [rule for node in nodes(kind.schema) for rule in node.rules]
    assert all(rule.cel and rule.message and not rule.at for rule in rules)
    assert all(("oldSelf" in rule.cel) == (rule.transition is not None) for rule in rules)


@KINDS
def test_names_are_those_that_the_controllers_use(kind: CustomKind) -> None:
    read = BY_GVK.get((kind.api_version, kind.kind))
    if read is not None:
        assert (kind.plural, kind.namespaced) == (read.PLURAL, read.NAMESPACED)


def test_columns_of_a_node_claim() -> None:
    columns = definition(NODE_CLAIM)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == [
        *("Type", "Capacity", "Zone", "Node", "Ready", "Age")
    ]
    wide = [column["name"] for column in columns if column.get("priority")]
    assert wide == ["ImageID", "ID", "NodePool", "NodeClass", "Drifted"]
    assert columns[0]["jsonPath"] == r".metadata.labels.node\.kubernetes\.io/instance-type"


def test_prints_all_of_them_as_yaml_or_json() -> None:
    plain, as_json = dovetail("crds"), dovetail("crds", "-o", "json")
    assert (plain.returncode, as_json.returncode) == (0, 0)
    assert "&id" not in plain.stdout, "YAML anchors are hard to read"
    documents = list(yaml.safe_load_all(plain.stdout))
    assert documents == json.loads(as_json.stdout)["items"]
    assert [document["metadata"]["name"] for document in documents] == [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
        "capacitybuffers.autoscaling.x-k8s.io",
        "kwoknodeclasses.karpenter.kwok.sh",
    ]


def test_writes_a_file_for_each(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "crds"
    done = dovetail("crds", "--directory", str(folder))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir())[0] == "autoscaling.x-k8s.io_capacitybuffers.yaml"
    assert [yaml.safe_load(Path(name).read_text()) for name in done.stdout.split()] == [
        definition(kind) for kind in DEFINITIONS
    ]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = dovetail("crds", "-d", str(tmp_path / "file" / "crds"))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr and "--directory" in done.stderr
