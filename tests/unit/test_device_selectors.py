"""Selectors of devices: what they answer, what they refuse, and that none takes long."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.devices import Device
from dovetail.devices.cel import CompileError, EvaluationError, selector
from dovetail.devices.cel_library import MOST_STEPS, Meter, Semver
from dovetail.devices.cel_syntax import DEEPEST, LONGEST
from dovetail.devices.environment import device_value

DEVICE = device_value(
    "gpu.example.com",
    decode(
        {
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "NVIDIA A100-SXM4"},
                "index": {"int": 3},
                "healthy": {"bool": True},
                "compute": {"version": "8.0.0"},
                "broken": {"version": "eight"},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            },
            "capacity": {"memory": {"value": "40Gi"}},
            "allowMultipleAllocations": True,
        },
        Device,
    ),
)
OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


def matches(text: str) -> bool:
    return selector(text).matches(DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        'device.driver == "gpu.example.com"',
        "device.allowMultipleAllocations",
        f'{OWN}.model.lowerAscii().matches("^.*a100.*$")',
        f'{OWN}["model"].contains("SXM") && {OWN}.index in [1, 3]',
        f"{OWN}.healthy && !({OWN}.index < 3)",
        f'{OWN}.compute.isGreaterThan(semver("7.5.0"))',
        f'{OWN}.compute.compareTo(semver("v8", true)) == 0',
        f'{OWN}.compute == semver("8.0.0") && {OWN}.compute.major() == 8',
        f'{MEMORY}.compareTo(quantity("40Gi")) == 0',
        f'{MEMORY}.isLessThan(quantity("41Gi")) && {MEMORY}.sub(quantity("1Gi")).asInteger() == 41875931136',
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',
        f'has({OWN}.model) && !has({OWN}.other) && "index" in {OWN}',
        'device.attributes["elsewhere.example.com"].size() == 0',
        f'{OWN}.missing == "x" || {OWN}.index == 3',
        f'{OWN}.index == 3 || {OWN}.missing == "x"',
        f'!({OWN}.missing == "x" && {OWN}.index == 4)',
        f'cel.bind(a, {OWN}, a.index == 3 && a.model.startsWith("NVIDIA"))',
        f'["T4", "A100"].exists(m, {OWN}.model.contains(m))',
        "[1, 2, 3].all(n, n > 0) && [1, 2, 3].exists_one(n, n == 2) && [3, 1].map(n, n * 2) == [6, 2]",
        "[1, 2, 3].filter(n, n % 2 == 1).size() == 2 && {'a': 1}.all(k, k == 'a')",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
        "[1, 2].isSorted() && [1, 2].sum() == 3 && [4, 2].min() == 2 && [4, 2].max() == 4",
        '"a-b-c".split("-").join("+") == "a+b+c" && "abc".substring(1, 2) == "b" && "abc".indexOf("c") == 2',
        '"x1y22".findAll("[0-9]+") == ["1", "22"] && "x1".find("[0-9]") == "1"',
        'isQuantity("1Gi") && !isQuantity("x") && isSemver("1.2.3") && !isSemver("1.2")',
        "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1 && 7u > 6u && 1.5 < 2.0",
        "1 == 1.0 && 1u == 1 && 'a' != 1 && (true ? 1 : 2) == 1 && 0x10 == 16",
        r"'\x41\u00e9\"' == 'Aé\"' && r'\n' == '\\n' && '''a'b'''.size() == 3",
        "string(3) == '3' && int('12') == 12 && double(2) == 2.0 && type(1) == int && dyn(1) == 1",
        "// what it is for\ndevice.driver != ''",
    ],
)
def test_is_true_of_the_device(text: str) -> None:
    assert matches(text) is True


@pytest.mark.parametrize(
    "text",
    [
        # Fields and items that need not be there; what follows one need not be there either.
        f'{OWN}.?model.orValue("") == "NVIDIA A100-SXM4" && {OWN}.?missing.orValue("x") == "x"',
        f"{OWN}.?healthy.orValue(false)",
        f'{OWN}[?"index"].hasValue() && !{OWN}[?"missing"].hasValue()',
        f"{OWN}.?compute.value().major() == 8",
        f'{MEMORY.replace(".memory", ".?memory")}.orValue(quantity("0")).isGreaterThan(quantity("1Gi"))',
        'device.?driver == optional.of("gpu.example.com")',
        'device.attributes[?"gpu.example.com"].model == optional.of("NVIDIA A100-SXM4")',
        'device.attributes[?"gpu.example.com"].missing.further == optional.none()',
        'device.attributes[?"elsewhere.example.com"].?x == optional.none()',
        'device.attributes["elsewhere.example.com"].?x.orValue(3) == 3',
        "[1, 2][?1] == optional.of(2) && [1, 2][?2] == optional.none() && [1][?-1] == optional.none()",
        "{'a': {'b': 1}}.?a.b == optional.of(1) && {'a': {'b': 1}}.?a['c'] == optional.none()",
        "{'a': [1]}[?'a'][0].orValue(2) == 1 && dyn(1).?a == optional.none()",
        "has({'a': {'b': 1}}.?a.b) && !has({'a': {'b': 1}}.?a.c)",
        # What is made of them.
        "optional.of(1) != optional.of(2) && optional.of(1) == optional.of(1.0) && optional.of(1) != 1",
        "optional.none() == optional.none() && optional.of(null).hasValue()",
        "optional.ofNonZeroValue('') == optional.none() && optional.ofNonZeroValue('a').value() == 'a'",
        "[0, false, 0.0, 0u, b'', [], {}, null].all(z, !optional.ofNonZeroValue(z).hasValue())",
        "optional.none().or(optional.of(2)).orValue(3) == 2",
        "optional.of(1).or(optional.of(2)).value() == 1",
        "optional.of(1).orValue(1 / 0) == 1 && optional.of(1).or(optional.of(1 / 0)).hasValue()",
        "optional.of(2).optMap(v, v * 2) == optional.of(4)",
        "optional.none().optMap(v, v / 0) == optional.none()",
        "optional.of({'a': 1}).optFlatMap(m, m.?a) == optional.of(1)",
        "optional.of({'a': 1}).optFlatMap(m, m.?b) == optional.none()",
        "(true ? optional.of(1) : optional.none()).value() == 1",
        # Items of lists and maps that are left out.
        "[1, ?optional.of(2), ?optional.none(), 4] == [1, 2, 4] && [?optional.none()].size() == 0",
        "{'a': 1, ?'b': optional.of(2), ?'c': optional.none()} == {'a': 1, 'b': 2}",
        f"[?{OWN}.?index, ?{OWN}.?missing] == [3] && [{OWN}.?index][0].value() == 3",
        f"[{OWN}.?index, {OWN}.?missing].exists(o, o.orValue(4) == 4)",
    ],
)
def test_what_may_be_missing(text: str) -> None:
    assert matches(text) is True


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("optional.none().value() == 1", "optional.none() dereference"),
        (f"{OWN}.?missing.value() == 1", "optional.none() dereference"),
        (f"{OWN}.model.orValue('') == ''", "no such overload"),
        (f"[?{OWN}.model].size() == 1", "no such overload"),
        (f"{OWN}.?broken.orValue(1) == 1", "is not a version"),
        (f"{OWN}.?model.orValue('')", "is string, not bool"),
        ("[1][?dyn('a')].hasValue()", "no such overload"),
        ("{?'a': optional.of(1), ?'a': optional.none()} == {}", "repeated key a"),
    ],
)
def test_what_may_be_missing_has_no_answer(text: str, fault: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(fault)):
        matches(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("device.?node.hasValue()", "undefined field 'node'"),
        ("'a'.?b == 1", "type 'string' does not support field selection"),
        ("[?1] == [1]", "expected type 'optional_type(dyn)' but found 'int'"),
        ("{?'a': 1} == {}", "expected type 'optional_type(dyn)' but found 'int'"),
        ("size(?optional.of(1)) == 1", "syntax error"),
        ("device.?driver()", "an operator or the end is missing"),
        ("optional.of() == 1", "undeclared reference to 'optional.of'"),
        ("optional.some(1) == 1", "undeclared reference to 'optional.some'"),
        ("device.driver.orValue('') == ''", "found no matching overload for 'orValue' applied to 'string'"),
        ("device.?driver.orValue(1) == 1", "applied to '(optional_type(string), int)'"),
        ("optional.of(1).or(2) == 1", "found no matching overload for 'or' applied to 'int'"),
        ("device.?driver", "not optional_type(string)"),
        ("device.?driver + 'a' == 'a'", "applied to '(optional_type(dyn), string)'"),
        ("has(device.?driver)", "invalid argument to has() macro"),
        ("optional.of(1).optMap(2, 3) == 1", "must be a simple identifier"),
        ("optional.of(1).optFlatMap(v, v) == 1", "'optFlatMap' applied to 'int'"),
    ],
)
def test_what_may_be_missing_is_checked_when_it_is_compiled(text: str, fault: str) -> None:
    with pytest.raises(CompileError) as caught:
        selector(text)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "syntax error"),
        ("1 +", "syntax error"),
        ("foo(", "syntax error"),
        ("(1 == 1", r"'\)' is missing"),
        ("device.driver = 'a'", "begins nothing"),
        ("'a", "begins nothing"),
        (r"'\q' == ''", "is not an escape"),
        ("gpu == 1", "undeclared reference to 'gpu'"),
        ("device.node == 'a'", "undefined field 'node'"),
        ("exec('a')", "undeclared reference to 'exec'"),
        ("device.driver.exec()", "undeclared reference to 'exec'"),
        ("device.driver == 3 && size(3) == 1", "no matching overload for 'size'"),
        ("'a' + 1 == 'a1'", "no matching overload for '\\+'"),
        ("1 + 1.5 == 2.5", "no matching overload"),
        ("'text'", "must evaluate to bool or the unknown type, not string"),
        ("device.driver", "not string"),
        (MEMORY, "not kubernetes.Quantity"),
        ("'a' && true", "no matching overload for '_&&_'"),
        ("[1].all(n, n)[0] == 1", "no matching overload"),
        ("for == 1", "reserved identifier"),
        ("9223372036854775808 > 0", "beyond 64 bits"),
        ("(" * 300 + "true" + ")" * 300, "brackets inside each other"),
        ("!" * 300 + "true", f"more than {DEEPEST} levels"),
        ("1" + " + 1" * 300 + " > 0", f"more than {DEEPEST} levels"),
        ("true" + "[0]" * 300, "no matching overload|levels"),
        ("true" + " && true" * LONGEST, "longer than"),
    ],
)
def test_is_no_selector(text: str, fault: str) -> None:
    with pytest.raises(CompileError, match=fault):
        selector(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{OWN}.missing == 1", "no such key: missing"),
        (f"{OWN}.model", "is string, not bool"),
        (f"{OWN}.broken == 1", "is not a version"),
        (f"{OWN}.index > 'a'", "no such overload"),
        (f"{OWN}.index / 0 == 1", "division by zero"),
        (f"{OWN}.index + 9223372036854775807 > 0", "integer overflow"),
        ("[1][5] == 1", "index out of bounds"),
        (f"{OWN}.model.matches('(')", "error parsing regexp"),
        (f"{OWN}.missing == 1 || {OWN}.index == 4", "no such key"),
        ("quantity('much').sign() == 0", "quantities must match"),
    ],
)
def test_has_no_answer(text: str, fault: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(fault)):
        matches(text)


def nested(depth: int) -> str:
    ten, names = "[0,1,2,3,4,5,6,7,8,9]", [f"n{at}" for at in range(depth)]
    return "".join(f"{ten}.all({name}, " for name in names) + " + ".join(names) + " >= 0" + ")" * depth


def doubled(depth: int) -> str:
    lines = [f"cel.bind(x{at + 1}, x{at} + x{at}, " for at in range(depth)]
    return "cel.bind(x0, 'aaaaaaaaaaaaaaaa', " + "".join(lines) + f"x{depth}.size() > 0" + ")" * (depth + 1)


@pytest.mark.parametrize(
    "text",
    [
        nested(6),
        doubled(25),
        "'" + "a" * 5_000 + "'.matches('" + "(a*)*" * 900 + "b') || " + " || ".join(["'x' == 'y'"] * 20),
        "'" + "a" * 4_000 + "'.split('').map(x, '" + "b" * 4_000 + "').join().size() > 0",
        "'" + "a" * 4_000 + "'.replace('a', '" + "b" * 4_000 + "').size() > 0",
    ],
)
def test_what_would_take_long_ends(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"cost limit|error parsing regexp"):
        matches(text)


def test_an_ordinary_selector_takes_few_steps() -> None:
    meter = Meter()
    text = f"{OWN}.model.lowerAscii().matches('a100') && {MEMORY}.compareTo(quantity('20Gi')) >= 0"
    assert selector(text).matches(DEVICE, meter)
    assert MOST_STEPS - meter.left < 60


PIECES = st.sampled_from(
    re.findall(
        r"\S+",
        "device . attributes [ ] ( ) { } , : ? ! - + && || == in 'a' \"b\" 1 2.5 0u true null x all map has "
        "cel.bind size quantity('1') gpu.example.com capacity \\ ` 'unfinished r'\\d' matches /* // é",
    )
)


@given(st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60))
def test_whatever_is_written_there_is_an_answer_or_a_complaint(text: str) -> None:
    try:
        assert isinstance(selector(text).matches(DEVICE), bool)
    except (CompileError, EvaluationError) as error:
        assert str(error)


VERSIONS = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"]
VERSIONS += ["1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "2.0.0"]


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(VERSIONS)))
def test_versions_are_ordered_as_semver_says(lower: str, higher: str) -> None:
    first, second = Semver.read(lower), Semver.read(higher)
    assert first is not None
    assert second is not None
    assert first < second
    assert not second < first


@pytest.mark.parametrize(
    "text", ["1", "1.2", "01.2.3", "1.2.3-", "1.2.3-01", "v1.2.3", "", "1.2.3+", "1" * 300]
)
def test_is_no_version(text: Any) -> None:
    assert Semver.read(text) is None
