"""The bill in parts: whatever ran, whoever asks, the parts sum to it to the nano-dollar."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.base.clock import HOUR, MINUTE
from dovetail.cost.aggregate import Options, add_idle, parse_keys, shares_of
from dovetail.cost.allocation import IDLE, RESOURCES, Properties, proportional
from dovetail.cost.api import asset_shares
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, VolumeRun, Workload, read_facts
from dovetail.cost.filters import parse_filter
from dovetail.cost.ledger import allocations, stepped
from dovetail.cost.window import Window, parse_window
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

_GIB = 1 << 30
_END = 6 * HOUR
_INSTANTS = st.integers(0, _END)


@st.composite
def _spans(draw: st.DrawFn) -> tuple[int, int | None]:
    start = draw(_INSTANTS)
    return start, draw(st.none() | st.integers(start, _END))


@st.composite
def _instances(draw: st.DrawFn, number: int) -> Instance:
    start, end = draw(_spans())
    rates = [Rate(start, draw(st.integers(0, 10**11)), 0)]
    for at in sorted(draw(st.lists(st.integers(start, _END), max_size=2))):
        rates.append(Rate(at, draw(st.integers(0, 10**11)), 0))
    for rate in rates:
        rate.volumes = draw(st.integers(0, rate.price))
    capacity = draw(
        st.fixed_dictionaries(
            {"cpu": st.integers(0, 64_000), "memory": st.integers(0, 256 * _GIB)},
            optional={"nvidia.com/gpu": st.integers(0, 8)},
        )
    )
    return Instance(f"i-{number}", start, rates, end, node=f"n{number}", capacity=capacity)


@st.composite
def _facts(draw: st.DrawFn) -> Facts:
    machines = [draw(_instances(number)) for number in range(draw(st.integers(1, 4)))]
    pods = []
    for number in range(draw(st.integers(0, 8))):
        start, end = draw(_spans())
        amounts = (("cpu", draw(st.integers(0, 32_000))), ("memory", draw(st.integers(0, 64 * _GIB))))
        team = draw(st.sampled_from(("a", "b", "")))
        work = Workload(
            namespace=draw(st.sampled_from(("shop", "batch"))),
            kind="deployment",
            owner="web",
            labels=(("team", team),) if team else (),
            containers=(("app", amounts), ("side", (("cpu", 100),))),
        )
        run = PodRun(f"p{number}", work, draw(st.sampled_from(machines)).id, start, end)
        for at in draw(st.lists(_INSTANTS, max_size=3)):
            run.measured(at, draw(st.integers(0, 64_000)), draw(st.integers(0, 64 * _GIB)))
        pods.append(run)
    volumes = []
    for number in range(draw(st.integers(0, 2))):
        start, end = draw(_spans())
        claim = draw(st.sampled_from(("", "shop/data")))
        volume = VolumeRun(f"pv-{number}", start, draw(st.integers(0, 10**9)), 10 * _GIB, end, claim)
        for pod in draw(st.lists(st.sampled_from(pods), max_size=3)) if pods else ():
            volume.mounts.append((f"{pod.workload.namespace}/{pod.name}", *draw(_spans())))
        volumes.append(volume)
    return Facts("c1", 0, _END, {one.id: one for one in machines}, pods, volumes)


_QUESTIONS = st.builds(
    Options,
    aggregate=st.sampled_from(("namespace", "label:team", "node", "pod", "all", "")).map(
        lambda name: parse_keys([name] if name else [])
    ),
    include_idle=st.just(True),
    idle_by_node=st.booleans(),
    share_idle=st.booleans(),
    split_idle=st.booleans(),
    share=st.sampled_from(('namespace:"batch"', 'label[team]:"a"', "")).map(parse_filter),
    share_split=st.sampled_from(("__even__", "__weighted__")),
    accumulate=st.sampled_from(("", "all", "day")),
    whole=st.just(True),
)


@given(
    facts=_facts(),
    question=_QUESTIONS,
    start=_INSTANTS,
    step=st.sampled_from((HOUR,)),
    hours=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_parts_sum_to_the_bill(facts: Facts, question: Options, start: int, step: int, hours: int) -> None:
    window = Window(start, start + hours * HOUR)
    answers = shares_of(stepped(facts, window.steps(step)), question)
    assert sum(one.total for one in answers) == facts.bill(window.start, min(window.end, facts.end))


@given(facts=_facts())
@settings(max_examples=30, deadline=None)
def test_disks_apart_leave_the_rest(facts: Facts) -> None:
    window = Window(0, _END)
    question = Options(include_idle=True, whole=True)
    (apart,) = shares_of([allocations(facts, window, disks=True)], question)
    disks = sum(one.billed(_END, volumes=True) for one in facts.instances.values())
    assert apart.total + disks == facts.bill(0, _END)


@given(facts=_facts(), by_node=st.booleans(), name=st.sampled_from(("namespace", "label:team", "pod")))
@settings(max_examples=40, deadline=None)
def test_shares_of_assets_and_idle_are_whole(facts: Facts, by_node: bool, name: str) -> None:
    """What groups bear of a node or the cluster, and what is idle of it, sum to what it cost."""
    made, nodes = allocations(facts, Window(0, _END), disks=True)
    shares = asset_shares(made, nodes, Options(parse_keys([name]), include_idle=True, idle_by_node=by_node))
    add_idle(made, nodes)
    for place, whole in shares.whole.items():
        idle = [one for one in made if one.is_idle and (not by_node or one.properties.node == place[1])]
        for resource in RESOURCES:
            borne = sum(places[place][resource] for places in shares.groups.values() if place in places)
            assert borne + sum(one.cost[resource] for one in idle) == whole[resource]


@given(amount=st.integers(-(10**15), 10**15), weights=st.lists(st.integers(-5, 10**12), max_size=6))
def test_proportional_parts_sum(amount: int, weights: list[int]) -> None:
    parts = proportional(amount, {str(index): weight for index, weight in enumerate(weights)})
    assert sum(parts.values()) == (amount if any(weight > 0 for weight in weights) else 0)


def test_a_container_bears_what_it_asks_of_its_node() -> None:
    """Half the cores and a quarter of the memory for half the time, memory by the ratio of OpenCost."""
    machine = Instance(
        "i-1", 0, [Rate(0, 384_000_000)], node="n1", capacity={"cpu": 8_000, "memory": 32 * _GIB}
    )
    work = Workload("shop", containers=(("app", (("cpu", 4_000), ("memory", 8 * _GIB))),))
    facts = Facts("c1", 0, HOUR, {"i-1": machine}, [PodRun("p", work, "i-1", 0, 30 * MINUTE)])
    (answer,) = shares_of([allocations(facts, Window(0, HOUR))], Options(("namespace",), include_idle=True))
    shop, idle = answer.to_json()["shop"], answer.to_json()[IDLE]
    ram = 384_000_000 / (8 * 31_611 / 4_237 + 32)  # for a GiB
    assert shop["ramCost"] == pytest.approx(8 * ram / 2 / 1e9, abs=1e-5)
    assert shop["cpuCost"] == pytest.approx(4 * 31_611 / 4_237 * ram / 2 / 1e9, abs=1e-5)
    assert shop["cpuCoreHours"] == 2
    assert answer.total == 384_000_000
    assert idle["totalCost"] == pytest.approx(0.384 - shop["totalCost"], abs=1e-5)


def test_what_was_measured_counts_where_it_is_more_than_the_requests() -> None:
    """Each day's mean, by how much of the day is asked for; containers have the parts that they request."""
    day = 24 * HOUR
    machine = Instance("i-1", 0, [Rate(0, 10**9)], node="n1", capacity={"cpu": 8_000, "memory": 32 * _GIB})
    containers = (("app", (("cpu", 3_000), ("memory", 2 * _GIB))), ("side", (("cpu", 1_000),)))
    run = PodRun("p", Workload("shop", containers=containers), "i-1", 0)
    for at, cpu in ((0, 1_000), (HOUR, 3_000), (day, 8_000)):
        run.measured(at, cpu, _GIB)
    assert run.mean_use(0, day) == {"cpu": 2_000, "memory": _GIB}
    assert run.mean_use(12 * HOUR, 36 * HOUR) == {"cpu": 5_000, "memory": _GIB}
    assert run.mean_use(3 * day, 4 * day) == {}
    facts = Facts("c1", 0, 2 * day, {"i-1": machine}, [run])
    first, second = (
        shares_of(
            [allocations(facts, Window(start, start + day))], Options(("namespace",), include_idle=True)
        )
        for start in (0, day)
    )
    shown = first[0].to_json()["shop"]
    assert (shown["cpuCores"], shown["cpuCoreRequestAverage"], shown["cpuCoreUsageAverage"]) == (4, 4, 2)
    assert (shown["cpuEfficiency"], shown["ramEfficiency"]) == (0.5, 0.5)
    assert shown["totalEfficiency"] == 0.5
    assert second[0].to_json()["shop"]["cpuCores"] == 8
    assert first[0].total == second[0].total == 24 * 10**9
    (apart,) = shares_of([allocations(facts, Window(0, day))], Options(("container",)))
    used = {one.name: one.usage["cpu"] for one in apart}
    assert used == {"app": 1.5, "side": 0.5}


def test_a_window_knows_nothing_beyond_the_record() -> None:
    facts = Facts("c1", 0, HOUR, {"i-1": Instance("i-1", 0, [Rate(0, 10**9)], node="n1")})
    (answer,) = shares_of([allocations(facts, Window(0, 24 * HOUR))], Options(include_idle=True, whole=True))
    assert answer.total == 10**9


_NAMES = {"cluster": "c1", "node": "n1", "namespace": "shop", "pod": "web-1", "container": "app"}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("", True),
        ('namespace:"shop"', True),
        ('namespace:"shop","batch"', True),
        ('namespace!:"shop","batch"', False),
        ('namespace!:"a","b"', True),
        ('namespace~:"ho"', True),
        ('namespace!~:"ho"', False),
        ('pod<~:"web"', True),
        ('pod!<~:"web"', False),
        ('pod~>:"-1"', True),
        ('pod!~>:"-1"', False),
        ('controllerName:"__unallocated__"', True),
        ('controllerKind:"deployment"', False),
        ('label[team]:"a"', True),
        ('label[app.kubernetes.io/name]:"x"', True),
        ('label[none]!:"a"', True),
        ('label:"team"', True),
        ('label!:"team"', False),
        ('label<~:"te"', True),
        ('team:"a"', True),
        ('owner:"__unallocated__"', True),
        ('services:"web"', True),
        ('services~:"we"', False),
        ('services<~:"we"', True),
        ('namespace:"shop" + pod:"web-1"', True),
        ('namespace:"shop"+pod:"web-2"', False),
        ('namespace:"no"|pod:"web-1"', True),
        ('(namespace:"no"|pod:"web-1")+node:"n1"', True),
        ('((node:"n1"))', True),
    ],
)
def test_filters(text: str, met: bool) -> None:
    properties = Properties(
        **_NAMES, labels={"team": "a", "app_kubernetes_io_name": "x"}, services=("web", "api")
    )
    test = parse_filter(text)
    assert (test is None or test(properties)) is met


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("namespace", "at end: expect filter op like ':', '!:', '~:', or '!~:'"),
        ("namespace:shop", "at 'shop': expect string as filter value"),
        ('names:"shop"', "at 'names': expect filter field"),
        ('namespace:"shop', "lexing filter: 1 error occurred:\n\t* unterminated string starting at 10"),
        ('namespace:"a"+pod:"b"|pod:"c"', 'Found "or", Expected "plus"'),
        ('(namespace:"a"', "Found '(' without matching ')'"),
        ('namespace:"a")', "Found ')' without matching '('"),
        ("namespace=a", "unexpected character '=' at position 9"),
        ('pod!"x"', "Position 3: Unexpected '!'"),
        ('pod~"x"', "Position 3: Unexpected '~'"),
    ],
)
def test_filters_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="filter: ") as caught:
        parse_filter(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("yesterday", "2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"),
        ("month", "2026-03-01T00:00:00Z", "2026-03-11T10:37:21Z"),
        ("7d", "2026-03-05T00:00:00Z", "2026-03-12T00:00:00Z"),
        ("45m", "2026-03-11T09:53:00Z", "2026-03-11T10:38:00Z"),
        ("2h offset 30m", "2026-03-11T08:07:21Z", "2026-03-11T10:07:21Z"),
        ("1w offset 1w", "2025-09-17T10:37:21Z", "2025-09-24T10:37:21Z"),
        ("1772409600-1772496000", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"),
    ],
)
def test_windows(text: str, start: str, end: str) -> None:
    window = parse_window(text, parse_rfc3339("2026-03-11T10:37:21Z"))
    assert (to_rfc3339(window.start), to_rfc3339(window.end)) == (start, end)


@pytest.mark.parametrize(
    "text", ["99999999999999999999d", "2026-13-01T00:00:00Z,2026-13-02T00:00:00Z", "1d "]
)
def test_windows_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^illegal window: "):
        parse_window(text, parse_rfc3339("2026-03-11T10:37:21Z"))


def test_facts_of_a_log() -> None:
    """A pod is charged from when it is bound until it ends, to the instance of its node."""
    kinds: list[dict[str, Any]] = [
        {"t": 0, "kind": "instance.started", "instance": "i-1", "claim": "c", "price": 5, "volumes": 1},
        {
            "t": 10,
            "kind": "node.created",
            "node": "n1",
            "claim": "c",
            "pool": "web",
            "capacity": {"cpu": 2_000},
        },
        {
            "t": 20,
            "kind": "pod.created",
            "pod": "shop/web-abc-1",
            "owner": "ReplicaSet/web-abc",
            "requests": {"cpu": 300, "pods": 1},
            "labels": {"pod-template-hash": "abc", "team": "a"},
            "containers": {"app": {"cpu": 100}, "side": {"cpu": 200}},
        },
        {"t": 30, "kind": "pod.bound", "pod": "shop/web-abc-1", "node": "n1"},
        {"t": 40, "kind": "node.ready", "node": "n1"},
        {"t": 50, "kind": "disrupted", "claim": "c", "reason": "underutilized"},
        {"t": 60, "kind": "pod.deleted", "pod": "shop/web-abc-1", "node": "n1"},
        {"t": 70, "kind": "instance.terminated", "instance": "i-1"},
    ]
    facts = read_facts(kinds, 100)
    one = facts.instances["i-1"]
    assert (one.start, one.end, one.ready, one.ending, one.why) == (0, 70, 40, 50, "underutilized")
    (run,) = facts.pods
    assert (run.instance, run.start, run.end) == ("i-1", 30, 60)
    assert (run.workload.kind, run.workload.owner) == ("deployment", "web")
    assert run.workload.containers == (("app", (("cpu", 100),)), ("side", (("cpu", 200),)))
