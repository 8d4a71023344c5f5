"""What pods ask for: copies of one pod are alike, whatever the API server adds to each of them."""

from __future__ import annotations

import pytest

from dovetail.api.core import ClaimVolumeSource, EphemeralVolumeSource, Pod, PodSpec, Toleration, Volume
from dovetail.api.meta import Meta
from dovetail.model.pod_sorts import Reader


def pod(name: str, *volumes: Volume, **spec: object) -> Pod:
    return Pod(metadata=Meta(name=name, namespace="default"), spec=PodSpec(volumes=volumes, **spec))  # type: ignore[arg-type]  # fields of a spec


def test_credentials_with_names_of_their_own_keep_no_pods_apart() -> None:
    reader = Reader()
    asks = [reader.read(pod(name, Volume(name=f"kube-api-access-{name}"))) for name in ("a", "b")]
    assert asks[0] is asks[1] is reader.read(pod("c"))
    assert not asks[0].has_claims
    assert len(tuple(reader.different())) == 1
    assert reader.read(pod("d", tolerations=(Toleration(operator="Exists"),))) is not asks[0]


@pytest.mark.parametrize(
    "claim",
    [
        Volume(name="data", persistent_volume_claim=ClaimVolumeSource(claim_name="data")),
        Volume(name="scratch", ephemeral=EphemeralVolumeSource()),
    ],
)
def test_claims_count_beside_credentials(claim: Volume) -> None:
    reader = Reader()
    ask = reader.read(pod("a", Volume(name="kube-api-access-a"), claim))
    assert ask.has_claims
    assert ask is reader.read(pod("b", claim, Volume(name="kube-api-access-b")))
    assert ask.fingerprint != reader.read(pod("c")).fingerprint
