"""The charts' files agree with each other and with the program; `cluster/` tests what helm makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail import __version__
from dovetail.api.crd import definition
from dovetail.api.generations.beta_definitions import OLDER, definitions
from dovetail.api.karpenter.definitions import DEFINITIONS
from dovetail.api.karpenter.ec2nodeclass_schema import SCHEMA as EC2_NODE_CLASS

CHARTS = Path(__file__).resolve().parents[2] / "charts"
NAMES = ("dovetail", "dovetail-crds", "dovetail-nodepools")


def schema(chart: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHARTS / chart / "values.schema.json").read_text())
    return found


def values(chart: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    return found


def known(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all values that a schema lets through; hints to what was renamed are none."""
    for key, child in node.get("properties", {}).items():
        if "const" not in child:
            yield f"{path}{key}"
            yield from known(child, f"{path}{key}.")


def given(tree: dict[str, Any], node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all values that values.yaml lists, as deep as the schema looks."""
    for key, item in tree.items():
        yield f"{path}{key}"
        child = node.get("properties", {}).get(key, {})
        if isinstance(item, dict) and "properties" in child:
            yield from given(item, child, f"{path}{key}.")


@pytest.mark.parametrize("chart", NAMES)
def test_the_schema_knows_the_values_that_are_listed_and_no_others(chart: str) -> None:
    assert set(given(values(chart), schema(chart))) == set(known(schema(chart))) - {"global"}


@pytest.mark.parametrize("chart", NAMES)
def test_versions_are_the_programs_own(chart: str) -> None:
    head = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    assert (head["version"], head["appVersion"]) == (__version__, __version__)


def test_crds_are_those_of_dovetail_crds() -> None:
    files = CHARTS / "dovetail-crds"
    again = "make them again: dovetail crds --directory charts/dovetail-crds/definitions"
    assert shipped(files / "definitions") == [definition(kind) for kind in DEFINITIONS], again
    assert (CHARTS / "dovetail" / "crds").resolve() == files / "definitions"
    two = [item for item in definitions("karpenter", "karpenter", 8443) if item["metadata"]["name"] in OLDER]
    again = "make them again, into definitions-v1beta1: dovetail crds --webhook-service karpenter/karpenter"
    assert shipped(files / "definitions-v1beta1") == two, again


def shipped(folder: Path) -> list[dict[str, Any]]:
    """In the order of `dovetail crds`."""
    found = [yaml.safe_load(file.read_text()) for file in folder.iterdir()]
    names = [kind.name for kind in DEFINITIONS]
    return sorted(found, key=lambda item: names.index(item["metadata"]["name"]))


def test_short_classes_may_have_every_field_of_an_ec2nodeclass() -> None:
    fields = schema("dovetail-nodepools")["properties"]["ec2NodeClass"]["additionalProperties"]["properties"]
    short = {"subnetSelectorTermsTags", "securityGroupSelectorTermsTags"}
    assert set(fields) == set(EC2_NODE_CLASS.properties["spec"].properties) | short
