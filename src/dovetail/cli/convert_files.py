"""The files that `dovetail convert` reads, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.reading.sources import STDIN, STDIN_PATH, decoded, similar_path

_SUFFIXES = (".yaml", ".yml", ".json", ".tf")


@dataclass(frozen=True, slots=True)
class File:
    """A text with its name in messages, and where it goes below an output folder."""

    name: str
    text: str
    relative: Path


def read_files(names: Sequence[str]) -> tuple[File, ...]:
    """Files, folders (with those below them) and "-" for standard input; raises InputError."""
    found = tuple(item for name in names for item in _files(name))
    seen: dict[Path, str] = {}
    for item in found:
        if item.relative in seen:
            remedy = f"name the folder above {seen[item.relative]} and {item.name}"
            raise InputError("two files have the same name", source=item.name, remedy=remedy)
        seen[item.relative] = item.name
    return found


def _files(name: str) -> Iterator[File]:
    if name in ("-", STDIN_PATH):
        yield File(STDIN, decoded("-"), Path("stdin.yaml"))
        return
    path = Path(name)
    if path.exists() and not path.is_dir():
        yield File(str(path), decoded(name), Path(path.name.removesuffix(".gz")))
        return
    if not path.is_dir():
        raise InputError("no such file or folder", source=name, remedy=similar_path(path))
    children = sorted(
        child
        for child in path.rglob("*")
        if child.suffix in _SUFFIXES and child.is_file() and not _hidden(child.relative_to(path))
    )
    if not children:
        kinds = ", ".join(f"*{suffix}" for suffix in _SUFFIXES)
        raise InputError(f"the folder holds no files to convert ({kinds})", source=name)
    for child in children:
        yield File(str(child), decoded(str(child)), child.relative_to(path))


def _hidden(path: Path) -> bool:
    """Such as the copies of modules below .terraform."""
    return any(part.startswith(".") for part in path.parts)
