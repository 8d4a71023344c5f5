"""What `dovetail explain` says of the past, from a log: a node, a pod's wait, what plans came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.base.words import number_of
from dovetail.cli.messages import note
from dovetail.cli.question import Output, Question, length_of, show

if TYPE_CHECKING:
    from dovetail.api.core import Pod
    from dovetail.simulate.analysis.waiting import Wait
    from dovetail.views.realised import Realised
    from dovetail.views.waited import Moved, Saving, Way

_SHOWN = 10  # pods that moved, the longest first


def print_node(path: Path, name: str, timezone: str, question: Question | None, output: Output) -> None:
    """Why a node was bought and why it went, by the log; what its pods suffered, with a snapshot."""
    from rich.console import Group
    from rich.text import Text

    from dovetail.cli.tables import add_row, new_table
    from dovetail.views import history as past
    from dovetail.views.waited import moved_from, pods_of, saving_of

    zone, records = _zone(timezone), past.read_log(path, note)
    with _whole(path):
        moments = past.history(records, name)
    if not moments:
        known = past.names(records)
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        has = f"the log has {', '.join(known[:3])}{more}" if known else "the log has no nodes"
        remedy = meant(name, known, has, most=3)
        raise InputError(f"there is no node {name} in the log", source=str(path), remedy=remedy)
    table = new_table(f"What happened to {name}")
    table.add_column("Time", no_wrap=True)
    table.add_column("What", overflow="fold")
    for moment in moments:
        add_row(table, past.shown_time(moment.at, zone), moment.text)
    snapshot = _pods(question)
    with _whole(path):
        moved, saving = moved_from(records, name, pods_of(records, snapshot)), saving_of(records, name)
    rows = [{"t": item.at, "text": item.text, "record": dict(item.record)} for item in moments]
    document: dict[str, Any] = {"node": name, "history": rows}
    if saving is not None:
        document["saving"] = {"promised": saving.promised, "came": saving.came}
    if moved:
        document["pods"] = [_moved_document(one) for one in moved]
    show(Group(table, *map(Text, (*_saved(saving), *_suffered(moved)))), document, output)


@contextmanager
def _whole(log: Path) -> Iterator[None]:
    """Records that lack what theirs always have are the log's fault: it was cut or edited."""
    try:
        yield
    except KeyError as lacking:
        remedy = "give the log as the controller wrote it, or what `dovetail simulate --events FILE` wrote"
        raise InputError(f"a record has no {lacking}", source=str(log), remedy=remedy) from None


def _saved(saving: Saving | None) -> Iterator[str]:
    if saving is None:
        return
    promised = f"${saving.promised:.4f}/h"
    given = f": the cloud gave {', '.join(saving.otherwise)}" if saving.otherwise else ""
    if saving.came is None:
        yield f"Of {promised} to save it is not known how much came{given}."
    elif saving.came == saving.promised:
        yield f"The {promised} to save came as promised."
    else:
        yield f"Of {promised} to save, ${saving.came:.4f}/h came{given}."


def _moved_document(one: Moved) -> dict[str, Any]:
    wait = one.successor
    if wait is None:
        return {"pod": one.pod}
    return {
        "pod": one.pod,
        "successor": wait.pod,
        "pendingSeconds": wait.pending / SECOND,
        "notReadySeconds": wait.total / SECOND,
    }


def _suffered(moved: Sequence[Moved]) -> Iterator[str]:
    if not moved:
        return
    found = sorted(
        ((one.pod, one.successor) for one in moved if one.successor is not None),
        key=lambda pair: -pair[1].total,
    )
    count = number_of(len(moved), "pod")
    if not found:
        yield f"{count} had to move. What came in their stead is not known: give a snapshot with -f."
        return
    pending = max(wait.pending for _, wait in found)
    yield (
        f"{count} had to move; {len(found)} were made anew: without a place for {_length(pending)} at most, "
        f"not ready for {_length(found[0][1].total)} at most."
    )
    for pod, wait in found[:_SHOWN]:
        yield f"  {pod} -> {wait.pod}: pending {_length(wait.pending)}, ready after {_length(wait.total)}"
    if len(found) > _SHOWN:
        yield f"  and {len(found) - _SHOWN} that were quicker"


def wait(
    name: str,
    /,
    *,
    history: Path,
    within: str | None = None,
    question: Question | None = None,
    timezone: str = "UTC",
    output: Output = "table",
) -> None:
    """Show where the time of a pod that waited went, by a log, and what would have made it shorter.

    A simulation's log has all of it. The controller's log says what was decided and launched; when the pod
    was made, bound and ready stands in the pod, so give a snapshot with -f, or --kubeconfig, as well.

    Examples:

    - `dovetail explain wait shop/web-7f9c-x2x5p --history controller.log -f cluster.json.gz --within 40s`
    - `dovetail explain wait shop/web-7f9c-x2x5p --history events.jsonl`

    Parameters
    ----------
    name
        The pod as NAMESPACE/NAME; without a namespace, default is meant.
    history
        The log of `dovetail run`, or what `dovetail simulate --events FILE` writes.
    within
        How long it should have taken, such as 40s: no more changes are named than that takes.
    timezone
        How times are shown, such as Asia/Seoul.
    output
        table for people; json or yaml with every detail for programs.
    """
    from dovetail.views.history import read_log, shown_time
    from dovetail.views.waited import pods_of, shorter

    key = name if "/" in name else f"default/{name}"
    aim, zone = length_of("--within", within, "40s") if within is not None else None, _zone(timezone)
    records = read_log(history, note)
    snapshot = _pods(question)
    with _whole(history):
        known = pods_of(records, snapshot)
    found = [one for one in known if one.pod == key]
    if not found:
        names = sorted({one.pod for one in known})
        of_run = not any(record["kind"] == "pod.created" for record in records)
        missing = "give a snapshot that has the pod with -f: the controller's log has no times of pods"
        has = missing if of_run and not snapshot else f"{len(names)} pods are known"
        remedy = meant(key, names, has, most=3)
        raise InputError(f"nothing is known of a pod {key}", source=str(history), remedy=remedy)
    one = max(found, key=lambda item: item.total)  # of several by that name
    ways = shorter(one, aim)
    span = f"{shown_time(one.created, zone)} to {shown_time(one.ended, zone)}"
    show(_wait_tables(one, ways, aim, span), _wait_document(one, ways), output)


def _wait_tables(one: Wait, ways: Sequence[Way], aim: int | None, span: str) -> Any:
    from rich.console import Group
    from rich.text import Text

    from dovetail.cli.tables import add_row, new_table
    from dovetail.simulate.analysis.waiting import PARTS, reason

    end = "until it was ready" if one.bound is not None else "and it never got a node"
    headline = Text(f"{one.pod}: {_length(one.total)} {end} ({span})")
    table = new_table("Where the time went", "Part", "Took")
    table.add_column("Why", overflow="fold")
    for part in PARTS:
        if one.parts[part]:
            add_row(table, part, _length(one.parts[part]), reason(one, part).strip(" ()"))
    lines = []
    if aim is not None and one.total <= aim:
        lines.append(f"It took no more than {_length(aim)}.")
        ways = ()
    for way in ways:
        what = f"without {' and '.join(way.parts)}"
        if way.ahead:
            what = "with a place at once"
        mark = "" if aim is None else (" (in time)" if way.total <= aim else " (too late)")
        lines.append(f"{_length(way.total)} {what}{mark}: {way.text}")
    return Group(headline, table, *map(Text, lines))


def _wait_document(one: Wait, ways: Sequence[Way]) -> dict[str, Any]:
    return {
        "pod": one.pod,
        "owner": one.owner,
        "node": one.node,
        "created": one.created,
        "seconds": one.total / SECOND,
        "pendingSeconds": one.pending / SECOND,
        "parts": {part: length / SECOND for part, length in one.parts.items()},
        "attempts": one.attempts,
        "ways": [
            {"without": list(way.parts), "seconds": way.total / SECOND, "text": way.text} for way in ways
        ],
    }


def realised(*, history: Path, timezone: str = "UTC", output: Output = "table") -> None:
    """Show what plans promised and what came of it, by a log: cost, pods, nodes, the gap as it was lived.

    The gap of a plan is what no proof covers of its cost. What schedulers, clouds and time made of it is in
    the records of realised plans; what the whole cluster cost over the time, daemons, limits and churn
    included, is held against what its pods had to cost at least.

    Example: `dovetail explain realised --history controller.log`.

    Parameters
    ----------
    history
        The log of `dovetail run`, or what `dovetail simulate --events FILE` writes.
    timezone
        How times are shown, such as Asia/Seoul.
    output
        table for people; json or yaml with every detail for programs.
    """
    from rich.console import Group
    from rich.text import Text

    from dovetail.views.history import read_log, shown_time
    from dovetail.views.realised import realised as sum_up

    zone = _zone(timezone)
    records = read_log(history, note)
    with _whole(history):
        found = sum_up(records)
    if found is None:
        raise InputError(
            "the log has no plans",
            source=str(history),
            remedy="take one from when the controller bought nodes",
        )
    span = f"{shown_time(found.first, zone)} to {shown_time(found.last, zone)}"
    show(Group(Text(span), *map(Text, _realised_lines(found))), _realised_document(found), output)


def _realised_lines(found: Realised) -> Iterator[str]:
    if found.plans:
        yield (
            f"Promised: {number_of(found.plans, 'plan')} for ${found.planned:,.4f}/h, "
            f"at least ${found.least:,.4f}/h "
            f"proven necessary: a gap of {100 * found.claimed_gap:.1f} %."
        )
    if found.settled:
        change = found.settled_realised / found.settled_planned - 1 if found.settled_planned else 0.0
        yield (
            f"Launched: of {number_of(found.settled, 'plan')} that came to an end, "
            f"${found.settled_planned:,.4f}/h were planned and "
            f"${found.settled_realised:,.4f}/h given by the cloud ({100 * change:+.1f} %); "
            f"{found.nodes['joined']:,} nodes joined, {found.nodes['failed']:,} did not."
        )
        ran = sum(found.pods[one] for one in ("here", "elsewhere", "replanned"))
        causes = ", ".join(f"{cause} {count:,}" for cause, count in found.causes.most_common())
        share = f" ({100 * found.pods['here'] / ran:.1f} %)" if ran else ""
        yield (
            f"Placed: {found.pods['here']:,} of {ran:,} pods{share} where the plan had put them, "
            f"{found.pods['elsewhere']:,} elsewhere, {found.pods['replanned']:,} planned again"
            f"{f' ({causes})' if causes else ''}; {found.pods['gone']:,} were deleted before."
        )
    if found.hours:
        yield (
            f"Lived: in {found.hours:,.1f} hours the cluster's nodes cost ${found.cost:,.4f}/h in the mean, "
            f"and no nodes do for less than ${found.cluster_least:,.4f}/h: a gap of "
            f"{100 * found.lived_gap:.1f} %."
        )


def _realised_document(found: Realised) -> dict[str, Any]:
    return {
        "from": found.first,
        "to": found.last,
        "plans": found.plans,
        "plannedHourly": found.planned,
        "plannedLeastHourly": found.least,
        "claimedGap": found.claimed_gap,
        "settled": {
            "plans": found.settled,
            "plannedHourly": found.settled_planned,
            "realisedHourly": found.settled_realised,
            "pods": dict(found.pods),
            "nodes": dict(found.nodes),
            "causes": dict(found.causes),
        },
        "cluster": {
            "hours": found.hours,
            "meanHourly": found.cost,
            "meanLeastHourly": found.cluster_least,
            "gap": found.lived_gap,
        },
    }


def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (ValueError, ZoneInfoNotFoundError):
        remedy = "give an IANA name, such as Asia/Seoul"
        raise InputError(f"{timezone!r} is no time zone", source="--timezone", remedy=remedy) from None


def _pods(question: Question | None) -> tuple[Pod, ...]:
    """Those of the snapshot, where one is given."""
    from dovetail.api.core import Pod

    if question is None or not (question.filename or question.kubeconfig or question.context):
        return ()
    return tuple(item.object for item in question.reading.manifests if isinstance(item.object, Pod))


def _length(nanoseconds: int) -> str:
    seconds = nanoseconds / SECOND
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.0f} s"
