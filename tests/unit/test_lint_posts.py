"""Every mistake in the manifests of five posts is found in them, and nothing is in their corrected forms.

The numbers are those of the stories that the posts were taken apart into. DOVETAIL_POSTS names a folder with
the posts' own texts (000*.txt and so on), which are then looked at as well.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dovetail.lint.check import check
from dovetail.lint.finding import Finding
from dovetail.lint.survey import survey
from dovetail.lint.table import RULES, chosen

EXAMPLES = Path(__file__).parents[2] / "examples"
POSTS = os.environ.get("DOVETAIL_POSTS", "")
V1 = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n"
POOL = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec:\n"
REF = "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
TERMS = (
    "  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n"
    "  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n"
)
ALPHA = (
    "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\n"
    "spec:\n  providerRef: {name: default}\n"
)
INFLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  selector: {matchLabels: {app: inflate}}
  AFFINITY
  template:
    metadata: {labels: {app: inflate}}
    spec:
      containers: [{name: inflate, image: 'eks-distro/pause:3.7', resources: {requests: {cpu: 1}}}]
"""
AFFINITY = "affinity: {nodeAffinity: {}}"
LATEST = "  role: nodes\n  amiSelectorTerms: [{alias: al2023@latest}]\n"
BY_NAME = "  role: nodes\n  amiFamily: AL2023\n  amiSelectorTerms: [{name: %s}]\n"


def _annotated(value: str) -> str:
    labels = "{labels: {app: inflate}"
    return INFLATE.replace(labels, f"{labels}, annotations: {{karpenter.sh/do-not-disrupt: {value}}}")


def _found(paths: list[Path], *, everything: bool = False) -> tuple[Finding, ...]:
    return check(survey([str(path) for path in paths]), RULES if everything else chosen())


# story: (file of the examples, line in it, rule)
IN_EXAMPLES = {
    9: ("post-000/as-written/main.tf", 25, "HV001"),
    "9, no queue": ("post-000/as-written/main.tf", 25, "HV002"),
    10: ("post-000/as-written/main.tf", 33, "TF001"),
    13: ("post-000/as-written/main.tf", 54, "NP003"),
    15: ("post-000/as-written/main.tf", 62, "NP007"),
    17: ("post-000/as-written/main.tf", 105, "NC002"),
    18: ("post-000/as-written/main.tf", 85, "NC001"),
    131: ("post-000/as-written/main.tf", 20, "HV004"),
    132: ("post-000/as-written/main.tf", 106, "NC008"),
    133: ("post-000/as-written/01-node-pool.yaml", 23, "NP007"),
    52: ("post-001/as-written/spread.yaml", 8, "WL009"),
    53: ("post-001/as-written/spread.yaml", 15, "IN002"),
    136: ("post-001/as-written/inflate.yaml", 40, "IN007"),
    27: ("post-001/as-written/node-class.yaml", 2, "IN008"),
    71: ("post-002/as-written/01-provisioner.yaml", 13, "NP001"),
    73: ("post-002/as-written/01-provisioner.yaml", 21, "NC003"),
    75: ("post-002/as-written/02-deployment.yaml", 23, "IN010"),
    93: ("post-003/as-written/provisioner.yaml", 8, "IN009"),
    94: ("post-003/as-written/provisioner.yaml", 12, "NP002"),
    113: ("post-004/as-written/02-node-template.yaml", 4, "NC011"),
    "113, the other": ("post-004/as-written/01-provisioner.yaml", 19, "NC012"),
    114: ("post-004/as-written/02-node-template.yaml", 11, "NC005"),
    115: ("post-004/as-written/02-node-template.yaml", 7, "IN007"),
    122: ("post-004/as-written/04-scale.yaml", 16, "KE001"),
    134: ("post-004/as-written/03-inflate.yaml", 14, "WL003"),
}

# story: (wrong, right, rule): mistakes that the posts make in words, or that are shown by one field.
IN_WORDS = {
    22: (
        V1 + LATEST + TERMS + "  tags: {karpenter.sh/nodepool: default}\n",
        V1 + LATEST + TERMS + "  tags: {karpenter.sh/discovery: demo}\n",
        "IN002",
    ),
    39: (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: inflate}\nspec:\n  template:\n"
        "    metadata: {annotations: {karpenter.sh/do-not-disrupt: 2h}}\n",
        _annotated("2h"),
        "IN002",
    ),
    6: (
        V1 + LATEST + TERMS.replace("discovery", "discovert", 1),
        V1 + LATEST + TERMS,
        "NC003",
    ),
    41: (
        _annotated("true"),
        _annotated('"2h"'),
        "IN006",
    ),
    "41, True": (
        _annotated('"True"'),
        INFLATE,
        "WL004",
    ),
    43: (
        _annotated('"true"'),
        INFLATE,
        "WL005",
    ),
    54: (
        V1 + BY_NAME % "amazon-eks-node-1.30-v2024" + TERMS,
        V1 + BY_NAME % "amazon-eks-node-al2023-x86_64-standard-1.30-*" + TERMS,
        "NC009",
    ),
    58: (
        V1 + LATEST + "  userData: /etc/eks/bootstrap.sh demo\n" + TERMS,
        V1 + LATEST + TERMS,
        "NC007",
    ),
    62: (
        V1
        + LATEST
        + "  userData: |\n    #!/bin/bash\n    cp 20-mine.conf /etc/kubernetes/kubelet/config.jons.d/\n"
        + TERMS,
        V1
        + LATEST
        + "  userData: |\n    #!/bin/bash\n    cp 20-mine.conf /etc/kubernetes/kubelet/config.json.d/\n"
        + TERMS,
        "NC007",
    ),
    66: (INFLATE.replace("{requests: {cpu: 1}}", "{}"), INFLATE, "WL001"),
    69: (
        ALPHA + "  consolidation: {enabled: true}\n  ttlSecondsAfterEmpty: 30\n",
        ALPHA + "  ttlSecondsAfterEmpty: 30\n",
        "IN002",
    ),
    105: (ALPHA, ALPHA + "  ttlSecondsAfterEmpty: 30\n", "NP021"),
    118: (
        ALPHA + "  amiFamily: Bottlerocket\n  ttlSecondsAfterEmpty: 30\n",
        ALPHA + "  ttlSecondsAfterEmpty: 30\n",
        "NP002",
    ),
    "118, podsPerCore": (
        V1
        + "  role: nodes\n  amiSelectorTerms: [{alias: bottlerocket@latest}]\n  kubelet: {podsPerCore: 2}\n"
        + TERMS,
        V1
        + "  role: nodes\n  amiSelectorTerms: [{alias: bottlerocket@latest}]\n  kubelet: {maxPods: 20}\n"
        + TERMS,
        "NC015",
    ),
    124: (
        INFLATE.replace("AFFINITY", AFFINITY),
        INFLATE.replace("    spec:\n", f"    spec:\n      {AFFINITY}\n"),
        "IN005",
    ),
    "136, region": (
        INFLATE.replace(
            "    spec:\n",
            "    spec:\n      topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/region,"
            " maxSkew: 1,"
            " whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: inflate}}}]\n",
        ),
        INFLATE,
        "WL008",
    ),
}


# All that the stories mark as a mistake, and those of them that are in sentences: no file holds them.
MARKED = frozenset(
    {6, 9, 10, 15, 17, 18, 22, 34, 39, 43, 49, 52, 53, 54, 56, 62, 71, 73, 76, 80, 90, 93, 97, 102, 105}
    | {107, 113, 114, 118, 122, 124}
)
IN_SENTENCES = frozenset({34, 49, 56, 76, 80, 90, 97, 102, 107})


def test_every_marked_mistake_is_found_or_told_why_no_file_shows_it() -> None:
    found = {int(re.match(r"\d+", str(story))[0]) for story in (*IN_EXAMPLES, *IN_WORDS)}  # type: ignore[index]
    assert MARKED - found == IN_SENTENCES
    page = (EXAMPLES.parent / "docs" / "guides" / "check.md").read_text("utf-8")
    table = page.partition("## What no file shows\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) - 2 == len(IN_SENTENCES)


@pytest.mark.parametrize("folder", ["post-000", "post-001", "post-002", "post-003", "post-004"])
def test_each_mistake_is_found_at_its_line(folder: str) -> None:
    wanted = {(file, line, code) for file, line, code in IN_EXAMPLES.values() if file.startswith(folder)}
    files = sorted((EXAMPLES / folder / "as-written").glob("*"))
    files = [file for file in files if file.suffix in (".tf", ".yaml") and file.name != "scenario.yaml"]
    found = {(str(Path(item.source).relative_to(EXAMPLES)), item.line, item.code) for item in _found(files)}
    # The same class is in a file of its own beside Terraform's, and is the one that counts then.
    single = {
        (str(Path(item.source).relative_to(EXAMPLES)), item.line, item.code)
        for file in files
        if file.suffix == ".tf"
        for item in _found([file])
    }
    assert wanted - found - single == set()


@pytest.mark.parametrize("story", IN_WORDS, ids=str)
def test_what_the_posts_say_in_words_is_found(story: int | str, tmp_path: Path) -> None:
    wrong, right, code = IN_WORDS[story]  # type: ignore[index]
    file = tmp_path / "post.yaml"
    file.write_text(wrong.replace("  AFFINITY\n", ""))
    assert code in {item.code for item in _found([file])}
    file.write_text(right.replace("  AFFINITY\n", ""))
    assert {item.code for item in _found([file])} <= {"IN008"}


@pytest.mark.parametrize("folder", ["post-000", "post-001", "post-002", "post-003", "post-004"])
def test_nothing_is_said_of_the_corrected_forms_but_their_age(folder: str) -> None:
    files = [path for path in sorted((EXAMPLES / folder).glob("*.yaml")) if path.name != "scenario.yaml"]
    # What is of an older generation is that; Dovetail takes it, and names of that time with it.
    assert {item.code for item in _found(files)} <= {"IN008", "IN010"}


def _manifests(text: str) -> list[str]:
    """The objects of a text, as far as each begins with apiVersion and goes on indented."""
    found, lines = [], text.split("\n")
    starts = [place for place, line in enumerate(lines) if line.startswith("apiVersion:")]
    for start in starts:
        end = start
        while end < len(lines) and (
            re.match(r"(apiVersion|kind|metadata|spec):|\s+\S|#", lines[end])
            or (not lines[end].strip() and re.match(r"\s+\S", "".join(lines[end + 1 : end + 2])))
        ):
            end += 1
        found.append("\n".join(lines[start:end]) + "\n")
    return found


@pytest.mark.skipif(not POSTS, reason="DOVETAIL_POSTS names no folder")
@pytest.mark.parametrize(
    ("post", "codes"),
    [
        ("000", {"HV001", "HV002", "TF001", "NP003", "NP007", "NP008", "NC001", "NC002", "NC008"}),
        ("001", {"IN007", "IN008", "WL009"}),
        ("002", {"NP001", "NC003", "IN008", "IN010"}),
        ("004", {"NC005", "NC011", "NC012", "IN007", "IN008", "KE001", "WL003"}),
    ],
)
def test_the_posts_own_texts(post: str, codes: set[str], tmp_path: Path) -> None:
    (source,) = Path(POSTS).glob(f"{post}*.txt")
    text = source.read_text("utf-8")
    files = []
    if post == "000":
        files.append(tmp_path / "main.tf")
        files[0].write_text(text[text.index("locals {") : text.index("\n마치며")])
    for index, manifest in enumerate(_manifests(text)):
        files.append(tmp_path / f"{index:02}.yaml")
        files[-1].write_text(manifest)
    assert codes - {item.code for item in _found(files)} == set()
