"""Paths, bodies and refusals as they go over the wire; how many requests may leave."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import StatefulSet
from dovetail.base.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from dovetail.kube.http import wire
from dovetail.kube.http.rate import RateLimit
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.units.quantity import parse_quantity


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((Pod,), "/api/v1/pods"),
        ((Pod, "team"), "/api/v1/namespaces/team/pods"),
        ((Pod, "team", "web", "eviction"), "/api/v1/namespaces/team/pods/web/eviction"),
        ((Node, "", "n1", "status"), "/api/v1/nodes/n1/status"),
        ((Namespace, "", "team"), "/api/v1/namespaces/team"),
        ((NodePool, "ignored", "a/b"), "/apis/karpenter.sh/v1/nodepools/a%2Fb"),
    ],
)
def test_paths(arguments: tuple[Any, ...], path: str) -> None:
    assert wire.path(*arguments) == path


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (410, "Gone", Expired),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", TimedOut),
        (500, "InternalError", ApiError),
    ],
)
def test_refusals(code: int, reason: str, kind: type[ApiError]) -> None:
    body = json.dumps({"kind": "Status", "message": "no", "reason": reason, "code": code}).encode()
    error = wire.refusal(code, body)
    assert (type(error), str(error), error.status) == (kind, "no", code)


def test_a_broken_rule_has_its_causes() -> None:
    causes = [{"field": "spec.weight", "message": "Invalid value: 200", "reason": "FieldValueInvalid"}]
    body = {"message": "no", "reason": "Invalid", "code": 422, "details": {"causes": causes}}
    error = wire.refusal(422, json.dumps(body).encode())
    assert isinstance(error, Invalid)
    assert error.causes == (Cause("spec.weight", "Invalid value: 200", "FieldValueInvalid"),)


@pytest.mark.parametrize(("details", "header", "seconds"), [({"retryAfterSeconds": 7}, "", 7), ({}, "3", 3)])
def test_how_long_to_leave_it_alone(details: dict[str, int], header: str, seconds: int) -> None:
    body = json.dumps({"message": "no", "reason": "TooManyRequests", "details": details}).encode()
    error = wire.refusal(429, body, retry_after=header)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == seconds * 1_000_000_000


def test_answers_that_are_no_status() -> None:
    error = wire.refusal(404, b"404 page not found", what="/apis/karpenter.sh/v1/nodepools")
    assert str(error) == "the server does not have /apis/karpenter.sh/v1/nodepools"
    error = wire.refusal(502, b"<html>Bad Gateway</html>", what="/api/v1/pods")
    assert (type(error), str(error)) == (Unavailable, "/api/v1/pods: HTTP 502 <html>Bad Gateway</html>")


def test_a_page_is_read_into_views() -> None:
    node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    body = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [node]}
    (page,) = wire.reader(Node).slices(json.dumps(body).encode())
    assert (page.metadata.resource_version, page.metadata.continues) == ("7", "more")
    assert page.items[0].status.capacity["memory"] == parse_quantity("8Gi")


def test_nulls_of_older_servers_are_absent_fields() -> None:
    claim = {"metadata": {"name": "data", "creationTimestamp": None}}
    document = {"metadata": {"name": "db", "labels": None}, "spec": {"volumeClaimTemplates": [claim]}}
    found = wire.reader(StatefulSet).one(json.dumps(document).encode())
    assert found.spec.volume_claim_templates[0].metadata.name == "data"
    pages = wire.reader(StatefulSet).slices(json.dumps({"metadata": {}, "items": [document]}).encode())
    assert [item for page in pages for item in page.items] == [found]
    assert decode(document, StatefulSet) == found


def test_null_is_no_list_entry() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `object`, got `null`"):
        decode({"metadata": {"name": "db"}, "spec": {"volumeClaimTemplates": [None]}}, StatefulSet)


@pytest.mark.parametrize(("kind", "body"), [(Pod, b"[]"), (Pod, b"{"), (NodePool, b"{}")])
def test_what_is_no_object(kind: type[Object], body: bytes) -> None:
    with pytest.raises(ApiError, match=f"the server sent a {kind.KIND} that cannot be read"):
        wire.reader(kind).one(body)


def test_a_torn_line_is_a_broken_connection() -> None:
    with pytest.raises(Unavailable):
        wire.change(b'{"type": "ADDED", "obj')


def test_requests_leave_at_a_steady_rate_after_the_burst() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        limit, left = RateLimit(qps=10, burst=3), []
        for _ in range(5):
            await limit.take()
            left.append(clock.now() // 1_000_000)
        await clock.sleep(1_000_000_000)
        for _ in range(4):
            await limit.take()
            left.append(clock.now() // 1_000_000)
        return left

    assert run_virtual(main) == [0, 0, 0, 100, 200, 1200, 1200, 1200, 1300]
