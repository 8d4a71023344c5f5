"""A real API server fills in and refuses what the one in memory does, and in the same words."""

from __future__ import annotations

import json

from dovetail.testing.allowances import ADMITTED, REFUSED, Document, pod
from tests.cluster.controlplane.start import ControlPlane, StartError
from tests.cluster.running import eventually


def created(plane: ControlPlane, namespace: str, document: Document, *flags: str) -> Document:
    return dict(
        json.loads(
            plane.run(
                *("kubectl", "--namespace", namespace, "create", "-o", "json", *flags, "-f", "-"),
                stdin=json.dumps({**document, "metadata": {"name": document["metadata"]["name"]}}),
            )
        )
    )


def answer(plane: ControlPlane, namespace: str, asked: Document) -> object:
    """What a container has then, or why not."""
    try:
        made = created(plane, namespace, pod("web", asked), "--dry-run=server")
    except StartError as error:
        return str(error).partition("is forbidden: ")[2]
    return made["spec"]["containers"][0]["resources"]


Case = tuple[list[Document], list[Document], Document, object]


def agree(plane: ControlPlane, namespace: str, case: Case) -> None:
    rules, before, asked, expected = case
    plane.run("kubectl", "create", "namespace", namespace)
    for rule in rules:
        created(plane, namespace, rule)
    for index, resources in enumerate(before):
        created(plane, namespace, pod(f"there-{index}", resources))
    # The server takes a moment to know of them.
    eventually(lambda: answer(plane, namespace, asked), lambda found: found == expected, seconds=30)
    plane.run("kubectl", "delete", "namespace", namespace, "--wait=false")


def test_both_servers_allow_the_same(whole: ControlPlane) -> None:
    cases: list[Case] = [(rules, [], asked, resources) for rules, asked, resources in ADMITTED]
    for number, case in enumerate((*cases, *REFUSED)):
        agree(whole, f"allowances-{number}", case)
