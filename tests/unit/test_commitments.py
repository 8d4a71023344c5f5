"""Savings plans, reserved instances and licences: what is paid, to the nano-dollar, and by which file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.base.clock import HOUR, MINUTE
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cost.aggregate import Options, parse_keys, shares_of
from dovetail.cost.allocation import UNUSED
from dovetail.cost.commitments import Commitment, Licence, Terms, UnderTerms, applied, uses
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Workload
from dovetail.cost.ledger import allocations, stepped
from dovetail.cost.store import StoreFile, write_facts
from dovetail.cost.window import Window
from dovetail.simulate.scenario.commitments import read_terms

_Text = pytest.CaptureFixture[str]
_DOLLAR = 10**9
_CPU = {"cpu": 2_000, "memory": 8 << 30}


def _machine(name: str, price: int, start: int = 0, end: int | None = None, **about: str) -> Instance:
    kind = about.get("instance_type", "m5.large")
    return Instance(
        name,
        start,
        [Rate(start, price)],
        end,
        node=name,
        instance_type=kind,
        zone=about.get("zone", "us-east-1a"),
        capacity_type=about.get("capacity_type", "on-demand"),
        pool=about.get("pool", "web"),
        capacity=_CPU,
    )


def _facts(end: int, *machines: Instance) -> Facts:
    return Facts("c1", 0, end, {one.id: one for one in machines})


def _plan(hourly: int, **about: object) -> Commitment:
    return Commitment("plan", hourly, discount=250_000, **about)  # type: ignore[arg-type]


def _billed(facts: Facts, *commitments: Commitment) -> Facts:
    return applied(facts, Terms(commitments), 0, facts.end)


def test_an_amount_pays_for_more_than_it_is() -> None:
    """$0.75 an hour at 25 % off pay for $1 of machines at list price; the rest of them is paid as listed."""
    facts = _facts(2 * HOUR, *(_machine(f"i-{number}", _DOLLAR // 2) for number in range(4)))
    found = _billed(facts, _plan(75 * _DOLLAR // 100))
    assert found.bill(0, 2 * HOUR) == 2 * (75 * _DOLLAR // 100 + _DOLLAR)
    assert [one.billed(HOUR) for one in found.instances.values()] == [375_000_000] * 2 + [500_000_000] * 2
    assert [(one.due, one.left) for one in uses(found, 0, 2 * HOUR)] == [(1_500_000_000, 0)]


def test_what_is_not_used_is_paid_as_well() -> None:
    """A machine of half an hour uses some; the rest is a line of its own, a window's too."""
    facts = _facts(HOUR, _machine("i-1", _DOLLAR, end=30 * MINUTE))
    found = _billed(facts, _plan(_DOLLAR))
    assert found.instances["i-1"].billed(HOUR) == 375_000_000
    assert found.bill(0, HOUR) == _DOLLAR
    assert found.bill(30 * MINUTE, HOUR) == 312_500_000
    (made,) = shares_of([allocations(found, Window(0, HOUR))], Options(("namespace",), include_idle=True))
    assert {one.name: one.total for one in made} == {UNUSED: 625_000_000, "__idle__": 375_000_000}
    assert uses(found, 0, HOUR)[0].next_hour == 625_000_000


@pytest.mark.parametrize(
    ("commitment", "machine", "covered"),
    [
        (_plan(_DOLLAR), {}, True),
        (_plan(_DOLLAR), {"capacity_type": "spot"}, False),
        (_plan(_DOLLAR), {"capacity_type": "reserved"}, False),
        (_plan(_DOLLAR, families=("c5",)), {}, False),
        (_plan(_DOLLAR, families=("m5", "c5")), {}, True),
        (_plan(_DOLLAR, zones=("us-east-1b",)), {}, False),
        (Commitment("r", _DOLLAR, rates={"m5.large": 1}), {"instance_type": "m5.xlarge"}, False),
        (_plan(_DOLLAR, start=HOUR), {}, False),
        (_plan(_DOLLAR, end=HOUR), {}, True),
    ],
)
def test_what_is_covered(commitment: Commitment, machine: dict[str, str], covered: bool) -> None:
    facts = _facts(HOUR, _machine("i-1", _DOLLAR, **machine))
    assert (_billed(facts, commitment).instances["i-1"].billed(HOUR) < _DOLLAR) is covered


def test_reserved_instances_come_first_and_what_saves_most() -> None:
    machines = [_machine("a", _DOLLAR), _machine("b", _DOLLAR, instance_type="c5.large")]
    reserved = Commitment("r", _DOLLAR // 2, rates={"c5.large": _DOLLAR // 2}, reserved=True)
    found = _billed(_facts(HOUR, *machines), _plan(_DOLLAR), reserved)
    assert {one.id: one.billed(HOUR) for one in found.instances.values()} == {
        "a": 750_000_000,
        "b": 500_000_000,
    }
    rates = Commitment(
        "s", 6 * _DOLLAR // 10, rates={"m5.large": 9 * _DOLLAR // 10, "c5.large": 6 * _DOLLAR // 10}
    )
    found = _billed(_facts(HOUR, *machines), rates)
    assert found.instances["b"].billed(HOUR) == 600_000_000
    assert found.instances["a"].billed(HOUR) == _DOLLAR


def test_a_licence_is_paid_for_each_core() -> None:
    windows = Licence("windows", 46_000_000, pools=("windows",))
    machines = _machine("a", _DOLLAR), _machine("w", _DOLLAR, pool="windows")
    found = applied(_facts(HOUR, *machines), Terms(licences=(windows,)), 0, HOUR)
    assert found.bill(0, HOUR) == 2 * _DOLLAR + 92_000_000


@st.composite
def _runs(draw: st.DrawFn) -> Facts:
    machines = []
    for number in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, 5 * HOUR))
        end = draw(st.none() | st.integers(start, 6 * HOUR))
        one = _machine(f"i-{number}", draw(st.integers(0, 10**10)), start, end)
        for at in sorted(draw(st.lists(st.integers(start, 6 * HOUR), max_size=2))):
            one.rates.append(Rate(at, draw(st.integers(0, 10**10))))
        for rate in one.rates:
            rate.volumes = draw(st.integers(0, rate.price))
        machines.append(one)
    facts = _facts(6 * HOUR - draw(st.integers(0, HOUR)), *machines)
    facts.start = draw(st.integers(0, HOUR))
    work = Workload("shop", containers=(("app", (("cpu", 700),)),))
    facts.pods = [PodRun("p", work, one.id, one.start, one.end) for one in machines]
    return facts


_COMMITMENTS = st.lists(
    st.builds(
        Commitment,
        name=st.sampled_from(("a", "b")),
        hourly=st.integers(1, 10**10),
        discount=st.integers(1, 999_999),
        start=st.none() | st.integers(0, 6 * HOUR),
        reserved=st.booleans(),
    ),
    max_size=2,
    unique_by=lambda one: one.name,
)


@given(facts=_runs(), commitments=_COMMITMENTS, name=st.sampled_from(("namespace", "node", "all")))
@settings(max_examples=80, deadline=None)
def test_parts_sum_to_what_is_paid(facts: Facts, commitments: list[Commitment], name: str) -> None:
    """Commitments are due whole, what they pay for is not paid twice, and groups sum to the bill."""
    found = applied(facts, Terms(tuple(commitments)), 0, 6 * HOUR)
    due = sum(one.due for one in uses(found, 0, 6 * HOUR))
    left = sum(one.left for one in found.unused)
    bill = found.bill(0, found.end)
    pieces = 20 * len(found.instances)  # each price is rounded by less than a nano-dollar
    assert due - pieces <= bill <= facts.bill(0, facts.end) + left + pieces
    windows = Window(0, 6 * HOUR).steps(HOUR + 7)
    question = Options(parse_keys([name]), include_idle=True, whole=True)
    answers = shares_of(stepped(found, windows), question)
    assert sum(one.total for one in answers) == found.bill(0, found.end)


def test_a_window_sees_what_else_ran_in_its_hours(tmp_path: Path) -> None:
    """The same is paid for an hour whoever asks for which part of it, and whatever came before."""
    machines = [_machine("a", _DOLLAR, end=HOUR + 20 * MINUTE), _machine("b", _DOLLAR)]
    facts = _facts(3 * HOUR, *machines)
    path = tmp_path / "cost.db"
    write_facts(facts, path)
    terms = Terms((_plan(_DOLLAR),))
    whole = _billed(facts, *terms.commitments)
    past = UnderTerms(StoreFile(path), terms)
    for start, end in ((0, 3 * HOUR), (HOUR + 30 * MINUTE, 2 * HOUR), (2 * HOUR, 3 * HOUR)):
        assert past.read(start, end).bill(start, end) == whole.bill(start, end)


_FILE = """
savingsPlans:
- {name: compute, hourly: 10.00, discount: 28%, start: "2026-01-01T00:00:00Z", end: "2027-01-01T00:00:00Z"}
- {name: m5, hourly: "2", rates: {m5.large: 0.069}, instanceFamilies: [m5]}
reservedInstances:
- {name: db, instanceType: r5.large, count: 3, hourly: 0.079, zone: us-east-1a}
licences:
- {name: windows, perCoreHour: 0.046, pools: [windows]}
"""


def test_the_file(tmp_path: Path) -> None:
    path = tmp_path / "terms.yaml"
    path.write_text(_FILE)
    terms = read_terms(path)
    compute, family, reserved = terms.commitments
    assert (compute.hourly, compute.discount) == (10 * _DOLLAR, 280_000)
    assert (family.rates, family.families) == ({"m5.large": 69_000_000}, ("m5",))
    assert (reserved.hourly, reserved.zones, reserved.reserved) == (237_000_000, ("us-east-1a",), True)
    assert terms.licences == (Licence("windows", 46_000_000, ("windows",)),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "a map of lists"),
        ("{}", "there is nothing in it"),
        ("savingsplans: []", "did you mean 'savingsPlans'"),
        ("savingsPlans: [{name: a, hourly: 1}]", "a discount or rates"),
        ("savingsPlans: [{name: a, hourly: 1, discount: 28}]", "savingsPlans[0].discount"),
        ("savingsPlans: [{name: a, hourly: 1, discount: 128%}]", "'128%' is no discount such as 28%"),
        ("savingsPlans: [{name: a, hourly: much, discount: 28%}]", "'much' is not an amount of dollars"),
        ("savingsPlans: [{name: a, hourly: 1, discount: 2%, start: soon}]", "savingsPlans[0].start"),
        ("reservedInstances: [{name: a, instanceType: m5.large, hourly: 0}]", "it must be more than 0"),
        (
            "reservedInstances: [{name: a, instanceType: m5.large, hourly: 1, count: 0}]",
            "no number of instances",
        ),
        ("licences: [{name: w, perCoreHour: 0.04}]", "names neither pools nor instanceTypes"),
        ("licences: [{name: w, perCoreHour: 1, pools: [a]}, {name: w, perCoreHour: 1, pools: [a]}]", "'w'"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, capsys: _Text, text: str, complaint: str) -> None:
    path = tmp_path / "terms.yaml"
    path.write_text(text)
    for command in (["cost", "x.db"], ["serve", "x.db"], ["run", "--cost-store", "x.db"]):
        flag = "--cost-commitments" if command[0] == "run" else "--commitments"
        assert run([*command, flag, str(path)]) == BAD_INPUT
        error = " ".join(capsys.readouterr().err.split())
        assert complaint in error
        assert str(path) in error


def test_the_command_shows_what_is_used(tmp_path: Path, capsys: _Text) -> None:
    path, terms = tmp_path / "cost.db", tmp_path / "terms.yaml"
    write_facts(_facts(HOUR, _machine("i-1", _DOLLAR, end=30 * MINUTE)), path)
    terms.write_text("savingsPlans: [{name: compute, hourly: 1, discount: 25%}]")
    command = ["cost", str(path), "--commitments", str(terms)]
    assert run([*command, "-o", "json"]) == OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["bill"] == answer["total"] == "1.000000000"
    (plan,) = answer["commitments"]
    assert (plan["due"], plan["unused"], plan["unusedAnHour"]) == (
        "1.000000000",
        "0.625000000",
        "0.625000000",
    )
    assert run(command) == OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "compute: 37.5% of $1.0000 is used; $0.6250 an hour more would cost nothing." in shown


def test_a_simulation_is_paid_under_the_commitments_of_its_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the cent as the command that counts any past says of its event log."""
    events, terms, page = tmp_path / "events.jsonl", tmp_path / "terms.yaml", tmp_path / "report.html"
    terms.write_text('savingsPlans: [{name: savings plan, hourly: 0.2, discount: "28%"}]')
    plan = ("--savings-plan", "0.2")
    given = (*plan, "--events", str(events), "--report", str(page), "-o", "json")
    assert run(["simulate", "examples/burst", *given]) == OK
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert run(["cost", str(events), "--commitments", str(terms), "-o", "json"]) == OK
    said = json.loads(capsys.readouterr().out)
    assert cost["paid"] == pytest.approx(float(said["bill"]), abs=1e-4) and cost["paid"] < cost["total"]
    assert f"Under the commitments ${cost['paid']:.4f} are paid" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--savings-plan", "lots"), "--savings-plan"),
        (("--savings-plan", "1", "--savings-plan-discount", "all"), "--savings-plan-discount"),
        (("--savings-plan", "0"), "must be more than 0"),
    ],
)
def test_what_is_no_savings_plan(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "examples/burst", *flags]) == BAD_INPUT
    assert words in capsys.readouterr().err
