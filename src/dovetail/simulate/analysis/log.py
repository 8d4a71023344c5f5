"""The event log of a simulation: records in memory, their hash, and optionally a file of JSON lines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from dovetail.base.clock import Clock
from dovetail.base.errors import InputError

Record = dict[str, Any]

_ENCODER = msgspec.json.Encoder(order="deterministic")


class JsonlLog:
    """An EventLog. A record is `{"t": nanoseconds, "kind": ..., **fields}`, one canonical JSON line each.

    Canonical: keys sorted, no blanks, UTF-8, so that equal histories have equal bytes and one `sha256`.
    Invariant: `sha256()` covers exactly the lines of `records`, in order.
    """

    def __init__(self, clock: Clock, path: Path | None = None) -> None:
        self.records: list[Record] = []
        self._clock = clock
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = _open(path) if path is not None else None

    def record(self, kind: str, /, **fields: object) -> None:
        """Append one record, stamped with the present instant."""
        entry: Record = {"t": self._clock.now(), "kind": kind, **fields}
        line = _ENCODER.encode(entry) + b"\n"
        self._hash.update(line)
        self.records.append(entry)
        if self._file is not None:
            self._file.write(line)

    def sha256(self) -> str:
        """Hexadecimal digest of all lines so far."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file, if there is one; later records are kept in memory only."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> JsonlLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot write the event log: {reason}",
            source=str(path),
            remedy="give --events a file in a folder that exists and may be written to",
        ) from error
