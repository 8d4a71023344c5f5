"""What cannot be read of an answer costs the one object it is about, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.core import Node, Pod
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.errors import ApiError
from dovetail.kube.http import wire
from dovetail.kube.unreadable import Unreadable, plain, stand_in, unreadable

META = {"name": "bad", "uid": "u1", "resourceVersion": "7"}
CLASS = {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}
GOOD = {
    "metadata": {"name": "good", "uid": "u2", "resourceVersion": "5"},
    "spec": {**CLASS, "template": {"spec": CLASS}},
}
DEEP = "[" * 50_000 + "]" * 50_000


def text(**parts: Any) -> bytes:
    return json.dumps({"metadata": META, **parts}).encode()


# kind, and an object that it refuses
BAD: list[tuple[type[Object], bytes]] = [
    (Pod, text(spec={"nodeName": "n1", "tolerations": "all"})),
    (Pod, text(spec={"nodeName": "n1", "priority": "high"})),
    (Pod, text(spec={"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": {}}}}]})),
    (Pod, text(spec={"nodeName": "n1", "priority": 7}).replace(b"7}", b"9" * 5_000 + b"}")),
    (Pod, text(spec={"nodeName": "n1", "tolerations": "DEEP"}).replace(b'"DEEP"', DEEP.encode())),
    (Pod, text(spec={"nodeName": "n1", "tolerations": "\x00"}).replace(b"\\u0000", b"\xff\xfe")),
    (Node, text(spec={"providerID": "p"}, status={"allocatable": {"cpu": "x"}})),
    (NodeClaim, text(spec={"requirements": 3}, status={"providerID": "p"})),
    (NodePool, text(spec={"weight": "heavy"})),
    (PodDisruptionBudget, text(spec=[])),
]


@pytest.mark.parametrize(("kind", "bad"), BAD)
def test_an_object_that_cannot_be_read_costs_itself(kind: type[Object], bad: bytes) -> None:
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (bad, json.dumps(GOOD).encode())
    pages = list(wire.reader(kind).slices(body))
    assert [item.metadata.name for page in pages for item in page.items] == ["good"]
    assert [(item.key, item.version) for page in pages for item in page.unreadable] == [("bad", "7")]
    assert {page.metadata.resource_version for page in pages} == {"9"}
    change = wire.change(b'{"type":"MODIFIED","object":%s}' % bad)
    found = wire.reader(kind).any(change.object)
    assert isinstance(found, Unreadable) and found.salvaged.metadata.uid == "u1" and found.cause
    with pytest.raises(ApiError, match="cannot be read"):
        wire.reader(kind).one(bad)
    if isinstance(found.salvaged, Pod):
        assert found.salvaged.spec.node_name == "n1"


def test_deep_nesting_that_is_not_read_costs_nothing() -> None:
    bad = text(spec={}, junk="DEEP").replace(b'"DEEP"', DEEP.encode())
    assert wire.reader(Pod).one(bad).metadata.name == "bad"
    assert json.loads(plain(b'{"a":%s,"b":"[[{"}' % DEEP.encode()))["b"] == "[[{"


def test_stand_ins_block_and_never_invite() -> None:
    bound, waiting = (
        Unreadable(Pod, wire.reader(Pod).one(text(spec={"nodeName": name})), "why") for name in ("n1", "")
    )
    instead = stand_in(bound, None)
    assert instead is not None and instead.metadata.annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert stand_in(waiting, waiting.salvaged) is None
    node = Unreadable(Node, wire.reader(Node).one(text(spec={"providerID": "p"})), "why")
    for last in (None, node.salvaged):
        shown = stand_in(node, last)
        assert shown is not None and shown.spec.unschedulable and shown.spec.provider_id == "p"
    claim = wire.reader(NodeClaim).any(text(spec=3))
    assert isinstance(claim, Unreadable)
    assert stand_in(claim, None) is None
    assert stand_in(claim, claim.salvaged) is claim.salvaged


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ResourceSlice, {"spec": {"driver": 7}}),
        (ResourceSlice, {"spec": "x"}),
        (ResourceSlice, {}),
        (ResourceSlice, {"spec": {"driver": "d", "pool": {"name": "p", "generation": "new"}}}),
        (ResourceClaim, {"spec": {"devices": {"requests": [{"name": 5}]}}, "status": {"allocation": []}}),
        (DeviceClass, {"spec": {"selectors": [{"cel": {}}]}}),
    ],
)
def test_devices_and_claims_that_cannot_be_read_keep_their_names(
    kind: type[Object], fields: dict[str, Any]
) -> None:
    document = {"metadata": {"name": "odd", "resourceVersion": "3"}, **fields}
    found = unreadable(kind, document, ValueError("why"))
    assert found is not None and (found.key, stand_in(found, None)) == ("odd", None)
