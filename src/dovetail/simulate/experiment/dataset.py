"""The runs of sweeps as rows of Parquet files in one folder, so that none is played twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dovetail import __version__
from dovetail.base.errors import InputError
from dovetail.base.extras import extra
from dovetail.base.writing import unwritten
from dovetail.simulate.experiment.measures import MEASURES

_AT_ONCE = 16  # rows that are written together


def fingerprint(folder: Path) -> str:
    """What distinguishes one scenario from another: the names and contents of all its files."""
    found = hashlib.sha256()
    root = folder if folder.is_dir() else folder.parent
    for path in sorted(root.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Row:
    """One run. `settings` are (path, value) as they were set."""

    fingerprint: str
    settings: tuple[tuple[str, str], ...]
    seed: int
    seconds: int  # of virtual time at most; 0: as the scenario says
    figures: dict[str, float] = field(default_factory=dict, compare=False)
    sha256: str = field(default="", compare=False)
    wall_seconds: float = field(default=0.0, compare=False)
    version: str = __version__

    @property
    def key(self) -> str:
        """Equal for runs whose figures must be equal."""
        parts = [self.version, self.fingerprint, sorted(self.settings), self.seed, self.seconds]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


class Dataset:
    """A folder of Parquet files. Rows are there once they are `flush`ed, each file whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._arrow, self._parquet = _pyarrow()
        self._folder = folder
        self._waiting: list[Row] = []
        self._made = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}", source=str(folder)) from None

    def rows(self) -> dict[str, Row]:
        """All rows by key. Raises InputError for a file that is no part of such a dataset."""
        found: dict[str, Row] = {}
        for path in sorted(self._folder.glob("*.parquet")):
            try:
                listed = self._parquet.read_table(path).to_pylist()
                read = [_row(item) for item in listed]
            except (self._arrow.ArrowInvalid, OSError, KeyError, TypeError, ValueError) as error:
                message = f"is no part of a sweep: {str(error).splitlines()[0] if str(error) else error!r}"
                raise InputError(message, source=str(path), remedy="name a folder of its own") from None
            found |= {row.key: row for row in read}
        return found

    def add(self, row: Row) -> None:
        """Written with others, or by `flush`."""
        self._waiting.append(row)
        if len(self._waiting) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._waiting:
            return
        table = self._arrow.Table.from_pylist([_columns(row) for row in self._waiting])
        path = self._folder / f"runs-{self._waiting[0].key}.parquet"
        draft = path.with_suffix(".part")
        try:
            self._parquet.write_table(table, draft)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise unwritten(error, path) from None
        self._waiting.clear()

    def close(self) -> None:
        """Write what waits; folders that were made for rows that never came go again."""
        self.flush()
        for each in self._made:
            try:
                each.rmdir()
            except OSError:  # it holds something
                return


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    with extra("sweep", "a sweep, which keeps its runs in Parquet files,"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


def _columns(row: Row) -> dict[str, Any]:
    return {
        "version": row.version,
        "scenario": row.fingerprint,
        "settings": json.dumps(dict(row.settings), sort_keys=True),
        "seed": row.seed,
        "seconds": row.seconds,
        **{one.key: float(row.figures[one.key]) for one in MEASURES},
        "eventLogSha256": row.sha256,
        "wallSeconds": row.wall_seconds,
    }


def _row(item: dict[str, Any]) -> Row:
    return Row(
        fingerprint=item["scenario"],
        settings=tuple(sorted(json.loads(item["settings"]).items())),
        seed=int(item["seed"]),
        seconds=int(item["seconds"]),
        figures={one.key: float(item[one.key]) for one in MEASURES},
        sha256=item["eventLogSha256"],
        wall_seconds=float(item["wallSeconds"]),
        version=item["version"],
    )


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one combination of settings: means over seeds. `best`: none beats it in all that counts."""

    settings: tuple[tuple[str, str], ...]
    seeds: int
    means: dict[str, float]
    best: bool = False


def summed_up(rows: Iterable[Row], measures: Sequence[str]) -> list[Point]:
    """By settings, with the Pareto set of these measures, of all of which less is better.

    What is equal as it is shown is equal: a wait that is a millisecond shorter is not worth its dollar.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(sorted(row.settings)), []).append(row)
    means = {
        settings: {one.key: sum(row.figures[one.key] for row in same) / len(same) for one in MEASURES}
        for settings, same in groups.items()
    }
    shown = [one for key in measures for one in MEASURES if one.key == key]
    values = {
        settings: tuple(round(mean[one.key], one.digits) for one in shown) for settings, mean in means.items()
    }
    return [
        Point(
            settings,
            len(groups[settings]),
            means[settings],
            not any(dominates(other, values[settings]) for other in values.values()),
        )
        for settings in sorted(groups, key=lambda settings: values[settings])
    ]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """True iff `one` is as good in everything, and better in something."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)
