"""How long a week of a real cluster takes to replay: `python -m benchmarks.replay [--pods 2000] [--days 7]`.

Both cases begin with a snapshot as `dovetail snapshot` writes it, whose node classes select an account's own
subnets, groups and images. `services` has Prometheus' range queries of its Deployments as its load, `trace` a
CSV of pods. `--write FOLDER` keeps what is read, for `dovetail replay`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.machine import peak_mib
from dovetail.base.clock import HOUR
from dovetail.base.collector import collect_seldom
from dovetail.cli.main import readers_may_leave
from dovetail.reading import read
from dovetail.simulate.replay.folder import Wanted, write_replay
from dovetail.simulate.replay.history import read_past
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

Document = dict[str, Any]
START = 1_772_409_600  # 2026-03-02T00:00:00Z, a Monday
STEP = 300  # seconds between two samples
SERVICES = 40
SIZES = (("250m", "512Mi"), ("500m", "1Gi"), ("500m", "2Gi"), ("1", "2Gi"), ("1", "4Gi"))
REGION = "us-east-1"
DAY = 86_400
ROW = (
    "{case:9} {days:4.1f} days {created:6} pods {atOnce:5} at once {nodes:5} nodes launched "
    "{wallSeconds:7.1f} s wall {cpuSeconds:7.1f} s CPU {peakMiB:5.0f} MiB {plans:5} plans "
    "{eventLogSha256:.12}"
)


@dataclass(frozen=True)
class Files:
    """What `dovetail replay` reads."""

    snapshot: Path
    history: tuple[Path, ...] = ()
    trace: Path | None = None


def write(case: str, pods: int, days: float, folder: Path) -> Files:
    """A cluster of as many pods at its busiest, and its week."""
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = folder / "snapshot.json.gz"
    items = [_pool(), _class(), *_managed()]
    if case == "trace":
        trace = folder / "trace.csv"
        trace.write_text("\n".join(_trace(pods, days)) + "\n", "utf-8")
        _pack(snapshot, {"apiVersion": "v1", "kind": "List", "items": items})
        return Files(snapshot, trace=trace)
    most = [
        max(1, round(pods / SERVICES * (0.4 + 1.2 * index / (SERVICES - 1)))) for index in range(SERVICES)
    ]
    items += [_service(index, replicas) for index, replicas in enumerate(most)]
    _pack(snapshot, {"apiVersion": "v1", "kind": "List", "items": items})
    history = folder / "replicas.json.gz"
    result = [_replicas(index, replicas, days) for index, replicas in enumerate(most)]
    _pack(history, {"status": "success", "data": {"resultType": "matrix", "result": result}})
    return Files(snapshot, (history,))


def _pack(path: Path, value: Document) -> None:
    path.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


def _pool() -> Document:
    wanted = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["8", "16", "32"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general", "uid": "uid-pool"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": wanted, "expireAfter": "720h"}},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"},
        },
    }


def _class() -> Document:
    zones = [f"{REGION}{letter}" for letter in "abc"]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "uid-class"},
        "spec": {
            "role": "KarpenterNodeRole-prod",
            "amiSelectorTerms": [{"alias": "al2023@v20250505"}],
            "subnetSelectorTerms": [{"id": f"subnet-0{index}"} for index in range(len(zones))],
            "securityGroupSelectorTerms": [{"tags": {"Name": "prod-nodes"}}],
        },
        "status": {"subnets": [{"id": f"subnet-0{i}", "zone": zone} for i, zone in enumerate(zones)]},
    }


def _managed() -> Iterator[Document]:
    for index in range(2):
        stamped = {
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": f"{REGION}{'ab'[index]}",
            "node.kubernetes.io/instance-type": "m5.large",
            "eks.amazonaws.com/nodegroup": "system",
        }
        taints = [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"system-{index}", "labels": stamped},
            "spec": {"taints": taints},
            "status": {"nodeInfo": {"kubeletVersion": "v1.33.1-eks-1"}},
        }
    agent = {"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}
    chosen = {"app": "agent"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system", "uid": "uid-agent"},
        "spec": {
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": {"labels": chosen},
                "spec": {"containers": [agent], "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


def _service(index: int, replicas: int) -> Document:
    """Every fourth spreads its pods over zones."""
    cpu, memory = SIZES[index % len(SIZES)]
    chosen = {"app": f"service-{index}"}
    main = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": chosen},
    }
    rules: Document = {"topologySpreadConstraints": [spread]} if index % 4 == 0 else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"service-{index}", "namespace": "shop", "uid": f"uid-{index}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": {"containers": [main], **rules}},
        },
    }


def _replicas(index: int, most: int, days: float) -> Document:
    """Half of the services follow the day, each with its own noon, and quiet weekends; others are steady."""
    draw = random.Random(f"service-{index}")
    noon = draw.uniform(11, 17)
    values = []
    held = most
    for at in range(0, round(days * DAY), STEP):
        if index % 2:
            hour, weekday = at / 3600 % 24, at // DAY % 7
            tide = 0.5 + 0.5 * math.cos((hour - noon) / 24 * 2 * math.pi)
            share = 0.35 + (0.65 if weekday < 5 else 0.25) * tide
            wanted = max(1, round(most * share))
            # As an HPA does: changes under a tenth are none.
            held = wanted if abs(wanted - held) > 0.1 * held else held
        values.append([START + at, str(held)])
    metric = {
        "__name__": "kube_deployment_spec_replicas",
        "namespace": "shop",
        "deployment": f"service-{index}",
    }
    return {"metric": metric, "values": values}


def _trace(pods: int, days: float) -> Iterator[str]:
    """As many pods as that in all, each for minutes or hours; more of them by day."""
    draw = random.Random("trace")
    yield "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time"
    rows = []
    for number in range(pods):
        while True:
            at = draw.uniform(0, days * DAY)
            if draw.random() < 0.3 + 0.7 * math.sin(math.pi * (at / DAY % 1)):
                break
        length = min(math.exp(draw.gauss(8, 1.2)), 2 * DAY)  # half of them 50 minutes at most
        cpu, memory = draw.choice(((500, 1024), (1000, 2048), (2000, 4096), (4000, 16384), (8000, 16384)))
        rows.append((at, f"pod-{number},{cpu},{memory},0,{at:.0f},{at + length:.0f}"))
    yield from (row for _, row in sorted(rows))


def replay(files: Files, days: float, folder: Path) -> Document:
    """Play it, as `dovetail replay` does; the figures."""
    began, used = time.perf_counter(), time.process_time()
    past = read_past(files.history) if files.history else None
    length = round(days * 24) * HOUR
    wanted = Wanted("week", REGION, past, files.trace, length)
    write_replay(read([files.snapshot]).manifests, wanted, folder)
    result = simulate(load(folder))
    kinds = [record["kind"] for record in result.records]
    most = now = 0
    for kind in kinds:
        now += (kind == "pod.created") - (kind == "pod.deleted")
        most = max(most, now)
    return {
        "days": days,
        "created": kinds.count("pod.created"),
        "bound": kinds.count("pod.bound"),
        "atOnce": most,
        "nodes": kinds.count("instance.started"),
        "plans": kinds.count("solve"),
        "events": len(kinds),
        "violations": kinds.count("violation"),
        "wallSeconds": round(time.perf_counter() - began, 2),
        "cpuSeconds": round(time.process_time() - used, 2),
        "peakMiB": round(peak_mib(), 1),
        "eventLogSha256": result.sha256,
    }


def _case(case: str, pods: int, days: float) -> Document:
    collect_seldom()  # as the command line does
    with tempfile.TemporaryDirectory() as spare:
        files = write(case, pods, days, Path(spare) / "given")
        return {"case": case, **replay(files, days, Path(spare) / "scenario")}


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--only", choices=("services", "trace"))
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases = [case for case in ("services", "trace") if given.only in (None, case)]
    if given.write is not None:
        for case in cases:
            write(case, given.pods, given.days, given.write / case)
        print(given.write)
        return
    rows = []
    for case in cases:
        # In a process of its own, so that its peak memory is its own too.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(_case, case, given.pods, given.days).result())
        print(ROW.format(**rows[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
