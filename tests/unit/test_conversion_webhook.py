"""The conversion webhook: its certificates, what it answers to anything, and that it never breaks."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.api.crd import fields
from dovetail.api.generations import review
from dovetail.api.generations.beta_definitions import OLDER, definitions
from dovetail.runtime.process.certificates import (
    AUTHORITIES,
    CHAIN,
    DAY,
    KEY,
    RENEWED,
    VALID,
    Unusable,
    issue,
    read,
)

NOW = 1_790_000_000 * 1_000_000_000
NAMES = ("karpenter.account.svc", "karpenter")
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "1"},
    "spec": {
        "template": {
            "spec": {"nodeClassRef": {"name": "default"}, "requirements": [], "kubelet": {"maxPods": 9}}
        },
        "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
    },
}
CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodeClaim",
    "metadata": {"name": "default-1", "labels": {"karpenter.sh/nodepool": "default"}},
    "spec": {"nodeClassRef": {"name": "default"}, "requirements": []},
}


def body(*objects: Any, wanted: str = "karpenter.sh/v1", **changed: Any) -> bytes:
    request = {"uid": "u", "desiredAPIVersion": wanted, "objects": list(objects), **changed}
    return msgspec.json.encode(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    )


def test_a_pool_goes_to_v1_and_comes_back_as_it_was() -> None:
    newer = review.convert(POOL, "karpenter.sh/v1", {})
    assert newer["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert {**newer["metadata"], "annotations": None} == {**POOL["metadata"], "annotations": None}
    older = review.convert(newer, "karpenter.sh/v1beta1", {})
    assert older == POOL
    assert review.convert(older, "karpenter.sh/v1beta1", {}) is older


def test_a_claim_takes_the_expiry_of_its_pool() -> None:
    asked = review.read(body(CLAIM, POOL))
    assert review.pools_named(asked) == {"default"}
    assert review.pools_named(review.read(body(CLAIM, wanted="karpenter.sh/v1beta1"))) == frozenset()
    pools = {"default": review.pool_that_expires("48h")}
    assert review.convert(CLAIM, "karpenter.sh/v1", pools)["spec"]["expireAfter"] == "48h"
    assert review.convert(CLAIM, "karpenter.sh/v1", {})["spec"]["expireAfter"] == "Never"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"apiVersion": "v1", "kind": "Pod"}',
        b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}',
        b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": null}',
        body("text"),
        body(uid=7),
        body(objects=None),
        body(POOL).replace(b"ConversionReview", b"AdmissionReview"),
        body(POOL).replace(b"apiextensions.k8s.io/v1", b"apiextensions.k8s.io/v9"),
    ],
)
def test_what_is_no_review_is_refused(text: bytes) -> None:
    with pytest.raises(review.Malformed):
        review.read(text)


WRONG: tuple[Any, ...] = (None, 7, "text", [], [None], {}, {"a": None}, True, 1e300)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _with(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(document))
    parent: Any = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return changed


V1_POOL = review.convert(POOL, "karpenter.sh/v1", {})
CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "c", "annotations": {"compatibility.karpenter.k8s.aws/v1beta1-ubuntu": "amiFamily"}},
    "spec": {"amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "a"}], "blockDeviceMappings": [{}]},
}


@pytest.mark.parametrize(
    "document", [POOL, CLAIM, V1_POOL, CLASS, {**CLASS, "apiVersion": "karpenter.k8s.aws/v1"}]
)
def test_wrong_types_at_every_place_are_converted_or_refused(document: dict[str, Any]) -> None:
    group, _, version = document["apiVersion"].partition("/")
    wanted = f"{group}/{'v1' if version == 'v1beta1' else 'v1beta1'}"
    refused = 0
    for path in _places(document)[1:]:
        for wrong in WRONG:
            changed = _with(document, path, wrong)
            asked = review.read(body(changed, wanted=wanted))
            try:
                review.pools_named(asked)
                assert isinstance(review.convert(asked.objects[0], wanted, {}), dict)
            except review.Refused as refusal:
                refused += 1
                assert "conversion of" in str(refusal) and "Traceback" not in str(refusal)
    assert refused > 0


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        (POOL, "karpenter.k8s.aws/v1"),
        (POOL, "karpenter.sh/v2"),
        ({**POOL, "kind": "Machine"}, "karpenter.sh/v1"),
        ({}, "karpenter.sh/v1"),
    ],
)
def test_other_kinds_and_versions_are_refused(document: dict[str, Any], wanted: str) -> None:
    with pytest.raises(review.Refused, match="there is no conversion"):
        review.convert(document, wanted, {})


def test_a_certificate_is_read_back_and_is_due_before_its_end() -> None:
    made = issue(NAMES, NOW)
    assert read(made.data(), NAMES) == made
    assert made.ends == NOW + VALID
    assert not made.due(NOW) and not made.due(made.ends - RENEWED - 1) and made.due(made.ends - RENEWED)


def test_the_authority_before_stays_trusted_and_no_older_one() -> None:
    first = issue(NAMES, NOW)
    second = issue(NAMES, NOW + DAY, first.authorities)
    third = issue(NAMES, NOW + 2 * DAY, second.authorities)
    newest, before = second.authorities[: -len(first.authorities)], first.authorities
    assert second.authorities == newest + before
    assert third.authorities.endswith(newest) and before not in third.authorities
    late = issue(NAMES, NOW + 2 * VALID, third.authorities)
    assert late.authorities.count(b"BEGIN") == 1, "what has ended is not trusted"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({KEY: b""}, "it has no server-key.pem"),
        ({CHAIN: b"text"}, "it cannot be read"),
        ({AUTHORITIES: issue(NAMES, NOW).authorities}, "it cannot be read"),
        ({KEY: issue(NAMES, NOW).key}, "its key is that of another certificate"),
    ],
)
def test_a_secret_that_was_changed_is_reported(changed: dict[str, bytes], why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read({**issue(NAMES, NOW).data(), **changed}, NAMES)
    with pytest.raises(Unusable, match="it is not for other"):
        read(issue(NAMES, NOW).data(), ("other",))


def test_tls_is_made_with_it_and_with_no_other_authority(tmp_path: Path) -> None:
    import time

    made = issue(NAMES, time.time_ns())

    async def shake(authorities: bytes) -> str:
        file = tmp_path / "chain.pem"
        file.write_bytes(made.chain + made.key)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(file)
        async with await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server
        ) as listening:
            port = listening.sockets[0].getsockname()[1]
            client = ssl.create_default_context(cadata=authorities.decode())
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=NAMES[0])
            subject = writer.get_extra_info("peercert")["subjectAltName"]
            writer.close()
            return str(subject)

    assert "karpenter.account.svc" in asyncio.run(shake(made.authorities))
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(shake(issue(NAMES, time.time_ns()).authorities))


def test_definitions_serve_both_versions_and_store_v1() -> None:
    made = {item["metadata"]["name"]: item["spec"] for item in definitions("account", "karpenter", 8443)}
    for name, spec in made.items():
        names = [(version["name"], version["storage"]) for version in spec["versions"]]
        if name in OLDER:
            assert names == [("v1", True), ("v1beta1", False)]
            service = spec["conversion"]["webhook"]["clientConfig"]["service"]
            assert service["path"] == f"/conversion/{name.partition('.')[2]}"
        else:
            assert len(names) == 1 and "conversion" not in spec


def test_kubectl_explain_has_words_for_what_v1beta1_has_of_its_own() -> None:
    for kind in OLDER.values():
        missing = set(fields(kind)) - set(kind.words)
        assert all(".kubelet." in path for path in missing), missing
