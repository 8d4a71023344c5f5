"""`dovetail check userdata`: the verdict on each format, and what is said of what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cloud.aws.amifamily.userdata.check import family_of, remarks
from tests.unit.node_config import NODE_CONFIG

HEAD = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"
DISK = "  instance: {localStorage: {"
ARCHIVE = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n'
    "--B\nContent-Type: text/x-shellscript\n\n#!/bin/bash\necho\n"
    f"--B\nContent-Type: application/node.eks.aws\n\n{HEAD}"
)
CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
  userData: |
    [settings.kubernetes]
    max-pods = MOST
"""


def test_a_node_config_has_the_verdict_of_nodeadm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Story 61: two JSON lines, what is checked and that it is valid."""
    file = tmp_path / "games.yaml"
    file.write_text(NODE_CONFIG)
    assert run(["check", "userdata", str(file), "-o", "json"]) == OK
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    line = {"level": "info", "msg": "Checking configuration", "source": str(file), "family": "AL2023"}
    assert first == line
    assert second == {"level": "info", "msg": "Configuration is valid"}


def test_what_is_wrong_is_reported_with_line_field_and_what_would_be_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(NODE_CONFIG.replace("30s", "2d"))
    assert run(["check", "userdata", str(file), "-o", "json"]) == BAD_INPUT
    _, fault, verdict = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fault["level"], fault["line"]) == ("error", 7)
    assert fault["path"] == "spec.kubelet.config.shutdownGracePeriod"
    assert "did you mean 48h?" in fault["msg"]
    assert verdict["msg"] == "Configuration is not valid"
    assert run(["check", "userdata", str(file)]) == BAD_INPUT
    printed = capsys.readouterr().out
    assert "error: line 7: spec.kubelet.config.shutdownGracePeriod: '2d'" in printed
    assert printed.endswith("Configuration is not valid\n")


@pytest.mark.parametrize(
    ("family", "text", "line", "words"),
    [
        ("AL2023", f"{HEAD}  kubelet: [\n", 5, "malformed YAML"),
        ("AL2023", f"{HEAD}  kubelet: {{flags: --v=2}}\n", 4, "must be of type array, not string"),
        ("AL2023", f"{HEAD}  kubelet: {{flags: [v=2]}}\n", 4, "'v=2' is no flag"),
        ("AL2023", f"{HEAD}  kubelet: {{config: {{maxPods: '5'}}}}\n", 4, "must be a whole number"),
        ("AL2023", f"{HEAD}  containerd: {{config: '[a'}}\n", 4, "this is no TOML"),
        ("AL2023", "#cloud-config\nruncmd: [ls]\n", 2, "neither apiVersion nor kind"),
        ("AL2023", "apiVersion: v1\nkind: Pod\n", 1, "apiVersion: v1, kind: Pod"),
        ("AL2023", "apiVersion: node.eks.aws/v1\nkind: Node\n", 2, "kind: Node"),
        ("AL2023", "apiVersion: node.eks.aws/v1\n- a", 2, "malformed YAML"),
        ("AL2023", "# nothing\n", 1, "it is taken for a NodeConfig and is empty"),
        ("AL2023", f"{ARCHIVE}  cluster: 3\n--B--\n", 15, "must be of type object"),
        ("AL2023", f"{ARCHIVE}  cluster: {{}}\n", 15, "unexpected EOF"),
        ("AL2023", "MIME-Version: 1.0\nContent-Type\n\n", 2, "malformed header line: Content-Type"),
        ("AL2", ARCHIVE, 14, "unexpected EOF"),
        ("AL2023", "apiVersion: node.eks.aws/v1alpha1\nspec: {}\n", 1, "this has apiVersion: node.eks.aws"),
        ("AL2023", f"{HEAD}  kubelet: {{flags: [--v=2, v=2]}}\n", 4, "'v=2' is no flag"),
        ("AL2023", f"{HEAD}  kubelet: {{config: {{maxPods: null, podPidsLimit: '5'}}}}\n", 4, "whole number"),
        ("Bottlerocket", "[settings.kubernetes\n", 1, "invalid UserData toml"),
        ("Bottlerocket", "[settings.kubernetes]\n\nmax-pods = true\n", 3, "must be a whole number, not True"),
        ("Bottlerocket", "[settings.bootstrap-commands]\na = 1\n", 2, "must be a table, not 1"),
    ],
)
def test_no_node_would_come_of_it(family: str, text: str, line: int, words: str) -> None:
    fatal = [item for item in remarks(text, family) if item.fatal]
    assert [item.line for item in fatal] == [line]
    assert words in fatal[0].message


@pytest.mark.parametrize(
    ("family", "text", "warnings"),
    [
        ("AL2023", NODE_CONFIG, ()),
        ("AL2023", "#!/bin/bash\necho: a\n", ("neither apiVersion nor kind",)),
        ("AL2023", "#!/bin/bash\necho a\n", ()),
        ("AL2023", "echo a\n", ("line 1: this is taken for a shell script",)),
        ("AL2023", f"{HEAD}  kublet: {{}}\n", ("line 4: spec.kublet: nodeadm knows no such field",)),
        ("AL2023", f"{HEAD}  kubelet: {{config: {{maxPod: 5}}}}\n", ("the kubelet knows no such field",)),
        ("AL2023", f"{HEAD}  kubelet: {{config: {{maxPods: 5}}}}\n", ("decides it",)),
        ("AL2023", f"# Karpenter Generated NodeConfig\n{HEAD}  kubelet: {{config: {{maxPods: 5}}}}\n", ()),
        ("AL2023", f"{HEAD}  kubelet: {{config: {{maxPods: null}}, flags: null}}\n", ()),
        ("AL2023", f"{HEAD}  kubelet: {{}}\n  kubelet: {{}}\n", ("line 5: spec.kubelet: ",)),
        ("AL2023", f"{HEAD}  cluster: {{}}\n---\na: b\n", ("line 6: nodeadm reads the first document",)),
        ("AL2023", f"{HEAD}  instance: {{localStorage: {{strategy: RAID5}}}}\n", ("'RAID5' is none of",)),
        (
            "AL2023",
            f"{HEAD}{DISK}strategy: RAID0, disabledMounts: [PodLogs]}}}}\n",
            (),
        ),
        ("AL2023", f"{HEAD}  instance: {{localStorage: {{strategy: RAID10}}}}\n", ()),
        (
            "AL2023",
            f"{HEAD}{DISK}strategy: Mount, disabledMounts: [Containerd]}}}}\n",
            (),
        ),
        (
            "AL2023",
            f"{HEAD}  instance: {{localStorage: {{disabledMounts: [Containerd, Logs]}}}}\n",
            ("line 4: spec.instance.localStorage.disabledMounts: 'Logs' is none of Containerd, PodLogs",),
        ),
        ("AL2023", f"{HEAD}  cluster: {{nam: a}}\n", ("line 4: spec.cluster.nam: nodeadm knows",)),
        (
            "AL2023",
            f"{HEAD}  kublet: {{}}\n  instance: {{localStorage: {{strategy: RAID5}}}}\nother: 1\n",
            ("line 4: spec.kublet", "line 5: spec.instance.localStorage.strategy", "line 6: other: nodeadm"),
        ),
        ("AL2023", f"{HEAD.replace('v1alpha1', 'v1')}  cluster: {{}}\n", ("v1 is not known here",)),
        ("AL2023", f"{ARCHIVE}  kubelt: {{}}\n--B--\n", ("line 15: spec.kubelt",)),
        ("AL2", "#!/bin/bash\n", ()),
        ("AL2", NODE_CONFIG, ("line 1: this is taken for a shell script",)),
        ("AL2", f"{ARCHIVE}  cluster: {{}}\n--B--\n", ("AL2 has no nodeadm",)),
        ("AL2", "echo a\r\n", ("line 1: this is taken for a shell script",)),
        ("AL2", "\n\n", ()),
        ("AL2", ARCHIVE + "--B--\n", ("line 12: AL2 has no nodeadm to read a NodeConfig",)),
        (
            "AL2023",
            ARCHIVE.replace("#!/bin/bash\n", "").replace("\n", "\r\n") + "--B--\r\n",
            ("line 7: this is taken for a shell script",),
        ),
        ("Bottlerocket", "[settings.kubernetes]\nmax-pods = 20\n", ()),
        ("Bottlerocket", "[settings.kubernetes]\nmax-podz = 20\n", ("line 2: settings.kubernetes.max-podz",)),
        ("Windows2022", "Write-Host a\n", ()),
        ("Windows2022", "\n<powershell>\n", ("line 2: <powershell>",)),
        ("Custom", "anything: [", ()),
        ("AL2023", "", ()),
    ],
)
def test_what_would_have_no_effect(family: str, text: str, warnings: tuple[str, ...]) -> None:
    found = remarks(text, family)
    assert len(found) == len(warnings)
    for item, words in zip(found, warnings, strict=True):
        assert words in str(item)
        # A script whose lines read as YAML is the one here that no node comes of.
        assert item.fatal == ("neither" in words)


@pytest.mark.parametrize(
    ("family", "text", "remedy"),
    [
        ("AL2", "echo a\n", "write #!/bin/bash above it"),
        ("AL2", NODE_CONFIG, "nodeadm and its NodeConfig are of AL2023"),
        ("AL2023", "echo a\n", "a NodeConfig begins with apiVersion: node.eks.aws/v1alpha1"),
        ("AL2023", f"{HEAD}  cluster: {{nam: a}}\n", "did you mean name?"),
        ("AL2023", f"{HEAD}  instance: {{disks: a}}\n", "known here: localStorage"),
    ],
)
def test_what_to_do_about_it(family: str, text: str, remedy: str) -> None:
    (found,) = remarks(text, family)
    assert found.remedy == remedy


@pytest.mark.parametrize(
    ("text", "name", "family"),
    [
        (NODE_CONFIG, "a.yaml", "AL2023"),
        ("a = 1", "a.toml", "Bottlerocket"),
        ("[settings.kubernetes]\n", "-", "Bottlerocket"),
        ("<powershell>\n", "a", "Windows2022"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh demo\n", "a", "AL2"),
    ],
)
def test_the_family_is_what_the_text_looks_like(text: str, name: str, family: str) -> None:
    assert family_of(text, name) == family


@pytest.mark.parametrize(("most", "code"), [("20", OK), ("true", BAD_INPUT)])
def test_a_class_is_checked_for_the_family_of_its_images(
    most: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "class.yaml"
    file.write_text(CLASS.replace("MOST", most))
    assert run(["check", "userdata", str(file)]) == code
    printed = capsys.readouterr().out
    assert printed.startswith(f"{file}: EC2NodeClass default: spec.userData: user data of Bottlerocket\n")
    assert ("error: line 2: " in printed) == (code == BAD_INPUT)


def test_what_is_nearly_too_large_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large.sh"
    file.write_text("#!/bin/bash\n" + "x" * 14_000)
    assert run(["check", "userdata", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "  warning: with what Dovetail adds 1" in printed and "EC2 takes 16384" in printed
    added = int(re.findall(r"adds (\d+) bytes", printed)[0]) - file.stat().st_size
    for size, warned in ((14_745, False), (14_746, True)):  # nine tenths of that
        file.write_text("#!/bin/bash\n" + "x" * (size - added - len("#!/bin/bash\n")))
        assert run(["check", "userdata", str(file)]) == 0
        assert (f"with what Dovetail adds {size} bytes" in capsys.readouterr().out) is warned


def test_size_counts_what_is_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large.sh"
    file.write_text("#!/bin/bash\n" + "x" * 16_000)
    assert run(["check", "userdata", str(file)]) == BAD_INPUT
    assert "and EC2 takes 16384" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read"), (b"", "there is no user data in it"), (b"\x1f\x8b", "not UTF-8 text")],
)
def test_files_that_hold_no_user_data(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "data"
    if content is not None:
        file.write_bytes(content)
    assert run(["check", "userdata", str(file)]) == BAD_INPUT
    assert words in capsys.readouterr().err
