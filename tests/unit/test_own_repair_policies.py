"""The value of --repair-policies: what is read, and how each fault is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cloud.repair import EKS_POLICIES
from dovetail.cloud.repair_policies import read_repair_policies
from dovetail.model.repair import REBOOT, REPLACE, RepairPolicy

FALLBACK = '- {conditionType: Ready, conditionStatus: "False", tolerationDuration: 30m}'
GOOD = f"""policies:
{FALLBACK}
- conditionType: Gpu
  conditionStatus: Unknown
  reasonRegex: (?i)xid
  tolerationDuration: 90s
  terminationGracePeriod: 0s
  priority: 100
  action: RebootNode
"""
SETTINGS = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def read(text: str) -> tuple[RepairPolicy, ...]:
    return read_repair_policies(text, "--repair-policies")


def test_yaml_and_json() -> None:
    first, second = read(GOOD)
    assert first == RepairPolicy("Ready", "False", 30 * MINUTE, action=REPLACE)
    assert second == RepairPolicy("Gpu", "Unknown", 90 * MINUTE // 60, "(?i)xid", 0, 100, REBOOT)
    # As YAML takes it where the quotes are left out, and as Helm hands that over.
    for status in ("False", '"False"', "false"):
        fields = f'"conditionType": "Ready", "conditionStatus": {status}, "tolerationDuration": "30m"'
        text = f'{{"policies": [{{{fields}}}]}}'
        assert read(text) == (first,)


@pytest.mark.parametrize("text", ["", " \n", "---"])
def test_nothing_leaves_the_clouds_own(text: str) -> None:
    assert read(text) == ()


def test_those_of_aws_are_in_the_settings() -> None:
    section = SETTINGS.read_text().partition("## When nodes are past help")[2]
    text = section.partition("```yaml\n")[2].partition("```")[0]
    assert read(text) == EKS_POLICIES.current


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("/etc/policies.yaml", None, "", "expected an object with policies"),
        (FALLBACK, None, "", "expected an object with policies"),
        ("policies: []", 1, "policies", "none is defined"),
        ("policies:", 1, "policies", "Required value"),
        ("policies: [null]", 1, "policies[0]", "must be of type object"),
        ("a: [", 2, "", "malformed YAML"),
        ("{}\n---\n{}", None, "", "expected one document, found 2"),
        (GOOD.replace("reasonRegex", "reason"), 5, "policies[1].reason", "unknown field reason"),
        (GOOD.replace("priority: 100", "priority: 9.5"), 8, "policies[1].priority", "of type integer"),
        (
            GOOD.replace("priority: 100", "priority: 101"),
            8,
            "policies[1].priority",
            "outside the supported range",
        ),
        (GOOD.replace("90s", "90"), 6, "policies[1].tolerationDuration", "of type string"),
        (GOOD.replace("90s", "1d"), 6, "policies[1].tolerationDuration", "'1d' is not a duration"),
        (
            GOOD.replace("90s", "-90s"),
            6,
            "policies[1].tolerationDuration",
            "negative toleration duration -1m30s",
        ),
        (
            GOOD.replace("Period: 0s", "Period: -1s"),
            7,
            "policies[1].terminationGracePeriod",
            "negative termination grace",
        ),
        (GOOD.replace("RebootNode", "Reboot"), 9, "policies[1].action", 'unsupported action "Reboot"'),
        (GOOD.replace("Unknown", "Maybe"), 4, "policies[1].conditionStatus", 'condition status "Maybe"'),
        (GOOD.replace("Gpu", '""'), 3, "policies[1].conditionType", "has an empty condition type"),
        (GOOD.replace("(?i)xid", "XID("), 5, "policies[1].reasonRegex", "missing closing )"),
        (GOOD.replace("(?i)xid", "(?!x)"), 5, "policies[1].reasonRegex", "unsupported Perl syntax"),
        (GOOD.replace("  reasonRegex: (?i)xid\n", ""), 3, "policies[1]", "multiple default fallbacks"),
        (GOOD.replace(FALLBACK + "\n", ""), 1, "policies", "must define one default fallback"),
        (
            GOOD.replace("30m}", "30m, action: RebootNode}"),
            2,
            "policies[0].action",
            'must use action "ReplaceNode"',
        ),
    ],
)
def test_faults_have_their_place(text: str, line: int | None, path: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text)
    fault = refused.value.faults[0]
    assert (fault.source, fault.line, fault.path) == ("--repair-policies", line, path)
    assert message in fault.message


def test_all_faults_are_told_at_once() -> None:
    text = GOOD.replace("100", "-1").replace("90s", "-90s").replace("RebootNode", "Boot")
    with pytest.raises(InputError) as refused:
        read(text)
    assert [fault.path.rpartition(".")[2] for fault in refused.value.faults] == [
        "tolerationDuration",
        "priority",
        "action",
    ]
