"""`dovetail diff`: what changed manifests would do to a cluster, before they are applied."""

from __future__ import annotations

import atexit
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.cli.question import Question
    from dovetail.cli.searching import Search
    from dovetail.model.offering import InstanceType
    from dovetail.model.plan import Plan
    from dovetail.model.problem import Problem
    from dovetail.reading import Manifest, Reading
    from dovetail.simulate.questions.change import FieldChange, Terms, Untried, Verdict

_PLAYED = "30m"  # of a scenario


def diff(
    *cluster: Path,
    filename: Annotated[tuple[Path, ...], Parameter(alias=["-f", "--file"], negative="")],
    kubeconfig: Path | None = None,
    context: str = "",
    region: str | None = None,
    instance_types: Path | None = None,
    prices: Path | None = None,
    deadline: str | None = None,
    work: int | None = None,
    after: str | None = None,
    quota: int | None = None,
    savings_plan: str = "",
    savings_plan_discount: str = "28%",
    undo: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Show what changed NodePools, node classes and other manifests would do, before they are applied.

    Which fields change; which nodes drift and which do not, and what holds their pods; images that may come
    to an architecture that they were never seen on; vCPUs at the peak; what it costs before and after, and
    must cost at least; the way back. Nothing is changed anywhere. `dovetail rollout` plays it in time.

    Examples:

    - `dovetail diff cluster.json.gz -f new/ --quota 4000 --savings-plan 18 --undo back.yaml`
    - `dovetail diff --kubeconfig ~/.kube/config -f pool.yaml -o json`
    - `dovetail diff last-week -f new-image.yaml`

    Parameters
    ----------
    cluster
        What `dovetail snapshot` or `kubectl get -o json` wrote, or a folder with a scenario.yaml, which is
        played for as long as --after says; several files are taken together.
    filename
        The new manifests: files, or folders of them. Of an object that is there, the fields that change are
        enough.
    kubeconfig
        Read the cluster of this kubeconfig file, by get and list alone.
    context
        The context of the kubeconfig; its current one by default.
    region
        The AWS region, where the nodes do not say it.
    instance_types
        A JSON file of instance types to buy from instead of a region's.
    prices
        Prices to count instead, as `dovetail plan` takes them.
    deadline
        How long each of the two plans may be looked for, such as 30s. Until it is proven within 1 %, or for
        10s, when not given.
    work
        Units of work instead of time: the same answer on every machine.
    after
        How much of a scenario is played before the change, 30m by default.
    quota
        The account's quota of vCPUs: says what old and new nodes together leave of it at the peak.
    savings_plan
        Dollars an hour of a Compute Savings Plan, such as 18: says how much of it the nodes use up.
    savings_plan_discount
        How far its prices are below those on demand.
    undo
        Write the objects as they are into this file, to be applied to go back.
    output
        An answer to read, or JSON.
    """
    from dovetail.cli import diff_output
    from dovetail.cli.messages import each_once
    from dovetail.cli.new_objects import check_quota, way_back
    from dovetail.cli.question import Question, show
    from dovetail.cli.runs_output import remark, time_of
    from dovetail.cli.savings_plan import savings_plan_of

    committed = savings_plan_of(savings_plan, savings_plan_discount)
    check_quota(quota)
    begins = time_of(after or _PLAYED, "--after")
    played = _scenario(cluster)
    if played is None and after is not None:
        raise InputError(
            "means nothing for a cluster that is not played", source="--after", remedy="leave it out"
        )
    fresh: tuple[Manifest, ...] = ()
    assumed: dict[str, str] = {}
    originals: list[dict[str, Any]] = []
    sold: frozenset[str] = frozenset()
    now = time.time_ns()
    if played is not None:
        if kubeconfig is not None or context:
            raise InputError("only one of a scenario and --kubeconfig can be given", source=str(played))
        if instance_types is not None:
            raise InputError("a scenario has its own", source="--instance-types", remedy="leave it out")
        found, now, sold, region, fresh, assumed, originals = _played(played, begins, filename, region)
        given = [str(found)]
    else:
        given = list(map(str, cluster))
    question = Question(
        filename=given,
        kubeconfig=kubeconfig,
        context=context,
        region=region,
        instance_types=instance_types,
        prices=prices,
        deadline=deadline,
        work=work,
    )
    if not cluster and kubeconfig is None and not context:
        raise InputError(
            "which cluster?",
            remedy="give a file of: dovetail snapshot -o cluster.json.gz, or --kubeconfig FILE",
        )
    with each_once():
        old = question.reading
        if played is None:
            fresh = _new(filename, old.manifests)
        lacking = played is None and _is_snapshot(old)
        change = _Change.of(old, fresh, redact=lacking)
        back = way_back(old.manifests, fresh, originals, incomplete=lacking)
        if undo is not None:
            back.write(undo)
        answer = _answer(question, change, sold, now)
    facts = diff_output.Facts(
        change.changed, change.added, change.left_out, assumed, answer, quota, committed, back
    )
    show(
        diff_output.lines(facts, given=played or (cluster[0] if cluster else None)),
        diff_output.document(facts),
        output,
    )
    if undo is not None:
        remark(f"Way back: {undo}")


def _scenario(cluster: Sequence[Path]) -> Path | None:
    """The scenario among what is given; it stands alone."""
    from dovetail.simulate.scenario.scenario import FILE_NAME

    found = [one for one in cluster if one.name == FILE_NAME or (one / FILE_NAME).is_file()]
    if found and len(cluster) > 1:
        raise InputError("a scenario is a cluster by itself", source=str(found[0]), remedy="give it alone")
    return found[0] if found else None


def _new(filename: Sequence[Path], onto: Iterable[Manifest]) -> tuple[Manifest, ...]:
    from dovetail.cli.new_objects import check_new
    from dovetail.cli.question import read_manifests

    found = read_manifests(list(map(str, filename)), recursive=True, strict=False, onto=onto).manifests
    check_new(found, filename)
    return found


def _played(
    scenario: Path, begins: int, filename: Sequence[Path], region: str | None
) -> tuple[Path, int, frozenset[str], str, tuple[Manifest, ...], dict[str, str], list[dict[str, Any]]]:
    """The cluster as a file once so much is played, the instant, what is sold there, and the new objects."""
    from dovetail.cli.messages import notes
    from dovetail.cli.new_objects import objects_of, rewritten
    from dovetail.reading import read_objects
    from dovetail.reading.located import Located
    from dovetail.simulate.questions.stage import cluster_after
    from dovetail.simulate.replay.folder import originals
    from dovetail.simulate.scenario.scenario import load

    known = load(scenario)
    notes(known.notes)
    if region is not None:
        raise InputError("a scenario has a region of its own", source="--region", remedy="leave it out")
    before = originals(scenario)
    fresh = _new(filename, objects_of(known, before))
    assumed: dict[str, str] = {}
    if before:  # a replay: the account's selectors mean nothing in the simulated one
        objects, assumed = rewritten(known, fresh, before)
        fresh = read_objects(Located(one, str(scenario)) for one in objects).manifests
    folder = tempfile.TemporaryDirectory(prefix="dovetail-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "cluster.json"
    items = cluster_after(known, begins)
    if not any(item["kind"] == "NodePool" for item in items):
        raise InputError("the scenario has no NodePool, so nothing can be bought", source=str(scenario))
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    sold = frozenset(known.file.cluster.instance_types)
    return path, known.start + begins, sold, known.file.region, fresh, assumed, before


def _is_snapshot(reading: Reading) -> bool:
    """True iff the nodes lack what `dovetail snapshot` leaves out, and so does everything else."""
    nodes = [item.located.value.get("status", {}) for item in reading.manifests if item.written[0] == "Node"]
    return not any(status.get("addresses") or status.get("images") for status in nodes)


@dataclass(frozen=True, slots=True)
class _Change:
    """The cluster before and after, and what differs; objects as (kind, namespace/name)."""

    before: Reading
    after: Reading
    changed: Mapping[tuple[str, str], tuple[FieldChange, ...]]  # without those that stay as they are
    added: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]  # fields that a snapshot does not hold

    @staticmethod
    def of(old: Reading, fresh: Sequence[Manifest], *, redact: bool) -> _Change:
        from dovetail.api.redact import redacted
        from dovetail.reading import read_objects
        from dovetail.simulate.questions.change import field_changes

        known = {item.written: item for item in old.manifests}
        changed: dict[tuple[str, str], tuple[FieldChange, ...]] = {}
        added: list[tuple[str, str]] = []
        left_out: list[str] = []
        merged = []
        for item in fresh:
            document, there = item.document, known.get(item.written)
            if there is None:
                added.append(item.written)
            else:
                # Of manifests, other than of a snapshot, all that they say can be compared.
                if redact and redacted(there.document) == there.document:
                    document = redacted(document)
                    gone = field_changes(document, item.document)
                    left_out += (f"{' '.join(item.written)}: {one.path}" for one in gone)
                found = field_changes(there.document, document)
                if found:
                    changed[item.written] = found
                document = _onto(there.document, document)
            merged.append(item.located.with_value(document))
        names = {item.written for item in fresh}
        kept = tuple(item for item in old.manifests if item.written not in names)
        after = replace(old, manifests=(*kept, *read_objects(merged).manifests))
        return _Change(old, after, changed, tuple(added), tuple(left_out))


def _onto(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The new object with what the server and controllers know of the old one."""
    meta = {**old["metadata"]}
    for key in ("labels", "annotations"):
        both = {**(meta.get(key) or {}), **(new["metadata"].get(key) or {})}
        if both:
            meta[key] = both
    status = {"status": old["status"]} if "status" in old else {}
    return {**new, "metadata": meta, **status}


@dataclass(frozen=True, slots=True)
class Money:
    """Nano-dollars per hour. `at_least` is proven; `as_is` is what the same nodes, replaced without the
    change, would come to. `listed` is what machines on demand cost at list prices, before and after.
    """

    before: int
    after: int
    at_least: int
    as_is: int
    listed: tuple[int, int]
    unpriced: int
    homeless: tuple[str, ...]  # pods that run now and have no place after the change
    homeless_as_is: tuple[str, ...]
    untried: int  # pods that were not looked at


@dataclass(frozen=True, slots=True)
class Answer:
    verdicts: tuple[Verdict, ...]
    held: Mapping[str, int]
    at_once: Mapping[str, int]
    untried: tuple[Untried, ...]
    vcpus: tuple[int, int, int]  # before, at the peak, after
    money: Money
    claims: int  # NodeClaims in the cluster


def _answer(question: Question, change: _Change, sold: frozenset[str], now: int) -> Answer:
    from dovetail.cli.plan_input import read_cluster
    from dovetail.disrupt.pods import Budgets
    from dovetail.disrupt.standing import node_views
    from dovetail.model.resources import CPU
    from dovetail.simulate.questions import change as rules

    before, after = (_limited(question.problem_of(one), sold) for one in (change.before, change.after))
    objects = read_cluster(change.after)
    pools = {pool.metadata.name: pool for pool in objects.pools}
    found = rules.verdicts(
        node_views(objects),
        _terms(change.before, before),
        _terms(change.after, after),
        Budgets(objects.pdbs),
        now,
    )
    going = frozenset(one.node for one in found if one.goes or (one.possible and not one.before))
    once = rules.at_once(pools, [one for one in found if one.node in going])
    vcpus = {node.name: node.capacity.get(CPU, 0) // 1000 for node in before.nodes}
    total = sum(vcpus.values())
    money, plan = _money(question, before, after, going)
    size = {
        item.name: item.capacity.get(CPU, 0) // 1000 for pool in after.pools for item in pool.instance_types
    }
    bought = sum(size.get(claim.instance_type, 0) for claim in plan.claims)
    old = sum(vcpus[name] for name in going if name in vcpus)
    beside = sum(
        sum(
            sorted(vcpus.get(one.node, 0) for one in found if one.node in going and one.pool == name)[-count:]
        )
        for name, count in once.items()
        if count
    )
    in_the_end = total - old + bought
    return Answer(
        found,
        rules.held(one for one in found if one.node in going),
        {name: count for name, count in once.items() if count},
        rules.untried(before, after),
        (total, max(total, in_the_end) + beside if going else total, in_the_end),
        money,
        len(objects.claims),
    )


def _limited(problem: Problem, sold: frozenset[str]) -> Problem:
    """With the types alone that a scenario's cloud sells; all where it does not say."""
    if not sold:
        return problem
    pools = (
        replace(pool, instance_types=tuple(one for one in pool.instance_types if one.name in sold))
        for pool in problem.pools
    )
    return replace(problem, pools=tuple(pools))


def _terms(reading: Reading, problem: Problem) -> dict[str, Terms]:
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.api.karpenter.nodepool import NodePool
    from dovetail.simulate.questions.change import terms_of

    classes: dict[str, tuple[EC2NodeClass, Mapping[str, Any]]] = {
        item.object.metadata.name: (item.object, item.document.get("status", {}))
        for item in reading.manifests
        if isinstance(item.object, EC2NodeClass)
    }
    types: dict[str, Sequence[InstanceType]] = {pool.name: pool.instance_types for pool in problem.pools}
    pools = (item.object for item in reading.manifests if isinstance(item.object, NodePool))
    return terms_of(pools, classes, types)


def _money(question: Question, before: Problem, after: Problem, going: frozenset[str]) -> tuple[Money, Plan]:
    from dovetail.cli.bill_output import listed_on_demand, node_prices
    from dovetail.cli.plan_output import bought_on_demand

    search, region = question.search(), question.place.name if question.place else ""
    prices = node_prices(before, region)
    stay = {name: price for name, price in prices.items() if name not in going}
    plan, base = _replaced(search, after, going), None
    if going:
        base = _replaced(search, before, going)
    bought = bought_on_demand(after, plan)
    kept = sum(price.hourly for price in stay.values())
    money = Money(
        before=sum(price.hourly for price in prices.values()),
        after=kept + plan.cost.hourly,
        at_least=kept + plan.cost.lower_bound,
        as_is=kept + (base or plan).cost.hourly,
        listed=(listed_on_demand(before.nodes, prices), listed_on_demand(before.nodes, stay) + bought),
        unpriced=len(before.nodes) - len(prices),
        homeless=plan.refused,
        homeless_as_is=base.refused if base is not None else (),
        untried=len(plan.untried),
    )
    return money, plan


def _replaced(search: Search, problem: Problem, going: frozenset[str]) -> Plan:
    from dovetail.disrupt.bill import without

    return search.answer(without(problem, going)).plan
