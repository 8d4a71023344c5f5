"""Objects in Terraform files: read without evaluating, each field at its place, whatever stands around "
"them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.base.errors import InputError
from dovetail.reading import Located
from dovetail.reading.terraform import read_terraform

HEAD = 'resource "kubernetes_manifest" "a" {\n  manifest = '


def _read(text: str) -> list[tuple[str, Located]]:
    faults: list[InputError] = []
    found = list(read_terraform(text, "main.tf", faults.append))
    assert faults == []
    return found


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{\n a = "b"\n c = 1\n}', {"a": "b", "c": 1}),
        ('{ a = "b", c = 1 }', {"a": "b", "c": 1}),
        ('{\n a = ["x", "y"]\n b = [\n "x",\n "y",\n ]\n}', {"a": ["x", "y"], "b": ["x", "y"]}),
        ("{\n a = {\n b = {}\n }\n c = []\n}", {"a": {"b": {}}, "c": []}),
        (
            "{\n # a = 1\n a = 2 # two\n // b\n b = 3 // three\n /* c = 4\n */ d = true\n}",
            {"a": 2, "b": 3, "d": True},
        ),
        (
            '{\n a = local.name\n b = "${var.x}-y"\n c = null\n}',
            {"a": "<local.name>", "b": "<var.x>-y", "c": None},
        ),
        ('{\n "a.b/c" = "#no {comment}"\n}', {"a.b/c": "#no {comment}"}),
        ('{\n a = join(",", ["x", "y"])\n b = 1\n}', {"a": "<join(',', ['x', 'y'])>", "b": 1}),
        ("{\n a = var.on ? 1 : 2\n b = 1\n}", {"a": "<var.on ? 1 : 2>", "b": 1}),
        ('{\n a = var.on ? ["x"] : ["y"]\n b = 1\n}', {"a": "<var.on ? ['x'] : ['y']>", "b": 1}),
        ("{ a = [for s in var.s : { id = s }], b = 1 }", {"a": "<[for s in var.s : { id = s }]>", "b": 1}),
        ("{\n a = { for k, v in x : k => v }\n b = 1\n}", {"a": "<{ for k, v in x : k => v }>", "b": 1}),
        ("{\n a = merge(l, {\n c = 1\n })\n b = 1\n}", {"a": "<merge(l, { c = 1 })>", "b": 1}),
        (
            "{\n a = <<-EOT\n   #!/bin/bash\n   echo \"it's { ${var.x}\n EOT\n b = 1\n}",
            {"a": "#!/bin/bash\necho \"it's { <var.x>\n", "b": 1},
        ),
    ],
)
def test_an_object_of_hcl(written: str, value: dict[str, Any]) -> None:
    ((kind, located),) = _read(f"{HEAD}{written}\n}}\n")
    assert kind == "kubernetes_manifest"
    assert located.value == value


def test_fields_are_where_they_are_written() -> None:
    body = '{\n    spec = {\n      rules = [{ key = "a" }, { key = "b" }]\n    }\n  }\n}\n'
    text = f"# first\n{HEAD}{body}"
    ((_, located),) = _read(text)
    assert located.place_of("spec") == (4, 5)
    line, column = located.place_of("spec.rules[1].key")
    assert line == 5
    assert text.splitlines()[4][column - 1 :].startswith("key")


def test_yaml_in_a_heredoc_and_what_a_release_sets() -> None:
    release = (
        'resource "helm_release" "k" {\n  chart = "oci://x/karpenter"\n'
        '  set {\n    name  = "settings.clusterName"\n    value = var.name\n  }\n'
        '  set {\n    name = "replicas"\n    value = 3\n  }\n}\n'
    )
    manifest = (
        'resource "kubectl_manifest" "p" {\n'
        "  yaml_body = <<-EOT\n    apiVersion: v1\n    kind: Namespace\n  EOT\n}\n"
    )
    found = _read(release + manifest)
    assert [(kind, located.value) for kind, located in found] == [
        ("helm_release", {"settings.clusterName": "<var.name>", "replicas": 3}),
        ("kubectl_manifest", {"apiVersion": "v1", "kind": "Namespace"}),
    ]
    assert found[0][1].line_of("settings.clusterName") == 4
    assert found[1][1].line_of("kind") == 15


def test_values_and_manifests_that_are_encoded_by_terraform() -> None:
    text = """resource "helm_release" "k" {
  chart = "karpenter"
  values = [
    file("more.yaml"), yamlencode({
      settings = {
        clusterName       = module.eks.cluster_name
        interruptionQueueName = "jobs" # gone
      }
    }),
    jsonencode({ "replicas" = 2 }),
    yamlencode(local.values)
  ]
}
resource "kubectl_manifest" "p" {
  yaml_body = yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = "a" } })
}
resource "helm_release" "other" {
  chart  = "keda"
  values = [yamlencode({ a = 1 })]
}
"""
    found = _read(text)
    queue = {"clusterName": "<module.eks.cluster_name>", "interruptionQueueName": "jobs"}
    assert [(kind, located.value) for kind, located in found] == [
        ("helm_release", {"settings": queue}),
        ("helm_release", {"replicas": 2}),
        ("kubectl_manifest", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
    ]
    assert found[0][1].place_of("settings.interruptionQueueName")[0] == 7
    assert found[2][1].place_of("metadata.name")[0] == 15


def test_releases_of_other_charts_are_left_alone() -> None:
    text = (
        'resource "helm_release" "k" {\n  chart = "keda"\n  set {\n    name = "a"\n    value = "b"\n  }\n}\n'
    )
    assert _read(text) == []


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(alphabet='{}[]=,"\\$#/*\n abk1.', max_size=60))
def test_odd_text_is_no_fault(body: str) -> None:
    faults: list[InputError] = []
    for _, located in read_terraform(f"{HEAD}{{{body}", "main.tf", faults.append):
        assert located.source == "main.tf"


def test_documents_of_an_indented_heredoc_are_told_apart_where_they_are() -> None:
    text = (
        'resource "kubectl_manifest" "two" {\n  yaml_body = <<-YAML\n    apiVersion: v1\n'
        "    kind: Namespace\n    ---\n    apiVersion: v1\n    kind: ConfigMap\n"
        "    data:\n      text: |\n        ---\n  YAML\n}\n"
    )
    found = [located for _, located in _read(text)]
    assert [(item.value["kind"], item.place_of("kind")) for item in found] == [
        ("Namespace", (4, 5)),
        ("ConfigMap", (7, 5)),
    ]
    assert found[1].value["data"] == {"text": "---\n"}


@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("apiVersion: v1\nkind: A\n", ["A"]),
        ("- apiVersion: v1\n  kind: A\n- kind: B\n  apiVersion: v1\n", ["A", "B"]),
        ("kubectl apply -f - <<EOF\napiVersion: v1\nkind: A\nEOF\necho apiVersion: done\n", ["A"]),
        ("words\n  apiVersion: no\n", []),
        ("kind: A\n%{ if var.x ~}\napiVersion: v1\n%{ else ~}\napiVersion: v2\n%{ endif ~}\n", ["A"]),
        ("kind: A\napiVersion: v1\nlist:\n%{ for k in var.x }\n- ${k}\n%{ endfor }\n", ["A"]),
    ],
)
def test_what_a_heredoc_holds(indent: str, written: str, names: list[str]) -> None:
    body = "".join(f"{indent}{line}\n" for line in written.splitlines())
    faults: list[InputError] = []
    found = list(read_terraform(f"x = <<-EOT\n{body}EOT\n", "main.tf", faults.append))
    assert [located.value["kind"] for _, located in found] == names
    assert [located.line_of("kind") for _, located in found] == [
        number for number, line in enumerate(body.splitlines(), 2) if "kind:" in line
    ]


def test_fields_after_what_is_worked_out_are_where_they_are_written() -> None:
    body = "{\n a = concat([\n  for k in x : k\n ], [])\n b = <<EOT\n{\nEOT\n c = [{\n  d = 1 }]\n}"
    ((_, located),) = _read(f"{HEAD}{body}\n}}\n")
    assert [located.line_of(path) for path in ("a", "b", "c", "c[0].d")] == [3, 6, 9, 10]


@given(
    st.lists(
        st.sampled_from(
            [
                "{",
                "}",
                "[",
                "]",
                "(",
                ")",
                " = ",
                ",",
                "\n",
                '"a"',
                "b",
                "for ",
                "${x}",
                "<<-E\n",
                "\nE\n",
                "?",
                "#",
                "'",
            ]
        ),
        max_size=25,
    )
)
def test_any_text_is_objects_or_faults(parts: list[str]) -> None:
    faults: list[InputError] = []
    found = read_terraform(f"{HEAD}{{{''.join(parts)}}}\n}}\n", "main.tf", faults.append)
    assert all(isinstance(located.value, dict) for _, located in found)
