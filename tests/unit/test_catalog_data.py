"""The packaged catalogue is whole, and its door answers what it says."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.offerings import discount
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.model import labels


def test_header_names_format_and_sources() -> None:
    loaded = store.load()
    assert loaded.format == store.FORMAT
    assert set(loaded.sources) == {"moto"}
    for region in store.regions():
        for date, source, count in store.lists(region):
            time.strptime(date, "%Y-%m-%d")
            assert source and count > 0


def test_types_are_sorted_and_plausible() -> None:
    types = store.load().types
    assert len(types) == 1386
    assert [record.name for record in types] == sorted({record.name for record in types})
    for record in types:
        assert record.arch in ("amd64", "arm64")
        assert record.vcpus > 0
        assert record.memory > 0
        assert 0 < record.default_card_interfaces <= record.interfaces
        assert record.category
        assert record.generation > 0


@pytest.mark.parametrize("region", store.regions())
def test_regions_are_consistent(region: str) -> None:
    place, types = store.region(region), store.load().types
    assert len(place.masks) == len(place.prices) == len(types)
    names = [name for name, _ in place.zones]
    assert names == sorted(names)
    assert all(name.startswith(region) for name in names)
    assert len({identifier for _, identifier in place.zones}) == len(names)
    for mask, price in zip(place.masks, place.prices, strict=True):
        assert 0 <= mask < 1 << len(names)
        assert price >= 0
        assert mask or not price


def test_a_known_region_has_the_prices_that_are_known() -> None:
    types = catalog.instance_types("ap-northeast-2")
    priced = [item for item in types if any(offering.available for offering in item.offerings)]
    assert (len(types), len(priced)) == (754, 754)
    large = next(item for item in types if item.name == "m5.large")
    assert {offering.price for offering in large.offerings if not offering.estimated} == {118_000_000}


@pytest.mark.parametrize("family", ["c5", "c6i", "m5", "m6i", "m7i", "m6g", "r5", "r6i"])
def test_sizes_of_a_family_cost_in_proportion_to_their_vcpus(family: str) -> None:
    for region in store.regions():
        each = [
            price / record.vcpus
            for record, _, price in store.sold(region)
            if record.family == family and price and not record.bare_metal
        ]
        assert max(each, default=1) <= min(each, default=1) * 1.012, region


def test_nothing_is_without_a_price_and_what_no_list_has_says_how_it_is_estimated() -> None:
    kinds = Counter(kind for region in store.regions() for kind in store.estimates(region).values())
    assert sum(store.unpriced(region)[0] for region in store.regions()) == 0
    assert kinds == {"region": 6279, "resources": 244, "generation": 207, "size": 49}
    assert {"r9g.large", "t8i.small", "r8i.metal-48xl"} <= store.estimates("us-east-1").keys()
    assert not {"m5.xlarge", "m8i.large", "c8g.large", "r8i.large"} & store.estimates("us-east-1").keys()


@pytest.mark.parametrize(
    ("region", "name", "price"),
    [
        ("us-east-1", "m8i.large", 105_840_000),  # listed
        ("us-east-1", "p5.48xlarge", 55_040_000_000),  # the newer list's
        ("us-east-1", "m8g.metal-24xl", 4_308_480_000),  # the older list's: the newer has dedicated tenancy
        ("us-east-1", "t8i.medium", 45_860_000),  # t3.medium and the step from m5 to m8i
        ("eu-west-1", "m8i.large", 117_970_000),  # us-east-1's, and what m7i costs there
    ],
)
def test_prices_known_by_hand(region: str, name: str, price: int) -> None:
    assert {record.name: price for record, _, price in store.sold(region)}[name] == price


def test_sizes_of_burstable_types_cost_in_proportion_to_their_memory() -> None:
    for region in store.regions():
        each = {
            record.name: price / record.memory
            for record, _, price in store.sold(region)
            if record.family == "t3" and price
        }
        assert max(each.values(), default=1) <= min(each.values(), default=1) * 1.012, region


def test_an_offering_without_a_price_is_unavailable() -> None:
    for item in catalog.instance_types("ap-south-1"):
        assert all(offering.available == (offering.price > 0) for offering in item.offerings)


def test_spot_is_an_estimate_below_on_demand_and_the_same_for_a_family_in_a_zone() -> None:
    spot = {}
    for item in catalog.instance_types("us-east-1"):
        on_demand = {one.zone: one.price for one in item.offerings if one.capacity_type == labels.ON_DEMAND}
        for offering in item.offerings:
            if offering.capacity_type == labels.SPOT and offering.available:
                assert offering.estimated
                assert 0 < offering.price < on_demand[offering.zone]
                spot[item.name, offering.zone] = offering.price / on_demand[offering.zone]
    assert spot["m5.24xlarge", "us-east-1a"] == pytest.approx(spot["m5.4xlarge", "us-east-1a"], rel=0.001)
    assert discount("m5", "us-east-1a") != discount("m5", "us-east-1b")


def test_an_unknown_region_is_an_error_with_guesses() -> None:
    with pytest.raises(InputError, match="ap-northeast2") as caught:
        catalog.instance_types("ap-northeast2")
    assert "did you mean ap-northeast-2" in caught.value.remedy


def test_zones_limit_and_rename() -> None:
    types = catalog.instance_types("us-west-2", zones={"us-west-2a": "usw2-az9"})
    assert {one.zone for item in types for one in item.offerings} == {"us-west-2a"}
    ids = {value for item in types for value in item.requirements.by_key[labels.ZONE_ID].values}
    assert ids == {"usw2-az9"}
    with pytest.raises(InputError, match="no zone 'us-west-2z'"):
        catalog.instance_types("us-west-2", zones={"us-west-2z": ""})


def test_types_without_an_image_are_left_out() -> None:
    bottlerocket = decode({"spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}}, EC2NodeClass)
    windows = decode({"spec": {"amiSelectorTerms": [{"alias": "windows2022@latest"}]}}, EC2NodeClass)
    names = [
        {item.name for item in catalog.instance_types("us-east-1", one)}
        for one in (None, bottlerocket, windows)
    ]
    assert [("a1.large" in one, "m6g.large" in one) for one in names] == [
        (False, True),
        (True, True),
        (False, False),
    ]


@pytest.mark.parametrize(
    ("kubelet", "path"),
    [
        ({"maxPods": "many"}, "spec.kubelet.maxPods"),
        ({"kubeReserved": {"memory": "lots"}}, "spec.kubelet.kubeReserved.memory"),
        ({"systemReserved": 5}, "spec.kubelet.systemReserved"),
        ({"evictionHard": {"memory.available": "x%"}}, "spec.kubelet.evictionHard.memory.available"),
    ],
)
def test_kubelet_values_that_cannot_be_read(kubelet: dict[str, object], path: str) -> None:
    node_class = decode({"spec": {"kubelet": kubelet}}, EC2NodeClass)
    with pytest.raises(InputError) as caught:
        catalog.instance_types("us-west-1", node_class)
    assert caught.value.path == path


IPV4, EFA = "vpc.amazonaws.com/PrivateIPv4Address", "vpc.amazonaws.com/efa"
LISTED = [
    {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
    {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
]


def of_class(**spec: object) -> NodeSettings:
    return NodeSettings.of(decode({"spec": {"amiFamily": "AL2", **spec}}, EC2NodeClass))


@pytest.mark.parametrize(
    ("spec", "fits", "fails"),
    [
        ({"networkInterfaces": LISTED[:1]}, ["m5.large", "p5.48xlarge"], ["m3.large", "t2.micro"]),  # no ENA
        (
            {"networkInterfaces": LISTED[:2]},
            ["p5.48xlarge", "c6in.32xlarge"],
            ["m5.large", "hpc6id.32xlarge"],
        ),
        (
            {"networkInterfaces": LISTED},
            ["p4d.24xlarge", "c6in.32xlarge"],
            ["c5n.18xlarge"],
        ),  # it has one card
        (
            {"networkInterfaces": [{**LISTED[0], "deviceIndex": 3}]},
            ["m5.xlarge"],
            ["m5.large"],
        ),  # 4 and 3 of them
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, ["m8i.large"], ["m5.large", "m7g.large"]),
        ({"cpuOptions": {"nestedVirtualization": "disabled"}}, ["m8i.large", "m5.large"], []),
        ({"enclaveOptions": {"enabled": True}}, ["m5.xlarge"], ["m5.large", "t3.large"]),
        ({"enclaveOptions": {"enabled": False}}, ["m5.large"], []),
        ({"connectionTracking": {"udpTimeout": 30}}, ["m5.large", "m7g.large"], ["m4.large", "m5.metal"]),
        (
            {"cpuOptions": {"nestedVirtualization": "enabled"}, "connectionTracking": {"udpTimeout": 30}},
            ["m8i.large"],
            ["m5.large", "m4.large"],
        ),
        ({"amiFamily": "AL2023"}, ["m6g.large"], ["a1.large"]),
    ],
)
def test_types_that_are_what_a_class_asks_for(
    spec: dict[str, object], fits: list[str], fails: list[str]
) -> None:
    known = {record.name: record for record in store.load().types}
    found = {name: catalog.runs(known[name], of_class(**spec)) for name in (*fits, *fails)}
    assert found == {**dict.fromkeys(fits, True), **dict.fromkeys(fails, False)}


def test_a_placement_group_takes_the_types_that_know_its_strategy() -> None:
    known = {record.name: record for record in store.load().types}
    found = [
        catalog.runs(known["t3.large"], NodeSettings(placement=one)) for one in ("", "spread", "cluster")
    ]
    assert found == [True, True, False]


@pytest.mark.parametrize(
    ("name", "addresses", "os"),
    [
        ("m5.large", 9, "windows"),
        ("t8i.nano", 0, "windows"),
        ("hpc7a.96xlarge", 0, "windows"),
        ("m7g.large", None, ""),
    ],
)
def test_windows_nodes(name: str, addresses: int | None, os: str) -> None:
    record = next(one for one in store.load().types if one.name == name)
    for family, build in (("Windows2019", "10.0.17763"), ("Windows2025", "10.0.26100")):
        settings = of_class(amiFamily=family)
        made = catalog.make(record, settings, region="us-east-1", zones=(("us-east-1a", "x"),), on_demand=1)
        assert made.capacity.get(IPV4) == addresses
        assert (made.capacity["pods"], made.overhead.kube_reserved["memory"]) == (110, (110 * 11 + 255) << 20)
        asked = made.requirements.by_key
        assert asked["kubernetes.io/os"].values == frozenset({os} - {""})
        assert asked["node.kubernetes.io/windows-build"].values == {build}
        assert (
            IPV4
            not in catalog.make(
                record, of_class(), region="us-east-1", zones=(("us-east-1a", "x"),), on_demand=1
            ).capacity
        )


@pytest.mark.parametrize(
    ("name", "interfaces", "per_core", "pods", "efa", "reserved_pods"),
    [
        ("p5.48xlarge", [], None, 100, 32, 100),
        (
            "p5.48xlarge",
            LISTED[:2],
            None,
            51,
            1,
            51,
        ),  # the interface for EFA takes the place of one with addresses
        ("p5.48xlarge", LISTED, 10, 51, 2, 51),
        ("m5.large", LISTED[:2], 10, 20, 1, 20),  # reserved for what gets an address, not for what may run
        ("m5.large", LISTED[:1], 4, 8, 0, 29),
    ],
)
def test_listed_interfaces(
    name: str, interfaces: list[object], per_core: int | None, pods: int, efa: int, reserved_pods: int
) -> None:
    record = next(one for one in store.load().types if one.name == name)
    kubelet = {"podsPerCore": per_core} if per_core else {}
    settings = of_class(networkInterfaces=interfaces, kubelet=kubelet)
    made = catalog.make(record, settings, region="us-east-1", zones=(("us-east-1a", "x"),), on_demand=1)
    assert (made.capacity["pods"], made.capacity[EFA]) == (pods, efa)
    assert made.overhead.kube_reserved["memory"] == (255 + 11 * reserved_pods) << 20


@pytest.mark.parametrize(("threshold", "kept"), [("100%", 0), ("5%", None), ("1Gi", 1 << 30), ("0%", 0)])
def test_an_eviction_threshold_of_all_is_none(threshold: str, kept: int | None) -> None:
    record = next(one for one in store.load().types if one.name == "m5.large")
    settings = of_class(kubelet={"evictionHard": {"memory.available": threshold, "nodefs.available": "100%"}})
    made = catalog.make(record, settings, region="us-east-1", zones=(("us-east-1a", "x"),), on_demand=1)
    expected = -(-made.capacity["memory"] * 5 // 100) if kept is None else kept
    assert made.overhead.eviction_threshold == {"memory": expected, "ephemeral-storage": 0}
