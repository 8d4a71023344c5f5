"""How a simulation stands, for whoever watches it run: read from the log as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.simulate.analysis.log import Record


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
