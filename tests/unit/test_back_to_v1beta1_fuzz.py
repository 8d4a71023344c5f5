"""Whatever a v1 manifest holds: v1beta1 that its server takes, or a refusal; and what is kept comes back."""

from __future__ import annotations

import copy
import functools
import json
import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.admission import SCHEMAS, admit
from dovetail.api.generations import beta_schema, beta_to_v1
from dovetail.api.generations.admission import broken_rules
from dovetail.api.schema import unknown_fields, with_defaults
from dovetail.base.errors import InputError, Invalid
from dovetail.base.yaml_writing import all_written
from dovetail.cli.convert_texts import convert_texts, plain
from tests.unit.old_manifests import files
from tests.unit.test_old_manifest_fuzz import QUICK, documents_of, mutated_of

Document = dict[str, Any]
POOL, CLAIM = ("karpenter.sh/v1", "NodePool"), ("karpenter.sh/v1", "NodeClaim")
CLASS = ("karpenter.k8s.aws/v1", "EC2NodeClass")
KINDS = (POOL, CLAIM, CLASS)
BETA = beta_schema.schemas(beta_schema.V1_0)
# What is likely to be right in v1 where the old generations had something else.
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TERMS: dict[str, tuple[list[Document], ...]] = {
    "amiSelectorTerms": (
        [{"alias": "al2023@latest"}],
        [{"alias": "bottlerocket@v1.20.3"}],
        [{"alias": "al2@v20240807"}],
        [{"alias": "windows2022@latest"}],
        [{"id": "ami-0123456789abcdef0"}],
        [{"name": "my-*", "owner": "self"}, {"tags": {"team": "a"}}],
    ),
    "subnetSelectorTerms": ([{"tags": {"a": "b"}}], [{"id": "subnet-0123456789abcdef0"}]),
    "securityGroupSelectorTerms": ([{"tags": {"a": "b"}}], [{"name": "nodes"}]),
}
# Fields of classes that came after v1beta1.
V1_ONLY = (
    "capacityReservationSelectorTerms",
    "connectionTracking",
    "cpuOptions",
    "enclaveOptions",
    "ipPrefixCount",
    "kubelet",
    "networkInterfaces",
    "placementGroupSelector",
)
POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
BOUNDS = ({"operator": "Gte", "values": ["4"]}, {"operator": "Lte", "values": ["16"]})


@functools.cache
def _strategies() -> dict[tuple[str, str], st.SearchStrategy[Document]]:
    return {kind: documents_of(kind, SCHEMAS[kind]) for kind in KINDS}


@st.composite
def admitted(draw: st.DrawFn) -> Document:
    """An object of v1, mended until today's server takes it."""
    kind = draw(st.sampled_from(KINDS))
    document = copy.deepcopy(draw(_strategies()[kind]))
    spec = document["spec"]
    if kind == CLASS:
        for name, choice in TERMS.items():
            spec[name] = copy.deepcopy(draw(st.sampled_from(choice)))
        if "alias" in spec["amiSelectorTerms"][0]:
            spec.pop("amiFamily", None)
        elif not spec.get("amiFamily"):
            spec["amiFamily"] = draw(st.sampled_from(("AL2", "AL2023", "Bottlerocket", "Custom")))
        spec.pop("instanceProfile", None)
        spec["role"] = "nodes"
    else:
        inner = spec["template"]["spec"] if kind == POOL else spec
        inner["nodeClassRef"] = dict(REFERENCE)
        if draw(st.booleans()):
            bound = {"key": "karpenter.k8s.aws/instance-cpu", **draw(st.sampled_from(BOUNDS))}
            inner["requirements"] = [*inner.get("requirements", []), copy.deepcopy(bound)]
    if "disruption" in spec:
        spec["disruption"]["consolidationPolicy"] = draw(st.sampled_from(POLICIES))
        spec["disruption"].setdefault("consolidateAfter", "30s")
    return document


def _mended(document: Document) -> Document | None:
    """The object without what today's server refuses; None where that is not enough."""
    for _ in range(6):
        try:
            return admit(copy.deepcopy(document))
        except Invalid as refusal:
            for cause in refusal.causes:
                _take_away(document, cause.field)
    return None


def _take_away(document: Document, field: str) -> None:
    found: Any = document
    *above, last = [part for part in re.split(r"[.\[\]]+", field) if part]
    for part in above:
        if isinstance(found, list):
            found = found[int(part)] if part.isdecimal() and int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, dict):
        found.pop(last, None)
    elif isinstance(found, list) and last.isdecimal() and int(last) < len(found):
        del found[int(last)]


def _down(documents: list[Document], folder: Path) -> Any:
    """What the command makes of a file, None where it refuses it in words."""
    file = folder / "new.yaml"
    text = all_written(documents, allow_unicode=True)
    file.write_text(text, "utf-8")
    try:
        outcome = convert_texts([(str(file), text)], to="v1beta1")
    except InputError as error:
        assert all(fault.message and fault.line is not None for fault in error.faults)
        return None
    if not outcome.troubles:
        again = convert_texts([(str(file), outcome.files[0].text)], to="v1beta1")
        assert again.changed == 0, "converted, and again"
    return outcome


def kept(document: Document) -> Document:
    """What of a v1 object v1beta1 has fields for, as the original's webhook gives it back."""
    document = plain(document)
    document.pop("status", None)
    spec = document["spec"]
    if document["kind"] == "EC2NodeClass":
        for field in V1_ONLY:
            spec.pop(field, None)
        for mapping in spec.get("blockDeviceMappings") or ():
            mapping.get("ebs", {}).pop("volumeInitializationRate", None)
        return document
    inner = spec["template"]["spec"] if document["kind"] == "NodePool" else spec
    inner.pop("terminationGracePeriod", None)
    for item in inner.get("requirements") or ():
        if item.get("operator") in ("Gte", "Lte"):
            up = item["operator"] == "Gte"
            item["operator"] = "Gt" if up else "Lt"
            item["values"] = [str(int(item["values"][0]) + (-1 if up else 1))]
    if document["kind"] == "NodeClaim":
        inner.pop("expireAfter", None)  # of the pool
        return document
    spec.pop("replicas", None)
    disruption = spec["disruption"]
    if disruption["consolidationPolicy"] != "WhenEmpty":
        disruption |= {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    for budget in disruption.get("budgets") or ():
        budget.pop("reasons", None)
    return document


def _back(beta: Document) -> Document:
    """The same by way of v1 again, without what keeps it for another way back."""
    made = beta_to_v1.convert(plain(beta))
    made.pop("status", None)
    notes = made["metadata"].get("annotations") or {}
    for name in (beta_to_v1.KUBELET, beta_to_v1.REFERENCE):
        notes.pop(name, None)
    if not notes:
        made["metadata"].pop("annotations", None)
    if made["kind"] == "NodeClaim":
        made["spec"].pop("expireAfter", None)
    return made


def _same(document: Document) -> Any:
    """Without what is empty, which one of the two leaves out, and with families as aliases say them."""
    if document["kind"] == "EC2NodeClass" and document["spec"]["amiSelectorTerms"][:1] != []:
        first = document["spec"]["amiSelectorTerms"][0]
        if "alias" in first:
            document["spec"].pop("amiFamily", None)
    return json.loads(json.dumps(document), object_pairs_hook=_without_empty)


def _without_empty(pairs: list[tuple[str, Any]]) -> Document:
    return {key: value for key, value in pairs if value not in ({}, [], None, "")}


@QUICK
@given(admitted())
def test_what_a_server_of_v1_took_is_taken_by_one_of_v1beta1_and_comes_back(
    tmp_path: Path, document: Document
) -> None:
    stored = _mended(document)
    if stored is None:
        return
    outcome = _down([stored], tmp_path)
    assert outcome is not None
    (beta,) = outcome.files[0].documents
    beta = plain(beta)
    if beta["apiVersion"].endswith("/v1"):
        assert outcome.troubles, "left as it is, and said so"
        return
    schema = BETA[beta["apiVersion"], beta["kind"]]
    assert list(unknown_fields(schema, beta)) == []
    refused = {cause.field for cause in broken_rules(schema, with_defaults(schema, copy.deepcopy(beta)))}
    assert refused == set() or outcome.troubles
    assert _same(_back(beta)) == _same(kept(stored))


NEW = [
    list(yaml.safe_load_all(convert_texts([(name, text)]).files[0].text))
    for name, text in files().items()
    if name.endswith(".yaml") and "apiVersion" in text
]


@QUICK
@given(mutated_of(NEW))
def test_mutated_manifests_of_v1(tmp_path: Path, documents: list[Document]) -> None:
    _down(documents, tmp_path)


def test_what_came_after_v1beta1_is_left_out_wherever_it_is_and_said(tmp_path: Path) -> None:
    volume = {"snapshotID": "snap-0123456789abcdef0", "volumeInitializationRate": 200}
    mapping = {"deviceName": "/dev/xvda", "ebs": volume}
    spec = {name: copy.deepcopy(choice[0]) for name, choice in TERMS.items()}
    spec |= {
        "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
        "amiFamily": "Windows2025",
        "role": "nodes",
    }
    spec["blockDeviceMappings"] = [mapping]
    document = {"apiVersion": CLASS[0], "kind": CLASS[1], "metadata": {"name": "default"}, "spec": spec}
    outcome = _down([document], tmp_path)
    said = "\n".join(outcome.troubles)
    assert "spec.blockDeviceMappings[0].ebs.volumeInitializationRate: v1beta1 has no field for it" in said
    assert 'spec.amiFamily: v1beta1 refuses what becomes of it: Unsupported value: "Windows2025"' in said
    assert "volumeInitializationRate" not in outcome.files[0].text
