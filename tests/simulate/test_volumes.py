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
