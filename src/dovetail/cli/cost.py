"""`dovetail cost`: what the past cost, and who bears it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.cli.cost_source import Source, under
from dovetail.units.duration import parse_duration

if TYPE_CHECKING:
    from dovetail.cost.aggregate import Split
    from dovetail.cost.commitments import Terms, Used
    from dovetail.cost.facts import Facts, Workload
    from dovetail.cost.filters import Test
    from dovetail.cost.idle import Cause
    from dovetail.cost.window import Window

_SPLITS: dict[str, Split] = {"even": "__even__", "weighted": "__weighted__"}
_WINDOWS = "such as 7d, 24h, today, lastweek, '1d offset 1d' or 2026-03-01T00:00:00Z,2026-03-02T00:00:00Z"


def cost(
    source: Path,
    *,
    window: str = "",
    aggregate: str = "namespace",
    idle: Annotated[bool, Parameter(negative="")] = False,
    share: Annotated[bool, Parameter(negative="")] = False,
    by_node: Annotated[bool, Parameter(negative="")] = False,
    filter: str = "",  # noqa: A002 - OpenCost's name of it
    overhead: str = "",
    overhead_hourly: tuple[str, ...] = (),
    split: Literal["weighted", "even"] = "weighted",
    step: str = "",
    accumulate: Literal["none", "all", "hour", "day", "week", "month", "quarter"] = "none",
    why: Annotated[bool, Parameter(negative="")] = False,
    commitments: Path | None = None,
    output: Annotated[Literal["table", "csv", "json", "opencost"], Parameter(alias="-o")] = "table",
) -> None:
    """Show what the past cost and who bears it, by namespace, workload, label, node: parts sum to the bill.

    As in OpenCost a container bears what it requests (or uses, if that is more) of its node's price, root
    volumes included; what nothing bears is idle. Every sum is exact to the nano-dollar.

    Examples:

    - `dovetail cost /var/lib/dovetail/cost.db --window 7d --aggregate label:team --idle`
    - `dovetail cost events.jsonl --aggregate controller --share`
    - `dovetail cost examples/evening-rush --why`
    - `dovetail cost cost.db --window lastmonth --step 24h -o csv`
    - `dovetail cost cost.db --window 7d --commitments commitments.yaml`
    - `dovetail cost cost.db --overhead 'namespace:"kube-system"' --share --filter 'label[team]:"web"'`

    Parameters
    ----------
    source
        A record that --cost-store made (of `dovetail run`, or of `dovetail simulate`), a log of either, or a
        folder with a scenario.yaml, which is played.
    window
        All that is known by default. The texts of OpenCost, counted from the end of what is known: 7d, 24h,
        today, yesterday, week, lastweek, month, lastmonth, "1d offset 1d", two instants with a comma.
    aggregate
        cluster, node, namespace, controllerKind, controller, deployment, statefulset, daemonset, job, pod,
        container, service, label:NAME, annotation:NAME; several with commas between them; all is one sum.
    idle
        A line for what no pod bears.
    share
        Lay it on those that have something of the same cluster, in proportion to their cost.
    by_node
        With --share: on those of the same node.
    filter
        Only what it matches, in OpenCost's language: 'namespace:"shop"+label[team]!:"a"'.
    overhead
        Such a filter: what it matches is borne by the others.
    overhead_hourly
        NAME=DOLLARS an hour that they bear as well. Can be given several times.
    split
        How they bear it: weighted by their cost, or even.
    step
        Cut the window into pieces such as 1h or 24h, each with its own answer.
    accumulate
        Put pieces together again: all, or by hour, day, week, month, quarter.
    why
        Show what causes idle as well.
    commitments
        A file with savings plans, reserved instances and licences: costs are what is paid under them.
    output
        table for people; csv and json have nine decimals, opencost is the JSON of its HTTP API.
    """
    from rich.console import Console

    from dovetail.cli import cost_output
    from dovetail.cost.aggregate import Options, shares_of
    from dovetail.cost.ledger import stepped

    keys = _keys(aggregate)
    options = Options(
        aggregate=keys,
        include_idle=True,
        idle_by_node=by_node,
        share_idle=share,
        keep=_test(filter, "--filter"),
        share=_test(overhead, "--overhead"),
        shared_hourly=_hourly(overhead_hourly),
        share_split=_SPLITS[split],
        accumulate=accumulate,
        metadata=True,
        whole=True,
    )
    # What is misspelt is refused before a scenario is played, which may take minutes.
    length = _length(step) if step else 0
    if window:
        _parsed(window, 0)
    terms = _terms(commitments)
    read = under(terms, Source(source))
    asked = _window(window, read.span, source)
    facts = read.read(asked.start, asked.end)
    pieces = asked.steps(length) if length else [asked]
    try:
        answers = shares_of(stepped(facts, pieces), options)
    except ValueError as error:
        raise InputError(str(error), source="--accumulate", remedy="see --step") from None
    shown = cost_output.Answer(
        window=asked,
        known=read.span,
        keys=keys,
        sets=tuple(answers),
        bill=sum(facts.bill(one.start, min(one.end, max(one.start, facts.end))) for one in pieces),
        overhead=sum(round(dollars * 1e9) for dollars in options.shared_hourly.values()),
        filtered=options.keep is not None,
        idle=idle or share,
        causes=_causes(facts, asked, keys) if why else None,
        commitments=_used(facts, asked),
    )
    cost_output.show(shown, output, Console())


def _terms(path: Path | None) -> Terms | None:
    from dovetail.simulate.scenario.commitments import read_terms

    return None if path is None else read_terms(path)


def _used(facts: Facts, window: Window) -> tuple[Used, ...]:
    from dovetail.cost.commitments import uses

    return uses(facts, window.start, window.end)


def _keys(given: str) -> tuple[str, ...]:
    from dovetail.cost.aggregate import strict_keys

    try:
        return strict_keys(given)
    except ValueError as error:
        raise InputError(
            str(error),
            source="--aggregate",
            remedy="give namespace, controller, pod, node, label:NAME or the like: see dovetail cost --help",
        ) from None


def _test(given: str, flag: str) -> Test | None:
    from dovetail.cost.filters import parse_filter

    try:
        return parse_filter(given)
    except ValueError as error:
        where = " ".join(str(error).split())
        raise InputError(
            where, source=flag, remedy="""write FIELD:"VALUE", such as 'namespace:"shop"+label[team]!:"a"'"""
        ) from None


def _hourly(given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            dollars = float(amount)
        except ValueError:
            dollars = -1.0
        if not name or not 0 <= dollars < 1e9:
            raise InputError(
                f"{text!r} is not NAME=DOLLARS", source="--overhead-hourly", remedy="such as support=0.50"
            )
        found[name] = dollars
    return found


def _parsed(window: str, now: int) -> Window:
    from dovetail.cost.window import parse_window

    try:
        return parse_window(window, now)
    except ValueError as error:
        raise InputError(str(error), source="--window", remedy=_WINDOWS) from None


def _window(text: str, span: tuple[int, int], source: Path) -> Window:
    from dovetail.cli import cost_output
    from dovetail.cost.window import Window

    start, end = span
    if end <= start:
        raise InputError("has nothing in it yet", source=str(source))
    if not text:
        return Window(start, end)
    found = _parsed(text, end - 1)  # a record that ends at midnight ends with its day
    if found.length <= 0 or found.start >= end or found.end <= start:
        shown = cost_output.spoken(Window(start, end))
        raise InputError(
            f"{text!r} is not within what is known", source="--window", remedy=f"known is {shown}"
        )
    return found


def _length(text: str) -> int:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise InputError(str(error), source="--step", remedy="such as 1h or 24h") from None
    if found < 60 * 10**9:
        raise InputError(f"{text!r} is less than 1m", source="--step", remedy="such as 1h or 24h")
    return found


def _causes(facts: Facts, window: Window, keys: tuple[str, ...]) -> dict[Cause, int]:
    from dovetail.cost.aggregate import key_of
    from dovetail.cost.allocation import Properties
    from dovetail.cost.filters import sanitized
    from dovetail.cost.idle import causes
    from dovetail.cost.ledger import allocations

    def group(work: Workload, pod: str) -> str:
        labels = {sanitized(key): value for key, value in work.labels}
        about = Properties(
            cluster=facts.cluster,
            controller=work.owner,
            controller_kind=work.kind,
            namespace=work.namespace,
            pod=pod,
            labels=labels,
        )
        return key_of(about, keys)

    made, nodes = allocations(facts, window)
    return causes(facts, made, nodes, group)
