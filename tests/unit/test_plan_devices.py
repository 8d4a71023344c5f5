"""Claims and devices of manifests, as `plan -f` makes them of templates and of EC2's types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.solve import mix
from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dovetail.api.meta import Object
from dovetail.cli.plan_devices import with_devices
from dovetail.model.devices import claim_keys
from dovetail.model.problem import Problem
from dovetail.reading import Manifest
from dovetail.reading.located import Located

CLASS = decode({"metadata": {"name": "gpu"}}, DeviceClass)
WHERE = Located({}, "file.yaml", 1, 1)
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def template(name: str, namespace: str = "d") -> ResourceClaimTemplate:
    meta = {"name": name, "namespace": namespace}
    return decode({"metadata": meta, "spec": {"spec": SPEC}}, ResourceClaimTemplate)


def claim(name: str) -> ResourceClaim:
    return decode({"metadata": {"name": name, "namespace": "d"}, "spec": SPEC}, ResourceClaim)


def pod(name: str, *claims: dict[str, Any], made: tuple[dict[str, Any], ...] = ()) -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "d"},
        "spec": {"resourceClaims": list(claims), "containers": [{"name": "a"}]},
        "status": {"resourceClaimStatuses": list(made)},
    }
    return decode(document, Pod)


def read(pods: list[Pod], *objects: Object) -> Problem:
    made = mix.diverse(0)
    names = ("g5.xlarge", "m5.large")
    pools = tuple(
        replace(
            one,
            instance_types=tuple(
                replace(kind, name=name) for kind, name in zip(one.instance_types, names, strict=False)
            ),
        )
        for one in made.pools
    )
    asked = replace(made, pods=tuple(pods), pools=pools)
    return with_devices(asked, [Manifest(one, WHERE) for one in objects])


OWN, OF_TEMPLATE = (
    {"name": "x", "resourceClaimName": "own"},
    {"name": "g", "resourceClaimTemplateName": "one"},
)


@pytest.mark.parametrize(
    ("given", "names", "there"),
    [
        (pod("p", OF_TEMPLATE), ("d/p-g",), {"d/p-g"}),
        (pod("p", OWN), ("d/own",), {"d/own"}),
        (pod("p", OWN, OF_TEMPLATE), ("d/own", "d/p-g"), {"d/own", "d/p-g"}),
        (pod("p", {"name": "g", "resourceClaimTemplateName": "none"}), ("d/p-g",), set()),
        (pod("p", {"name": "g", "resourceClaimTemplateName": "elsewhere"}), ("d/p-g",), set()),
        (pod("p", OF_TEMPLATE, made=({"name": "g", "resourceClaimName": "own"},)), ("d/own",), {"d/own"}),
        (pod("p", OF_TEMPLATE, made=({"name": "g"},)), (), set()),
    ],
)
def test_claims_are_made_of_templates_of_the_namespace(
    given: Pod, names: tuple[str, ...], there: set[str]
) -> None:
    found = read([given], CLASS, template("one"), template("elsewhere", "other"), claim("own"))
    assert claim_keys(found.pods[0]) == names
    assert found.devices is not None
    assert set(found.devices.claims) == there
    assert set(found.devices.classes) == ({"gpu"} if names else set())


def test_each_pod_has_a_claim_of_its_own_of_a_template() -> None:
    found = read([pod("p", OF_TEMPLATE), pod("q", OF_TEMPLATE)], CLASS, template("one"))
    assert found.devices is not None
    assert set(found.devices.claims) == {"d/p-g", "d/q-g"}


def test_types_have_the_devices_of_ec2_only_where_pods_claim_some() -> None:
    found = read([pod("p", OF_TEMPLATE)], CLASS, template("one"))
    drivers = {kind.name: kind.devices.drivers for pool in found.pools for kind in pool.instance_types}
    assert drivers == {"g5.xlarge": ("gpu.nvidia.com",), "m5.large": ()}
    without = read([pod("p")], CLASS, template("one"))
    assert without.devices is None
    assert not any(kind.devices.slices for pool in without.pools for kind in pool.instance_types)
