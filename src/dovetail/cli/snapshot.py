"""`dovetail snapshot`: a cluster in a file; and a cluster in the place of files for other commands."""

from __future__ import annotations

import atexit
import gzip
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.base.writing import unwritten, write_whole

if TYPE_CHECKING:
    from dovetail.kube.http.dump import Dump

_SHOWN = 5


def snapshot(
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    anonymize: Annotated[bool, Parameter(negative="")] = False,
    kubeconfig: Path | None = None,
    context: str = "",
) -> None:
    """Write what plans need of a cluster to a file, which every command reads with -f.

    Only reads: it asks for get and list, and says which rights it lacks. Nodes, pods, workloads, NodePools,
    NodeClaims, node classes, budgets, volumes and their classes are in it. Secrets and config maps are never
    asked for; environment variables, commands, probes, user data, addresses and annotations (but Karpenter's
    and Dovetail's) are left out.

    Examples:

    - `dovetail snapshot -o cluster.json.gz` and then `dovetail plan -f cluster.json.gz`
    - `dovetail snapshot -o cluster.json.gz --anonymize --context prod`

    Parameters
    ----------
    output
        The file; compressed if its name ends in .gz.
    anonymize
        Put hashes in place of all names: of namespaces, pods, nodes, workloads, images, labels of your own.
        The same name has the same hash within one file, and another one in the next.
    kubeconfig
        The kubeconfig file to use. Otherwise KUBECONFIG, the pod's service account, or ~/.kube/config.
    context
        The context of the kubeconfig; its current one by default.
    """
    if output.is_dir() or not output.resolve().parent.is_dir():
        raise InputError(
            f"{output} cannot be written: name a file in a folder that is there", source="--output"
        )
    found = read_cluster(kubeconfig, context, anonymize=anonymize)
    text = found.json()
    try:
        write_whole(output, gzip.compress(text, mtime=0) if output.name.endswith(".gz") else text)
    except OSError as error:
        raise unwritten(error, output) from None
    counted = sorted(found.counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{count:,} {kind}" for kind, count in counted[:_SHOWN] if count)
    print(f"{output}: {len(found.documents):,} objects ({shown})")
    note_rights(found)


def read_cluster(kubeconfig: Path | None, context: str, *, anonymize: bool = False) -> Dump:
    """The cluster, without what a snapshot leaves out. Raises InputError."""
    import asyncio

    from dovetail.api.redact import hashing

    # Help imports every command; an HTTP client is not theirs to pay for.
    from dovetail.kube.http.dump import dump
    from dovetail.kube.http.kubeconfig import locate

    access = locate(os.environ, kubeconfig=kubeconfig, context=context)
    return asyncio.run(dump(access, hashing(secrets.token_bytes(16) if anonymize else None)))


def cluster_file(kubeconfig: Path | None, context: str) -> Path:
    """The cluster as a file that is gone once the process ends, and that no other user can read."""
    found = read_cluster(kubeconfig, context)
    note_rights(found)
    folder = tempfile.TemporaryDirectory(prefix="dovetail-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "cluster.json"
    path.write_bytes(found.json())
    return path


def note_rights(found: Dump) -> None:
    """To standard error: what could not be read."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    if found.denied:
        console.print(
            f"note: this user may not list {', '.join(found.denied)}, so the answer is without them\n"
            "  give it the verbs get and list on them"
        )
