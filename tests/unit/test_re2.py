"""Regular expressions as Go reads them: what is the same, what is translated, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.units.re2 import compile_re2


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        (".*", ("", "x"), ()),
        ("XID(46|48)", ("XID46", "a XID48,XID79"), ("XID4", "xid46")),
        ("(?i)xid", ("XID", "xId"), ("x",)),
        ("(?i)a|b", ("A", "B"), ("c",)),
        ("(?i:x)y", ("Xy",), ("XY",)),
        ("(?-s:.)", ("a",), ("\n",)),
        ("(?s).", ("\n",), ()),
        ("a$", ("a", "ba"), ("a\n", "ab")),
        ("(?m)a$", ("a\nb",), ("ab",)),
        (r"a\z", ("a",), ("a\n",)),
        (r"\Aa", ("ab",), ("ba",)),
        (r"\Qa.b\E+", ("a.bb",), ("axb",)),
        (r"\Qa.", ("a.",), ("ax",)),
        ("a{,2}", ("a{,2}",), ("aa",)),
        ("a{2,}", ("aaa",), ("a",)),
        ("^[[:alpha:]_]+$", ("a_b",), ("a1", "é")),
        (r"^\d+$", ("12",), ("١٢",)),
        ("[^]a]", ("b",), ("]a",)),
        ("[[&&]", ("[", "&"), ("a",)),
        (r"\x{1F600}|\x41", ("😀", "A"), ("B",)),
        ("(?P<one>a)(?<two>b)", ("ab",), ("a",)),
        ("(ab){2,}(?:c|d)?", ("ababab",), ("ab",)),
        ("x{", ("x{",), ("x",)),
    ],
)
def test_read_as_in_go(text: str, found: tuple[str, ...], missed: tuple[str, ...]) -> None:
    pattern = compile_re2(text)
    assert all(map(pattern.search, found))
    assert not any(map(pattern.search, missed))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        ("(a)(?(1)b)", "invalid or unsupported Perl syntax: `(?(`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\x{110000}", r"invalid escape sequence: `\x`"),
        ("\\", "trailing backslash"),
        ("[[:big:]]", "invalid character class range: `[:big:]`"),
        ("[b-a]", "bad character range b-a"),
        ("a(?i)b", "flags are read at the beginning only"),
        ("(a+)+", "repeated without an end"),
        ("(a|b)*", "repeated without an end"),
        ("((ab?)c){2,}", "repeated without an end"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        compile_re2(text)


@given(st.text(alphabet=r"ab\(){}[]|*+?^$.,:<>=!Pz1Qi-&~", max_size=12))
def test_nothing_else_is_raised(text: str) -> None:
    try:
        pattern = compile_re2(text)
    except ValueError as error:
        assert str(error)
    else:
        pattern.search("abab(]x" * 8)
