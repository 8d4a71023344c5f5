"""What a runbook for Karpenter names is there by its names once the chart is called so."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS


def _named(api_server: ControlPlane, *settings: str) -> list[dict[str, Any]]:
    given = ("--namespace", "karpenter", "--set", "settings.clusterName=demo", *settings)
    text = api_server.run("helm", "template", "karpenter", str(CHARTS / "dovetail"), *given)
    return [document for document in yaml.safe_load_all(text) if document]


def test_the_chart_is_called_as_karpenters_if_set_so(api_server: ControlPlane) -> None:
    documents = _named(api_server, "--set", "nameOverride=karpenter")
    names = {document["kind"]: document["metadata"]["name"] for document in documents}
    for kind in ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget"):
        assert names[kind] == "karpenter"
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter"
    assert [container["name"] for container in template["spec"]["containers"]] == ["controller"]


def test_a_release_called_karpenter_alone_is_not_enough(api_server: ControlPlane) -> None:
    documents = _named(api_server)
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    assert deployment["metadata"]["name"] == "karpenter-dovetail"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "dovetail"
