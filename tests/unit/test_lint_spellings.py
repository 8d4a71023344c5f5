"""Rules find a mistake however it is spelt and wherever it stands: at its very place, and in no right form.

`@@` marks the place of the finding in the wrong text. Each of these was once overlooked, or found elsewhere.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from dovetail.lint.check import check
from dovetail.lint.finding import Finding
from dovetail.lint.rules.scaling import PARTS
from dovetail.lint.survey import survey
from dovetail.lint.table import chosen

CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-shop
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms:
    - tags:
        karpenter.sh/discovery: shop
  securityGroupSelectorTerms:
    - tags:
        karpenter.sh/discovery: shop
"""
BETA_CLASS = CLASS.replace("/v1\n", "/v1beta1\n").replace(
    "amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Bottlerocket"
)
SUBNETS = "karpenter.sh/discovery: shop\n  sec"
TEMPLATE = """\
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec:
  subnetSelector:
    karpenter.sh/discovery: shop
  securityGroupSelector:
    karpenter.sh/discovery: shop
"""
REFERENCE = "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
FIRST_HALF = "nodes: '0', schedule: 0 0 * * *, duration: 12h}"
LABELLED = "nodeSelector: {node.kubernetes.io/instance-type: "
SIDE = "        - {name: side, image: side, %s}\n"
QUEUE = "settings:\n  clusterName: shop\n  interruptionQueue: shop\n"


def _pool(*requirements: str, spec: str = "", template: str = "", meta: str = "{}") -> str:
    given = "".join(f"        - {item}\n" for item in requirements)
    return (
        f"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: default}}\nspec:\n{spec}"
        f"  template:\n    metadata: {meta}\n    spec:\n{template}      {REFERENCE}\n"
        f"      requirements:\n{given or '        []'}"
    )


def _is(key: str, values: str, operator: str = "In") -> str:
    return f"{{key: {key}, operator: {operator}, values: {values}}}"


def _marked(key: str, values: str, operator: str = "In") -> str:
    return f"{{@@key: {key}, operator: {operator}, values: {values}}}"


GENERAL = _is("karpenter.k8s.aws/instance-category", "[c, m]")
CPU = "karpenter.k8s.aws/instance-cpu"


def _budget(schedule: str, duration: str) -> str:
    return _pool(
        GENERAL,
        spec="  disruption:\n    consolidateAfter: 1m\n    budgets:\n"
        f"      - {{nodes: 50%, @@schedule: {schedule}, duration: {duration}}}\n",
    )


def _budgets(*items: str) -> str:
    listed = "".join(f"      - {item}\n" for item in items)
    return _pool(GENERAL, spec=f"  disruption:\n    consolidateAfter: 1m\n    budgets:\n{listed}")


def _in_seoul(mark: str, schedule: str) -> str:
    budget = f"      - {{nodes: 50%, {schedule}, duration: 9h}}\n"
    made = _pool(
        _is("topology.kubernetes.io/zone", "[ap-northeast-2a]"),
        spec=f"  disruption:\n    consolidateAfter: 1m\n    budgets:\n{budget}",
    )
    return made.replace("{name: default}", f"{{name: default, annotations: {{{mark}}}}}", 1)


def _cron(start: str, end: str) -> str:
    return (
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: shop}\nspec:\n"
        "  scaleTargetRef: {name: shop}\n  triggers:\n    - type: cron\n      metadata:\n"
        f"        timezone: Asia/Seoul\n        {start}\n        {end}\n        desiredReplicas: '5'\n"
    )


def _deployment(
    pod: str = "", *, name: str = "shop", image: str = "shop:1", more: str = "", top: str = ""
) -> str:
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n{top}spec:\n  replicas: 3\n"
        f"  selector: {{matchLabels: {{app: shop}}}}\n  template:\n    metadata: {{labels: {{app: shop}}}}\n"
        f"    spec:\n{pod}      containers:\n        - name: app\n          image: {image}\n"
        "          resources: {requests: {cpu: 100m, memory: 128Mi}}\n" + more
    )


def _allowed(field: str, name: str = "shop") -> str:
    return (
        f"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec:\n  {field}\n"
        "  selector: {matchLabels: {app: shop}}\n"
    )


def _scaled(most: int) -> str:
    return (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: shop}\nspec:\n"
        f"  minReplicas: 2\n  maxReplicas: {most}\n"
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}\n"
    )


def _spread(key: str) -> str:
    return (
        "      topologySpreadConstraints:\n"
        f"        - {{maxSkew: 1, @@topologyKey: {key}, whenUnsatisfiable: ScheduleAnyway, "
        "labelSelector: {matchLabels: {app: shop}}}\n"
    )


def _apart(key: str) -> str:
    return (
        "      affinity:\n        podAntiAffinity:\n"
        "          requiredDuringSchedulingIgnoredDuringExecution:\n"
        f"            - {{@@topologyKey: {key}, labelSelector: {{matchLabels: {{app: shop}}}}}}\n"
    )


def _release(form: str, values: str) -> str:
    """Values as a controller of releases has them."""
    if form == "flux":
        head = (
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: karpenter}\nspec:\n"
        )
        return f"{head}  chart: {{spec: {{chart: karpenter}}}}\n  values:\n{textwrap.indent(values, '    ')}"
    head = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: karpenter}\nspec:\n"
        "  source:\n    chart: karpenter\n    helm:\n"
    )
    key = "valuesObject:" if form == "argo" else "values: |"
    return f"{head}      {key}\n{textwrap.indent(values, '        ')}"


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n%d, labels: {karpenter.sh/nodepool: default}}
status: {capacity: {cpu: "16", memory: 64Gi}}
"""
CLAIM = """\
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: default-abcde, labels: {karpenter.sh/nodepool: default}}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
status: {capacity: {cpu: "8"}}
"""
LIMIT = "  limits: {@@%s}\n"

# name: (rule, wrong, right)
CASES: dict[str, tuple[str, str, str]] = {
    "letters among numbers": (
        "NP001",
        _pool(_marked(CPU, '[c, m, "8"]')),
        _pool(_is(CPU, '["8"]')),
    ),
    "letters in capitals": ("NP001", _pool(_marked(CPU, "[C]")), _pool(_is(CPU, '["4"]'))),
    "letters kept out": ("NP001", _pool(_marked(CPU, "[t]", "NotIn")), _pool(GENERAL)),
    "families for cores": ("NP001", _pool(_marked(CPU, "[m5, c5]")), _pool(GENERAL)),
    "discovery in another domain": (
        "NC003",
        CLASS.replace(SUBNETS, "@@karpenter.k8s.aws/discovery: shop\n  sec"),
        CLASS,
    ),
    "a cluster's own tag": (
        "NC003",
        CLASS.replace(SUBNETS, "@@kubernetes.io/clusters/shop: owned\n  sec"),
        CLASS.replace(SUBNETS, "kubernetes.io/cluster/shop: owned\n  sec"),
    ),
    "a tag's value in one of two": (
        "NC003",
        CLASS.replace(SUBNETS, "@@karpenter.sh/discovery: shpo\n  sec"),
        CLASS.replace(SUBNETS, "karpenter.sh/discovery: shared\n  sec"),
    ),
    "a tag's value and the cluster's name": (
        "NC003",
        QUEUE
        + "---\n"
        + CLASS.replace(SUBNETS, "@@karpenter.sh/discovery: shopp\n  sec").replace(": shop\n", ": shopp\n"),
        QUEUE + "---\n" + CLASS,
    ),
    "a tag of v1alpha1": (
        "NC003",
        TEMPLATE.replace(SUBNETS, "@@karpenter.sh/discoverry: shop\n  sec"),
        TEMPLATE,
    ),
    "another name for arch": (
        "NP004",
        _pool(_marked("kubernetes.io/architecture", "[amd64]")),
        _pool(_is("kubernetes.io/arch", "[amd64]")),
    ),
    "Auto Mode's label": (
        "NP004",
        _pool(_marked("eks.amazonaws.com/instance-category", "[c]")),
        _pool(GENERAL),
    ),
    "a label without its domain": (
        "NP004",
        _pool(_marked("instance-type", "[m5.large]")),
        _pool(_is("karpenter.k8s.aws/instance-family", "[m5]")),
    ),
    "an annotation of v1alpha5 in a pool": (
        "IN010",
        _pool(GENERAL, meta='{annotations: {@@karpenter.sh/do-not-consolidate: "true"}}'),
        _pool(GENERAL, meta="{annotations: {team: shop}}"),
    ),
    "the kubelet of a v1beta1 pool": (
        "NC015",
        BETA_CLASS
        + "---\n"
        + _pool(GENERAL, template="      kubelet:\n        @@podsPerCore: 2\n")
        .replace("sh/v1\n", "sh/v1beta1\n")
        .replace(REFERENCE, "nodeClassRef: {name: default}"),
        CLASS,
    ),
    "the script in a line of its own": (
        "NC007",
        CLASS + "  userData: |\n    #!/bin/bash\n    @@/etc/eks/bootstrap.sh shop\n",
        CLASS + "  userData: |\n    #!/bin/bash\n    # /etc/eks/bootstrap.sh is gone\n    echo shop\n",
    ),
    "budgets that take turns": (
        "NP009",
        _budgets("{@@" + FIRST_HALF, "{nodes: '0', schedule: 0 12 * * *, duration: 12h}"),
        _budgets("{" + FIRST_HALF, "{nodes: '0', schedule: 0 14 * * *, duration: 2h}"),
    ),
    "triggers at the same time": (
        "KE002",
        _cron("start: 0 9 * * 1-5", "@@end: 00 09 * * mon-fri"),
        _cron("start: 0 9 * * 1-5", "end: 0 18 * * 1-5"),
    ),
    "old values and spot": (
        "HV002",
        "settings:\n  aws:\n    @@clusterName: shop\n---\n" + _pool(GENERAL),
        QUEUE + "---\n" + _pool(GENERAL),
    ),
    "a disk dearer than small nodes": (
        "NC008",
        CLASS
        + "  @@blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 2Ti, volumeType: gp3}}]\n---\n"
        + _pool(GENERAL),
        CLASS
        + "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 200Gi, volumeType: gp3}}]\n---\n"
        + _pool(GENERAL),
    ),
    "a variable with a default": (
        "IN007",
        CLASS.replace(SUBNETS, "@@karpenter.sh/discovery: ${CLUSTER:-shop}\n  sec"),
        CLASS,
    ),
    "a word left to the reader": (
        "IN007",
        CLASS.replace(SUBNETS, "@@karpenter.sh/discovery: <CLUSTER_NAME>\n  sec"),
        CLASS,
    ),
    "a variable in values": (
        "IN007",
        "settings:\n  @@clusterName: ${CLUSTER}\n  interruptionQueue: shop\n",
        QUEUE,
    ),
    "a variable for a number": (
        "IN007",
        _deployment().replace("replicas: 3", "@@replicas: ${REPLICAS}"),
        _deployment(),
    ),
    "a spread over the old region": (
        "WL008",
        _deployment(_spread("failure-domain.beta.kubernetes.io/region")),
        _deployment(_spread("topology.kubernetes.io/zone").replace("@@", "")),
    ),
    "apart by region": (
        "WL008",
        _deployment(_apart("topology.kubernetes.io/region")),
        _deployment(_apart("topology.kubernetes.io/zone").replace("@@", "")),
    ),
    "a field beside the pods' spec": (
        "IN005",
        _deployment().replace("    spec:\n", "    @@nodeSelector: {a: b}\n    spec:\n"),
        _deployment("      nodeSelector: {a: b}\n"),
    ),
    "a field beside everything": ("IN005", _deployment() + "@@tolerations: []\n", _deployment()),
    "a share of the replicas": (
        "WL007",
        _deployment() + "---\n" + _allowed("@@minAvailable: 90%"),
        _deployment() + "---\n" + _allowed("minAvailable: 60%"),
    ),
    "as many as the scaler makes": (
        "WL007",
        _deployment() + "---\n" + _scaled(3) + "---\n" + _allowed("@@minAvailable: 3"),
        _deployment() + "---\n" + _scaled(9) + "---\n" + _allowed("minAvailable: 3"),
    ),
    "another pod comes first": (
        "WL007",
        _deployment() + "---\n" + _allowed("@@maxUnavailable: 0"),
        _deployment(top='  annotations: {dovetail.dev/surge: "true"}\n')
        + "---\n"
        + _allowed("maxUnavailable: 0"),
    ),
    "two budgets": (
        "WL007",
        _deployment()
        + "---\n"
        + _allowed("maxUnavailable: 1")
        + "---\n"
        + _allowed("maxUnavailable: 1", "other").replace("  selector", "  @@selector"),
        _deployment() + "---\n" + _allowed("maxUnavailable: 1"),
    ),
    "an annotation a level too high": (
        "WL013",
        _deployment(top='  annotations: {@@karpenter.sh/do-not-disrupt: "true"}\n'),
        _deployment(),
    ),
    "memory of the second container": (
        "WL002",
        _deployment(more=SIDE % "@@resources: {requests: {cpu: 10m}}"),
        _deployment(more=SIDE % "resources: {requests: {cpu: 10m, memory: 1Mi}}"),
    ),
    "a warm pool": (
        "WL003",
        _deployment("", name="warm-pool", image="eks/pause:3.5").replace("    spec:", "    @@spec:"),
        _deployment(),
    ),
    "a limit on nodes": (
        "NP015",
        _pool(GENERAL, spec=LIMIT % "nodes: 1") + "---\n" + NODE % 1 + "---\n" + NODE % 2,
        _pool(GENERAL, spec=(LIMIT % "nodes: 2").replace("@@", "")) + "---\n" + NODE % 1 + "---\n" + NODE % 2,
    ),
    "a limit below the claims": (
        "NP015",
        _pool(GENERAL, spec=LIMIT % "cpu: 4") + "---\n" + CLAIM,
        _pool(GENERAL, spec=(LIMIT % "cpu: 400").replace("@@", "")) + "---\n" + CLAIM,
    ),
    "pods of a type that is not": (
        "WL010",
        _pool(GENERAL) + "---\n" + _deployment(f"      @@{LABELLED}m5.lrge}}\n"),
        _pool(GENERAL) + "---\n" + _deployment(f"      {LABELLED}m5.large}}\n"),
    ),
    "an architecture by another name": (
        "NP003",
        _pool("{key: kubernetes.io/arch, operator: In, values: [@@x86_64]}"),
        _pool(_is("kubernetes.io/arch", "[amd64]")),
    ),
    "a region for a zone": (
        "NP003",
        _pool("{key: topology.kubernetes.io/zone, operator: In, values: [@@us-west-2]}"),
        _pool(_is("topology.kubernetes.io/zone", "[us-west-2a]")),
    ),
    "memory with its unit": (
        "NP003",
        _pool("{key: karpenter.k8s.aws/instance-memory, operator: In, values: [@@8Gi]}"),
        _pool(_is("karpenter.k8s.aws/instance-memory", '["8192"]')),
    ),
    "a value at the top": ("HV001", QUEUE + "@@replicaCount: 1\n", QUEUE + "replicas: 1\n"),
    "a value of the controller": (
        "HV001",
        QUEUE + "controller:\n  @@resouces: {}\n",
        QUEUE + "controller:\n  resources: {}\nwebhook:\n  enabled: true\n",
    ),
}
CASES |= {
    f"values in {form}": (
        "HV001",
        _release(form, "settings:\n  clusterName: shop\n  @@interruptionQueueName: shop\n"),
        _release(form, QUEUE),
    )
    for form in ("flux", "argo", "argo as text")
}
CASES |= {
    f"budget {schedule}": (
        "NP011",
        _budget(f'"{schedule}"', "10m"),
        _budget("0 3 * * *", "10m").replace("@@", ""),
    )
    for schedule in (
        "03 * * * *",
        "@hourly",
        "*/60 * * * *",
        "15 */1 * * *",
        "0 0-23 * * *",
        "* 9 * * *",
        "*/15 * * * *",
    )
}
CASES |= {
    "working hours in another zone": (
        "NP011",
        _in_seoul("other: x", "@@schedule: 0 9 * * 1-5"),
        _in_seoul("dovetail.dev/time-zone: Asia/Seoul", "schedule: 0 9 * * 1-5"),
    ),
    "no time zone": (
        "NP026",
        _in_seoul("@@dovetail.dev/time-zone: Asia/Soul", "schedule: 0 9 * * 1-5"),
        _in_seoul("dovetail.dev/time-zone: Asia/Seoul", "schedule: 0 9 * * 1-5"),
    ),
    "a time zone in a schedule": (
        "NP011",
        _in_seoul("other: x", "@@schedule: TZ=Asia/Seoul 0 9 * * 1-5"),
        _in_seoul("dovetail.dev/time-zone: Asia/Seoul", "schedule: 0 9 * * 1-5"),
    ),
}
CASES |= {
    f"annotation {wrong}": (
        "NP026",
        _in_seoul(f"@@dovetail.dev/{wrong}", "schedule: 0 3 * * *"),
        _in_seoul(f"dovetail.dev/{right}", "schedule: 0 3 * * *"),
    )
    for wrong, right in (
        ("minimum-nodes: three", 'minimum-nodes: "3"'),
        ('minimum-node: "3"', 'minimum-nodes: "3"'),
        ("pause: everything", "pause: all"),
        ("expiration: soon", "expiration: replace-first"),
        ("minimum-saving: much", "minimum-saving: 5%"),
        ("timezone: Asia/Seoul", "time-zone: Asia/Seoul"),
    )
}
CASES |= {
    f"trigger {start}": (
        "KE001",
        _cron(f"@@start: '{start}'", "end: 45 * * * *"),
        _cron("start: 0 3 * * *", "end: 0 10 * * *"),
    )
    for start in ("@hourly", "15 */1 * * *", "0 0-23 * * *")
}
POLICY = "{conditionType: Ready, conditionStatus: 'False', tolerationDuration: 5m"
SHARED = f"{QUEUE}  sharedLimits:"
USED = "status: {nodes: 1, resources: {cpu: '8'}}\n"
CONSTRAINTS = "defaultConstraints: [{topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, "
CASES |= {
    "policies as a map": (
        "HV005",
        f"{QUEUE}  repairPolicies:\n    policies:\n      - {POLICY}, @@priority: 101}}\n",
        f"{QUEUE}  repairPolicies:\n    policies:\n      - {POLICY}, priority: 100}}\n",
    ),
    "policies as text": (
        "HV005",
        f"{QUEUE}  @@repairPolicies: |\n    policies:\n      - {POLICY}, reasonRegex: XID}}\n",
        f"{QUEUE}  repairPolicies: |\n    policies:\n      - {POLICY}}}\n",
    ),
    "policies in flux": (
        "HV005",
        _release("flux", f"{QUEUE}  repairPolicies:\n    policies:\n      - {POLICY}, @@action: Boot}}\n"),
        _release("flux", f"{QUEUE}  repairPolicies:\n    policies:\n      - {POLICY}}}\n"),
    ),
    "a shared limit of a pool that is not there": (
        "HV006",
        f"{SHARED}\n    limits:\n      - @@{{name: a, nodePools: [x], limits: {{cpu: 1}}}}\n---\n"
        + _pool(GENERAL),
        f"{SHARED}\n    limits:\n      - {{name: a, limits: {{cpu: 1}}}}\n---\n" + _pool(GENERAL),
    ),
    "a shared limit of a resource that is not": (
        "HV006",
        SHARED.replace("shared", "@@shared") + " |\n    limits: [{name: a, limits: {hourlyCost: 1}}]\n",
        f"{SHARED} |\n    limits: [{{name: a, limits: {{hourly-cost: 1, nvidia.com/gpu: 1}}}}]\n",
    ),
    "a shared limit that is exceeded": (
        "HV006",
        f"{SHARED}\n    limits:\n      - @@{{name: a, limits: {{cpu: 7}}}}\n---\n{USED}" + _pool(GENERAL),
        f"{SHARED}\n    limits:\n      - {{name: a, limits: {{cpu: 8}}}}\n---\n{USED}" + _pool(GENERAL),
    ),
    "constraints as a map": (
        "HV005",
        f"{QUEUE}  schedulerConfig:\n    podTopologySpread:\n      {CONSTRAINTS}@@maxSkew: 0}}]\n",
        f"{QUEUE}  schedulerConfig:\n    podTopologySpread:\n      {CONSTRAINTS}maxSkew: 1}}]\n",
    ),
}


def _found(text: str, folder: Path) -> tuple[Finding, ...]:
    # Values are a file of their own: a document of objects cannot hold them.
    names = []
    for index, document in enumerate(text.split("\n---\n")):
        file = folder / f"{index}.yaml"
        file.write_text(document)
        names.append(str(file))
    return check(survey(names), chosen())


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_found_at_its_place_however_it_is_spelt(name: str, tmp_path: Path) -> None:
    code, wrong, right = CASES[name]
    before, _, _ = wrong.partition("@@")
    file = before.count("\n---\n")
    above = before.rpartition("\n---\n")[2]
    place = (str(tmp_path / f"{file}.yaml"), above.count("\n") + 1, len(above.rpartition("\n")[2]) + 1)
    found = _found(wrong.replace("@@", ""), tmp_path)
    at = [(item.source, item.line, item.column) for item in found if item.code == code]
    assert place in at, [item.text for item in found]
    for leftover in tmp_path.iterdir():
        leftover.unlink()
    assert [item.text for item in _found(right, tmp_path) if item.code != "IN008"] == []


def test_the_parts_of_the_chart_that_are_known_are_those_of_its_schema() -> None:
    schema = json.loads((Path(__file__).parents[2] / "charts/dovetail/values.schema.json").read_text("utf-8"))
    for where, known in PARTS.items():
        at = schema
        for step in where.split(".") if where else ():
            at = at["properties"][step]
        assert at["additionalProperties"] is False
        assert set(known) == {name for name, item in at["properties"].items() if "const" not in item}
