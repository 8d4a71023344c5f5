"""How `dovetail rightsize` shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.base.clock import DAY, SECOND
from dovetail.base.words import number_of
from dovetail.cli.tables import add_row, new_table
from dovetail.disrupt.bill import Bill, Repacking
from dovetail.disrupt.rightsizing import Both, Contribution, Saving
from dovetail.explain.sizes import ENOUGH, NOT_MEASURED, Owner, Rules, Size, Work
from dovetail.model.plan import Plan
from dovetail.model.resources import CPU, MEMORY
from dovetail.runtime.usage import METRICS_SERVER
from dovetail.units.duration import format_duration
from dovetail.units.money import dollars, monthly
from dovetail.units.timestamp import to_rfc3339

if TYPE_CHECKING:
    from dovetail.cli.region import Region
    from dovetail.cli.rightsize_input import Scaling
    from dovetail.cli.searching import Search

SCHEMA = 1
_SHOWN = 5
_LUCK = (
    "Surely and At most are proven; where Surely is 0, a saving may be luck of the search. What they save "
    "does not add up."
)
_TITLES = {CPU: "CPU", MEMORY: "Memory"}


@dataclass(frozen=True, slots=True)
class InPlace:
    """What repacking the nodes that are there comes to, with both requests; None where no price is known.

    `going` are those of them that would go with the requests that are right; on the `overfull` ones pods
    would ask for more than there is.
    """

    before: Repacking | None
    after: Repacking | None
    going: tuple[str, ...]
    overfull: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """All that is known. `bill` and `in_place` are None where there are no nodes."""

    works: Mapping[Owner, Work]
    sizes: tuple[Size, ...]
    rules: Rules
    both: Both
    bill: Bill | None
    in_place: InPlace | None
    alone: tuple[Contribution, ...]
    untold: tuple[Owner, ...]  # what they save alone was not looked at
    strange: int  # series of pods that nothing here owns
    scaled: tuple[Scaling, ...]
    targets: Mapping[Scaling, int]
    held: Mapping[Owner, tuple[str, ...]]
    owned: Mapping[Owner, str]
    vertical: Mapping[Owner, str]  # by what a VerticalPodAutoscaler changes
    pending: int  # pods that wait for nodes, beside those that run
    region: Region | None
    search: Search
    cut_short: bool

    @cached_property
    def changed(self) -> tuple[Size, ...]:
        return tuple(size for size in self.sizes if size.changed)

    @cached_property
    def by_owner(self) -> Mapping[Owner, tuple[Size, ...]]:
        """The sizes of each."""
        found: dict[Owner, list[Size]] = {}
        for size in self.sizes:
            found.setdefault(size.owner, []).append(size)
        return {owner: tuple(sizes) for owner, sizes in found.items()}

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(owner.key for owner in self.works)

    @property
    def fixed(self) -> int:
        """Nano-dollars per hour of nodes that stay as they are."""
        return self.bill.cost - self.bill.movable.cost if self.bill is not None else 0

    def name(self, owner: Owner) -> str:
        """Without its kind where none other has its name."""
        return str(owner) if self._names[owner.key] > 1 or owner.kind == "Pod" else owner.key

    def part(self, size: Size) -> str:
        """The container, where a workload has several."""
        name = self.name(size.owner)
        return f"{name} {size.container}" if len(self.works[size.owner].parts) > 1 else name


def tables(answer: Answer) -> RenderableType:
    """For people: the money first."""
    parts: list[RenderableType] = []
    if answer.changed and not answer.both.untried:
        parts.append(_money(answer))
    parts += [Text(line) for line in _sentences(answer)]
    parts.append(Text(""))
    if answer.alone:
        parts.append(_contributions(answer))
        parts += [Text(_LUCK), Text("")]
    order = {one.owner: place for place, one in enumerate(answer.alone)}
    sizes = sorted(
        answer.changed, key=lambda one: (order.get(one.owner, len(order)), one.owner, one.container)
    )
    for resource in (CPU, MEMORY):
        shown = [one for one in sizes if one.resource == resource and one.right != one.now]
        if shown:
            parts.append(_sizes(answer, resource, shown))
    parts += [Text(line) for line in _measured(answer)]
    return Group(*parts)


def _rows(answer: Answer) -> Iterator[tuple[str, int | None, int | None, int | None]]:
    """(what, nodes, cost, proven least) of each way."""
    bill, place, both = answer.bill, answer.in_place, answer.both
    stay = 0
    if bill is not None:
        nodes = sum(group.nodes for group in bill.groups)
        stay = bill.kept
        yield "Now", nodes, bill.cost, None
        if place is not None:
            for what, found in (("repacked in place", place.before), ("resized and repacked", place.after)):
                if found is not None and (found.complete or found.nodes_gone):
                    left = nodes - found.nodes_gone + found.nodes_bought
                    yield f"These nodes, {what}", left, bill.cost - found.saving, None
    for what, plan in (("requests as they are", both.before), ("right requests", both.after)):
        after = plan
        if plan is both.after and both.smaller and both.before.cost.hourly < plan.cost.hourly:
            after = both.before  # which is a plan for smaller requests as well
        cost, least = after.cost.hourly + answer.fixed, plan.cost.lower_bound + answer.fixed
        yield f"Cheapest nodes, {what}", len(after.claims) + stay, cost, least


def _money(answer: Answer) -> RenderableType:
    table = new_table("What it costs", "Nodes")
    for heading in ("Number", "$/h", "$/month", "At least"):
        table.add_column(heading, justify="right", no_wrap=True)
    for what, nodes, cost, least in _rows(answer):
        add_row(
            table,
            what,
            "" if nodes is None else f"{nodes:,}",
            "" if cost is None else f"{dollars(cost):,.4f}",
            "" if cost is None else f"{_a_month(cost)}",
            "" if least is None else f"{_a_month(least)}",
        )
    return table


def _sentences(answer: Answer) -> Iterator[str]:
    both = answer.both
    if not answer.changed:
        yield "All requests that something is known of are right within a tenth: nothing is to be changed."
        return
    if both.untried:
        yield (
            f"What they save is not known: {both.untried:,} of {len(both.problem.pods):,} pods were not "
            f"looked at in {answer.search.patience}; {answer.search.further} looks further."
        )
        return
    found = both.saving
    more = "" if found.saved >= 0 else " more"
    yield (
        f"The right requests {'cost' if more else 'save'} {_both(abs(found.saved))}{more}, with "
        f"{_fewer(found)}. Proven, however pods are packed: {_proven(found)}."
    )
    if answer.cut_short:
        yield f"The search was cut short: {answer.search.further} may find cheaper nodes, and prove more."
    place = answer.in_place
    if place is not None and place.after is not None:
        yield from _in_place(place, place.after, answer)
    if both.left:
        pods = number_of(len(both.left), "pod has", "pods have")
        yield f"{pods} no place on nodes of the NodePools, and no part in either plan: {_some(both.left)}."
    if answer.pending:
        pods = number_of(answer.pending, "pod waits for a node and is", "pods wait for nodes and are")
        yield f"{pods} not counted; dovetail plan says what it takes."


def _in_place(place: InPlace, after: Repacking, answer: Answer) -> Iterator[str]:
    if place.going:
        end = "" if after.complete else f" At least, {answer.search.further} looks further."
        bought = f", and {after.nodes_bought:,} others are bought" if after.nodes_bought > 0 else ""
        yield (
            f"Repacked with the right requests, {len(place.going):,} of the nodes that are there go{bought}: "
            f"{_some(place.going)}.{end}"
        )
    elif not after.complete:
        yield f"Which nodes would go is not known yet; {answer.search.further} looks further."
    if place.overfull:
        yield (
            f"On {len(place.overfull):,} of them pods would ask for more than there is, so some pods move: "
            f"{_some(place.overfull)}."
        )


def _fewer(found: Saving) -> str:
    if not found.nodes:
        return "as many nodes"
    more = "fewer" if found.nodes > 0 else "more"
    return f"{number_of(abs(found.nodes), 'node')} {more}"


def _proven(found: Saving) -> str:
    if found.least >= 0:
        return f"${_a_month(found.least)} a month at least, ${_a_month(found.most)} at most"
    if found.most <= 0:
        return f"${_a_month(-found.most)} a month more at least, ${_a_month(-found.least)} at most"
    return f"${_a_month(found.most)} a month less at most, ${_a_month(-found.least)} more at most"


def _contributions(answer: Answer) -> RenderableType:
    table = new_table("What each saves if it alone is changed, $/month")
    table.add_column("Workload", overflow="fold")
    table.add_column("Pods", justify="right", no_wrap=True)
    for heading in ("Saved", "Surely", "At most", "Nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in answer.alone:
        work = answer.works[one.owner]
        figures = ("–", "–", "–", "")
        if one.saving is not None:
            found = one.saving
            figures = (
                f"{_a_month(found.saved)}",
                f"{_a_month(found.least)}",
                f"{_a_month(found.most)}",
                f"{-found.nodes:+d}" if found.nodes else "",
            )
        add_row(table, answer.name(one.owner), _pods(work), *figures)
    return table


def _pods(work: Work) -> str:
    return f"{len(work.pods):,}" if work.pods or not work.per_node else "each"


def _sizes(answer: Answer, resource: str, sizes: Iterable[Size]) -> RenderableType:
    table = new_table(f"{_TITLES[resource]}: what a pod asks for, what was used, what is right")
    table.add_column("Workload", overflow="fold")
    high = f"p{answer.rules.percentile:g}"
    for heading in ("Pods", "Now", "p50", high, "Max", "Right", "Change"):
        table.add_column(heading, justify="right", no_wrap=True)
    for size in sizes:
        use = size.use
        used = (
            ("VPA", "VPA", "VPA")
            if use is None
            else tuple(amount_text(resource, amount) for amount in (use.median, use.high, use.most))
        )
        add_row(
            table,
            answer.part(size),
            _pods(answer.works[size.owner]),
            amount_text(resource, size.now),
            *used,
            amount_text(resource, size.right),
            _change(size),
        )
    return table


def _change(size: Size) -> str:
    if not size.now:
        return "new"
    more = (size.right or 0) / size.now - 1
    return f"{more:+.0%}" if more < 10 else f"{more + 1:.0f} x"


def amount_text(resource: str, amount: int | None) -> str:
    """Short: 250m, 1.5, 512Mi, 13.6Gi; a dash for none."""
    if amount is None:
        return "–"
    if resource == CPU:
        return f"{amount}m" if amount < 1000 else f"{amount / 1000:.4g}"
    if amount < 1 << 30:
        return f"{amount / (1 << 20):.0f}Mi"
    return f"{amount / (1 << 30):.3g}Gi" if amount < 1000 << 30 else f"{amount / (1 << 40):.3g}Ti"


def _measured(answer: Answer) -> Iterator[str]:
    """Over which time, and how many samples."""
    uses = [(size, size.use) for size in answer.sizes if size.use is not None]
    rules = answer.rules
    if uses:
        start, end = min(use.start for _, use in uses), max(use.end for _, use in uses)
        if start == end:
            yield f"Measured at a single moment, {to_rfc3339(end)}."
        else:
            fewest, least = min(((use.samples, size) for size, use in uses), key=lambda one: one[0])
            counts = sorted(use.samples for _, use in uses)
            yield (
                f"Measured over {_span(end - start)} to {to_rfc3339(end)}: {counts[len(counts) // 2]:,} "
                f"samples of a container in the median, {fewest:,} at least ({answer.part(least)})."
            )
    yield (
        f"Right is, for CPU, the {rules.percentile:g}th percentile of the busiest pod and "
        f"{rules.cpu_headroom:.0%} more; for memory, the most that any pod used and "
        f"{rules.memory_headroom:.0%} more; what is within a tenth of that is kept."
    )
    kept = len(answer.sizes) - len(answer.changed)
    unknown = sum(size.why == NOT_MEASURED for size in answer.sizes)
    if kept:
        more = f", {unknown:,} of them not measured" if unknown else ""
        yield f"{kept:,} of {len(answer.sizes):,} requests stay as they are{more}."


def _span(nanos: int) -> str:
    """Days where there are some."""
    if nanos >= DAY:
        return f"{nanos / DAY:.3g} days"
    return format_duration(nanos // SECOND * SECOND)


def remarks(answer: Answer) -> Iterator[str]:
    """What a user should know before it is applied."""
    uses = [size.use for size in answer.sizes if size.use is not None]
    if uses and all(use.source == METRICS_SERVER for use in uses):
        yield (
            "a single moment says nothing of peaks: before anything is made smaller, give a week of "
            "Prometheus (--prometheus, or --usage)"
        )
    elif uses and max(use.end for use in uses) - min(use.start for use in uses) < DAY:
        yield "less than a day was measured: peaks of a day or a week are not seen"
    elif uses and max(use.samples for use in uses) < ENOUGH:
        yield f"there are fewer than {ENOUGH} samples of each container: percentiles say little"
    small = [size for size in answer.sizes if size.too_small]
    if small:
        names = _some(dict.fromkeys(answer.part(size) for size in small))
        yield (
            f"{len(small)} requests are smaller than what is used: with too little CPU pods are slowed down "
            f"on full nodes, with too little memory they are evicted or killed: {names}"
        )
    for one in answer.scaled:
        if one in answer.targets:
            yield (
                f"{one} scales on {one.percent}% of the {one.resource} request: with the new one it is "
                f"{answer.targets[one]}% (its patch is among the others), so that replicas stay as they are"
            )
        elif any(size.resource == one.resource and size.why for size in answer.by_owner.get(one.owner, ())):
            way = "--with-hpa changes both" if one.document is not None else "change both by hand"
            yield (
                f"{one} scales on {one.percent}% of the {one.resource} request of {one.owner}, which stays: "
                f"another would have it scale; {way}"
            )
    for owner, above in answer.owned.items():
        yield f"{owner} is made by {above}, which would undo a patch: set the requests there"
    for owner, held in answer.held.items():
        yield f"pods of {owner} ask for no less {' and '.join(held)} than their init containers need"
    changed = {size.owner for size in answer.changed}
    for owner, key in answer.vertical.items():
        if owner in changed:
            yield f"VerticalPodAutoscaler {key} sets the requests of {owner} itself: a patch changes nothing"
    yield from _unpatched(changed)
    guaranteed = [owner for owner in sorted(changed) if _was_guaranteed(answer, owner)]
    if guaranteed and answer.rules.limits == "keep":
        yield (
            "limits stay, so these pods are Burstable, no longer Guaranteed (--limits scale changes both): "
            f"{_some(answer.name(owner) for owner in guaranteed)}"
        )
    if answer.strange:
        yield f"{answer.strange:,} series are of pods or containers that nothing here makes, and are left out"


def _unpatched(changed: Iterable[Owner]) -> Iterator[str]:
    from dovetail.cli.rightsize_patches import patchable

    jobs = [owner for owner in sorted(changed) if owner.kind == "Job"]
    others = [owner for owner in sorted(changed) if not patchable(owner) and owner.kind != "Job"]
    if jobs:
        yield f"Jobs cannot be changed: set the requests where they are made: {_some(map(str, jobs))}"
    if others:
        yield f"there are no patches of other groups' objects: {_some(map(str, others))}"


def _was_guaranteed(answer: Answer, owner: Owner) -> bool:
    parts = answer.works[owner].parts
    was = all(
        part.limits.get(name) is not None and part.limits.get(name) == part.requests.get(name)
        for part in parts
        for name in (CPU, MEMORY)
    )
    return was and any(size.changed and size.right != size.right_limit for size in answer.by_owner[owner])


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else ""
    return f"{', '.join(listed[:_SHOWN])}{more}"


def _a_month(nanos: int) -> str:
    """Dollars, whole; never -0."""
    return f"{round(monthly(nanos)):,}"


def _both(nanos: int) -> str:
    return f"${dollars(nanos):,.4f}/h (${_a_month(nanos)} a month)"


def document(answer: Answer) -> dict[str, Any]:
    """For programs: dollars per hour and per month of 730 hours, milli-CPU, bytes."""
    alone = {one.owner: one.saving for one in answer.alone}
    both, known = answer.both, bool(answer.changed) and not answer.both.untried
    place = answer.in_place
    return {
        "schemaVersion": SCHEMA,
        "region": answer.region.name if answer.region else None,
        "rules": {
            "cpuPercentile": answer.rules.percentile,
            "cpuHeadroom": answer.rules.cpu_headroom,
            "memoryHeadroom": answer.rules.memory_headroom,
            "leastCpu": answer.rules.least.get(CPU, 0),
            "leastMemory": answer.rules.least.get(MEMORY, 0),
            "limits": answer.rules.limits,
        },
        "costs": [
            {
                "what": what,
                "nodes": nodes,
                "hourly": None if cost is None else dollars(cost),
                "monthly": None if cost is None else round(monthly(cost), 2),
                "lowerBound": None if least is None else dollars(least),
            }
            for what, nodes, cost, least in _rows(answer)
        ]
        if not both.untried
        else [],
        "saving": _saving(both.saving) if known else None,
        "cutShort": answer.cut_short,
        "podsLeftOut": list(both.left),
        "podsPending": answer.pending,
        "nodesThatGo": list(place.going) if place is not None else None,
        "nodesOverfull": list(place.overfull) if place is not None else None,
        "bought": {"before": _types(both.before), "after": _types(both.after)} if known else None,
        "workloads": [
            {
                "kind": owner.kind,
                "namespace": owner.namespace,
                "name": owner.name,
                "pods": len(work.pods),
                "perNode": work.per_node,
                "saving": _saving(found) if (found := alone.get(owner)) is not None else None,
                "containers": [
                    {
                        "name": part.name,
                        "sidecar": part.sidecar,
                        **{
                            size.resource: _size(size)
                            for size in answer.by_owner[owner]
                            if size.container == part.name
                        },
                    }
                    for part in work.parts
                ],
            }
            for owner, work in answer.works.items()
        ],
        "autoscalers": [
            {
                "kind": one.kind,
                "namespace": one.namespace,
                "name": one.name,
                "resource": one.resource,
                "percent": one.percent,
                "newPercent": answer.targets.get(one),
            }
            for one in answer.scaled
        ],
        "seriesLeftOut": answer.strange,
        "notes": list(remarks(answer)),
    }


def _types(plan: Plan) -> dict[str, int]:
    return dict(sorted(Counter(claim.instance_type for claim in plan.claims).items()))


def _saving(found: Saving) -> dict[str, Any]:
    return {
        "hourly": dollars(found.saved),
        "monthly": round(monthly(found.saved), 2),
        "atLeastHourly": dollars(found.least),
        "atMostHourly": dollars(found.most),
        "nodes": found.nodes,
    }


def _size(size: Size) -> dict[str, Any]:
    use, advice = size.use, size.advice
    return {
        "request": size.now,
        "recommended": size.right,
        "limit": size.limit,
        "recommendedLimit": size.right_limit,
        "tooSmall": size.too_small,
        "used": None
        if use is None
        else {
            "p50": use.median,
            "percentile": use.high,
            "max": use.most,
            "samples": use.samples,
            "from": to_rfc3339(use.start),
            "to": to_rfc3339(use.end),
            "source": use.source,
        },
        "verticalPodAutoscaler": None
        if advice is None
        else {"target": advice.target, "lowerBound": advice.lower, "upperBound": advice.upper},
        "why": size.why,
    }
