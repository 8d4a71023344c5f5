"""`dovetail convert`: what is written, what is reported, and that nothing makes it stumble."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.api.generations.upgrade import upgrade
from dovetail.base.errors import InputError
from dovetail.base.yaml_writing import written
from dovetail.cli.convert_texts import convert_texts
from dovetail.cli.main import run
from dovetail.reading.yamltext import read_documents
from tests.conformance.generation_cases import read_cases

PROVISIONER = """\
# Ours since 2022.
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default  # the only one
spec:
  # not when busy
  consolidation:
    enabled: true
  requirements:
  - key: karpenter.sh/capacity-type  # cheap
    operator: In
    values: ["spot", 'on-demand']
  # a month
  ttlSecondsUntilExpired: 2592000
  limits:
    resources:
      cpu: 1000  # cores
  providerRef:
    name: default
# The end.
"""

CONVERTED = """\
# Ours since 2022.
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default  # the only one
spec:
  template:
    spec:
      requirements:
      - key: karpenter.sh/capacity-type  # cheap
        operator: In
        values: ["spot", 'on-demand']
      - key: kubernetes.io/os
        operator: In
        values:
        - linux
      - key: kubernetes.io/arch
        operator: In
        values:
        - amd64
      - key: karpenter.k8s.aws/instance-category
        operator: In
        values:
        - c
        - m
        - r
      - key: karpenter.k8s.aws/instance-generation
        operator: Gt
        values:
        - '2'
      nodeClassRef:
        name: default
        group: karpenter.k8s.aws
        kind: EC2NodeClass
      # a month
      expireAfter: 720h0m0s
  limits:
    cpu: 1000  # cores
  disruption:
    # not when busy
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 0s
# The end.
"""

CLASS = """\
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: default
spec:
  amiFamily: Bottlerocket
  role: nodes
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
  metadataOptions: {httpPutResponseHopLimit: 1}
"""


def test_comments_order_and_style_are_kept() -> None:
    outcome = convert_texts([("pool.yaml", PROVISIONER)])
    assert outcome.files[0].text == CONVERTED
    assert not outcome.troubles


def test_comments_can_be_left_out() -> None:
    text = convert_texts([("pool.yaml", PROVISIONER)], comments=False).files[0].text
    assert "#" not in text
    assert yaml.safe_load(text) == yaml.safe_load(CONVERTED)


def test_each_change_has_its_line() -> None:
    lines = convert_texts([("pool.yaml", PROVISIONER)]).lines
    assert (
        "pool.yaml:15 spec.ttlSecondsUntilExpired: 2592000 -> spec.template.spec.expireAfter: 720h0m0s "
        "(it is a duration now; it belongs to the node now: forceful, and part of drift)"
    ) in lines
    assert 'pool.yaml:17 spec.limits.resources: {"cpu": 1000} -> spec.limits ' in "\n".join(lines)
    numbers = [int(line.split(":")[1].split()[0]) for line in lines if " -> " in line]
    assert numbers == sorted(numbers)


def test_what_is_not_old_stays_byte_for_byte() -> None:
    other = "# mine\napiVersion: v1\nkind:   ConfigMap\nmetadata: {name: a}\ndata: {'x':   'y'}\n"
    text = f"{other}---\n{CLASS}---\n{other}"
    made = convert_texts([("all.yaml", text)])
    first, middle, last = made.files[0].text.split("---\n")
    assert (first, last) == (other, other)
    assert "bottlerocket@latest" in middle
    assert made.changed == 1
    assert convert_texts([("all.yaml", other)]).files[0].text == other


def test_files_are_converted_together() -> None:
    pool = CONVERTED.replace("karpenter.sh/v1", "karpenter.sh/v1beta1").replace("0s", "Never")
    pool = pool.replace(
        "        group: karpenter.k8s.aws\n", "        apiVersion: karpenter.k8s.aws/v1beta1\n"
    )
    pool = pool.replace("WhenEmptyOrUnderutilized", "WhenUnderutilized")
    pool = pool.replace("      # a month\n      expireAfter: 720hNever\n", "")
    pool = pool.replace("      # a month\n      expireAfter: 720h0mNever\n", "      kubelet: {maxPods: 30}\n")
    made = convert_texts([("pool.yaml", pool), ("class.yaml", CLASS)])
    assert not made.troubles
    assert yaml.safe_load(made.files[1].text)["spec"]["kubelet"] == {"maxPods": 30}
    alone = convert_texts([("pool.yaml", pool)])
    assert ["belong to EC2NodeClass default" in line for line in alone.troubles] == [True]


def test_yaml_inside_of_terraform() -> None:
    inner = "".join(f"    {line}\n" for line in PROVISIONER.splitlines())
    text = f'resource "kubectl_manifest" "a" {{\n  yaml_body = <<-YAML\n{inner}  YAML\n}}\n'
    made = convert_texts([("main.tf", text)])
    expected = "".join(f"    {line}\n" for line in CONVERTED.splitlines())
    assert (
        made.files[0].text
        == f'resource "kubectl_manifest" "a" {{\n  yaml_body = <<-YAML\n{expected}  YAML\n}}\n'
    )
    assert any(line.startswith("main.tf:17 spec.ttlSecondsUntilExpired") for line in made.lines)


VALUES = """\
nodePool:
  default:
    nodeClassRef: default
    kubelet: {maxPods: 50}
    disruption:
      consolidationPolicy: WhenUnderutilized
      expireAfter: 720h  # a month
ec2NodeClass:
  default: {amiFamily: AL2, amiSelectorTerms: {ids: [], name: ""}, role: r}
"""


def test_values_of_the_chart_of_pools() -> None:
    made = convert_texts([("values.yaml", VALUES)])
    assert not made.troubles
    assert "expireAfter: 720h  # a month" in made.files[0].text
    assert yaml.safe_load(made.files[0].text) == {
        "nodePool": {
            "default": {
                "nodeClassRef": "default",
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
                "expireAfter": "720h",
            }
        },
        "ec2NodeClass": {
            "default": {
                "amiSelectorTerms": [{"alias": "al2@latest"}],
                "role": "r",
                "kubelet": {"maxPods": 50},
                "metadataOptions": {"httpPutResponseHopLimit": 2},
            }
        },
    }


def test_values_of_the_original_chart() -> None:
    old = {
        "settings": {
            "aws": {"clusterName": "demo", "interruptionQueueName": "demo", "defaultInstanceProfile": "p"},
            "featureGates": {"driftEnabled": False},
        }
    }
    made = convert_texts([("values.yaml", yaml.safe_dump(old))])
    assert yaml.safe_load(made.files[0].text) == {
        "settings": {"clusterName": "demo", "interruptionQueue": "demo"}
    }
    assert len(made.troubles) == 2


@pytest.mark.parametrize("case", read_cases("alpha_convert"), ids=lambda case: str(case["name"]))
def test_text_and_objects_say_the_same(case: dict[str, Any]) -> None:
    try:
        made = convert_texts([("a.yaml", written(case["input"]))], role="nodes")
    except InputError:
        return
    wanted = [item.document for item in upgrade([case["input"]], role="nodes")]
    read = [document.value for document in read_documents(made.files[0].text, "a.yaml")]
    assert read == json.loads(json.dumps(wanted))


def test_a_list_becomes_documents_and_json_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [yaml.safe_load(PROVISIONER), yaml.safe_load(CLASS)],
    }
    file = tmp_path / "all.json"
    file.write_text(json.dumps(listed))
    assert run(["convert", "-f", str(file)]) == 0
    assert [item["kind"] for item in yaml.safe_load_all(capsys.readouterr().out)] == [
        "NodePool",
        "EC2NodeClass",
    ]
    assert run(["convert", "-f", str(file), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [item["apiVersion"] for item in shown["items"]] == ["karpenter.sh/v1", "karpenter.k8s.aws/v1"]


def test_a_folder_goes_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "pool.yaml").write_text(PROVISIONER)
    (tmp_path / "in" / "deep" / "class.yml").write_text(CLASS)
    assert run(["convert", "-f", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "pool.yaml").read_text() == CONVERTED
    assert "bottlerocket@latest" in (tmp_path / "out" / "deep" / "class.yml").read_text()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("2 of 2 objects converted\n")


def test_back_to_v1beta1_reports_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pool.yaml"
    budget = "    consolidateAfter: 0s\n    budgets: [{nodes: '1', reasons: [Drifted]}]\n"
    file.write_text(CONVERTED.replace("    consolidateAfter: 0s\n", budget))
    assert run(["convert", "-f", str(file), "--to", "v1beta1"]) == 2
    captured = capsys.readouterr()
    assert yaml.safe_load(captured.out)["spec"]["disruption"] == {
        "consolidationPolicy": "WhenUnderutilized",
        "budgets": [{"nodes": "1"}],
        "expireAfter": "720h0m0s",
    }
    assert "spec.disruption.budgets[0].reasons: v1beta1 has no field for it: it is lost" in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no object to convert"),
        ("hello", "expected an object"),
        ("[1]", "expected an object"),
        ("a: [", "malformed YAML"),
        (PROVISIONER.replace("ttlSecondsUntil", "ttlSecondUntil"), "did you mean ttlSecondsUntilExpired"),
        (PROVISIONER.replace("2592000", "-1"), "cannot be negative"),
        (PROVISIONER.replace("2592000", "soon"), "must be of type integer"),
        (
            PROVISIONER.replace("  providerRef:\n    name: default\n", ""),
            "got neither: spec.provider, spec.providerRef",
        ),
        (CLASS.replace("Bottlerocket", "Flatcar"), "Unsupported value"),
        (CLASS.replace("  role: nodes\n", ""), "must specify exactly one of"),
        (PROVISIONER.replace("apiVersion: karpenter.sh/v1alpha5\n", ""), "apiVersion is required"),
        (PROVISIONER.replace("v1alpha5", "v1alpha6"), "did you mean karpenter.sh/v1alpha5?"),
        (PROVISIONER.replace("kind: Provisioner", "kind: Provisoner"), "did you mean Provisioner?"),
        (CLASS.replace("k8s.aws/v1beta1", "sh/v1beta1"), "EC2NodeClass has no version"),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nmetadata: null\nspec: {}\n",
            "name or generateName",
        ),
    ],
)
def test_wrong_files_are_refused_in_words(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert run(["convert", "-f", str(file)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


JUNK: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", "${x}", [], {}, [None], {"a": None}, [{}], 2**70)


def _spoilt(value: Any, dice: random.Random) -> Any:
    """The value with something in it replaced, taken away or added."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(list(value))
        if dice.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        if dice.random() < 0.1:
            return {**value, "extra": dice.choice(JUNK)}
        return {**value, key: _spoilt(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        index = dice.randrange(len(value))
        return [*value[:index], _spoilt(value[index], dice), *value[index + 1 :]]
    return dice.choice(JUNK)


def test_spoilt_manifests_are_refused_or_converted() -> None:
    dice = random.Random(25)
    sound = [case["object"] for case in read_cases("alpha_validate")]
    sound += [case["input"] for case in read_cases("v1beta1_v1")]
    sound += [yaml.safe_load(VALUES)]
    outcomes = {"refused": 0, "converted": 0}
    for _ in range(200):
        document = dice.choice(sound)
        for _ in range(dice.randint(1, 3)):
            document = _spoilt(document, dice)
        for to in ("v1", "v1beta1"):
            try:
                convert_texts([("a.yaml", yaml.safe_dump(document))], to=to)  # type: ignore[arg-type]
                outcomes["converted"] += 1
            except InputError:
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 50


TERRAFORM = """\
resource "kubectl_manifest" "pools" {
  yaml_body = <<-YAML
    apiVersion: karpenter.sh/v1alpha5
    kind: Provisioner
    metadata:
      name: default
    spec:
      ttlSecondsAfterEmpty: ${var.ttl} # soon
      limits:
        resources:
          cpu: ${var.cpu}
      labels:
        team: ${var.team}
      requirements:
        - key: topology.kubernetes.io/zone
          operator: In
          values: ["${var.region}a"]
      providerRef:
        name: default
    ---
    apiVersion: karpenter.k8s.aws/v1alpha1
    kind: AWSNodeTemplate
    metadata:
      name: default
    spec:
      instanceProfile: nodes
      subnetSelector:
        karpenter.sh/discovery: ${var.cluster}
      securityGroupSelector:
        karpenter.sh/discovery: ${var.cluster}
  YAML
}
"""
IN_HCL = """\
resource "kubernetes_manifest" "pool" {
  manifest = {
    apiVersion = "karpenter.sh/v1beta1"
    kind       = "NodePool"
    metadata   = { name = "default" }
    spec       = {}
  }
}
"""


def test_what_terraform_fills_in_stays_and_documents_may_be_indented() -> None:
    made = convert_texts([("main.tf", TERRAFORM)])
    assert made.troubles == ()
    text = made.files[0].text
    assert text.count("\n    ---\n") == 1
    for line in (
        "        cpu: ${var.cpu}\n",
        "        consolidateAfter: ${var.ttl}s  # soon\n",
        "            team: ${var.team}\n",
        '              values: ["${var.region}a"]\n',
        "            karpenter.sh/discovery: ${var.cluster}\n",
    ):
        assert line in text
    assert convert_texts([("main.tf", text)]).changed == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('values: ["${var.region}a"]', "values: ${jsonencode(var.zones)}", "must be of type array"),
        ("instanceProfile: nodes", "instanceProfile: nodes\n      amiFamily: ${var.family}", "amiFamily"),
    ],
)
def test_what_decides_the_fields_cannot_be_filled_in_later(old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        convert_texts([("main.tf", TERRAFORM.replace(old, new))])


def test_objects_in_terraforms_own_language_are_named() -> None:
    made = convert_texts([("main.tf", IN_HCL + TERRAFORM)])
    assert [line.partition(";")[0] for line in made.troubles] == [
        "main.tf:2 NodePool default of karpenter.sh/v1beta1 is written in HCL"
    ]
    assert IN_HCL in made.files[0].text


@pytest.mark.parametrize(
    "provider",
    [
        {"tags": "x"},
        {"subnetSelector": "x"},
        {"metadataOptions": {"httpPutResponseHopLimit": "x"}},
        {"blockDeviceMappings": [{"ebs": {"volumeSize": "x"}}]},
    ],
    ids=str,
)
def test_types_inside_an_inline_provider_are_refused_at_their_field(provider: dict[str, Any]) -> None:
    spec = {"provider": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, **provider}}
    meta = {"name": "default"}
    document = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": meta, "spec": spec}
    with pytest.raises(InputError, match=f"spec.provider.{next(iter(provider))}.*must be"):
        convert_texts([("old.yaml", written(document))])
