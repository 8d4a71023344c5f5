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


def test_nothing_is_without_a_price_and_what_no_list_has_says_how_it_is_told() -> None:
    told = Counter(kind for region in store.regions() for kind in store.estimates(region).values())
    assert sum(store.unpriced(region)[0] for region in store.regions()) == 0
    assert told == {"region": 6279, "resources": 244, "generation": 207, "size": 49}
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
