"""What an event log knows of nodes (why each was bought, what became of it, why it went) and of decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.words import number_of
from dovetail.model.repair import REBOOT
from dovetail.reading.sources import in_utf8
from dovetail.units.money import NANO_DOLLARS, dollars

Record = Mapping[str, Any]
_SHOWN_PODS = 3
# What the controller's log says of claims, by the names that simulations have for it.
_KINDS = {
    "launched nodeclaim": "instance.started",
    "registered nodeclaim": "node.created",
    "initialized nodeclaim": "node.ready",
    "deleted nodeclaim": "claim.deleted",
}
# Kinds of records that `decisions` lists.
DECIDED = (
    *("decision", "disruption", "disruption.failed", "disruption.held", "static.launched", "static.ended"),
    *("buffer.launched", "reboot.requested", "reboot.ended"),
    *("pod.unplaced", "plan.failed", "termination.guarded", "deletion.guarded"),
    *("observed.launch", "observed.disruption", "observed.unplaced"),  # of a controller that only looks on
)
_NO_LOG = 1_000  # lines without any object: so many may other programs have written before the first
_MARKED = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")  # gzip, UTF-16: others may hold bytes that are no text
_REMEDY = "give a log of the controller, or what `dovetail simulate --events FILE` wrote"


class _Offer(msgspec.Struct, rename="camel"):
    """A node that was bought, or might have been."""

    claim: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    pool: str = ""
    price: float = 0
    pods: list[str] = []
    alternatives: list[_Offer] = []


class _Fields(msgspec.Struct, rename="camel"):
    """What records have under these names, of whichever kind they are. What else they have is not read."""

    t: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    claim: str | None = None
    node: str | None = None
    pod: str = ""
    instance: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    pool: str = ""
    object: str = ""
    message: str = ""
    reason: str = ""
    decision: str = ""
    type: str = ""
    status: str = ""
    owner: str = ""
    mode: str = ""
    command: str = ""
    plan: str | None = None
    snapshot: str | None = None
    allocatable: dict[str, int | str] = {}  # quantities of the controller's log are text
    capacity: dict[str, int] = {}
    requests: dict[str, int] = {}
    labels: dict[str, str] = {}
    containers: dict[str, dict[str, int]] = {}
    moved: dict[str, str] = {}
    alternatives: list[Any] = []
    bought: list[_Offer] = []
    replacements: list[str] = []
    action: str = ""
    condition: str = ""
    result: str = ""
    price: int = 0
    volumes: int = 0
    cost: float = 0
    hourly: float = 0
    lower_bound: float = 0
    savings: float = 0
    seconds: float = 0


class _Batch(_Fields):
    opened: int = 0
    closed: int = 0
    pods: list[str] = []


class _Counted(_Fields):
    pods: int = 0


class _Decision(_Counted):
    claims: list[_Offer] = []


class _Disruption(_Counted):
    nodes: list[str] = []
    claims: list[str] = []


class _Seen(msgspec.Struct, rename="kebab"):
    """A node that a controller which only looks on would have launched."""

    nodepool: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    pods: int = 0


class _SeenLaunch(_Counted):
    nodes: list[_Seen] = []
    more: int = 0


class _Realised(_Fields):
    nodes: dict[str, int] = {}
    pods: dict[str, int] = {}
    causes: dict[str, int] = {}
    planned: float = 0
    realised: float = 0


_OF_KIND: Mapping[str, type[_Fields]] = {
    "batch": _Batch,
    "decision": _Decision,
    "disrupted": _Counted,
    "disruption": _Disruption,
    "disruption.failed": _Disruption,
    "observed.disruption": _Disruption,
    "observed.launch": _SeenLaunch,
    "plan.realised": _Realised,
}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to the node; `at` in nanoseconds since the epoch."""

    at: int
    text: str
    record: Record


def read_log(path: Path, note: Callable[[str], None] = lambda _: None) -> list[Record]:
    """The records of a log. `note` is called with what else it holds, if that is more than stamps. Raises
    InputError.
    """
    try:
        written = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the log: {error.strerror}", source=str(path), remedy=_REMEDY) from None
    if written.startswith(_MARKED):
        written = in_utf8(str(path))
    lines = written.splitlines()
    reader = LogLines(str(path))
    found = [record for line in lines if (record := reader.read(line)) is not None]
    reader.close()
    if reader.skipped:
        lines_are = "1 line is" if reader.skipped == 1 else f"{reader.skipped:,} lines are"
        note(
            f"{lines_are} left out of the log, as not understood: line {reader.first_skipped:,} is the first"
        )
    return found


class LogLines:
    """Finds records in the lines of a log: one JSON object a line, perhaps behind a stamp or a pod's name as
    `kubectl logs --timestamps --prefix` writes them. Other lines are skipped: other programs write into the
    same stream, and the last line may be cut off. A log without any object is none.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = self._objects = 0
        self.skipped = 0  # lines that hold something else
        self.first_skipped = 0  # the number of the first of them

    def read(self, line: bytes) -> Record | None:
        """The record of the next line; None for a line of something else. Raises InputError where so many
        lines have been none that this is no log.
        """
        self._lines += 1
        try:
            record = msgspec.json.decode(line[max(0, line.find(b"{")) :], type=dict[str, Any])
            self._objects += "message" in record or "kind" in record
            found = _record_of(record)
            if found is not None:
                msgspec.convert(found, _OF_KIND.get(found["kind"], _Fields))
            return found
        except (msgspec.MsgspecError, RecursionError, LookupError, ValueError, TypeError, AttributeError):
            if line.strip():
                self.skipped += 1
                self.first_skipped = self.first_skipped or self._lines
            if self.skipped == _NO_LOG:
                self.close()
            return None

    def close(self) -> None:
        """Raises InputError where no line so far was an object, but some were something else."""
        if self.skipped and not self._objects:
            raise InputError(
                "is no JSON object", source=self._source, line=self.first_skipped, remedy=_REMEDY
            )


def _record_of(line: Record) -> Record | None:
    """None for a line of others. Raises what a line raises that lacks what its message always has."""
    if isinstance(line.get("kind"), str) and isinstance(line.get("t"), int):
        return line
    if line.get("message") in _KINDS:
        return _of_claim(line)
    return _in_words(line) if line.get("message") in _WORDS else None


def _instant(line: Record) -> int:
    """Of a line of the controller's log, nanoseconds."""
    instant = datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
    return round(instant.timestamp() * 1000) * (SECOND // 1000)


def _in_words(line: Record) -> dict[str, Any]:
    """A line of the controller's log that refuses or observes, as far as it says all that the record did."""
    kind, fields = _WORDS[line["message"]]
    return {"kind": kind, "t": _instant(line), **fields(line)}


def _nanos(dollars: Any) -> int:
    return round(float(dollars) * NANO_DOLLARS)


def _listed(text: str) -> list[str]:
    return text.split(", ") if text else []


def _machine_of(line: Record) -> dict[str, Any]:
    return {"claim": line["NodeClaim"]["name"], "node": line.get("Node", {}).get("name", "")}


def _pod_of(line: Record) -> str:
    pod = line.get("Pod", {})
    return f"{pod.get('namespace', '')}/{pod.get('name', '')}"


# Messages of the controller's log -> the kind of record, and its fields.
_WORDS: dict[str, tuple[str, Callable[[Record], dict[str, Any]]]] = {
    "found provisionable pod(s)": ("batch.closed", lambda _: {}),
    "computed new nodeclaim(s) to fit pod(s)": ("batch.planned", lambda _: {}),
    "could not schedule pod": (
        "pod.unplaced",
        lambda line: {"pod": _pod_of(line), "message": line.get("error", "")},
    ),
    "could not make a plan": ("plan.failed", lambda line: {"message": line.get("error", "")}),
    "many instances would be ended": (
        "termination.guarded",
        lambda line: {"message": line.get("reason", "")},
    ),
    "many nodeclaims would be ended": ("deletion.guarded", lambda line: {"message": line.get("reason", "")}),
    "held back the disruption of node(s)": (
        "disruption.held",
        lambda line: {"reason": line.get("reason", ""), "message": line.get("error", "")},
    ),
    "selected repair policy": (
        "repair.selected",
        lambda line: {
            **_machine_of(line),
            "condition": line["condition"],
            "reason": line["reason"],
            "action": line["action"],
            "escalated": line["reboot-escalated"],
        },
    ),
    "committed node reboot": (
        "reboot.requested",
        lambda line: {**_machine_of(line), "reason": line["reason"]},
    ),
    "issued node reboot": ("reboot.issued", _machine_of),
    "ended node reboot": (
        "reboot.ended",
        lambda line: {
            **_machine_of(line),
            "result": line["result"],
            "seconds": float(line["duration"].removesuffix("s")),
        },
    ),
    "would have launched nodeclaim(s)": (
        "observed.launch",
        lambda line: {
            "pods": line["pods"],
            "nodes": line["nodes"],
            "more": line["nodeclaims"] - len(line["nodes"]),
            "hourly": _nanos(line["hourly-cost"]),
            "lowerBound": _nanos(line["hourly-lower-bound"]),
        },
    ),
    "would have disrupted node(s)": (
        "observed.disruption",
        lambda line: {
            "reason": line["reason"],
            "decision": line["decision"],
            "nodes": _listed(line["disrupted-nodes"]),
            "replacements": _listed(line["replacement-types"]),
            "pods": line["pods-moved"],
            "savings": _nanos(line["hourly-saving"]),
        },
    ),
    "would have found no place for pod(s)": (
        "observed.unplaced",
        lambda line: {"pods": _listed(line["Pods"])},
    ),
}


def _of_claim(line: Record) -> dict[str, Any]:
    """A line of the controller's log about a claim as the record that a simulation writes of the same."""
    return {
        "kind": _KINDS[line["message"]],
        "t": _instant(line),
        "claim": line.get("NodeClaim", {}).get("name", ""),
        "node": line.get("Node", {}).get("name", ""),
        "pool": line.get("NodePool", {}).get("name", ""),
        "instance": line.get("provider-id", ""),
        "instanceType": line.get("instance-type", ""),
        "zone": line.get("zone", ""),
        "capacityType": line.get("capacity-type", ""),
        "allocatable": line.get("allocatable", {}),
    }


def _buffers(record: Record) -> str:
    names = record["buffers"]
    return f"CapacityBuffer{'s' if len(names) > 1 else ''} {', '.join(names)}"


def history(records: Sequence[Record], name: str) -> list[Moment]:
    """All that happened to a node or claim of that name, in order; nothing for one that is not in the log."""
    claim = claim_of(records, name)
    moments = []
    plan = ""
    for record in records:
        if record["kind"] == "decision" and _bought(record, "claims", claim):
            plan = record["snapshot"]
        for text in _texts(record, claim, name, plan):
            moments.append(Moment(record["t"], text, record))
    return moments


def names(records: Sequence[Record]) -> list[str]:
    """Every node and claim that has a history."""
    found: dict[str, None] = {}
    for record in records:
        for one in record.get("claims", ()) if record["kind"] == "decision" else ():
            found[one["claim"]] = None
        if record["kind"] in ("node.created", "disrupted"):
            found.update(dict.fromkeys(filter(None, (record.get("node", ""), record.get("claim", "")))))
    return list(found)


def decisions(records: Iterable[Record]) -> list[dict[str, Any]]:
    """What was decided and what was refused, with the reasons, in the order of time.

    `t` in Unix seconds, prices in dollars an hour (None: not known); `more` has a line for each node bought.
    """
    return [
        {"t": record["t"] / SECOND, "nodes": [], "claims": [], "pods": 0, "cost": None, "least": None}
        | {"saved": None, "more": []}
        | row
        for record in records
        if (row := _decided(record)) is not None
    ]


def _decided(record: Record) -> dict[str, Any] | None:
    match record["kind"]:
        case "decision":
            return _launches(record)
        case "disruption":
            made = [_offer(one) for one in record.get("bought", ())]
            return {
                "what": "disruption",
                "text": _taken(record) + (f"; bought: {', '.join(made)}" if made else ""),
                "nodes": record["nodes"],
                "claims": record["replacements"],
                "pods": record.get("pods", 0),
                "saved": dollars(record["savings"]),
            }
        case "disruption.failed":
            return {
                "what": "given up",
                "text": f"{record['reason'].lower()}: kept after all, {record['message']}",
                "claims": record["claims"],
            }
        case "disruption.held":
            return {"what": "held back", "text": f"{record['reason'].lower()}: {record['message']}"}
        case "static.launched" | "static.ended":
            launched = record["kind"] == "static.launched"
            why = "was short of" if launched else "had more nodes than"
            text = f"NodePool {record['pool']} {why} its number{' of nodes' if launched else ''}"
            return {"what": "launch" if launched else "disruption", "text": text, "claims": [record["claim"]]}
        case "buffer.launched":
            text = f"{_offer(record)} for the room of {_buffers(record)}"
            return {"what": "launch", "text": text, "claims": [record["claim"]]}
        case "reboot.requested":
            text = f"reboot of {record['node']} ({record['reason']})"
            return {"what": "reboot", "text": text, "nodes": [record["node"]], "claims": [record["claim"]]}
        case "reboot.ended":
            return {"what": "reboot", "text": _reboot(record), "claims": [record["claim"]]}
        case "pod.unplaced":
            return {"what": "no place", "text": f"{record['pod']}: {record['message']}", "pods": 1}
        case "plan.failed":
            return {"what": "no plan", "text": record["message"]}
        case "observed.launch":
            return _would_launch(record)
        case "observed.disruption":
            return _would_disrupt(record)
        case "observed.unplaced":
            count = len(record["pods"])
            text = f"would have no place: {', '.join(record['pods'][:_SHOWN_PODS])}"
            more = f" and {count - _SHOWN_PODS} more" if count > _SHOWN_PODS else ""
            return {"what": "no place", "text": text + more, "pods": count}
        case "termination.guarded" | "deletion.guarded":
            return {"what": "guarded", "text": record["message"]}
    return None


def _launches(record: Record) -> dict[str, Any]:
    return {
        "what": "launch",
        **_proven(record, len(record["claims"])),
        "claims": [one["claim"] for one in record["claims"]],
        "more": [f"{one['claim']}: {_purchase(one)}" for one in record["claims"]],
    }


def _would_launch(record: Record) -> dict[str, Any]:
    more = record.get("more", 0)  # a line of the log names the first ones alone
    lines = [
        f"{one['instance-type']} {one['capacity-type']} in {one['zone']} of NodePool {one['nodepool']} "
        f"for {number_of(one['pods'], 'pod')}"
        for one in record["nodes"]
    ]
    found = _proven(record, len(record["nodes"]) + more)
    return {
        "what": "would launch",
        **found,
        "text": f"{found['text']}; nothing was done",
        "more": [*lines, *([f"and {more} more"] if more > 0 else [])],
    }


def _would_disrupt(record: Record) -> dict[str, Any]:
    made = ", ".join(record["replacements"])
    how = f"replaced by {made}" if made else "deleted without replacement"
    return {
        "what": "would disrupt",
        "text": f"{record['reason'].lower()}: {how}, {number_of(record['pods'], 'pod')} to move; saves "
        f"{_price(record['savings'])}; nothing was done",
        "nodes": record["nodes"],
        "pods": record["pods"],
        "saved": dollars(record["savings"]),
    }


def _proven(record: Record, count: int) -> dict[str, Any]:
    """What a launch of so many nodes costs, and the least that is proven necessary."""
    cost, least = record["hourly"], record["lowerBound"]
    gap = f", gap {100 * (cost - least) / cost:.1f} %" if cost else ""
    return {
        "text": f"{number_of(count, 'node')} for {number_of(record['pods'], 'pod')}, "
        f"{_price(cost)}; at least {_price(least)} is proven necessary{gap}",
        "pods": record["pods"],
        "cost": dollars(cost),
        "least": dollars(least),
    }


def claim_of(records: Sequence[Record], name: str) -> str:
    """The claim of a node; a name that no node has is taken for a claim's."""
    for record in records:
        if record["kind"] in ("node.created", "disrupted") and record.get("node") == name:
            return str(record.get("claim") or name)
    return name


def _texts(record: Record, claim: str, name: str, plan: str) -> Iterator[str]:
    match record["kind"]:
        case "decision" if one := _bought(record, "claims", claim):
            yield from _launch(record, one)
        case "disruption" if one := _bought(record, "bought", claim):
            yield (
                f"bought to replace {', '.join(record['nodes'])} ({record['reason'].lower()}): "
                f"{_offer(one)}; the command saves {_price(record['savings'])}"
            )
        case "disruption" if claim in record["claims"]:
            yield _taken(record)
        case "static.launched" if record["claim"] == claim:
            yield f"bought because NodePool {record['pool']} was short of its number of nodes"
        case "buffer.launched" if record["claim"] == claim:
            yield f"bought for the room of {_buffers(record)}: {_offer(record)}"
        case "static.ended" if record["claim"] == claim:
            yield f"chosen to go: NodePool {record['pool']} had more nodes than its number"
        case "repair.selected" if record["claim"] == claim:
            again = "; reboots came to nothing" if record["escalated"] else ""
            action = "rebooted" if record["action"] == REBOOT else "replaced"
            yield f"past help, to be {action}: {record['condition']} ({record['reason']}){again}"
        case "reboot.requested" if record["claim"] == claim:
            yield f"chosen to be rebooted ({record['reason']}): its pods leave first"
        case "reboot.issued" if record["claim"] == claim:
            yield "the cloud reboots it"
        case "reboot.ended" if record["claim"] == claim:
            yield _reboot(record)
        case "disruption.failed" if claim in record["claims"]:
            yield f"kept after all: {record['message']}"
        case "disrupted" if record["claim"] == claim:
            reason = record["reason"].replace("_", " ")
            yield f"ended ({record['mode']}): {reason}; {number_of(record['pods'], 'pod')} to move"
        case "instance.started" if record.get("claim") == claim:
            cost = f" at {_price(record['price'])}" if "price" in record else ""
            yield f"the cloud gave {record['instanceType']} in {record['zone']}{cost}"
        case "instance.launchFailed" if record.get("claim") == claim:
            yield f"the cloud gave nothing: {record['message']}"
        case "node.ready" if record["node"] == name:
            yield "ready"
        case "claim.deleted" if record["claim"] == claim:
            yield "gone"
        case "plan.realised" if plan and record["plan"] == plan:
            yield from _realised(record)


def _reboot(record: Record) -> str:
    """How one came out."""
    taken = f"{record['seconds']:,.0f} s after it was decided"
    if record["result"] == "succeeded":
        return f"rebooted and ready again, {taken}"
    return f"the reboot came to nothing, {taken} ({record['result'].replace('_', ' ')})"


def _purchase(one: Record) -> str:
    """Why a node was bought: for which pods, what it is, and what would have done too."""
    others = ", ".join(f"{item['instanceType']} at {_price(item['price'])}" for item in one["alternatives"])
    more = len(one["pods"]) - _SHOWN_PODS
    pods = ", ".join(one["pods"][:_SHOWN_PODS]) + (f" and {more} more" if more > 0 else "")
    best = f"; next best {others}" if others else ""
    return f"bought for {number_of(len(one['pods']), 'pod')} ({pods}): {_offer(one)}{best}"


def _launch(record: Record, one: Record) -> Iterator[str]:
    yield _purchase(one)
    nodes = "1 node" if len(record["claims"]) == 1 else f"{len(record['claims'])} nodes"
    yield (
        f"the plan for {number_of(record['pods'], 'pod')}: {nodes} for {_price(record['hourly'])}, "
        f"at least {_price(record['lowerBound'])} is proven necessary; cluster as of {record['snapshot']}"
    )


def _taken(record: Record) -> str:
    together = len(record["nodes"]) - 1
    beside = f" together with {together} more" if together else ""
    made = ", ".join(record["replacements"])
    how = f"replaced by {made}" if made else "deleted without replacement"
    return (
        f"chosen to go{beside}, {record['reason'].lower()}: {how}, "
        f"{number_of(record.get('pods', 0), 'pod')} to move; "
        f"saves {_price(record['savings'])}{_weighed(record)}"
    )


def _weighed(record: Record) -> str:
    """What else there was, where it was asked."""
    if "tried" not in record:
        return ""
    others = ", ".join(
        f"{one['nodes']} nodes for {one['replacements']} (saves {_price(one['savings'])})"
        for one in record["alternatives"]
    )
    return (
        f"; {record['tried']} sets of nodes were planned, all nodes that may go "
        f"cost {_price(record['hourly'])} and their pods at least {_price(record['lowerBound'])}"
        f"{'; the other moves found: ' + others if others else ''}"
    )


def _realised(record: Record) -> Iterator[str]:
    pods = record["pods"]
    elsewhere = pods["elsewhere"] + pods["replanned"]
    causes = ", ".join(f"{cause} {count}" for cause, count in record.get("causes", {}).items())
    yield (
        f"the plan came to {_price(record['realised'])} instead of {_price(record['planned'])}; "
        f"{number_of(pods['here'], 'pod')} where planned, "
        f"{elsewhere} elsewhere{f' ({causes})' if causes else ''}, {pods['gone']} deleted before"
    )


def _bought(record: Record, field: str, claim: str) -> Record | None:
    return next((one for one in record.get(field, ()) if one["claim"] == claim), None)


def _offer(one: Record) -> str:
    return f"{one['instanceType']} in {one['zone']} at {_price(one['price'])}"


def _price(nanos: int) -> str:
    return f"${dollars(nanos):.4f}/h"


def shown_time(at: int, zone: ZoneInfo) -> str:
    """Date and time to the second."""
    moment = datetime.fromtimestamp(at // SECOND, zone)
    offset = moment.utcoffset() or timedelta()
    return f"{moment:%Y-%m-%d %H:%M:%S}{'Z' if not offset else ''}"
