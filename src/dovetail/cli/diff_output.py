"""How `dovetail diff` shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.cli.diff import Answer
from dovetail.cli.messages import visible
from dovetail.cli.new_objects import WayBack, of_quota
from dovetail.cli.savings_plan import Commitment, as_document, in_words
from dovetail.cli.tables import add_row, hourly, new_table, signed_hourly
from dovetail.simulate.questions.change import FieldChange, Verdict, shown
from dovetail.units.money import dollars

_SHOWN = 10
_LONG = 160  # characters of a value


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is shown. Objects as (kind, namespace/name)."""

    changed: Mapping[tuple[str, str], tuple[FieldChange, ...]]
    added: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]
    assumed: Mapping[str, str]
    answer: Answer
    quota: int | None
    commitment: Commitment | None
    back: WayBack


def lines(facts: Facts, given: Path | None) -> RenderableType:
    """For people; `given` is the cluster, for what to ask next."""
    return Group(
        *_fields(facts),
        *_nodes(facts.answer),
        *_images(facts.answer),
        *_vcpus(facts),
        *_money(facts),
        *_next(facts, given),
    )


def _fields(facts: Facts) -> Iterator[RenderableType]:
    for (kind, key), changes in facts.changed.items():
        yield Text(f"{kind} {key}", "bold")
        for one in changes:
            old, new = _clipped(one.old), _clipped(one.new)
            yield Text(visible(f"  {one.path}: {old} -> {new}"))
    for kind, key in facts.added:
        yield Text(visible(f"{kind} {key} is new"), "bold")
    if not facts.changed and not facts.added:
        yield Text("No field changes.")
    if facts.left_out:
        yield Text(
            visible(
                f"Not compared, as a snapshot does not hold it: {', '.join(facts.left_out[:_SHOWN])}"
                f"{_more(facts.left_out)}. Where it changes, nodes drift that are said to stay."
            )
        )
    for subject, text in sorted(facts.assumed.items()):
        yield Text(visible(f"Assumed of the new objects: {subject}: {text}"))
    yield Text()


def _clipped(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _more(items: tuple[Any, ...]) -> str:
    return f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""


def _nodes(answer: Answer) -> Iterator[RenderableType]:
    if not answer.verdicts:
        why = "there are no NodeClaims in it" if not answer.claims else "no node is of a NodePool in it"
        yield Text(f"Which nodes drift cannot be told of this cluster: {why}.")
        return
    table = new_table("Nodes", "NodePool")
    for heading in ("Drift", "May drift", "Had drifted", "Stay", "Pods that move", "At once"):
        table.add_column(heading, justify="right")
    table.add_column("Why", overflow="fold")
    by_pool: dict[str, list[Verdict]] = {}
    for one in answer.verdicts:
        by_pool.setdefault(one.pool, []).append(one)
    for pool, found in sorted(by_pool.items()):
        fresh = [one for one in found if not one.before]
        going = [one for one in fresh if one.after or one.possible]
        reasons = Counter(one.after or one.possible for one in going)
        add_row(
            table,
            pool,
            f"{sum(one.goes for one in fresh):,}",
            f"{sum(bool(one.possible) for one in fresh):,}",
            f"{len(found) - len(fresh):,}",
            f"{len(fresh) - len(going):,}",
            f"{sum(one.pods for one in going):,}",
            f"{answer.at_once.get(pool, 0):,}",
            ", ".join(reason for reason, _ in reasons.most_common()),
        )
    yield table
    if any(one.possible for one in answer.verdicts):
        yield Text(
            "Whether nodes that may drift do depends on what selectors find in the account, "
            "which these objects do not say."
        )
    for text, count in list(answer.held.items())[:_SHOWN]:
        yield Text(visible(f"{count:,} of them {'is' if count == 1 else 'are'} held for now: {text}"))
    if len(answer.held) > _SHOWN:
        yield Text(f"{len(answer.held) - _SHOWN:,} other reasons hold nodes: -o json has them all.")


def _images(answer: Answer) -> Iterator[RenderableType]:
    if not answer.untried:
        return
    table = new_table("Images that may come to an architecture on which none of them runs now", "New")
    table.add_column("Pods", justify="right")
    table.add_column("Runs on", overflow="fold")
    table.add_column("Image", overflow="fold")
    table.add_column("Of", overflow="fold")
    for one in answer.untried[:_SHOWN]:
        runs = ", ".join(f"{count:,} {arch or 'unknown'}" for arch, count in one.seen.items())
        makers = ", ".join(one.workloads[:3]) + (", …" if len(one.workloads) > 3 else "")
        add_row(table, one.arch, f"{one.pods:,}", f"{runs} nodes", one.image, makers)
    yield Text()
    yield table
    rest = f" {len(answer.untried) - _SHOWN} others are in -o json." if len(answer.untried) > _SHOWN else ""
    yield Text(
        "Where an image runs is all the evidence there is: a manifest list may have the architecture all the "
        f"same (docker manifest inspect IMAGE).{rest}"
    )


def _vcpus(facts: Facts) -> Iterator[RenderableType]:
    before, peak, after = facts.answer.vcpus
    text = f"vCPUs: {before:,} now, {after:,} in the end"
    if peak > max(before, after):
        text += f", {peak:,} at the peak if what replaces a node is as large"
    if facts.quota is not None:
        text += f"; {of_quota(peak, facts.quota)}"
    yield Text()
    yield Text(f"{text}.")


def _money(facts: Facts) -> Iterator[RenderableType]:
    money = facts.answer.money
    moved = any(not one.before and (one.after or one.possible) for one in facts.answer.verdicts)
    if not moved:
        yield Text(f"All nodes cost {hourly(money.before)}, before and after.")
    elif money.untried:
        yield Text(
            f"All nodes cost {hourly(money.before)} now. What they cost after the change is not known: "
            f"{money.untried:,} pods were not looked at; a longer --deadline looks further."
        )
    else:
        yield Text(
            f"All nodes cost {hourly(money.before)} now and {hourly(money.after)} after the change, "
            f"{hourly(money.at_least)} at least."
        )
        yield Text(
            f"The same nodes replaced without the change would come to {hourly(money.as_is)}, so the change "
            f"itself is {signed_hourly(money.after - money.as_is)}."
        )
    if money.unpriced:
        yield Text(
            f"{money.unpriced:,} nodes have no type or price that is known, and are not in these sums."
        )
    lost = tuple(pod for pod in money.homeless if pod not in set(money.homeless_as_is))
    if lost:
        yield Text(
            visible(
                f"{len(lost):,} pods that run now have no place after the change: "
                f"{', '.join(lost[:3])}{f' and {len(lost) - 3:,} more' if len(lost) > 3 else ''}."
            ),
            "bold",
        )
    if facts.commitment is not None:
        yield Text(in_words(facts.commitment, *money.listed, "after the change"))


def _next(facts: Facts, given: Path | None) -> Iterator[RenderableType]:
    if facts.back.deletions:
        yield Text(visible(f"Way back of what is new: {'; '.join(facts.back.deletions)}"))
    if any(one.goes or one.possible for one in facts.answer.verdicts):
        yield Text(
            "How long it takes and which budget decides it: dovetail rollout "
            f"{given if given is not None and given.is_dir() else 'SCENARIO'} -f NEW"
        )


def document(facts: Facts) -> dict[str, Any]:
    """For programs; dollars per hour."""
    answer, money = facts.answer, facts.answer.money
    before, peak, after = answer.vcpus
    commitment = facts.commitment
    return {
        "changed": [
            {"kind": kind, "name": key, "fields": [asdict(one) for one in changes]}
            for (kind, key), changes in facts.changed.items()
        ],
        "added": [{"kind": kind, "name": key} for kind, key in facts.added],
        "notCompared": list(facts.left_out),
        "assumed": dict(facts.assumed),
        "nodes": [
            {
                "node": one.node,
                "claim": one.claim,
                "pool": one.pool,
                "instanceType": one.instance_type,
                "capacityType": one.capacity_type,
                "zone": one.zone,
                "pods": one.pods,
                "hadDrifted": one.before or None,
                "drifts": one.after if one.goes else None,
                "mayDrift": one.possible or None,
                "heldBy": list(one.holds),
            }
            for one in answer.verdicts
        ],
        "heldBy": dict(answer.held),
        "atOnce": dict(answer.at_once),
        "images": [{**asdict(one), "seen": dict(one.seen)} for one in answer.untried],
        "vcpus": {"before": before, "peak": peak, "after": after, "quota": facts.quota},
        "hourly": {
            "before": dollars(money.before),
            "after": None if money.untried else dollars(money.after),
            "lowerBound": None if money.untried else dollars(money.at_least),
            "replacedWithoutTheChange": dollars(money.as_is),
            "withoutPrice": money.unpriced,
        },
        "homelessPods": list(money.homeless),
        "savingsPlan": None if commitment is None else as_document(commitment, *money.listed),
        "undo": {"objects": list(facts.back.objects), "delete": list(facts.back.deletions)},
    }
