"""What is so now, for the controller's page: nodes and why each stays, pods that wait, decisions, the least.

The controller reports what changes (`changed`, `logged`) on its event loop, which costs it next to nothing.
Whoever asks (`data`, `pods`), in a thread and one at a time, has it taken to the board and counted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cost.allocation import NANO
from dovetail.cost.facts import owner_of
from dovetail.model import labels
from dovetail.units.quantity import Quantity
from dovetail.views.history import DECIDED, Record, decisions
from dovetail.views.top import beyond
from dovetail.views.top.board import Board, Price, Row
from dovetail.views.top.records import follow

_KINDS = (Pod, Node, NodeClaim, NodePool, PodDisruptionBudget)
_DECISIONS = 1_000  # the latest that are kept
_HISTORY = 24 * HOUR  # of pods that wait and of the proven least
_SHOWN = 2_000  # rows of a list at most; how many there are is said beside them
_QUICK = 0.25  # seconds that an answer counts as at least


class Present:
    """See above. `now` is nanoseconds since the epoch; `price` is asked for nodes that no label prices.

    An answer is good for `patience` times as long as it took, so that counting costs a twentieth of a core.
    """

    def __init__(self, now: Callable[[], int], price: Price, patience: float = 20.0) -> None:
        self._patience = patience
        self._now = now
        self._lock = threading.Lock()  # held for what takes no time
        self._news: dict[tuple[type[Object], str], tuple[str, Object]] = {}
        self._taken: set[tuple[type[Object], str]] = set()  # what the board has
        self._records: deque[Record] = deque(maxlen=_DECISIONS)
        self._decisions: deque[Record] = deque(maxlen=_DECISIONS)
        self._least: deque[tuple[int, int, int]] = deque(maxlen=_HISTORY // MINUTE)
        self._waiting: set[str] = set()  # uids of pods without a node
        # [minute, the most pods that waited in it, how many at its end]
        self._peaks: deque[list[int]] = deque(maxlen=_HISTORY // MINUTE)
        self._said: dict[str, str] = {}  # pod -> why it waits, until it is taken to the board
        self._board = Board(price=price)
        self._answer: tuple[float, float, int, dict[str, Any]] | None = None  # when, its cost, revision, it

    # Called by the controller -----------------------------------------------------------------------------

    def changed(self, kind: type[Object], change: str, old: Object | None, new: Object | None) -> None:
        """See State. What no page has asked about becomes one change of its object, none once it is gone."""
        obj = old if new is None else new
        if kind not in _KINDS or obj is None:
            return
        key = kind, obj.metadata.uid or obj.key
        with self._lock:
            if new is not None or key in self._taken:
                self._news[key] = change, obj
            else:  # it came and went unseen: nothing is kept of it
                self._news.pop(key, None)
        if isinstance(obj, Pod):
            waits = new is not None and not obj.spec.node_name and not obj.terminal and not obj.deleting
            (self._waiting.add if waits else self._waiting.discard)(obj.metadata.uid or obj.key)
            self._peak(self._now() // MINUTE)

    def _peak(self, minute: int) -> None:
        count = len(self._waiting)
        with self._lock:
            if not self._peaks or self._peaks[-1][0] < minute:
                self._peaks.append([minute, count, count])
            self._peaks[-1][1:] = max(self._peaks[-1][1], count), count

    def logged(self, kind: str, fields: Mapping[str, Any]) -> None:
        """A record of the event log."""
        if kind not in DECIDED and kind != "efficiency":
            return
        record = {"t": self._now(), "kind": kind, **fields}
        with self._lock:
            self._records.append(record)
            if kind == "efficiency":
                self._least.append((record["t"], record["cost"], record["lowerBound"]))
            else:
                self._decisions.append(record)

    def waits(self, pod: str, text: str) -> None:
        """Why a pod waits, which no record says."""
        with self._lock:
            self._said[pod] = text

    # Asked by the page ----------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """All but the pods of nodes, as JSON values: instants in Unix seconds, prices in dollars an hour."""
        board = self._filled()
        begun, known = time.monotonic(), self._answer
        if known is not None:
            made, took, revision, answer = known
            if revision == board.revision or begun - made < self._patience * max(_QUICK, took):
                return answer
        answer = self._made(board, self._now())
        self._answer = begun, time.monotonic() - begun, board.revision, answer
        return answer

    def pods(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Pods on a `node`, whose text has all words of `find`: the first ones, and how many there are."""
        board = self._filled()
        node, words = query.get("node", ""), query.get("find", "").lower().split()
        row = board.find(node) if node else None
        of_node = row.pods if row is not None else ()
        found = [
            pod for pod in (of_node if node else board.pods.values()) if not words or _has(_text(pod), words)
        ]
        rows = [_pod(pod) for pod in sorted(found, key=lambda pod: pod.key)[:_SHOWN]]
        return {"total": len(found), "rows": rows}

    def lines(self, instants: Sequence[int]) -> dict[str, list[float | None]]:
        """Lines of charts, which the record of costs lacks, at these ends of intervals (Unix seconds)."""
        with self._lock:
            peaks, least = [tuple(peak) for peak in self._peaks], list(self._least)
        step = instants[1] - instants[0] if len(instants) > 1 else 60
        waited: list[float | None] = []
        at, last = 0, None  # a minute that has begun counts
        for end in instants:
            most = last  # the number stays as it is until something changes
            while at < len(peaks) and peaks[at][0] * 60 < end:
                minute, peak, last = peaks[at]
                most = max(most or 0, peak) if minute * 60 >= end - step else last
                at += 1
            waited.append(most)
        shares: list[float | None] = []
        at, share = 0, None
        for end in instants:
            while at < len(least) and least[at][0] <= end * SECOND:
                share = round(100 * least[at][2] / least[at][1], 4) if least[at][1] else None
                at += 1
            shares.append(share)
        return {"pods.pending": waited, "efficiency": shares}

    def _filled(self) -> Board:
        with self._lock:
            news, self._news = self._news, {}
            records, self._records = self._records, deque(maxlen=_DECISIONS)
            said, self._said = self._said, {}
            for key, (change, _) in news.items():
                (self._taken.discard if change == "DELETED" else self._taken.add)(key)
        for change, obj in news.values():
            self._board.take(change, obj)
        for record in records:
            follow(self._board, record)
            if record["kind"] == "pod.unplaced":
                self._board.note(record["t"], "Pod", record["pod"], record["message"])
        for pod, text in said.items():
            self._board.note(self._now(), "Pod", pod, text)
        return self._board

    def _made(self, board: Board, now: int) -> dict[str, Any]:
        rows, waiting, coming = board.rows(now), beyond.waiting(board), beyond.coming(board)
        texts: dict[str, int] = {}  # why nodes stay: few texts, many nodes
        nodes = [_node(board, row, now, texts) for row in rows]
        with self._lock:
            decided = list(self._decisions)
        return {
            "at": now / SECOND,
            "known": bool(board.revision),
            "tiles": _tiles(board, len(waiting), len(coming)),
            "nodes": nodes,
            "stays": list(texts),
            "pendingTotal": len(waiting),
            "pending": [
                _pod(item.pod) | {"why": beyond.why(board, item.pod)} for item in islice(waiting, _SHOWN)
            ],
            "coming": [
                {
                    "claim": item.claim.metadata.name,
                    "pool": beyond.pool(item.claim),
                    "type": beyond.claim_type(item.claim),
                    "since": item.since / SECOND,
                    "stage": item.stage,
                    "message": item.message,
                }
                for item in coming[:_SHOWN]
            ],
            "next": [
                {
                    "what": item.what,
                    "about": item.about,
                    "text": item.text,
                    "at": None if item.at is None else item.at / SECOND,
                }
                for item in beyond.upcoming(board, now)
            ],
            "kept": _kept(nodes, list(texts)),
            "decisions": decisions(decided)[::-1],
        }


def _node(board: Board, row: Row, now: int, texts: dict[str, int]) -> dict[str, Any]:
    """`stays` are numbers among the texts that many nodes share; none: it may go, if that saves."""
    return {
        "name": row.name,
        "claim": row.claim.metadata.name if row.claim is not None else "",
        "pool": row.pool,
        "type": row.type,
        "zone": row.labels.get(labels.ZONE, ""),
        "kind": row.kind,
        "price": None if row.price is None else row.price / NANO,
        "cpu": round(row.share("cpu"), 1),
        "memory": round(row.share("memory"), 1),
        "pods": len(row.pods),
        "state": row.state,
        "ready": row.readiness(now),
        "created": row.created / SECOND,
        "stays": [texts.setdefault(text, len(texts)) for text in beyond.stays(board, row, now)],
    }


def _kept(nodes: Iterable[Mapping[str, Any]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Why nodes stay, by what is asked first, most nodes in front; and how many may go."""
    counted: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for node in nodes:
        text = texts[node["stays"][0]].split(" (", 1)[0] if node["stays"] else "may go, if that saves"
        counted[text] += 1
        examples.setdefault(text, node["name"])
    return [
        {"text": text, "nodes": count, "example": examples[text]} for text, count in counted.most_common()
    ]


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "pod": pod.key,
        "owner": _owner(pod),
        "node": pod.spec.node_name,
        "phase": pod.status.phase,
        "since": beyond.created(pod) / SECOND,
        "asks": beyond.requests(pod),
    }


def _owner(pod: Pod) -> str:
    """As costs name a controller: deployment:web."""
    found = pod.metadata.controller()
    kind, name = owner_of(f"{found.kind}/{found.name}" if found is not None else "", pod.metadata.labels)
    return f"{kind}:{name}" if kind else ""


def _has(text: str, words: Iterable[str]) -> bool:
    return all(word in text for word in words)


def _text(pod: Pod) -> str:
    stamped = " ".join(f"{key}={value}" for key, value in pod.metadata.labels.items())
    return f"{pod.key} {_owner(pod)} {pod.spec.node_name} {stamped}".lower()


def _tiles(board: Board, waiting: int, coming: int) -> list[dict[str, Any]]:
    sums = board.sums

    def share(resource: str) -> str:
        used, room = (each.get(resource, Quantity(0)).nanos for each in (sums.used, sums.allocatable))
        return f"{100 * used / room:.0f} %" if room else "–"

    shown = [
        (f"${sums.price / NANO:,.2f}", "an hour now", False),
        (str(sums.nodes), "nodes", False),
        (str(waiting), "pods pending", waiting > 0),
        (str(coming), "claims without a node", False),
        (f"{share('cpu')} / {share('memory')}", "of CPU / memory requested", False),
    ]
    if board.least is not None:
        cost, least = board.least
        gap = 100 * (cost - least) / cost if cost else 0.0
        shown.insert(1, (f"${least / NANO:,.2f}", "an hour is the least, proven", False))
        shown.insert(2, (f"{gap:.1f} %", f"gap to that of ${cost / NANO:,.2f} for managed nodes", False))
    return [{"value": value, "label": label, "bad": bad} for value, label, bad in shown]
