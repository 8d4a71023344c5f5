"""Allocation of devices: beside an exhaustive search, under hostile claims, and its reasons."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.devices import CapacityPolicy, CounterSet, Device, DeviceClass, ResourceClaim, ResourceSlice
from dovetail.devices.allocator import AllocationError, Ledger, Target, World
from dovetail.devices.search import MOST_LOOKS, charged
from dovetail.model.devices import DeviceId, TemplateDevices, TemplateSlice
from dovetail.units.quantity import parse_quantity

DRIVER = "gpu.example.com"
GIB = parse_quantity("1Gi").nanos


def template(*devices: dict[str, Any], counters: Any = ()) -> TemplateDevices:
    parts = [{"name": f"d{at}", **one} for at, one in enumerate(devices)]
    sets = decode(list(counters), tuple[CounterSet, ...])
    return TemplateDevices((TemplateSlice(DRIVER, "p", decode(parts, tuple[Device, ...]), sets),))


def world(**types: TemplateDevices) -> World:
    return World({"gpu": decode({"metadata": {"name": "gpu"}}, DeviceClass)}, templates=types)


def request(name: str, count: int = 1, selector: str = "", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    body = {"deviceClassName": "gpu", "count": count, "selectors": selectors, **more}
    return {"name": name, "exactly": body}


def claim(name: str, *requests: dict[str, Any], match: str = "") -> ResourceClaim:
    devices: dict[str, Any] = {"requests": list(requests)}
    if match:
        devices["constraints"] = [{"matchAttribute": match}]
    return decode({"metadata": {"name": name, "namespace": "n"}, "spec": {"devices": devices}}, ResourceClaim)


def model_is(name: str) -> str:
    return f'device.attributes["{DRIVER}"].model == "{name}"'


MODELS = st.sampled_from(["a", "b"])
DEVICES = st.lists(
    st.fixed_dictionaries(
        {
            "attributes": st.fixed_dictionaries(
                {"model": MODELS.map(lambda one: {"string": one})},
                optional={"root": st.integers(0, 1).map(lambda one: {"int": one})},
            ),
            "consumesCounters": st.integers(0, 2).map(
                lambda one: [{"counterSet": "s", "counters": {"m": {"value": str(one)}}}] if one else []
            ),
        }
    ),
    max_size=4,
)
REQUESTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "b"])), min_size=1, max_size=2)


def ways(devices: list[dict[str, Any]], requests: list[tuple[int, str]]) -> Iterator[tuple[int, ...]]:
    """Every way to give each slot of the requests a device of its own that it selects."""
    slots = [model for count, model in requests for _ in range(count)]
    fits = [
        [at for at, one in enumerate(devices) if model in ("", one["attributes"]["model"]["string"])]
        for model in slots
    ]
    for way in product(*fits):
        if len(set(way)) == len(way):
            yield way


def is_legal(devices: list[dict[str, Any]], way: tuple[int, ...], whole: int, match: bool) -> bool:
    used = sum(int(one["counters"]["m"]["value"]) for at in way for one in devices[at]["consumesCounters"])
    roots = [devices[at]["attributes"].get("root", {}).get("int") for at in way]
    return used <= whole and not (match and (None in roots or len(set(roots)) > 1))


@given(DEVICES, REQUESTS, st.integers(0, 5), st.booleans())
def test_devices_are_found_exactly_where_trying_everything_finds_them(
    devices: list[dict[str, Any]], requests: list[tuple[int, str]], whole: int, match: bool
) -> None:
    sets = [{"name": "s", "counters": {"m": {"value": str(whole)}}}]
    parts = [
        request(f"r{at}", count, model_is(model) if model else "")
        for at, (count, model) in enumerate(requests)
    ]
    wanted = claim("c", *parts, match=f"{DRIVER}/root" if match else "")
    exists = any(is_legal(devices, way, whole, match) for way in ways(devices, requests))
    try:
        found = Ledger(world(t=template(*devices, counters=sets))).allocate(Target("n", ("t",)), [wanted])
    except AllocationError:
        assert not exists
        return
    assert exists
    way = tuple(int(one.candidate.id.device[1:]) for one in found.given["n/c"]["t"])
    assert way in set(ways(devices, requests))
    assert is_legal(devices, way, whole, match)


STEPS = st.lists(
    st.tuples(st.sampled_from(["n1", "n2"]), st.integers(1, 2), st.integers(0, 12), st.booleans()), max_size=8
)


@given(st.integers(1, 3), STEPS)
def test_no_device_is_given_twice_and_no_capacity_beyond_what_there_is(count: int, steps: Any) -> None:
    """Devices of the cluster, exclusive and shared, over two nodes of two types."""
    parts = [{"name": f"own{at}"} for at in range(count)]
    shared = {"name": "shared", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "20Gi"}}}
    spec = {"driver": DRIVER, "allNodes": True, "devices": [*parts, shared]}
    spec["pool"] = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    slices = (decode({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice),)
    ledger = Ledger(World(world().classes, slices))
    given_away: dict[DeviceId, str] = {}
    memory: dict[str, dict[str, int]] = {}
    for number, (node, wanted, gib, sharing) in enumerate(steps):
        asked = {"capacity": {"requests": {"memory": f"{gib}Gi"}}} if sharing else {}
        text = "device.allowMultipleAllocations" if sharing else "!device.allowMultipleAllocations"
        one = claim(f"c{number}", request("r", wanted, text, **asked))
        try:
            found = ledger.allocate(Target(node, ("a", "b")), [one])
        except AllocationError:
            continue
        ledger.commit(found)
        for name, devices in found.given[one.key].items():
            for each in devices:
                if each.consumed is None:
                    assert given_away.setdefault(each.candidate.id, one.key) == one.key
                else:
                    held = memory.setdefault(node, {})
                    held[name] = held.get(name, 0) + each.consumed["memory"]
    assert sum(max(by_type.values()) for by_type in memory.values()) <= 20 * GIB


@pytest.mark.parametrize(
    ("devices", "wanted", "reason"),
    [
        ([], claim("c", request("r", 2)), 'claim "c" request "r" wants 2 devices, t has 0: it promises none'),
        (
            [{"attributes": {"model": {"string": "a"}}}] * 2,
            claim("c", request("r", 1, model_is("b"))),
            f"wants 1 device, t has 0: 2 not matched by {model_is('b')}",
        ),
        ([{}], claim("c", request("r", 1, model_is("b"))), "1 without an answer (no such key: model) to"),
        ([{}] * 2, claim("c", request("r", 3)), "wants 3 devices, t has 2"),
        (
            [{"attributes": {"root": {"int": at}}} for at in (0, 1)],
            claim("c", request("r", 2), match=f"{DRIVER}/root"),
            f"t has 1: 1 of another {DRIVER}/root",
        ),
        ([{}], claim("c", request("r"), match="x/y"), "1 without attribute x/y"),
        (
            [{"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}],
            claim("c", request("r", capacity={"requests": {"memory": "5Gi"}})),
            "1 with too little memory left",
        ),
        (
            [{"allowMultipleAllocations": True}],
            claim("c", request("r", capacity={"requests": {"memory": "5Gi"}})),
            "1 without capacity memory",
        ),
    ],
)
def test_the_nearest_miss_is_named(devices: Any, wanted: ResourceClaim, reason: str) -> None:
    with pytest.raises(AllocationError) as refused:
        Ledger(world(t=template(*devices))).allocate(Target("n", ("t",)), [wanted])
    (miss,) = refused.value.misses
    assert reason in str(miss)


@pytest.mark.parametrize(
    ("asked", "policy", "taken"),
    [
        (None, None, 40),
        (7, None, 7),
        (None, {"default": "3Gi"}, 3),
        (None, {"default": "3Gi", "validValues": ["5Gi"]}, 3),
        (3, {"validValues": ["10Gi", "5Gi"]}, 5),
        (12, {"validValues": ["5Gi", "10Gi"]}, None),
        (0, {"validRange": {"min": "2Gi"}}, 2),
        (5, {"validRange": {"min": "2Gi", "step": "2Gi"}}, 6),
        (6, {"validRange": {"min": "2Gi", "step": "2Gi", "max": "6Gi"}}, 6),
        (7, {"validRange": {"min": "2Gi", "step": "2Gi", "max": "6Gi"}}, None),
        (7, {"validRange": {"min": "0", "step": "0"}}, 7),
    ],
)
def test_what_a_request_for_capacity_takes(asked: int | None, policy: Any, taken: int | None) -> None:
    read = None if policy is None else decode(policy, CapacityPolicy)
    answer = charged(None if asked is None else asked * GIB, 40 * GIB, read)
    assert answer == (None if taken is None else taken * GIB)


def test_a_claim_made_to_be_searched_for_long_ends_and_says_so() -> None:
    """Each device has a twin in another root, so that every choice looks well until the last one."""
    devices = [{"attributes": {"root": {"int": at % 2}, "mark": {"int": at}}} for at in range(40)]
    wanted = claim(
        "c",
        request("r", 19),
        request("s", 2, f'device.attributes["{DRIVER}"].mark < 3'),
        match=f"{DRIVER}/root",
    )
    ledger = Ledger(world(t=template(*devices)))
    with pytest.raises(AllocationError) as refused:
        ledger.allocate(Target("n", ("t",)), [wanted])
    assert str(MOST_LOOKS) in str(refused.value.misses[0])


@pytest.mark.parametrize("count", [-1, -(1 << 63), 33, (1 << 63) - 1])
def test_counts_beyond_sense(count: int) -> None:
    ledger = Ledger(world(t=template({})))
    if count < 0:
        assert ledger.allocate(Target("n", ("t",)), [claim("c", request("r", count))]).given["n/c"]["t"] == ()
        return
    with pytest.raises(AllocationError, match=f"requests {count} total devices, exceeding maximum of 32"):
        ledger.allocate(Target("n", ("t",)), [claim("c", request("r", count))])


def test_many_claims_of_one_pod_are_refused_not_searched() -> None:
    claims = [claim(f"c{at}", request("r", 32)) for at in range(200)]
    with pytest.raises(AllocationError, match="more than 128 devices"):
        Ledger(world(t=template({}))).allocate(Target("n", ("t",)), claims)
