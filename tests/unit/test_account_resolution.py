"""What the selectors of a node class match in the simulated account."""

from __future__ import annotations

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.provider import NodeClassResolution
from dovetail.cloud.simulated import Account, Image, SecurityGroup, Subnet
from dovetail.cloud.simulated.account import resolve

REGION = "ap-northeast-2"


def account() -> Account:
    """Two zones, a subnet each."""
    tags = {"karpenter.sh/discovery": "demo"}
    subnets = tuple(Subnet(f"subnet-{zone}", zone, f"az-{zone}", tags) for zone in "ab")
    return Account(REGION, "1.33", subnets, (SecurityGroup("sg-1", "nodes", tags),))


def resolved(place: Account, **spec: object) -> NodeClassResolution:
    """What a class matches that selects by tag unless `spec` says otherwise."""
    terms = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    usual = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    return resolve(decode({"spec": {**usual, **spec}}, EC2NodeClass), place, {})


def test_the_usual_account() -> None:
    found = resolved(Account.usual(REGION, "demo"))
    assert [subnet.zone[-1] for subnet in sorted(found.subnets, key=lambda one: one.zone)] == list("abcd")
    assert [group.name for group in found.security_groups] == ["demo-nodes"]
    assert len(found.images) == 5
    assert found.unsupported_alias == ""


def test_a_near_miss_can_be_shown() -> None:
    found = resolved(account(), subnetSelectorTerms=[{"tags": {"karpenter.sh/discovert": "demo"}}])
    assert found.subnets == ()
    assert found.subnet_tag_keys == ("karpenter.sh/discovery",)


@pytest.mark.parametrize(
    ("term", "ids"),
    [
        ({"id": "subnet-a"}, ["subnet-a"]),
        ({"tags": {"karpenter.sh/discovery": "*"}}, ["subnet-a", "subnet-b"]),
        ({"tags": {"*": "*"}}, ["subnet-a", "subnet-b"]),
        ({"tags": {"karpenter.sh/discovery": "demo", "tier": "private"}}, []),
        ({}, []),
    ],
)
def test_subnet_terms(term: dict[str, object], ids: list[str]) -> None:
    found = resolved(account(), subnetSelectorTerms=[term])
    assert [subnet.id for subnet in found.subnets] == ids


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([{"id": "ami-1"}, {"id": "ami-1"}], ["ami-1"]),
        ([{"name": "own-*"}], ["own-image"]),
        ([{"tags": {"team": "x"}}], ["own-image"]),
        ([{"name": "other"}], []),
    ],
)
def test_image_terms(terms: list[dict[str, object]], names: list[str]) -> None:
    place = Account(REGION, images=(Image("ami-9", "own-image", tags={"team": "x"}),))
    assert [
        image.name for image in resolved(place, amiFamily="AL2023", amiSelectorTerms=terms).images
    ] == names


@pytest.mark.parametrize(
    ("alias", "version", "supported"),
    [
        ("al2@latest", "1.32", True),
        ("al2@latest", "1.33", False),
        ("windows2025@latest", "1.34", False),
        ("windows2025@latest", "1.35", True),
    ],
)
def test_aliases_that_a_version_has_no_images_for(alias: str, version: str, supported: bool) -> None:
    found = resolved(Account(REGION, version), amiSelectorTerms=[{"alias": alias}])
    assert bool(found.images) == supported
    assert (found.unsupported_alias == "") == supported


def test_subnets_come_with_the_most_free_addresses_first() -> None:
    terms = [{"tags": {"*": "*"}}]
    spec = {"subnetSelectorTerms": terms, "amiSelectorTerms": [{"alias": "al2023@latest"}]}
    node_class = decode({"spec": spec}, EC2NodeClass)
    assert [subnet.id for subnet in resolve(node_class, account(), {"subnet-a": 1}).subnets] == [
        "subnet-b",
        "subnet-a",
    ]


def test_without_terms_nothing_is_selected() -> None:
    found = resolved(account(), subnetSelectorTerms=[], securityGroupSelectorTerms=[])
    assert (found.subnets, found.security_groups) == ((), ())
    assert found.security_group_tag_keys == ("karpenter.sh/discovery",)
