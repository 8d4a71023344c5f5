"""Recorded answers of Karpenter 1.15 about claims for devices: which types, devices, zones, and errors."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import SelectorRequirement
from dovetail.api.devices import CounterSet, Device, DeviceClass, ResourceClaim, ResourceSlice
from dovetail.cluster.devices import given_back, without_allocation
from dovetail.devices.allocator import Allocation, AllocationError, Ledger, Target, World
from dovetail.model.devices import AttributeBinding, DeviceId, TemplateDevices, TemplateSlice
from dovetail.model.requirement import Requirements

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "dra.jsonl.gz"
ZONE = "topology.kubernetes.io/zone"

# What is answered otherwise, on purpose.
DIFFERENT = {
    "shared pool name across types reuses cached answers (quirk)": "each type has its own devices here",
    "same claim twice in one pod": "the first device that fits, not the second one",
}
# Whose syntax error is told in other words: Karpenter's are those of the generator of its parser.
OTHER_WORDS = "compilation failed: "

Case = dict[str, Any]


def cases() -> list[Case]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def device_id(text: str) -> DeviceId:
    return DeviceId(*text.split("|"))


def world_of(given: Case) -> World:
    bindings: dict[str, list[AttributeBinding]] = {}
    for one in given.get("attributeBindings", ()):
        devices = tuple(map(device_id, one["devices"]))
        bindings.setdefault(one["instanceType"], []).append(AttributeBinding(one["attribute"], devices))
    templates = {
        name: TemplateDevices(
            tuple(
                TemplateSlice(
                    one["driver"],
                    one["pool"],
                    decode(one.get("devices", []), tuple[Device, ...]),
                    decode(one.get("sharedCounters", []), tuple[CounterSet, ...]),
                )
                for one in slices
            ),
            tuple(bindings.get(name, ())),
        )
        for name, slices in given.get("instanceTypes", {}).items()
    }
    allocated = given.get("allocated", {})
    classes = (decode(one, DeviceClass) for one in given["deviceClasses"])
    return World(
        {one.metadata.name: one for one in classes},
        tuple(decode(one, ResourceSlice) for one in given.get("resourceSlices", ())),
        templates,
        frozenset(map(device_id, allocated.get("exclusive", ()))),
        {},
        frozenset((ZONE,)),
    )


def target_of(one: Case) -> Target:
    wanted = (decode(item, SelectorRequirement) for item in one.get("requirements", ()))
    return Target(
        one["id"],
        tuple(one["instanceTypes"]),
        Requirements.read(wanted),
        one.get("nodeName", ""),
        one.get("initialized", False),
    )


def answer_of(found: Allocation, committed: bool) -> Case:
    answer: Case = {"ok": True, "instanceTypes": sorted(found.types)}
    if found.requirements:
        answer["requirements"] = str(found.requirements)
    if committed and found.given:
        answer["devices"] = {
            key.partition("/")[2]: {
                name: [device_of(one) for one in given] for name, given in by_type.items() if given
            }
            for key, by_type in found.given.items()
        }
        answer["usedTemplateDevices"] = {
            key.partition("/")[2]: found.uses_templates(key) for key in found.given
        }
        wanted = {key.partition("/")[2]: str(one) for key, one in found.claim_requirements.items() if one}
        answer |= {"claimRequirements": wanted} if wanted else {}
    return answer


def device_of(one: Any) -> Case:
    id_ = one.candidate.id
    found = {"device": "|".join(id_), "request": one.request, "template": one.candidate.template}
    if one.capacity:
        found["consumedCapacity"] = {name: str(amount) for name, amount in one.capacity.items()}
    return found


def answers(given: Case) -> Iterable[Case]:
    ledger = Ledger(world_of(given))
    targets = {one["id"]: target_of(one) for one in given["targets"]}
    leaving = set(given.get("deletingPodUIDs", ()))
    seen: dict[str, ResourceClaim] = {}
    for step in given["steps"]:
        target = targets[step["target"]]
        if "release" in step:
            ledger.release(target.id, step["release"])
            left = tuple(name for name in target.types if name not in step["release"])
            targets[target.id] = replace(target, types=left)
            yield {"ok": True}
            continue
        claims = [decode(one, ResourceClaim) for one in step.get("claims", ())]
        claims = [without_allocation(one) if given_back(one, leaving) else one for one in claims]
        seen |= {one.metadata.name: one for one in claims}
        try:
            found = ledger.allocate(target, [*claims, *(seen[name] for name in step.get("claimRefs", ()))])
        except AllocationError as error:
            yield {"ok": False, "error": str(error)}
            continue
        if step.get("commit"):
            ledger.commit(found)  # each step names the target as it was at first
        yield answer_of(found, step.get("commit", False))


def agrees(mine: Case, theirs: Case) -> bool:
    head, cut, _ = theirs.get("error", "").partition(OTHER_WORDS)
    return mine["error"].startswith(head) if cut and "error" in mine else mine == theirs


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_recorded_answers(case: Case) -> None:
    mine = list(answers(case["input"]))
    same = any(len(mine) == len(theirs) and all(map(agrees, mine, theirs)) for theirs in case["outcomes"])
    if case["name"] in DIFFERENT:
        assert not same, "answered alike now: it is no exception"
    else:
        assert same, json.dumps({"mine": mine, "theirs": case["outcomes"][0]}, indent=1)
