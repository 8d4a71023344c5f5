"""The summary of a simulation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dovetail.base.words import number_of
from dovetail.simulate.analysis.figures import (
    DisruptionFigures,
    EfficiencyFigures,
    PlanFigures,
    Quantiles,
    Summary,
)
from dovetail.simulate.analysis.waiting import PARTS

_OWNERS = 8
_PREEMPTED = 3
_SMALLEST = 0.05  # seconds


def summary_table(summary: Summary) -> RenderableType:
    """What happened, how long pods waited and why, what it cost, and what of it is assumed."""
    sections: list[tuple[str, RenderableType]] = [("", _figures(summary))]
    if summary.waiting.pods:
        pods = number_of(summary.waiting.pods, "waiting pod")
        sections.append((f"Where the time of {pods} went", _parts(summary)))
        sections.append(("Who waited longest, and what would have made it shorter", _owners(summary)))
    if summary.hpa_at_maximum:
        sections.append(("Autoscalers at their maximum", _maximum(summary)))
    if summary.traffic:
        sections.append(("Traffic (a model, not a measurement)", _traffic(summary)))
    if summary.violations:
        sections.append(("Broken rules", _violations(summary)))
    sections.append(("Assumed, not measured", Text("\n".join(summary.assumptions), style="dim")))
    lines: list[RenderableType] = []
    for title, body in sections:
        if title:
            lines.append(Text(f"\n{title}", style="bold"))
        lines.append(Padding(body, (0, 0, 0, 2)))
    return Group(*lines)


def _grid(*columns: str, heading: bool = True) -> Table:
    """A plain table; a column whose name ends in > is set flush right. Names are not cut."""
    table = Table(box=None, show_header=heading, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        right = column.endswith(">")
        table.add_column(column.removesuffix(">"), justify="right" if right else "left", overflow="fold")
    return table


def _figures(summary: Summary) -> Table:
    pods, nodes, cost = summary.pods, summary.nodes, summary.cost
    table = _grid("", "", heading=False)
    unbound = f", [yellow]{pods.unbound} still without a node[/]" if pods.unbound else ""
    if pods.unbound_placeholders:
        unbound += f" ({pods.unbound_placeholders} of a priority below 0)"
    table.add_row("Pods", f"{pods.created:,} created, {pods.bound:,} bound{unbound}")
    for label, (workload, why) in zip(chain(["Refused"], repeat("")), summary.refused.items(), strict=False):
        table.add_row(label, f"[yellow]pods of {escape(workload)}: {escape(why)}[/]")
    if pods.preempted:
        table.add_row("Preempted", _preempted(pods.preempted))
    if pods.bound:
        table.add_row("Pending", _quantiles(pods.pending_seconds))
    failures = f"; failed launches: {nodes.launch_failures}" if nodes.launch_failures else ""
    kept = [f"{nodes.base:,} of them always there"] if nodes.base else []
    kept += [f"{nodes.initial:,} of NodePools at the start"] if nodes.initial else []
    there = f" ({', '.join(kept)})" if kept else ""
    table.add_row(
        "Nodes",
        f"{nodes.launched:,} launched, {nodes.terminated:,} terminated, at most {nodes.peak:,} at once"
        f"{there}{failures}",
    )
    if nodes.expired:
        daily = f"{nodes.expired_daily:,.0f} launches a day, each of which pulls its images anew"
        table.add_row("", f"{nodes.expired} ended by expireAfter: at that rate {daily}")
    table.add_row(
        "Cost",
        f"{_dollars(cost.total)}: base {_dollars(cost.base)}, on-demand {_dollars(cost.on_demand)}, "
        f"spot {_dollars(cost.spot)}; at most ${cost.peak_hourly:,.3f}/h",
    )
    if cost.paid != cost.total:
        vain = f", ${cost.unused:,.2f} of it in vain" if cost.unused else ""
        table.add_row("", f"${cost.paid:,.2f} are paid under the commitments{vain}")
    notes = [f"{_dollars(cost.volumes)} of it for volumes"] if cost.volumes else []
    notes += [f"{_dollars(cost.estimated)} of it rests on estimated prices"] if cost.estimated else []
    if notes:
        table.add_row("", f"[dim]{', '.join(notes)}[/]")
    if summary.efficiency.mean is not None:
        table.add_row("Efficiency", _efficiency(summary.efficiency))
    if summary.plans.settled:
        table.add_row("Plans", _plans(summary.plans))
    for label, line in zip(chain(["Disruption"], repeat("")), _disruption(summary.disruptions), strict=False):
        table.add_row(label, line)
    broken = len(summary.violations)
    if broken:
        rules = f"[bold red]{broken} broken[/]"
    else:
        rules = "[green]none broken[/]" if summary.invariants_checked else "not checked: they are Dovetail's"
    table.add_row("Rules", rules)
    table.add_row(
        "Time",
        f"{_clock(summary.simulated_seconds)} simulated in {summary.wall_seconds:.1f} s; seed {summary.seed}",
    )
    table.add_row("sha256", summary.event_log_sha256)  # of the event log
    return table


def _preempted(owners: Mapping[str, int]) -> str:
    """Who gave way, those with most pods first."""
    first = list(owners.items())[:_PREEMPTED]
    parts = [f"{count} of {escape(owner)}" for owner, count in first]
    rest = sum(owners.values()) - sum(count for _, count in first)
    parts += [f"{rest} of others"] if rest else []
    pods = number_of(sum(owners.values()), "pod")
    return f"[yellow]{pods} gave way to a higher priority: {', '.join(parts)}[/]"


def _efficiency(figures: EfficiencyFigures) -> str:
    first, mean, last = (
        f"{value:.0%}" for value in (figures.start or 0, figures.mean or 0, figures.end or 0)
    )
    sentence = f"{mean} of what nodes of NodePools cost is proven necessary; {first} at first, {last} at last"
    if figures.end == 0:
        sentence += ", when other nodes would have had room for all pods"
    return sentence


def _plans(figures: PlanFigures) -> str:
    pods = figures.pods_here + figures.pods_elsewhere + figures.pods_replanned + figures.pods_gone
    share = f", {100 * figures.pods_here / pods:.0f} % of their pods went where planned" if pods else ""
    failed = f", {number_of(figures.nodes_failed, 'node')} failed" if figures.nodes_failed else ""
    return (
        f"{figures.settled} that bought: ${figures.realised_hourly:,.3f}/h came of "
        f"${figures.planned_hourly:,.3f}/h planned{failed}{share}"
    )


def _disruption(figures: DisruptionFigures) -> list[str]:
    """Nothing where nothing was disrupted."""
    if not figures.nodes and not figures.commands:
        return []
    failed = f", {figures.failed} given up: no replacement came" if figures.failed else ""
    lines = [
        f"{number_of(figures.nodes, 'node')} ended, {number_of(figures.pods_moved, 'pod')} moved, "
        f"{_saved(figures.saved_hourly)}{failed}"
    ]
    for reason, part in figures.by_reason.items():
        moved = f"{number_of(part.nodes, 'node')}, {number_of(part.pods_moved, 'pod')} moved"
        saved = f", {_saved(part.saved_hourly)}" if part.commands else ""
        lines.append(f"[dim]{reason.replace('_', ' ')}: {moved}{saved}[/]")
    for pool, use in figures.budgets.items():
        full = f", full for {use.full_seconds / 60:,.0f} min" if use.full_seconds else ""
        if use.most_used:
            lines.append(
                f"[dim]budgets of {pool}: at most {number_of(use.most_used, 'node')} at once{full}[/]"
            )
    return lines


def _saved(dollars: float) -> str:
    return f"${dollars:,.3f}/h saved" if dollars >= 0 else f"${-dollars:,.3f}/h more"


def _quantiles(values: Quantiles) -> str:
    return (
        f"50 % of the pods up to {values.p50:.1f} s, 90 % up to {values.p90:.1f} s, "
        f"99 % up to {values.p99:.1f} s, at most {values.max:.1f} s"
    )


def _clock(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours} h {rest // 60:02} min"


def _dollars(value: float) -> str:
    """With four decimals where two would say nothing."""
    return f"${value:,.{4 if 0 < value < 0.1 else 2}f}"


def _parts(summary: Summary) -> Table:
    """Two lines per entry, not one row: names of pods are long, and terminals are narrow."""
    waiting = summary.waiting
    table = _grid("", heading=False)
    table.add_row(f"[bold]on average: {sum(waiting.mean.values()):.1f} s[/]")
    table.add_row(Padding(_spelled(waiting.mean), (0, 0, 0, 2)))
    for pod in waiting.worst:
        table.add_row(f"[bold]{pod.pod}: {pod.total_seconds:.1f} s[/]")
        table.add_row(Padding(_spelled(pod.parts), (0, 0, 0, 2)))
    return table


def _spelled(parts: Mapping[str, float]) -> Text:
    """ "batching 1.0 s, join 30.1 s"; parts that round to nothing are left out, the largest stands out."""
    shown = [part for part in PARTS if parts[part] >= _SMALLEST]
    largest = max(shown, key=lambda part: parts[part], default="")
    pieces = [(f"{part} {parts[part]:.1f} s", "yellow" if part == largest else "dim") for part in shown]
    return Text(", ", style="dim").join(Text(text, style=style) for text, style in pieces)


def _owners(summary: Summary) -> Table:
    table = _grid("", heading=False)
    for owner in summary.waiting.by_owner[:_OWNERS]:
        count = number_of(owner.pods, "pod")
        mean = f", {owner.mean_seconds:.1f} s on average" if owner.pods > 1 else ""
        table.add_row(f"[bold]{owner.owner}[/]: {count}{mean}, {owner.max_seconds:.1f} s at most")
        table.add_row(Padding(Text(owner.explanation, style="dim"), (0, 0, 0, 2)))
    return table


def _maximum(summary: Summary) -> Table:
    table = _grid("", heading=False)
    for name, figures in summary.hpa_at_maximum.items():
        idle, waiting = figures.nothing_pending_seconds, figures.waiting_for_nodes_seconds
        table.add_row(
            f"[bold]{name}[/]: wanted more than maxReplicas {figures.maximum} for {idle + waiting:.0f} s"
        )
        advice = (
            f"{idle:.0f} s of it without a pending pod: no node autoscaler can help, raise maxReplicas; "
            f"{waiting:.0f} s while pods waited for nodes"
        )
        table.add_row(Padding(Text(advice, style="dim"), (0, 0, 0, 2)))
    return table


def _traffic(summary: Summary) -> Table:
    table = _grid("service", "requests>", "over capacity>", "share>", "overloaded for>")
    for name, figures in summary.traffic.items():
        share = 100 * figures.over_capacity / figures.requests if figures.requests else 0.0
        table.add_row(
            name,
            f"{figures.requests:,}",
            f"{figures.over_capacity:,}",
            f"{share:.2f} %",
            f"{figures.overloaded_seconds} s",
        )
    return table


def _violations(summary: Summary) -> Table:
    table = _grid("rule", "what", "how")
    for item in summary.violations:
        table.add_row(item.rule, item.subject, item.message)
    return table
