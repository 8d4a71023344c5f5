"""Where documents are read from: files, folders, pipes and standard input, compressed or not."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.base.errors import InputError, InputErrors
from dovetail.base.guess import nearest
from dovetail.base.words import number_of

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson")
STDIN = "standard input"
STDIN_PATH = "/dev/stdin"  # the same as "-"
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MOST_OF_A_FILE = 1 << 30  # bytes
_MOST_OF_A_STREAM = 256 << 20  # bytes out of a pipe, or out of a compressed file
_CHUNK = 1 << 20
_LOOKED_AT = 4096  # bytes, for what they are
_GZIP = b"\x1f\x8b"
# How files begin that other tools than gzip have packed, and what unpacks them.
_PACKERS = {b"\x28\xb5\x2f\xfd": "zstd -dc", b"\xfd7zXZ\0": "xz -dc", b"BZh": "bzip2 -dc"}
_PATIENCE = 2.0  # seconds for which a pipe may have no writer
_REMOTE = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Text:
    """What one file holds, in UTF-8. `named`: it was asked for itself, rather than found in a folder."""

    source: str
    written: bytes
    named: bool

    @property
    def text(self) -> str:
        return self.written.decode()


def texts(
    paths: Sequence[Path | str],
    *,
    recursive: bool,
    note: Callable[[str], None],
    fault: Callable[[InputError], None],
    left_out: Container[Path] | None = None,
) -> Iterator[Text]:
    """The texts of files, of folders (by name) and of standard input, which is "-".

    What a user should know goes to `note`; what cannot be read goes to `fault`, and the others are read all
    the same. With `left_out`, resolved paths of what is no manifest by itself, kustomizations are read file
    by file, and charts in folders are passed over; without it both are refused.
    """
    walk = _Walk(recursive, note, fault, left_out)
    for given in (one for path in paths for one in _parts("-" if str(path) == STDIN_PATH else str(path))):
        try:
            for file, named in _files_of(given, walk):
                try:
                    yield Text(STDIN if file == "-" else file, in_utf8(file), named)
                except InputError as error:
                    fault(error)
        except InputError as error:
            fault(error)


def _parts(given: str) -> list[str]:
    """Files with commas between them are several, as for kubectl, unless one is called so."""
    parts = given.split(",")
    return parts if len(parts) > 1 and all(parts) and not Path(given).exists() else [given]


@dataclass(frozen=True, slots=True)
class _Walk:
    """How folders are gone through; see `texts`."""

    recursive: bool
    note: Callable[[str], None]
    fault: Callable[[InputError], None]
    left_out: Container[Path] | None


def files_of(given: str, *, recursive: bool, note: Callable[[str], None]) -> Iterator[tuple[str, bool]]:
    """(file, whether it was named itself) of a file, a folder or "-". Raises InputError."""
    errors: list[InputError] = []
    yield from _files_of(given, _Walk(recursive, note, errors.append, None))
    if errors:
        raise InputErrors.of(tuple(errors))


def _files_of(given: str, walk: _Walk) -> Iterator[tuple[str, bool]]:
    if given == "-":
        yield given, True
        return
    if given.startswith(_REMOTE):
        raise InputError(
            "addresses are not fetched", source=given, remedy=f"curl -sSfL {given} | dovetail plan -f -"
        )
    path = Path(given)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and path.is_symlink():
            remedy = f"it leads to {path.readlink()}"
            raise InputError("a link to nothing", source=given, remedy=remedy) from None
        if isinstance(error, FileNotFoundError | ValueError):
            message, remedy = "no such file or folder", similar_path(path)
            raise InputError(message, source=given, remedy=remedy) from None
        raise InputError(f"cannot be read: {error.strerror}", source=given) from None
    if not stat.S_ISDIR(mode):
        if path.name in KUSTOMIZATIONS:
            raise _kustomization(path.parent)
        yield given, True
        return
    refused: list[InputError] = []
    found = list(_in_folder(path, replace(walk, fault=refused.append)))
    for one in refused:
        walk.fault(one)
    if not (found or refused or any(_is_left_out(one, walk) for one in path.glob("**/*"))):
        patterns = ", ".join(f"*{suffix}" for suffix in SUFFIXES[:3])
        raise InputError(
            f"the folder holds no manifests ({patterns})",
            source=given,
            remedy="name a folder or a file with Kubernetes manifests"
            if walk.recursive
            else "name a folder or a file with Kubernetes manifests, or add -R to look into its sub-folders",
        )
    for file in found:
        yield str(file), False


def _in_folder(folder: Path, walk: _Walk, *, below: bool = False) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(folder)) from None
    other = _of_other_tools(folder, {child.name for child in children}, walk)
    if other is not None:
        if not below:
            raise other
        walk.fault(other)
        return
    yield from (child for child in children if _is_manifest(child) and not _is_left_out(child, walk))
    for child in children:
        if not child.is_dir() or child.name.startswith("."):
            continue
        if child.is_symlink():  # it may lead back
            if count := _count(child):
                files = number_of(count, "file")
                walk.note(f"{child}: {files} behind this link to a folder not read; name it to read it")
            continue
        if walk.recursive:
            if walk.left_out is not None and (child / "Chart.yaml").exists():
                walk.note(f"{child}: a chart of Helm, left out; helm template {child} | dovetail check -f -")
                continue
            yield from _in_folder(child, walk, below=True)
        elif count := _count(child):
            walk.note(
                f"{child}: {number_of(count, 'file')} in this sub-folder not read; -R reads sub-folders too"
            )


def _of_other_tools(folder: Path, names: set[str], walk: _Walk) -> InputError | None:
    """Why a folder's files are not manifests as they are."""
    if walk.left_out is None and names.intersection(KUSTOMIZATIONS):
        return _kustomization(folder)
    if "Chart.yaml" in names:
        return InputError(
            "the folder is a chart of Helm, not manifests",
            source=str(folder),
            remedy=f"helm template {folder} | dovetail plan -f -",
        )
    return None


def _is_left_out(path: Path, walk: _Walk) -> bool:
    return walk.left_out is not None and path.resolve() in walk.left_out


def _is_manifest(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    # A link to nothing is one of them: that it cannot be read is said.
    return name.endswith(SUFFIXES) and not name.startswith(".") and (path.is_file() or not path.exists())


def _count(folder: Path) -> int:
    """How many manifests are below a folder."""
    found = 0
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += sum(
            name.removesuffix(".gz").endswith(SUFFIXES) for name in names if not name.startswith(".")
        )
    return found


def _kustomization(folder: Path) -> InputError:
    return InputError(
        "the folder is a kustomization, whose files are not manifests as they are",
        source=str(folder),
        remedy=f"kubectl kustomize {folder} | dovetail plan -f -",
    )


def similar_path(path: Path) -> str:
    """What to do about a path where there is nothing."""
    try:
        if not path.parent.is_dir():
            return f"{path.parent} is no folder either"
        near = nearest(path.name, sorted(child.name for child in path.parent.iterdir()))
    except (OSError, ValueError):
        return "give the name of a file or a folder"
    return f"did you mean {path.parent / near[0]}?" if near else f"look into {path.parent.resolve()}"


def decoded(file: str) -> str:
    """The text of a file, a pipe or - : UTF-8 or UTF-16, gzip or not. Raises InputError."""
    return in_utf8(file).decode()


def in_utf8(file: str) -> bytes:
    """The same, not yet decoded: text as large as a dump need not be there twice."""
    source = STDIN if file == "-" else file
    raw = _bytes(file, source)
    if raw.startswith(_GZIP):
        raw = _unpacked(raw, source)
    if raw.isascii() and b"\0" not in raw:
        return raw
    # What PowerShell writes with > is UTF-16.
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 text: byte {error.start} is invalid",
            source=source,
            line=None if _packed(raw, source) else raw.count(b"\n", 0, error.start) + 1,
            remedy=_packed(raw, source) or "save it as UTF-8",
        ) from None
    if "\0" in text:
        raise _no_text(raw, source)
    return text.encode() if encoding == "utf-16" else raw.removeprefix(codecs.BOM_UTF8)


def _no_text(raw: bytes, source: str) -> InputError:
    begin = raw[:_LOOKED_AT]
    remedy = _packed(raw, source)
    if not remedy and 0.4 < begin.count(0) / len(begin) < 0.6:
        remedy = "UTF-16 without a byte order mark, it seems: save it as UTF-8"
    return InputError("not text: it holds bytes that are zero", source=source, remedy=remedy)


def _packed(raw: bytes, source: str) -> str:
    """What to do with an archive, or with what other tools than gzip packed; "" for anything else."""
    for begin, unpack in _PACKERS.items():
        if raw.startswith(begin):
            return f"compressed, it seems: {unpack} {source} | dovetail plan -f -"
    if raw.startswith(b"PK\3\4") and b"tfplan" in raw[:_LOOKED_AT]:
        return (
            "a plan of Terraform, it seems: kubectl get nodepools,ec2nodeclasses -o yaml has what is applied"
        )
    archive = raw.startswith(b"PK\3\4") or raw[257:262] == b"ustar"
    return (
        "an archive, it seems: unpack it and give the folder, with -R for what is in sub-folders"
        if archive
        else ""
    )


def _bytes(file: str, source: str) -> bytes:
    try:
        if file == "-":
            return _stdin()
        path = Path(file)
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            if path.stat().st_size > _MOST_OF_A_FILE:
                raise _too_much(source, _MOST_OF_A_FILE, "split it")
            raw = path.read_bytes()
            if raw.startswith(b"\0"):
                raise _no_text(raw, source)
            return raw
        if stat.S_ISFIFO(mode):
            return _from_pipe(file, source)
        if stat.S_ISCHR(mode) and path.samefile(os.devnull):
            return b""
        kind = "a folder" if stat.S_ISDIR(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        remedy = "name the files in it" if stat.S_ISDIR(mode) else "name a file, a folder or -"
        raise InputError(f"is {kind}, not a file", source=source, remedy=remedy)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from None


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", source=STDIN, remedy="pipe manifests into -f -")
    if sys.stdin.isatty():
        print("Reading manifests from the terminal; Ctrl-D ends them.", file=sys.stderr)
    stream = getattr(sys.stdin, "buffer", None)
    return _limited(stream or io.BytesIO(sys.stdin.read().encode()), STDIN, _MOST_OF_A_STREAM)


def _limited(stream: io.BufferedIOBase | io.BufferedReader, source: str, most: int) -> bytes:
    """All of a stream; raises InputError when it is more than `most` bytes, or no text to begin with."""
    parts: list[bytes] = []
    size = 0
    while part := stream.read(_CHUNK):
        if not parts and part.startswith(b"\0"):
            raise _no_text(part, source)
        parts.append(part)
        size += len(part)
        if size > most:
            raise _too_much(source, most, "write it into a file, or ask for less")
    return b"".join(parts)


def _from_pipe(file: str, source: str) -> bytes:
    """All that comes through a named pipe or a process substitution; one without a writer is refused."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        stop, size = time.monotonic() + _PATIENCE, 0
        parts: list[bytes] = []
        while True:
            try:
                part = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                select.select([descriptor], [], [])  # a writer is there and takes its time
                stop = time.monotonic()
                continue
            if part:
                parts.append(part)
                size += len(part)
                if size > _MOST_OF_A_STREAM:
                    raise _too_much(source, _MOST_OF_A_STREAM, "write it into a file, or ask for less")
            elif parts or time.monotonic() > stop:
                break
            else:
                select.select([], [], [], 0.02)
        if not parts:
            raise InputError("a pipe that nothing writes to", source=source)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _unpacked(raw: bytes, source: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            return _limited(stream, source, _MOST_OF_A_STREAM)
    except (OSError, EOFError, zlib.error):
        raise InputError(
            "damaged: it begins as a gzip file and does not go on as one", source=source
        ) from None


def _too_much(source: str, most: int, remedy: str) -> InputError:
    return InputError(f"more than {most >> 20} MiB", source=source, remedy=remedy)
