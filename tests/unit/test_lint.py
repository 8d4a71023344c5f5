"""`dovetail check`: forms of its answer, comments, selection, mending, exit codes, odd input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.cli.main import run
from dovetail.lint.check import check
from dovetail.lint.comments import silenced
from dovetail.lint.rules.scaling import GATES, SETTINGS
from dovetail.lint.shelf import UNLISTED_FAMILIES, every_name
from dovetail.lint.survey import survey
from dovetail.lint.table import RULES, chosen

ROOT = Path(__file__).parents[2]
POOL = """\
# The pool of all.
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
  annotations: {team: 7} # who owns it
spec:
  disruption: # when nodes go
    consolidationPolicy: WhenEmpty
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 2592000 # a month
      requirements:
        - {key: beta.kubernetes.io/arch, operator: In, values: [amd64]}
"""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    file = tmp_path / "pool.yaml"
    file.write_text(POOL)
    return file


def _rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    run(["check", *arguments, "-o", "json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return rows


def test_every_finding_has_its_place_and_errors_end_with_one(
    pool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "-f", str(pool)]) == 1
    lines = capsys.readouterr().out.splitlines()
    form = rf"{re.escape(str(pool))}:(\d+:\d+) (\w+) (\w+): .+: .+; .+"
    heads = [re.match(form, line) for line in lines[:-1]]
    assert [head.groups() for head in heads if head] == [
        ("6:17", "IN006", "error"),
        ("13:7", "NP006", "error"),
        ("15:12", "NP004", "warning"),
    ]
    assert lines[-1] == "2 errors, 1 warning; 3 can be fixed by --fix"


def test_warnings_alone_end_with_zero_unless_asked(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(pool), "--select", "NP004"]) == 0
    assert run(["check", str(pool), "--select", "NP004", "--fail-on", "warning"]) == 1
    assert run(["check", str(pool), "--fail-on", "never"]) == 0
    capsys.readouterr()


def test_what_is_mended_keeps_comments_and_order(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--fix", str(pool)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing found; 3 fixed"
    text = pool.read_text()
    assert text.startswith("# The pool of all.\n")
    assert "disruption:  # when nodes go" in text
    assert "expireAfter: 2592000s  # a month" in text
    before, after = yaml.safe_load(POOL), yaml.safe_load(text)
    assert list(after["spec"]) == list(before["spec"])
    assert after["metadata"]["annotations"] == {"team": "7"}
    assert after["spec"]["template"]["spec"]["requirements"][0]["key"] == "kubernetes.io/arch"


def test_what_is_right_is_not_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = "apiVersion:   v1\nkind:  Namespace\nmetadata:   {name:  shop}\n\n\n"
    other, wrong = tmp_path / "a.yaml", tmp_path / "b.yaml"
    other.write_text(odd)
    wrong.write_text(f"{odd}---\n{POOL}")
    assert run(["check", "--fix", str(tmp_path)]) == 0
    assert other.read_text() == odd
    assert wrong.read_text().startswith(odd)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("flags", "codes"),
    [
        ([], {"NP004", "NP006", "IN006"}),
        (["--select", "NP00"], {"NP004", "NP006"}),
        (["--select", "np006,IN006"], {"NP006", "IN006"}),
        (["--select", "duration-without-unit"], {"NP006"}),
        (["--ignore", "NP"], {"IN006"}),
        (["--select", "NP004", "--ignore", "NP"], {"NP004"}),
        (["--extend-select", "NP020"], {"NP004", "NP006", "IN006", "NP020"}),
        (["--select", "ALL", "--ignore", "IN"], {"NP004", "NP006", "NP020"}),
    ],
)
def test_rules_are_selected_by_code_beginning_and_name(
    flags: list[str], codes: set[str], pool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {row["code"] for row in _rows(capsys, str(pool), *flags)} == codes


def test_a_rule_that_does_not_exist_is_reported(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(pool), "--select", "NP999"]) == 2
    assert "there is no rule 'NP999'" in capsys.readouterr().err
    assert run(["check"]) == 2
    assert run(["check", str(pool.parent / "pol.yaml")]) == 2
    assert f"did you mean {pool}?" in capsys.readouterr().err


def test_comments_silence_lines_and_files(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = POOL.replace("# a month", "# noqa: NP006").replace(
        "  annotations:", "  # It was so before. noqa\n  annotations:"
    )
    pool.write_text(text)
    # A comment that only ends in the word says nothing.
    assert {row["code"] for row in _rows(capsys, str(pool))} == {"NP004", "IN006"}
    pool.write_text(text.replace("# It was so before. noqa", "# noqa: IN006, NP013"))
    assert {row["code"] for row in _rows(capsys, str(pool))} == {"NP004"}
    pool.write_text("# dovetail: noqa: NP, IN\n" + POOL)
    assert _rows(capsys, str(pool)) == []


def test_a_comment_above_is_for_the_next_line_only() -> None:
    found = silenced("a: 1\n# noqa: NP001\nb: 2\nc: 3 # noqa\n")
    assert [found.covers("NP001", line) for line in (1, 3, 4, 5)] == [False, True, True, False]
    assert not found.covers("WL001", 3)
    assert found.covers("WL001", 4)


def test_sarif_names_rule_place_and_level(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(pool), "-o", "sarif"]) == 1
    document = json.loads(capsys.readouterr().out)
    (ran,) = document["runs"]
    rules = ran["tool"]["driver"]["rules"]
    first = ran["results"][0]
    assert document["version"] == "2.1.0"
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "IN006"
    assert first["level"] == "error"
    place = first["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 6, "startColumn": 17}


def test_github_gets_annotations(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["check", str(pool), "-o", "github"])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"::error file={pool},line=6,col=17,title=IN006 number-for-text::")


def test_the_settings_that_are_known_are_those_of_the_chart() -> None:
    schema = json.loads((ROOT / "charts/dovetail/values.schema.json").read_text("utf-8"))
    known = schema["properties"]["settings"]["properties"]
    assert set(SETTINGS) == {name for name, item in known.items() if "const" not in item}
    gates = known["featureGates"]["properties"]
    assert set(GATES) == {name for name, item in gates.items() if "const" not in item}


def test_codes_are_unique_and_belong_to_a_group() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.code for rule in chosen()} == {rule.code for rule in RULES if rule.default}


def test_types_that_the_list_lacks_are_not_called_misspelt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pool.yaml"
    key, family = "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family"
    values = {key: "[g4ad.4xlarge, p3.2xlarge, dl1.24xlarge, m5.lrge]", family: "[g4ad, p3, m55]"}
    lines = [f"        - {{key: {name}, operator: In, values: {listed}}}" for name, listed in values.items()]
    file.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n"
        "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n"
        + "\n".join(lines)
    )
    found = _rows(capsys, "-f", str(file), "--select", "NP003", "--region", "us-east-1")
    said = [item["what"] for item in found]
    assert len([text for text in said if text.endswith("is not in the packaged list of types")]) == 5
    assert len([item for item in found if "did you mean" in item["fix"]]) == 2
    assert not UNLISTED_FAMILIES & {name.partition(".")[0] for name in every_name()}


def test_a_snapshot_is_held_against_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    pool = POOL.replace(
        "  disruption: # when nodes go\n    consolidationPolicy: WhenEmpty\n", "  limits: {cpu: 20}\n"
    )
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "labels": {"karpenter.sh/nodepool": "default", "topology.kubernetes.io/region": "us-west-2"}
        },
        "status": {"capacity": {"cpu": "16", "memory": "64Gi"}},
    }
    nodes = [{**node, "metadata": {**node["metadata"], "name": f"n{index}"}} for index in range(2)]  # type: ignore[dict-item]
    file.write_text(
        pool.replace("2592000 # a month", "60m") + "---\n" + "---\n".join(map(yaml.safe_dump, nodes))
    )
    rows = {row["code"]: row for row in _rows(capsys, str(file))}
    assert "the 2 nodes of NodePool default have more cpu than its limit of 20" in rows["NP015"]["what"]
    assert "48 launches a day for the 2 nodes that run" in rows["NP007"]["why"]


def _right() -> list[Path]:
    marked = re.compile("as-written|post-00[124]")
    found = [path for path in ROOT.glob("examples/**/*.yaml") if not marked.search(str(path))]
    return [path for path in found if path.name not in ("scenario.yaml", "faults.yaml")]


def test_nothing_is_said_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    folders = sorted({path.parent for path in _right() if path.parent.name != "changes"})
    for folder in folders:
        assert _rows(capsys, str(folder)) == [], folder


def test_nothing_is_said_of_two_hundred_right_pools(tmp_path: Path) -> None:
    """Pools of every kind that a cluster may have side by side: each with a label and a taint of its own."""
    template = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: p{number}}}
spec:
  weight: {weight}
  limits: {{cpu: {limit}, memory: {limit}Gi}}
  disruption: {{consolidationPolicy: {policy}, consolidateAfter: {after}, budgets: [{budget}]}}
  template:
    metadata: {{labels: {{team: t{number}}}}}
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      expireAfter: {life}
      taints: [{{key: team, value: t{number}, effect: NoSchedule}}]
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}
        - {{key: karpenter.k8s.aws/instance-category, operator: In, values: [{category}]}}
        - {{key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["{generation}"]}}
        - {{key: kubernetes.io/arch, operator: In, values: [{arch}]}}
        - {{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: w{number}}}
spec:
  replicas: {weight}
  selector: {{matchLabels: {{app: w{number}}}}}
  template:
    metadata: {{labels: {{app: w{number}}}}}
    spec:
      nodeSelector: {{team: t{number}}}
      tolerations: [{{key: team, value: t{number}, effect: NoSchedule}}]
      containers: [{{name: app, image: app, resources: {{requests: {{cpu: {weight}, memory: 1Gi}}}}}}]
"""
    axes = {
        "policy": ["WhenEmpty", "WhenEmptyOrUnderutilized"],
        "after": ["0s", "30s", "10m", "1h"],
        "budget": ["{nodes: 10%}", "{nodes: '0', schedule: '0 9 * * *', duration: 1h}", "{nodes: '1'}"],
        "life": ["720h", "168h", "Never"],
        "capacity": ["spot", "on-demand", "spot, on-demand"],
        "category": ["c", "m", "r", "c, m, r"],
        "generation": ["2", "5"],
        "arch": ["amd64", "arm64", "amd64, arm64"],
        "limit": ["100", "1000"],
        "weight": ["1", "10", "50"],
    }
    head = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\n"
    role = f"{head}spec:\n  role: nodes\n"
    terms = "[{tags: {karpenter.sh/discovery: demo}}]"
    selectors = f"  subnetSelectorTerms: {terms}\n  securityGroupSelectorTerms: {terms}\n"
    made = [f"{role}  amiSelectorTerms: [{{alias: al2023@latest}}]\n{selectors}"]
    for number in range(200):
        given = {
            name: values[number * (place + 1) % len(values)]
            for place, (name, values) in enumerate(axes.items())
        }
        made.append(template.format(number=number, **given))
    file = tmp_path / "right.yaml"
    file.write_text("---\n".join(made))
    assert [finding.text for finding in check(survey([str(file)]), chosen())] == []


_WORDS = st.sampled_from(
    [
        "",
        "default",
        "-1",
        "0s",
        "Never",
        "${X}",
        "In",
        "m5.large",
        "99999999h",
        "*",
        "a/b/c",
        "\u0000",
        "5%",
        "{{ x }}",
    ]
)
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(), _WORDS)
_ODD = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=2),
    max_leaves=4,
)
_GOOD = [
    document
    for page in sorted((ROOT / "docs/reference/rules").glob("*.md"))
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.S)
    if page.stem != "IN001"
    for document in yaml.safe_load_all(block)
]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in items for found in _paths(item, (*path, key)))][0 if path else 1 :]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_odd_manifests_give_findings_and_no_traceback(data: st.DataObject, tmp_path_factory: Any) -> None:
    documents = [json.loads(json.dumps(data.draw(st.sampled_from(_GOOD)))) for _ in range(3)]
    for document in documents:
        path = data.draw(st.sampled_from(_paths(document)))
        at = document
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = data.draw(_ODD)
    file = tmp_path_factory.getbasetemp() / "odd.json"
    file.write_text("\n".join(json.dumps(document) for document in documents))
    for finding in check(survey([str(file)]), RULES):
        assert finding.text


@pytest.mark.parametrize(
    ("resource", "amount", "meant"),
    [
        ("memory", "512", "write 512Mi"),
        ("memory", "512m", "write 512Mi"),
        ("memory", "100k", "write 100000Mi"),
        ("memory", "1Mi", ""),
        ("memory", "0", ""),
        ("cpu", "1500", "write 1500m"),
        ("cpu", "500M", "write 500m"),
        ("cpu", "900", ""),
    ],
)
def test_amounts_without_their_unit_are_told(
    resource: str, amount: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n"
        f"  - {{name: c, image: i, resources: {{requests: {{{resource}: {amount}}}}}}}\n"
    )
    found = _rows(capsys, str(file), "--select", "WL017")
    assert [one["fix"].partition(" if")[0] for one in found] == [meant] * bool(meant)
