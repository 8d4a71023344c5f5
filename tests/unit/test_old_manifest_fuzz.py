"""Whatever an old manifest holds, it is refused in words or converted into what today's API server takes."""

from __future__ import annotations

import copy
import functools
import random
import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dovetail.api.admission import admit
from dovetail.api.generations.admission import broken_rules, old_schemas
from dovetail.api.schema import Schema
from dovetail.base.errors import InputError
from dovetail.cli.convert_texts import convert_texts, plain
from dovetail.lint.check import check
from dovetail.lint.survey import survey
from dovetail.lint.table import chosen
from dovetail.reading import read
from tests.unit.old_manifests import files

Document = dict[str, Any]
KINDS = old_schemas()
# The manifests of teams, without a chart's values and Terraform.
WRITTEN = [
    list(yaml.safe_load_all(text))
    for name, text in files().items()
    if name.endswith(".yaml") and "apiVersion" in text
]
DURATIONS = ("30s", "720h", "Never", "1h30m", "0s", "10m0s", "168h0m0s")
AMOUNTS = (1, "100m", "1000", "4Gi", "1e3", "0.5", 0)
KEYS = (
    *("karpenter.sh/capacity-type", "kubernetes.io/arch", "beta.kubernetes.io/arch", "kubernetes.io/os"),
    *("node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-cpu", "team", "example.com/a"),
    *("failure-domain.beta.kubernetes.io/zone", "karpenter.k8s.aws/instance-category"),
    *("karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
)
# What is likely to be right, by the field's name; a schema says only that it is text.
TEXTS: dict[str, tuple[Any, ...]] = {
    "apiVersion": ("karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1alpha1", "v1"),
    "kind": ("EC2NodeClass", "AWSNodeTemplate"),
    "name": ("default", "spot", "my-image-*"),
    "key": KEYS,
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "values": ("spot", "on-demand", "amd64", "3", "c", "m5.large", "eu-west-1a", "linux"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "amiFamily": ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2022"),
    "instanceProfile": ("nodes", ""),
    "role": ("nodes", "a"),
    "launchTemplate": ("mine", ""),
    "volumeSize": AMOUNTS[3:4],
    "volumeType": ("gp3", "io1", "standard"),
    "snapshotID": ("snap-0123456789abcdef0",),
    "deviceName": ("/dev/xvda", "/dev/sda1"),
    "httpTokens": ("required", "optional"),
    "httpEndpoint": ("enabled", "disabled"),
    "httpProtocolIPv6": ("enabled", "disabled"),
    "consolidationPolicy": ("WhenEmpty", "WhenUnderutilized"),
    "schedule": ("@daily", "0 9 * * 1-5", "* * * * *"),
    "nodes": ("10%", "0", "5"),
    "id": ("ami-0123456789abcdef0", "subnet-0123456789abcdef0", "sg-0123456789abcdef0"),
    "owner": ("self", "amazon", "111122223333"),
    "instanceStorePolicy": ("RAID0",),
    "containerRuntime": ("containerd", "dockerd"),
    "clusterDNS": ("10.0.0.10", "fd00::10"),
}
MAPS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "labels": ((*KEYS[6:8], "karpenter.sh/do-not-evict"), ("a", "true", "")),
    "annotations": (("owner", "karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-evict"), ("a", "true")),
    "tags": (("team", "Name", "kubernetes.io/cluster/shop"), ("a", "*", "b c")),
    **dict.fromkeys(
        ("subnetSelector", "securityGroupSelector", "amiSelector"),
        (
            ("karpenter.sh/discovery", "Name", "aws-ids", "aws::ids", "aws::name", "aws::owners"),
            ("shop", "a, b", "*", "ami-0123456789abcdef0", "sg-0123456789abcdef0, sg-1", "self,111122223333"),
        ),
    ),
    **dict.fromkeys(
        ("evictionHard", "evictionSoft"),
        (("memory.available", "nodefs.available", "pid.available"), ("5%", "100Mi", "10%", "1")),
    ),
    "evictionSoftGracePeriod": (("memory.available", "nodefs.available"), ("1m", "30s", "1m30s")),
    **dict.fromkeys(
        ("systemReserved", "kubeReserved", "resources", "requests", "limits"),
        (("cpu", "memory", "ephemeral-storage", "pods"), AMOUNTS),
    ),
}
_TAGS = {"tags": {"karpenter.sh/discovery": "shop"}}
TERMS: dict[str, tuple[Document, ...]] = {
    "subnetSelectorTerms": (_TAGS, {"id": "subnet-0123456789abcdef0"}),
    "securityGroupSelectorTerms": (_TAGS, {"id": "sg-0123456789abcdef0"}, {"name": "nodes"}),
    "amiSelectorTerms": (_TAGS, {"id": "ami-0123456789abcdef0"}, {"name": "my-*", "owner": "self"}),
    "requirements": (
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "beta.kubernetes.io/arch", "operator": "NotIn", "values": ["arm64"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]},
        {"key": "team", "operator": "Exists"},
        {"key": "example.com/a", "operator": "DoesNotExist", "values": []},
        {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["eu-west-1a"]},
        {"key": "karpenter.sh/provisioner-name", "operator": "In", "values": ["a"]},
    ),
    "taints": (
        {"key": "team", "value": "a", "effect": "NoSchedule"},
        {"key": "example.com/a", "effect": "NoExecute"},
    ),
}
# Of two fields that exclude each other the first is kept.
EITHER = (("role", "instanceProfile"), ("providerRef", "provider"), ("amiSelector", "launchTemplate"))
REQUIRED: dict[str, Document] = {
    "Provisioner": {"providerRef": {"name": "default"}},
    "Machine": {"requirements": [], "machineTemplateRef": {"name": "default"}},
    "NodeClaim": {"requirements": [], "nodeClassRef": {"name": "default"}},
    "AWSNodeTemplate": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
    "EC2NodeClass": {
        "role": "nodes",
        "amiFamily": "AL2",
        "subnetSelectorTerms": [_TAGS],
        "securityGroupSelectorTerms": [_TAGS],
    },
}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**12)
    | st.sampled_from(["", "5m", "a/b/c", "1e3", "0x1f", "yes", "${var.x}", "\x7f", "\u202e", "-1"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@functools.cache
def _strategies() -> dict[tuple[str, str], st.SearchStrategy[Document]]:
    return {kind: documents_of(kind, schema) for kind, schema in KINDS.items()}


def documents_of(kind: tuple[str, str], schema: Schema) -> st.SearchStrategy[Document]:
    """What a kind may be by its schema, mostly with values that are likely to be right."""
    spec = schema.properties["spec"]
    meta = st.fixed_dictionaries(
        {"name": st.sampled_from(["default", "spot"])},
        optional={name: _value(name, Schema(type="object")) for name in ("labels", "annotations")},
    )
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just(kind[0]),
            "kind": st.just(kind[1]),
            "metadata": meta,
            "spec": _value("spec", spec),
        }
    )


def _value(name: str, schema: Schema) -> st.SearchStrategy[Any]:
    """What a field may hold by its schema and, as far as that says nothing, by its name."""
    if name in MAPS and schema.values is not None:
        keys, values = MAPS[name]
        return st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=3)
    if name in TERMS and schema.items is not None:
        item = _value("", schema.items)
        return st.lists(
            st.sampled_from(TERMS[name]) | st.sampled_from(TERMS[name]) | item, min_size=1, max_size=2
        )
    if schema.enum:
        return st.sampled_from(schema.enum)
    if schema.type == "object":
        needed = {key: _value(key, schema.properties[key]) for key in schema.required}
        other = {key: _value(key, part) for key, part in schema.properties.items() if key not in needed}
        return st.fixed_dictionaries(needed, optional=other)
    if schema.type == "array":
        assert schema.items is not None
        return st.lists(_value(name, schema.items), min_size=schema.min_items or 0, max_size=2)
    if schema.type == "boolean":
        return st.booleans()
    if schema.type == "integer":
        return st.integers(
            0 if schema.minimum is None else schema.minimum, 100 if schema.maximum is None else schema.maximum
        )
    if schema.type == "any":
        return _value("spec", KINDS["karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"].properties["spec"]).map(
            lambda found: {key: item for key, item in found.items() if key not in ("userData", "amiSelector")}
        )
    if name in TEXTS:
        return st.sampled_from(TEXTS[name])
    if schema.pattern:
        return st.sampled_from(DURATIONS + AMOUNTS)
    return st.sampled_from(("a", "", "1", "true")) | st.text(max_size=5)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a document."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


@st.composite
def sets(draw: st.DrawFn) -> list[Document]:
    """One to three documents of the old kinds, by their schemas."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    made = [draw(_strategies()[kind]) for kind in kinds]
    if draw(st.booleans() | st.just(True)):
        for document in made:
            _make_right(document)
    return made


def _make_right(document: Document) -> None:
    """Take away what its own generation refuses, as far as that is enough; give what it requires."""
    spec = document["spec"]
    for first, second in EITHER:
        if first in spec:
            spec.pop(second, None)
    schema = KINDS[document["apiVersion"], document["kind"]]
    for _ in range(4):
        for cause in broken_rules(schema, document):
            *above, last = [part for part in re.split(r"[.\[\]]+", cause.field) if part]
            found: Any = document
            for part in above:
                found = found.get(part) if isinstance(found, dict) else None
            if isinstance(found, dict) and last not in ("spec", "metadata"):
                found.pop(last, None)
        for name, wanted in REQUIRED.get(document["kind"], {}).items():
            if not spec.get(name) and not any(name in pair and spec.get(pair[1]) for pair in EITHER):
                spec[name] = copy.deepcopy(wanted)


@st.composite
def mutated_of(draw: st.DrawFn, written: list[list[Document]]) -> list[Document]:
    """A team's manifests, of which one to three places hold something else, are gone or have another name."""
    documents = copy.deepcopy(draw(st.sampled_from(written)))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from([path for path in places(documents) if len(path) > 1]))
        parent: Any = documents
        for key in above:
            parent = parent[key]
        how = draw(st.sampled_from(["other", "gone", "renamed"]))
        if how == "gone":
            del parent[last]
        elif how == "renamed" and isinstance(parent, dict):
            parent[f"{last}s"] = parent.pop(last)
        else:
            parent[last] = draw(ANYTHING)
    return documents


def answered(documents: list[Document], folder: Path) -> bool:
    """True iff all became manifests of today: admitted, read, and without a refusal in `check`."""
    file = folder / "old.yaml"
    file.write_text(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, allow_unicode=True), "utf-8")
    check(survey([str(file)]), chosen())
    taken = _is_read(file)
    try:
        outcome = convert_texts([(str(file), file.read_text("utf-8"))])
    except InputError as error:
        assert all(fault.message and fault.line is not None for fault in error.faults)
        assert not taken, f"a plan takes what is not converted: {error}"
        return False
    if outcome.troubles:
        return False
    for document in outcome.files[0].documents:
        if str(document.get("apiVersion")).startswith("karpenter."):
            admit(plain(document))
    file.write_text(outcome.files[0].text, "utf-8")
    assert convert_texts([(str(file), file.read_text("utf-8"))]).changed == 0, "converted, and again"
    assert _is_read(file) == taken
    if taken:
        assert [str(fault.error) for fault in survey([str(file)]).faults] == []
    return taken


def _is_read(file: Path) -> bool:
    """What a plan makes of it: taken, or refused with places."""
    try:
        read([file])
    except InputError as error:
        assert all(fault.message and fault.line is not None for fault in error.faults)
        return False
    return True


# Without shrinking, which takes minutes for documents as large as these.
QUICK = settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@QUICK
@given(sets())
def test_documents_by_their_schemas(tmp_path: Path, documents: list[Document]) -> None:
    answered(documents, tmp_path)


# What a field may hold instead: nothing at all, as `disruption:` without more, above all.
OTHER: tuple[Any, ...] = (None, None, None, 3, "x", [], {}, True, [1], {"a": 1}, ["x"], "${var.x}")


def test_any_field_may_hold_anything(tmp_path: Path) -> None:
    dice = random.Random(0)
    everywhere = [
        (number, path)
        for number, documents in enumerate(WRITTEN)
        for path in places(documents)
        if len(path) > 1
    ]
    for number, (*above, last) in dice.sample(everywhere, 150):
        documents = copy.deepcopy(WRITTEN[number])
        parent: Any = documents
        for key in above:
            parent = parent[key]
        parent[last] = copy.deepcopy(dice.choice(OTHER))
        answered(documents, tmp_path)


def test_a_field_that_holds_nothing_is_not_there() -> None:
    empty = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec:\n"
    rest = "  template: {spec: {requirements: [], nodeClassRef: {name: default}}}\n"
    one, other = (
        convert_texts([("a.yaml", empty + middle + rest)]).files[0].documents
        for middle in ("  disruption:\n  limits:\n", "")
    )
    assert one == other


@QUICK
@given(mutated_of(WRITTEN))
def test_mutated_manifests(tmp_path: Path, documents: list[Document]) -> None:
    answered(documents, tmp_path)
