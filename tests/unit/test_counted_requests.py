"""What requests to the API server and calls of AWS are counted as."""

from __future__ import annotations

import asyncio
import os
from unittest import mock

import pytest

from dovetail.api.core import Pod
from dovetail.base.errors import Unavailable
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.live import calls as aws
from dovetail.cloud.aws.live import connect
from dovetail.kube.http import client, transport
from dovetail.kube.http.access import Access, Proof
from dovetail.kube.http.credentials import Fixed
from dovetail.kube.http.transport import Target
from dovetail.runtime.metrics.memory import MemoryMetrics

_NO_SERVER = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/pods", Target("", "v1", "pods", "", "")),
        ("/api/v1/namespaces/web", Target("", "v1", "namespaces", "web", "")),
        ("/api/v1/namespaces/web/pods/a/eviction", Target("", "v1", "pods", "a", "eviction")),
        ("/apis/karpenter.sh/v1/nodeclaims/a", Target("karpenter.sh", "v1", "nodeclaims", "a", "")),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter",
            Target("coordination.k8s.io", "v1", "leases", "karpenter", ""),
        ),
        ("/version", None),
        ("/api/v1", None),
    ],
)
def test_what_a_path_names(path: str, found: Target | None) -> None:
    assert transport.target(path) == found


@pytest.mark.parametrize(
    ("method", "name", "watch", "said"),
    [
        ("GET", "a", False, "GET"),
        ("GET", "", False, "LIST"),
        ("GET", "", True, "WATCH"),
        ("POST", "", False, "CREATE"),
        ("PATCH", "a", False, "PATCH"),
        ("DELETE", "a", False, "DELETE"),
    ],
)
def test_what_is_done(method: str, name: str, watch: bool, said: str) -> None:
    assert transport.verb(method, Target("", "v1", "pods", name, ""), watch=watch) == said


def test_an_api_server_that_does_not_answer_is_counted() -> None:
    metrics = MemoryMetrics()

    async def ask() -> None:
        async with client.connect(Access(_NO_SERVER, Fixed(Proof())), metrics=metrics) as made:
            await made.get(Pod, "a", "default")

    with pytest.raises(Unavailable):
        asyncio.run(ask())
    assert metrics.value(transport.REQUESTS, code=transport.NO_ANSWER, method="GET") == 1
    named = {"verb": "GET", "group": "", "version": "v1", "kind": "pods", "subresource": ""}
    assert len(metrics.observed(transport.DURATION, **named)) == 1


def test_an_aws_that_does_not_answer_is_counted_with_every_try(tmp_path: object) -> None:
    metrics = MemoryMetrics()

    async def call() -> None:
        async with connect({"AWS_REGION": "us-east-1"}, endpoint=_NO_SERVER, metrics=metrics) as found:
            await found.sts.get_caller_identity()

    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    environ = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path), **keys}
    with mock.patch.dict(os.environ, environ, clear=True), pytest.raises(AwsError):
        asyncio.run(call())
    named = {"service": "STS", "action": "GetCallerIdentity"}
    assert metrics.value(aws.REQUESTS, **named, code=aws.NO_ANSWER) == 1
    assert metrics.value(aws.ATTEMPTS, **named, code=aws.NO_ANSWER) == 4
    assert metrics.observed(aws.RETRIES, **named) == (3.0,)
    assert len(metrics.observed(aws.DURATION, **named, code=aws.NO_ANSWER)) == 1
    assert len(metrics.observed(aws.ATTEMPT, **named, code=aws.NO_ANSWER)) == 4
