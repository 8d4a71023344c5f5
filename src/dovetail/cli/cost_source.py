"""Where `dovetail cost` and `dovetail serve` read what ran: a record, a log, or a scenario that is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.base.errors import InputError
from dovetail.cli.messages import note, notes

if TYPE_CHECKING:
    from dovetail.cost.api import Past
    from dovetail.cost.commitments import Terms
    from dovetail.cost.facts import Facts
    from dovetail.cost.store import StoreFile

_REMEDY = (
    "give a record that --cost-store made, a log of the controller or of `dovetail simulate --events`, or a "
    "folder with a scenario.yaml"
)


class Source:
    """One of the three. Raises InputError for what is none of them."""

    def __init__(self, path: Path) -> None:
        from dovetail.cost.store import StoreFile, is_store

        self._path = path
        self._store: StoreFile | None = None
        self._facts: Facts | None = None
        self._report: Callable[[], dict[str, Any]] | None = None
        self.records: list[Mapping[str, Any]] = []  # of a log
        if path.is_dir():
            self._facts, self._report = _played(path)
        elif not path.exists():
            raise InputError("there is no such file or folder", source=str(path), remedy=_REMEDY)
        elif is_store(path):
            self._store = StoreFile(path)
        else:
            self._facts, self._report, self.records = _logged(path)

    @property
    def span(self) -> tuple[int, int]:
        """From when until when it knows, nanoseconds since the epoch."""
        if self._store is not None:
            return self._store.span
        assert self._facts is not None
        return self._facts.start, self._facts.end

    def read(self, start: int, end: int) -> Facts:
        """What ran between two instants."""
        if self._store is not None:
            return self._store.read(start, end)
        assert self._facts is not None
        return self._facts

    def report(self) -> dict[str, Any] | None:
        """All that a report shows, where more is known than nodes, pods and prices: of a simulation."""
        return None if self._report is None else self._report()


def under(terms: Terms | None, source: Source) -> Past:
    """What is paid under them, if there are any."""
    from dovetail.cost.commitments import UnderTerms

    return source if terms is None else UnderTerms(source, terms)


def _played(folder: Path) -> tuple[Facts, Callable[[], dict[str, Any]]]:
    # Other sources have no use for all that a simulation imports.
    from dovetail.cli.simulate_live import live_view
    from dovetail.cost.facts import read_facts
    from dovetail.simulate.run import simulate
    from dovetail.simulate.scenario.scenario import load
    from dovetail.views.report.page import report_data
    from dovetail.views.report.write import period_of

    scenario = load(folder)
    notes(scenario.notes)
    with live_view(scenario) as listener:
        result = simulate(scenario, listener=listener)
    title = result.scenario.file.name
    facts = read_facts(result.records, result.end)
    return facts, lambda: report_data(title, period_of(result), result.records, result.summary)


def _logged(path: Path) -> tuple[Facts, Callable[[], dict[str, Any]] | None, list[Mapping[str, Any]]]:
    from dovetail.cloud.catalog.lookup import catalogue_capacity
    from dovetail.cost.facts import LogReader
    from dovetail.views.history import read_log

    reader = LogReader(_price, catalogue_capacity)
    records = read_log(path, note)
    for record in records:
        reader.read(record)
    if not reader.facts.instances:
        raise InputError("names no instance", source=str(path), remedy=_REMEDY)
    if reader.unpriced:
        note(f"{reader.unpriced} instances have no known price and count as free")
    if not reader.facts.pods:
        note("the log names no pods: all of the cost is idle")
    facts = reader.close(reader.facts.end)
    return facts, (lambda: _report_of(path, records, facts)) if facts.pods else None, records


def _report_of(path: Path, records: list[Mapping[str, Any]], facts: Facts) -> dict[str, Any]:
    """Of a simulation's log; its zone and seed are not in it."""
    from dovetail.simulate.analysis.summary import Run, summarize
    from dovetail.views.report.page import Period, report_data

    run = Run(scenario=path.stem, seed=0, start=facts.start, end=facts.end, sha256="", wall_seconds=0.0)
    documents = [dict(record) for record in records]
    data = report_data(
        path.stem, Period(facts.start, facts.end, "UTC", 0, ""), documents, summarize(documents, run)
    )
    return data | {"about": f"from {path.name}"}


def _price(record: Mapping[str, Any]) -> int | None:
    from dovetail.cloud.catalog.lookup import catalogue_price
    from dovetail.model import labels

    return catalogue_price(
        {
            labels.INSTANCE_TYPE: record.get("instanceType", ""),
            labels.ZONE: record.get("zone", ""),
            labels.CAPACITY_TYPE: record.get("capacityType", "") or labels.ON_DEMAND,
        }
    )
