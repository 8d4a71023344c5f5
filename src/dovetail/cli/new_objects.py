"""Manifests that are to be applied, of commands that say what comes of it; and the way back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.reading import Manifest
    from dovetail.simulate.scenario.scenario import Scenario

_META = ("name", "namespace", "labels", "annotations")
# Written by kubectl and by controllers: what is applied must not bring them back.
_STAMPS = ("kubectl.kubernetes.io/last-applied-configuration", "-hash", "-hash-version")


def new_manifests(paths: Sequence[Path], onto: Iterable[Manifest]) -> tuple[list[Path], tuple[Manifest, ...]]:
    """The files, also those below folders, and what they make of the objects that they are laid `onto`.

    Raises InputError for what cannot be read, under the user's own names.
    """
    from dovetail.cli.messages import note
    from dovetail.reading import read
    from dovetail.reading.sources import STDIN_PATH, files_of

    if not {"-", STDIN_PATH}.isdisjoint(map(str, paths)):
        remedy = "write it to a file, which can be read for each way to go about it"
        raise InputError("standard input can be read only once", source="--filename", remedy=remedy)
    found = [Path(one) for path in paths for one, _ in files_of(str(path), recursive=True, note=note)]
    fresh = read(found, onto=onto).manifests
    check_new(fresh, paths)
    return found, fresh


def objects_of(known: Scenario, originals: Sequence[Mapping[str, Any]]) -> tuple[Manifest, ...]:
    """Those of a scenario; of a replay those that it rewrote are as the account has them."""
    from dovetail.reading import Located, read_objects

    old = read_objects(Located(dict(each)) for each in originals)
    return (*known.manifests, *old.manifests)


def check_new(fresh: Sequence[Manifest], paths: Sequence[Path]) -> None:
    """Raises InputError where nothing is to be applied."""
    if not fresh:
        given = ", ".join(map(str, paths))
        raise InputError(
            "no object to apply is in it", source=given, remedy="give manifests in their new form"
        )


def rewritten(
    known: Scenario, fresh: Iterable[Manifest], before: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The new objects as the simulated account can hold them, and what was assumed for that."""
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.simulate.replay.nodeclass import Surroundings, rewrite_new

    objects = [copy.deepcopy(item.document) for item in fresh]
    classes = [item.written[1] for item in known.manifests if item.written[0] == EC2NodeClass.KIND]
    cluster = known.file.cluster
    around = Surroundings(cluster.name, cluster.version, known.file.region)
    return objects, rewrite_new(objects, before, around, classes)


def check_quota(quota: int | None) -> None:
    """Raises InputError for what no account has."""
    if quota is not None and quota < 1:
        raise InputError(f"{quota} is not at least 1", source="--quota", remedy="give vCPUs, such as 4000")


def of_quota(peak: int, quota: int) -> str:
    """What a peak of vCPUs leaves of the account's."""
    if peak <= quota:
        return f"the peak leaves {quota - peak:,} of a quota of {quota:,} vCPUs"
    return f"the peak is {peak - quota:,} more than the quota of {quota:,} vCPUs: launches fail"


@dataclass(frozen=True, slots=True)
class WayBack:
    """What new objects replace, as it was. `added` (kind, key) replace nothing: they are to be deleted."""

    objects: tuple[dict[str, Any], ...]
    added: tuple[tuple[str, str], ...]
    incomplete: bool  # user data of node classes may be missing

    def write(self, path: Path) -> None:
        """As a file to be applied. Raises InputError where it is there already or cannot be written."""
        from dovetail.base.writing import unwritten, write_whole
        from dovetail.base.yaml_writing import all_written

        if path.exists():
            raise InputError("it is there already", source=str(path), remedy="name a new file")
        text = "".join(f"# {line}\n" for line in self.deletions)
        if self.incomplete:
            text += "# A snapshot has no userData: where a class had some, it must be put back here.\n"
        # What is shared inside a document is written out.
        plain = json.loads(json.dumps(self.objects))
        try:
            write_whole(path, text + all_written(plain, allow_unicode=True))
        except OSError as error:
            raise unwritten(error, path) from None

    @property
    def deletions(self) -> tuple[str, ...]:
        return tuple(_deletion(kind, key) for kind, key in self.added)


def way_back(
    before: Iterable[Manifest],
    fresh: Iterable[Manifest],
    originals: Sequence[Mapping[str, Any]] = (),
    *,
    incomplete: bool = False,
) -> WayBack:
    """From the new objects to those of `before`.

    `originals` are objects as the account has them, where those of a scenario were rewritten; `incomplete`
    says that `before` lacks what snapshots leave out.
    """
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass

    known = {item.written: item for item in before}
    named = [item.written for item in fresh]
    real = {(each["kind"], each["metadata"]["name"]): each for each in originals}
    old = [_plain(real.get(key) or known[key].located.value) for key in named if key in known]
    lacking = (bool(originals) or incomplete) and any(one["kind"] == EC2NodeClass.KIND for one in old)
    return WayBack(tuple(old), tuple(key for key in named if key not in known), lacking)


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a server and controllers wrote into it."""
    meta = {key: value for key, value in document["metadata"].items() if key in _META}
    given = meta.pop("annotations", None) or {}
    annotations = {key: value for key, value in given.items() if not key.endswith(_STAMPS)}
    if annotations:
        meta["annotations"] = annotations
    found = {key: value for key, value in document.items() if key != "status"}
    return {**found, "metadata": meta}


def _deletion(kind: str, key: str) -> str:
    namespace, slash, name = key.rpartition("/")
    return f"kubectl delete {kind} {name}{f' -n {namespace}' if slash else ''}"
