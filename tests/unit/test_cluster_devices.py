"""Devices and claims of a cluster, as a plan gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from dovetail.cluster.devices import DeviceObjects, cluster_devices, imagined_away, unpublished
from dovetail.model.devices import ClusterDevices, DeviceId, claim_keys, claims_devices
from dovetail.units.quantity import parse_quantity

DRIVER = "gpu.example.com"


def pod(*claims: dict[str, Any], made: Sequence[dict[str, Any]] = (), **spec: Any) -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {"resourceClaims": list(claims), **spec},
        "status": {"resourceClaimStatuses": list(made)},
    }
    return decode(document, Pod)


def named(name: str) -> dict[str, Any]:
    return {"name": f"own-{name}", "resourceClaimName": name}


FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (pod(), ()),
        (pod(named("a")), ("ml/a",)),
        (pod(FROM_TEMPLATE), ()),
        (pod(FROM_TEMPLATE, made=[{"name": "gpu"}]), ()),
        (pod(FROM_TEMPLATE, made=[{"name": "gpu", "resourceClaimName": None}]), ()),
        (pod(FROM_TEMPLATE, made=[{"name": "other", "resourceClaimName": "p-other"}]), ()),
        (pod(FROM_TEMPLATE, made=[{"name": "gpu", "resourceClaimName": "p-gpu-x"}]), ("ml/p-gpu-x",)),
        (pod(named("b"), named("a"), {"name": "again", "resourceClaimName": "b"}), ("ml/b", "ml/a")),
    ],
)
def test_claims_of_a_pod(given: Pod, keys: tuple[str, ...]) -> None:
    assert claim_keys(given) == keys
    assert claims_devices(given) is bool(given.spec.resource_claims)


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_container_that_lists_claims_claims_devices(kind: str) -> None:
    container = {"name": "c", "resources": {"claims": [{"name": "gpu"}]}}
    assert claims_devices(pod(**{kind: [container]}))
    assert not claims_devices(pod(**{kind: [{"name": "c"}]}))


def claim(name: str, *results: dict[str, Any], reserved: Sequence[dict[str, Any]] = ()) -> ResourceClaim:
    status: dict[str, Any] = {"reservedFor": list(reserved)}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}}
    return decode({"metadata": {"name": name, "namespace": "ml"}, "status": status}, ResourceClaim)


def result(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "p", "device": device, **more}


def by(uid: str, resource: str = "pods", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "name": uid, "uid": uid, **more}


def slices(*owners: str | None, node: str = "n1") -> tuple[ResourceSlice, ...]:
    return tuple(
        decode(
            {
                "metadata": {
                    "name": f"slice-{number}",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": "u"}]
                    if owner
                    else [],
                },
                "spec": {
                    "driver": DRIVER,
                    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                    "nodeName": node,
                },
            },
            ResourceSlice,
        )
        for number, owner in enumerate(owners)
    )


def seen(
    *claims: ResourceClaim,
    asks: Sequence[str] = ("a",),
    leaving: Sequence[str] = (),
    offered: tuple[ResourceSlice, ...] = (),
    up: Sequence[str] = (),
) -> ClusterDevices:
    objects = DeviceObjects((decode({"metadata": {"name": "gpu"}}, DeviceClass),), claims, offered)
    return cluster_devices(objects, (pod(*map(named, asks)),), set(leaving), lambda name: name in up)


def device(name: str) -> DeviceId:
    return DeviceId(DRIVER, "p", name)


def test_what_is_taken() -> None:
    shares = [
        result("g1", shareID=f"s{number}", consumedCapacity={"memory": size})
        for number, size in enumerate(("1Gi", "512Mi"))
    ]
    found = seen(
        claim("a"),
        claim("b", result("g0")),
        claim("c", shares[0]),
        claim("d", shares[1], result("g2", shareID="s9")),
        claim("e", result("g3", adminAccess=True)),
    )
    assert found.exclusive == {device("g0")}
    assert found.consumed == {device("g1"): {"memory": parse_quantity("1536Mi").nanos}, device("g2"): {}}
    assert found.claims.keys() == {"ml/a"}
    assert found.classes.keys() == {"gpu"}


@pytest.mark.parametrize(
    ("reserved", "leaving", "free"),
    [
        ((), (), False),
        ((), ("x",), False),
        ((by("x"),), ("x",), True),
        ((by("x"), by("y")), ("x", "y"), True),
        ((by("x"), by("y")), ("x",), False),
        ((by("x", "jobs", apiGroup="batch"),), ("x",), False),
        ((by("x", apiGroup="example.com"),), ("x",), False),
        ((by("x"),), (), False),
    ],
)
def test_claims_of_pods_that_leave_are_allocated_anew(
    reserved: tuple[dict[str, Any], ...], leaving: tuple[str, ...], free: bool
) -> None:
    found = seen(claim("a", result("g0"), reserved=reserved), leaving=leaving)
    assert (found.claims["ml/a"].status.allocation is None) is free
    assert found.exclusive == (set() if free else {device("g0")})


def mover(uid: str, *claims: str) -> Pod:
    found = pod(*map(named, claims))
    return replace(found, metadata=replace(found.metadata, uid=uid))


@pytest.mark.parametrize(
    ("reserved", "already", "movers", "free"),
    [
        ((by("x"),), (), [mover("x", "a")], True),
        ((by("x"), by("y")), (), [mover("x", "a")], False),
        ((by("x"), by("y")), (), [mover("x", "a"), mover("y", "a")], True),
        ((by("x"), by("y")), ("y",), [mover("x", "a")], True),
        ((by("x"), by("j", "jobs", apiGroup="batch")), (), [mover("x", "a")], False),
        ((), (), [mover("x", "a")], False),
        ((by("x"),), (), [mover("x")], False),
        ((by("x"),), (), [], False),
    ],
)
def test_pods_that_are_imagined_away_leave_their_claims(
    reserved: tuple[dict[str, Any], ...], already: tuple[str, ...], movers: list[Pod], free: bool
) -> None:
    """As if they had been leaving when it was looked at."""
    found = seen(claim("a", result("g0"), reserved=reserved), leaving=already)
    after = imagined_away(found, movers)
    assert (after.claims["ml/a"].status.allocation is None) is free
    assert after.exclusive == (set() if free else {device("g0")})
    assert found.exclusive == {device("g0")}


def test_what_is_shared_is_given_back_and_slices_go_with_their_nodes() -> None:
    use = {"consumedCapacity": {"memory": "1Gi"}}
    found = seen(
        claim("a", result("g0", shareID="1", **use), reserved=(by("x"),)),
        claim("b", result("g0", shareID="2", **use), reserved=(by("y"),)),
        offered=slices("one", "two", None),
        up=("one", "two"),
    )
    after = imagined_away(found, [mover("x", "a")], {"one"})
    assert after.consumed == {device("g0"): {"memory": parse_quantity("1Gi").nanos}}
    assert [item.metadata.name for item in after.slices] == ["slice-1", "slice-2"]
    assert len(found.slices) == 3


def test_of_a_shared_device_only_the_share_of_pods_that_leave_is_given_back() -> None:
    use = {"consumedCapacity": {"memory": "1Gi"}}
    found = seen(
        claim("a", result("g0", shareID="1", **use), reserved=(by("x"),)),
        claim("b", result("g0", shareID="2", **use), reserved=(by("y"),)),
        leaving=("x",),
    )
    assert found.consumed == {device("g0"): {"memory": parse_quantity("1Gi").nanos}}


def test_slices_of_nodes_count_once_these_are_up() -> None:
    """By their owners: where a slice may be used says nothing about whose it is."""
    offered = slices("up", "coming", None, node="coming")
    assert [item.metadata.name for item in seen(claim("a"), offered=offered, up=("up",)).slices] == [
        "slice-0",
        "slice-2",
    ]


def published(
    node: str, driver: str = DRIVER, *, pool: str = "p", generation: int = 1, of: int = 1
) -> ResourceSlice:
    place = {"name": pool, "generation": generation, "resourceSliceCount": of}
    return decode({"spec": {"driver": driver, "pool": place, "nodeName": node}}, ResourceSlice)


OTHER = "dra.net"


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        ((), OTHER),
        ((published("n1"),), OTHER),
        ((published("n1", OTHER),), DRIVER),
        ((published("n1"), published("n1", OTHER)), ""),
        ((published("n2"), published("n1", OTHER)), DRIVER),
        ((published("n1", of=2), published("n1", OTHER)), DRIVER),
        ((published("n1", of=2), published("n1", OTHER), published("n1", of=2)), ""),
        ((published("n1", generation=2, of=2), published("n1", of=1), published("n1", OTHER)), DRIVER),
        ((published("n1", of=2), published("n1", generation=2), published("n1", OTHER)), ""),
        ((published("n1", of=2), published("n1", pool="whole"), published("n1", OTHER)), ""),
    ],
)
def test_a_driver_has_published_a_pool_once_all_of_it_is_there(
    found: tuple[ResourceSlice, ...], missing: str
) -> None:
    assert unpublished(found, "n1", (OTHER, DRIVER)) == missing


def test_nothing_is_gone_through_for_pods_without_claims() -> None:
    found = seen(claim("a", result("g0")), asks=(), offered=slices("up"), up=("up",))
    assert found == ClusterDevices()


def test_claims_that_are_not_there_are_not_made_up() -> None:
    assert seen(claim("other"), asks=("a", "other")).claims.keys() == {"ml/other"}
