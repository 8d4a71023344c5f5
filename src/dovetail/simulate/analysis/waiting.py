"""Where the time of waiting pods went, read from the event log.

A pod's time runs from `pod.created` to `pod.running`; a pod that never ran stops counting at its deletion
or at the end of the log. It is cut at these instants, in this order; the part before each cut has its name:

batching    the first `batch` with the pod closes, or the controller leaves the pod alone for what it names
blocked     the last `batch` with the pod before its first nomination closes: rounds that found no place
solve       the first `nominated` of the pod
retries     the first `nominated` after the last one to a claim that came to nothing: its launch failed, or it
            was deleted before it had a node
replanned   the first `nominated` to the claim that became the pod's node: the room planned before went to
            other pods
launch      `instance.started` of that claim
join        the first `node.ready` of its node
scheduling  `pod.bound`
start       `pod.running`

A cut that never came is left out and its time falls to the next one that did; when none did, the rest
belongs to the first cut that is still awaited. A cut outside of the time left is moved to its nearer end.
So the parts add up to the whole exactly, in nanoseconds, and a pod that went to a node that was already
there, as all of a DaemonSet, has `scheduling` and `start` only. A pod bound to another node than its
nominated one is cut by the launch and the readiness of the node it got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.simulate.analysis import cures

Record = Mapping[str, Any]

_REFUSED = "Failed to schedule pod, "  # how its event begins
_NOTHING = "it was given up before it was launched"

PARTS = (
    "batching",
    "blocked",
    "solve",
    "retries",
    "replanned",
    "launch",
    "join",
    "scheduling",
    "start",
)


@dataclass(frozen=True, slots=True)
class Wait:
    """One pod's time; instants and lengths in nanoseconds. Invariant: the parts sum to `total`."""

    pod: str
    owner: str
    created: int
    ended: int  # running, deleted, or the end of the log
    bound: int | None
    parts: Mapping[str, int]
    waited: bool  # some plan or scheduler verdict had to be awaited
    placeholder: bool = False  # of a priority below 0: it waits in the stead of others
    deleted: bool = False  # before the end of the log
    node: str = ""
    attempts: int = 0  # claims that it was nominated to
    message: str = ""  # the scheduler's last reason
    refusal: str = ""  # why no NodePool could take it, in the words of its last event
    failure: str | None = None  # why its last failed launch did; "" if it started and never became a node
    preempted: bool = False  # it gave way to a pod of a higher priority
    rivals: bool = False  # a pod of its owner did

    @property
    def total(self) -> int:
        return self.ended - self.created

    @property
    def pending(self) -> int:
        """From creation until it had a node, as far as the log goes."""
        return (self.ended if self.bound is None else self.bound) - self.created

    @property
    def largest(self) -> str:
        """The part that took longest; the earlier one of equals."""
        return max(PARTS, key=lambda part: self.parts[part])


@dataclass(slots=True)
class _Pod:
    """What the log says of one pod, while it is read."""

    name: str
    owner: str
    created: int
    batches: list[int] = field(default_factory=list)  # when each closed, or left the pod out
    nominations: list[tuple[int, str]] = field(default_factory=list)  # (instant, claim or "")
    bound: int | None = None
    running: int | None = None
    deleted: int | None = None
    node: str = ""
    message: str = ""
    refusal: str = ""
    unschedulable: bool = False
    placeholder: bool = False
    preempted: bool = False


@dataclass(slots=True)
class _Book:
    """Running notes on the log. `open` holds the pods of that name that are not deleted yet."""

    pods: list[_Pod] = field(default_factory=list)
    open: dict[str, _Pod] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)  # claim -> its instance started
    claim_of: dict[str, str] = field(default_factory=dict)  # node -> claim
    joined: set[str] = field(default_factory=set)  # claims that had a node
    failed: dict[str, str] = field(default_factory=dict)  # claims that came to nothing, and why
    ready: dict[str, int] = field(default_factory=dict)  # node -> first ready

    def read(self, record: Record) -> None:
        """Take one record in."""
        match record["kind"]:
            case "pod.created":
                pod = _Pod(record["pod"], record.get("owner", ""), record["t"])
                pod.placeholder = record.get("placeholder", False)
                self.pods.append(pod)
                self.open[pod.name] = pod
            case "batch":
                for name in record["pods"]:
                    # A pod that runs may be planned for again, because its node goes away: not its waiting.
                    if name in self.open and self.open[name].bound is None:
                        self.open[name].batches.append(record["closed"])
            case "instance.started" if record.get("claim"):
                self.started.setdefault(record["claim"], record["t"])
            case "node.created":
                self.claim_of[record["node"]] = record.get("claim") or ""
                self.joined.add(record.get("claim") or "")
            case "instance.launchFailed":
                self.failed[record["claim"]] = f"{record.get('reason', '')}: {record.get('message', '')}"
            case "claim.deleted" if record["claim"] not in self.joined:
                self.failed.setdefault(record["claim"], "" if record["claim"] in self.started else _NOTHING)
            case "event" if record.get("reason") == "FailedScheduling":
                name = record["object"].removeprefix("Pod/")
                if name in self.open and not self.open[name].nominations:
                    self.open[name].refusal = record["message"].removeprefix(_REFUSED)
            case "event" if record.get("reason") == "Preempted":
                name = record["object"].removeprefix("Pod/")
                if name in self.open:
                    self.open[name].preempted = True
            case "node.ready":
                self.ready.setdefault(record["node"], record["t"])
            case kind if record.get("pod") in self.open:
                self._read_pod(kind, record, self.open[record["pod"]])

    def _read_pod(self, kind: str, record: Record, pod: _Pod) -> None:
        match kind:
            case "pod.unschedulable":
                pod.unschedulable, pod.message = True, record.get("message", "")
            case "pod.ignored" if pod.bound is None:
                pod.batches.append(record["t"])
            case "nominated" if pod.bound is None:
                pod.nominations.append((record["t"], record.get("claim") or ""))
            case "pod.bound":
                pod.bound, pod.node = record["t"], record["node"]
            case "pod.running" if pod.running is None:
                pod.running = record["t"]
            case "pod.deleted":
                pod.deleted = record["t"]
                del self.open[pod.name]


def waits(records: Iterable[Record], end: int) -> tuple[Wait, ...]:
    """The time of every pod of the log, in order of creation; `end` is the log's last instant."""
    book = _Book()
    for record in records:
        book.read(record)
    losers = {pod.owner for pod in book.pods if pod.preempted and pod.owner}
    return tuple(_wait(pod, book, end, rivals=pod.owner in losers) for pod in book.pods)


def _wait(pod: _Pod, book: _Book, end: int, *, rivals: bool) -> Wait:
    ended = next(instant for instant in (pod.running, pod.deleted, end) if instant is not None)
    return Wait(
        pod=pod.name,
        owner=pod.owner,
        created=pod.created,
        ended=ended,
        bound=pod.bound,
        parts=split(pod.created, ended, _cuts(pod, book)),
        waited=pod.unschedulable or bool(pod.batches) or bool(pod.nominations),
        placeholder=pod.placeholder,
        deleted=pod.deleted is not None,
        node=pod.node,
        attempts=len({claim for _, claim in pod.nominations if claim}),
        message=pod.message,
        refusal=pod.refusal,
        failure=next((book.failed[one] for _, one in reversed(pod.nominations) if one in book.failed), None),
        preempted=pod.preempted,
        rivals=rivals,
    )


def _cuts(pod: _Pod, book: _Book) -> tuple[tuple[str, int | None], ...]:
    if pod.owner.startswith("DaemonSet/"):  # nothing is planned for it: its node is there
        return (
            *((part, pod.created) for part in PARTS[:-2]),
            ("scheduling", pod.bound),
            ("start", pod.running),
        )
    nominated = pod.nominations[0][0] if pod.nominations else None
    claim = book.claim_of.get(pod.node, "") if pod.node else _last_claim(pod)
    # A claim that came to nothing, and none after it yet: it is still being tried again.
    lost = not pod.node and claim in book.failed
    before = [closed for closed in pod.batches if nominated is None or closed <= nominated]
    return (
        ("batching", pod.batches[0] if pod.batches else None),
        # Without a nomination no round is known to be the last one: the pod is blocked until it is bound.
        ("blocked", before[-1] if before and nominated is not None else None),
        ("solve", nominated),
        ("retries", _held(pod, book.failed)),
        ("replanned", None if lost else next((at for at, name in pod.nominations if name == claim), None)),
        ("launch", None if lost else book.started.get(claim)),
        ("join", book.ready.get(pod.node) if claim else None),
        ("scheduling", pod.bound),
        ("start", pod.running),
    )


def _held(pod: _Pod, failed: Mapping[str, str]) -> int | None:
    """The first nomination after the last to a failed claim; None when there was no such claim."""
    lost = [i for i, (_, claim) in enumerate(pod.nominations) if claim in failed]
    after = pod.nominations[lost[-1] + 1 :] if lost else []
    return after[0][0] if after else None


def _last_claim(pod: _Pod) -> str:
    return next((claim for _, claim in reversed(pod.nominations) if claim), "")


def split(created: int, ended: int, cuts: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    """Lengths by part, in order of `cuts`, summing to `ended - created`; None is a cut that never came."""
    listed = list(cuts)
    parts = {name: 0 for name, _ in listed}
    came = [i for i, (_, instant) in enumerate(listed) if instant is not None]
    cursor = created
    for i in came:
        name, instant = listed[i]
        stop = min(max(instant or 0, cursor), ended)
        parts[name] += stop - cursor
        cursor = stop
    awaited = came[-1] + 1 if came else 0
    parts[listed[min(awaited, len(listed) - 1)][0]] += ended - cursor
    return parts


_ADVICE = {
    "batching": "until its first batch closed; a shorter batch window (--batch-idle-duration, "
    "--batch-max-duration) saves at most this",
    "blocked": "no pool could take it, round after round",
    "solve": "planning took that long; a smaller deadline for the solver would cut it, at some cost in price",
    "retries": cures.CAPACITY,
    "replanned": "the room planned for it went to other pods first, and it was planned for again; a higher "
    "priority (priorityClassName) puts it ahead",
    "launch": "the cloud took that long to start an instance; only capacity that is already there is faster",
    "join": "the instance took that long to boot and become Ready; a leaner image or a spare node "
    "(low-priority placeholder pods) hides it",
    "scheduling": "it waited for the scheduler or for room on a node that was there",
    "start": "pulling images and starting containers took that long; smaller or preloaded images help",
}


def explain(wait: Wait) -> str:
    """One sentence: how long it was, where most of it went, what would have made it shorter."""
    part = wait.largest
    seconds, whole = _seconds(wait.parts[part]), _seconds(wait.total)
    outcome = "" if wait.bound is not None else ", without a node to the end,"
    return f"{seconds} of {whole}{outcome} went to {part}{reason(wait, part)}: {advice(wait, part)}."


def reason(wait: Wait, part: str) -> str:
    """What stood in the way, in brackets: the controller's word counts before the scheduler's; or ""."""
    if part == "retries" and wait.failure:
        return f" ({wait.failure})"
    text = (wait.refusal or wait.message) if part == "blocked" else ""
    return f" ({text})" if text else ""


def advice(wait: Wait, part: str) -> str:
    """What makes that part shorter."""
    if part == "blocked" and wait.refusal:
        return f"{_ADVICE[part]}; {cures.of_refusal(wait.refusal)}"
    if part == "retries" and wait.failure is not None:
        return cures.of_failure(wait.failure)
    if part == "scheduling" and wait.rivals:
        return cures.of_preemption(wait.owner)
    return _ADVICE[part]


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.1f} s"


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch in which an autoscaler wanted more than its maximum; nanoseconds since the epoch."""

    start: int
    end: int
    waiting: bool  # some pod of its target had no node


def at_maximum(records: Iterable[Record], end: int) -> dict[str, tuple[Spell, ...]]:
    """Per HorizontalPodAutoscaler, the spells at its maximum, as its syncs saw them (every 15 s).

    A spell without waiting pods is one in which no node autoscaler can help: nothing asks for a node.
    """
    spells: dict[str, list[Spell]] = {}
    running: dict[str, tuple[int, bool] | None] = {}
    for record in [*(item for item in records if item["kind"] == "hpa"), None]:
        names = [record["name"]] if record is not None else list(running)
        now = record["t"] if record is not None else end
        state = (now, record["waiting"] > 0) if record is not None and record["limited"] else None
        for name in names:
            known = running.get(name)
            if known is not None and (state is None or known[1] != state[1]):
                spells.setdefault(name, []).append(Spell(known[0], now, known[1]))
                known = None
            running[name] = state if known is None else known
    return {name: tuple(found) for name, found in sorted(spells.items())}
