"""Claims of volumes: bound where their pod goes, and pods that come back to where their volume is."""

from __future__ import annotations

from pathlib import Path

from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

SCENARIO = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: volumes
region: ap-northeast-2
duration: 5m
nodeGroups:
  - {name: base, instanceType: m5.large, count: 3, zones: [ap-northeast-2a, ap-northeast-2b, ap-northeast-2c]}
"""

MANIFESTS = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waiting}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: eager}
provisioner: ebs.csi.aws.com
volumeBindingMode: Immediate
allowedTopologies:
  - matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [ap-northeast-2b]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: eager, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: eager}
spec:
  containers: [{name: main, image: db:1}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  containers: [{name: main, image: db:1}]
  volumes:
    - name: tmp
      ephemeral:
        volumeClaimTemplate:
          spec:
            storageClassName: waiting
            accessModes: [ReadWriteOnce]
            resources: {requests: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
      annotations: {simulation.dovetail.dev/duration: 30s}
    spec:
      containers: [{name: main, image: db:1, resources: {requests: {cpu: 200m}}}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: waiting, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_pods_come_back_to_the_zone_of_their_volume(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    records = simulate(load(tmp_path)).records
    zones = {record["node"]: record["zone"] for record in records if record["kind"] == "node.created"}
    places: dict[str, list[str]] = {}
    for record in records:
        if record["kind"] == "pod.bound":
            places.setdefault(record["pod"], []).append(zones[record["node"]])
    assert places["default/eager"] == ["ap-northeast-2b"]
    assert len(places["default/scratch"]) == 1
    # A pod of the set that completes is replaced, where its volume is.
    assert len(places["default/db-0"]) > 1
    assert all(len(set(found)) == 1 for found in places.values())
    assert not [record for record in records if record["kind"] == "violation"]


BY_HAND = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec:
  volumeName: mine
  storageClassName: waiting
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: mine}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  storageClassName: waiting
  claimRef: {namespace: default, name: mine}
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [ap-northeast-2c]}]
---
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  containers: [{name: main, image: db:1}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: mine}}]
"""


def test_a_claim_that_names_its_volume_is_bound_to_it(tmp_path: Path) -> None:
    """Manifests by hand have not the annotation that the volume controller writes."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO.partition("nodeGroups")[0])
    (tmp_path / "all.yaml").write_text(MANIFESTS.split("---")[0] + "---\n" + BY_HAND)
    records = simulate(load(tmp_path)).records
    zones = {record["node"]: record["zone"] for record in records if record["kind"] == "node.created"}
    placed = {record["pod"]: zones[record["node"]] for record in records if record["kind"] == "pod.bound"}
    assert placed == {"default/mine": "ap-northeast-2c"}
    assert not [record for record in records if record["kind"] == "violation"]


def test_a_claim_without_a_class_is_of_the_default_one(tmp_path: Path) -> None:
    mark = '{name: waiting, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}'
    claim, volume = BY_HAND.partition("  volumeName: mine\n  storageClassName: waiting\n")[::2]
    parts = [part for part in (claim + volume).split("---\n") if "kind: PersistentVolume\n" not in part]
    storage = MANIFESTS.split("---")[0].replace("{name: waiting}", mark)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "all.yaml").write_text("---\n".join((storage, *parts)))
    records = simulate(load(tmp_path)).records
    assert [record["pod"] for record in records if record["kind"] == "pod.bound"] == ["default/mine"]


def test_a_volume_kept_for_another_claim_is_waited_for(tmp_path: Path) -> None:
    """The scheduler binds no pod, whatever room there is, and nothing is bought."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    kept = BY_HAND.replace("namespace: default, name: mine", "namespace: default, name: another")
    (tmp_path / "all.yaml").write_text(MANIFESTS.split("---")[0] + "---\n" + kept)
    records = simulate(load(tmp_path)).records
    kinds = {record["kind"] for record in records}
    assert "node.created" in kinds
    assert not {"pod.bound", "claim.created", "violation"} & kinds


ALONE = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: alone}
spec: {storageClassName: waiting, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: db:1, resources: {requests: {cpu: 1500m}}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: alone}}]
"""


def test_a_claim_for_one_pod_has_one_and_nothing_is_bought_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        SCENARIO.partition("nodeGroups")[0].replace("duration: 5m", "duration: 1h")
    )
    pool = BY_HAND.partition("---\napiVersion: v1")[0]
    (tmp_path / "all.yaml").write_text("---\n".join((MANIFESTS.split("---\n")[0], pool, ALONE)))
    records = simulate(load(tmp_path)).records
    assert len([record for record in records if record["kind"] == "pod.bound"]) == 1
    assert len([record for record in records if record["kind"] == "node.created"]) == 1
    told = " ".join(str(record["message"]) for record in records if record["kind"] == "event")
    assert "persistentvolumeclaim default/alone (ReadWriteOncePod) is in use by pod default/db-" in told
    assert not [record for record in records if record["kind"] == "violation"]
