"""The record of what ran and what it cost, in one SQLite file that the controller keeps and others may read.

What pods of one owner have in common is kept once, their names without what the owner's name says already,
their times to the millisecond: a pod takes some 50 bytes. Instances keep nanoseconds, for the bill is exact.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Use, VolumeRun, Workload

_MILLI = SECOND // 1000
_VERSION = 1
_KIND = "a record of dovetail's costs"
_SCHEMA = """
create table about (key text primary key, value text not null) without rowid;
create table instances (
    id text primary key, start integer not null, end integer, seen integer not null, known text not null
) without rowid;
create index instances_by_end on instances (end);
create table workloads (id integer primary key, known text not null unique);
create table machines (id integer primary key, name text not null unique);
create table pods (
    id integer primary key, workload integer not null, machine integer not null, name text not null,
    start integer not null, end integer, usage text
);
create index pods_by_end on pods (end);
create table volumes (name text primary key, start integer not null, end integer, known text not null)
    without rowid;
"""


class Store:
    """One file. Methods raise InputError where it cannot be read or written."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._db = connection
        self._workloads: dict[Workload, int] = {}
        self._machines: dict[str, int] = {}
        self._rows: dict[int, int] = {}  # id() of an open PodRun -> its row

    @classmethod
    def open(cls, path: Path, *, write: bool = False) -> Store:
        """Open a file; with `write` it is made where there is none. Raises InputError."""
        if not write and not path.is_file():
            raise InputError(
                "there is no such file", source=str(path), remedy=f"give {_KIND}, as --cost-store makes one"
            )
        try:
            # One of the controller's own may be written to meanwhile.
            mode = "rwc" if write else "ro"
            found = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=5)
            store = cls(path, found)
            with store._errors_as_input():
                store._begin(write=write)
            return store
        except sqlite3.Error as error:
            raise _unusable(path, error) from None

    def _begin(self, *, write: bool) -> None:
        there = {name for (name,) in self._db.execute("select name from sqlite_master where type = 'table'")}
        if not there and write:
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.executescript(_SCHEMA)
            self._set("version", str(_VERSION))
            self._db.commit()
        elif "about" not in there or self._about("version") != str(_VERSION):
            raise InputError(
                f"is not {_KIND} of this version", source=str(self._path), remedy="name another file"
            )

    @contextmanager
    def _errors_as_input(self) -> Iterator[None]:
        """Errors of the file as InputError."""
        try:
            yield
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from None

    def close(self) -> None:
        """The file is whole after it; the store can no longer be used."""
        with self._errors_as_input():
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _about(self, key: str) -> str:
        found = self._db.execute("select value from about where key = ?", (key,)).fetchone()
        return str(found[0]) if found else ""

    def _set(self, key: str, value: str) -> None:
        self._db.execute("insert or replace into about values (?, ?)", (key, value))

    def write(self, facts: Facts) -> None:
        """Keep what is new or has changed: what has ended is written for good.

        A pod that was open must be the same object as before.
        """
        with self._errors_as_input(), self._db:
            if not self._about("start"):
                self._set("start", str(facts.start))
            self._set("cluster", facts.cluster)
            self._set("end", str(facts.end))
            self._write_instances(facts.instances.values(), facts.end)
            self._write_pods(facts.pods)
            self._db.executemany(
                "insert or replace into volumes values (?, ?, ?, ?)",
                [(one.name, one.start, one.end, _dump(_volume(one))) for one in facts.volumes],
            )

    def _write_instances(self, instances: Iterable[Instance], seen: int) -> None:
        self._db.executemany(
            "insert or replace into instances values (?, ?, ?, ?, ?)",
            [(one.id, one.start, one.end, seen, _dump(_instance(one))) for one in instances],
        )

    def _write_pods(self, pods: Iterable[PodRun]) -> None:
        ended, known = [], self._rows
        for one in pods:
            row = known.get(id(one))
            usage = _usage(one)
            end = None if one.end is None else one.end // _MILLI
            if row is None:
                name = one.name.removeprefix(one.workload.owner)
                mark = "" if name == one.name else "+"  # the owner's name comes before it
                found = self._db.execute(
                    "insert into pods values (null, ?, ?, ?, ?, ?, ?)",
                    (
                        self._workload(one.workload),
                        self._machine(one.instance),
                        mark + name,
                        one.start // _MILLI,
                        end,
                        usage,
                    ),
                )
                if end is None and found.lastrowid is not None:
                    known[id(one)] = found.lastrowid
            elif end is not None:
                ended.append((end, usage, known.pop(id(one))))
        self._db.executemany("update pods set end = ?, usage = ? where id = ?", ended)

    def write_usage(self, pods: Iterable[PodRun]) -> None:
        """Keep what was measured of pods that are open; of those that end `write` does."""
        rows = [(_usage(one), self._rows[id(one)]) for one in pods if id(one) in self._rows]
        with self._errors_as_input(), self._db:
            self._db.executemany("update pods set usage = ? where id = ?", rows)

    def _workload(self, work: Workload) -> int:
        if work not in self._workloads:
            self._workloads[work] = self._interned("workloads", "known", _dump(_listed(work)))
        return self._workloads[work]

    def _machine(self, name: str) -> int:
        if name not in self._machines:
            self._machines[name] = self._interned("machines", "name", name)
        return self._machines[name]

    def _interned(self, table: str, column: str, text: str) -> int:
        found = self._db.execute(f"select id from {table} where {column} = ?", (text,)).fetchone()
        if found is None:
            found = (self._db.execute(f"insert into {table} values (null, ?)", (text,)).lastrowid,)
        return int(found[0])

    def forget(self, before: int) -> None:
        """Drop what had ended before that instant."""
        with self._errors_as_input(), self._db:
            self._db.execute("delete from pods where end < ?", (before // _MILLI,))
            self._db.execute("delete from instances where end < ?", (before,))
            self._db.execute("delete from volumes where end < ?", (before,))
            if int(self._about("start") or 0) < before:
                self._set("start", str(before))

    def resume(self) -> Facts:
        """What had not ended when it was last written to: to go on with."""
        with self._errors_as_input():
            facts = self._facts("end is null", ())
            for run, (row,) in zip(
                facts.pods, self._db.execute("select id from pods where end is null order by id"), strict=True
            ):
                self._rows[id(run)] = row
            return facts

    @property
    def span(self) -> tuple[int, int]:
        """From when until when it knows, nanoseconds; (0, 0) while it is empty."""
        with self._errors_as_input():
            return int(self._about("start") or 0), int(self._about("end") or 0)

    def read(self, start: int, end: int) -> Facts:
        """All that ran between two instants, nanoseconds."""
        with self._errors_as_input():
            return self._facts("start < {} and (end is null or end > {})", (end, start))

    def _facts(self, which: str, span: tuple[int, ...]) -> Facts:
        milli = tuple(-(-at // _MILLI) for at in span)
        facts = Facts(cluster=self._about("cluster") or "cluster")
        facts.start, facts.end = int(self._about("start") or 0), int(self._about("end") or 0)
        rows = self._db.execute(
            f"select id, start, end, known from instances where {which.format(*span)} order by start, id"
        )
        for name, start, end, known in rows:
            facts.instances[name] = _read_instance(name, start, end, json.loads(known))
        works = {
            row: _read_workload(json.loads(known))
            for row, known in self._db.execute("select * from workloads")
        }
        names = dict(self._db.execute("select id, name from machines"))
        found = self._db.execute(
            f"select workload, machine, name, start, end, usage from pods "
            f"where {which.format(*milli)} order by id"
        )
        for work, machine, name, start, end, usage in found:
            workload = works[work]
            shown = workload.owner + name[1:] if name.startswith("+") else name
            until = None if end is None else end * _MILLI
            used = {int(day): Use(*sums) for day, sums in json.loads(usage or "{}").items()}
            facts.pods.append(PodRun(shown, workload, names[machine], start * _MILLI, until, used))
        for name, start, end, known in self._db.execute(
            f"select name, start, end, known from volumes where {which.format(*span)} order by name"
        ):
            about = json.loads(known)
            mounts = [(pod, since, until) for pod, since, until in about.pop("mounts")]
            facts.volumes.append(VolumeRun(name=name, start=start, end=end, mounts=mounts, **about))
        return facts


def _unusable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"cannot be used as {_KIND}: {error}",
        source=str(path),
        remedy="give a file that --cost-store made, in a folder that may be written to",
    )


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _usage(one: PodRun) -> str | None:
    if not one.usage:
        return None
    return _dump({day: (use.samples, use.cpu, use.memory) for day, use in one.usage.items()})


_KNOWN = ("claim", "node", "pool", "instance_type", "zone", "capacity_type", "ready", "ending", "why")


def _instance(one: Instance) -> dict[str, object]:
    found: dict[str, object] = {name: getattr(one, name) for name in _KNOWN if getattr(one, name)}
    return found | {
        "rates": [(rate.at, rate.price, rate.volumes) for rate in one.rates],
        "capacity": dict(one.capacity),
        "allocatable": dict(one.allocatable),
        "stays": one.stays,
    }


def _read_instance(name: str, start: int, end: int | None, known: dict[str, object]) -> Instance:
    one = Instance(id=name, start=start, rates=[], end=end)
    for key, value in known.items():
        setattr(one, key, value)
    one.rates = [Rate(*rate) for rate in one.rates]  # type: ignore[misc] # of a list of numbers
    one.stays = [(at, why) for at, why in one.stays]
    return one


def _listed(work: Workload) -> list[object]:
    return [work.namespace, work.kind, work.owner, work.labels, work.containers, work.services]


def _read_workload(known: list[list[list[object]]]) -> Workload:
    namespace, kind, owner, labels, containers, services = known
    return Workload(
        namespace=str(namespace),
        kind=str(kind),
        owner=str(owner),
        labels=tuple((str(key), str(value)) for key, value in labels),
        containers=tuple(
            (str(name), tuple((str(key), int(amount)) for key, amount in amounts))  # type: ignore
            for name, amounts in containers
        ),
        services=tuple(map(str, services)),
    )


def _volume(one: VolumeRun) -> dict[str, object]:
    return {"price": one.price, "size": one.size, "claim": one.claim, "mounts": one.mounts}


class StoreFile:
    """A file that is opened anew for each question: from any thread, and while it is written to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def span(self) -> tuple[int, int]:
        """See Store."""
        with Store.open(self._path) as store:
            return store.span

    def read(self, start: int, end: int) -> Facts:
        """See Store."""
        with Store.open(self._path) as store:
            return store.read(start, end)


def is_store(path: Path) -> bool:
    """Is it a file of SQLite's?"""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def write_facts(facts: Facts, path: Path) -> None:
    """A new file with these facts, in place of what was there. Raises InputError."""
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        if name != path or is_store(path):
            name.unlink(missing_ok=True)
    with closing(Store.open(path, write=True)) as store:
        store.write(facts)
