"""Histories of real clusters: put in order, kept in files, and held against the promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from dovetail.base.clock import MINUTE, SECOND
from dovetail.kube.client import ChangeType
from dovetail.simulate.live import history
from dovetail.simulate.live.history import Broken, Deletion, Entry, Quiet, Stored
from dovetail.simulate.live.judge import judge
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

START = parse_rfc3339("2026-03-02T21:00:00Z")
FINALIZER = ["karpenter.sh/termination"]
Document = dict[str, Any]


def seen(
    seconds: float, version: int, document: Document, change: ChangeType = "MODIFIED", **more: Any
) -> Stored:
    """`more` goes into the metadata."""
    meta = {"creationTimestamp": to_rfc3339(START), **document["metadata"], "resourceVersion": str(version)}
    return Stored(START + int(seconds * SECOND), version, change, {**document, "metadata": {**meta, **more}})


def node(name: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"karpenter.sh/registered": "true"},
            "annotations": {"dovetail.dev/nodeclaim": name},
            "finalizers": FINALIZER,
        },
        "spec": {"providerID": f"kwok://{name}"},
        "status": {
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def claim(name: str) -> Document:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "finalizers": FINALIZER},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "c"}},
        "status": {
            "providerID": f"kwok://{name}",
            "conditions": [{"type": "Registered", "status": "True"}],
        },
    }


def pod(name: str, on: str = "", **requests: str) -> Document:
    spec = {"containers": [{"name": "main", "resources": {"requests": requests or {"cpu": "1"}}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {**spec, **({"nodeName": on} if on else {})},
        "status": {},
    }


def event(pod_name: str, reason: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod_name}-{reason}", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": pod_name},
        "reason": reason,
        "source": {"component": "karpenter"},
    }


def rules(*entries: Entry) -> list[str]:
    return [one.rule for one in judge(entries).violations]


HERE = (
    seen(0, 1, node("a"), "ADDED"),
    seen(0, 2, claim("a"), "ADDED"),
    seen(1, 3, pod("p"), "ADDED"),
    seen(2, 4, pod("p", on="a")),
)


def test_changes_are_judged_in_the_order_of_their_versions_whenever_they_were_seen() -> None:
    node_seen_late = (seen(9, 1, node("a"), "ADDED"), *HERE[1:])
    assert rules(*node_seen_late) == []
    assert rules(seen(0, 5, node("a"), "ADDED"), *HERE[1:]) == ["bound nowhere"]


def test_an_end_that_is_right_breaks_nothing() -> None:
    going = {"deletionTimestamp": to_rfc3339(START)}
    end = (
        seen(3, 5, pod("p", on="a"), "DELETED"),
        seen(4, 6, node("a"), **going),
        seen(4, 7, claim("a"), **going),
        seen(5, 8, node("a"), "DELETED", finalizers=[], **going),
        seen(6, 9, claim("a"), "DELETED", finalizers=[], **going),
    )
    assert rules(*HERE, *end) == []
    assert judge([*HERE, *end]).checks > 20


def test_a_machine_without_its_claim_and_a_node_without_its_pods() -> None:
    assert rules(*HERE, seen(6, 9, claim("a"), "DELETED", finalizers=[])) == ["abandoned instance"]
    assert rules(*HERE, seen(6, 9, node("a"), "DELETED", finalizers=[])) == ["finalizer"]


def test_a_claim_made_by_hand_may_name_an_instance_that_there_never_was() -> None:
    assert rules(seen(0, 1, claim("b"), "ADDED"), seen(6, 9, claim("b"), "DELETED", finalizers=[])) == []


def test_a_deletion_by_force_is_not_taken_for_that_of_others() -> None:
    gone = seen(8, 5, pod("p", on="a"), deletionTimestamp=to_rfc3339(START))
    assert rules(*HERE, gone) == []
    assert rules(*HERE, gone, Deletion(START + 7 * SECOND, "d/p")) == ["forced deletion"]
    assert rules(*HERE, gone, Deletion(START + 9 * SECOND, "d/p")) == []  # of the next of that name
    assert rules(*HERE, gone, Deletion(START + 7 * SECOND, "d/q")) == []


def test_pods_wait_too_long_unless_an_event_says_that_there_is_no_place() -> None:
    quiet = Quiet(START + 5 * SECOND, START + 3 * MINUTE)
    waiting = (seen(0, 1, pod("p"), "ADDED"), quiet)
    assert rules(*waiting) == ["unbound pod"]
    refused = seen(4, 2, event("p", "FailedScheduling"), "ADDED")
    assert rules(*waiting, refused) == []
    assert rules(*waiting, refused, seen(5, 3, event("p", "Nominated"), "ADDED")) == ["unbound pod"]
    assert rules(waiting[0], Quiet(START + 2 * MINUTE, START + 3 * MINUTE)) == []


def test_what_the_scheduler_counts_in_64_bits() -> None:
    small, large = pod("q", on="a", memory="8Gi"), pod("r", on="a", memory="1e30")
    bound = [
        one
        for version, item in ((10, large), (20, small))
        for one in (
            seen(3, version, {**item, "spec": {"containers": item["spec"]["containers"]}}, "ADDED"),
            seen(4, version + 1, item),
        )
    ]
    assert rules(*HERE, *bound[2:]) == ["filter", "overcommitted"]
    assert rules(*HERE, *bound) == []


def test_a_history_in_a_file_is_judged_as_it_was(tmp_path: Path) -> None:
    entries = [*HERE, Broken(START, "process", "dovetail", "ended with 1"), Quiet(START, START + SECOND)]
    file = tmp_path / "history.jsonl"
    history.write(file, entries)
    assert history.read(file) == entries
    command = (sys.executable, "-m", "dovetail.simulate.live.judge", str(file))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "process: dovetail ended with 1"
    assert "1 violations" in done.stdout
