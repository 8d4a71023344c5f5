"""Objects of resource.k8s.io/v1 as they are read: whole ones, hostile ones, and claims of pods."""

from typing import Any

import msgspec
import pytest

from dovetail.api.admission import admit
from dovetail.api.codec import decode, encode, salvage
from dovetail.api.core import Pod
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dovetail.api.scheme import BY_GVK
from dovetail.base.errors import BadRequest, Invalid
from dovetail.units.quantity import parse_quantity


def slice_document(**device: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "p", "generation": 2, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "gpu-0", **device}],
            "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}],
        },
    }


def test_a_slice_comes_back_as_it_was_read() -> None:
    document = slice_document(
        attributes={"model": {"string": "A100"}, "index": {"int": 1}, "nvlink": {"bool": True}},
        capacity={
            "memory": {"value": "40Gi", "requestPolicy": {"validRange": {"min": "1Gi", "step": "1Gi"}}}
        },
        consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "10Gi"}}}],
        allowMultipleAllocations=True,
    )
    found = decode(document, ResourceSlice)
    assert encode(found) == document
    assert found.spec.devices[0].capacity["memory"].value == parse_quantity("40Gi")


def test_a_claim_and_its_template_and_class_are_known_kinds() -> None:
    kinds = {kind for version, kind in BY_GVK if version == "resource.k8s.io/v1"}
    assert kinds == {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    claim = decode({"spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    template = decode({"spec": {"spec": {"devices": {"requests": [request]}}}}, ResourceClaimTemplate)
    assert claim.spec == template.spec.spec
    assert claim.spec.devices.requests[0].exactly is not None
    assert claim.spec.devices.requests[0].exactly.count == 2


def test_a_pod_names_claims_in_three_places() -> None:
    pod = decode(
        {
            "spec": {
                "resourceClaims": [
                    {"name": "own", "resourceClaimTemplateName": "gpus"},
                    {"name": "shared", "resourceClaimName": "net"},
                ],
                "containers": [{"name": "a", "resources": {"claims": [{"name": "own", "request": "r"}]}}],
            },
            "status": {
                "resourceClaimStatuses": [
                    {"name": "own", "resourceClaimName": "p-own-x"},
                    {"name": "none", "resourceClaimName": None},
                ]
            },
        },
        Pod,
    )
    assert [one.resource_claim_template_name for one in pod.spec.resource_claims] == ["gpus", ""]
    assert pod.spec.containers[0].resources.claims[0].request == "r"
    assert [one.resource_claim_name for one in pod.status.resource_claim_statuses] == ["p-own-x", ""]


@pytest.mark.parametrize(
    ("device", "path"),
    [
        ({"attributes": {"a": {"int": 1 << 63}}}, "$.spec.devices[0].attributes[...].int"),
        ({"attributes": {"a": {"bool": "yes"}}}, "$.spec.devices[0].attributes[...].bool"),
        ({"capacity": {"a": {"value": "much"}}}, "$.spec.devices[0].capacity[...].value"),
        ({"capacity": {"a": {}}}, "$.spec.devices[0].capacity[...]"),
        ({"consumesCounters": [{}]}, "$.spec.devices[0].consumesCounters[0]"),
    ],
)
def test_what_does_not_fit_names_its_path_and_costs_no_more_than_itself(device: Any, path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        decode(slice_document(**device), ResourceSlice)
    assert path in str(refused.value)
    assert salvage(slice_document(**device), ResourceSlice).spec.driver == "gpu.example.com"


def test_the_server_takes_amounts_as_numbers_too_and_knows_each_field() -> None:
    document = slice_document(capacity={"memory": {"value": 1024}})
    assert decode(admit(document), ResourceSlice).spec.devices[0].capacity["memory"].value.value() == 1024
    with pytest.raises(Invalid, match="capacity"):
        admit(slice_document(capacity={"memory": {"value": "much"}}))
    with pytest.raises(BadRequest, match="allowMultiple"):
        admit(slice_document(allowMultiple=True))


def test_a_class_without_selectors_takes_any_device() -> None:
    assert decode({"metadata": {"name": "any"}, "spec": {}}, DeviceClass).spec.selectors == ()
