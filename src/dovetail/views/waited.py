"""How long pods waited and for what, from a log: a simulation's, or the controller's with a snapshot.

A simulation's log has every pod. The controller's names the pods that nodes were bought for; when a pod was
made, bound and ready stands in the pod itself, to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.simulate.analysis.waiting import PARTS, Wait, advice, waits
from dovetail.units.money import dollars
from dovetail.units.timestamp import parse_rfc3339
from dovetail.views.history import Record, claim_of

_LATE = 10 * MINUTE  # after its end began, a node whose end is not in the log takes no successors any more
_PLACED = ("launch", "join")  # parts that only a pod with a place does not have
_AHEAD = ("batching", "blocked", "solve", "retries", "replanned", *_PLACED)


@dataclass(frozen=True, slots=True)
class Way:
    """A change with which a pod would have run after `total` ns at best: it goes without `parts`."""

    parts: tuple[str, ...]
    total: int
    text: str
    ahead: bool = False  # by a place that is there when the pod comes


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod of a node that went, and the one that was made in its stead, with its time (None: none was)."""

    pod: str
    successor: Wait | None


def pods_of(records: Sequence[Record], snapshot: Iterable[Pod]) -> tuple[Wait, ...]:
    """The time of every pod that the log, or the log and the snapshot together, know enough of."""
    if any(record["kind"] == "pod.created" for record in records):
        return waits(records, records[-1]["t"])
    known = list(_told(records, tuple(snapshot)))
    return waits(known, known[-1]["t"]) if known else ()


def _told(records: Sequence[Record], pods: Sequence[Pod]) -> Iterator[Record]:
    """What a simulation would have written, in the order of time."""
    found = [*records]
    for item in pods:
        made = item.metadata.creation_timestamp
        if not made:
            continue
        known = {"pod": item.key, "owner": item.metadata.managed_by(), "node": item.spec.node_name}
        found.append({"kind": "pod.created", "t": parse_rfc3339(made), **known})
        for kind, name in (("pod.bound", "PodScheduled"), ("pod.running", "Ready")):
            at = condition(item.status.conditions, name)
            if at is not None and at.status == "True" and at.last_transition_time:
                found.append({"kind": kind, "t": parse_rfc3339(at.last_transition_time), **known})
    closed = planned = None  # of the batch that the next decision is about
    for record in sorted(found, key=lambda one: one["t"]):
        at = record["t"]
        if record["kind"] == "batch.closed":
            closed, planned = at, None
        elif record["kind"] == "batch.planned":
            planned = at
        elif record["kind"] == "decision":
            for one in record["claims"]:
                yield {
                    "kind": "batch",
                    "t": at,
                    "closed": at if closed is None else closed,
                    "pods": one["pods"],
                }
                for pod in one["pods"]:
                    known = {"pod": pod, "claim": one["claim"]}
                    yield {"kind": "nominated", "t": at if planned is None else planned, **known}
        elif record["kind"] == "pod.unplaced":
            name = record["pod"]
            yield {"kind": "batch", "t": at, "closed": at, "pods": [name]}
            words = {"object": f"Pod/{name}", "message": record["message"]}
            yield {"kind": "event", "t": at, "reason": "FailedScheduling", **words}
        else:
            yield record


def shorter(wait: Wait, within: int | None = None) -> tuple[Way, ...]:
    """What would have made it shorter: one cause after the other, the largest first, and a place in time.

    With `within` no more causes are taken away than it takes to come under it.
    """
    ways: list[Way] = []
    gone: list[str] = []
    least = min(SECOND // 2, wait.total // 100)
    causes = sorted((part for part in PARTS if wait.parts[part] > least), key=lambda part: -wait.parts[part])
    for part in causes:
        if part in _PLACED:
            continue
        if within is not None and (ways[-1].total if ways else wait.total) <= within:
            break
        gone.append(part)
        ways.append(Way(tuple(gone), wait.total - sum(wait.parts[one] for one in gone), advice(wait, part)))
    if any(wait.parts[part] for part in _AHEAD):
        left = wait.total - sum(wait.parts[part] for part in _AHEAD)
        text = "room that is there when it comes; `dovetail headroom` says how much, and what it costs"
        ways.append(Way(_AHEAD, left, text, ahead=True))
    return tuple(ways)


@dataclass(frozen=True, slots=True)
class Saving:
    """What a command promised to save, in dollars an hour, and what it did; None: not known."""

    promised: float
    came: float | None
    otherwise: tuple[str, ...]  # what the cloud gave in place of what


def saving_of(records: Sequence[Record], name: str) -> Saving | None:
    """Of the command that took the node (or claim) of that name; None where none did, or it was given up."""
    claim = claim_of(records, name)
    commands = [one for one in records if one["kind"] == "disruption" and claim in one["claims"]]
    if not commands or not any(one["kind"] == "disrupted" and one["claim"] == claim for one in records):
        return None
    command = commands[-1]
    given = {one["claim"]: one for one in records if one["kind"] == "instance.started" and one.get("claim")}
    came: int | None = command["savings"]
    otherwise = []
    for one in command.get("bought", ()):
        got = given.get(one["claim"])
        if got is None:
            return Saving(dollars(command["savings"]), None, ())
        same = (got["instanceType"], got["zone"]) == (one["instanceType"], one["zone"])
        if not same:
            names = (f"{item['instanceType']} in {item['zone']}" for item in (got, one))
            otherwise.append(" in place of ".join(names))
        # The controller's log has no prices of what came.
        price = got.get("price", one["price"] if same else None)
        came = came + one["price"] - price if came is not None and price is not None else None
    promised = dollars(command["savings"])
    return Saving(promised, None if came is None else dollars(came), tuple(otherwise))


def moved_from(records: Sequence[Record], name: str, known: Sequence[Wait]) -> tuple[Moved, ...]:
    """The pods that a node (or claim) of that name had to give up, each with what came in its stead."""
    claim = claim_of(records, name)
    begun = next((one for one in records if one["kind"] == "disrupted" and one["claim"] == claim), None)
    if begun is None:
        return ()
    gone = (one["t"] for one in records if one["kind"] == "claim.deleted" and one["claim"] == claim)
    start = begun["t"]
    until = next(gone, start + _LATE) + MINUTE
    owners: Mapping[str, str] = begun.get("moved", {})
    free = [one for one in known if start - SECOND <= one.created <= until]
    found = []
    for pod, owner in owners.items():
        space = pod.partition("/")[0]
        fitting = (one for one in free if owner and one.owner == owner and one.pod.partition("/")[0] == space)
        successor = next(fitting, None)
        if successor is not None:
            free.remove(successor)
        found.append(Moved(pod, successor))
    return tuple(found)
