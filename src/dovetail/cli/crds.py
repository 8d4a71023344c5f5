"""`dovetail crds`: the definitions of Dovetail's kinds for an API server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.base.writing import unwritten, write_whole

_WIDTH = 110
WEBHOOK_PORT = 8443  # as in Karpenter's charts


def crds(
    *,
    output: Annotated[Literal["yaml", "json"], Parameter(alias="-o")] = "yaml",
    directory: Annotated[Path | None, Parameter(alias="-d")] = None,
    webhook_service: str = "",
) -> None:
    """Print the CustomResourceDefinitions of NodePool, NodeClaim, EC2NodeClass and the other kinds.

    They hold the fields, defaults, rules and messages by which `dovetail plan` and `dovetail simulate` check
    manifests. Nothing is changed anywhere.

    Examples:

    - `dovetail crds | kubectl apply --server-side --force-conflicts -f -` installs or upgrades them, over
      Karpenter's own as well
    - `dovetail crds | kubectl diff -f -` shows what that would change
    - `dovetail crds --directory crds` writes one file for each
    - `dovetail crds --webhook-service karpenter/karpenter` has v1beta1 too, for the way to v1

    Parameters
    ----------
    output
        yaml or json.
    directory
        Write one file per definition into this folder instead, which is made where there is none.
    webhook_service
        Serve v1beta1 beside v1, as Karpenter 1.0 did, and let this Service convert between them:
        NAMESPACE/NAME or NAMESPACE/NAME:PORT of a controller that runs with --disable-webhook=false.
    """
    from dovetail.api.crd import definition
    from dovetail.api.generations.beta_definitions import definitions
    from dovetail.api.karpenter.definitions import DEFINITIONS

    documents = (
        definitions(*_service(webhook_service))
        if webhook_service
        else [definition(kind) for kind in DEFINITIONS]
    )
    if directory is None:
        print(_text(documents, output), end="")
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for document in documents:
            file = directory / f"{file_name(document)}.{output}"
            write_whole(file, _text([document], output))
            print(file)
    except OSError as error:
        raise unwritten(error, directory, "name another --directory") from None


def _service(text: str) -> tuple[str, str, int]:
    found = re.fullmatch(r"([a-z0-9-]{1,63})/([a-z0-9-]{1,63})(?::(\d{1,5}))?", text)
    port = int(found[3] or WEBHOOK_PORT) if found else 0
    if found is None or not 0 < port < 65_536:
        raise InputError(
            f"{text!r} names no Service",
            source="--webhook-service",
            remedy="give NAMESPACE/NAME or NAMESPACE/NAME:PORT, such as karpenter/karpenter",
        )
    return found[1], found[2], port


def file_name(document: dict[str, Any]) -> str:
    """The customary name of a definition's file, less its ending: group, then plural."""
    plural, _, group = document["metadata"]["name"].partition(".")
    return f"{group}_{plural}"


def _text(documents: list[dict[str, Any]], output: str) -> str:
    from dovetail.base.yaml_writing import written

    if output == "yaml":
        return "---\n".join(written(item, width=_WIDTH) for item in documents)
    whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
    return json.dumps(whole, indent=2) + "\n"
