"""`dovetail convert`: manifests of older generations in today's, with a line for each change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.base.words import number_of

if TYPE_CHECKING:
    from dovetail.cli.convert_files import File
    from dovetail.cli.convert_texts import Converted, Outcome

_BAD = 2


def convert(
    *,
    file: Annotated[tuple[str, ...], Parameter(alias="-f", negative="")],
    output: Annotated[Literal["yaml", "json"], Parameter(alias="-o")] = "yaml",
    out: Path | None = None,
    to: Literal["v1", "v1beta1"] = "v1",
    role: str = "",
    keep_comments: bool = True,
) -> None:
    """Write manifests of Karpenter's older generations in today's.

    Provisioner, Machine and AWSNodeTemplate (v1alpha5, v1alpha1) and NodePool, NodeClaim and EC2NodeClass of
    v1beta1 become v1; workloads that name old labels, annotations or taints are brought along. What the old
    webhooks filled in is written out, so that a pool goes on meaning what it meant. YAML inside of Terraform
    files (heredocs of yaml_body), values of the karpenter and karpenter-nodepool charts are converted too.
    Name all files that belong together: pools and classes share settings.

    The objects go to standard output, one line for each change to standard error. Ends with code 2 when
    something needs a person; what can be converted is written all the same.

    Examples:

    - `dovetail convert -f provisioner.yaml > nodepool.yaml`
    - `dovetail convert -f manifests/ --out converted/`
    - `kubectl get provisioners,awsnodetemplates -o yaml | dovetail convert -f -`

    Parameters
    ----------
    file
        A file or a folder (*.yaml, *.yml, *.json, *.tf); - is standard input. May be repeated.
    output
        How objects are written; YAML keeps comments and order.
    out
        A folder for the converted files, by the names of the old ones, instead of standard output.
    to
        The generation to write; v1beta1 is for a way back, and says what is lost.
    role
        The IAM role of nodes for classes that named neither a role nor an instance profile.
    keep_comments
        Keep comments; --no-keep-comments leaves them out.
    """
    from dovetail.cli.convert_files import read_files
    from dovetail.cli.convert_texts import convert_texts

    files = read_files(file)
    if out is not None and out.exists() and not out.is_dir():
        raise InputError("is not a folder", source=str(out), remedy="name a folder for --out")
    outcome = convert_texts(
        [(item.name, item.text) for item in files], to=to, role=role, comments=keep_comments
    )
    for line in outcome.lines:
        print(line, file=sys.stderr)
    _write(files, outcome, output, out)
    print(_summary(outcome), file=sys.stderr)
    if outcome.troubles:
        raise SystemExit(_BAD)


def _write(files: tuple[File, ...], outcome: Outcome, output: str, out: Path | None) -> None:
    from dovetail.base.writing import unwritten, write_whole

    texts = [(item, _text(found, output)) for item, found in zip(files, outcome.files, strict=True)]
    if out is None:
        for index, (_, text) in enumerate(texts):
            if index and output == "yaml" and not text.startswith("---"):
                print("---")
            print(text, end="")
        return
    try:
        for item, text in texts:
            name = item.relative if output == "yaml" else item.relative.with_suffix(".json")
            target = out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, text)
    except OSError as error:
        raise unwritten(error, out) from None


def _text(found: Converted, output: str) -> str:
    from dovetail.cli.convert_texts import plain

    if output == "yaml":
        return found.text
    documents = [plain(document) for document in found.documents]
    whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _summary(outcome: Outcome) -> str:
    count = len(outcome.troubles)
    changed, objects = outcome.changed, sum(len(item.documents) for item in outcome.files)
    counted = f"{changed} of {objects} objects converted" if objects else "nothing to convert"
    if not count:
        return counted if changed else f"{counted}: nothing is of an older generation"
    return f"{counted}; {number_of(count, 'thing')} left for a person"
