"""Log lines: JSON, one a line, with Karpenter's keys and, where it has them, its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from dovetail.base.clock import SECOND, Clock
from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.choice import FEW_TYPES

LEVELS = ("debug", "info", "error")
_SHOWN = 5  # names in a line; further ones are counted


@dataclass(frozen=True, slots=True)
class Line:
    """What a record of the event log becomes; `fields` picks and names its values."""

    level: str
    logger: str
    message: str
    fields: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    when: Callable[[Mapping[str, Any]], bool] = lambda _: True


def shortened(names: Sequence[str]) -> str:
    """ "a, b, c, d, e and 7 other(s)"."""
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} other(s)" if rest > 0 else "")


def _disrupted(one: Mapping[str, Any]) -> dict[str, Any]:
    """What is logged of nodes that go, for whatever reason."""
    return {
        "reason": one["reason"],
        "decision": one["decision"],
        "disrupted-node-count": len(one["nodes"]),
        "replacement-node-count": len(one["replacements"]),
        "disrupted-nodes": shortened(one["nodes"]),
    }


def _pod(key: str) -> dict[str, str]:
    namespace, _, name = key.partition("/")
    return {"namespace": namespace, "name": name}


def _dollars(nanos: Any) -> float:
    return round(int(nanos) / 1e9, 6)


# Written whole, with kind and instant: `dovetail explain node --history` asks them why a node came and went.
DECISIONS = (
    *("decision", "disruption", "disruption.failed", "disrupted", "plan.realised"),
    *("static.launched", "static.ended", "buffer.launched", "efficiency"),
)

_LINES: dict[str, Line] = {
    "batch": Line(
        "info",
        "provisioner",
        "found provisionable pod(s)",
        lambda one: {
            "Pods": shortened(one["pods"]),
            "duration": f"{(one['closed'] - one['opened']) / SECOND:.3f}s",
        },
    ),
    "solve": Line(
        "info",
        "provisioner",
        "computed new nodeclaim(s) to fit pod(s)",
        lambda one: {
            "nodeclaims": one["claims"],
            "pods": one["pods"] - one["unschedulable"],
            "unschedulable-pods": one["unschedulable"],
            "duration": f"{one['seconds']:.3f}s",
            "hourly-cost": _dollars(one["hourly"]),
            "hourly-lower-bound": _dollars(one["lowerBound"]),
        },
        when=lambda one: one["claims"] > 0,
    ),
    "plan.overtaken": Line(
        "info",
        "provisioner",
        "left out nodeclaim(s) whose pod(s) need none any more",
        lambda one: {
            "nodeclaims": one["claims"],
            "pods": shortened(one["pods"]),
            "hourly-cost": _dollars(one["hourly"]),
        },
    ),
    "room.made": Line(
        "info",
        "provisioner",
        "made room for pod(s) by pod(s) that had not started",
        lambda one: {"pods": shortened(one["pods"]), "evicted": shortened(one["leaving"])},
    ),
    "costs.failed": Line(
        "error", "costs", "could not write the record of costs", lambda one: {"error": one["error"]}
    ),
    "costs.use_unknown": Line(
        "info",
        "costs",
        "what pods use is not known, their requests count",
        lambda one: {"reason": one["error"]},
    ),
    "pods.awaited": Line(
        "info",
        "provisioner",
        "computed unready node(s) will fit pod(s)",
        lambda one: {"nodes": len(one["nodes"]), "pods": one["pods"]},
    ),
    "pod.unplaced": Line(
        "error",
        "provisioner",
        "could not schedule pod",
        lambda one: {"Pod": _pod(one["pod"]), "error": one["message"]},
    ),
    "pod.forced": Line(
        "info",
        "node.termination",
        "deleting pod",
        lambda one: {
            "Pod": _pod(one["pod"]),
            "Node": {"name": one["node"]},
            "grace-period-seconds": one["grace"],
            "reason": one["reason"],
        },
    ),
    "pod.ignored": Line(
        "debug",
        "provisioner",
        "ignoring pod",
        lambda one: {"Pod": _pod(one["pod"]), "error": one["message"]},
    ),
    "pods.apart": Line(
        "info",
        "provisioner",
        "pod(s) have a preferred Anti-Affinity which can prevent consolidation",
        lambda one: {"pods": shortened(one["pods"])},
    ),
    "pods.spread": Line(
        "info",
        "provisioner",
        "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation",
        lambda one: {"pods": shortened(one["pods"])},
    ),
    "pools.none": Line("info", "provisioner", "no dynamic nodepools found"),
    "pool.empty": Line(
        "info",
        "provisioner",
        "skipping, nodepool requirements filtered out all instance types",
        lambda one: {"NodePool": {"name": one["pool"]}, "reason": one["message"]},
    ),
    "pool.full": Line(
        "info", "provisioner", "nodepool node limit reached", lambda one: {"NodePool": {"name": one["pool"]}}
    ),
    "pool.limited": Line(
        "info",
        "provisioner",
        "instance types were excluded because they would breach limits",
        lambda one: {
            "NodePool": {"name": one["pool"]},
            "excluded-instance-types": one["excluded"],
            "instance-types": one["types"],
        },
    ),
    "class.largeUserData": Line(
        "info",
        "nodeclaim.lifecycle",
        "user data is nearly as large as EC2 takes",
        lambda one: {
            "EC2NodeClass": {"name": one["nodeClass"]},
            "bytes": one["bytes"],
            "most-bytes": one["most"],
        },
    ),
    "launch.fewTypes": Line(
        "error",
        "nodeclaim.lifecycle",
        "failed while checking on-demand fallback",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "error": f"at least {FEW_TYPES} instance types are recommended when flexible to spot but "
            f"requesting on-demand, the current provisioning request only has {one['types']} instance type "
            "options",
        },
    ),
    "disruption.begun": Line(
        "info",
        "disruption",
        "disrupting node(s)",
        lambda one: {
            "command": one["command"],
            **_disrupted(one),
            "pod-count": one["pods"],
            "replacement-types": shortened(one["replacements"]),
        },
    ),
    "repair.selected": Line(
        "info",
        "disruption",
        "selected repair policy",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "Node": {"name": one["node"]},
            "condition": one["condition"],
            "reason": one["reason"],
            "action": one["action"],
            "reboot-escalated": one["escalated"],
        },
    ),
    "repair.matched": Line(
        "debug",
        "disruption",
        "matched repair policy",
        lambda one: {"NodeClaim": {"name": one["claim"]}, "Node": {"name": one["node"]}},
    ),
    "repair.recovered": Line(
        "debug",
        "disruption",
        "no longer matches any repair policy",
        lambda one: {"NodeClaim": {"name": one["claim"]}, "Node": {"name": one["node"]}},
    ),
    "reboot.requested": Line(
        "info",
        "disruption",
        "committed node reboot",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "Node": {"name": one["node"]},
            "reason": one["reason"],
        },
    ),
    "reboot.issued": Line(
        "info",
        "nodeclaim.reboot",
        "issued node reboot",
        lambda one: {"NodeClaim": {"name": one["claim"]}, "Node": {"name": one["node"]}},
    ),
    "reboot.ended": Line(
        "info",
        "nodeclaim.reboot",
        "ended node reboot",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "result": one["result"],
            "duration": f"{one['seconds']:.3f}s",
        },
    ),
    "disruption.held": Line(  # again and again while a limit holds
        "debug",
        "disruption",
        "held back the disruption of node(s)",
        lambda one: {"reason": one["reason"], "error": one["message"]},
    ),
    "observed.launch": Line(
        "info",
        "observer",
        "would have launched nodeclaim(s)",
        lambda one: {
            "pods": one["pods"],
            "nodeclaims": len(one["nodes"]),
            "nodes": one["nodes"][:_SHOWN],
            "hourly-cost": _dollars(one["hourly"]),
            "hourly-lower-bound": _dollars(one["lowerBound"]),
        },
    ),
    "observed.unplaced": Line(
        "info",
        "observer",
        "would have found no place for pod(s)",
        lambda one: {"Pods": shortened(one["pods"])},
    ),
    "observed.room": Line(
        "info",
        "observer",
        "would have launched nodeclaim(s) for capacitybuffer(s)",
        lambda one: {
            "nodeclaims": len(one["nodes"]),
            "instance-types": shortened(one["nodes"]),
            "hourly-cost": _dollars(one["hourly"]),
        },
    ),
    "observed.disruption": Line(
        "info",
        "observer",
        "would have disrupted node(s)",
        lambda one: {
            **_disrupted(one),
            "replacement-types": shortened(one["replacements"]),
            "pods-moved": one["pods"],
            "hourly-saving": _dollars(one["savings"]),
        },
    ),
    "acting.launched": Line(
        "info",
        "observer",
        "the acting controller launched a nodeclaim",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "instance-type": one["instanceType"],
            "zone": one["zone"],
            "capacity-type": one["capacityType"],
            "hourly-cost": _dollars(one["hourly"]),
            "for-pods": one["forPods"],
        },
    ),
    "acting.removed": Line(
        "info",
        "observer",
        "the acting controller took a nodeclaim away",
        lambda one: {
            "NodeClaim": {"name": one["claim"]},
            "reason": one["reason"],
            "hourly-cost": _dollars(one["hourly"]),
        },
    ),
    "nodes.opened": Line(
        "debug",
        "controller",
        "opened node(s) to pods",
        lambda one: {"Nodes": shortened(one["nodes"]), "nominated-pods": one["nominated"]},
    ),
    "nominations.forbidden": Line(
        "error",
        "controller",
        "nominations are not allowed: the scheduler does not learn which node is for a pod",
        lambda one: {"error": one["message"]},
    ),
    "reconcile.failed": Line(
        "error",
        "controller",
        "Reconciler error",
        lambda one: {"controller": one["controller"], "name": one["key"], "error": one["message"]},
    ),
    "reconcile.panicked": Line(
        "error",
        "controller",
        "unexpected error: what it is about is left alone and tried again later, all else goes on",
        lambda one: {
            "controller": one["controller"],
            "name": one["key"],
            "object": one["object"],
            "error": one["message"],
            "stacktrace": one["stack"],
        },
    ),
    "object.unreadable": Line(
        "error",
        "controller",
        "object that cannot be read: it is left alone, all else goes on",
        lambda one: {"object": one["object"], "error": one["message"]},
    ),
    "termination.guarded": Line(
        "error", "guard", "many instances would be ended", lambda one: {"reason": one["message"]}
    ),
    "deletion.guarded": Line(
        "error",
        "guard",
        "many nodeclaims would be ended",
        lambda one: {"reason": one["message"], "nodeclaims": one["claims"], "token": one["token"]},
    ),
    "definitions.unreadable": Line(
        "error",
        "guard",
        "unknown whether a deleted definition takes nodeclaims along",
        lambda one: {"error": one["message"]},
    ),
    "watch.refused": Line(
        "error", "controller", "cannot watch", lambda one: {"resource": one["what"], "error": one["message"]}
    ),
    "input.left_out": Line(
        "error",
        "provisioner",
        "left an object that cannot be understood out of the plan",
        lambda one: {"object": one["about"], "error": one["message"]},
    ),
    "watch.failing": Line(
        "error",
        "controller",
        "blind: objects can neither be listed nor watched",
        lambda one: {"resource": one["what"], "for": f"{one['seconds']}s", "error": one["message"]},
    ),
    "watch.restored": Line(
        "error",
        "controller",
        "the API server was set back, as by a backup: all that was known is replaced by what it lists",
        lambda one: {"resource": one["what"], "seen-version": one["seen"], "listed-version": one["listed"]},
    ),
    "versions.migrated": Line(
        "info",
        "storedversions",
        "stored every object in the current version",
        lambda one: {key: one[key] for key in ("definition", "version", "objects")},
    ),
    "versions.failed": Line(
        "error",
        "storedversions",
        "cannot store every object in the current version",
        lambda one: {"definition": one["definition"], "error": one["message"]},
    ),
    "plan.failed": Line(
        "error", "provisioner", "could not make a plan", lambda one: {"error": one["message"]}
    ),
    "solver.raised": Line(
        "error",
        "planner",
        "the solver raised an exception",
        lambda one: {"error": one["message"], "stacktrace": one["stack"]},
    ),
}


_DROPPED = Metric(
    "dovetail_log_lines_dropped_total", "counter", "Log lines that could not be written.", ("level",)
)


def _put(out: TextIO, text: str) -> None:
    """Write all of it at once, past the stream's buffer. Raises OSError, ValueError.

    What a buffer keeps of a line that a full pipe refused is up to the version of Python: with 3.14 the next
    lines were refused as well, until all of it was written.
    """
    buffer = getattr(out, "buffer", None)
    if buffer is None:  # not a file
        out.write(text)
        out.flush()
        return
    out.flush()  # of what others wrote
    raw, left = getattr(buffer, "raw", buffer), memoryview(text.encode())
    while left:
        written = raw.write(left)
        if not written:
            raise BlockingIOError
        left = left[written:]


class JsonLines:
    """An EventLog that writes lines as they come, from `level` upwards.

    A full disk or a pipe without a reader costs lines, which are counted, and stops nothing.
    """

    def __init__(
        self,
        clock: Clock,
        level: str,
        out: TextIO,
        errors: TextIO | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        # Gets every record, also those below the level: for a page that shows them.
        self.listener: Callable[[str, Mapping[str, Any]], None] | None = None
        self._metrics = metrics
        self._dropped = 0  # since a line was written last
        # Streams that took a line in part, maybe: a full pipe that does not block does.
        self._torn: dict[TextIO, None] = {}
        self._clock = clock
        self._least = LEVELS.index(level)
        self._out = out
        self._errors = errors or out

    def record(self, kind: str, /, **fields: object) -> None:
        """See EventLog. What has no words of its own is a line of level debug under its own name."""
        if self.listener is not None:
            self.listener(kind, fields)
        if kind in DECISIONS:
            self.write("info", "decisions", "decision record", kind=kind, t=self._clock.now(), **fields)
            return
        line = _LINES.get(kind)
        if line is None:
            self.write("debug", "controller", kind, **fields)
        elif line.when(fields):
            self.write(line.level, line.logger, line.message, **line.fields(fields))

    def write(self, level: str, logger: str, message: str, /, **fields: object) -> None:
        """One line. Raises nothing."""
        if LEVELS.index(level) < self._least:
            return
        stamp = datetime.fromtimestamp(self._clock.now() / SECOND, UTC)
        head = {
            "level": level.upper(),
            "time": stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "logger": logger,
            "message": message,
        }
        out = self._errors if level == "error" else self._out
        try:
            text = msgspec.json.encode({**head, **fields}).decode() + "\n"
        except (ValueError, TypeError):  # not to be written in JSON
            self._lost(level)
            return
        try:
            _put(out, "\n" + text if out in self._torn else text)
        except (OSError, ValueError):  # full, or closed
            self._torn[out] = None
            self._lost(level)
            return
        self._torn.pop(out, None)
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self.write("error", "controller", "log lines were lost", lines=count)

    def _lost(self, level: str) -> None:
        self._dropped += 1
        if self._metrics is not None:
            self._metrics.add(_DROPPED, level=level)
