"""The event log of a simulation: records in memory, their hash, and optionally a file of JSON lines.

`Meter` reads from it, as it grows, how far the simulation is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment. `done` is 0 to 1; `hourly` in nano-dollars."""

    now: int
    done: float
    nodes: int
    pods: int
    pending: int
    hourly: int


class Meter:
    """Keeps the counts that Progress shows; each record is read once."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._read = 0
        self._nodes = 0
        self._pods: dict[str, bool] = {}  # living pod -> it has a node
        self._pending = 0
        self._prices: dict[str, int] = {}  # running instance -> nano-dollars per hour
        self._hourly = 0

    def read(self, records: Sequence[Record], now: int) -> Progress:
        """Take in what is new, and say how things stand."""
        for record in records[self._read :]:
            self._count(record)
        self._read = len(records)
        done = (now - self._start) / (self._end - self._start)
        return Progress(now, done, self._nodes, len(self._pods), self._pending, self._hourly)

    def _count(self, record: Record) -> None:
        match record["kind"]:
            case "pod.created":
                self._pods[record["pod"]] = False
                self._pending += 1
            case "pod.bound":
                self._pending -= not self._pods.get(record["pod"], True)
                self._pods[record["pod"]] = True
            case "pod.deleted":
                self._pending -= not self._pods.pop(record["pod"], True)
            case "node.created":
                self._nodes += 1
            case "node.deleted":
                self._nodes -= 1
            case "instance.started":
                self._prices[record["instance"]] = record["price"]
                self._hourly += record["price"]
            case "instance.terminated":
                self._hourly -= self._prices.pop(record["instance"], 0)
