"""What did not last of what was done to a cluster: pods moved again, commands that later ones undid. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.realised.run import Record
from dovetail.base.clock import HOUR, MINUTE
from dovetail.disrupt.command import EMPTY

LASTING = HOUR  # what is undone within so long was in vain


def moved_again(records: Sequence[Record], since: int = 0) -> int:
    """Evictions, since that instant, of pods that came within the hour before in place of evicted ones.

    Whatever creates a pod in place of one that goes does so at once: the next one of the same owner is it.
    """
    vacant: dict[str, list[int]] = {}  # by owner, the instants of evictions whose successors are to come
    owners: dict[str, str] = {}
    came: dict[str, int] = {}  # such a successor, and when it was created
    again = 0
    for r in records:
        if r["kind"] == "pod.created":
            owners[r["pod"]] = owner = r["owner"]
            waiting = [at for at in vacant.get(owner, ()) if r["t"] - at < MINUTE]
            if waiting:
                came[r["pod"]] = r["t"]
            vacant[owner] = waiting[1:]
        elif r["kind"] == "pod.evicted" and r["t"] >= since:
            again += r["t"] - came.get(r["pod"], -LASTING) < LASTING
            vacant.setdefault(owners.get(r["pod"], ""), []).append(r["t"])
    return again


def undone(records: Sequence[Record], since: int = 0) -> int:
    """Commands, since that instant, that a later one undid, wholly or in part."""
    return len({made["snapshot"] for made, _ in undoings(records, since)})


def undoings(records: Sequence[Record], since: int = 0) -> Iterator[tuple[Record, Record]]:
    """Each command, with the one that took a node within the hour in which that one had bought it.

    A node that went because its pods were gone counts only if it never had any.
    """
    bought: dict[str, Record] = {}
    claims: dict[str, str] = {}
    created = (r for r in records if r["kind"] == "pod.created")
    daemons = {r["pod"] for r in created if r["owner"].startswith("DaemonSet/")}
    used: set[str] = set()  # claims of nodes that had pods
    for r in records:
        if r["kind"] == "node.created":
            claims[r["node"]] = r["claim"]
        elif r["kind"] == "pod.bound" and r["pod"] not in daemons:
            used.add(claims.get(r["node"], ""))
        elif r["kind"] == "disruption" and r["t"] >= since:
            for claim in r["claims"]:
                made = bought.get(claim)
                emptied = r["reason"] == EMPTY and claim in used
                if made is not None and r["t"] - made["t"] < LASTING and not emptied:
                    yield made, r
            bought |= dict.fromkeys(r["replacements"], r)
