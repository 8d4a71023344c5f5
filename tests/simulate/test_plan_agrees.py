"""`dovetail plan` and the simulated controllers buy the same for the manifests of every example and change.

docs/reference/plan-and-controllers.md is the table of them; what it does not list fails here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.base.errors import InputError
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.units.money import NANO_DOLLARS

ROOT = Path(__file__).parents[2]
EXAMPLES, TABLE = ROOT / "examples", ROOT / "docs" / "reference" / "plan-and-controllers.md"
Object = dict[str, Any]
Objects = dict[tuple[str, str, str], Object]
_AS_WRITTEN = "as-written"
# Of a scenario, what holds for manifests whatever is played with them.
_KEPT = ("apiVersion", "kind", "name", "region", "timezone", "start", "cluster", "settings", "seed")


def _objects(files: Iterable[Path]) -> Objects:
    """By kind, namespace and name; later files replace what earlier ones have."""
    read = (whole for file in files for whole in yaml.safe_load_all(file.read_text()) if whole)
    every = (item for whole in read for item in (whole["items"] if whole["kind"] == "List" else [whole]))
    return {
        (item["kind"], item["metadata"].get("namespace", "default"), item["metadata"]["name"]): item
        for item in every
    }


def _scenario(example: Path) -> Object:
    found: Object = yaml.safe_load((example / "scenario.yaml").read_text())
    return found


def _states(example: Path) -> Iterator[tuple[str, Objects]]:
    """What the cluster holds at the start, after each change, in variants, and as a post has it."""
    now = _objects(sorted({*example.glob("*.yaml")} - {example / "scenario.yaml", example / "faults.yaml"}))
    yield "start", dict(now)
    for change in _scenario(example).get("changes", ()):
        file = example / change["file"]
        now.update(_objects([file]))
        yield file.stem, dict(now)
    for label, vary in _VARIANTS.get(example.name, {}).items():
        changed: Objects = json.loads(json.dumps([[*key, item] for key, item in now.items()]))
        yield label, {(kind, space, name): vary(item) for kind, space, name, item in changed}
    if (example / _AS_WRITTEN).is_dir():
        files = sorted({*(example / _AS_WRITTEN).glob("*.yaml")} - {example / _AS_WRITTEN / "scenario.yaml"})
        yield _AS_WRITTEN, _objects(files)


def _pods(change: Callable[[Object], Any], **spec: Any) -> Callable[[Object], Object]:
    """Deployments with other pods."""

    def vary(item: Object) -> Object:
        if item["kind"] == "Deployment":
            item["spec"].update(spec)
            change(item["spec"]["template"]["spec"])
        return item

    return vary


def _apart(spec: Object) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "inflate"}}}
    spec.setdefault("affinity", {})["podAntiAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [term]
    }


def _hard(spec: Object) -> None:
    for one in spec["topologySpreadConstraints"]:
        one["whenUnsatisfiable"] = "DoNotSchedule"


def _elsewhere(spec: Object) -> None:
    spec["nodeSelector"] = {"topology.kubernetes.io/zone": "ap-northeast-2b"}


def _unexpanded(item: Object) -> Object:
    if item["kind"] == "EC2NodeClass":
        item["spec"]["subnetSelectorTerms"] = [{"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}]
    return item


_VARIANTS: dict[str, dict[str, Callable[[Object], Object]]] = {
    "keda-cron": {"at its hour": _pods(lambda _: None, replicas=5)},
    "post-000": {"a zone that no pool has": _pods(_elsewhere), "a variable left as it is": _unexpanded},
    "post-002": {"a hard spread": _pods(_hard)},
    "post-004": {"one for each node": _pods(_apart)},
}


_STARTS = {"at its hour": "2026-03-02T09:05"}  # earlier, KEDA takes the pods away at once


def _played(example: Path, label: str, objects: Objects, folder: Path) -> tuple[Path, str]:
    """A scenario of the objects alone, and its region."""
    folder.mkdir()
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(list(map(_at_once, objects.values()))))
    own = example / _AS_WRITTEN
    scenario = _scenario(own if label == _AS_WRITTEN and (own / "scenario.yaml").is_file() else example)
    kept = {key: scenario[key] for key in _KEPT if key in scenario}
    # Which types an account has is in no manifest; nor is a deadline of which nothing comes but worse plans.
    kept["cluster"] = {key: value for key, value in kept.get("cluster", {}).items() if key != "instanceTypes"}
    kept["settings"] = {
        key: value for key, value in kept.get("settings", {}).items() if key != "solveDeadline"
    }
    if label in _STARTS:
        kept["start"] = _STARTS[label]
    (folder / "scenario.yaml").write_text(yaml.safe_dump({**kept, "duration": "90s"}))
    return folder, scenario["region"]


def _limits(folder: Path) -> list[str]:
    """The argument for limits that NodePools share, if the scenario has some."""
    shared = _scenario(folder)["settings"].get("sharedLimits")
    if shared is None:
        return []
    file = folder.with_name(f"{folder.name}-limits.json")
    file.write_text(json.dumps(shared))
    return ["--shared-limits", str(file)]


def _at_once(item: Object) -> Object:
    """What comes one after the other, or at its hour, is bought in several steps: here it is one."""
    if item["kind"] == "StatefulSet":
        return {**item, "spec": {**item["spec"], "podManagementPolicy": "Parallel"}}
    if item["kind"] == "CronJob":
        return {**item, "spec": {**item["spec"], "suspend": True}}
    return item


def _first_batch(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The instances of the first batch.

    For pods that the scheduler puts elsewhere more are bought later, which `realised` in the plan says.
    """
    batches = [one["t"] for one in records if one["kind"] == "batch"]
    end = batches[1] if len(batches) > 1 else math.inf
    claims = {one["claim"] for one in records if one["kind"] == "claim.created" and one["t"] < end}
    return [one for one in records if one["kind"] == "instance.started" and one.get("claim") in claims]


def _rows() -> dict[str, list[str]]:
    """Of the table: example -> its states."""
    found = (re.match(r"\| `([a-z0-9-]+)` \| ([^|]*) \|", line) for line in TABLE.read_text().splitlines())
    return {match[1]: [one.strip() for one in match[2].split(";")] for match in found if match}


_SHORT = (
    *("evening-rush", "keda-cron", "placeholders"),
    *("post-000", "post-001", "post-002", "post-003", "post-004"),
)
_ALONE = {"pod-trace": "its pods are in a trace", "plan": "it is no scenario"}


def test_every_example_is_in_the_table() -> None:
    every = {path.parent.name for path in EXAMPLES.glob("*/*.yaml")}
    assert _rows().keys() == every - _ALONE.keys()
    for name, listed in _rows().items():
        assert listed == [label for label, _ in _states(EXAMPLES / name)], name


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in _SHORT else pytest.mark.long) for name in sorted(_rows())],
)
def test_both_buy_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, (label, objects) in enumerate(_states(EXAMPLES / name)):
        folder, region = _played(EXAMPLES / name, label, objects, tmp_path / str(place))
        asked = ["plan", "-f", str(folder / "objects.yaml"), "--region", region, "--work", "300000"]
        code = run([*asked, *_limits(folder), "-o", "json"])
        told = capsys.readouterr()
        if code == BAD_INPUT:  # a mistake that the API server refuses: both say it in the same words
            with pytest.raises(InputError) as refused:
                simulate(load(folder))
            said = json.loads(told.err.splitlines()[-1])["message"]
            assert said in str(refused.value), label
            continue
        assert code == OK, label
        plan = json.loads(told.out)
        result = simulate(load(folder))
        room = plan.get("capacityBuffers", {"nodes": [], "hourlyCost": 0.0})
        bought, first = [*plan["nodeClaims"], *room["nodes"]], _first_batch(result.records)
        assert len(first) == len(bought), label
        assert sorted(one["capacityType"] for one in first) == sorted(one["capacityType"] for one in bought)
        paid = sum(one["price"] for one in first) / NANO_DOLLARS
        spot = any(one["capacityType"] == "spot" for one in bought)
        # A market is one of many: what is likely is a mean.
        likely, worst = (plan["cost"][one] + room["hourlyCost"] for one in ("likely", "worst"))
        assert paid == pytest.approx(likely, rel=0.35 if spot else 0.001), label
        assert paid <= worst + 1e-9
