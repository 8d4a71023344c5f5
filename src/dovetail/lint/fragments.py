"""Files of a repository that are no manifests as they are: other tools put them together first.

What a kustomization applies to other files (patches, generators, values) is left out of what is checked, its
resources are not. A file that Terraform fills in is read by how Terraform is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from dovetail.reading.sources import KUSTOMIZATIONS
from dovetail.reading.terraform import templates_of

# Fields of a kustomization -> the field of each entry that names a file, "" for the entry itself.
_FILES = {
    "patches": "path",
    "patchesJson6902": "path",
    "patchesStrategicMerge": "",
    "replacements": "path",
    "transformers": "",
    "generators": "",
    "validators": "",
    "configurations": "",
    "crds": "",
    "helmCharts": "valuesFile",
}
_GENERATORS = ("configMapGenerator", "secretGenerator")
_MOST = 1 << 20  # bytes of a kustomization; they are written by hand


def parts_of_kustomizations(paths: Sequence[str], *, recursive: bool) -> tuple[int, frozenset[Path]]:
    """How many kustomizations folders hold; the resolved paths of them and of what they apply to others."""
    count, found = 0, set[Path]()
    for path in (Path(name) for name in paths if name != "-"):
        for kustomization in _kustomizations(path, recursive=recursive):
            count += 1
            found.add(kustomization.resolve())
            found.update((kustomization.parent / name).resolve() for name in _named(_read(kustomization)))
    return count, frozenset(found)


def templates(modules: Mapping[str, str]) -> dict[Path, str]:
    """The files that Terraform files, by their names and texts, fill in: resolved -> as it is to be shown."""
    found: dict[Path, str] = {}
    for module, text in modules.items():
        folder = Path(module).parent
        for name in templates_of(text):
            for path in _matching(folder, name):
                found.setdefault(path.resolve(), str(path))
    return found


def _matching(folder: Path, name: str) -> Iterator[Path]:
    try:
        some = sorted(folder.glob(name)) if "*" in name else [folder / name]
        yield from (path for path in some if path.is_file())
    except (OSError, ValueError, NotImplementedError):  # an absolute pattern, a name that can be none
        return


def _kustomizations(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        yield from (Path(root, name) for name in names if name in KUSTOMIZATIONS)
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]


def _read(path: Path) -> dict[str, Any]:
    """What a kustomization says; {} where it cannot be read, which is no fault of a manifest."""
    try:
        if path.stat().st_size > _MOST:
            return {}
        value = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _named(kustomization: Mapping[str, Any]) -> Iterator[str]:
    for field, inner in _FILES.items():
        for entry in _list(kustomization.get(field)):
            name = entry.get(inner) if isinstance(entry, dict) and inner else entry
            if _is_name(name):
                yield name
    for field in _GENERATORS:
        for entry in _list(kustomization.get(field)):
            for files in ("files", "envs"):
                given = _list(entry.get(files)) if isinstance(entry, dict) else ()
                yield from (name.rpartition("=")[2] for name in given if _is_name(name))


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _is_name(value: Any) -> TypeGuard[str]:
    """True iff it may be a file's name: a patch may stand in its place."""
    return isinstance(value, str) and "\n" not in value and "\0" not in value
